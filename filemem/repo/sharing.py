"""One branch of one repository and its counterpart on the other side: what differs, and how it is brought together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore
from filemem.repo import head, moving, remote, replaying
from filemem.repo.branches import USUAL
from filemem.repo.git import Git, GitError
from filemem.repo.lock import SaveLock
from filemem.repo.message import Stamp
from filemem.repo.objects import Objects
from filemem.repo.remote import Exchange, Remote, Tell
from filemem.repo.replaying import Local, Merge
from filemem.repo.settings import Identity, Settings
from filemem.repo.signing import identified, signed
from filemem.repo.unfinished import Unfinished

_TO_UPSTREAM = ("upstream", "tracking")  # of `push.default`: to the branch that is followed, whatever its name
_BRANCH = re.compile(r"\w[\w./-]*")  # names that need no quotes
_PATIENCE = 30.0  # seconds to wait for another process that shares


class Brought(NamedTuple):
    """What a replay comes to: the new tip, and the files that both sides had changed."""

    tip: str
    merged: tuple[str, ...] = ()


class Known(NamedTuple):
    """A branch on the other side: where it was last, and whether it is the default one there."""

    where: Remote
    tip: str
    default: bool


class Sharing:
    """What `sync` asks of a repository.

    Args:
        git: runs Git.
        settings: its configuration.
        objects: its object database.
        environment: the user's own.
        who: author and committer.
    """

    def __init__(
        self,
        git: Git,
        settings: Settings,
        objects: Objects,
        environment: Mapping[str, str],
        who: Callable[[], tuple[Identity, Identity]],
    ) -> None:
        self._git, self._settings, self._objects = git, settings, objects
        self._environment, self._who = environment, who
        self._unfinished = Unfinished(git)

    # the other side

    def upstream(self, branch: str) -> Remote | None:
        """The branch that a branch follows; None where it follows none."""
        return remote.upstream(self._settings, branch)

    def usual(self, branch: str) -> Remote | None:
        """A branch of the same name where it would usually be pushed to; None where no remote is meant."""
        return remote.named(self._settings, remote.usual(self._settings), branch)

    def named(self, name: str, branch: str) -> Remote | None:
        """A branch of a remote by its name; None where the remote has no address."""
        return remote.named(self._settings, name, branch)

    @property
    def remotes(self) -> tuple[str, ...]:
        """The names of the other sides."""
        return self._settings.names_of("remote", "url")

    def known(self) -> tuple[Known, ...]:
        """The branches on the other sides, as far as they were fetched: the default one of each side first."""
        listed = self._git.run("for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)", "refs/remotes")
        rows = [row.split("\0") for row in listed.decode("utf-8", "surrogateescape").splitlines()]
        pointed = {target for _, _, target in rows if target}
        found = []
        for side in filter(None, (remote.named(self._settings, name, "") for name in self.remotes)):
            here = [(ref, oid) for ref, oid, target in rows if not target and ref.startswith(side.tracking)]
            tips = {ref.removeprefix(side.tracking): oid for ref, oid in here}
            likely = (*(ref.removeprefix(side.tracking) for ref in pointed), *USUAL)
            default = next((name for name in likely if name in tips), "")
            found += [Known(side._replace(branch=name), tips[name], name == default) for name in tips]
        return tuple(sorted(found, key=lambda one: not one.default))

    def follows_all(self, side: str) -> bool:
        """Whether a fetch brings every branch of another side, not only those that a clone was made of."""
        return "*" in self._settings.text_of("remote", side, "fetch")

    def unfollowed(self, name: str) -> str:
        """The fetch that brings a branch such as `origin/main`, where this clone follows others alone; or ""."""
        side, _, branch = name.partition("/")
        followed = self._settings.text_of("remote", side, "fetch")
        if not followed or "*" in followed or not _BRANCH.fullmatch(branch):
            return ""
        return f"{self._git.places.by_hand} fetch {side} {branch}:refs/remotes/{side}/{branch}"

    @cached_property
    def folder(self) -> Path:
        """Our folder for this, in the Git directory that all work trees share."""
        return self._git.places.steps.parent

    def pushed_elsewhere(self, branch: str, where: Remote) -> tuple[str, str]:
        """Why Git itself would not push a branch to the one that it follows, and the push that it would make; or "".

        Args:
            branch: a branch of ours.
            where: what it follows.
        """
        stated = self._settings.text_of("branch", branch, "pushremote") or self._settings.text("remote.pushdefault")
        followed = self._settings.text_of("branch", branch, "remote")
        if stated and followed and stated != followed:
            return f"this branch is pushed to {stated}", "push"
        if branch != where.branch and (self._settings.text("push.default") or "").lower() not in _TO_UPSTREAM:
            why = f"this branch, {branch}, follows one of another name, {where.label}"
            return why, f"push -u {where.name} {branch}"
        return "", ""

    def exchange(self, tell: Tell | None) -> Exchange:
        """What talks to the other side; one at a time."""
        return Exchange(self._git, self._settings, self._environment, self.folder / "git", tell)

    def tracked(self, where: Remote) -> str:
        """Where the branch on the other side was last; "" where that is not known."""
        found = self._objects.read(where.tracking)
        return found.oid if found else ""

    def published(self, where: Remote) -> tuple[str, ...]:
        """Every commit that the branch on the other side is known to have been at, so that what was once there and was
        taken away, as a purge does, is not taken for something new of ours."""
        try:
            listed = self._git.run("log", "--walk-reflogs", "--format=%H", where.tracking, "--").decode().split()
        except GitError:
            listed = []
        known = dict.fromkeys((self.tracked(where), *listed, self._cloned(where, len(listed))))
        return tuple(one for one in known if one and self._objects.read(one) is not None)

    def _cloned(self, where: Remote, moves: int) -> str:
        """Where the branch on the other side was before the first of the moves that are logged: a clone logs none."""
        if not moves:
            return ""
        try:
            return self._git.run("rev-parse", "--verify", "--quiet", f"{where.tracking}@{{{moves}}}").decode().strip()
        except GitError:  # the first move made it
            return ""

    def track(self, where: Remote, commit: str) -> None:
        """Remember where the branch on the other side is."""
        self._unfinished.lock(self._git.places.common_dir / where.tracking, holds=(commit,))
        # Logged whatever is configured: without it, what is taken back there would pass for something new of ours.
        self._git.run("update-ref", "--create-reflog", "-m", moving.REFLOG, where.tracking, commit)
        self._unfinished.done()

    def follow(self, branch: str, where: Remote) -> None:
        """Make a branch follow one on the other side, as `git push -u` does."""
        self.configure(f"branch.{branch}.remote", where.name)
        self.configure(f"branch.{branch}.merge", f"refs/heads/{where.branch}")

    def configure(self, key: str, value: str) -> None:
        """Set a value in the repository's own configuration."""
        self._git.run("config", key, value)

    # here

    def unpublished(self, head: str, *known: str) -> tuple[Local, ...]:
        """The commits of `head` that none of the known ones contains, oldest first."""
        return replaying.unpublished(self._git, head, [one for one in known if one])

    def fork_point(self, one: str, other: str) -> str:
        """The last commit that two have in common; "" where there is none."""
        return replaying.fork_point(self._git, one, other)

    def blob_at(self, commit: str, path: str) -> str:
        """The id of a file in a commit; "" where it has none there."""
        found = self._objects.read(f"{commit}:{path}")
        return found.oid if found else ""

    def names_at(self, commit: str) -> tuple[str, ...]:
        """What stands at the top of a commit."""
        root = self._objects.read(f"{commit}^{{tree}}")
        return tuple(os.fsdecode(name) for name in self._objects.tree(root.oid)) if root else ()

    def count(self, commit: str, without: str) -> int:
        """How many commits one has that another has not."""
        return int(self._git.run("rev-list", "--count", commit, f"^{without}", "--", limit=120))

    def unsettled(self, folder: str = ".") -> str:
        """A file below a folder, from the top of the work tree, that is staged or edited, or ""."""
        return moving.unsettled(self._git, folder)

    @contextmanager
    def alone(self, patience: float = _PATIENCE) -> Iterator[None]:
        """Hold a lock, so that one process of this repository shares at a time; waits some seconds. Raises Locked."""
        with SaveLock(self.folder).held(patience):
            yield

    @property
    def own_programs(self) -> tuple[str, ...]:
        """Filters that the repository itself names, which checking files out would run."""
        return self._settings.own_programs

    def replay(self, commits: Sequence[Local], onto: str, head: str, at: int, merge: Merge) -> Brought:
        """Make commits anew on top of another.

        Args:
            commits: from `unpublished`.
            onto: the new base.
            head: the last of the commits.
            at: epoch milliseconds.
            merge: settles what both sides changed.

        Raises:
            Conflict: `merge` cannot; nothing is changed.
        """
        author, committer = self._who()
        stamp = Stamp(author, committer, at)
        fork = replaying.fork_point(self._git, head, onto)
        renames = partial(replaying.renamed, self._git, fork, onto) if fork else dict
        sign = partial(self._sign, stamp) if self._settings.signing is not None else None
        work = replaying.Replay(self._git, self._objects, sign, stamp, merge, renames)
        return Brought(work.onto(commits, onto), tuple(dict.fromkeys(work.merged)))

    def advance(self, old: str, new: str) -> bool:
        """Bring branch, index and work tree from one commit to another; False where HEAD has moved meanwhile.

        Raises:
            InTheWay: a file is in the way; nothing is changed.
            Conflict: Git itself finds one.
            BrokenStore: the work tree cannot be written; the next `settle` undoes what was.
        """
        # Index and files come first: a crash between then shows what others saved as staged, not as staged removals.
        self._unfinished.take_along(old, new, ends=True)
        places = self._git.places
        branch = places.common_dir / head.BRANCHES / head.branch(places.git_dir)
        self._unfinished.lock(places.git_dir / "HEAD", branch, holds=(new,))
        moved = moving.move(self._git, new, old)
        if not moved:
            self._unfinished.take_along(new, old)
        self._unfinished.done()
        return moved

    def settle(self) -> None:
        """End or undo what a process that shared and died has left.

        Ask only alone, and under the save lock: index and HEAD may move.

        Raises:
            Locked: a lock keeps us from it.
            BrokenStore: the disk refuses, or the repository names programs that a checkout would run.
        """
        if not self._git.places.steps.exists():
            return
        if programs := self.own_programs:
            raise BrokenStore(
                f"a sync died here; to undo it Git would run {programs[0]}, which only this repository itself names",
                f"if you do not trust it: {self._git.places.by_hand} config --unset {programs[0]}",
            )
        self._unfinished.settle()

    def changes(self, old: str, new: str, *below: str) -> tuple[str, ...]:
        """The paths that the second of two commits adds or changes, below some paths where any are given."""
        return tuple(row.path for row in moving.rows(self._git, old, new, *below) if row.new)

    def _sign(self, stamp: Stamp, tree: str, parent: str, message: bytes, author: Mapping[str, str]) -> str:
        both = {**author, **identified("COMMITTER", stamp.committer, stamp.time)}
        return signed(self._git, self._settings.signing or (), tree, (parent,), message, both)
