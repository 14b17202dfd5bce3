"""Which work tree of a repository a server serves: its own, or that of its client's root."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filemem.errors import FilememError
from filemem.repo.run import Places, find

if TYPE_CHECKING:
    from filemem.cli.project import Project


def follow(project: Project) -> Callable[[Callable[[], list[str]]], bool]:
    """Return what moves a project to where the client works, and says whether it moved.

    It gets what asks the client for the addresses of its roots, which it does where there are other
    work trees. A root in another repository changes nothing: a client must not choose whose memory
    is read.
    """
    start = project.here.as_uri()

    def moves(roots: Callable[[], list[str]]) -> bool:
        own = _places(start)
        if own is None or not (own.common_dir / "worktrees").is_dir():
            return False
        stated = (places for places in map(_places, roots()) if places)
        chosen = next((places for places in stated if places.common_dir == own.common_dir), own)
        moved = chosen != _places(project.here.as_uri())
        if moved:
            project.here = chosen.work_tree
        return moved

    return moves


def _places(address: str) -> Places | None:
    """Where the repository of a `file:` address on this machine lies; None if there is none."""
    with suppress(FilememError, OSError, ValueError):  # also what is no address, or no name
        parts = urlsplit(address)
        folder = Path(unquote(parts.path, errors="surrogateescape"))
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and folder.is_absolute():
            return find(folder)
    return None
