"""The save: record, entry and branch change under locks that Git's own children hold.

The locks are index.lock, HEAD.lock and the branch's lock. All slow work comes first: journal,
blobs, trees and commit are on disk before the first lock is taken. Under the locks the user's
commands are refused or wait, so nothing is rolled back once the branch has moved. If we are
killed, Git's children see their input end and release the locks; the next command finishes the
save from the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, FilememError, Locked
from filemem.repo import journal, state
from filemem.repo.disk import sync_folders
from filemem.repo.draft import (
    Draft,
    add_blob_ids,
    can_read_files,
    find_commit_obstacle,
    prepare_draft,
    refuse_edited,
)
from filemem.repo.journal import CommitPlan, Edit, Journal, JournalEntry, StoreFiles
from filemem.repo.run import GitError, list_entry_names, read_file_stamp, require_version
from filemem.repo.state import LOCKED, MOVED, Branch, GitLocks

if TYPE_CHECKING:
    from filemem.repo import Repo

__all__ = ["CommitPlan", "Edit", "SaveResult", "finish_saves", "render_message", "save_files"]

_MAX_ATTEMPTS = 3  # of a save whose branch moves under it
_PATIENCE = journal.PATIENCE
_SHORT_PATIENCE = journal.SHORT_PATIENCE
_PAUSE = 0.01  # seconds between the first two tries for the locks
_MAX_PAUSE = 0.16  # seconds between later tries


class SaveResult(NamedTuple):
    """The result of a save; "" for what does not apply."""

    commit: str = ""  # its id
    branch: str = ""  # the short name of the branch that has it, or is to have it
    pending: str = ""  # why the commit waits
    uncommitted_reason: str = ""  # why the files are written and left uncommitted
    trouble: str = ""  # what went wrong beside it, with the command that helps
    parent: str = ""  # the id of the commit that it stands on
    # What was committed; None after a removal: it may be a rename, which Git must find.
    entry: JournalEntry | None = None


def render_message(subject: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
    """Render a commit message: the subject, then one line for each trailer that has a value."""
    rows = []
    for key, value in trailers:
        line = _format_line(value, 400)
        if line:
            rows.append(f"{key}: {line}\n")
    message = (_format_line(subject, 120) or "record") + "\n"
    if rows:
        message += "\n" + "".join(rows)
    return message


def _format_line(text: str, limit: int) -> str:
    """Put a text on one line of printable characters, shortened to `limit` characters."""
    head = text[: limit * 8]
    printable = "".join(char if char.isprintable() else " " for char in head)
    line = " ".join(printable.split())
    if len(line) <= limit:
        return line
    return line[: limit - 3].rstrip() + "..."


def save_files(repo: Repo, files: StoreFiles, make_plan: Callable[[], CommitPlan]) -> SaveResult:
    """Write some files and commit them, and nothing else. The caller holds `Repo.save_lock`.

    The commit of a plan that only adds files may be `pending`. Files that are not ours to commit
    are written only; `uncommitted_reason` says why.

    Raises:
        Conflict: a file has uncommitted edits, another one stands in its place, or the repository
            is busy.
        Locked: the branch keeps moving, or another command holds a lock.
        BadInput: Git knows no user name.
        BrokenStore: the disk or the repository fails. Nothing of the save is left.
    """
    repo.require_identity()
    require_version(repo.git)
    finish_saves(repo, files)
    for _ in range(_MAX_ATTEMPTS):
        plan = make_plan()
        result = _commit_plan(repo, files, plan, _PATIENCE)
        if isinstance(result, SaveResult):
            return result
        cause = result
        if cause != MOVED:
            break
    return _defer_commit(repo, files, plan, cause)


def _commit_plan(
    repo: Repo, files: StoreFiles, plan: CommitPlan, timeout: float, *, is_written: bool = False
) -> SaveResult | str:
    """Commit a plan on top of HEAD.

    Args:
        timeout: seconds to wait for locks of the user's commands.
        is_written: the files are in place already.

    Returns:
        The result, or why there is none: MOVED, LOCKED, or what the user is in the middle of.
    """
    head = state.read_head_branch(repo.git)
    busy_reason = repo.find_busy_reason()
    if busy_reason:
        return busy_reason
    if not head.ref and state.read_head_branch(repo.git) != head:  # a rebase has ended in between
        return MOVED
    plan = add_blob_ids(repo, plan, head)
    changed_edits = []
    if not is_written:
        changed_edits = [edit for edit in plan.edits if edit.data != edit.before]
    uncommitted_reason = find_commit_obstacle(repo, plan.edits, head)
    if uncommitted_reason:
        journal.write_files(files, changed_edits)
        return SaveResult(
            branch=head.name, uncommitted_reason=uncommitted_reason, trouble=repo.trouble
        )
    if not is_written:
        refuse_edited(repo, plan.edits)
    if all(edit.blob == edit.old_blob for edit in plan.edits):
        journal.write_files(files, changed_edits)
        return SaveResult(head.tip, head.name, trouble=repo.trouble)
    return _commit_on_head(repo, files, plan, head, changed_edits, timeout)


def _commit_on_head(
    repo: Repo,
    files: StoreFiles,
    plan: CommitPlan,
    head: Branch,
    changed_edits: Sequence[Edit],
    timeout: float,
) -> SaveResult | str:
    """Write commit, journal entry and files, then exchange them under the locks.

    Returns as `_commit_plan`. Unless the branch moves, nothing of the save is left.
    """
    locks = GitLocks(repo, reads_files=can_read_files(repo, plan, changed_edits))
    try:
        locks.start()  # its children get ready while the commit is written
        draft = prepare_draft(repo, files, plan, head, changed_edits)
    except BaseException:
        locks.release()
        raise
    try:
        result = _exchange_with_retry(repo, files, draft, locks, timeout)
    except BaseException:
        if not journal.has_landed(repo, draft.entry):
            draft.entry.file.unlink(missing_ok=True)
        raise
    finally:
        locks.release()
        draft.staged_files.discard()
    if isinstance(result, str):
        draft.entry.file.unlink(missing_ok=True)
    return result


def _defer_commit(repo: Repo, files: StoreFiles, plan: CommitPlan, cause: str) -> SaveResult:
    """Write new files now, and leave their commit to a later command through the journal.

    `cause`: LOCKED, MOVED, or what the user is in the middle of. Raises Conflict or Locked if the
    plan changes or removes files.
    """
    save_journal = Journal(repo)
    branch = state.find_intended_branch(repo.git)
    reason = _describe_cause(repo, cause)
    is_brief = cause in (LOCKED, MOVED)
    _refuse_changes(plan, reason, is_brief)
    edits = []
    for edit in plan.edits:
        blob = repo.compute_blob_id(edit.data or b"")
        edits.append(edit._replace(blob=blob))
    plan = plan._replace(edits=tuple(edits))
    # A command that lasts a moment may be a switch, so any branch will do afterwards.
    entry_branch = "" if is_brief else branch
    entry = save_journal.build_entry(plan, entry_branch, reason=reason)
    save_journal.write_entry(entry)
    try:
        journal.write_files(files, plan.edits)
    except BaseException:
        entry.file.unlink(missing_ok=True)
        raise
    branch_name = branch.removeprefix(state.BRANCHES)
    return SaveResult(branch=branch_name, pending=reason, trouble=repo.trouble)


def _refuse_changes(plan: CommitPlan, reason: str, is_brief: bool) -> None:
    """Refuse a plan that changes or removes files.

    Raises Locked if the wait is brief, else Conflict.
    """
    for edit in plan.edits:
        if edit.before is not None or edit.data is None:
            error_class = Locked if is_brief else Conflict
            message = f"{reason}, so nothing that is committed can be changed"
            raise error_class(message, "try again when that is over")


def _describe_cause(repo: Repo, cause: str) -> str:
    """Say in words why a commit was not made; `cause` as for `_defer_commit`."""
    if cause == MOVED:
        return "the branch keeps moving: another program commits all the time"
    if cause != LOCKED:
        return cause
    lock = repo.git_dir / "index.lock"
    if lock.exists():
        return f"{lock} is there"
    return "another Git command runs here"


# under the locks


def _exchange_with_retry(
    repo: Repo, files: StoreFiles, draft: Draft, locks: GitLocks, timeout: float
) -> SaveResult | str:
    """Make the exchange when no command of the user's runs; wait for one up to `timeout` seconds.

    Returns as `_commit_plan`.
    """
    index_lock = repo.git_dir / "index.lock"
    deadline = time.monotonic() + timeout
    pause = _PAUSE
    while True:
        result: SaveResult | str = LOCKED
        if not index_lock.exists() and not state.is_command_starting(repo.folders):
            result = _exchange(repo, files, draft, locks)
            pause = _MAX_PAUSE  # our tries are in the way of others too
        if result != LOCKED or time.monotonic() > deadline:
            return result
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)
        busy_reason = repo.find_busy_reason()
        if busy_reason:
            return busy_reason
        if state.read_head_branch(repo.git) != draft.head:
            return MOVED


def _exchange(repo: Repo, files: StoreFiles, draft: Draft, locks: GitLocks) -> SaveResult | str:
    """Take the locks, change record, entry and branch, release the locks, and verify."""
    index = repo.git_dir / "index"
    refusal = ""
    failure = ""
    was_settled = False
    try:
        refusal = _apply_draft(repo, draft, locks)
        old_state = (draft.head.tip, read_file_stamp(index))
        was_settled = repo.settled_state == old_state
    except BaseException as error:
        if not locks.release():
            draft.staged_files.undo()
        if not isinstance(error, GitError) or not _has_moved(repo, draft):
            raise
        failure = f"committed, but Git could not do the rest: {error.message}"
    else:
        locks.release()
    if refusal:
        return refusal
    new_state = (draft.entry.commit, read_file_stamp(index))
    result = _verify_save(repo, files, draft)
    if failure:
        trouble = f"{failure}; {result.trouble}" if result.trouble else failure
        result = result._replace(trouble=trouble)
    repo.settled_state = None
    if was_settled and not result.trouble:
        repo.settled_state = new_state
    return result


def _has_moved(repo: Repo, draft: Draft) -> bool:
    """Whether the branch has the commit: Git may fail after that, at the reflog of HEAD."""
    return state.read_tip(repo.git, draft.head.ref) == draft.entry.commit


def _apply_draft(repo: Repo, draft: Draft, locks: GitLocks) -> str:
    """Change record, entry and branch under the locks; return why nothing was changed, or ""."""
    entry = draft.entry
    head = draft.head
    if not _take_index_lock(repo, locks):
        return LOCKED
    refusal = locks.take_branch(head.ref, entry.commit, head.tip)
    if refusal:
        return refusal
    busy_reason = repo.find_busy_reason()
    if busy_reason:
        return busy_reason
    if state.read_head_ref(repo.git) != head.ref:
        return MOVED
    if state.is_command_starting(repo.folders):
        return LOCKED
    draft.staged_files.publish()
    blobs = {edit.path: edit.blob for edit in entry.edits}
    locks.send_entries(blobs)
    locks.move_branch()
    return ""


def _take_index_lock(repo: Repo, locks: GitLocks) -> bool:
    """Take the index's lock; False if a command of the user's has it or may be about to take it."""
    if not locks.take_merges():
        return False
    if not locks.take_index():
        return False
    return not state.is_command_starting(repo.folders)


def _verify_save(repo: Repo, files: StoreFiles, draft: Draft) -> SaveResult:
    """Wait until the save is on disk, then check branch, index and files.

    What another command has removed from index and files is put back.
    """
    entry = draft.entry
    branch = draft.head.name
    trouble = repo.trouble
    try:
        _sync_save(repo, draft)
        # A merge that began under our locks fails, and takes our entry out of the index.
        while state.has_noted_merge(repo.git_dir):
            time.sleep(_PAUSE)
        head = state.read_head_branch(repo.git)
        if _is_complete(repo, files, entry, head) or journal.restore_lost(
            repo, files, entry, _PATIENCE
        ):
            Journal(repo).mark_done(entry)
        else:
            lock = repo.git_dir / "index.lock"
            trouble = f"the index was not updated: another command holds {lock}"
        if head.tip == entry.commit:
            branch = head.name
        else:
            trouble = journal.describe_lost_file(repo, entry) or trouble
    except (FilememError, OSError) as error:
        trouble = f"committed, but it could not be verified: {error}"
    removes_nothing = all(edit.data is not None for edit in entry.edits)
    return SaveResult(
        commit=entry.commit,
        branch=branch,
        trouble=trouble,
        parent=draft.head.tip,
        entry=entry if removes_nothing else None,
    )


def _sync_save(repo: Repo, draft: Draft) -> None:
    """Wait until branch, files and objects are on disk."""
    branch_file = repo.common_dir / draft.head.ref
    sync_folders([branch_file.parent])
    draft.staged_files.sync_folders()
    repo.objects.restore_objects(draft.objects)


def _is_complete(repo: Repo, files: StoreFiles, entry: JournalEntry, head: Branch) -> bool:
    """Whether files, branch and index have what was saved."""
    for edit in entry.edits:
        if journal.read_file(files, edit.path) != edit.data:
            return False
    return head.tip == entry.commit and journal.is_in_index(repo, [entry])


# what the journal holds


def finish_saves(repo: Repo, files: StoreFiles) -> tuple[SaveResult, ...]:
    """Finish interrupted and pending saves of the journal, and verify recent ones.

    Returns the finished ones. What cannot be finished is named in `repo.trouble`, with the command
    that helps. While another process saves, nothing is done: that process does it.
    """
    current_state = (repo.read_head() or "", read_file_stamp(repo.git_dir / "index"))
    if not repo.has_unfinished_saves:
        repo.trouble = ""
        repo.settled_state = current_state
    open_folder = repo.shared_folder / "journal"
    if repo.settled_state == current_state and not list_entry_names(open_folder):
        return ()
    try:
        with repo.save_lock(_SHORT_PATIENCE):
            return _finish_entries(repo, files)
    except Locked:
        return ()


def _finish_entries(repo: Repo, files: StoreFiles) -> tuple[SaveResult, ...]:
    """Do the work of `finish_saves` under the lock of saves."""
    entries, troubles = Journal(repo).read_entries()
    finished = []
    for entry in entries:
        try:
            result = _finish_entry(repo, files, entry)
        except FilememError as error:
            path = entry.edits[0].path
            troubles.append(f"the save of {path} waits: {error.message} ({entry.file})")
            continue
        if not result.pending:
            finished.append(result)
    troubles += journal.check_recent_saves(repo, files)
    unique_troubles = dict.fromkeys(troubles)
    repo.trouble = "; ".join(unique_troubles)
    return tuple(finished)


def _finish_entry(repo: Repo, files: StoreFiles, entry: JournalEntry) -> SaveResult:
    """Finish an interrupted or pending save, or drop it if the user has changed its files."""
    branch = entry.branch.removeprefix(state.BRANCHES)
    if journal.has_landed(repo, entry):
        _restore_landed(repo, files, entry)
        return SaveResult(entry.commit, branch)
    head = state.read_head_branch(repo.git)
    obstacle = _find_entry_obstacle(repo, entry, head)
    contents = {edit.path: journal.read_file(files, edit.path) for edit in entry.edits}
    is_outdated = _has_edited_file(entry, contents)
    if not is_outdated and not obstacle:
        is_outdated = _has_other_blob(repo, entry, head)
    if is_outdated:
        entry.file.unlink(missing_ok=True)
        return SaveResult(branch=branch)
    only_adds = all(edit.before is None for edit in entry.edits)
    if only_adds or not obstacle:
        journal.write_files(files, _find_unwritten(entry, contents))
    if obstacle:
        return SaveResult(branch=branch, pending=obstacle)
    return _commit_entry(repo, files, entry, branch)


def _commit_entry(repo: Repo, files: StoreFiles, entry: JournalEntry, branch: str) -> SaveResult:
    """Commit the files of an entry, which are written; if that cannot be, the entry stays."""
    plan = CommitPlan(entry.edits, entry.message, entry.timestamp)
    result = _commit_plan(repo, files, plan, _SHORT_PATIENCE, is_written=True)
    if isinstance(result, str):
        return SaveResult(branch=branch, pending=entry.reason or result)
    entry.file.unlink(missing_ok=True)
    return result


def _restore_landed(repo: Repo, files: StoreFiles, entry: JournalEntry) -> None:
    """Restore what index and files lack of a save that its branch has; then it is done."""
    if journal.restore_lost(repo, files, entry, _SHORT_PATIENCE):
        Journal(repo).mark_done(entry)


def _find_entry_obstacle(repo: Repo, entry: JournalEntry, head: Branch) -> str:
    """Return why the save of an entry cannot be committed now, or ""."""
    busy_reason = repo.find_busy_reason()
    if busy_reason:
        return busy_reason
    if not head.ref:
        return "HEAD is detached"
    return journal.describe_other_branch(repo, entry, head)


def _has_edited_file(entry: JournalEntry, contents: Mapping[str, bytes | None]) -> bool:
    """Whether a file that was to be changed holds neither its old nor its new bytes."""
    for edit in entry.edits:
        data = contents[edit.path]
        if edit.before is not None and data not in (edit.before, edit.data):
            return True
    return False


def _has_other_blob(repo: Repo, entry: JournalEntry, head: Branch) -> bool:
    """Whether HEAD holds another version of a file than the save began with."""
    for edit in entry.edits:
        if journal.read_blob_id(repo, head.tip, edit.path) != edit.old_blob:
            return True
    return False


def _find_unwritten(entry: JournalEntry, contents: Mapping[str, bytes | None]) -> list[Edit]:
    """Return the edits whose files still hold the old bytes."""
    edits = [edit for edit in entry.edits if contents[edit.path] == edit.before]
    return [edit for edit in edits if edit.data != edit.before]
