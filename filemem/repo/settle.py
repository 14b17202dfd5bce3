"""What became of a save: whether its branch has it, and whether index and files agree.

For a minute after a save a command of the user's that had begun before may undo it unseen. What such a command took out
of index and files is put back where HEAD still has it; nothing is committed a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from filemem.errors import Conflict
from filemem.repo import state
from filemem.repo.draft import Placer, on_disk, put_file
from filemem.repo.journal import Edit, Entry
from filemem.repo.locks import Locks, shown
from filemem.repo.run import GitError

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
    held = _held(repo, entry, tip)
    if tip == entry.commit or all(held[edit.path] == blob for edit, blob, _ in entry.rows):
        return True
    if not entry.commit:
        return False
    with suppress(GitError):
        repo.git.run("merge-base", "--is-ancestor", entry.commit, tip)
        return True
    with suppress(GitError):  # the user may have dropped it: it is not committed twice
        return entry.commit in repo.git.run("log", "-g", "-n", "100", "--format=%H", entry.branch, "--").decode()
    return False


def _held(repo: Repo, entry: Entry, commit: str) -> dict[str, str]:
    """What a commit holds at the paths of an entry: blob ids, "" for nothing."""
    items = {edit.path: repo.item_at(commit, edit.path) for edit in entry.edits}
    return {path: item.oid if item else "" for path, item in items.items()}


def put_back(repo: Repo, files: Placer, entry: Entry) -> None:
    """Make the index what it was, where it still has what we entered of a change that did not happen."""

    def ours() -> _Lacks:
        staged = repo.staged([edit.path for edit in entry.edits])
        return {edit.path: old for edit, blob, old in entry.rows if staged.get(edit.path, "") == blob != old}, []

    _mend(repo, files, ours, PATIENCE)


def settle(repo: Repo, files: Placer, entry: Entry, patience: float, *, new: bool) -> bool:
    """Put back into index and files what a command that had begun before us took; returns whether they agree."""
    there = new and all(on_disk(files, edit.path) == edit.data for edit in entry.edits)
    if there and repo.head() == entry.commit and shown(repo, (entry,)):
        return True  # Git is not asked
    return _mend(repo, files, lambda: _taken(repo, files, entry, new=new), patience)


def _mend(repo: Repo, files: Placer, look: Callable[[], _Lacks], patience: float) -> bool:
    """Give index and files what they lack; False where the index could not be locked in time.

    Git's child holds index.lock meanwhile, so that no switch of branches comes between look and deed.
    """
    if not any(look()):
        return True
    stop = time.monotonic() + patience
    while time.monotonic() < stop:
        locks = Locks(repo, reading=False)
        rows: dict[str, str] = {}
        try:
            if locks.take_index():
                rows, gone = look()
                for edit in gone:
                    with suppress(Conflict):
                        put_file(files, edit.path, edit.data, edit.before)
                locks.enter(rows)
                return True
        finally:
            locks.release(keep=bool(rows))
        time.sleep(_PAUSE)
    return False


def _taken(repo: Repo, files: Placer, entry: Entry, *, new: bool) -> _Lacks:
    """What index and files lack of a save, where HEAD holds it still.

    Only where they are what they were before it: all else is the user's doing.
    """
    head = state.head(repo.git)
    if head.ref != entry.branch or repo.busy():
        return {}, []
    held, staged = _held(repo, entry, head.tip), repo.staged([edit.path for edit in entry.edits])
    rows, gone = dict[str, str](), list[Edit]()
    for edit, blob, old in entry.rows:
        if held[edit.path] != blob or blob == old:
            continue
        taken, missing = staged.get(edit.path, "") == old, edit.before == on_disk(files, edit.path)
        if taken and (missing or new):  # an entry alone that is gone later was unstaged by the user
            rows[edit.path] = blob
        if missing and (taken or new):
            gone.append(edit)
    return rows, gone


def look_after(repo: Repo, files: Placer, recent: Sequence[Entry]) -> list[str]:
    """Look whether saves of the last minute are still there; says of which they are not, and what helps."""
    if not recent or (repo.head() == recent[-1].commit and shown(repo, recent)):
        return []
    troubles, seen = [], set[str]()
    for entry in reversed(recent):
        paths = {edit.path for edit in entry.edits}
        if seen.isdisjoint(paths):
            settle(repo, files, entry, BRIEFLY, new=False)
            troubles.append(dropped(repo, entry))
        seen |= paths
    return [each for each in troubles if each]


def dropped(repo: Repo, entry: Entry) -> str:
    """Say which file of a save its branch has lost again, and what brings it back; "" for none."""
    tip = state.tip_of(repo.git, entry.branch) if entry.branch else ""
    if not tip or tip == entry.commit:
        return ""
    held = _held(repo, entry, tip)
    lost = [edit.path for edit, blob, old in entry.rows if blob and held[edit.path] == old != blob]
    if not lost:
        return ""
    branch = entry.branch.removeprefix(state.BRANCHES)
    helps = f"git checkout {entry.commit[:12]} -- {' '.join(lost)}"
    return f"another command took {lost[0]} out of {branch} again; `{helps}` brings it back"
