"""What is being saved, on disk before anything else is touched, so that a crash at any moment can be finished.

It lives in the Git directory that all work trees share: a linked work tree's own may be removed under us. One file per
save: a checksum and a line of JSON. When the save is done the file moves from `journal/` to `recent/` for a minute:
for so long a command of the user's that had begun before may undo it unseen. A file that cannot be read is reported
and passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from filemem.changes import blob_id
from filemem.errors import BrokenStore, Locked
from filemem.repo.objects import sync_folder, write_all

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

KEEP = 60.0  # seconds that a finished save is looked after
_POLL = 0.004  # seconds between two tries for the lock
_OLD = 3600.0  # seconds after which a temporary file was left by a process that died


class Message(NamedTuple):
    """A commit message: a subject (of one line, cut) and (key, value) trailers; empty values and odd keys go."""

    subject: str
    trailers: tuple[tuple[str, str], ...] = ()


class Edit(NamedTuple):
    """What a commit does to one file."""

    path: str  # from the top of the work tree, with `/`
    data: bytes | None  # its new bytes; None removes it
    before: bytes | None  # those on disk that this was worked out from; None: no file may stand there


class Pending(NamedTuple):
    """A save that waits to be committed: the file, what the commit will say, why it waits, since when (epoch ms)."""

    path: str
    subject: str
    reason: str
    at: int


class Entry(NamedTuple):
    """One save in the journal; for each edit, `blobs` and `olds` are what HEAD holds after and before, "" for none."""

    worktree: str  # the name of its work tree
    branch: str  # the whole name of the branch that it is for; "" if not known
    commit: str  # the commit being made; "" where it waits
    message: Message
    edits: tuple[Edit, ...]
    at: int
    blobs: tuple[str, ...]
    olds: tuple[str, ...]
    reason: str = ""  # why it waits
    file: Path = Path()

    @property
    def adds(self) -> bool:
        """Whether it only brings new files."""
        return all(edit.before is None and edit.data is not None for edit in self.edits)

    @property
    def rows(self) -> tuple[tuple[Edit, str, str], ...]:
        """Each edit with its blob and its old one."""
        return tuple(zip(self.edits, self.blobs, self.olds, strict=True))


class Journal:
    """The saves of all work trees of one repository that are not done, and those just done."""

    def __init__(self, folder: Path, worktree: str) -> None:
        self.worktree = worktree
        self._open, self._done = folder / "journal", folder / "recent"

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look at; cheap enough for every command."""
        return not _names(self._open) and not _names(self._done)

    def name(self, at: int) -> Path:
        """The file of a new entry; they sort in the order of the saves."""
        return self._open / f"{time.time_ns():020d}-{at:015d}-{os.getpid()}"

    def write(self, entry: Entry) -> None:
        """Keep an entry, durably; what its file held is replaced. Raises BrokenStore."""
        aside = self._open / f".{entry.file.name}"
        try:
            self._done.mkdir(parents=True, exist_ok=True)
            self._open.mkdir(exist_ok=True)
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                write_all(fd, _pack(entry))
                os.fsync(fd)
            finally:
                os.close(fd)
            aside.rename(entry.file)
            sync_folder(self._open)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise BrokenStore(f"{self._open}: {error.strerror}", "check space and permissions there") from None

    def entries(self) -> tuple[list[Entry], list[str]]:
        """The saves of this work tree that are not done, oldest first, and what cannot be read."""
        return self._read(self._open)

    def recent(self, now: float) -> tuple[list[Entry], list[str]]:
        """The saves of this work tree done within a minute before `now` (epoch seconds); older ones are forgotten."""
        for name in _names(self._done):
            if now - _time_of(self._done / name) > KEEP:
                (self._done / name).unlink(missing_ok=True)
        return self._read(self._done)

    def done(self, entry: Entry) -> None:
        """Note that HEAD, index and file agree on an entry."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(entry.file)
            entry.file.rename(self._done / entry.file.name)

    def drop(self, entry: Entry) -> None:
        """Forget an entry."""
        entry.file.unlink(missing_ok=True)

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
        self._folder, self._file = folder, folder / "lock"
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
            self._held = self._acquire(stop)
            try:
                yield
            finally:
                self._held.close()
                self._held = None
        finally:
            self._mutex.release()

    def _acquire(self, stop: float) -> IO[bytes]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._taken(self._folder / "next", stop):
                file = self._taken(self._file, stop)
            os.truncate(self._file, 0)
            os.write(file.fileno(), f"{os.getpid()} ({Path(sys.argv[0] or 'python').name})".encode())
            return file
        except OSError as error:
            told = f"{self._folder} cannot be written: {error.strerror}"
            raise BrokenStore(told, "check who may write to the Git directory") from None

    def _taken(self, path: Path, stop: float) -> IO[bytes]:
        """A file, locked for as long as it is open."""
        file = path.open("ab")
        try:
            while not _lock(file):
                if time.monotonic() > stop:
                    by = self._file.read_text(errors="replace") if self._file.exists() else ""
                    raise Locked(f"another save is in progress: process {by} holds {self._file}", "try again")
                time.sleep(_POLL)
        except BaseException:
            file.close()
            raise
        return file


def clear(*folders: Path) -> None:
    """Remove the temporary files of processes that died."""
    for file in (file for folder in folders for file in folder.glob(".*")):
        if time.time() - _time_of(file) > _OLD:
            with contextlib.suppress(OSError):
                file.unlink()


def _pack(entry: Entry) -> bytes:
    texts = [[None if part is None else b2a_base64(part).decode() for part in edit[1:]] for edit in entry.edits]
    rows = [[edit.path, *parts] for edit, parts in zip(entry.edits, texts, strict=True)]
    body = json.dumps([*entry[:4], rows, *entry[5:9]]).encode()
    return blob_id(body).encode() + b"\n" + body


def _unpack(file: Path) -> Entry:
    """Read an entry. Raises ValueError and the like where it is damaged."""
    checksum, _, body = file.read_bytes().partition(b"\n")
    if blob_id(body).encode() != checksum:
        raise ValueError(file.name)
    worktree, branch, commit, (subject, trailers), rows, at, blobs, olds, reason = json.loads(body)
    message = Message(subject, tuple((key, value) for key, value in trailers))
    edits = tuple(Edit(path, *(None if part is None else a2b_base64(part) for part in parts)) for path, *parts in rows)
    return Entry(worktree, branch, commit, message, edits, at, tuple(blobs), tuple(olds), reason, file)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name[:1].isdigit())
    except OSError:
        return []


def _time_of(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _lock(file: IO[bytes]) -> bool:
    """Try to lock a file for as long as it is open."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
