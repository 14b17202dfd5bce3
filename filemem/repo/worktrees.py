"""The work trees of one repository, and which branch each has: read from Git's own files, without a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from filemem.errors import BrokenStore, NotFound
from filemem.repo import head
from filemem.repo.discovery import Places, find


def linked(places: Places) -> Iterator[tuple[Path, str]]:
    """The linked work trees that are there, each with the branch it has ("" where detached)."""
    for entry in sorted((places.common_dir / "worktrees").glob("*/HEAD")):
        try:
            found = Path((entry.parent / "gitdir").read_text().strip()).parent
            ours = (found / ".git").is_file() and find(found).common_dir == places.common_dir
        except (OSError, UnicodeDecodeError, BrokenStore, NotFound):
            continue
        if ours:
            yield found, head.branch(entry.parent)


def of_branch(places: Places, branch: str) -> Path | None:
    """The linked work tree that a branch is checked out in; None where there is none."""
    return next((place for place, has in linked(places) if has == branch), None)


def main(places: Places) -> tuple[tuple[Path, str], ...]:
    """The main work tree and its branch, wherever we are; nothing where there is none."""
    return ((places.common_dir.parent, main_branch(places)),) if places.common_dir.name == ".git" else ()


def main_branch(places: Places) -> str:
    """The branch that the main work tree has, wherever we are; "" where HEAD is detached there, or it has none."""
    return head.branch(places.common_dir) if places.common_dir.name == ".git" else ""


def holds(places: Places, inner: Places) -> bool:
    """Whether a repository inside a work tree is that one's to write to: its Git directory lies there or in its own."""
    own = (inner.work_tree, places.common_dir)
    return any(inner.git_dir.resolve().is_relative_to(place.resolve()) for place in own)
