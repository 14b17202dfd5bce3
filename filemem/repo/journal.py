"""What is being saved, on disk before anything else is touched, so that a crash at any moment can be finished.

It lives in the Git directory that all work trees share: a linked one's own may be removed under us. One file per save:
a checksum and a line of JSON. When the save is done it moves from `journal/` to `recent/` for a minute: what a command
that had begun before takes out of index and files is put back where HEAD has it; nothing is committed a second time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from filemem.changes import blob_id
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.repo import state
from filemem.repo.disk import flush, write_new, write_out
from filemem.repo.run import GitError, stamp

if TYPE_CHECKING:
    from filemem.repo import Repo

PATIENCE, BRIEFLY = (
    3.0,
    0.3,
)  # seconds to wait for a lock of the user's, and where an old save is finished meanwhile
_MANY = 500  # files, from which Git is asked: to look for each in the index takes longer
_KEEP = 60.0  # seconds that a finished save is looked after
_PAUSE = 0.02  # seconds between two tries for the index's lock


class Edit(NamedTuple):
    """What a commit does to one file."""

    path: str  # from the top of the work tree, with `/`
    data: bytes | None  # its new bytes; None removes it
    before: (
        bytes | None
    )  # those on disk that this was worked out from; None: no file may stand there
    blob: str = ""  # what HEAD holds for it afterwards, and
    old: str = ""  # what it held before; "" for nothing. Worked out by the save


class Plan(NamedTuple):
    """One commit to be made: what it does to which files, what it says (see `commit.message`), when (epoch ms)."""

    edits: tuple[Edit, ...]
    message: str
    at: int


class Pending(NamedTuple):
    """A save that waits to be committed: the file, why it waits, since when (epoch ms)."""

    path: str
    reason: str
    at: int


class Entry(NamedTuple):
    """One save in the journal."""

    file: Path
    worktree: str  # the name of its work tree
    branch: str  # the whole name of the branch that it is for; "" if not known
    commit: str  # the commit being made; "" where it waits
    message: str
    edits: tuple[Edit, ...]
    at: int
    reason: str = ""  # why it waits


class Journal:
    """The saves of a work tree that are not done, and those just done."""

    def __init__(self, repo: Repo) -> None:
        self.worktree = os.path.relpath(repo.git_dir, repo.common_dir)
        self._open, self._done = repo.shared / "journal", repo.shared / "recent"

    def new(self, plan: Plan, branch: str, commit: str = "", reason: str = "") -> Entry:
        """An entry for a plan; entries sort in the order of the saves."""
        file = self._open / f"{time.time_ns():020d}-{plan.at:015d}-{os.getpid()}"
        return Entry(file, self.worktree, branch, commit, plan.message, plan.edits, plan.at, reason)

    def stage(self, entry: Entry) -> Path:
        """Write an entry aside, under a name that shows that it is none yet. Raises BrokenStore."""
        aside = self._open / f".{entry.file.name}"
        body = json.dumps(entry[1:], default=lambda data: data.decode("latin-1")).encode()
        try:
            self._done.mkdir(parents=True, exist_ok=True)
            write_new(aside, blob_id(body).encode() + b"\n" + body, 0o600)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise self._broken(error) from None
        return aside

    def keep(self, aside: Path, entry: Entry) -> Path:
        """Keep an entry that was written aside and out; returns the folder, to be flushed."""
        aside.rename(entry.file)
        return self._open

    def write(self, entry: Entry) -> None:
        """Keep an entry, durably. Raises BrokenStore."""
        aside = self.stage(entry)
        try:
            write_out([aside])
            flush([self.keep(aside, entry)])
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise self._broken(error) from None

    def _broken(self, error: OSError) -> BrokenStore:
        told = f"{self._open}: {error.strerror}"
        return BrokenStore(told, "check space and permissions there")

    def done(self, entry: Entry) -> None:
        """Note that HEAD, index and file agree on an entry."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(entry.file)
            entry.file.rename(self._done / entry.file.name)

    def entries(self, *, recent: bool = False) -> tuple[list[Entry], list[str]]:
        """The saves that are not done, or else those done within a minute, oldest first.

        Returns also what cannot be read.
        """
        folder, found, bad = self._done if recent else self._open, list[Entry](), list[str]()
        for name in state.numbered(self._done) if recent else ():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - (self._done / name).stat().st_mtime < _KEEP:
                    break
                (self._done / name).unlink()
        for name in state.numbered(folder):
            try:
                entry = _unpack(folder / name)
            except FileNotFoundError:
                continue
            except PermissionError:
                bad.append(f"{folder / name} is not readable by you: another user's save waits")
                continue
            except (OSError, ValueError, KeyError, TypeError):
                bad.append(
                    f"{folder / name} is damaged and was passed over; look at it, then remove it"
                )
                continue
            if entry.worktree == self.worktree:
                found.append(entry)
        return found, bad


