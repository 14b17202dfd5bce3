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

from filemem.changes import compute_blob_id
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.repo import state
from filemem.repo.disk import sync_files, sync_folders, write_new_file
from filemem.repo.run import GitError, read_file_stamp

if TYPE_CHECKING:
    from filemem.repo import Repo

PATIENCE, SHORT_PATIENCE = (
    3.0,
    0.3,
)  # seconds to wait for a lock of the user's, and where an old save is finished meanwhile
_MAX_INDEX_SEARCHES = (
    500  # files, from which Git is asked: to look for each in the index takes longer
)
_KEEP_SECONDS = 60.0  # seconds that a finished save is looked after
_PAUSE = 0.02  # seconds between two tries for the index's lock


class Edit(NamedTuple):
    """What a commit does to one file."""

    path: str  # from the top of the work tree, with `/`
    data: bytes | None  # its new bytes; None removes it
    before: (
        bytes | None
    )  # those on disk that this was worked out from; None: no file may stand there
    blob: str = ""  # what HEAD holds for it afterwards, and
    old_blob: str = ""  # what it held before; "" for nothing. Worked out by the save


class CommitPlan(NamedTuple):
    """One commit to be made: what it does to which files, what it says (see `commit.message`), when (epoch ms)."""

    edits: tuple[Edit, ...]
    message: str
    timestamp: int


class PendingSave(NamedTuple):
    """A save that waits to be committed: the file, why it waits, since when (epoch ms)."""

    path: str
    reason: str
    timestamp: int


class JournalEntry(NamedTuple):
    """One save in the journal."""

    file: Path
    worktree: str  # the name of its work tree
    branch: str  # the whole name of the branch that it is for; "" if not known
    commit: str  # the commit being made; "" where it waits
    message: str
    edits: tuple[Edit, ...]
    timestamp: int
    reason: str = ""  # why it waits


