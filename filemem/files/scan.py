"""What stands in a store: its records are listed here, never through a link and never outside the work tree.

Only regular files of at most 1 MiB are read; links, FIFOs, sockets, devices and larger files are skipped and reported.
A store folder that is not there is an empty store. Identity is the Git blob id of the bytes as they stand on disk:
where Git would convert line endings that is not the one in the commit, and only says whether a file is what it was.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from filemem.changes import Entry, Manifest, blob_id
from filemem.errors import BadInput, NotFound
from filemem.files.paths import is_record
from filemem.record import MAX_FILE, Problem

MAX_SIZE = MAX_FILE  # of any file that is read: what no record can be is none
CLOCK_TICK = 20_000_000  # nanoseconds; a file time this young may still hide a second write in the same tick


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
