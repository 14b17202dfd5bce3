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
from filemem.repo.disk import flush
from filemem.repo.journal import Edit, Entry, Journal, Placer, Plan
from filemem.repo.objects import Loose, commit_object, publish
from filemem.repo.run import GitError, check_version, stamp
from filemem.repo.settings import ignored, obstacle
from filemem.repo.state import LOCKED, MOVED, Branch, Locks

if TYPE_CHECKING:
    from filemem.repo import Repo

__all__ = ["Edit", "Made", "Plan", "finish", "message", "save"]

_ROUNDS = 3  # of a save whose branch moves under it
_PATIENCE, _BRIEFLY = journal.PATIENCE, journal.BRIEFLY
_PAUSE, _LONGEST = 0.01, 0.16  # seconds between the first two tries for the locks, and later


class Made(NamedTuple):
    """The result of a save; "" for what does not apply."""

    commit: str = ""  # its id
    branch: str = ""  # the short name of the branch that has it, or is to have it
    pending: str = ""  # why the commit waits
    left: str = ""  # why the files are written and left uncommitted
    trouble: str = ""  # what went wrong beside it, with the command that helps
    onto: str = ""  # the id of the commit that it stands on
    entry: Entry | None = (
        None  # what was committed, unless Git must be asked: a removal may be a rename
    )


class _Draft(NamedTuple):
    """A commit on top of HEAD, on disk except for the branch, and the files that are not in place yet."""

    head: Branch
    entry: Entry
    objects: list[Loose]
    aside: journal.Aside


def message(subject: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
    """A commit message: one subject line and one line for each trailer, whatever callers pass."""
    rows = [f"{key}: {line}\n" for key, value in trailers if (line := _line(value, 400))]
    return f"{_line(subject, 120) or 'record'}\n" + ("\n" + "".join(rows) if rows else "")


def _line(text: str, limit: int) -> str:
    kept = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 8]).split())
    return kept if len(kept) <= limit else kept[: limit - 3].rstrip() + "..."


def save(repo: Repo, files: Placer, make: Callable[[], Plan]) -> Made:
    """Write some files and commit them, and nothing else. The caller holds `repo.saving()`.

    Returns the result: a plan that only adds files may be `pending`; files that are not ours are `left`.

    Raises:
        Conflict: a file has uncommitted edits, another one stands in its place, or the repository is busy.
        Locked: the branch keeps moving, or another command holds a lock.
        BadInput, BrokenStore: Git knows no user name; disk or repository fail. Nothing of the save is left.
    """
    repo.identity()
    check_version(repo.git)
    finish(repo, files)
    for _ in range(_ROUNDS):
        plan = make()
        made = _commit(repo, files, plan, _PATIENCE)
        if isinstance(made, Made):
            return made
        if made != MOVED:
            return _wait(repo, files, plan, made)
    return _wait(repo, files, plan, MOVED)


def _commit(
    repo: Repo, files: Placer, plan: Plan, patience: float, *, written: bool = False
) -> Made | str:
    """Commit a plan on top of HEAD, or return why not: MOVED, LOCKED or busy.

    `written`: the files are in place.
    """
    head = state.head(repo.git)
    if reason := repo.busy():
        return reason
    if not head.ref and state.head(repo.git) != head:  # a rebase has ended in between
        return MOVED
    edits = []
    for edit in plan.edits:
        old = journal.held(repo, head.tip, edit.path)
        blob = "" if edit.data is None else repo.committed_id(edit.path, edit.data, old)
        edits.append(edit._replace(old=old, blob=blob))
    plan = plan._replace(edits=tuple(edits))
    changed = [] if written else [edit for edit in plan.edits if edit.data != edit.before]
    left = _not_ours(repo, plan.edits, head)
    if not left and not written:
        _refuse_edited(repo, plan.edits)
    if left or all(edit.blob == edit.old for edit in plan.edits):
        journal.write(files, changed)
        return Made("" if left else head.tip, head.name, left=left, trouble=repo.trouble)
    locks = Locks(repo, reading=_readable(repo, plan, changed))
    try:
        locks.start()  # its children get ready while the commit is written
        draft = _prepare(repo, files, plan, head, changed)
    except BaseException:
        locks.release()
        raise
    try:
        made = _exchange_soon(repo, files, draft, locks, patience)
    except BaseException:
        if not journal.landed(repo, draft.entry):
            draft.entry.file.unlink(missing_ok=True)
        raise
    finally:
        locks.release()
        draft.aside.discard()
    if isinstance(made, str):
        draft.entry.file.unlink(missing_ok=True)
    return made