class Journal:
    """The saves of a work tree that are not done, and those just done."""

    def __init__(self, repo: Repo) -> None:
        self.worktree = os.path.relpath(repo.git_dir, repo.common_dir)
        self._open_folder, self._done_folder = (
            repo.shared_folder / "journal",
            repo.shared_folder / "recent",
        )

    def build_entry(
        self, plan: CommitPlan, branch: str, commit: str = "", reason: str = ""
    ) -> JournalEntry:
        """An entry for a plan; entries sort in the order of the saves."""
        file = self._open_folder / f"{time.time_ns():020d}-{plan.timestamp:015d}-{os.getpid()}"
        return JournalEntry(
            file, self.worktree, branch, commit, plan.message, plan.edits, plan.timestamp, reason
        )

    def stage_entry(self, entry: JournalEntry) -> Path:
        """Write an entry aside, under a name that shows that it is none yet. Raises BrokenStore."""
        staged_path = self._open_folder / f".{entry.file.name}"
        body = json.dumps(entry[1:], default=lambda data: data.decode("latin-1")).encode()
        try:
            self._done_folder.mkdir(parents=True, exist_ok=True)
            write_new_file(staged_path, compute_blob_id(body).encode() + b"\n" + body, 0o600)
        except OSError as error:
            staged_path.unlink(missing_ok=True)
            raise self._build_error(error) from None
        return staged_path

    def place_entry(self, staged_path: Path, entry: JournalEntry) -> Path:
        """Keep an entry that was written aside and out; returns the folder, to be flushed."""
        staged_path.rename(entry.file)
        return self._open_folder

    def write_entry(self, entry: JournalEntry) -> None:
        """Keep an entry, durably. Raises BrokenStore."""
        staged_path = self.stage_entry(entry)
        try:
            sync_files([staged_path])
            sync_folders([self.place_entry(staged_path, entry)])
        except OSError as error:
            staged_path.unlink(missing_ok=True)
            raise self._build_error(error) from None

    def _build_error(self, error: OSError) -> BrokenStore:
        message = f"{self._open_folder}: {error.strerror}"
        return BrokenStore(message, "check space and permissions there")

    def mark_done(self, entry: JournalEntry) -> None:
        """Note that HEAD, index and file agree on an entry."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(entry.file)
            entry.file.rename(self._done_folder / entry.file.name)

    def read_entries(self, *, only_recent: bool = False) -> tuple[list[JournalEntry], list[str]]:
        """The saves that are not done, or else those done within a minute, oldest first.

        Returns also what cannot be read.
        """
        folder, entries, problems = (
            self._done_folder if only_recent else self._open_folder,
            list[JournalEntry](),
            list[str](),
        )
        for name in state.list_entry_names(self._done_folder) if only_recent else ():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - (self._done_folder / name).stat().st_mtime < _KEEP_SECONDS:
                    break
                (self._done_folder / name).unlink()
        for name in state.list_entry_names(folder):
            try:
                entry = _read_entry(folder / name)
            except FileNotFoundError:
                continue
            except PermissionError:
                problems.append(
                    f"{folder / name} is not readable by you: another user's save waits"
                )
                continue
            except (OSError, ValueError, KeyError, TypeError):
                problems.append(
                    f"{folder / name} is damaged and was passed over; look at it, then remove it"
                )
                continue
            if entry.worktree == self.worktree:
                entries.append(entry)
        return entries, problems


def list_pending_saves(repo: Repo) -> tuple[PendingSave, ...]:
    """The saves of this work tree that wait to be committed, oldest first."""
    head = state.Branch("", "") if repo.find_busy_reason() else state.read_head_branch(repo.git)
    saves: list[PendingSave] = []
    for entry in Journal(repo).read_entries()[0]:
        reason = entry.reason or "the save was interrupted"
        if head.ref:
            reason = describe_other_branch(repo, entry, head) or reason
        saves += [PendingSave(edit.path, reason, entry.timestamp) for edit in entry.edits]
    return tuple(saves)


def describe_other_branch(repo: Repo, entry: JournalEntry, head: state.Branch) -> str:
    """Why an entry is not for the branch of HEAD, or ""; it is where its own is gone or merged."""
    tip = "" if entry.branch in ("", head.ref) else state.read_tip(repo.git, entry.branch)
    is_merged = tip and head.tip not in ("", tip) and not repo.count_commits(tip, head.tip)
    if not tip or is_merged:
        return ""
    return f"it is for the branch {entry.branch.removeprefix(state.BRANCHES)}"


def _read_entry(file: Path) -> JournalEntry:
    """Read an entry. Raises ValueError and the like where it is damaged."""
    checksum, _, body = file.read_bytes().partition(b"\n")
    if compute_blob_id(body).encode() != checksum:
        raise ValueError(file.name)
    worktree, branch, commit, message, rows, timestamp, reason = json.loads(body)
    edits = []
    for path, *texts, blob, old_blob in rows:
        data, before = (None if text is None else text.encode("latin-1") for text in texts)
        edits.append(Edit(path, data, before, blob, old_blob))
    return JournalEntry(file, worktree, branch, commit, message, tuple(edits), timestamp, reason)


# files of the store


class StoreFiles(Protocol):
    """The files of the store; see `filemem.files.Files`."""

    def to_store_path(self, path: str) -> str: ...
    def read(self, path: str) -> bytes: ...
    def stage(self, path: str, data: bytes) -> Any: ...
    def remove(self, path: str, expected: bytes | None = None) -> None: ...


class StagedFiles:
    """Files written aside, to be put into their places together; always `discard` at the end."""

    def __init__(self, files: StoreFiles, edits: Iterable[Edit]) -> None:
        self._files, self._edits, self._published_count = files, tuple(edits), 0
        self.files: list[Any] = []  # those that are written; see `filemem.files.Staged`
        try:
            for edit in self._edits:
                if edit.data is not None:
                    self.files.append(files.stage(files.to_store_path(edit.path), edit.data))
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Put the files into their places.

        What stands there must be what the edits were worked out from.
        """
        staged = iter(self.files)
        for edit in self._edits:
            if edit.data is None:
                self._files.remove(self._files.to_store_path(edit.path), edit.before)
            else:
                next(staged).publish(edit.before)
            self._published_count += 1

    def undo(self) -> None:
        """Make those that were put into their places what they were, where they still hold what we wrote."""
        for edit in self._edits[: self._published_count]:
            with contextlib.suppress(Conflict, NotFound, BadInput):
                write_files(self._files, [Edit(edit.path, edit.before, edit.data)])

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


def write_files(files: StoreFiles, edits: Iterable[Edit]) -> None:
    """Change files without a commit: all of them, or none."""
    staged_files = StagedFiles(files, edits)
    try:
        try:
            sync_files(staged_files.sources)
        except OSError as error:
            message = f"{error.filename or 'the disk'}: {error.strerror}"
            raise BrokenStore(message, "check space and permissions there") from None
        staged_files.publish()
        staged_files.sync_folders()
    except BaseException:
        staged_files.undo()
        raise
    finally:
        staged_files.discard()


def read_file(files: StoreFiles, path: str) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        return files.read(files.to_store_path(path))
    except NotFound:
        return None


# what became of a save


