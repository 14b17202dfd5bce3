"""The journal: saves that are not done yet, on disk first, so that any crash can be finished.

It is in the Git directory that all work trees share: the directory of a linked work tree may be
removed while we run. One file per save: a checksum and a line of JSON. A finished save moves from
`journal/` to `recent/` for a minute: what a command that began before the save removes from index
and files is restored if HEAD has it; nothing is committed a second time.
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
from filemem.repo.run import GitError, list_entry_names, read_file_stamp
from filemem.repo.state import GitLocks

if TYPE_CHECKING:
    from filemem.repo import Repo

PATIENCE = 3.0  # seconds to wait for a lock of the user's
SHORT_PATIENCE = 0.3  # seconds to wait for one while an old save is finished
_MAX_INDEX_SEARCHES = 500  # files; for more, asking Git is faster than searching the index
_KEEP_SECONDS = 60.0  # seconds that a finished save is looked after
_PAUSE = 0.02  # seconds between two tries for the index's lock


class Edit(NamedTuple):
    """What a commit does to one file."""

    path: str  # from the top of the work tree, with `/`
    data: bytes | None  # its new bytes; None removes it
    before: bytes | None  # its bytes on disk when this was planned; None: no such file
    # Filled in by the save:
    blob: str = ""  # its blob in HEAD afterwards; "" for none
    old_blob: str = ""  # its blob in HEAD before; "" for none


class CommitPlan(NamedTuple):
    """One commit to be made."""

    edits: tuple[Edit, ...]
    message: str  # see `commit.render_message`
    timestamp: int  # epoch ms


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
        self._open_folder = repo.shared_folder / "journal"
        self._done_folder = repo.shared_folder / "recent"

    def build_entry(
        self, plan: CommitPlan, branch: str, commit: str = "", reason: str = ""
    ) -> JournalEntry:
        """Build the entry of a plan. Names of entries sort in the order of the saves."""
        file = self._open_folder / f"{time.time_ns():020d}-{plan.timestamp:015d}-{os.getpid()}"
        return JournalEntry(
            file, self.worktree, branch, commit, plan.message, plan.edits, plan.timestamp, reason
        )

    def stage_entry(self, entry: JournalEntry) -> Path:
        """Write an entry under a temporary name, and return its path. Raises BrokenStore."""
        staged_path = self._open_folder / f".{entry.file.name}"
        fields = entry[1:]  # all but the file
        body = json.dumps(fields, default=_decode_bytes).encode()
        checksum = compute_blob_id(body).encode()
        try:
            self._done_folder.mkdir(parents=True, exist_ok=True)
            write_new_file(staged_path, checksum + b"\n" + body, 0o600)
        except OSError as error:
            staged_path.unlink(missing_ok=True)
            raise self._build_error(error) from None
        return staged_path

    def place_entry(self, staged_path: Path, entry: JournalEntry) -> Path:
        """Give a staged entry its name; returns the folder, which is to be flushed."""
        staged_path.rename(entry.file)
        return self._open_folder

    def write_entry(self, entry: JournalEntry) -> None:
        """Write an entry, and wait until it is on disk. Raises BrokenStore."""
        staged_path = self.stage_entry(entry)
        try:
            sync_files([staged_path])
            folder = self.place_entry(staged_path, entry)
            sync_folders([folder])
        except OSError as error:
            staged_path.unlink(missing_ok=True)
            raise self._build_error(error) from None

    def _build_error(self, error: OSError) -> BrokenStore:
        message = f"{self._open_folder}: {error.strerror}"
        return BrokenStore(message, "check space and permissions there")

    def mark_done(self, entry: JournalEntry) -> None:
        """Move an entry to the recent ones: HEAD, index and files agree on it."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(entry.file)
            entry.file.rename(self._done_folder / entry.file.name)

    def read_entries(self) -> tuple[list[JournalEntry], list[str]]:
        """Read the saves that are not done, oldest first; also returns what cannot be read."""
        return self._read_folder(self._open_folder)

    def read_recent_entries(self) -> tuple[list[JournalEntry], list[str]]:
        """Read the saves that were done lately, oldest first; also returns what cannot be read."""
        return self._read_folder(self._done_folder)

    def remove_old_entries(self) -> None:
        """Remove the saves that were done more than a minute ago."""
        for name in list_entry_names(self._done_folder):
            file = self._done_folder / name
            with contextlib.suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime < _KEEP_SECONDS:
                    break
                file.unlink()

    def _read_folder(self, folder: Path) -> tuple[list[JournalEntry], list[str]]:
        entries: list[JournalEntry] = []
        problems: list[str] = []
        for name in list_entry_names(folder):
            file = folder / name
            try:
                entry = _read_entry(file)
            except FileNotFoundError:
                continue
            except PermissionError:
                problems.append(f"{file} is not readable by you: another user's save waits")
                continue
            except (OSError, ValueError, KeyError, TypeError):
                problems.append(
                    f"{file} is damaged and was passed over; look at it, then remove it"
                )
                continue
            if entry.worktree == self.worktree:
                entries.append(entry)
        return entries, problems


