"""Making a commit of a few paths on top of HEAD, whatever else is going on.

The order is the safety. The index entry comes before HEAD moves: the other way round a crash leaves our record as a
"staged delete", and the user's next commit removes it. Objects come before both. HEAD is moved only from where we
read it; when somebody else was faster, the commit is built again on top of theirs.
"""

from __future__ import annotations

import random
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filemem.changes import blob_id
from filemem.errors import BrokenStore, Conflict, FilememError, told
from filemem.repo import trees
from filemem.repo.disk import sync_folder, together
from filemem.repo.git import GitError
from filemem.repo.loose import Loose, publish
from filemem.repo.message import Message, Stamp, commit_bytes
from filemem.repo.objects import Object, Objects
from filemem.repo.refs import IndexUpdate, NotNow, Refs
from filemem.repo.signing import identified, signed

_TRIES = 200  # of moving HEAD; each loss means that another commit was made
_HEAL_ROUNDS = 5

Step = Callable[[str], None]


class Moved(Conflict):
    """HEAD holds another version of a path than the change was made for."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by another commit meanwhile", "read it again, then repeat the change")
        self.path = path


class _AlreadyThereError(Exception):
    """HEAD holds what the commit would bring."""

    def __init__(self, commit: str) -> None:
        super().__init__(commit)
        self.commit = commit


class Change(NamedTuple):
    """What a commit does to one path (from the top of the work tree).

    Args:
        path: the file.
        blob: its new content by id; None removes it.
        old: what HEAD must hold now; "" for nothing, None if it does not matter.
        staged: what the user's index gets where that differs from `blob`; "" leaves the index alone.
        mode: file mode for the index.
        before: what the index holds now, to be put back where no commit comes of it.
    """

    path: str
    blob: str | None
    old: str | None = None
    staged: str | None = None
    mode: str = "100644"
    before: str | None = None

    @property
    def entry(self) -> tuple[str, str] | None:
        """The index entry: mode and blob id, None to remove it."""
        blob = self.staged or self.blob
        return None if blob is None else (self.mode, blob)


class Made(NamedTuple):
    """A commit that is in place.

    Args:
        commit: its id.
        objects: all that it added: (id, packed bytes).
        here: whether HEAD is still on its branch.
        trouble: why a power cut may still take it away, or "": nothing that goes wrong now can unmake it.
    """

    commit: str
    objects: tuple[tuple[str, bytes], ...]
    here: bool = True
    trouble: str = ""


class Plan(NamedTuple):
    """One commit to be made.

    Args:
        changes: the paths.
        message: subject and trailers.
        at: epoch milliseconds.
        blobs: their contents, already in place.
        barriers: further waits for the disk, made together with those for the branch.
        gate: says why commits must wait now, or "".
        step: told the name of each step as it is reached.
        note: told what a crash must be able to read: ("index", time), ("parent", id), ("commit", id),
            ("ref", time).
    """

    changes: Sequence[Change]
    message: Message
    at: int
    blobs: Sequence[Loose]
    barriers: Sequence[Callable[[], None]]
    gate: Callable[[], str]
    step: Step
    note: Callable[[str, str], None]


@dataclass(slots=True)
class Committer:
    """Makes a commit.

    Args:
        objects, refs: of the repository.
        head: reads the commit that HEAD names; None before the first one.
        branch: reads the whole name of the branch that HEAD names; None where it names a commit.
        text: what the commit says.
        stamp: who commits, and when.
        signing: Git settings to sign with; None for no signature.
        unfiltered: Git settings under which no filter runs; None where there are none such.
    """

    objects: Objects
    refs: Refs
    head: Callable[[], Object | None]
    branch: Callable[[], str | None]
    text: str
    stamp: Stamp
    signing: tuple[str, ...] | None
    unfiltered: tuple[str, ...] | None

    def commit(self, plan: Plan) -> Made:
        """Carry out a plan.

        Raises:
            NotNow: the user is in the middle of something, or a lock is held.
            Moved: HEAD holds another version of a path than expected.
            BrokenStore: the repository refuses.
        """
        touched = [change for change in plan.changes if change.staged != ""]
        if head := self.head():  # before the index hears of it: an entry takes away what stands in its way
            for change in plan.changes:
                trees.refuse_obstacle(self.objects.tree, head.tree, change.path)
        plan.note("index", _now())
        index = self._index_update(touched)
        plan.step("index-started")
        try:
            commit, made, branch = self._attempts(plan, index)
        except BaseException:
            self._put_back(index, touched)
            raise
        finally:
            index.abandon()
        trouble = self._settle(plan, made, branch)
        here = not made or self.branch() == branch
        if not here:  # HEAD went elsewhere meanwhile, where our entry is a stranger
            self._put_back(index, touched)
        return Made(commit, tuple((o.oid, o.packed) for o in (*plan.blobs, *made) if made), here, trouble)

    def _attempts(self, plan: Plan, index: IndexUpdate) -> tuple[str, Sequence[Loose], str]:
        """Bring the changes to HEAD; returns its commit, what was made for that, and the branch.

        Nothing is made where a commit of the user's took our index entry along before HEAD was ours to move.
        """
        for _ in range(_TRIES):
            branch = self.branch()
            try:
                head, made = self._build(plan)
            except _AlreadyThereError as found:
                index.wait()
                return found.commit, (), branch or ""
            plan.step("objects")
            index.wait()
            plan.step("index")
            plan.note("parent", head or "")
            plan.note("commit", made[-1].oid)
            plan.note("ref", _now())
            if reason := plan.gate():  # the last moment before HEAD moves: who begins now finds our commit there
                raise NotNow(reason)
            if branch is not None and self._move(branch, made, head):
                return made[-1].oid, made, branch
            time.sleep(random.uniform(0, 0.01))  # noqa: S311 - spreads competitors, nothing secret
        raise BrokenStore("HEAD does not hold still", "another program commits without a pause; try again later")

    def _index_update(self, touched: Sequence[Change]) -> IndexUpdate:
        top, hash_name = self.objects.git.places.work_tree, self.objects.hash_name
        entries = {change.path: change.entry for change in touched}
        as_stated = all(_stated(top / path, entry, hash_name) for path, entry in entries.items())
        return IndexUpdate(self.objects.git, entries, hash_name, reading=self.unfiltered if as_stated else None)

    def _put_back(self, index: IndexUpdate, touched: Sequence[Change]) -> None:
        try:
            index.wait()
            if not index.written:
                return
            before = {c.path: None if c.before is None else (c.mode, c.before) for c in touched}
            IndexUpdate(self.objects.git, before, self.objects.hash_name).wait()
        except (NotNow, GitError):
            pass  # the index is in other hands; what matters is the error that brought us here

    def _build(self, plan: Plan) -> tuple[str | None, list[Loose]]:
        """Write trees and commit on top of HEAD as it is now; returns HEAD and what was written, commit last."""
        head = self.head()
        root = head.tree if head else None
        if head is not None and root is not None:
            self._expect(plan.changes, head.oid, root)
        blobs = {change.path: change.blob for change in plan.changes}
        tree, data = trees.splice(self.objects.tree, self.objects.keep_tree, root, blobs)
        parents = (head.oid,) if head else ()
        made: list[Loose] = []
        try:
            made.extend(self.objects.prepare("tree", each) for each in data)
            if self.signing is None:
                made.append(self.objects.prepare("commit", commit_bytes(tree, parents, self.stamp, self.text)))
            publish(made)
        finally:
            for loose in made:
                loose.discard()
        if self.signing is not None:
            made.append(self._signed(self.signing, tree, parents))
        return (head.oid if head else None), made

    def _expect(self, changes: Sequence[Change], head: str, root: str) -> None:
        found = {change.path: trees.find(self.objects.tree, root, change.path) for change in changes}
        oids = {path: item.oid if item else "" for path, item in found.items()}
        if all(oids[change.path] == (change.blob or "") for change in changes):
            raise _AlreadyThereError(head)
        for change in changes:
            if change.old is not None and oids[change.path] != change.old:
                raise Moved(change.path)

    def _signed(self, signing: Sequence[str], tree: str, parents: Sequence[str]) -> Loose:
        stamp, message = self.stamp, self.text.encode("utf-8", "replace")
        both = identified("AUTHOR", stamp.author, stamp.time) | identified("COMMITTER", stamp.committer, stamp.time)
        return self.objects.existing(signed(self.objects.git, signing, tree, parents, message, both))

    def _move(self, branch: str, made: Sequence[Loose], head: str | None) -> bool:
        try:
            return self.refs.move(branch, made[-1].oid, head)
        except GitError:
            now = self.head()
            if now is not None and now.oid == made[-1].oid:
                return True  # it had moved, and its answer was lost
            # A gc may have taken the objects that nothing pointed to yet: then, and only then, write them again.
            if not self._heal(made):
                raise
            return self.refs.move(branch, made[-1].oid, head)

    def _settle(self, plan: Plan, made: Sequence[Loose], branch: str) -> str:
        """Wait until a commit is on the disk, and look at its objects; says why they may not be there, or ""."""
        try:
            plan.step("ref")
            # One wait for all names. A file system that kept the order of renames needs only the last of them.
            folders = {self._folder(branch), *(loose.target.parent for loose in (*plan.blobs, *made))}
            together([*plan.barriers, *(partial(_sync_listing, folder) for folder in sorted(folders))])
            plan.step("folders")
            for _ in range(_HEAL_ROUNDS):
                if not self._heal((*plan.blobs, *made)):
                    break
            plan.step("verified")
        except (FilememError, OSError) as error:
            return f"committed, but perhaps not on the disk yet: {told(error)}"
        return ""

    def _folder(self, branch: str) -> Path:
        """The folder whose listing changes when a branch moves."""
        common = self.objects.git.places.common_dir
        folder = (common / branch).parent
        return folder if folder.is_dir() else common

    def _heal(self, made: Sequence[Loose]) -> int:
        """Write again what is no longer there; returns how many."""
        return self.objects.heal({loose.oid: loose.packed for loose in made if loose.packed})


def _stated(file: Path, entry: tuple[str, str] | None, hash_name: str) -> bool:
    """Whether a file is what an entry of the index says of it."""
    try:
        mode = file.lstat().st_mode
        if entry is None or not stat.S_ISREG(mode):
            return False
        return entry == ("100755" if mode & stat.S_IXUSR else "100644", blob_id(file.read_bytes(), hash_name))
    except FileNotFoundError:
        return entry is None
    except OSError:
        return False


def _sync_listing(folder: Path) -> None:
    with suppress(FileNotFoundError):  # a gc has emptied and removed it: there is nothing to wait for
        sync_folder(folder)


def _now() -> str:
    return str(time.time_ns() // 1_000_000)