def has_landed(repo: Repo, entry: JournalEntry) -> bool:
    """Whether the branch has, or had, what an entry is about."""
    if not (tip := state.read_tip(repo.git, entry.branch or "HEAD")):
        return False
    if tip == entry.commit or all(
        read_blob_id(repo, tip, edit.path) == edit.blob for edit in entry.edits
    ):
        return True
    with contextlib.suppress(GitError):  # the user may have dropped it: it is not committed twice
        log = ("log", "-g", "-n", "100", "--format=%H", entry.branch, "--")
        return bool(entry.commit) and entry.commit in repo.git.run(*log).decode()
    return False


def read_blob_id(repo: Repo, commit: str, path: str) -> str:
    """The blob that a commit, by its id, holds for a file; "" for none."""
    return item.oid if (item := repo.find_item(path, commit)) else ""


def is_in_index(repo: Repo, entries: Iterable[JournalEntry]) -> bool:
    """Whether the user's index seems to have what saves have entered: ids are looked for in its bytes."""
    index = repo.git_dir / "index"
    data = index.read_bytes() if index.exists() else b""
    latest = {edit.path: edit for entry in entries for edit in entry.edits}
    if len(latest) > _MAX_INDEX_SEARCHES:
        staged = repo.read_staged(list(latest))
        return all(staged.get(path, "") == edit.blob for path, edit in latest.items())
    return all(
        (bytes.fromhex(edit.blob or edit.old_blob) in data) == bool(edit.blob)
        for edit in latest.values()
    )


def restore_lost(
    repo: Repo, files: StoreFiles, entry: JournalEntry, timeout: float, *, is_new: bool = True
) -> bool:
    """Put back, under Git's index.lock, what a command that had begun before us took; says whether all agree now."""
    if not any(_find_lost(repo, files, entry, is_new=is_new)):
        return True
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        locks = state.GitLocks(repo, reads_files=False)
        try:
            if locks.take_merges() and locks.take_index():
                index_rows, lost_edits = _find_lost(repo, files, entry, is_new=is_new)
                for edit in lost_edits:
                    with contextlib.suppress(Conflict):
                        write_files(files, [edit])
                locks.send_entries(index_rows)
                return True
        finally:
            locks.release()
        time.sleep(_PAUSE)
    return False


def _find_lost(
    repo: Repo, files: StoreFiles, entry: JournalEntry, *, is_new: bool
) -> tuple[dict[str, str], list[Edit]]:
    """What index (blob ids by path) and files lack of a save that HEAD holds, where they are what they were before."""
    head = state.read_head_branch(repo.git)
    if head.ref != entry.branch:
        return {}, []
    staged = repo.read_staged([edit.path for edit in entry.edits])
    index_rows, lost_edits = dict[str, str](), list[Edit]()
    for edit in entry.edits:
        if edit.blob == edit.old_blob or read_blob_id(repo, head.tip, edit.path) != edit.blob:
            continue
        is_unstaged, is_missing = (
            staged.get(edit.path, "") == edit.old_blob,
            edit.before == read_file(files, edit.path),
        )
        if is_unstaged and (
            is_missing or is_new
        ):  # an entry alone that is gone later was unstaged by the user
            index_rows[edit.path] = edit.blob
        if is_missing and (is_unstaged or is_new):
            lost_edits.append(edit)
    return index_rows, lost_edits


def check_recent_saves(repo: Repo, files: StoreFiles) -> list[str]:
    """Look whether saves of the last minute are still there; says of which they are not, and what helps."""
    current_state = repo.read_head() or "", read_file_stamp(repo.git_dir / "index")
    recent, troubles = Journal(repo).read_entries(only_recent=True)
    is_complete, seen_paths = (
        is_in_index(repo, recent),
        set[str](),
    )  # where all is whole, it need not be looked at again as it is now
    for entry in reversed(recent):
        paths = {edit.path for edit in entry.edits}
        if seen_paths.isdisjoint(paths):
            if not is_complete:
                restore_lost(repo, files, entry, SHORT_PATIENCE, is_new=False)
            troubles += [problem] if (problem := describe_lost_file(repo, entry)) else []
        seen_paths |= paths
    repo.settled_state = current_state if is_complete and not troubles else None
    return troubles


def describe_lost_file(repo: Repo, entry: JournalEntry) -> str:
    """Say which file of a save its branch has lost again, and what brings it back; "" for none."""
    tip = state.read_tip(repo.git, entry.branch) if entry.branch else ""
    if not tip or tip == entry.commit:
        return ""
    lost_paths = [
        edit.path
        for edit in entry.edits
        if edit.blob and read_blob_id(repo, tip, edit.path) == edit.old_blob != edit.blob
    ]
    command = f"git checkout {entry.commit[:12]} -- {' '.join(lost_paths)}"
    branch = entry.branch.removeprefix(state.BRANCHES)
    return (
        f"another command took {lost_paths[0]} out of {branch} again; `{command}` brings it back"
        if lost_paths
        else ""
    )
