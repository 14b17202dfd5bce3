"""What sharing has begun, on disk before it is done, so that whoever comes next can end what a process that died left.

One file, a line per step: the locks that Git is about to take for us, and the checkout that is about to be made. It is
read and written only by who shares alone, so what stands in it at the beginning is of a process that is gone. A
checkout is ended where only HEAD had not moved yet, and undone in the files where it had not come to its index.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore, Conflict, Locked, NotFound
from filemem.repo import moving
from filemem.repo.discovery import Places, find
from filemem.repo.git import Git, GitError
from filemem.repo.leftovers import is_ours
from filemem.repo.processes import git_at_work
from filemem.repo.refs import LET_GO, held

LOCK, CHECKOUT = "lock", "checkout"


class Lock(NamedTuple):
    """A lock file that Git is about to take for us; `begun` in epoch seconds, `holds` what may stand in it, if told."""

    file: str
    begun: float
    holds: Sequence[str] | None = None


class Checkout(NamedTuple):
    """A work tree that is about to be taken from one commit to another; `ends` where HEAD is to follow."""

    work_tree: str
    old: str
    new: str
    ends: bool


class Unfinished(NamedTuple):
    """The steps of who shares.

    Args:
        git: runs Git in some work tree of the repository.
    """

    git: Git

    @property
    def file(self) -> Path:
        """Where they are noted."""
        return self.git.places.steps

    def lock(self, *files: Path, holds: Sequence[str] | None = None) -> None:
        """Note that Git is about to take locks."""
        now = time.time()
        self._note(*((LOCK, *Lock(str(file.with_name(f"{file.name}.lock")), now, holds)) for file in files))

    def take_along(self, old: str, new: str, *, ends: bool = False) -> None:
        """Bring index and work tree from one commit or tree to another, noted before.

        Args:
            old: what they are at.
            new: what they are to become.
            ends: whether HEAD is to follow, and the caller says when all is `done`.

        Raises:
            Conflict: a file is in the way; nothing was changed then.
            BrokenStore: the work tree cannot be written; the next `settle` undoes what was.
        """
        places = self.git.places
        self._note((CHECKOUT, *Checkout(str(places.work_tree), old, new, ends)))
        try:
            moving.take_along(self.git, old, new, lambda: self.lock(places.git_dir / "index"))
        except Conflict:
            self.done()
            raise
        if not ends:
            self.done()

    def done(self) -> None:
        """Forget all steps: they were taken, or nothing came of them."""
        self.file.unlink(missing_ok=True)

    def settle(self) -> None:
        """End or undo what a process that died has left.

        Raises:
            Locked: a lock keeps us from it, too young or not ours; all is still noted then.
            BrokenStore: the disk or Git refuses.
        """
        locks, checkouts = self._read()
        for lock in locks:
            holds = None if lock.holds is None else (b"", *(text.encode() for text in lock.holds))
            if is_ours(Path(lock.file), lock.begun, holds) and not git_at_work(self.git.places):
                Path(lock.file).unlink(missing_ok=True)
        if standing := next((lock.file for lock in locks if Path(lock.file).exists()), ""):
            raise Locked(held(Path(standing)), LET_GO)
        for checkout in checkouts[-1:]:
            if places := _places(checkout):
                _settle(self.git._replace(places=places), checkout)
        self.done()

    def _note(self, *steps: tuple[object, ...]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write("".join(f"{json.dumps(step)}\n" for step in steps))

    def _read(self) -> tuple[list[Lock], list[Checkout]]:
        locks, checkouts = [], []
        with suppress(OSError, ValueError):  # the last line may be torn: its step was not taken then
            for line in self.file.read_text().splitlines():
                kind, *values = json.loads(line)
                if kind == LOCK:
                    locks.append(Lock(*values))
                else:
                    checkouts.append(Checkout(*values))
        return locks, checkouts


def _places(checkout: Checkout) -> Places | None:
    """The work tree; None where it is not there any more, or never was a whole one."""
    try:
        found = find(Path(checkout.work_tree))
    except (BrokenStore, NotFound, OSError):
        return None
    return found if found.work_tree == Path(checkout.work_tree) else None


def _settle(git: Git, checkout: Checkout) -> None:
    old, new = checkout.old, checkout.new
    try:
        git.run("cat-file", "-e", f"{new}^{{tree}}")
    except GitError:
        return  # a gc has taken what nothing names
    head = _head(git)
    if not moving.put_back(git, old, new, since=head != old) and checkout.ends and head == old:
        moving.move(git, new, old)


def _head(git: Git) -> str:
    try:
        return git.run("rev-parse", "-q", "--verify", "HEAD").decode().strip()
    except GitError:
        return ""
