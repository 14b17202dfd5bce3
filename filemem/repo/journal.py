"""What is being saved, on disk before anything else is touched, so that a crash at any moment can be finished.

It lives in the Git directory that all work trees share: a linked work tree's own may be removed under us. One file per
save: a checksum and a line of JSON. When the save is done the file moves from `journal/` to `recent/` for a minute:
for so long a command of the user's that had begun before may undo it unseen. A file that cannot be read is reported
and passed over.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from filemem.changes import blob_id
from filemem.errors import BadInput, BrokenStore, Conflict, Locked, NotFound
from filemem.repo.objects import sync_folder, together, write_synced

KEEP = 60.0  # seconds that a finished save is looked after
_POLL = 0.004  # seconds between two tries for the lock
_HOLDER = 80  # bytes of the lock file that say who holds it
_OLD = 3600.0  # seconds after which a temporary file was left by a process that died
_KEY = re.compile(r"[A-Za-z][A-Za-z-]{0,40}")


class Message(NamedTuple):
    """A commit message: a subject (of one line, cut) and (key, value) trailers; empty values and odd keys go."""

    subject: str
    trailers: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """What the commit says: one subject line and one row of trailers, whatever callers put into them."""
        lines = ((key, _line(value, 400)) for key, value in self.trailers if _KEY.fullmatch(key))
        rows = [f"{key}: {text}\n" for key, text in lines if text]
        head = f"{_line(self.subject, 120) or 'record'}\n"
        return "\n".join((head, "".join(rows))) if rows else head


class Edit(NamedTuple):
    """What a commit does to one file."""

    path: str  # from the top of the work tree, with `/`
    data: bytes | None  # its new bytes; None removes it
    before: bytes | None  # those on disk that this was worked out from; None: no file may stand there
    blob: str = ""  # what HEAD holds for it afterwards, and
    old: str = ""  # what it held before; "" for nothing. Worked out by the save


class Plan(NamedTuple):
    """One commit to be made: what it does to which files, what it says, when (epoch ms)."""

    edits: tuple[Edit, ...]
    message: Message
    at: int


class Pending(NamedTuple):
    """A save that waits to be committed: the file, what the commit will say, why it waits, since when (epoch ms)."""

    path: str
    subject: str
    reason: str
    at: int


class Entry(NamedTuple):
    """One save in the journal."""

    file: Path
    worktree: str  # the name of its work tree
    branch: str  # the whole name of the branch that it is for; "" if not known
    commit: str  # the commit being made; "" where it waits
    message: Message
    edits: tuple[Edit, ...]
    at: int
    reason: str = ""  # why it waits

    @property
    def adds(self) -> bool:
        """Whether it only brings new files."""
        return all(edit.before is None and edit.data is not None for edit in self.edits)


class Journal:
    """The saves of all work trees of one repository that are not done, and those just done."""

    def __init__(self, folder: Path, worktree: str) -> None:
        self.worktree = worktree
        self._open, self._done = folder / "journal", folder / "recent"

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look at; cheap enough for every command."""
        return not _names(self._open) and not _names(self._done)

    def names(self) -> list[str]:
        """The names of what is not done, of all work trees."""
        return _names(self._open)

    def name(self, at: int) -> Path:
        """The file of a new entry; they sort in the order of the saves."""
        return self._open / f"{time.time_ns():020d}-{at:015d}-{os.getpid()}"

    def write(self, entry: Entry) -> None:
        """Keep an entry, durably; what its file held is replaced. Raises BrokenStore."""
        aside = self._open / f".{entry.file.name}"
        try:
            self._done.mkdir(parents=True, exist_ok=True)
            self._open.mkdir(exist_ok=True)
            write_synced(aside, _pack(entry), 0o600)
            aside.rename(entry.file)
            sync_folder(self._open)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise BrokenStore(f"{self._open}: {error.strerror}", "check space and permissions there") from None

    def entries(self) -> tuple[list[Entry], list[str]]:
        """The saves of this work tree that are not done, oldest first, and what cannot be read."""
        return self._read(self._open)

    def recent(self) -> tuple[list[Entry], list[str]]:
        """The saves of this work tree done within the last minute; older ones are forgotten."""
        self._forget()
        return self._read(self._done)

    def done(self, entry: Entry) -> None:
        """Note that HEAD, index and file agree on an entry."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(entry.file)
            entry.file.rename(self._done / entry.file.name)
        self._forget()

    def waiting(self, here: str) -> tuple[Pending, ...]:
        """The saves of this work tree that wait, oldest first.

        Args:
            here: the branch that is checked out; "" while the repository is busy. A save for another waits for that.
        """

        def reason(entry: Entry) -> str:
            if here and entry.branch not in ("", here):
                return f"it is for the branch {entry.branch.removeprefix('refs/heads/')}"
            return entry.reason or "the save was interrupted"

        return tuple(
            Pending(edit.path, entry.message.subject, reason(entry), entry.at)
            for entry in self.entries()[0]
            for edit in entry.edits
        )

    def _forget(self) -> None:
        for name in _names(self._done):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - (self._done / name).stat().st_mtime < KEEP:
                    break
                (self._done / name).unlink()

    def _read(self, folder: Path) -> tuple[list[Entry], list[str]]:
        found, bad = [], []
        for name in _names(folder):
            try:
                entry = _unpack(folder / name)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError):
                bad.append(f"{folder / name} is damaged and was passed over; look at it, then remove it")
                continue
            if entry.worktree == self.worktree:
                found.append(entry)
        return found, bad


class SaveLock:
    """One save at a time per repository.

    Who waits holds the turnstile, `next`; who comes back at once waits for that. So nobody starves.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mutex = threading.RLock()
        self._held: IO[bytes] | None = None

    @contextlib.contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Hold the lock; who holds it already, in this thread, holds it on.

        Raises:
            Locked: others kept it for that long.
            BrokenStore: the Git directory cannot be written.
        """
        stop = time.monotonic() + patience
        if not self._mutex.acquire(timeout=patience):
            raise Locked("another save of this process is in progress", "try again")
        try:
            if self._held is not None:
                yield
                return
            self._held = self._acquired(stop)
            try:
                yield
            finally:
                self._held.close()
                self._held = None
        finally:
            self._mutex.release()

    def _acquired(self, stop: float) -> IO[bytes]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._taken("next", stop):
                file = self._taken("lock", stop)
            who = f"{os.getpid()} ({Path(sys.argv[0] or 'python').name})".encode()
            os.pwrite(file.fileno(), who[:_HOLDER].ljust(_HOLDER), 0)  # never made shorter: that waits for the disk
            return file
        except OSError as error:
            told = f"{self._folder} cannot be written: {error.strerror}"
            raise BrokenStore(told, "check who may write to the Git directory") from None

    def _taken(self, name: str, stop: float) -> IO[bytes]:
        """A file, locked for as long as it is open."""
        file = os.fdopen(os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "rb")
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return file
                if time.monotonic() > stop:
                    by = (self._folder / "lock").read_text(errors="replace").strip()
                    held = f"another save is in progress: process {by} holds {self._folder / 'lock'}"
                    raise Locked(held, "try again")
                time.sleep(_POLL)
        except BaseException:
            file.close()
            raise


def clear(*folders: Path) -> None:
    """Remove the temporary files of processes that died."""
    for file in (file for folder in folders for file in folder.glob(".*")):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _OLD:
                file.unlink()


def _line(text: str, limit: int) -> str:
    kept = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 8]).split())
    return kept if len(kept) <= limit else kept[: limit - 3].rstrip() + "..."


def _pack(entry: Entry) -> bytes:
    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode("latin-1")

    edits = [(edit.path, text(edit.data), text(edit.before), edit.blob, edit.old) for edit in entry.edits]
    body = json.dumps([*entry[1:5], edits, *entry[6:]]).encode()
    return blob_id(body).encode() + b"\n" + body


def _unpack(file: Path) -> Entry:
    """Read an entry. Raises ValueError and the like where it is damaged."""
    checksum, _, body = file.read_bytes().partition(b"\n")
    if blob_id(body).encode() != checksum:
        raise ValueError(file.name)
    worktree, branch, commit, (subject, trailers), rows, at, reason = json.loads(body)

    def data(text: str | None) -> bytes | None:
        return None if text is None else text.encode("latin-1")

    edits = tuple(Edit(path, data(new), data(before), blob, old) for path, new, before, blob, old in rows)
    message = Message(subject, tuple((key, value) for key, value in trailers))
    return Entry(file, worktree, branch, commit, message, edits, at, reason)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name[:1].isdigit())
    except OSError:
        return []


# files of the store


class Placing(Protocol):
    """A file written aside; see `filemem.files.Staged`."""

    def sync(self) -> None: ...
    def publish(self, replace: bytes | None) -> None: ...
    def sync_folders(self) -> None: ...
    def discard(self) -> None: ...


class Placer(Protocol):
    """The files of the store; see `filemem.files.Files`."""

    def inside(self, path: str) -> str: ...
    def read(self, path: str) -> bytes: ...
    def stage(self, path: str, data: bytes) -> Placing: ...
    def remove(self, path: str, only: bytes | None = None) -> None: ...


class Aside:
    """Files written aside, to be put into their places together; always `discard` at the end."""

    def __init__(self, files: Placer, edits: Iterable[Edit]) -> None:
        self._files, self._placed = files, list[Edit]()
        self._staged: list[tuple[Edit, Placing | None]] = []
        try:
            for edit in edits:
                staged = None if edit.data is None else files.stage(files.inside(edit.path), edit.data)
                self._staged.append((edit, staged))
        except BaseException:
            self.discard()
            raise

    @property
    def files(self) -> list[Placing]:
        """Those that are written, each to be synced, and its folders once it is in its place."""
        return [staged for _, staged in self._staged if staged is not None]

    def place(self) -> None:
        """Put the files into their places, where what stands there is what the edits were worked out from."""
        for edit, staged in self._staged:
            if staged is not None:
                staged.publish(edit.before)
            else:
                self._files.remove(self._files.inside(edit.path), edit.before)
            self._placed.append(edit)

    def undo(self) -> None:
        """Make those that were put into their places what they were."""
        undo(self._files, self._placed)

    def discard(self) -> None:
        """Let go of what was written."""
        for staged in self.files:
            staged.discard()


def write(files: Placer, edits: Iterable[Edit]) -> None:
    """Change files without a commit: all of them, or none."""
    aside = Aside(files, edits)
    try:
        together([each.sync for each in aside.files])
        aside.place()
        together([each.sync_folders for each in aside.files])
    except BaseException:
        aside.undo()
        raise
    finally:
        aside.discard()


def undo(files: Placer, edits: Iterable[Edit]) -> None:
    """Make files what they were, where they still hold what we wrote."""
    for edit in edits:
        with contextlib.suppress(Conflict, NotFound, BadInput):
            write(files, [Edit(edit.path, edit.before, edit.data)])


def on_disk(files: Placer, path: str) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        return files.read(files.inside(path))
    except NotFound:
        return None
