"""Where HEAD is, in any work tree: what the files of its Git directory tell, without a process; and its commit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.git import Git, GitError
from filemem.repo.journal import KEEP, Journal

if TYPE_CHECKING:
    from filemem.repo.objects import Object, Objects

BRANCHES = "refs/heads/"
ELSEWHERE = "refs/heads/.invalid"  # what HEAD names where refs are not kept in files


class Writing(NamedTuple):
    """When what says where HEAD is was last written: another value after each move, also after one there and back.

    Args:
        name: of the file that names the branch; nothing where HEAD is detached.
        commit: of the file that names the commit; nothing where the branch is packed.
    """

    name: tuple[int, int] | None
    commit: tuple[int, int] | None


def writing(git_dir: Path, common_dir: Path) -> Writing:
    """When HEAD and the branch that it names were last written."""
    own = _written(git_dir / "HEAD")
    try:
        ref = pointed(git_dir)
    except OSError:
        return Writing(own, None)
    return Writing(own, _written(common_dir / ref)) if ref.startswith("refs/") else Writing(None, own)


def _written(path: Path) -> tuple[int, int] | None:
    """The inode and the time in nanoseconds of a file, which Git replaces to write it; nothing where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def pointed(git_dir: Path) -> str:
    """What HEAD names: a ref by its whole name, or a commit where it is detached. Raises OSError."""
    return (git_dir / "HEAD").read_text(errors="surrogateescape").strip().removeprefix("ref: ")


def branch(git_dir: Path) -> str:
    """The branch that a work tree has; "" where HEAD is detached or cannot be read."""
    try:
        found = pointed(git_dir)
    except OSError:
        return ""
    return found.removeprefix(BRANCHES) if found.startswith(BRANCHES) else ""


def commit(git: Git, objects: Objects, journal: Journal) -> Object | None:
    """The commit that HEAD names; None before the first one. What a gc took of it is put back from the journal.

    Raises:
        BrokenStore: it is missing, and no save of ours made it.
    """
    if found := objects.read("HEAD"):
        return found
    try:
        lost = git.run("rev-parse", "-q", "--verify", "HEAD").decode().strip()
    except GitError:
        return None
    for _, entry in journal.recent(time.time(), within=KEEP):
        if lost in entry.oids:
            objects.heal(entry.objects())
    if found := objects.read("HEAD"):  # also where it only appeared between the two questions
        return found
    raise BrokenStore(f"HEAD names the commit {lost}, which is missing", "run `git fsck`")
