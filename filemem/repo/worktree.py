"""The work trees of one repository: which there are, and one more for a branch. Rule: Git makes and mends them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import BrokenStore
from filemem.repo.run import LONG

if TYPE_CHECKING:
    from filemem.repo import Repo


def of_branch(repo: Repo, branch: str) -> Path | None:
    """The work tree that a branch is checked out in; None where there is none."""
    if not (repo.common_dir / "worktrees").is_dir():  # the usual case: there is only one, and no process is started
        return repo.work_tree if repo.branch() == branch else None
    told = repo.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
    blocks = (dict(row.partition(" ")[::2] for row in block.splitlines()) for block in told.split("\n\n"))
    places = (Path(each["worktree"]) for each in blocks if each.get("branch") == f"refs/heads/{branch}")
    return next((place for place in places if os.path.lexists(place / ".git")), None)


def add(repo: Repo, place: Path, branch: str) -> None:
    """Check a branch out into a work tree of its own, which `git status` of the others overlooks. Raises BrokenStore.

    A work tree that stood there once, and was removed by hand, is forgotten.
    """
    file, line = repo.common_dir / "info" / "exclude", os.fsencode(f"/{place.relative_to(repo.work_tree).as_posix()}/")
    try:
        held = file.read_bytes() if file.is_file() else b""
        if line not in held.splitlines():
            file.parent.mkdir(exist_ok=True)
            with file.open("ab") as end:  # added to: a full disk must not cost the user what stands there
                end.write((b"" if not held or held.endswith(b"\n") else b"\n") + line + b"\n")
    except OSError as error:
        raise BrokenStore(f"{file}: {error.strerror}", "check space and permissions there") from None
    repo.git.run("worktree", "prune")
    repo.git.run("worktree", "add", "--force", "--force", "--quiet", str(place), branch, limit=LONG)
