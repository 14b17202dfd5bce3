"""What stands in a store, and what may: records are told by name, never through a link or outside the store.

Only regular files of at most 1 MiB are read; all else is skipped and reported.
A store folder that is not there is an empty store. Identity is the Git blob id of the bytes as they stand on disk:
where Git would convert line endings that is not the one in the commit, and only says whether a file is what it was.
"""

from __future__ import annotations

import os
import re
import stat
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

from filemem.changes import Entry, Manifest, blob_id
from filemem.errors import BadInput, NotFound
from filemem.record import MAX_FILE, Problem, adr_number
from filemem.record.identity import stem_of
from filemem.tuples import NamedTuple

MAX_SIZE = MAX_FILE  # of any file that is read: what no record can be is none
_TICK = (
    20_000_000  # nanoseconds; a file time this young may still hide a second write in the same tick
)
_NOWHERE = frozenset(("", ".", ".."))
_CONTROL = frozenset(
    ("Cc", "Cs", "Zl", "Zp")
)  # control characters, undecodable bytes, line and paragraph separators
OTHER_SUFFIXES = frozenset(("org", "textile"))  # decision records, not read
NO_RECORDS = frozenset(
    ("readme.md", "agents.md")
)  # they explain the folder to people and agents; in any letter case
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
_LONGEST_NAME, _LONGEST_PATH = (
    255,
    3_500,
)  # bytes, as file systems have it, less the folders above the work tree


class Scan(NamedTuple):
    """What a look found: records by path, the times of the folders that were listed, and what was skipped and why."""

    files: dict[str, Entry]
    folders: dict[str, int]
    problems: list[Problem]


def scan(
    root: Path,
    read: Callable[[str], bytes],
    before: Manifest,
    hash_name: str,
    folders: Collection[str] | None,
) -> Scan:
    """List the records of a store; `read` reads one of its files, `Files.scan` says what the other arguments mean."""
    start = time.time_ns()
    parents = {} if folders is None else {path: path.rpartition("/")[0] for path in before}
    known = set(parents.values())
    found = {
        path: before[path] for path, parent in parents.items() if parent not in (folders or ())
    }
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
            elif is_record(path):
                try:
                    seen, was = item.stat(follow_symlinks=False), before.get(path)
                    size, written = seen.st_size, newest(seen)
                    blob = (
                        was.blob
                        if was and was[1:] == (size, written)
                        else blob_id(read(path), hash_name)
                    )
                    found[path] = (
                        Entry(blob, size, written)
                        if written <= start - _TICK
                        else Entry(blob, size)
                    )
                except (FileNotFoundError, NotFound):
                    continue
                except (OSError, BadInput) as error:
                    result.problems.append(_skipped(path, str(getattr(error, "message", error))))
            elif item.is_symlink() and Path(item.path).is_dir():
                result.problems.append(_skipped(path, "a linked folder is not followed"))
    return result


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
        result.problems.append(_skipped(folder, f"cannot be listed: {error.strerror}"))
        return []
    if folder and any(item.name == ".git" for item in items):
        result.problems.append(_skipped(folder, "is a repository of its own"))
        return []
    written = newest(found)
    result.folders[folder] = written if written <= start - _TICK else -1
    return [item for item in items if not item.name.startswith(".")]


def newest(found: os.stat_result) -> int:
    """Return the time of a file: its change time cannot be set back, and shows an edit that restored the other."""
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _skipped(path: str, message: str) -> Problem:
    """Return the problem of a file that is not read."""
    return Problem(
        path.encode("utf-8", "backslashreplace").decode(),
        1,
        "unreadable",
        "error",
        f"{message}; skipped",
    )


def check_path(path: str) -> tuple[str, ...]:
    """Split a store-relative path, or say why it may not be used. Raises BadInput."""
    if reason := _bad_path(path):
        raise BadInput(
            f"{path[:200]!r} {reason}",
            "give a path inside the store, like decisions/2025/01/auth--20250101-use-jwt-k3f9w2ma.md",
            field="path",
        )
    return tuple(path.split("/"))


def fits(path: str) -> bool:
    """Whether a file may have this path at all, by the length of its names; the system fails to look where none may."""
    return len(os.fsencode(path)) < _LONGEST_PATH and all(
        len(os.fsencode(p)) <= _LONGEST_NAME for p in path.split("/")
    )


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
    return (
        f"{', '.join(counts)}; filemem reads Markdown, AsciiDoc and reStructuredText"
        if counts
        else ""
    )


def is_listed(path: str) -> bool:
    """Whether a scan reads the file of this path as a record; hidden folders hold none."""
    return is_record(path) and not path.startswith(".") and "/." not in path and not _bad_path(path)


def _bad_path(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or path[1:2] == ":" or not _NOWHERE.isdisjoint(parts):
        return "is not a path inside the store, with /"
    if not path.isprintable() and (found := {unicodedata.category(c) for c in path} & _CONTROL):
        return "is not UTF-8" if found == {"Cs"} else "holds control characters"
    if ".git" in path.casefold() and any(part.casefold().startswith(".git") for part in parts):
        return "reaches into a Git directory or Git's own files"
    return ""
