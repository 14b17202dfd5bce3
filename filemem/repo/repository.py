"""One repository as filemem sees it: the facade over this package.

A part is imported by the method that uses it: a search asks no more than where HEAD is.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from filemem.changes import object_id
from filemem.errors import BrokenStore
from filemem.repo import head, shallow
from filemem.repo.branches import Branch, Landed, tip_of
from filemem.repo.discovery import Places, find
from filemem.repo.git import Git, GitError, check_version, clean, locate, trusted
from filemem.repo.journal import Journal
from filemem.repo.memo import Memo

if TYPE_CHECKING:
    from filemem.repo.attaching import Attaching
    from filemem.repo.commit import Made, Plan
    from filemem.repo.conversion import Conversion
    from filemem.repo.head import Writing
    from filemem.repo.history import History
    from filemem.repo.leftovers import Leftovers
    from filemem.repo.lock import SaveLock
    from filemem.repo.merging import Clash
    from filemem.repo.objects import Object, Objects
    from filemem.repo.processes import Mover
    from filemem.repo.races import Races
    from filemem.repo.refs import Refs, UserIndex
    from filemem.repo.revisions import Revisions
    from filemem.repo.settings import Current, Identity, Settings
    from filemem.repo.sharing import Sharing
    from filemem.repo.trees import Item


class Repo:
    """A Git repository with a work tree. Use `discover`; `close` when done.

    Args:
        places: where it is.
        environment: what Git's processes may see of the process's own environment.
    """

    def __init__(self, places: Places, environment: Mapping[str, str]) -> None:
        self.places = places
        self.work_tree, self.git_dir, self.common_dir = places.work_tree, places.git_dir, places.common_dir
        self.private, self.shared = places.private, places.shared
        self.run_hooks = False  # on our commits: the user's decision, never a repository's
        self._environment = environment
        self._git = Git(locate(environment, places.work_tree), places, clean(environment))
        self._left_out: dict[str, tuple[object, tuple[str, ...]]] = {}
        self._objects: Objects | None = None
        self._helper: Refs | None = None
        self._revisions: Revisions | None = None
        self._checked = False
        self._mutex = threading.RLock()
        worktree = os.path.relpath(places.git_dir, places.common_dir)
        self.journal = Journal(self.shared, worktree)

    @classmethod
    def discover(cls, path: str | Path, *, environment: Mapping[str, str] | None = None) -> Repo:
        """Find the repository that a folder belongs to.

        Args:
            path: a folder in the work tree.
            environment: variables to use instead of the process's own; `GIT_*` in it only names author and committer.

        Raises:
            NotFound: there is no repository.
            BrokenStore: it has no work tree, belongs to somebody Git does not trust, or there is no Git.
        """
        # The one read of the environment outside `config`: it is passed on to Git, nothing is decided by it.
        repo = cls(find(Path(path)), os.environ if environment is None else environment)
        if repo.places.foreign:
            repo._ask_trust()
        return repo

    # what it is

    @cached_property
    def lock(self) -> SaveLock:
        """One save at a time."""
        from filemem.repo.lock import SaveLock

        return SaveLock(self.shared)

    @property
    def settings(self) -> Settings:
        """Git's configuration; whether one of its files has changed is looked at once a second."""
        return self._configuration.settings()

    @property
    def hash_name(self) -> str:
        """The object format: "sha1" or "sha256"."""
        return self.settings.hash_name

    def blob_id(self, data: bytes) -> str:
        """The id of these bytes as a blob."""
        return object_id("blob", data, self.hash_name)

    @property
    def nothing(self) -> str:
        """The id of the tree without files, which Git knows everywhere: what to compare with where there is nothing."""
        return object_id("tree", b"", self.hash_name)

    def identity(self) -> tuple[Identity, Identity]:
        """Author and committer of our commits. Raises BadInput where Git knows none."""
        found = self.settings
        return found.identity("author", self._environment), found.identity("committer", self._environment)

    # where it stands

    def head(self) -> str | None:
        """The id of the current commit; None before the first one. Raises BrokenStore where it is missing."""
        found = self._head()
        return found.oid if found else None

    def tip(self) -> str:
        """The id of the current commit as files of the Git directory tell it, without a process; "" if they do not."""
        try:
            found = head.pointed(self.git_dir)
        except OSError:
            return ""
        return tip_of(self.common_dir, found) if found.startswith("refs/") else found

    def writing(self) -> Writing:
        """What is another value after every move of HEAD, also where that led back."""
        return head.writing(self.git_dir, self.common_dir)

    def here(self) -> Branch:
        """The current branch with its last commit, as files tell; without a name where HEAD is detached."""
        name = self.branch()
        return Branch(name or "", tip_of(self.common_dir, f"{head.BRANCHES}{name}") if name else self.tip())

    def branch(self) -> str | None:
        """The current branch; None where HEAD is detached."""
        ref = self.head_ref()
        return None if ref is None else ref.removeprefix(head.BRANCHES)

    def head_ref(self) -> str | None:
        """The whole name of the ref that HEAD names; None where it is detached."""
        try:
            found = head.pointed(self.git_dir)
        except OSError as error:
            raise BrokenStore(f"HEAD cannot be read: {error.strerror}", "run `git fsck`") from None
        if found == head.ELSEWHERE:
            try:
                found = self._git.run("symbolic-ref", "-q", "HEAD").decode().strip()
            except GitError:
                return None
        return found if found.startswith("refs/") else None

    def state(self, now: float, patience: float = 0.0) -> str:
        """Why commits must wait now, or "".

        Args:
            now: in epoch seconds.
            patience: seconds to wait for a Git command of the user's that is at work.
        """
        from filemem.repo import state

        return state.reason(self.places, self.settings, self.branch(), self.tip(), self.mover, now, patience)

    def mover(self) -> Mover | None:
        """The Git command of the user's that is about to move HEAD of this work tree, as far as can be known."""
        from filemem.repo import processes

        return processes.mover(self.places)

    def left_out(self, folder: str) -> tuple[str, ...]:
        """The files below a folder that a sparse checkout leaves out; asked of Git again when its index has changed."""
        from filemem.repo import sparse

        seen = sparse.stamp(self.places)
        if not seen:
            return ()
        if self._left_out.get(folder, ((), ()))[0] != seen:
            self._left_out[folder] = seen, sparse.left_out(self._git, self.settings, folder)
        return self._left_out[folder][1]

    # reading

    def show(self, path: str, rev: str = "HEAD") -> bytes | None:
        """The bytes of a file in a commit, None where it has none there; `path` from the top of the work tree."""
        from filemem.repo import trees
        from filemem.repo.history import revision

        if "\n" in path:  # Git is asked in lines
            root = self.objects.read(f"{revision(rev)}^{{tree}}")
            item = trees.find(self.objects.tree, root.oid, path) if root else None
            return self.blob(item.oid) if item else None
        found = self.objects.read(f"{revision(rev)}:{path}")
        return found.data if found and found.kind == "blob" else None

    def blob(self, oid: str, most: int | None = None) -> bytes | None:
        """The bytes of a blob by its id, None where there is none, or it has more than `most` bytes."""
        found = self.objects.read(oid, most) if re.fullmatch(r"[0-9a-f]{40,64}", oid) else None
        return found.data if found and found.kind == "blob" else None

    def item(self, path: str) -> Item | None:
        """Mode and blob id of a path in HEAD."""
        from filemem.repo import trees

        commit = self._head()
        return None if commit is None else trees.find(self.objects.tree, commit.tree, path)

    def edited(self, path: str, data: bytes) -> bool:
        """Whether these bytes of a file are not what HEAD holds for it, as Git would commit them.

        False where HEAD has no such file, and where only a filter of the user's could tell.
        """
        item = self.item(path)
        if item is None or item.oid == self.blob_id(data):
            return False
        old, how = self.blob(item.oid), self.conversion(path)
        return not how.obstacle and how.committed(data, old) != old

    @property
    def index(self) -> UserIndex:
        """What the user has staged."""
        from filemem.repo.refs import UserIndex

        return UserIndex(self._git, self.hash_name)

    @property
    def history(self) -> History:
        """What Git remembers: births, revisions, listings of older commits."""
        from filemem.repo.history import History

        return History(self._git)

    def depth(self) -> str:
        """A word for how far history goes back: another one when that changed, "" where it is whole."""
        return shallow.depth(self.common_dir)

    def partial(self) -> bool:
        """Whether this is a partial clone, in which older versions may not be here."""
        return shallow.partial(self.common_dir)

    def landed(self, memo: Memo) -> Landed:
        """When commits landed on a branch, as far as a memo tells it or a little work does."""
        return Landed(self._git, lambda: self.objects, memo)

    @property
    def races(self) -> Races:
        """What shows that the user's own commands took no account of a commit of ours."""
        from filemem.repo.races import Races

        return Races(self._git, self.history, len(self.blob_id(b"")) // 2)

    def history_at(self, commit: str) -> History:
        """The same, seen from another commit than HEAD."""
        return self.history._replace(tip=commit)

    @property
    def revisions(self) -> Revisions:
        """What names and dates mean, and what stands between two commits."""
        from filemem.repo.revisions import Revisions

        with self._mutex:
            if self._revisions is None or self._revisions.objects is not self.objects:
                self._revisions = Revisions(self._git, self.objects)
            return self._revisions

    @contextlib.contextmanager
    def merging(
        self, into: str, changes: Mapping[str, bytes | None] = MappingProxyType({})
    ) -> Iterator[tuple[Repo, tuple[Clash, ...]]]:
        """A repository whose HEAD is what merging ours into a commit would make, and what Git cannot merge.

        It borrows our objects, has no work tree, and is gone afterwards; of what Git cannot merge it has our version.

        Args:
            into: a commit.
            changes: what is not committed yet, bytes by path, None for what is gone.

        Raises:
            Conflict: the two have no history in common.
            BrokenStore: Git is older than 2.39, or lacks what it needs.
        """
        from filemem.repo.merging import merged

        with merged(self._git, self.settings, into, self.head() or into, changes) as (git, clashes):
            there = Repo(git.places, self._environment)
            there._git = git
            with contextlib.closing(there):
                yield there, clashes

    @property
    def sharing(self) -> Sharing:
        """What this repository and others have of a branch, and how that is brought together."""
        from filemem.repo.sharing import Sharing

        self._configuration.look_again()  # addresses may have been changed just now
        return Sharing(self._git, self.settings, self.objects, self._environment, self.identity)

    @property
    def attaching(self) -> Attaching:
        """The branch that holds records alone, and its work tree."""
        from filemem.repo.attaching import Attaching

        return Attaching(self._git, self.settings, self.objects, self.identity)

    def conversion(self, path: str) -> Conversion:
        """What becomes of the bytes of a path on their way into a commit."""
        from filemem.repo import conversion

        return conversion.of(self._git, self.settings, path)

    def ignored(self, path: str) -> str:
        """Which rule makes Git ignore a path, as `file:line: pattern`, or ""; a tracked one is never ignored."""
        from filemem.repo import ignoring

        return ignoring.reason(self._git, self.settings, path)

    def overlooked(self, folder: str) -> tuple[str, ...]:
        """The files below a folder that no commit has because Git is told to ignore them."""
        from filemem.repo import ignoring

        return ignoring.untracked(self._git, folder)

    # writing

    @property
    def objects(self) -> Objects:
        """The object database."""
        from filemem.repo.objects import Objects

        with self._mutex:
            if self._objects is None:
                movable = self.common_dir.stat().st_dev == (self.common_dir / "objects").stat().st_dev
                self._objects = Objects(self._git, self.hash_name, self.settings.plain and movable)
            return self._objects

    def warm(self) -> None:
        """Start the helpers of a save, and refuse a Git that is too old."""
        self.objects.warm()
        self._refs.warm()
        if not self._checked:
            self.shared.mkdir(parents=True, exist_ok=True)
            check_version(self._git, Memo(self.shared / "git"))
            self._checked = True

    def commit(self, plan: Plan) -> Made:
        """Commit a few paths on top of HEAD.

        Raises:
            NotNow: the user is in the middle of something, a lock is held, or a hook refuses.
            Moved: HEAD holds another version of a path than a change expects.
            BadInput: Git does not know who commits.
            BrokenStore: the repository refuses.
        """
        from filemem.repo.commit import Committer
        from filemem.repo.message import Stamp

        text, stamp = str(plan.message), Stamp(*self.identity(), plan.at)
        if self.run_hooks:
            from filemem.repo import hooks

            text = hooks.before(self._git, self.settings, self.private, plan.changes, text)
        how = self.settings.signing, self.settings.unfiltered
        made = Committer(self.objects, self._refs, self._head, self.head_ref, text, stamp, *how).commit(plan)
        if self.run_hooks:
            hooks.after(self._git, self.settings)
        return made

    @property
    def interrupted(self) -> bool:
        """Whether something that shares is under way, or died on it."""
        return self.places.steps.exists()

    @property
    def leftovers(self) -> Leftovers:
        """What saves that died have left in the Git directory."""
        from filemem.repo.leftovers import Leftovers

        return Leftovers(self.places, self.journal.folder, self.branch())

    def close(self) -> None:
        """End the helper processes."""
        with self._mutex:
            if self._helper is not None:
                self._helper.close()
            if self._objects is not None:
                self._objects.close()
                self._objects = None

    # parts

    @cached_property
    def _configuration(self) -> Current:
        from filemem.repo.settings import Current

        return Current(self._git)

    @property
    def _refs(self) -> Refs:
        from filemem.repo.refs import Refs

        if self._helper is None:
            self._helper = Refs(self._git)
        return self._helper

    def _head(self) -> Object | None:
        return head.commit(self._git, self.objects, self.journal)

    def _ask_trust(self) -> None:
        if not trusted(self._git.program, self._git.environment, self.work_tree):
            raise BrokenStore(
                f"{self.work_tree} belongs to {self.places.foreign}, and Git does not trust it",
                f"if you do: git config --global --add safe.directory {self.work_tree}",
            )
