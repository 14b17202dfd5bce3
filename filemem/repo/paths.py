"""Where the repository is: work tree, Git directory, common directory. Read from disk, no process needed.

A repository that belongs to another user is used only where Git itself says so (`safe.directory`).
"""

import os
import shlex
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore, NotFound

FOLDER = "filemem"  # of ours, in Git directories
_MAX_POINTER = 8192  # bytes of a `.git` or `commondir` file


class Places(NamedTuple):
    """The folders of one repository, absolute."""

    work_tree: Path
    git_dir: Path  # this work tree's own: HEAD, index, state of a merge or rebase
    common_dir: Path  # what all work trees share: objects, branches
    foreign: str = ""  # who owns the repository where that is not us

    @property
    def by_hand(self) -> str:
        """How people call Git on this work tree, wherever they stand: how commands begin that are printed."""
        return f"git -C {shlex.quote(str(self.work_tree))}"


def find(start: Path) -> Places:
    """Look for a repository in a folder and the folders above it.

    Raises:
        NotFound: there is none.
        BrokenStore: it has no work tree, or its `.git` file leads nowhere; or the folder lies in a Git directory; or it
            is gone, and what stands above it is another project's.
    """
    refuse_gone(start)
    start = start.resolve()
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return _places(folder)
        if all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
            told = f"{folder} is a Git directory without a work tree"
            raise BrokenStore(told, "filemem needs a checkout: stand in it, or git clone it first")
    raise NotFound(f"there is no Git repository in {start} or above it", "run `filemem init` there: it makes one")


def refuse_gone(work_tree: Path) -> None:
    """Refuse to work in a folder that was removed under us. Raises BrokenStore."""
    if not os.path.exists(work_tree):  # noqa: PTH110 - it may be a name that no folder can have
        raise BrokenStore(f"the folder {work_tree} is gone", "work in one that is there; start a server again there")


def _places(work_tree: Path) -> Places:
    entry = work_tree / ".git"
    git_dir = entry
    if entry.is_file():
        text = _pointer(entry)
        if not text.startswith("gitdir:"):
            raise BrokenStore(f"{entry} is not a Git directory", "check it, or clone the repository again")
        git_dir = (work_tree / text.removeprefix("gitdir:").strip()).resolve()
    common = git_dir
    if (git_dir / "commondir").is_file():
        common = (git_dir / _pointer(git_dir / "commondir").strip()).resolve()
    # Without `commondir` a linked work tree's own folder would pass for a whole repository.
    if not (git_dir / "HEAD").is_file() or not (common / "objects").is_dir():
        raise BrokenStore(
            f"{entry} does not lead to a Git directory that is whole",
            "run `git worktree repair`, or clone the repository again",
        )
    return Places(work_tree, git_dir, common, _foreign_owner(work_tree, entry, git_dir))


def _pointer(path: Path) -> str:
    with path.open("rb") as file:
        return os.fsdecode(file.read(_MAX_POINTER)).rstrip("\n")


def _foreign_owner(*paths: Path) -> str:
    """The owner Git would object to, by the rule of its own check; empty where there is none."""
    owners = {path.lstat().st_uid for path in paths} - {os.geteuid()} if hasattr(os, "geteuid") else ()
    return "".join(f"user {owner}" for owner in sorted(owners)[:1])
