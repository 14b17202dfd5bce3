"""What records that nobody reads say, and the memory does not.

Rule: the memory has what it has had in any commit of its branch, byte for byte but for line endings, or has in a file;
what was forgotten there is not asked for. All else would be lost with the file that says it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filemem.memory import tombstones
from filemem.record import parse
from filemem.repo import Repo


class Unkept(NamedTuple):
    """What would be lost.

    Args:
        lacking: the paths of records of which the memory has nothing.
        differing: those of records that it has and that say here what it never had; with the path of each there.
    """

    lacking: frozenset[str]
    differing: dict[str, str]


def find(memory: Repo, store: str, place: Path, paths: Iterable[str]) -> Unkept:
    """Find what the memory does not have of some records.

    Args:
        memory: the repository of the memory, in its work tree.
        store: the folder of the memory in that.
        place: the folder of the records.
        paths: of the records, below it.
    """
    top = memory.work_tree / store
    texts = {path: _bytes(place / path) for path in paths}
    news = {path: text for path, text in texts.items() if text is None or text != _bytes(top / path)}
    had = memory.history.objects(store) if news and memory.head() else frozenset[str]()
    news = {path: text for path, text in news.items() if text is None or not _ids(memory, text) & had}
    marks = tombstones.marks(top)
    ids = {path: _id(path, text) for path, text in news.items()}
    left = {path: one for path, one in ids.items() if not tombstones.forgotten(one, marks)}
    differing = {path: path for path in left if os.path.lexists(top / path)}
    if moved := {one: path for path, one in left.items() if one and path not in differing}:
        files = (file for file in top.rglob("*.md") if ".git" not in file.parts)
        there = {_id(file.name, _bytes(file)): file.relative_to(top).as_posix() for file in files}
        differing |= {path: there[one] for one, path in moved.items() if one in there}
    return Unkept(frozenset(left.keys() - differing.keys()), differing)


def _ids(memory: Repo, text: bytes) -> set[str]:
    return {memory.blob_id(text), memory.blob_id(text.replace(b"\r\n", b"\n"))}


def _id(path: str, text: bytes | None) -> str:
    found = None if text is None else parse(text, path).record
    return found.id if found is not None and found.id_stated else ""


def _bytes(file: Path) -> bytes | None:
    with suppress(OSError):
        return file.read_bytes()
    return None
