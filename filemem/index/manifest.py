"""The entries log: what the index was built from. Rule: only ever appended to, and read up to the sealed length.

One line per fact, `blob size mtime path`; a later line for a path wins, blob `-` says that it is gone. Generations
share the file through hard links: each seal says how much of it is its own.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from filemem.changes import Entry
from filemem.index.generation import ENTRIES, Generation, IndexDamaged

_GONE = "-"
_SLACK = 1000  # lines that may be outdated before the log is written anew, beside half of it


def read(generation: Generation | None) -> dict[str, Entry]:
    """Return path -> entry of a generation.

    Raises:
        IndexDamaged: the log differs from what was sealed.
    """
    if generation is None:
        return {}
    size, crc = generation.seal.files.get(ENTRIES, (0, 0))
    data = _sealed_part(generation.folder / ENTRIES, size)
    if zlib.crc32(data) != crc or len(data) != size:
        raise IndexDamaged(f"{generation.folder.name}/{ENTRIES} does not match its checksum")
    found: dict[str, Entry] = {}
    for line in data.decode("utf-8", "surrogatepass").split("\n")[:-1]:
        blob, length, mtime, path = line.split(" ", 3)
        if blob == _GONE:
            found.pop(_decoded(path), None)
        else:
            found[_decoded(path)] = Entry(blob, int(length), int(mtime))
    return found


def write(
    staged: Path,
    base: Generation | None,
    before: Mapping[str, Entry],
    after: Mapping[str, Entry],
    touched: Iterable[str],
) -> tuple[tuple[int, int], int]:
    """Bring the log in a staged folder up to date; return its (size, checksum) and its length in lines.

    Args:
        before: what the log says now.
        after: what it shall say.
        touched: the paths on which they may differ.
    """
    path = staged / ENTRIES
    changed = [_line(name, after.get(name)) for name in touched if before.get(name) != after.get(name)]
    lines = (base.seal.lines if base else 0) + len(changed)
    size, crc = base.seal.files.get(ENTRIES, (0, 0)) if base else (0, 0)
    if not path.exists() or lines > 2 * len(after) + _SLACK:
        path.unlink(missing_ok=True)  # the link, not the file that older generations read
        changed = [_line(name, entry) for name, entry in after.items()]
        lines, size, crc = len(changed), 0, 0
    data = "".join(changed).encode("utf-8", "surrogatepass")
    with path.open("ab") as file:
        file.truncate(size)  # what a killed writer appended but never sealed
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return (size + len(data), zlib.crc32(data, crc)), lines


def _sealed_part(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _line(path: str, entry: Entry | None) -> str:
    name = path.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{_GONE} 0 0 {name}\n" if entry is None else f"{entry.blob} {entry.size} {entry.mtime} {name}\n"


def _decoded(name: str) -> str:
    if "\\" not in name:
        return name
    return name.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