def pending(repo: Repo) -> tuple[Pending, ...]:
    """The saves of this work tree that wait to be committed, oldest first."""
    here = state.Branch("", "") if repo.busy() else state.head(repo.git)
    found: list[Pending] = []
    for entry in Journal(repo).entries()[0]:
        reason = entry.reason or "the save was interrupted"
        if here.ref:
            reason = elsewhere(repo, entry, here) or reason
        found += [Pending(edit.path, reason, entry.at) for edit in entry.edits]
    return tuple(found)


def elsewhere(repo: Repo, entry: Entry, head: state.Branch) -> str:
    """Why an entry is not for the branch of HEAD, or ""; it is where its own is gone or merged."""
    tip = "" if entry.branch in ("", head.ref) else state.tip_of(repo.git, entry.branch)
    merged = tip and head.tip not in ("", tip) and not repo.between(tip, head.tip)
    if not tip or merged:
        return ""
    return f"it is for the branch {entry.branch.removeprefix(state.BRANCHES)}"


def _unpack(file: Path) -> Entry:
    """Read an entry. Raises ValueError and the like where it is damaged."""
    checksum, _, body = file.read_bytes().partition(b"\n")
    if blob_id(body).encode() != checksum:
        raise ValueError(file.name)
    worktree, branch, commit, said, rows, at, reason = json.loads(body)
    edits = []
    for path, *texts, blob, old in rows:
        data, before = (None if text is None else text.encode("latin-1") for text in texts)
        edits.append(Edit(path, data, before, blob, old))
    return Entry(file, worktree, branch, commit, said, tuple(edits), at, reason)


# files of the store


class Placer(Protocol):
    """The files of the store; see `filemem.files.Files`."""

    def inside(self, path: str) -> str: ...
    def read(self, path: str) -> bytes: ...
    def stage(self, path: str, data: bytes) -> Any: ...
    def remove(self, path: str, only: bytes | None = None) -> None: ...


class Aside:
    """Files written aside, to be put into their places together; always `discard` at the end."""

    def __init__(self, files: Placer, edits: Iterable[Edit]) -> None:
        self._files, self._edits, self._placed = files, tuple(edits), 0
        self.files: list[Any] = []  # those that are written; see `filemem.files.Staged`
        try:
            for edit in self._edits:
                if edit.data is not None:
                    self.files.append(files.stage(files.inside(edit.path), edit.data))
        except BaseException:
            self.discard()
            raise

    def place(self) -> None:
        """Put the files into their places.

        What stands there must be what the edits were worked out from.
        """
        staged = iter(self.files)
        for edit in self._edits:
            if edit.data is None:
                self._files.remove(self._files.inside(edit.path), edit.before)
            else:
                next(staged).publish(edit.before)
            self._placed += 1

    def undo(self) -> None:
        """Make those that were put into their places what they were, where they still hold what we wrote."""
        for edit in self._edits[: self._placed]:
            with contextlib.suppress(Conflict, NotFound, BadInput):
                write(self._files, [Edit(edit.path, edit.before, edit.data)])

    @property
    def sources(self) -> list[Path]:
        """The files that are written aside."""
        return [Path(staged.source) for staged in self.files]

    def sync_folders(self) -> None:
        """Wait until the new names are on disk."""
        done: set[tuple[str, ...]] = set()
        for staged in self.files:
            staged.sync_folders(done)

    def discard(self) -> None:
        """Let go of what was written."""
        for staged in self.files:
            staged.discard()


def write(files: Placer, edits: Iterable[Edit]) -> None:
    """Change files without a commit: all of them, or none."""
    aside = Aside(files, edits)
    try:
        try:
            write_out(aside.sources)
        except OSError as error:
            told = f"{error.filename or 'the disk'}: {error.strerror}"
            raise BrokenStore(told, "check space and permissions there") from None
        aside.place()
        aside.sync_folders()
    except BaseException:
        aside.undo()
        raise
    finally:
        aside.discard()


def on_disk(files: Placer, path: str) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        return files.read(files.inside(path))
    except NotFound:
        return None


# what became of a save


