"""Merging two commits without a work tree: Git's own merge, and what it leaves to be settled.

Rule: no driver, attribute or configuration that a repository names has a say in it; nothing but objects is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict
from filemem.repo.objects import commit_object, publish
from filemem.repo.run import OFF, GitError, check_version
from filemem.repo.scratch import scratch

if TYPE_CHECKING:
    from filemem.repo import Repo

_PLAIN = (*OFF, f"core.attributesFile={os.devnull}", "merge.default=text", "core.fsync=all")
_PLAIN += ("merge.directoryRenames=false",)  # a month whose only file was renamed takes no new one along
_STAGES = {"1": "base", "2": "ours", "3": "theirs"}


class Clash(NamedTuple):
    """A file that Git cannot merge: its blob ids in the three versions, "" for no file."""

    path: str
    base: str = ""
    ours: str = ""
    theirs: str = ""


def merged_tree(repo: Repo, ours: str, theirs: str, *, unrelated: bool = False) -> tuple[str, tuple[Clash, ...]]:
    """Merge two commits, with `unrelated` also where they have no history in common.

    Returns the tree and the files that clash, which have conflict markers in it.

    Raises:
        Conflict: they have no history in common.
        BrokenStore: Git is older than 2.38, or lacks what it needs.
    """
    check_version(repo.git, (2, 38))
    options = ("--write-tree", "-z", "--no-messages", *(["--allow-unrelated-histories"] if unrelated else []))
    with scratch(repo, settings=_PLAIN) as git:
        status, told, refusal = git.merge_tree(
            *options, ours, theirs, with_extended_output=True, with_exceptions=False, stdout_as_string=False
        )
    if status > 1:
        if "unrelated histories" in refusal:
            raise Conflict("the two have no history in common", "merge them with Git itself")
        raise GitError("merge-tree", status, refusal)
    tree, *rows = told.decode("utf-8", "surrogateescape").split("\0")
    found: dict[str, dict[str, str]] = {}
    for head, _, path in (row.partition("\t") for row in rows if "\t" in row):
        _, oid, stage = head.split(" ")
        plain = path.removesuffix(f"~{ours}").removesuffix(f"~{theirs}")  # where the other side has a folder
        found.setdefault(plain, {})[_STAGES[stage]] = oid
    return tree.strip(), tuple(Clash(path, **sides) for path, sides in found.items())


def commit_files(
    repo: Repo, tree: str, files: Mapping[str, bytes | None], parents: Sequence[str], text: str, at: int
) -> str:
    """Make a commit of a tree ("" for an empty one) with some files replaced: bytes by path, None removes.

    No branch moves. Further arguments and errors as for `objects.commit_object`.
    """
    blobs = {path: repo.objects.prepare("blob", data) for path, data in files.items() if data is not None}
    tree, made = repo.objects.splice(tree, {path: blobs[path].oid if path in blobs else "" for path in files})
    publish([*blobs.values(), *made])
    commit = commit_object(repo, tree, parents, text, at)
    publish([commit])
    return commit.oid
