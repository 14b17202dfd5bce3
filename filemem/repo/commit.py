"""The save: Git's own children hold index.lock, HEAD.lock and the branch's lock while record, entry and branch change.

All that is slow comes before: journal, blobs, trees and commit are on disk when the first lock is taken. While these
locks are held the user's commands are refused or wait, so nothing is taken back once the branch has moved. When we are
killed, Git's children see their input end and let go by themselves; the journal finishes the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, FilememError, Locked
from filemem.repo import draft as drafts
from filemem.repo import state
from filemem.repo.draft import Draft, Placer, Plan
from filemem.repo.journal import Edit, Entry, Message, clear
from filemem.repo.locks import LOCKED, MOVED, Locks, describe
from filemem.repo.objects import sync_folder, together
from filemem.repo.run import check_version
from filemem.repo.settle import BRIEFLY, PATIENCE, dropped, landed, look_after, put_back, settle
from filemem.repo.state import Head

if TYPE_CHECKING:
    from filemem.repo import Repo

__all__ = ["STEPS", "Edit", "Made", "Message", "Plan", "finish", "save"]

STEPS = (
    *("planned", "prepared", "index locked", "branch locked", "checked", "placed", "entered", "moved"),
    *("released", "synced", "done"),
)
_ROUNDS = 3  # of a save whose branch moves under it
_PATIENCE = PATIENCE
_PAUSE = 0.01  # seconds between two tries for the locks
_BUSY = "busy"
Step = Callable[[str], object]  # called at each of STEPS; for tests that stop there


class Made(NamedTuple):
    """What became of a save; "" for what does not apply."""

    commit: str = ""  # its id
    branch: str = ""  # the short name of the branch that has it, or is to have it
    pending: str = ""  # why the commit waits
    left: str = ""  # why the files are written and left uncommitted
    trouble: str = ""  # what went wrong beside it, with the command that helps
    onto: str = ""  # the id of the commit that it stands on


def _nothing(_: str) -> None:
    pass


def save(repo: Repo, files: Placer, make: Callable[[], Plan], *, step: Step = _nothing) -> Made:
    """Write some files and commit them, and nothing else. The caller holds `repo.saving()`.

    Returns:
        What became of it. A plan that only adds files may be `pending`; files that are not ours to commit are `left`.

    Raises:
        Conflict: a file has uncommitted edits, another one stands in its place, or the repository is busy.
        Locked: the branch does not hold still, or another command keeps a lock.
        BadInput: Git does not know who commits.
        BrokenStore: disk or repository refuse; nothing is left of the save then.
    """
    repo.configuration.settings(now=True)  # filters may have been named just now
    repo.identity()
    check_version(repo.git)
    finish(repo, files)
    for _ in range(_ROUNDS):
        plan = make()
        step("planned")
        head = state.head(repo.git)
        if reason := repo.busy():
            return _wait(repo, files, plan, reason)
        targets = drafts.targets_of(repo, plan.edits, head)
        if reason := drafts.not_ours(repo, targets, head):
            return _leave(repo, files, plan.edits, head, reason)
        drafts.refuse_edited(repo, targets)
        if all(target.blob == target.old for target in targets):
            return _leave(repo, files, plan.edits, head, "")._replace(commit=head.tip)
        draft = drafts.prepare(repo, files, plan, head, targets)
        step("prepared")
        try:
            outcome = _patiently(repo, files, draft, step, _PATIENCE)
        except BaseException:
            if not landed(repo, draft.entry):
                repo.journal.drop(draft.entry)
            raise
        if not outcome:
            made = _acknowledge(repo, files, draft, step)
            step("done")
            return made
        repo.journal.drop(draft.entry)
        if outcome != MOVED:
            return _wait(repo, files, plan, repo.busy() or describe(repo.git_dir), locked=outcome == LOCKED)
    raise Locked("the branch does not hold still", "another program commits without a pause; try again")


def _wait(repo: Repo, files: Placer, plan: Plan, reason: str, *, locked: bool = False) -> Made:
    """Write new files and leave their commit for later: the journal keeps it. Raises Conflict, Locked."""
    branch = state.branch_meant(repo.git)
    name, own, none = repo.journal.name(plan.at), repo.journal.worktree, ("",) * len(plan.edits)
    blobs = tuple("" if edit.data is None else repo.blob_id(edit.data) for edit in plan.edits)
    entry = Entry(own, branch, "", plan.message, plan.edits, plan.at, blobs, none, reason, name)
    if not entry.adds:
        if locked:
            raise Locked(reason, "try again; if no Git command is running there, one was interrupted: remove that file")
        raise Conflict(f"{reason}, so nothing that is committed can be changed", "try again when that is over")
    repo.journal.write(entry)
    try:
        drafts.write(files, plan.edits)
    except BaseException:
        repo.journal.drop(entry)
        raise
    return Made(branch=branch.removeprefix(state.BRANCHES), pending=reason, trouble=repo.trouble)


def _leave(repo: Repo, files: Placer, edits: Sequence[Edit], head: Head, reason: str) -> Made:
    """Change files that are not ours to commit, or that need no commit."""
    drafts.write(files, [edit for edit in edits if edit.data != edit.before])
    return Made(branch=head.branch, left=reason, trouble=repo.trouble)


# under the locks


def _patiently(repo: Repo, files: Placer, draft: Draft, step: Step, patience: float) -> str:
    """Bring a draft to HEAD, index and files; returns "", or LOCKED, MOVED or _BUSY with nothing changed."""
    stop = time.monotonic() + patience
    outcome = LOCKED
    try:
        while (outcome := _exchange(repo, files, draft, step)) == LOCKED and time.monotonic() < stop:
            time.sleep(_PAUSE)
            if repo.busy():
                return (outcome := _BUSY)
            if state.head(repo.git) != draft.head:
                return (outcome := MOVED)
        return outcome
    finally:
        if outcome:
            drafts.discard(draft.places)


def _exchange(repo: Repo, files: Placer, draft: Draft, step: Step) -> str:
    """Take the locks, change the three, and let go."""
    if (repo.git_dir / "index.lock").exists():
        return LOCKED
    placed: list[Edit] = []
    locks = Locks(repo, reading=draft.readable)
    try:
        outcome = _change(repo, files, draft, locks, placed, step)
    except BaseException:
        locks.release_branch()
        moved = state.tip_of(repo.git, draft.head.ref) == draft.entry.commit
        locks.release(keep=moved)
        if not moved:
            drafts.unplace(files, placed)
        raise
    locks.release(keep=not outcome)
    return outcome


def _change(repo: Repo, files: Placer, draft: Draft, locks: Locks, placed: list[Edit], step: Step) -> str:
    entry, head = draft.entry, draft.head
    if not locks.take_index():
        return LOCKED
    step("index locked")
    if outcome := locks.take_branch(head.ref, entry.commit, head.tip):
        return outcome
    step("branch locked")
    if repo.busy():
        return _BUSY
    if state.head_ref(repo.git) != head.ref:
        return MOVED
    step("checked")
    drafts.place(files, draft.places, placed)
    step("placed")
    locks.enter({edit.path: blob for edit, blob, _ in entry.rows})
    step("entered")
    locks.move()
    step("moved")
    return ""


# after the locks


def _acknowledge(repo: Repo, files: Placer, draft: Draft, step: Step) -> Made:
    """Wait for the disk, and look whether all is there."""
    step("released")
    entry, trouble = draft.entry, repo.trouble
    try:
        folders = [staged.sync_folders for _, staged in draft.places if staged is not None]
        together([partial(sync_folder, (repo.common_dir / entry.branch).parent), *folders])
        step("synced")
        repo.objects.restore(draft.objects)
        if settle(repo, files, entry, _PATIENCE, new=True):
            repo.journal.done(entry)
        else:
            trouble = f"the index was not updated: {describe(repo.git_dir)}"
        trouble = dropped(repo, entry) or trouble
    except (FilememError, OSError) as error:
        trouble = f"committed, but perhaps not on the disk yet: {error}"
    finally:
        drafts.discard(draft.places)
    now = state.head(repo.git)
    branch = now.branch if now.tip == entry.commit else draft.head.branch
    return Made(entry.commit, branch, trouble=trouble, onto=draft.head.tip)


def finish(repo: Repo, files: Placer) -> tuple[Made, ...]:
    """End what the journal holds of saves that were interrupted or had to wait, and look after those just done.

    What cannot be ended or read stands in `repo.trouble` afterwards, with the command that helps; nothing is raised
    for it. Where another process saves at the moment, it does all this.

    Returns:
        What became of the saves that were ended.
    """
    if repo.journal.empty:
        repo.trouble = ""
        return ()
    try:
        with repo.saving(BRIEFLY):
            return _finish(repo, files)
    except Locked:
        return ()


def _finish(repo: Repo, files: Placer) -> tuple[Made, ...]:
    clear(repo.places.spool, repo.places.object_spool)
    entries, troubles = repo.journal.entries()
    made = []
    for entry in entries:
        try:
            made.append(_end(repo, files, entry))
        except FilememError as error:
            troubles.append(f"the save of {entry.edits[0].path} waits: {error.message} ({entry.file})")
    recent, unreadable = repo.journal.recent(time.time())
    troubles += [*unreadable, *look_after(repo, files, recent)]
    repo.trouble = "; ".join(dict.fromkeys(troubles))
    return tuple(each for each in made if not each.pending)


def _end(repo: Repo, files: Placer, entry: Entry) -> Made:
    """End a save that was interrupted, or had to wait; a change that did not happen is undone."""
    branch = entry.branch.removeprefix(state.BRANCHES)
    if landed(repo, entry):
        if settle(repo, files, entry, BRIEFLY, new=True):
            repo.journal.done(entry)
        return Made(entry.commit, branch)
    if not entry.adds:
        drafts.unplace(files, entry.edits)
        put_back(repo, files, entry)
        repo.journal.drop(entry)
        return Made(branch=branch)
    head = state.head(repo.git)
    reason = repo.busy() or ("" if head.ref else "HEAD is detached")
    if not reason and entry.branch not in ("", head.ref) and state.tip_of(repo.git, entry.branch):
        reason = f"it is for the branch {branch}"
    targets = () if reason else drafts.targets_of(repo, entry.edits, head)
    left = drafts.not_ours(repo, targets, head) if targets else ""
    if reason or left or all(target.blob == target.old for target in targets):
        drafts.write(files, [edit for edit in entry.edits if drafts.on_disk(files, edit.path) is None])
        if not reason:
            repo.journal.drop(entry)
        return Made("" if reason or left else head.tip, branch, pending=reason, left=left)
    drafts.refuse_edited(repo, targets)
    draft = drafts.prepare(repo, files, Plan(entry.edits, entry.message, entry.at), head, targets, entry)
    if outcome := _patiently(repo, files, draft, _nothing, BRIEFLY):
        repo.journal.write(entry)
        return Made(branch=branch, pending=entry.reason or outcome)
    return _acknowledge(repo, files, draft, _nothing)
