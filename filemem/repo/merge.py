"""Merging two commits without a work tree: Git's own merge, and what it leaves to be settled.

Rule: no driver, attribute or configuration that a repository names has a say in it; nothing but objects is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo.objects import commit_object, publish
from filemem.repo.porcelain import scratch
from filemem.repo.run import OFF, GitError, check_version

if TYPE_CHECKING:
    from filemem.repo import Repo

NEEDED = (2, 38)
_PLAIN = (*OFF, f"core.attributesFile={os.devnull}", "merge.default=text", "core.fsync=all")
_PLAIN += ("merge.directoryRenames=false",)  # a month whose only file was renamed takes no new one along
_STAGES = {"1": "base", "2": "ours", "3": "theirs"}


class Clash(NamedTuple):
    """A file that Git cannot merge: its blob ids in the three versions, "" for no file."""

    path: str
    base: str = ""
    ours: str = ""
    theirs: str = ""


class Merged(NamedTuple):
    """A merge: its tree, in which files that clash have conflict markers, and these files."""

    tree: str
    clashes: tuple[Clash, ...]


def merged_tree(repo: Repo, ours: str, theirs: str, *, unrelated: bool = False) -> Merged:
    """Merge two commits, with `unrelated` also where they have no history in common.

    Raises:
        Conflict: they have no history in common.
        BrokenStore: Git is older than 2.38, or lacks what it needs.
    """
    try:
        check_version(repo.git, NEEDED)
    except BrokenStore as error:
        raise BrokenStore(f"{error.message}: merging without a work tree needs Git 2.38", error.hint) from None
    options = ("--write-tree", "-z", "--no-messages", *(["--allow-unrelated-histories"] if unrelated else []))
    with scratch(repo, settings=_PLAIN) as (git, _):
        status, told, refusal = git.merge_tree(
            *options, ours, theirs, with_extended_output=True, with_exceptions=False, stdout_as_string=False
        )
    if status > 1:
        if "unrelated histories" in refusal:
            raise Conflict("the two have no history in common", "merge them with Git itself")
        raise GitError("merge-tree", status, refusal)
    tree, *rows = told.decode("utf-8", "surrogateescape").split("\0")
    return Merged(tree.strip(), tuple(_clashes(rows, (f"~{ours}", f"~{theirs}"))))


def _clashes(rows: Sequence[str], ends: Sequence[str]) -> Iterator[Clash]:
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        head, _, path = row.partition("\t")
        if path:
            _, oid, stage = head.split(" ")
            for end in ends:  # a name that Git made up, where the other side has a folder
                path = path.removesuffix(end)
            found.setdefault(path, {})[_STAGES[stage]] = oid
    for path, sides in found.items():
        yield Clash(path, **sides)


def settled_tree(repo: Repo, tree: str, files: Mapping[str, bytes | None]) -> str:
    """A tree ("" for an empty one) with some files replaced: bytes by path, None removes."""
    blobs = {path: repo.objects.prepare("blob", data) for path, data in files.items() if data is not None}
    new, made = repo.objects.splice(tree, {path: blobs[path].oid if path in blobs else "" for path in files})
    publish([*blobs.values(), *made])
    return new


def merge_commit(repo: Repo, tree: str, parents: Sequence[str], text: str, at: int) -> str:
    """Make a commit of a tree; no branch moves. Arguments and errors as for `objects.commit_object`."""
    made = commit_object(repo, tree, parents, text, at)
    publish([made])
    return made.oid
