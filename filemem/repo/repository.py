"""One repository as filemem sees it: the facade over this package.

A part is imported by the method that uses it: a search asks no more than where HEAD is.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import BrokenStore, NotFound
from filemem.repo.branches import tip_of
from filemem.repo.discovery import Places, find
from filemem.repo.git import Git, GitError, check_version, clean, locate, trusted
from filemem.repo.journal import KEEP, Entry, Journal

if TYPE_CHECKING:
    from filemem.repo.commit import Made, Plan
    from filemem.repo.conversion import Conversion
    from filemem.repo.history import History
    from filemem.repo.lock import SaveLock
    from filemem.repo.objects import Object, Objects
    from filemem.repo.refs import Refs
    from filemem.repo.revisions import Revisions
    from filemem.repo.settings import Identity, Settings
    from filemem.repo.sharing import Sharing
    from filemem.repo.trees import Item

_SETTINGS_FOR = 1.0  # seconds


CROWDED = 3_500  # loose objects that are worth a pack: some five hundred saves


class Repo:
    """A Git repository with a work tree. Use `discover`; `close` when done.

    Args:
        places: where it is.
        environment: what Git's processes may see of the process's own environment.
        run_hooks: whether the repository's commit hooks run on our commits: the user's decision, never a repository's.
    """

    def __init__(self, places: Places, environment: Mapping[str, str], *, run_hooks: bool = False) -> None:
        self.places = places
        self.private = places.private
        self.shared = places.shared
        self.run_hooks = run_hooks
        self._environment = environment
        self._git = Git(locate(environment, places.work_tree), places, clean(environment))
        self._settings: tuple[object, Settings] | None = None
        self._settings_due = 0.0
        self._left_out: dict[str, tuple[object, tuple[str, ...]]] = {}
        self._objects: Objects | None = None
        self._mover: Refs | None = None
        self._revisions: Revisions | None = None
        self._checked = False
        self._mutex = threading.RLock()
        worktree = os.path.relpath(places.git_dir, places.common_dir)
        self.journal = Journal(self.shared, worktree)

    @classmethod
    def discover(
        cls, path: str | Path, *, environment: Mapping[str, str] | None = None, run_hooks: bool = False
    ) -> Repo:
        """Find the repository that a folder belongs to.

        Args:
            path: a folder in the work tree.
            environment: variables to use instead of the process's own; `GIT_*` in it only names author and committer.
            run_hooks: run the repository's commit hooks.

        Raises:
            NotFound: there is no repository.
            BrokenStore: it has no work tree, belongs to somebody Git does not trust, or there is no Git.
        """
        # The one read of the environment outside `config`: it is passed on to Git, nothing is decided by it.
        repo = cls(find(Path(path)), os.environ if environment is None else environment, run_hooks=run_hooks)
        if repo.places.foreign:
            repo._ask_trust()
        return repo

    # what it is

    @property
    def work_tree(self) -> Path:
        """Top folder of the files."""
        return self.places.work_tree

    @property
    def git_dir(self) -> Path:
        """The Git directory of this work tree."""
        return self.places.git_dir

    @property
    def common_dir(self) -> Path:
        """The Git directory that all work trees share."""
        return self.places.common_dir

    @property
    def spool(self) -> Path:
        """Where files are written before they are renamed into the work tree."""
        return self.places.spool

    @cached_property
    def lock(self) -> SaveLock:
        """One save at a time."""
        from filemem.repo.lock import SaveLock

        return SaveLock(self.shared)

    @property
    def settings(self) -> Settings:
        """Git's configuration; whether one of its files has changed is looked at once a second."""
        from filemem.repo.settings import read_settings, sources

        with self._mutex:
            now = time.monotonic()
            if self._settings is None or now > self._settings_due:
                seen = sources(self.places, self._git.environment)
                if self._settings is None or self._settings[0] != seen:
                    self._settings = seen, read_settings(self._git)
                self._settings_due = now + _SETTINGS_FOR
            return self._settings[1]

    @property
    def hash_name(self) -> str:
        """The object format: "sha1" or "sha256"."""
        return self.settings.hash_name

    def blob_id(self, data: bytes) -> str:
        """The id of these bytes as a blob."""
        from filemem.repo.objects import object_id

        return object_id("blob", data, self.hash_name)

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
            text = (self.git_dir / "HEAD").read_text().strip()
            if not text.startswith("ref: "):
                return text
        except (OSError, UnicodeDecodeError):
            return ""
        return tip_of(self.common_dir, text[5:])

    def undone(self, commit: str) -> bool:
        """Whether the reflogs show that a command put HEAD back to what it had read before this commit was made.

        A reset "to HEAD" and the end of an aborted rebase never mean to drop a commit; both move without comparing.
        """
        logs = [self.git_dir / "logs" / "HEAD", self.common_dir / "logs" / "refs" / "heads" / (self.branch() or "")]
        lines = [line for log in logs if log.is_file() for line in log.read_text(errors="replace").splitlines()[-200:]]
        told = [(line.split(" ", 2)[:2], line.partition("\t")[2]) for line in lines]
        moves = [move for move, what in told if what == "reset: moving to HEAD" or what.startswith("rebase (abort)")]
        took_back = any(old != new and self.history.is_ancestor(commit, old) for old, new in moves if commit)
        return took_back and not self.history.is_ancestor(commit)

    def branch(self) -> str | None:
        """The current branch; None where HEAD is detached."""
        ref = self.head_ref()
        return None if ref is None else ref.removeprefix("refs/heads/")

    def head_ref(self) -> str | None:
        """The whole name of the ref that HEAD names; None where it is detached."""
        try:
            text = (self.git_dir / "HEAD").read_text(errors="surrogateescape").strip()
        except OSError as error:
            raise BrokenStore(f"HEAD cannot be read: {error.strerror}", "run `git fsck`") from None
        if text == "ref: refs/heads/.invalid":  # refs are not kept in files
            try:
                text = "ref: " + self._git.run("symbolic-ref", "-q", "HEAD").decode().strip()
            except GitError:
                return None
        return text[5:] if text.startswith("ref: ") else None

    def rebased(self) -> str | None:
        """The branch that a rebase in progress is about; None where there is none."""
        for name in ("rebase-merge/head-name", "rebase-apply/head-name"):
            try:
                text = (self.git_dir / name).read_text(errors="surrogateescape").strip()
            except OSError:
                continue
            return text.removeprefix("refs/heads/") if text.startswith("refs/heads/") else None
        return None

    def state(self, now: float) -> str:
        """Why commits must wait now, or ""; `now` in epoch seconds."""
        from filemem.repo import state

        return state.waiting(self.places, self.branch(), self.settings.text("core.commentchar") or "#", now)

    def blocked(self) -> str:
        """Which lock is in the way of a commit, or ""; where a Git command is at work, waits a little for it to end."""
        from filemem.repo import leftovers, refs

        branch = self.branch()
        locks = [self.git_dir / "index.lock", self.git_dir / "HEAD.lock"]
        locks += [self.common_dir / "refs" / "heads" / f"{branch}.lock"] if branch else []
        stop = time.monotonic() + refs.PATIENCE
        while lock := next(filter(Path.exists, locks), None):
            if time.monotonic() > stop or not leftovers.git_at_work(self.places):
                return refs.held(lock)
            time.sleep(0.02)
        return ""

    def left_out(self, folder: str) -> tuple[str, ...]:
        """The files below a folder that a sparse checkout leaves out; asked of Git again when its index has changed."""
        from filemem.repo import sparse

        seen = sparse.stamp(self.places)
        if not seen:
            return ()
        if self._left_out.get(folder, ((), ()))[0] != seen:
            self._left_out[folder] = seen, sparse.left_out(self._git, self.settings, folder)
        return self._left_out[folder][1]

    def linked(self) -> Iterator[tuple[Path, str]]:
        """The linked work trees of this repository that are there, each with the branch it has ("" where detached)."""
        for entry in sorted((self.common_dir / "worktrees").glob("*/HEAD")):
            try:
                head = entry.read_text().strip()
                found = Path((entry.parent / "gitdir").read_text().strip()).parent
                ours = (found / ".git").is_file() and find(found).common_dir == self.common_dir
            except (OSError, UnicodeDecodeError, BrokenStore, NotFound):
                continue
            if ours:
                prefix = "ref: refs/heads/"
                yield found, head.removeprefix(prefix) if head.startswith(prefix) else ""

    def work_tree_of(self, branch: str) -> Path | None:
        """The linked work tree that a branch is checked out in; None where there is none."""
        return next((place for place, has in self.linked() if has == branch), None)

    def main_branch(self) -> str:
        """The branch that the main work tree has, wherever we are; "" where HEAD is detached there, or it has none."""
        if self.common_dir.name != ".git":
            return ""
        try:
            head = (self.common_dir / "HEAD").read_text(errors="surrogateescape").strip()
        except OSError:
            return ""
        prefix = "ref: refs/heads/"
        return head.removeprefix(prefix) if head.startswith(prefix) else ""

    def holds(self, inner: Repo) -> bool:
        """Whether a repository inside our work tree is ours to write to: its Git directory lies there or in our own."""
        places = (inner.work_tree, self.common_dir)
        return any(inner.git_dir.resolve().is_relative_to(place.resolve()) for place in places)

    # reading

    def show(self, path: str, rev: str = "HEAD") -> bytes | None:
        """The bytes of a file in a commit, None where it has none there; `path` from the top of the work tree."""
        from filemem.repo.history import revision

        found = self.objects.read(f"{revision(rev)}:{path}")
        return found.data if found and found.kind == "blob" else None

    def blob(self, oid: str, most: int | None = None) -> bytes | None:
        """The bytes of a blob by its id, None where there is none, or it has more than `most` bytes."""
        found = self.objects.read(oid, most) if re.fullmatch(r"[0-9a-f]{40,64}", oid) else None
        return found.data if found and found.kind == "blob" else None

    def item(self, path: str) -> Item | None:
        """Mode and blob id of a path in HEAD."""
        from filemem.repo import trees

        head = self._head()
        if head is None:
            return None
        return trees.find(self.objects.tree, _tree_of(head.data), path)

    def edited(self, path: str, data: bytes) -> bool:
        """Whether these bytes of a file are not what HEAD holds for it, as Git would commit them.

        False where HEAD has no such file, and where only a filter of the user's could tell.
        """
        item = self.item(path)
        if item is None or item.oid == self.blob_id(data):
            return False
        head, how = self.blob(item.oid), self.conversion(path)
        return not how.obstacle and how.committed(data, head) != head

    def index_entries(self, paths: Sequence[str]) -> dict[str, str]:
        """Blob id by path of what the user has staged or committed for these paths, as the index has it."""
        from filemem.repo import refs

        return refs.index_entries(self._git, list(paths)) if paths else {}

    @property
    def history(self) -> History:
        """What Git remembers: births, revisions, listings of older commits."""
        from filemem.repo.history import History

        return History(self._git)

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

    @property
    def sharing(self) -> Sharing:
        """What this repository and others have of a branch, and how that is brought together."""
        from filemem.repo.sharing import Sharing

        self._settings_due = 0.0  # addresses may have been changed just now
        return Sharing(self._git, self.settings, self.objects, self._environment, self.identity)

    def conversion(self, path: str) -> Conversion:
        """What becomes of the bytes of a path on their way into a commit."""
        from filemem.repo import conversion

        return conversion.of(self._git, self.settings, path)

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
            check_version(self._git, self.shared / "git")
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
        signing = self.settings.signing
        made = Committer(self.objects, self._refs, self._head, self.head_ref, text, stamp, signing).commit(plan)
        if self.run_hooks:
            hooks.after(self._git, self.settings)
        return made

    def index_written(self) -> float:
        """When the user's index was written last, in seconds since the epoch."""
        try:
            return (self.git_dir / "index").stat().st_mtime
        except OSError:
            return 0.0

    def repair_index(self, entries: Mapping[str, tuple[str, str] | None]) -> None:
        """Set entries of the user's index: mode and blob id by path, None removes. Raises NotNow."""
        from filemem.repo import refs

        refs.IndexUpdate(self._git, entries, self.hash_name).wait()

    def clear_leftovers(self, entries: Sequence[Entry], *, thorough: bool) -> list[str]:
        """Remove locks that saves with these entries left when they died, and with `thorough` temporary files.

        Returns:
            The names of the locks removed.
        """
        from filemem.repo import leftovers

        for file in list(self.leftovers()) if thorough else ():
            file.unlink(missing_ok=True)
        return leftovers.clear_locks(self.places, self.branch(), entries, time.time()) if entries else []

    def leftovers(self) -> Iterator[Path]:
        """Temporary files of saves that died."""
        from filemem.repo import leftovers

        return leftovers.temporary((self.spool, self.places.object_spool, self.journal.folder))

    def maintain(self) -> None:
        """Pack loose objects where there are many; never removes what nothing points to."""
        sample = self.common_dir / "objects" / "17"  # one folder of 256, as `git gc --auto` counts
        if not sample.is_dir() or sum(1 for _ in sample.iterdir()) < CROWDED // 256:
            return
        self._git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def close(self) -> None:
        """End the helper processes."""
        with self._mutex:
            if self._mover is not None:
                self._mover.close()
            if self._objects is not None:
                self._objects.close()
                self._objects = None

    # parts

    @property
    def _refs(self) -> Refs:
        from filemem.repo.refs import Refs

        if self._mover is None:
            self._mover = Refs(self._git)
        return self._mover

    def _head(self) -> Object | None:
        found = self.objects.read("HEAD")
        if found is not None:
            return found
        try:
            lost = self._git.run("rev-parse", "-q", "--verify", "HEAD").decode().strip()
        except GitError:
            return None  # no commit yet
        # HEAD names a commit that is not there: a gc has taken it, or it appeared between two questions.
        for _, entry in self.journal.recent(time.time(), within=KEEP):
            if lost in entry.oids:
                self.objects.heal(entry.objects())
        found = self.objects.read("HEAD")
        if found is None:
            raise BrokenStore(f"HEAD names the commit {lost}, which is missing", "run `git fsck`")
        return found

    def _ask_trust(self) -> None:
        if not trusted(self._git.program, self._git.environment, self.work_tree):
            raise BrokenStore(
                f"{self.work_tree} belongs to {self.places.foreign}, and Git does not trust it",
                f"if you do: git config --global --add safe.directory {self.work_tree}",
            )


def _tree_of(commit: bytes) -> str:
    return commit[5 : commit.index(b"\n")].decode()
