"""List the files of a store, and check their paths. A record is known by its name.

Only regular files of at most 1 MiB are read; others are skipped and reported, and links are not
followed. A missing folder is an empty store. The id of a file is the Git blob id of its bytes on
disk. If Git converts line ends it is not the id in the commit; it only shows whether a file was
changed.
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

MAX_SIZE = MAX_FILE_SIZE  # of any file that is read
_TICK = 20_000_000  # nanoseconds; two writes within this time may leave equal times
_INVALID_PARTS = frozenset(("", ".", ".."))
# Control characters, undecodable bytes, line and paragraph separators.
_CONTROL_CATEGORIES = frozenset(("Cc", "Cs", "Zl", "Zp"))
OTHER_SUFFIXES = frozenset(("org", "textile"))  # decision records, not read
# Pages about the folder for people and agents; in any letter case.
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
_MAX_NAME_BYTES = 255  # the limit of file systems
_MAX_PATH_BYTES = 3_500  # 4,096 without the folders above the work tree


# Paths -> each with its bytes, or with the error.
ReadAll = Callable[[Iterable[str]], Iterable[tuple[str, bytes | FilememError]]]
# Changed files by path -> the ids of those whose id is known without reading.
FindKnownIds = Callable[[Mapping[str, os.stat_result]], Mapping[str, str]]


class Scan(NamedTuple):
    """The result of listing a store."""

    files: dict[str, Entry]  # records by path
    folders: dict[str, int]  # the times of the listed folders
    problems: list[Problem]  # the skipped files, and why


class _ScanState(NamedTuple):
    """A scan in progress."""

    result: Scan
    start: int
    before: Manifest
    unread_files: dict[str, os.stat_result]  # files with unknown content

    def add_file(self, path: str, blob: str, state: os.stat_result) -> None:
        """Add a record; the time of a file that was just written is left out."""
        newest_time = get_newest_time(state)
        if newest_time <= self.start - _TICK:
            entry = Entry(blob, state.st_size, newest_time)
        else:
            entry = Entry(blob, state.st_size)
        self.result.files[path] = entry

    def visit_file(self, path: str, state: os.stat_result) -> None:
        """Add a file that is unchanged, or note that it has to be read."""
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
    """List the records of a store; see `Files.scan`. `read_all` reads some of its files."""
    files: dict[str, Entry] = {}
    known_folders: set[str] = set()
    pending = [""]
    if folders is not None:
        pending = sorted(folders)
        for path, entry in before.items():
            folder = _get_folder(path)
            known_folders.add(folder)
            if folder not in folders:
                files[path] = entry
    result = Scan(files, folders={}, problems=[])
    scan_state = _ScanState(result, start=time.time_ns(), before=before, unread_files={})
    while pending:
        folder = pending.pop()
        is_hidden = folder.startswith(".") or "/." in folder
        if is_hidden or folder in result.folders:
            continue
        subfolders = _scan_folder(root, folder, scan_state)
        pending += [path for path in subfolders if path not in known_folders]
    _add_unread_files(scan_state, read_all, hash_name, find_known_ids)
    return result


def _get_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _scan_folder(root: Path, folder: str, scan_state: _ScanState) -> list[str]:
    """Add the files of a folder; return its subfolders."""
    subfolders = []
    problems = scan_state.result.problems
    for item in _list_folder(root, folder, scan_state.start, scan_state.result):
        path = f"{folder}/{item.name}".lstrip("/")
        if item.is_dir(follow_symlinks=False):
            subfolders.append(path)
        elif is_record(path):
            try:
                state = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(_build_problem(path, str(error)))
                continue
            scan_state.visit_file(path, state)
        elif item.is_symlink() and Path(item.path).is_dir():
            problems.append(_build_problem(path, "a linked folder is not followed"))
    return subfolders


def _add_unread_files(
    scan_state: _ScanState, read_all: ReadAll, hash_name: str, find_known_ids: FindKnownIds
) -> None:
    """Add the files with unknown content, read if their id is not known otherwise."""
    unread_files = scan_state.unread_files
    items = unread_files.items()
    regular_files = {path: state for path, state in items if stat.S_ISREG(state.st_mode)}
    for path, blob in find_known_ids(regular_files).items():
        if not _check_path(path) and unread_files[path].st_size <= MAX_SIZE:
            state = unread_files.pop(path)
            scan_state.add_file(path, blob, state)
    for path, data in read_all(unread_files):
        if isinstance(data, bytes):
            blob = compute_blob_id(data, hash_name)
            scan_state.add_file(path, blob, unread_files[path])
        elif isinstance(data, BadInput):
            scan_state.result.problems.append(_build_problem(path, data.message))


def _list_folder(root: Path, folder: str, start: int, result: Scan) -> list[os.DirEntry[str]]:
    """Return the items of a folder without hidden names, and note its time.

    The time is read first, because the folder may change while it is listed.
    """
    path = f"{root}/{folder}"
    try:
        state = os.lstat(path)
        if not stat.S_ISDIR(state.st_mode):
            return []
        with os.scandir(path) as listing:
            items = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        result.problems.append(_build_problem(folder, f"cannot be listed: {error.strerror}"))
        return []
    if folder and any(item.name == ".git" for item in items):
        result.problems.append(_build_problem(folder, "is a repository of its own"))
        return []
    newest_time = get_newest_time(state)
    is_settled = newest_time <= start - _TICK
    result.folders[folder] = newest_time if is_settled else -1
    return [item for item in items if not item.name.startswith(".")]


def get_newest_time(state: os.stat_result) -> int:
    """Return the newest time of a file, in nanoseconds.

    The change time cannot be set back, so it shows an edit that restored the modification time.
    """
    return max(state.st_mtime_ns, state.st_ctime_ns)


def _build_problem(path: str, message: str) -> Problem:
    """Return the problem of a file that is not read."""
    name = path.encode("utf-8", "backslashreplace").decode()
    return Problem(name, 1, "unreadable", "error", f"{message}; skipped")


def validate_path(path: str) -> tuple[str, ...]:
    """Return the parts of a store-relative path. Raises BadInput if it is invalid."""
    reason = _check_path(path)
    if reason:
        example = "decisions/2025/01/auth--20250101-use-jwt-k3f9w2ma.md"
        hint = f"give a path inside the store, like {example}"
        raise BadInput(f"{path[:200]!r} {reason}", hint, field="path")
    return tuple(path.split("/"))


def can_exist(path: str) -> bool:
    """Whether a path and its names are short enough for the system, which fails for longer ones."""
    if len(os.fsencode(path)) >= _MAX_PATH_BYTES:
        return False
    return all(len(os.fsencode(name)) <= _MAX_NAME_BYTES for name in path.split("/"))


@lru_cache(maxsize=32_768)  # a scan asks for each file several times
def is_record(path: str) -> bool:
    """Whether a file is a record, by its name and the name of its folder.

    `README` and `index` are the record of a numbered folder, `0012-use-x/`; elsewhere they are
    pages.
    """
    name = path.rpartition("/")[2]
    folded_name = name.lower()
    stem = strip_suffix(folded_name)
    if not stem or stem == folded_name or name.startswith("."):
        return False
    if _PLACEHOLDER_NUMBER.match(name):
        return False
    if stem in _FOLDER_STEMS:
        return parse_adr_number(path) is not None
    return stem not in _PAGE_STEMS and not _is_template(stem)


def _is_template(stem: str) -> bool:
    """Whether a name without its suffix is a template's: `adr-template`, `0000-template-de`."""
    composed = unicodedata.normalize("NFC", stem)
    words = [word for word in re.split(r"[-_. ]+", composed) if word.strip("0")]
    if _TEMPLATE_NAMES.isdisjoint(words):
        return False
    return all(len(word) == 2 or word in _TEMPLATE_WORDS for word in words)


