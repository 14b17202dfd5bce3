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

from filemem.changes import Entry, Manifest, blob_id
from filemem.errors import BadInput, FilememError
from filemem.record import MAX_FILE, Problem, adr_number
from filemem.record.identity import stem_of

MAX_SIZE = MAX_FILE  # of any file that is read: what no record can be is none
_TICK = 20_000_000  # nanoseconds; a time this young may hide a second write in the same tick
_NOWHERE = frozenset(("", ".", ".."))
# Control characters, undecodable bytes, line and paragraph separators.
_CONTROL = frozenset(("Cc", "Cs", "Zl", "Zp"))
OTHER_SUFFIXES = frozenset(("org", "textile"))  # decision records, not read
# They explain the folder to people and agents; in any letter case.
NO_RECORDS = frozenset(("readme.md", "agents.md"))
_OF_A_FOLDER = frozenset(("readme", "index"))  # the record of a numbered folder, else a page
_PAGES = frozenset(("agents", "summary"))
# What a template is called: en, de, fr, es, pt, it, ja, ko, zh.
_TEMPLATE = frozenset(
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
_TEMPLATE_WORDS = _TEMPLATE | frozenset(
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
_UNNUMBERED = re.compile(r"(?:[A-Za-z]{2,8}[-_])?(?:N{2,6}|X{2,6}|YYYYMMDD)[-_]")
_LONGEST_NAME = 255  # bytes, as file systems have it
_LONGEST_PATH = 3_500  # bytes: 4,096 less the folders above the work tree


# Paths -> each with its bytes, or why there are none.
ReadAll = Callable[[Iterable[str]], Iterable[tuple[str, bytes | FilememError]]]
# Files that were touched, by path -> the ids of those of which they are known without reading.
Proven = Callable[[Mapping[str, os.stat_result]], Mapping[str, str]]


class Scan(NamedTuple):
    """What a look at a store saw."""

    files: dict[str, Entry]  # records by path
    folders: dict[str, int]  # the times of those that were listed
    problems: list[Problem]  # what was skipped, and why


class _Look(NamedTuple):
    """A look at a store, while it goes on."""

    result: Scan
    start: int
    before: Manifest
    unread: dict[str, os.stat_result]  # files whose content is not known yet

    def add(self, path: str, blob: str, state: os.stat_result) -> None:
        written = newest(state)
        settled = (written,) if written <= self.start - _TICK else ()
        self.result.files[path] = Entry(blob, state.st_size, *settled)

    def see(self, path: str, state: os.stat_result) -> None:
        """Take a file as it was before, or note that it has to be read."""
        was = self.before.get(path)
        if was and was[1:] == (state.st_size, newest(state)):
            self.add(path, was.blob, state)
        else:
            self.unread[path] = state


def scan(
    root: Path,
    read_all: ReadAll,
    before: Manifest,
    hash_name: str,
    folders: Collection[str] | None,
    proven: Proven,
) -> Scan:
    """List the records of a store; `read_all` reads some of its files; see `Files.scan`."""
    files: dict[str, Entry] = {}
    listed: set[str] = set()
    if folders is not None:
        files = {path: entry for path, entry in before.items() if _folder_of(path) not in folders}
        listed = set(map(_folder_of, before))
    look = _Look(Scan(files, {}, []), time.time_ns(), before, {})
    pending = [""] if folders is None else sorted(folders)
    while pending:
        folder = pending.pop()
        if folder in look.result.folders or folder.startswith(".") or "/." in folder:
            continue
        below = _in_folder(root, folder, look)
        pending += [path for path in below if path not in listed]
    _read(look, read_all, hash_name, proven)
    return look.result


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _in_folder(root: Path, folder: str, look: _Look) -> list[str]:
    """Look at the files of a folder; return the folders in it."""
    below = []
    for item in _listing(root, folder, look.start, look.result):
        path = f"{folder}/{item.name}".lstrip("/")
        if item.is_dir(follow_symlinks=False):
            below.append(path)
        elif is_record(path):
            try:
                look.see(path, item.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError as error:
                look.result.problems.append(_skipped(path, str(error)))
        elif item.is_symlink() and Path(item.path).is_dir():
            problem = _skipped(path, "a linked folder is not followed")
            look.result.problems.append(problem)
    return below


def _read(look: _Look, read_all: ReadAll, hash_name: str, proven: Proven) -> None:
    """Learn the ids of the files whose content is not known yet."""
    ids = proven(
        {path: state for path, state in look.unread.items() if stat.S_ISREG(state.st_mode)}
    )
    for path, blob in ids.items():
        if not _bad_path(path) and look.unread[path].st_size <= MAX_SIZE:
            look.add(path, blob, look.unread.pop(path))
    for path, data in read_all(look.unread):
        if isinstance(data, bytes):
            look.add(path, blob_id(data, hash_name), look.unread[path])
        elif isinstance(data, BadInput):
            look.result.problems.append(_skipped(path, data.message))


def _listing(root: Path, folder: str, start: int, result: Scan) -> list[os.DirEntry[str]]:
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
        result.problems.append(_skipped(folder, f"cannot be listed: {error.strerror}"))
        return []
    if folder and any(item.name == ".git" for item in items):
        result.problems.append(_skipped(folder, "is a repository of its own"))
        return []
    written = newest(state)
    result.folders[folder] = written if written <= start - _TICK else -1
    return [item for item in items if not item.name.startswith(".")]


def newest(state: os.stat_result) -> int:
    """Return the newest time of a file, in nanoseconds.

    Its change time cannot be set back, and shows an edit that restored the other.
    """
    return max(state.st_mtime_ns, state.st_ctime_ns)


def _skipped(path: str, message: str) -> Problem:
    """Return the problem of a file that is not read."""
    name = path.encode("utf-8", "backslashreplace").decode()
    return Problem(name, 1, "unreadable", "error", f"{message}; skipped")


def check_path(path: str) -> tuple[str, ...]:
    """Split a store-relative path, or say why it may not be used. Raises BadInput."""
    reason = _bad_path(path)
    if reason:
        example = "decisions/2025/01/auth--20250101-use-jwt-k3f9w2ma.md"
        hint = f"give a path inside the store, like {example}"
        raise BadInput(f"{path[:200]!r} {reason}", hint, field="path")
    return tuple(path.split("/"))


def fits(path: str) -> bool:
    """Whether a file may have this path at all, by the length of its names.

    The system fails to look where none may.
    """
    if len(os.fsencode(path)) >= _LONGEST_PATH:
        return False
    return all(len(os.fsencode(name)) <= _LONGEST_NAME for name in path.split("/"))


@lru_cache(maxsize=32_768)  # a look asks of each file several times
def is_record(path: str) -> bool:
    """Whether a file is a record, by its name and the name of its folder. Pages are none.

    `README` and `index` are the record of a folder that is numbered like one, `0012-use-x/`.
    """
    name = path.rpartition("/")[2]
    stem = stem_of(name.lower())
    if stem in ("", name.lower()) or name.startswith(".") or _UNNUMBERED.match(name):
        return False
    if stem in _OF_A_FOLDER:
        return adr_number(path) is not None
    return stem not in _PAGES and not _is_template(stem)


def _is_template(stem: str) -> bool:
    """Whether a name without its suffix is a template's: `adr-template`, `0000-template-de`."""
    composed = unicodedata.normalize("NFC", stem)
    words = [word for word in re.split(r"[-_. ]+", composed) if word.strip("0")]
    return not _TEMPLATE.isdisjoint(words) and all(
        len(word) == 2 or word in _TEMPLATE_WORDS for word in words
    )


def not_read(root: Path) -> str:
    """Say which files of a store are decision records in a form that is not read."""
    names = (name for _, _, files in os.walk(root) for name in files)
    suffixes = Counter(name.lower().rpartition(".")[2] for name in names)
    counts = [f"{suffixes[form]} .{form}" for form in sorted(OTHER_SUFFIXES & suffixes.keys())]
    if not counts:
        return ""
    return f"{', '.join(counts)}; filemem reads Markdown, AsciiDoc and reStructuredText"


def is_listed(path: str) -> bool:
    """Whether a scan reads the file of this path as a record; hidden folders hold none."""
    return is_record(path) and not path.startswith(".") and "/." not in path and not _bad_path(path)


def _bad_path(path: str) -> str:
    """Why a path may not be used, or ""."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or path[1:2] == ":" or not _NOWHERE.isdisjoint(parts):
        return "is not a path inside the store, with /"
    if ".git" in path.casefold() and any(part.casefold().startswith(".git") for part in parts):
        return "reaches into a Git directory or Git's own files"
    return "" if path.isprintable() else _bad_characters(path)


def _bad_characters(path: str) -> str:
    control = {unicodedata.category(character) for character in path} & _CONTROL
    if not control:
        return ""
    return "is not UTF-8" if control == {"Cs"} else "holds control characters"
