"""What stands in a store, and what may: records are told by name, never through a link or outside the store.

Only regular files of at most 1 MiB are read; links, FIFOs, sockets, devices and larger files are skipped and reported.
A store folder that is not there is an empty store. Identity is the Git blob id of the bytes as they stand on disk:
where Git would convert line endings that is not the one in the commit, and only says whether a file is what it was.
"""

from __future__ import annotations

import os
import re
import stat
import time
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from filemem.changes import Entry, Manifest, blob_id
from filemem.errors import BadInput, NotFound
from filemem.record import MAX_FILE, Problem

MAX_SIZE = MAX_FILE  # of any file that is read: what no record can be is none
CLOCK_TICK = 20_000_000  # nanoseconds; a file time this young may still hide a second write in the same tick
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


class Scan(NamedTuple):
    """What a look found: records by path, the times of the folders that were listed, and what was skipped and why."""

    files: dict[str, Entry]
    folders: dict[str, int]
    problems: list[Problem]


class Reader(Protocol):
    """Reads one file of the store, never through a link."""

    def __call__(self, path: str, /) -> bytes: ...


def scan(
    root: Path, read: Reader, before: Manifest, hash_name: str = "sha1", folders: Collection[str] | None = None
) -> Scan:
    """List the records of a store; `Files.scan` says what the arguments mean."""
    start = time.time_ns()
    known = {_parent(path) for path in before} if folders is not None else set()
    found = {} if folders is None else {path: one for path, one in before.items() if _parent(path) not in folders}
    result = Scan(found, {}, [])
    pending = [""] if folders is None else sorted(folders)
    while pending:
        folder = pending.pop()
        if folder in result.folders or folder.startswith(".") or "/." in folder:
            continue
        for item in _listing(root, folder, start, result):
            path = f"{folder}/{item.name}".lstrip("/")
            if item.is_dir(follow_symlinks=False):
                if path not in known:
                    pending.append(path)
            elif is_record(item.name):
                entry = _look(item, path, before.get(path), hash_name, read, result.problems)
                if entry:
                    found[path] = entry if entry.mtime <= start - CLOCK_TICK else Entry(entry.blob, entry.size)
            elif item.is_symlink() and Path(item.path).is_dir():
                result.problems.append(skipped(path, "symlink", "is a linked folder, not followed"))
    return result


def changed_folders(root: Path, before: Mapping[str, int]) -> set[str]:
    """Return which of these folders were written to or removed since; new ones show by their parent."""
    changed, top = set(), f"{root}/"  # stores of the older layout have thousands, at each start of a command
    for folder, seen in before.items():
        try:
            found = os.lstat(top + folder)
            # No change leaves the change time as it was; the other counts only where somebody set it ahead.
            same = found.st_ctime_ns == seen or newest(found) == seen
        except OSError:
            same = False
        if not same:
            changed.add(folder)
    return changed


def _listing(root: Path, folder: str, start: int, result: Scan) -> list[os.DirEntry[str]]:
    """Return what stands in a folder, without hidden names; its time is taken before, as a change may come between."""
    try:
        found = os.lstat(f"{root}/{folder}")
        if not stat.S_ISDIR(found.st_mode):
            return []
        with os.scandir(f"{root}/{folder}") as listing:
            items = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        result.problems.append(skipped(folder, "unreadable", f"cannot be listed: {error.strerror}"))
        return []
    if folder and any(item.name == ".git" for item in items):
        result.problems.append(skipped(folder, "repository", "is a repository of its own"))
        return []
    written = newest(found)
    result.folders[folder] = written if written <= start - CLOCK_TICK else -1
    return [item for item in items if not item.name.startswith(".")]


def _look(
    item: os.DirEntry[str], path: str, known: Entry | None, hash_name: str, read: Reader, problems: list[Problem]
) -> Entry | None:
    try:
        found = item.stat(follow_symlinks=False)
        reason = unfit(found)
        if reason is None:
            if known is not None and (known.size, known.mtime) == (found.st_size, newest(found)):
                return known
            return Entry(blob_id(read(path), hash_name), found.st_size, newest(found))
    except (FileNotFoundError, NotFound):
        return None
    except OSError as error:
        reason = ("unreadable", f"cannot be read: {error.strerror}")
    except BadInput as error:
        reason = ("file-name", error.message)
    problems.append(skipped(path, *reason))
    return None


def newest(found: os.stat_result) -> int:
    """Return the time of a file: its change time cannot be set back, and shows an edit that restored the other."""
    return max(found.st_mtime_ns, found.st_ctime_ns)


def unfit(found: os.stat_result) -> tuple[str, str] | None:
    """Return the code and the words for what is no file to read, or None."""
    if stat.S_ISLNK(found.st_mode):
        return "symlink", "is a link, not followed"
    if not stat.S_ISREG(found.st_mode):
        return "not-a-file", "is no regular file"
    if found.st_size > MAX_SIZE:
        return "too-large", f"is larger than {MAX_SIZE} bytes"
    return None


def skipped(path: str, code: str, message: str) -> Problem:
    """Return the problem of a file that is not read."""
    printable = path.encode("utf-8", "backslashreplace").decode()
    return Problem(printable, 1, code, "error", f"{message}; skipped")


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


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