def describe_unread_files(root: Path) -> str:
    """Describe the decision records of a store in a format that is not read; "" if it has none."""
    suffixes: Counter[str] = Counter()
    for _, _, names in os.walk(root):
        suffixes.update(name.lower().rpartition(".")[2] for name in names)
    present_suffixes = [suffix for suffix in sorted(OTHER_SUFFIXES) if suffixes[suffix]]
    counts = [f"{suffixes[suffix]} .{suffix}" for suffix in present_suffixes]
    if not counts:
        return ""
    return f"{', '.join(counts)}; filemem reads Markdown, AsciiDoc and reStructuredText"


def is_listed(path: str) -> bool:
    """Whether a scan reads the file at this path as a record; hidden folders are skipped."""
    if not is_record(path) or path.startswith(".") or "/." in path:
        return False
    return not _check_path(path)


def _check_path(path: str) -> str:
    """Return why a path may not be used, or ""."""
    parts = path.split("/")
    has_drive = path[1:2] == ":"
    if has_drive or "\\" in path or not _INVALID_PARTS.isdisjoint(parts):
        return "is not a path inside the store, with /"
    if ".git" in path.casefold() and any(part.casefold().startswith(".git") for part in parts):
        return "reaches into a Git directory or Git's own files"
    if path.isprintable():
        return ""
    return _check_characters(path)


def _check_characters(path: str) -> str:
    categories = {unicodedata.category(character) for character in path}
    control_categories = categories & _CONTROL_CATEGORIES
    if not control_categories:
        return ""
    if control_categories == {"Cs"}:
        return "is not UTF-8"
    return "holds control characters"
