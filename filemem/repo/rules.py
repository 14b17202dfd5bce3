"""Where Git reads its rules about paths from: attributes, and what to ignore."""

from __future__ import annotations

from pathlib import Path

from filemem.repo.git import Git
from filemem.repo.settings import Settings, user_folders


def attributes(git: Git, settings: Settings, path: str) -> list[Path]:
    """The files that may hold attributes of a path, there or not."""
    return [*_sources(git, settings, path, "attributes"), Path("/etc/gitattributes")]


def ignoring(git: Git, settings: Settings, path: str) -> list[Path]:
    """The files that may say that a path is ignored, there or not."""
    return _sources(git, settings, path, "ignore")


_OF_A_CLONE = {"attributes": "attributes", "ignore": "exclude"}  # in info/
_STATED = {"attributes": "core.attributesfile", "ignore": "core.excludesfile"}


def _sources(git: Git, settings: Settings, path: str, kind: str) -> list[Path]:
    home, xdg = user_folders(git.environment)
    stated = settings.text(_STATED[kind])
    top = git.places.work_tree
    own = top / (stated.replace("~", str(home), 1) if stated.startswith("~/") else stated) if stated else None
    folders = [top, *(top / parent for parent in Path(path).parents)]
    return [
        git.places.common_dir / "info" / _OF_A_CLONE[kind],
        own or xdg / "git" / kind,
        *(folder / f".git{kind}" for folder in dict.fromkeys(folders)),
    ]
