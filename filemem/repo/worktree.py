"""The work trees of one repository: which there are, and one more for a branch. Rule: Git makes and mends them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.run import LONG

if TYPE_CHECKING:
    from filemem.repo import Repo


class Tree(NamedTuple):
    """A work tree and the branch that it has, "" where HEAD is detached."""

    place: Path
    branch: str


def trees(repo: Repo) -> tuple[Tree, ...]:
    """The work trees of a repository that are there, the main one first. Starts no process where there is only one."""
    if not (repo.common_dir / "worktrees").is_dir():
        return (Tree(repo.work_tree, repo.branch() or ""),)
    told = repo.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
    blocks = (dict(row.partition(" ")[::2] for row in block.splitlines()) for block in told.split("\n\n") if block)
    found = (Tree(Path(each["worktree"]), each.get("branch", "")) for each in blocks if "bare" not in each)
    return tuple(
        tree._replace(branch=tree.branch.removeprefix("refs/heads/"))
        for tree in found
        if os.path.lexists(tree.place / ".git")
    )


def of_branch(repo: Repo, branch: str) -> Path | None:
    """The work tree that a branch is checked out in; None where there is none."""
    return next((tree.place for tree in trees(repo) if tree.branch == branch), None)


def add(repo: Repo, place: Path, branch: str) -> None:
    """Check a branch out into a work tree of its own, which the others overlook.

    A work tree that stood there once, and was removed by hand, is forgotten.

    Raises:
        BrokenStore: Git refuses, or the disk does.
    """
    hide(repo, place.relative_to(repo.work_tree).as_posix())
    repo.git.run("worktree", "prune")
    repo.git.run("worktree", "add", "--force", "--force", "--quiet", str(place), branch, limit=LONG)


def hide(repo: Repo, folder: str) -> None:
    """Make `git status` of every branch overlook a folder, by a line that is this clone's own. Raises BrokenStore."""
    file, line = repo.common_dir / "info" / "exclude", os.fsencode(f"/{folder}/")
    try:
        held = file.read_bytes() if file.is_file() else b""
        if line not in held.splitlines():
            file.parent.mkdir(exist_ok=True)
            with file.open("ab") as end:  # added to: a full disk must not cost the user what stands there
                end.write((b"" if not held or held.endswith(b"\n") else b"\n") + line + b"\n")
    except OSError as error:
        raise BrokenStore(f"{file}: {error.strerror}", "check space and permissions there") from None
