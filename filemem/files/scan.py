"""What stands in a store, and what may: a record is known by its name, and no link is followed.

Only regular files of at most 1 MiB are read; all else is skipped and reported. A store folder that
is not there is an empty store. Identity is the Git blob id of the bytes as they stand on disk:
where Git would convert line endings that is not the one in the commit, and only says whether a file
is what it was.
"""

from __future__ import annotations

import os
import re
import stat
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from filemem.changes import Entry, Manifest, compute_blob_id
from filemem.errors import BadInput, FilememError
from filemem.record import MAX_FILE_SIZE, Problem, parse_adr_number
from filemem.record.identity import strip_suffix

MAX_SIZE = MAX_FILE_SIZE  # of any file that is read: what no record can be is none
_TICK = 20_000_000  # nanoseconds; a time this young may hide a second write in the same tick
_INVALID_PARTS = frozenset(("", ".", ".."))
# Control characters, undecodable bytes, line and paragraph separators.
_CONTROL_CATEGORIES = frozenset(("Cc", "Cs", "Zl", "Zp"))
OTHER_SUFFIXES = frozenset(("org", "textile"))  # decision records, not read
# They explain the folder to people and agents; in any letter case.
NON_RECORD_NAMES = frozenset(("readme.md", "agents.md"))
_FOLDER_STEMS = frozenset(("readme", "index"))  # the record of a numbered folder, else a page
_PAGE_STEMS = frozenset(("agents", "summary"))
# What a template is called: en, de, fr, es, pt, it, ja, ko, zh.
_TEMPLATE_NAMES = frozenset(
    [
        "template",
        "vorlage",
        "modèle",
        "modele",
        "plantilla",
        "modelo",
        "modello",
        "テンプレート",
        "雛形",
        "템플릿",
        "模板",
    ]
)
_TEMPLATE_WORDS = _TEMPLATE_NAMES | frozenset(
    [
        "adr",
        "madr",
        "nygard",
        "decision",
        "record",
        "short",
        "long",
        "bare",
        "minimal",
        "full",
        "entscheidung",
    ]
)
# Capitals only, `NNNN-title`: the names that filemem writes are lower case.
_PLACEHOLDER_NUMBER = re.compile(r"(?:[A-Za-z]{2,8}[-_])?(?:N{2,6}|X{2,6}|YYYYMMDD)[-_]")
_MAX_NAME_BYTES = 255  # bytes, as file systems have it
_MAX_PATH_BYTES = 3_500  # bytes: 4,096 less the folders above the work tree


# Paths -> each with its bytes, or why there are none.
ReadAll = Callable[[Iterable[str]], Iterable[tuple[str, bytes | FilememError]]]
# Files that were touched, by path -> the ids of those of which they are known without reading.
FindKnownIds = Callable[[Mapping[str, os.stat_result]], Mapping[str, str]]


class Scan(NamedTuple):
    """What a look at a store saw."""

    files: dict[str, Entry]  # records by path
    folders: dict[str, int]  # the times of those that were listed
    problems: list[Problem]  # what was skipped, and why


class _ScanState(NamedTuple):
    """A look at a store, while it goes on."""

    result: Scan
    start: int
    before: Manifest
    unread_files: dict[str, os.stat_result]  # files whose content is not known yet

    def add_file(self, path: str, blob: str, state: os.stat_result) -> None:
        changed_time = get_newest_time(state)
        settled_time = (changed_time,) if changed_time <= self.start - _TICK else ()
        self.result.files[path] = Entry(blob, state.st_size, *settled_time)

    def visit_file(self, path: str, state: os.stat_result) -> None:
        """Take a file as it was before, or note that it has to be read."""
        previous = self.before.get(path)
        if previous and previous[1:] == (state.st_size, get_newest_time(state)):
            self.add_file(path, previous.blob, state)
        else:
            self.unread_files[path] = state


def scan_store(
    root: Path,
    read_all: ReadAll,
    before: Manifest,
    hash_name: str,
    folders: Collection[str] | None,
    find_known_ids: FindKnownIds,
) -> Scan:
    """List the records of a store; `read_all` reads some of its files; see `Files.scan`."""
    files: dict[str, Entry] = {}
    known_folders: set[str] = set()
    if folders is not None:
        files = {path: entry for path, entry in before.items() if _get_folder(path) not in folders}
        known_folders = set(map(_get_folder, before))
    scan_state = _ScanState(Scan(files, {}, []), time.time_ns(), before, {})
    pending = [""] if folders is None else sorted(folders)
    while pending:
        folder = pending.pop()
        if folder in scan_state.result.folders or folder.startswith(".") or "/." in folder:
            continue
        subfolders = _scan_folder(root, folder, scan_state)
        pending += [path for path in subfolders if path not in known_folders]
    _add_unread_files(scan_state, read_all, hash_name, find_known_ids)
    return scan_state.result


