"""Which work tree of a repository a server serves: its own, or that of its client's root."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filemem.errors import FilememError
from filemem.repo.run import GitFolders, find_repository

if TYPE_CHECKING:
    from filemem.cli.project import Project


def build_root_follower(project: Project) -> Callable[[Callable[[], list[str]]], bool]:
    """Return what moves a project to where the client works, and says whether it moved.

    It gets what asks the client for the addresses of its roots, which it does where there are other
    work trees. A root in another repository changes nothing: a client must not choose whose memory
    is read.
    """
    start = project.working_folder.as_uri()

    def move_project(list_roots: Callable[[], list[str]]) -> bool:
        own_places = _find_places(start)
        if own_places is None or not (own_places.common_dir / "worktrees").is_dir():
            return False
        root_places = (places for places in map(_find_places, list_roots()) if places)
        chosen_places = next(
            (places for places in root_places if places.common_dir == own_places.common_dir),
            own_places,
        )
        has_moved = chosen_places != _find_places(project.working_folder.as_uri())
        if has_moved:
            project.working_folder = chosen_places.work_tree
        return has_moved

    return move_project


def _find_places(address: str) -> GitFolders | None:
    """Where the repository of a `file:` address on this machine lies; None if there is none."""
    with suppress(FilememError, OSError, ValueError):  # also what is no address, or no name
        parts = urlsplit(address)
        folder = Path(unquote(parts.path, errors="surrogateescape"))
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and folder.is_absolute():
            return find_repository(folder)
    return None