def landed(repo: Repo, entry: Entry) -> bool:
    """Whether the branch has, or had, what an entry is about."""
    if not (tip := state.tip_of(repo.git, entry.branch or "HEAD")):
        return False
    if tip == entry.commit or all(held(repo, tip, edit.path) == edit.blob for edit in entry.edits):
        return True
    with contextlib.suppress(GitError):  # the user may have dropped it: it is not committed twice
        log = ("log", "-g", "-n", "100", "--format=%H", entry.branch, "--")
        return bool(entry.commit) and entry.commit in repo.git.run(*log).decode()
    return False


def held(repo: Repo, commit: str, path: str) -> str:
    """The blob that a commit, by its id, holds for a file; "" for none."""
    return item.oid if (item := repo.item(path, commit)) else ""


def shown(repo: Repo, entries: Iterable[Entry]) -> bool:
    """Whether the user's index seems to have what saves have entered: ids are looked for in its bytes."""
    index = repo.git_dir / "index"
    data = index.read_bytes() if index.exists() else b""
    latest = {edit.path: edit for entry in entries for edit in entry.edits}
    if len(latest) > _MANY:
        staged = repo.staged(list(latest))
        return all(staged.get(path, "") == edit.blob for path, edit in latest.items())
    return all(
        (bytes.fromhex(edit.blob or edit.old) in data) == bool(edit.blob)
        for edit in latest.values()
    )


def settle(repo: Repo, files: Placer, entry: Entry, patience: float, *, new: bool = True) -> bool:
    """Put back, under Git's index.lock, what a command that had begun before us took; says whether all agree now."""
    if not any(_taken(repo, files, entry, new=new)):
        return True
    stop = time.monotonic() + patience
    while time.monotonic() < stop:
        locks = state.Locks(repo, reading=False)
        try:
            if locks.take_merges() and locks.take_index():
                rows, gone = _taken(repo, files, entry, new=new)
                for edit in gone:
                    with contextlib.suppress(Conflict):
                        write(files, [edit])
                locks.enter(rows)
                return True
        finally:
            locks.release()
        time.sleep(_PAUSE)
    return False


def _taken(
    repo: Repo, files: Placer, entry: Entry, *, new: bool
) -> tuple[dict[str, str], list[Edit]]:
    """What index (blob ids by path) and files lack of a save that HEAD holds, where they are what they were before."""
    head = state.head(repo.git)
    if head.ref != entry.branch:
        return {}, []
    staged = repo.staged([edit.path for edit in entry.edits])
    rows, gone = dict[str, str](), list[Edit]()
    for edit in entry.edits:
        if edit.blob == edit.old or held(repo, head.tip, edit.path) != edit.blob:
            continue
        taken, missing = (
            staged.get(edit.path, "") == edit.old,
            edit.before == on_disk(files, edit.path),
        )
        if taken and (missing or new):  # an entry alone that is gone later was unstaged by the user
            rows[edit.path] = edit.blob
        if missing and (taken or new):
            gone.append(edit)
    return rows, gone


def look_after(repo: Repo, files: Placer) -> list[str]:
    """Look whether saves of the last minute are still there; says of which they are not, and what helps."""
    now = repo.head() or "", stamp(repo.git_dir / "index")
    recent, troubles = Journal(repo).entries(recent=True)
    whole, seen = (
        shown(repo, recent),
        set[str](),
    )  # where all is whole, it need not be looked at again as it is now
    for entry in reversed(recent):
        paths = {edit.path for edit in entry.edits}
        if seen.isdisjoint(paths):
            if not whole:
                settle(repo, files, entry, BRIEFLY, new=False)
            troubles += [lost] if (lost := dropped(repo, entry)) else []
        seen |= paths
    repo.settled = now if whole and not troubles else None
    return troubles


def dropped(repo: Repo, entry: Entry) -> str:
    """Say which file of a save its branch has lost again, and what brings it back; "" for none."""
    tip = state.tip_of(repo.git, entry.branch) if entry.branch else ""
    if not tip or tip == entry.commit:
        return ""
    lost = [
        edit.path
        for edit in entry.edits
        if edit.blob and held(repo, tip, edit.path) == edit.old != edit.blob
    ]
    helps = f"git checkout {entry.commit[:12]} -- {' '.join(lost)}"
    branch = entry.branch.removeprefix(state.BRANCHES)
    return (
        f"another command took {lost[0]} out of {branch} again; `{helps}` brings it back"
        if lost
        else ""
    )
