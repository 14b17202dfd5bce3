"""What is wrong with the names of files, where somebody else checks them out, or reads them in review. Pure.

Rule: a name is what a person sees and what every file system can hold. Nothing is refused for it: `check` tells.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator

from filemem.files.paths import reserved
from filemem.lint import hidden
from filemem.record import Problem

_WINDOWS = re.compile(r'[<>"|?*]')  # besides what `reserved` knows


def of(path: str) -> Problem | None:
    """What is wrong with the last part of a path by itself, or None.

    Args:
        path: of a file or a folder, relative to the store.
    """
    name = path.rpartition("/")[2]
    if not name.isascii() and (found := hidden(name)):
        text = f"its name holds {found}, which nobody sees in review: rename it"
        return Problem(_shown(path), 1, "hidden-character", "warning", text)
    if reserved(name) or _WINDOWS.search(name):
        text = "its name is one that Windows cannot have, so that no clone there checks it out: rename it"
        return Problem(_shown(path), 1, "file-name", "warning", text)
    return None


def clashes(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The paths that are one where letter case and Unicode forms are folded, as on macOS and Windows.

    Args:
        paths: all that there are, files and folders.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        found.setdefault((folder, unicodedata.normalize("NFC", name.casefold())), []).append(path)
    return (tuple(sorted(several)) for several in found.values() if len(several) > 1)


def clash(paths: Collection[str], at: str) -> Problem:
    """Say that some paths are one elsewhere, at one of them."""
    others = ", ".join(_shown(path) for path in paths if path != at)
    text = f"macOS and Windows take {others} for the same name, so that a clone there has only one of them: rename it"
    return Problem(_shown(at), 1, "name-clash", "error", text)


def entries(paths: Iterable[str]) -> set[str]:
    """Files, and all folders that they lie in."""
    found = set[str]()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]  # noqa: PLW2901 - up to the top
    return found


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()
