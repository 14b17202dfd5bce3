"""The save: record, entry and branch change under locks that Git's own children hold.

The locks are index.lock, HEAD.lock and the branch's lock. All slow work comes first: journal,
blobs, trees and commit are on disk before the first lock is taken. Under the locks the user's
commands are refused or wait, so nothing is rolled back once the branch has moved. If we are
killed, Git's children see their input end and release the locks; the next command finishes the
save from the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, FilememError, Locked
from filemem.repo import journal, state
from filemem.repo.disk import sync_folders
from filemem.repo.journal import CommitPlan, Edit, Journal, JournalEntry, StoreFiles
from filemem.repo.objects import LooseObject, build_commit, publish_objects
from filemem.repo.run import GitError, read_file_stamp, require_version
from filemem.repo.settings import find_ignored, find_obstacle
from filemem.repo.state import LOCKED, MOVED, Branch, GitLocks

if TYPE_CHECKING:
    from filemem.repo import Repo

__all__ = ["CommitPlan", "Edit", "SaveResult", "finish_saves", "render_message", "save_files"]

_MAX_ATTEMPTS = 3  # of a save whose branch moves under it
_PATIENCE, _SHORT_PATIENCE = journal.PATIENCE, journal.SHORT_PATIENCE
_PAUSE, _MAX_PAUSE = 0.01, 0.16  # seconds between the first two tries for the locks, and later


class SaveResult(NamedTuple):
    """The result of a save; "" for what does not apply."""

    commit: str = ""  # its id
    branch: str = ""  # the short name of the branch that has it, or is to have it
    pending: str = ""  # why the commit waits
    uncommitted_reason: str = ""  # why the files are written and left uncommitted
    trouble: str = ""  # what went wrong beside it, with the command that helps
    parent: str = ""  # the id of the commit that it stands on
    entry: JournalEntry | None = (
        None  # what was committed, unless Git must be asked: a removal may be a rename
    )


class _Draft(NamedTuple):
    """A commit on top of HEAD, on disk except for the branch, and the files that are not in place yet."""

    head: Branch
    entry: JournalEntry
    objects: list[LooseObject]
    staged_files: journal.StagedFiles


def render_message(subject: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
    """A commit message: one subject line and one line for each trailer, whatever callers pass."""
    rows = [f"{key}: {line}\n" for key, value in trailers if (line := _format_line(value, 400))]
    return f"{_format_line(subject, 120) or 'record'}\n" + ("\n" + "".join(rows) if rows else "")


def _format_line(text: str, limit: int) -> str:
    cleaned = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 8]).split())
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 3].rstrip() + "..."


def save_files(repo: Repo, files: StoreFiles, make_plan: Callable[[], CommitPlan]) -> SaveResult:
    """Write some files and commit them, and nothing else. The caller holds `repo.saving()`.

    Returns the result: a plan that only adds files may be `pending`; files that are not ours are `left`.

    Raises:
        Conflict: a file has uncommitted edits, another one stands in its place, or the repository is busy.
        Locked: the branch keeps moving, or another command holds a lock.
        BadInput, BrokenStore: Git knows no user name; disk or repository fail. Nothing of the save is left.
    """
    repo.require_identity()
    require_version(repo.git)
    finish_saves(repo, files)
    for _ in range(_MAX_ATTEMPTS):
        plan = make_plan()
        result = _commit_plan(repo, files, plan, _PATIENCE)
        if isinstance(result, SaveResult):
            return result
        if result != MOVED:
            return _defer_commit(repo, files, plan, result)
    return _defer_commit(repo, files, plan, MOVED)


def _commit_plan(
    repo: Repo, files: StoreFiles, plan: CommitPlan, timeout: float, *, is_written: bool = False
) -> SaveResult | str:
    """Commit a plan on top of HEAD, or return why not: MOVED, LOCKED or busy.

    `written`: the files are in place.
    """
    head = state.read_head_branch(repo.git)
    if reason := repo.find_busy_reason():
        return reason
    if not head.ref and state.read_head_branch(repo.git) != head:  # a rebase has ended in between
        return MOVED
    edits = []
    for edit in plan.edits:
        old_blob = journal.read_blob_id(repo, head.tip, edit.path)
        blob = (
            "" if edit.data is None else repo.compute_committed_id(edit.path, edit.data, old_blob)
        )
        edits.append(edit._replace(old_blob=old_blob, blob=blob))
    plan = plan._replace(edits=tuple(edits))
    changed_edits = [] if is_written else [edit for edit in plan.edits if edit.data != edit.before]
    uncommitted_reason = _find_commit_obstacle(repo, plan.edits, head)
    if not uncommitted_reason and not is_written:
        _refuse_edited(repo, plan.edits)
    if uncommitted_reason or all(edit.blob == edit.old_blob for edit in plan.edits):
        journal.write_files(files, changed_edits)
        return SaveResult(
            "" if uncommitted_reason else head.tip,
            head.name,
            uncommitted_reason=uncommitted_reason,
            trouble=repo.trouble,
        )
    locks = GitLocks(repo, reads_files=_can_read_files(repo, plan, changed_edits))
    try:
        locks.start()  # its children get ready while the commit is written
        draft = _prepare_commit(repo, files, plan, head, changed_edits)
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
    """Write new files and leave their commit for later, in the journal. Raises Conflict, Locked."""
    save_journal, branch = Journal(repo), state.find_intended_branch(repo.git)
    lock = repo.git_dir / "index.lock"
    lock_message = f"{lock} is there" if lock.exists() else "another Git command runs here"
    move_message = "the branch keeps moving: another program commits all the time"
    reason = {LOCKED: lock_message, MOVED: move_message}.get(cause, cause)
    if any(edit.before is not None or edit.data is None for edit in plan.edits):
        error_class = Conflict if reason == cause else Locked
        raise error_class(
            f"{reason}, so nothing that is committed can be changed", "try again when that is over"
        )
    edits = tuple(edit._replace(blob=repo.compute_blob_id(edit.data or b"")) for edit in plan.edits)
    # Of a command that lasts a moment: a switch may be going on, so any branch will do afterwards.
    entry_branch = branch if reason == cause else ""
    entry = save_journal.build_entry(plan._replace(edits=edits), entry_branch, reason=reason)
    save_journal.write_entry(entry)
    try:
        journal.write_files(files, plan.edits)
    except BaseException:
        entry.file.unlink(missing_ok=True)
        raise
    return SaveResult(
        branch=branch.removeprefix(state.BRANCHES), pending=reason, trouble=repo.trouble
    )


# what is committed


def _find_commit_obstacle(repo: Repo, edits: Iterable[Edit], head: Branch) -> str:
    """Why files are not ours to commit, or ""."""
    if not head.ref:
        return "HEAD is detached: `git switch` to a branch, then commit it"
    new_edits = [edit for edit in edits if not edit.old_blob]
    if ignored_path := find_ignored(repo, *(edit.path for edit in new_edits)):
        return f"Git ignores {ignored_path}"
    if untracked_edit := next(
        (edit for edit in new_edits if edit.before is not None and edit.data is not None), None
    ):
        return f"{untracked_edit.path} was never committed; commit it with Git"
    return find_obstacle(repo, *(edit.path for edit in edits))


def _refuse_edited(repo: Repo, edits: Sequence[Edit]) -> None:
    """Refuse to change a file that has uncommitted edits. Raises Conflict."""
    staged = repo.read_staged([edit.path for edit in edits if edit.old_blob])
    for path, _, before, blob, old_blob in edits:
        if before is None:
            if old_blob not in ("", blob):
                raise Conflict(
                    f"{path} was deleted, and the deletion is not committed",
                    "commit or undo it first",
                )
        elif not old_blob:
            raise Conflict(
                f"{path} was never committed, so it could not be restored", "commit it first"
            )
        elif staged.get(path) != old_blob or old_blob != repo.compute_committed_id(
            path, before, old_blob
        ):
            raise Conflict(f"{path} has edits that are not committed", "commit or undo that first")


def _prepare_commit(
    repo: Repo, files: StoreFiles, plan: CommitPlan, head: Branch, changed_edits: Sequence[Edit]
) -> _Draft:
    """Write a commit on top of HEAD to disk, with its journal entry and the files beside their places."""
    edits, root = plan.edits, repo.objects.read_root(head.tip) if head.tip else ""
    contents = {
        edit.path: edit.data
        if edit.data is None
        else repo.convert_for_commit(edit.path, edit.data, edit.old_blob)
        for edit in edits
    }
    tree, loose_objects = repo.objects.splice_tree(root, contents)
    if repo.settings.is_signing:  # Git reads the tree
        publish_objects(loose_objects)
    loose_objects.append(
        build_commit(repo, tree, (head.tip,) if head.tip else (), plan.message, plan.timestamp)
    )
    save_journal = Journal(repo)
    entry = save_journal.build_entry(plan, head.ref, loose_objects[-1].oid)
    staged_files = journal.StagedFiles(files, changed_edits)
    entry_source = None
    try:
        entry_source = save_journal.stage_entry(entry)
        publish_objects(
            loose_objects,
            [entry_source, *staged_files.sources],
            partial(save_journal.place_entry, entry_source, entry),
        )
    except BaseException:
        staged_files.discard()
        for file in filter(None, (entry_source, entry.file)):
            file.unlink(missing_ok=True)
        raise
    return _Draft(head, entry, loose_objects, staged_files)


def _can_read_files(repo: Repo, plan: CommitPlan, changed_edits: Sequence[Edit]) -> bool:
    """Whether files will be, byte for byte, what is committed: Git may read them for the index."""
    # Git would convert what it reads of other line ends.
    keeps_line_ends = all(b"\r\n" not in (edit.data or b"") for edit in plan.edits)
    return (
        keeps_line_ends
        and len(changed_edits) == len(plan.edits)
        and repo.settings.no_filter_settings is not None
    )


# under the locks


def _exchange_with_retry(
    repo: Repo, files: StoreFiles, draft: _Draft, locks: GitLocks, timeout: float
) -> SaveResult | str:
    """Make the exchange where no command of the user's runs; wait for one for some seconds."""
    deadline = time.monotonic() + timeout
    pause = _PAUSE
    while True:
        result: SaveResult | str = LOCKED
        if not (repo.git_dir / "index.lock").exists() and not state.is_command_starting(
            repo.folders
        ):
            result = _exchange(repo, files, draft, locks)
            pause = _MAX_PAUSE  # our tries are in the way of others too
        if result != LOCKED or time.monotonic() > deadline:
            return result
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)
        if reason := repo.find_busy_reason():
            return reason
        if state.read_head_branch(repo.git) != draft.head:
            return MOVED