def list_pending_saves(repo: Repo) -> tuple[PendingSave, ...]:
    """List the saves of this work tree that wait to be committed, oldest first."""
    is_busy = bool(repo.find_busy_reason())
    head = state.Branch("", "") if is_busy else state.read_head_branch(repo.git)
    entries, _ = Journal(repo).read_entries()
    saves: list[PendingSave] = []
    for entry in entries:
        reason = ""
        if head.ref:
            reason = describe_other_branch(repo, entry, head)
        if not reason:
            reason = entry.reason or "the save was interrupted"
        saves += [PendingSave(edit.path, reason, entry.timestamp) for edit in entry.edits]
    return tuple(saves)


def describe_other_branch(repo: Repo, entry: JournalEntry, head: state.Branch) -> str:
    """Return why an entry is not for the branch of HEAD, or "".

    If its own branch is gone or merged, the entry is for any branch.
    """
    if entry.branch in ("", head.ref):
        return ""
    tip = state.read_tip(repo.git, entry.branch)
    if not tip:
        return ""
    if head.tip not in ("", tip) and not repo.count_commits(tip, head.tip):
        return ""
    return f"it is for the branch {entry.branch.removeprefix(state.BRANCHES)}"


def _read_entry(file: Path) -> JournalEntry:
    """Read an entry. Raises ValueError and the like if it is damaged."""
    checksum, _, body = file.read_bytes().partition(b"\n")
    if compute_blob_id(body).encode() != checksum:
        raise ValueError(file.name)
    worktree, branch, commit, message, rows, timestamp, reason = json.loads(body)
    edits = []
    for path, data, before, blob, old_blob in rows:
        edits.append(Edit(path, _encode_text(data), _encode_text(before), blob, old_blob))
    return JournalEntry(file, worktree, branch, commit, message, tuple(edits), timestamp, reason)


def _decode_bytes(data: bytes) -> str:
    """Turn bytes into text for JSON: one character for each byte."""
    return data.decode("latin-1")


