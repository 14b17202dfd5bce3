"""Which of a repository's work trees a server serves: that of its client's first root there, else its own."""

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

Roots = Callable[[], list[str] | None]


def follow(project: Project) -> Callable[[Roots], bool]:
    """Return what moves a project to where the client works, and says whether it moved.

    It gets what asks the client for the addresses of its roots. A root in another repository says
    nothing: a client must not choose whose memory is read. Without other work trees nobody is asked.
    """
    start = project.here

    def moves(roots: Roots) -> bool:
        own = _places(start)
        if own is None or not (own.common_dir / "worktrees").is_dir():
            return False
        addresses = roots()
        if addresses is None:
            return False
        folders = filter(None, map(_folder, addresses))
        place = next((folder for folder in folders if _shares(folder, own)), start)
        moved = _places(place) != _places(project.here)
        if moved:
            project.here = place
        return moved

    return moves


def _folder(address: str) -> Path | None:
    """The folder of a `file:` address on this machine."""
    with suppress(ValueError):  # an address that is none
        parts = urlsplit(address)
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            folder = Path(unquote(parts.path))
            return folder if folder.is_absolute() else None
    return None


def _places(folder: Path) -> Places | None:
    with suppress(FilememError, OSError, ValueError):  # also a name that no folder can have
        return find(folder)
    return None


def _shares(folder: Path, own: Places) -> bool:
    places = _places(folder)
    return places is not None and places.common_dir == own.common_dir