def _wait(repo: Repo, files: Placer, plan: Plan, why: str) -> Made:
    """Write new files and leave their commit for later, in the journal. Raises Conflict, Locked."""
    saves, branch = Journal(repo), state.branch_meant(repo.git)
    lock = repo.git_dir / "index.lock"
    runs = f"{lock} is there" if lock.exists() else "another Git command runs here"
    moves = "the branch keeps moving: another program commits all the time"
    reason = {LOCKED: runs, MOVED: moves}.get(why, why)
    if any(edit.before is not None or edit.data is None for edit in plan.edits):
        kind = Conflict if reason == why else Locked
        raise kind(
            f"{reason}, so nothing that is committed can be changed", "try again when that is over"
        )
    edits = tuple(edit._replace(blob=repo.blob_id(edit.data or b"")) for edit in plan.edits)
    # Of a command that lasts a moment: a switch may be going on, so any branch will do afterwards.
    meant = branch if reason == why else ""
    entry = saves.new(plan._replace(edits=edits), meant, reason=reason)
    saves.write(entry)
    try:
        journal.write(files, plan.edits)
    except BaseException:
        entry.file.unlink(missing_ok=True)
        raise
    return Made(branch=branch.removeprefix(state.BRANCHES), pending=reason, trouble=repo.trouble)


# what is committed


def _not_ours(repo: Repo, edits: Iterable[Edit], head: Branch) -> str:
    """Why files are not ours to commit, or ""."""
    if not head.ref:
        return "HEAD is detached: `git switch` to a branch, then commit it"
    new = [edit for edit in edits if not edit.old]
    if found := ignored(repo, *(edit.path for edit in new)):
        return f"Git ignores {found}"
    if had := next(
        (edit for edit in new if edit.before is not None and edit.data is not None), None
    ):
        return f"{had.path} was never committed; commit it with Git"
    return obstacle(repo, *(edit.path for edit in edits))


def _refuse_edited(repo: Repo, edits: Sequence[Edit]) -> None:
    """Refuse to change a file that has uncommitted edits. Raises Conflict."""
    staged = repo.staged([edit.path for edit in edits if edit.old])
    for path, _, before, blob, old in edits:
        if before is None:
            if old not in ("", blob):
                raise Conflict(
                    f"{path} was deleted, and the deletion is not committed",
                    "commit or undo it first",
                )
        elif not old:
            raise Conflict(
                f"{path} was never committed, so it could not be restored", "commit it first"
            )
        elif staged.get(path) != old or old != repo.committed_id(path, before, old):
            raise Conflict(f"{path} has edits that are not committed", "commit or undo that first")


def _prepare(
    repo: Repo, files: Placer, plan: Plan, head: Branch, changed: Sequence[Edit]
) -> _Draft:
    """Write a commit on top of HEAD to disk, with its journal entry and the files beside their places."""
    edits, root = plan.edits, repo.objects.root(head.tip) if head.tip else ""
    kept = {
        one.path: one.data if one.data is None else repo.committed(one.path, one.data, one.old)
        for one in edits
    }
    tree, made = repo.objects.splice(root, kept)
    if repo.settings.signed:  # Git reads the tree
        publish(made)
    made.append(commit_object(repo, tree, (head.tip,) if head.tip else (), plan.message, plan.at))
    saves = Journal(repo)
    entry = saves.new(plan, head.ref, made[-1].oid)
    aside = journal.Aside(files, changed)
    source = None
    try:
        source = saves.stage(entry)
        publish(made, [source, *aside.sources], partial(saves.keep, source, entry))
    except BaseException:
        aside.discard()
        for file in filter(None, (source, entry.file)):
            file.unlink(missing_ok=True)
        raise
    return _Draft(head, entry, made, aside)


def _readable(repo: Repo, plan: Plan, changed: Sequence[Edit]) -> bool:
    """Whether files will be, byte for byte, what is committed: Git may read them for the index."""
    # Git would convert what it reads of other line ends.
    plain = all(b"\r\n" not in (edit.data or b"") for edit in plan.edits)
    return plain and len(changed) == len(plan.edits) and repo.settings.unfiltered is not None


# under the locks


def _exchange_soon(
    repo: Repo, files: Placer, draft: _Draft, locks: Locks, patience: float
) -> Made | str:
    """Make the exchange where no command of the user's runs; wait for one for some seconds."""
    stop = time.monotonic() + patience
    pause = _PAUSE
    while True:
        made: Made | str = LOCKED
        if not (repo.git_dir / "index.lock").exists() and not state.beginning(repo.places):
            made = _exchange(repo, files, draft, locks)
            pause = _LONGEST  # our tries are in the way of others too
        if made != LOCKED or time.monotonic() > stop:
            return made
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
        if reason := repo.busy():
            return reason
        if state.head(repo.git) != draft.head:
            return MOVED


def _exchange(repo: Repo, files: Placer, draft: _Draft, locks: Locks) -> Made | str:
    """Take the locks, change record, entry and branch, release the locks, and verify."""
    why = failure = ""
    steady = False
    try:
        why = _change(repo, draft, locks)
        steady = repo.settled == (draft.head.tip, stamp(repo.git_dir / "index"))
    except BaseException as error:
        if not locks.release():
            draft.aside.undo()
        if not isinstance(error, GitError) or not _moved(repo, draft):
            raise
        failure = f"committed, but Git could not do the rest: {error.message}"
    else:
        locks.release()
    if why:
        return why
    now = draft.entry.commit, stamp(repo.git_dir / "index")
    made = _verified(repo, files, draft)
    if failure:
        made = made._replace(trouble="; ".join(filter(None, (failure, made.trouble))))
    repo.settled = now if steady and not made.trouble else None
    return made


