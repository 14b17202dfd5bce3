"""What a file of the store may be called. Pure: nothing is looked up on disk.

A path is relative to the store, with `/`. It may not leave the store nor name anything of Git's in any disguise that
some file system would accept: letter case, invisible characters, trailing dots and spaces, streams, 8.3 names.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from filemem.errors import BadInput

_DRIVE = re.compile(r"[A-Za-z]:")
_WINDOWS = re.compile(r'[<>"|?*]')  # besides what `reserved` refuses
_NOWHERE = frozenset(("", ".", ".."))
_DEVICE = r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?"
_GIT_SHORT = re.compile(r"gi[^.]{0,4}~[0-9]+")  # what an 8.3 file system calls .git, .gitmodules, ...
_CONTROL = frozenset(("Cc", "Cs", "Zl", "Zp"))  # control characters, undecodable bytes, line and paragraph separators
NO_RECORDS = frozenset(("readme.md", "agents.md"))  # they explain the folder to people and agents; in any letter case
LONGEST_NAME = 255  # bytes, as file systems have it
_LONGEST_PATH = 4_096 - 512  # bytes; what remains is for the folders above the work tree
MAX_DEPTH = 16  # folders; topics make two or three


def check_path(path: str, *, writing: bool = False) -> tuple[str, ...]:
    """Split a store-relative path, or say why it may not be used. Raises BadInput."""
    parts = tuple(path.split("/"))
    reason = _bad_path(path, parts) or (writing and _bad_new_path(parts))
    if reason:
        raise BadInput(
            f"{path[:200]!r} {reason}",
            "give a path inside the store, like decisions/2025/01/auth--20250101-use-jwt-k3f9w2ma.md",
            field="path",
        )
    return parts


def fits(path: str) -> bool:
    """Whether a file may have this path at all, by the length of its names; the system fails to look where none may."""
    return len(os.fsencode(path)) < _LONGEST_PATH and all(len(os.fsencode(p)) <= LONGEST_NAME for p in path.split("/"))


def is_record(name: str) -> bool:
    """Whether a file of this name (last part of its path) is a record."""
    lowered = name.lower()
    return lowered.endswith(".md") and lowered not in NO_RECORDS and not name.startswith(".")


def is_listed(path: str) -> bool:
    """Whether a scan reads the file of this store-relative path as a record; what lies in a hidden folder is none."""
    parts = tuple(path.split("/"))
    return is_record(parts[-1]) and not any(part.startswith(".") for part in parts) and not _bad_path(path, parts)


def is_private(path: str) -> bool:
    """Whether a store-relative path lies in the folder that is never committed."""
    return path.split("/", 1)[0].casefold() == "private"


def clashes(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The paths, of files and folders, that are one on macOS and Windows: letter case and Unicode forms are folded."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        found.setdefault((folder, unicodedata.normalize("NFC", name.casefold())), []).append(path)
    return (tuple(sorted(several)) for several in found.values() if len(several) > 1)


def _bad_path(path: str, parts: tuple[str, ...]) -> str:
    if not path or path.startswith("/") or "\\" in path or _DRIVE.match(path):
        return "is not a relative path with /"
    if not path.isprintable() and (found := {unicodedata.category(c) for c in path} & _CONTROL):
        return "is not UTF-8" if found == {"Cs"} else "holds control characters"
    if not _NOWHERE.isdisjoint(parts):
        return "leaves the store or has empty parts"
    if any(map(_is_git, parts)):
        return "reaches into a Git directory or Git's own files"
    return ""


def reserved(name: str) -> bool:
    """Whether a file or folder cannot have this name on every system: devices, streams, dots and spaces at the end."""
    return bool(re.fullmatch(_DEVICE, name)) or name.endswith((".", " ")) or ":" in name


def unportable(name: str) -> bool:
    """Whether Windows cannot have a file or folder of this name, so that no clone there checks it out."""
    return reserved(name) or bool(_WINDOWS.search(name))


def _bad_new_path(parts: tuple[str, ...]) -> str:
    if any(map(reserved, parts)):
        return "has a name that other systems reserve"
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in parts) or len(parts) > MAX_DEPTH:
        return "is too long"
    return ""


@lru_cache(maxsize=4096)  # paths share their folders
def _is_git(part: str) -> bool:
    plain = (part if part.isascii() else _visible(part)).split(":")[0].casefold().rstrip(". ")
    return plain.startswith(".git") or bool(_GIT_SHORT.match(plain))


def _visible(part: str) -> str:
    """A name as a file system that folds letters and drops invisible ones would take it."""
    return "".join(c for c in unicodedata.normalize("NFKC", part) if unicodedata.category(c) != "Cf")