def _encode_text(text: str | None) -> bytes | None:
    """Undo `_decode_bytes`."""
    return None if text is None else text.encode("latin-1")


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
        self._files = files
        self._edits = tuple(edits)
        self._published_edits: list[Edit] = []
        self._staged: dict[str, Any] = {}  # by path; see `filemem.files.write.StagedFile`
        try:
            for edit in self._edits:
                if edit.data is not None:
                    store_path = files.to_store_path(edit.path)
                    self._staged[edit.path] = files.stage(store_path, edit.data)
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Put the files into their places. Raises Conflict if a file is not as the edit expects."""
        for edit in self._edits:
            if edit.data is None:
                self._files.remove(self._files.to_store_path(edit.path), edit.before)
            else:
                self._staged[edit.path].publish(edit.before)
            self._published_edits.append(edit)

    def undo(self) -> None:
        """Restore the old bytes of published files that still hold the new ones."""
        for edit in self._published_edits:
            with contextlib.suppress(Conflict, NotFound, BadInput):
                write_files(self._files, [Edit(edit.path, data=edit.before, before=edit.data)])

    @property
    def sources(self) -> list[Path]:
        """The files that are written aside."""
        return [Path(staged.source) for staged in self._staged.values()]

    def sync_folders(self) -> None:
        """Wait until the new names are on disk."""
        done: set[tuple[str, ...]] = set()
        for staged in self._staged.values():
            staged.sync_folders(done)

    def discard(self) -> None:
        """Remove what was written aside and not published."""
        for staged in self._staged.values():
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
    tip = state.read_tip(repo.git, entry.branch or "HEAD")
    if not tip:
        return False
    if tip == entry.commit:
        return True
    if all(read_blob_id(repo, tip, edit.path) == edit.blob for edit in entry.edits):
        return True
    if not entry.commit:
        return False
    # The user may have dropped the commit: it is not committed twice.
    arguments = ("log", "-g", "-n", "100", "--format=%H", entry.branch, "--")
    try:
        reflog = repo.git.run(*arguments).decode()
    except GitError:
        return False
    return entry.commit in reflog


def read_blob_id(repo: Repo, commit: str, path: str) -> str:
    """Return the blob of a file in a commit, which is given by its id; "" for none."""
    item = repo.find_item(path, commit)
    return item.oid if item else ""


def is_in_index(repo: Repo, entries: Iterable[JournalEntry]) -> bool:
    """Whether the user's index seems to have what saves entered.

    For few files, their blob ids are looked for in the bytes of the index.
    """
    index = repo.git_dir / "index"
    data = index.read_bytes() if index.exists() else b""
    latest: dict[str, Edit] = {}
    for entry in entries:
        for edit in entry.edits:
            latest[edit.path] = edit
    if len(latest) > _MAX_INDEX_SEARCHES:
        staged = repo.read_staged(list(latest))
        return all(staged.get(path, "") == edit.blob for path, edit in latest.items())
    for edit in latest.values():
        has_blob = bytes.fromhex(edit.blob or edit.old_blob) in data
        if has_blob != bool(edit.blob):
            return False
    return True


class _LostParts(NamedTuple):
    """The parts of a save that another command has removed again."""

    index_rows: dict[str, str]  # path -> blob id
    edits: list[Edit]  # of files


def restore_lost(
    repo: Repo, files: StoreFiles, entry: JournalEntry, timeout: float, *, is_new: bool = True
) -> bool:
    """Restore, under Git's index.lock, what a command that began before the save removed.

    Args:
        timeout: seconds to wait for the lock.
        is_new: the save was just made, so whatever is missing was not removed by the user.

    Returns:
        Whether HEAD, index and files agree now.
    """
    lost = _find_lost(repo, files, entry, is_new=is_new)
    if not lost.index_rows and not lost.edits:
        return True
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        locks = GitLocks(repo, reads_files=False)
        try:
            if locks.take_merges() and locks.take_index():
                lost = _find_lost(repo, files, entry, is_new=is_new)
                for edit in lost.edits:
                    with contextlib.suppress(Conflict):
                        write_files(files, [edit])
                locks.send_entries(lost.index_rows)
                return True
        finally:
            locks.release()
        time.sleep(_PAUSE)
    return False


def _find_lost(repo: Repo, files: StoreFiles, entry: JournalEntry, *, is_new: bool) -> _LostParts:
    """Find which parts of a save HEAD holds, while index or files are as before the save."""
    lost = _LostParts({}, [])
    head = state.read_head_branch(repo.git)
    if head.ref != entry.branch:
        return lost
    staged = repo.read_staged([edit.path for edit in entry.edits])
    for edit in _list_landed_edits(repo, entry, head.tip):
        path = edit.path
        is_unstaged = staged.get(path, "") == edit.old_blob
        is_missing = read_file(files, path) == edit.before
        # Later, a row of the index that is missing alone was unstaged by the user.
        if is_unstaged and (is_missing or is_new):
            lost.index_rows[path] = edit.blob
        if is_missing and (is_unstaged or is_new):
            lost.edits.append(edit)
    return lost


def _list_landed_edits(repo: Repo, entry: JournalEntry, tip: str) -> list[Edit]:
    """List the edits that changed a file to what a commit holds."""
    landed_edits = []
    for edit in entry.edits:
        is_change = edit.blob != edit.old_blob
        if is_change and read_blob_id(repo, tip, edit.path) == edit.blob:
            landed_edits.append(edit)
    return landed_edits


def check_recent_saves(repo: Repo, files: StoreFiles) -> list[str]:
    """Restore what index and files lost of the saves of the last minute.

    Returns one message for each save that a branch has lost, with the command that helps. If all
    is complete, `repo.settled_state` is set: in that state there is nothing more to check.
    """
    current_state = (repo.read_head() or "", read_file_stamp(repo.git_dir / "index"))
    save_journal = Journal(repo)
    save_journal.remove_old_entries()
    entries, troubles = save_journal.read_recent_entries()
    is_complete = is_in_index(repo, entries)
    seen_paths: set[str] = set()
    for entry in reversed(entries):
        paths = {edit.path for edit in entry.edits}
        if seen_paths.isdisjoint(paths):
            if not is_complete:
                restore_lost(repo, files, entry, SHORT_PATIENCE, is_new=False)
            trouble = describe_lost_file(repo, entry)
            if trouble:
                troubles.append(trouble)
        seen_paths |= paths
    is_settled = is_complete and not troubles
    repo.settled_state = current_state if is_settled else None
    return troubles


def describe_lost_file(repo: Repo, entry: JournalEntry) -> str:
    """Say which file of a save its branch has lost again, and what restores it; "" for none."""
    tip = ""
    if entry.branch:
        tip = state.read_tip(repo.git, entry.branch)
    if not tip or tip == entry.commit:
        return ""
    lost_paths = []
    for edit in entry.edits:
        if edit.blob and edit.blob != edit.old_blob:
            blob = read_blob_id(repo, tip, edit.path)
            if blob == edit.old_blob:
                lost_paths.append(edit.path)
    if not lost_paths:
        return ""
    command = f"git checkout {entry.commit[:12]} -- {' '.join(lost_paths)}"
    branch = entry.branch.removeprefix(state.BRANCHES)
    return f"another command took {lost_paths[0]} out of {branch} again; `{command}` brings it back"