def _moved(repo: Repo, draft: _Draft) -> bool:
    """Whether the branch has the commit: Git may fail after that, at the reflog of HEAD."""
    return state.tip_of(repo.git, draft.head.ref) == draft.entry.commit


def _change(repo: Repo, draft: _Draft, locks: Locks) -> str:
    """Change record, entry and branch under the locks; return why nothing was changed, or ""."""
    entry, head = draft.entry, draft.head
    if not _take_index(repo, locks):
        return LOCKED
    if why := locks.take_branch(head.ref, entry.commit, head.tip):
        return why
    if why := repo.busy() or ("" if state.head_ref(repo.git) == head.ref else MOVED):
        return why
    if state.beginning(repo.places):
        return LOCKED
    draft.aside.place()
    locks.enter({edit.path: edit.blob for edit in entry.edits})
    locks.move()
    return ""


def _take_index(repo: Repo, locks: Locks) -> bool:
    """Take the index's lock where no command of the user's may be about to."""
    return locks.take_merges() and locks.take_index() and not state.beginning(repo.places)


def _verified(repo: Repo, files: Placer, draft: _Draft) -> Made:
    """Wait until all is on disk, and check branch, index and files; what another command removed is put back."""
    entry, trouble, branch = draft.entry, repo.trouble, draft.head.name
    try:
        flush([(repo.common_dir / draft.head.ref).parent])
        draft.aside.sync_folders()
        repo.objects.restore(draft.objects)
        # A merge that began under our locks fails, and takes our entry out of the index.
        while state.noted_merge(repo.git_dir):
            time.sleep(_PAUSE)
        now = state.head(repo.git)
        there = all(journal.on_disk(files, edit.path) == edit.data for edit in entry.edits)
        there = there and now.tip == entry.commit and journal.shown(repo, (entry,))
        if there or journal.settle(repo, files, entry, _PATIENCE):
            Journal(repo).done(entry)
        else:
            trouble = (
                f"the index was not updated: another command holds {repo.git_dir / 'index.lock'}"
            )
        if now.tip == entry.commit:
            branch = now.name
        else:
            trouble = journal.dropped(repo, entry) or trouble
    except (FilememError, OSError) as error:
        trouble = f"committed, but it could not be verified: {error}"
    plain = all(edit.data is not None for edit in entry.edits)
    return Made(
        entry.commit, branch, trouble=trouble, onto=draft.head.tip, entry=entry if plain else None
    )


# what the journal holds


def finish(repo: Repo, files: Placer) -> tuple[Made, ...]:
    """Finish interrupted and pending saves of the journal, verify recent ones, and return what was finished.

    What cannot be finished is named in `repo.trouble`, with the command that helps. If another process is saving, it
    does this.
    """
    now = repo.head() or "", stamp(repo.git_dir / "index")
    if not repo.unfinished:
        repo.trouble, repo.settled = "", now
    if repo.settled == now and not state.numbered(repo.shared / "journal"):
        return ()
    try:
        with repo.saving(_BRIEFLY):
            entries, troubles = Journal(repo).entries()
            made = []
            for entry in entries:
                try:
                    made.append(_end(repo, files, entry))
                except FilememError as error:
                    troubles.append(
                        f"the save of {entry.edits[0].path} waits: {error.message} ({entry.file})"
                    )
            troubles += journal.look_after(repo, files)
            repo.trouble = "; ".join(dict.fromkeys(troubles))
            return tuple(each for each in made if not each.pending)
    except Locked:
        return ()


def _end(repo: Repo, files: Placer, entry: Entry) -> Made:
    """Finish an interrupted or pending save, unless the user has changed what it was to change."""
    branch = entry.branch.removeprefix(state.BRANCHES)
    if journal.landed(repo, entry):
        if journal.settle(repo, files, entry, _BRIEFLY):
            Journal(repo).done(entry)
        return Made(entry.commit, branch)
    head = state.head(repo.git)
    reason = repo.busy() or ("" if head.ref else "HEAD is detached")
    reason = reason or journal.elsewhere(repo, entry, head)
    found = [(edit, journal.on_disk(files, edit.path)) for edit in entry.edits]
    edited = any(
        edit.before is not None and now not in (edit.before, edit.data) for edit, now in found
    )
    if edited or (
        not reason
        and any(journal.held(repo, head.tip, edit.path) != edit.old for edit in entry.edits)
    ):
        entry.file.unlink(missing_ok=True)
        return Made(branch=branch)
    if not reason or all(edit.before is None for edit in entry.edits):
        journal.write(files, [edit for edit, now in found if now == edit.before != edit.data])
    made: Made | str = reason
    if not reason:
        made = _commit(
            repo, files, Plan(entry.edits, entry.message, entry.at), _BRIEFLY, written=True
        )
    if isinstance(made, str):
        return Made(branch=branch, pending=reason or entry.reason or made)
    entry.file.unlink(missing_ok=True)
    return made
