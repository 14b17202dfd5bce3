"""Replaying commits on top of others: what a rebase does, without its programs.

Everything is worked out on objects: branch, index and files are left alone. Author, date and message of a commit stay;
what the new base has already is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo import trees
from filemem.repo.git import LONG, Git, GitError
from filemem.repo.message import Stamp
from filemem.repo.objects import Objects
from filemem.repo.settings import Identity
from filemem.repo.signing import identified

_KEPT = (b"author ", b"encoding ")  # header lines of a commit that a replay keeps
_RAW = ("-r", "-z", "-M", "--raw", "--no-abbrev", "--no-ext-diff", "--no-textconv")

Merge = Callable[[str, bytes | None, bytes | None, bytes | None], bytes | None]
"""What becomes of a file that both sides changed: path; base, other side, ours, each None for no file."""


class Touched(NamedTuple):
    """What a commit does to a file: path before and after, blob before and after ("" for none)."""

    before: str
    path: str
    old: str
    new: str
    regular: bool


class Local(NamedTuple):
    """A commit that the other side does not have. `touched` is empty for a merge, which has `parents` above one."""

    id: str
    parents: int
    touched: tuple[Touched, ...]


def unpublished(git: Git, head: str, known: Sequence[str]) -> tuple[Local, ...]:
    """The commits of `head` that none of the known ones contains, oldest first."""
    spans = [f"^{commit}" for commit in known]
    listed = git.run("rev-list", "--reverse", "--topo-order", "--parents", head, *spans, "--", limit=LONG)
    rows = [row.split() for row in listed.decode().splitlines()]
    if not rows:
        return ()
    asked = "".join(f"{row[0]}\n" for row in rows).encode()
    answer = git.run("diff-tree", "--stdin", "--root", *_RAW, input=asked, limit=LONG)
    touched = _touched(answer)
    return tuple(Local(row[0], len(row) - 1, tuple(touched.get(row[0], ()))) for row in rows)


def _touched(answer: bytes) -> dict[str, list[Touched]]:
    found: dict[str, list[Touched]] = {}
    fields = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
    rows: list[Touched] = []
    for name in fields:  # strictly by count: no file name can pass for the next commit
        if name.startswith(":"):
            rows.append(_row(name, next(fields), fields))
        elif name.strip():
            rows = found.setdefault(name.strip(), [])
    return found


def _row(head: str, before: str, fields: Iterator[str]) -> Touched:
    mode, after, old, new, status = head[1:].split(" ")
    path = next(fields) if status[0] in "RC" else before
    modes = {mode, after} - {"000000"}
    return Touched(
        before,
        path,
        old if old.strip("0") and status[0] != "C" else "",
        new if new.strip("0") else "",
        all(one.startswith("100") for one in modes),
    )


def renamed(git: Git, base: str, tip: str) -> Mapping[str, str]:
    """Where files of one commit stand in another: path -> path, for those that were renamed."""
    answer = git.run("diff-tree", *_RAW, "--diff-filter=R", base, tip, limit=LONG)
    fields = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
    rows = [_row(name, next(fields), fields) for name in fields if name.startswith(":")]
    return {row.before: row.path for row in rows}


def fork_point(git: Git, one: str, other: str) -> str:
    """The last commit that two have in common; "" where there is none."""
    try:
        return git.run("merge-base", one, other, limit=LONG).decode().strip()
    except GitError:
        return ""


@dataclass
class Replay:
    """Makes commits anew on top of another commit.

    Args:
        git: runs Git.
        objects: the object database.
        sign: turns tree, parent, message and environment into a signed commit; None where commits are not signed.
        stamp: who commits, and when.
        merge: settles what both sides changed.
        renames: where files of ours stand on the other side: path -> path.
    """

    git: Git
    objects: Objects
    sign: Callable[[str, str, bytes, Mapping[str, str]], str] | None
    stamp: Stamp
    merge: Merge
    renames: Callable[[], Mapping[str, str]]
    merged: list[str] = field(default_factory=list)

    def onto(self, commits: Sequence[Local], base: str) -> str:
        """Replay commits on top of `base`; returns the new tip.

        Raises:
            Conflict: both sides changed a file, and `merge` cannot settle it.
        """
        tip = base
        for commit in commits:
            tree = self._tree_of(tip)
            changes: dict[str, str | None] = {}
            for row in commit.touched:
                self._apply(row, tree, changes)
            made = self._tree(tree, changes)
            if made != tree or not commit.touched:  # one that changes no file was made for what it says
                tip = self._commit(commit.id, made, tip)
        return tip

    @cached_property
    def _moved(self) -> Mapping[str, str]:
        return self.renames()

    def _apply(self, row: Touched, tree: str, changes: dict[str, str | None]) -> None:
        """Add to `changes` what a commit did to one file, as it is on the other side."""
        if not row.regular:
            raise Conflict(f"{row.path}:1: is a link or a submodule", "replay this commit with Git")
        source = row.before if row.old else row.path
        here = self._blob(tree, source)
        if row.old and not here and source in self._moved:
            source = self._moved[source]
            here = self._blob(tree, source)
        target = row.path if row.path != row.before or not row.old else source
        result = (row.new or None) if here in (row.old, row.new) else self._settle(target, row, here)
        if target != source and row.old:
            changes[source] = None
        if result or here:
            changes[target] = result

    def _settle(self, path: str, row: Touched, here: str) -> str | None:
        base, theirs, ours = (self._read(oid) for oid in (row.old, here, row.new))
        data = self.merge(path, base, theirs, ours)
        if data is None:
            return None
        self.merged.append(path)
        return self.objects.write("blob", data)

    def _tree(self, root: str, changes: Mapping[str, str | None]) -> str:
        made, data = trees.splice(self.objects.tree, self.objects.keep_tree, root, changes)
        for each in data:
            self.objects.write("tree", each)
        return made

    def _commit(self, old: str, tree: str, parent: str) -> str:
        found = self.objects.read(old)
        if found is None:
            raise BrokenStore(f"the commit {old} is missing", "run `git fsck`")
        header, _, message = found.data.partition(b"\n\n")
        kept = [line for line in header.split(b"\n") if line.startswith(_KEPT)]
        if self.sign is not None:
            return self.sign(tree, parent, message, _authorship(kept[0]))
        committer = f"committer {self.stamp.committer} {self.stamp.time}".encode()
        rows = [f"tree {tree}".encode(), f"parent {parent}".encode(), kept[0], committer, *kept[1:], b"", message]
        return self.objects.write("commit", b"\n".join(rows))

    def _tree_of(self, commit: str) -> str:
        found = self.objects.read(f"{commit}^{{tree}}")
        if found is None:
            raise BrokenStore(f"the commit {commit} is missing", "run `git fsck`")
        return found.oid

    def _blob(self, root: str, path: str) -> str:
        item = trees.find(self.objects.tree, root, path)
        return item.oid if item else ""

    def _read(self, oid: str) -> bytes | None:
        if not oid:
            return None
        found = self.objects.read(oid)
        if found is None or found.kind != "blob":
            raise BrokenStore(f"the repository lacks the file {oid}", "git fetch --refetch brings it")
        return found.data


def _authorship(line: bytes) -> dict[str, str]:
    """What tells `git commit-tree` whose work a commit is; `line` is the author line of the old one."""
    who, _, when = line.decode("utf-8", "surrogateescape").removeprefix("author ").rpartition("> ")
    name, _, email = who.partition(" <")
    return identified("AUTHOR", Identity(name, email), when)