def _exchange(repo: Repo, files: StoreFiles, draft: _Draft, locks: GitLocks) -> SaveResult | str:
    """Take the locks, change record, entry and branch, release the locks, and verify."""
    refusal = failure = ""
    was_settled = False
    try:
        refusal = _apply_draft(repo, draft, locks)
        was_settled = repo.settled_state == (
            draft.head.tip,
            read_file_stamp(repo.git_dir / "index"),
        )
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
    new_state = draft.entry.commit, read_file_stamp(repo.git_dir / "index")
    result = _verify_save(repo, files, draft)
    if failure:
        result = result._replace(trouble="; ".join(filter(None, (failure, result.trouble))))
    repo.settled_state = new_state if was_settled and not result.trouble else None
    return result


def _has_moved(repo: Repo, draft: _Draft) -> bool:
    """Whether the branch has the commit: Git may fail after that, at the reflog of HEAD."""
    return state.read_tip(repo.git, draft.head.ref) == draft.entry.commit


def _apply_draft(repo: Repo, draft: _Draft, locks: GitLocks) -> str:
    """Change record, entry and branch under the locks; return why nothing was changed, or ""."""
    entry, head = draft.entry, draft.head
    if not _take_index_lock(repo, locks):
        return LOCKED
    if reason := locks.take_branch(head.ref, entry.commit, head.tip):
        return reason
    if reason := repo.find_busy_reason() or (
        "" if state.read_head_ref(repo.git) == head.ref else MOVED
    ):
        return reason
    if state.is_command_starting(repo.folders):
        return LOCKED
    draft.staged_files.publish()
    locks.send_entries({edit.path: edit.blob for edit in entry.edits})
    locks.move_branch()
    return ""


