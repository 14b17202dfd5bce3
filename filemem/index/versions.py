"""One index per version of its format: an old server that still runs and a new command do not undo each other's.

Rule: each version makes, reads and changes the folder of its own name alone. Whoever makes a generation removes what
is of another version, once nobody has written to that for long (`filemem.index.staging`).
"""

import zlib
from pathlib import Path

from filemem.documents import TERM_FIELDS, Birth, Doc, Node
from filemem.index.keyword import READING

_LAYOUT = 8  # of the files, and what they say of chains; the rest of the format follows from how texts are read
_SHAPES = (Doc._fields, Node._fields, Birth._fields, TERM_FIELDS)
FORMAT = f"{_LAYOUT}.{zlib.crc32(repr((READING, _SHAPES)).encode()):08x}"


def place(home: Path) -> Path:
    """Return the index folder of this version, whether it is there or not.

    Args:
        home: the folder of the indexes of a store.
    """
    return home / FORMAT
