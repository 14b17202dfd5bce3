"""What became of a save: whether its branch has it, and whether index and files agree.

For a minute after a save a command of the user's that had begun before may undo it unseen. What such a command took out
of index and files is put back where HEAD still has it; nothing is committed a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from filemem.errors import Conflict
from filemem.repo import state
from filemem.repo.journal import Edit, Entry, Placer, on_disk, undo, write
from filemem.repo.run import GitError
from filemem.repo.state import Locks, shown, stamp

if TYPE_CHECKING:
    from filemem.repo import Repo

PATIENCE, BRIEFLY = 3.0, 0.3  # seconds to wait for a lock of the user's, and where an old save is finished meanwhile
_PAUSE = 0.02  # seconds
_Lacks = tuple[dict[str, str], list[Edit]]  # of the index, blob ids by path; of the files


def landed(repo: Repo, entry: Entry) -> bool:
    """Whether the branch has, or had, what an entry is about."""
    tip = state.tip_of(repo.git, entry.branch) if entry.branch else repo.head() or ""
    if not tip:
        return False
    if tip == entry.commit or all(_held(repo, tip, edit) == edit.blob for edit in entry.edits):
        return True
    if not entry.commit:
        return False
    with suppress(GitError):
        repo.git.run("merge-base", "--is-ancestor", entry.commit, tip)
        return True
    with suppress(GitError):  # the user may have dropped it: it is not committed twice
        return entry.commit in repo.git.run("log", "-g", "-n", "100", "--format=%H", entry.branch, "--").decode()
    return False


def _held(repo: Repo, commit: str, edit: Edit) -> str:
    """The blob that a commit holds for an edit, "" for nothing."""
    item = repo.item_at(commit, edit.path)
    return item.oid if item else ""


def settle(repo: Repo, files: Placer, entry: Entry, patience: float, *, new: bool = True) -> bool:
    """Put back into index and files what a command that had begun before us took; returns whether they agree."""
    return _mend(repo, files, lambda: _taken(repo, files, entry, new=new), patience)


def put_back(repo: Repo, files: Placer, entry: Entry) -> None:
    """Undo a change that did not happen: files and index become what they were, where they still have ours."""

    def ours() -> _Lacks:
        staged = repo.staged([edit.path for edit in entry.edits])
        return {edit.path: edit.old for edit in entry.edits if staged.get(edit.path, "") == edit.blob != edit.old}, []

    undo(files, entry.edits)
    _mend(repo, files, ours, BRIEFLY)


def _mend(repo: Repo, files: Placer, look: Callable[[], _Lacks], patience: float) -> bool:
    """Give index and files what they lack; False where the index could not be locked in time.

    Git's child holds index.lock meanwhile, so that no switch of branches comes between look and deed.
    """
    if not any(look()):
        return True
    stop = time.monotonic() + patience
    while time.monotonic() < stop:
        locks = Locks(repo, reading=False)
        try:
            if locks.take_index():
                rows, gone = look()
                for edit in gone:
                    with suppress(Conflict):
                        write(files, [edit])
                locks.enter(rows)
                return True
        finally:
            locks.release()
        time.sleep(_PAUSE)
    return False


def _taken(repo: Repo, files: Placer, entry: Entry, *, new: bool) -> _Lacks:
    """What index and files lack of a save, where HEAD holds it still.

    Only where they are what they were before it: all else is the user's doing.
    """
    head = state.head(repo.git)
    if head.ref != entry.branch or repo.busy():
        return {}, []
    staged = repo.staged([edit.path for edit in entry.edits])
    rows, gone = dict[str, str](), list[Edit]()
    for edit in entry.edits:
        if edit.blob == edit.old or _held(repo, head.tip, edit) != edit.blob:
            continue
        taken, missing = staged.get(edit.path, "") == edit.old, edit.before == on_disk(files, edit.path)
        if taken and (missing or new):  # an entry alone that is gone later was unstaged by the user
            rows[edit.path] = edit.blob
        if missing and (taken or new):
            gone.append(edit)
    return rows, gone


def look_after(repo: Repo, files: Placer) -> list[str]:
    """Look whether saves of the last minute are still there; says of which they are not, and what helps.

    Where the index has them all and none was dropped, that is noted: as it is now it need not be looked at again.
    """
    now = repo.head() or "", stamp(repo.git_dir / "index")
    recent, troubles = repo.journal.recent()
    whole, seen = shown(repo.git_dir, recent), set[str]()
    for entry in reversed(recent):
        paths = {edit.path for edit in entry.edits}
        if seen.isdisjoint(paths):
            if not whole:
                settle(repo, files, entry, BRIEFLY, new=False)
            troubles.append(dropped(repo, entry))
        seen |= paths
    troubles = [each for each in troubles if each]
    repo.settled = now if whole and not troubles else None
    return troubles


def dropped(repo: Repo, entry: Entry) -> str:
    """Say which file of a save its branch has lost again, and what brings it back; "" for none."""
    tip = state.tip_of(repo.git, entry.branch) if entry.branch else ""
    if not tip or tip == entry.commit:
        return ""
    lost = [edit.path for edit in entry.edits if edit.blob and _held(repo, tip, edit) == edit.old != edit.blob]
    if not lost:
        return ""
    branch = entry.branch.removeprefix(state.BRANCHES)
    helps = f"git checkout {entry.commit[:12]} -- {' '.join(lost)}"
    return f"another command took {lost[0]} out of {branch} again; `{helps}` brings it back"
