"""Choose the work tree that a server serves: its own, or that of its client's root."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filemem.errors import FilememError
from filemem.repo.run import GitFolders, find_repository

if TYPE_CHECKING:
    from filemem.cli.project import Project


def build_root_follower(project: Project) -> Callable[[Callable[[], list[str]]], bool]:
    """Return a function that moves a project to the work tree of the client's root.

    The function gets a callback that asks the client for the addresses of its roots, and returns
    whether the project has moved. It asks only if the repository has other work trees. A root in
    another repository changes nothing: a client must not choose whose memory is read.
    """
    start_address = project.working_folder.as_uri()

    def move_project(list_roots: Callable[[], list[str]]) -> bool:
        own_folders = _find_folders(start_address)
        if own_folders is None or not (own_folders.common_dir / "worktrees").is_dir():
            return False
        chosen_folders = _choose_root(list_roots(), own_folders)
        if chosen_folders == _find_folders(project.working_folder.as_uri()):
            return False
        project.working_folder = chosen_folders.work_tree
        return True

    return move_project


def _choose_root(addresses: Iterable[str], own_folders: GitFolders) -> GitFolders:
    """Return the first root in the server's own repository; without one, the server's start."""
    for address in addresses:
        folders = _find_folders(address)
        if folders is not None and folders.common_dir == own_folders.common_dir:
            return folders
    return own_folders


def _find_folders(address: str) -> GitFolders | None:
    """Find the repository of a `file:` address; None if there is none on this machine."""
    with suppress(FilememError, OSError, ValueError):  # the address may be no path at all
        parts = urlsplit(address)
        folder = Path(unquote(parts.path, errors="surrogateescape"))
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and folder.is_absolute():
            return find_repository(folder)
    return None
