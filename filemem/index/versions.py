"""One index per version of its format: an old server that still runs and a new command do not undo each other's.

Rule: each version makes, reads and changes the folder of its own name alone; it removes one of another version only
when nobody has written to that for long.
"""

import contextlib
import shutil
import time
import zlib
from pathlib import Path

from filemem.documents import TERM_FIELDS, Birth, Doc, Node
from filemem.index.keyword import READING

_LAYOUT = 4  # of the files, and what they say of chains; the rest of the format follows from how texts are read
_SHAPES = (Doc._fields, Node._fields, Birth._fields, TERM_FIELDS)
FORMAT = f"{_LAYOUT}.{zlib.crc32(repr((READING, _SHAPES)).encode()):08x}"
_DEAD = 7 * 86_400.0  # seconds


def place(home: Path) -> Path:
    """Return the index folder of this version, whether it is there or not.

    Args:
        home: the folder of the indexes of a store.
    """
    return home / FORMAT


def clear(root: Path) -> None:
    """Remove what stands beside an index folder and was not written to for a week.

    Args:
        root: as `place` returns it; where it is another, nothing is removed.
    """
    if root.name != FORMAT:
        return
    with contextlib.suppress(OSError):
        for other in root.parent.iterdir():
            if FORMAT not in other.name and max(_times(other)) < time.time() - _DEAD:
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def _times(entry: Path) -> list[float]:
    """When an entry was written to, and what is in it: whoever is the writer touches the lock."""
    return [entry.stat().st_mtime, *(each.stat().st_mtime for each in entry.glob("*"))]