def _take_index_lock(repo: Repo, locks: GitLocks) -> bool:
    """Take the index's lock where no command of the user's may be about to."""
    return (
        locks.take_merges() and locks.take_index() and not state.is_command_starting(repo.folders)
    )


def _verify_save(repo: Repo, files: StoreFiles, draft: _Draft) -> SaveResult:
    """Wait until all is on disk, and check branch, index and files; what another command removed is put back."""
    entry, trouble, branch = draft.entry, repo.trouble, draft.head.name
    try:
        sync_folders([(repo.common_dir / draft.head.ref).parent])
        draft.staged_files.sync_folders()
        repo.objects.restore_objects(draft.objects)
        # A merge that began under our locks fails, and takes our entry out of the index.
        while state.has_noted_merge(repo.git_dir):
            time.sleep(_PAUSE)
        current_head = state.read_head_branch(repo.git)
        is_complete = all(journal.read_file(files, edit.path) == edit.data for edit in entry.edits)
        is_complete = (
            is_complete and current_head.tip == entry.commit and journal.is_in_index(repo, (entry,))
        )
        if is_complete or journal.restore_lost(repo, files, entry, _PATIENCE):
            Journal(repo).mark_done(entry)
        else:
            trouble = (
                f"the index was not updated: another command holds {repo.git_dir / 'index.lock'}"
            )
        if current_head.tip == entry.commit:
            branch = current_head.name
        else:
            trouble = journal.describe_lost_file(repo, entry) or trouble
    except (FilememError, OSError) as error:
        trouble = f"committed, but it could not be verified: {error}"
    removes_nothing = all(edit.data is not None for edit in entry.edits)
    return SaveResult(
        entry.commit,
        branch,
        trouble=trouble,
        parent=draft.head.tip,
        entry=entry if removes_nothing else None,
    )