def _get_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _scan_folder(root: Path, folder: str, scan_state: _ScanState) -> list[str]:
    """Look at the files of a folder; return the folders in it."""
    subfolders = []
    for item in _list_folder(root, folder, scan_state.start, scan_state.result):
        path = f"{folder}/{item.name}".lstrip("/")
        if item.is_dir(follow_symlinks=False):
            subfolders.append(path)
        elif is_record(path):
            try:
                scan_state.visit_file(path, item.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError as error:
                scan_state.result.problems.append(_build_problem(path, str(error)))
        elif item.is_symlink() and Path(item.path).is_dir():
            problem = _build_problem(path, "a linked folder is not followed")
            scan_state.result.problems.append(problem)
    return subfolders


def _add_unread_files(
    scan_state: _ScanState, read_all: ReadAll, hash_name: str, find_known_ids: FindKnownIds
) -> None:
    """Learn the ids of the files whose content is not known yet."""
    ids = find_known_ids(
        {
            path: state
            for path, state in scan_state.unread_files.items()
            if stat.S_ISREG(state.st_mode)
        }
    )
    for path, blob in ids.items():
        if not _check_path(path) and scan_state.unread_files[path].st_size <= MAX_SIZE:
            scan_state.add_file(path, blob, scan_state.unread_files.pop(path))
    for path, data in read_all(scan_state.unread_files):
        if isinstance(data, bytes):
            scan_state.add_file(
                path, compute_blob_id(data, hash_name), scan_state.unread_files[path]
            )
        elif isinstance(data, BadInput):
            scan_state.result.problems.append(_build_problem(path, data.message))


def _list_folder(root: Path, folder: str, start: int, result: Scan) -> list[os.DirEntry[str]]:
    """Return what stands in a folder, without hidden names.

    Its time is taken before: a change may come between.
    """
    try:
        state = os.lstat(f"{root}/{folder}")
        if not stat.S_ISDIR(state.st_mode):
            return []
        with os.scandir(f"{root}/{folder}") as listing:
            items = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        result.problems.append(_build_problem(folder, f"cannot be listed: {error.strerror}"))
        return []
    if folder and any(item.name == ".git" for item in items):
        result.problems.append(_build_problem(folder, "is a repository of its own"))
        return []
    changed_time = get_newest_time(state)
    result.folders[folder] = changed_time if changed_time <= start - _TICK else -1
    return [item for item in items if not item.name.startswith(".")]


def get_newest_time(state: os.stat_result) -> int:
    """Return the newest time of a file, in nanoseconds.

    Its change time cannot be set back, and shows an edit that restored the other.
    """
    return max(state.st_mtime_ns, state.st_ctime_ns)


def _build_problem(path: str, message: str) -> Problem:
    """Return the problem of a file that is not read."""
    name = path.encode("utf-8", "backslashreplace").decode()
    return Problem(name, 1, "unreadable", "error", f"{message}; skipped")


def validate_path(path: str) -> tuple[str, ...]:
    """Split a store-relative path, or say why it may not be used. Raises BadInput."""
    reason = _check_path(path)
    if reason:
        example = "decisions/2025/01/auth--20250101-use-jwt-k3f9w2ma.md"
        hint = f"give a path inside the store, like {example}"
        raise BadInput(f"{path[:200]!r} {reason}", hint, field="path")
    return tuple(path.split("/"))


def can_exist(path: str) -> bool:
    """Whether a file may have this path at all, by the length of its names.

    The system fails to look where none may.
    """
    if len(os.fsencode(path)) >= _MAX_PATH_BYTES:
        return False
    return all(len(os.fsencode(name)) <= _MAX_NAME_BYTES for name in path.split("/"))


@lru_cache(maxsize=32_768)  # a look asks of each file several times
def is_record(path: str) -> bool:
    """Whether a file is a record, by its name and the name of its folder. Pages are none.

    `README` and `index` are the record of a folder that is numbered like one, `0012-use-x/`.
    """
    name = path.rpartition("/")[2]
    stem = strip_suffix(name.lower())
    if stem in ("", name.lower()) or name.startswith(".") or _PLACEHOLDER_NUMBER.match(name):
        return False
    if stem in _FOLDER_STEMS:
        return parse_adr_number(path) is not None
    return stem not in _PAGE_STEMS and not _is_template(stem)


def _is_template(stem: str) -> bool:
    """Whether a name without its suffix is a template's: `adr-template`, `0000-template-de`."""
    composed = unicodedata.normalize("NFC", stem)
    words = [word for word in re.split(r"[-_. ]+", composed) if word.strip("0")]
    return not _TEMPLATE_NAMES.isdisjoint(words) and all(
        len(word) == 2 or word in _TEMPLATE_WORDS for word in words
    )


def describe_unread_files(root: Path) -> str:
    """Say which files of a store are decision records in a form that is not read."""
    names = (name for _, _, files in os.walk(root) for name in files)
    suffixes = Counter(name.lower().rpartition(".")[2] for name in names)
    counts = [f"{suffixes[form]} .{form}" for form in sorted(OTHER_SUFFIXES & suffixes.keys())]
    if not counts:
        return ""
    return f"{', '.join(counts)}; filemem reads Markdown, AsciiDoc and reStructuredText"


def is_listed(path: str) -> bool:
    """Whether a scan reads the file of this path as a record; hidden folders hold none."""
    return (
        is_record(path) and not path.startswith(".") and "/." not in path and not _check_path(path)
    )


def _check_path(path: str) -> str:
    """Why a path may not be used, or ""."""
    parts = path.split("/")
    if (
        path.startswith("/")
        or "\\" in path
        or path[1:2] == ":"
        or not _INVALID_PARTS.isdisjoint(parts)
    ):
        return "is not a path inside the store, with /"
    if ".git" in path.casefold() and any(part.casefold().startswith(".git") for part in parts):
        return "reaches into a Git directory or Git's own files"
    return "" if path.isprintable() else _check_characters(path)


def _check_characters(path: str) -> str:
    control_categories = {
        unicodedata.category(character) for character in path
    } & _CONTROL_CATEGORIES
    if not control_categories:
        return ""
    return "is not UTF-8" if control_categories == {"Cs"} else "holds control characters"
