"""Which files of a generation were compared with their checksums lately, so that not every command does it again.

Rule: a file counts as compared while its inode, size and times are the same, for a day at most; so a write of any kind
is seen at once, and silent decay of the disk a day later. Losing this costs a comparison, never an answer.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from filemem.index.folder import replace_file

_NAME = "compared.json"
_TRUST = 86_400 * 10**9  # nanoseconds
_TICK = 20_000_000  # nanoseconds; a file written twice within it may show one time

Marks = Mapping[str, list[int]]  # name -> when it was compared, and what stat said of it then


def recall(folder: Path) -> Marks:
    """Return the files of a generation that need no comparison, by their names relative to its folder."""
    try:
        marks: dict[str, list[int]] = json.loads((folder / _NAME).read_bytes())
        now = time.time_ns()
        return {
            name: mark
            for name, mark in marks.items()
            if 0 <= now - mark[0] < _TRUST and mark[1:] == _told(folder / name)
        }
    except (OSError, ValueError, TypeError, AttributeError, LookupError):  # gone, or whatever a damaged file may hold
        return {}


def remember(folder: Path, before: Marks, names: Iterable[str]) -> None:
    """Note that files were compared just now, where the folder can be written.

    Args:
        folder: of the generation.
        before: what `recall` gave.
        names: the files, relative to the folder.
    """
    now = time.time_ns()
    with contextlib.suppress(OSError):
        told = {name: _told(folder / name) for name in names}
        marks = {name: [now, *said] for name, said in told.items() if now - said[-1] > _TICK}
        if marks:
            replace_file(folder / _NAME, json.dumps({**before, **marks}).encode())


def _told(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