# what the journal holds


def finish_saves(repo: Repo, files: StoreFiles) -> tuple[SaveResult, ...]:
    """Finish interrupted and pending saves of the journal, verify recent ones, and return what was finished.

    What cannot be finished is named in `repo.trouble`, with the command that helps. If another process is saving, it
    does this.
    """
    current_state = repo.read_head() or "", read_file_stamp(repo.git_dir / "index")
    if not repo.has_unfinished_saves:
        repo.trouble, repo.settled_state = "", current_state
    if repo.settled_state == current_state and not state.list_entry_names(
        repo.shared_folder / "journal"
    ):
        return ()
    try:
        with repo.save_lock(_SHORT_PATIENCE):
            entries, troubles = Journal(repo).read_entries()
            results = []
            for entry in entries:
                try:
                    results.append(_finish_entry(repo, files, entry))
                except FilememError as error:
                    troubles.append(
                        f"the save of {entry.edits[0].path} waits: {error.message} ({entry.file})"
                    )
            troubles += journal.check_recent_saves(repo, files)
            repo.trouble = "; ".join(dict.fromkeys(troubles))
            return tuple(result for result in results if not result.pending)
    except Locked:
        return ()


def _finish_entry(repo: Repo, files: StoreFiles, entry: JournalEntry) -> SaveResult:
    """Finish an interrupted or pending save, unless the user has changed what it was to change."""
    branch = entry.branch.removeprefix(state.BRANCHES)
    if journal.has_landed(repo, entry):
        if journal.restore_lost(repo, files, entry, _SHORT_PATIENCE):
            Journal(repo).mark_done(entry)
        return SaveResult(entry.commit, branch)
    head = state.read_head_branch(repo.git)
    reason = repo.find_busy_reason() or ("" if head.ref else "HEAD is detached")
    reason = reason or journal.describe_other_branch(repo, entry, head)
    contents = [(edit, journal.read_file(files, edit.path)) for edit in entry.edits]
    is_edited = any(
        edit.before is not None and current_data not in (edit.before, edit.data)
        for edit, current_data in contents
    )
    if is_edited or (
        not reason
        and any(
            journal.read_blob_id(repo, head.tip, edit.path) != edit.old_blob for edit in entry.edits
        )
    ):
        entry.file.unlink(missing_ok=True)
        return SaveResult(branch=branch)
    if not reason or all(edit.before is None for edit in entry.edits):
        journal.write_files(
            files, [edit for edit, now in contents if now == edit.before != edit.data]
        )
    result: SaveResult | str = reason
    if not reason:
        result = _commit_plan(
            repo,
            files,
            CommitPlan(entry.edits, entry.message, entry.timestamp),
            _SHORT_PATIENCE,
            is_written=True,
        )
    if isinstance(result, str):
        return SaveResult(branch=branch, pending=reason or entry.reason or result)
    entry.file.unlink(missing_ok=True)
    return result
