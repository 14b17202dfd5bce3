"""What the caller remembers beside the index. Rule: losing it costs one full look at the store, never an answer."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.index.generation import prepare, unwritable, write_durably

_NAME = "notes.json"


class Notes(NamedTuple):
    """Where HEAD was, and the times of folders (nanoseconds), when the index was last found right."""

    head: str = ""
    folders: Mapping[str, int] = {}


def read(root: Path) -> Notes:
    """Return the notes of an index folder; empty ones where there are none that can be read."""
    try:
        crc, _, body = (root / _NAME).read_bytes().partition(b"\n")
    except OSError:
        return Notes()
    if crc != b"%08x" % zlib.crc32(body):
        return Notes()
    return Notes(**json.loads(body))


def write(root: Path, notes: Notes) -> None:
    """Replace the notes.

    Raises:
        BrokenStore: the index folder can not be written.
    """
    body = json.dumps(notes._asdict()).encode()
    try:
        prepare(root)
        write_durably(root / _NAME, b"%08x\n" % zlib.crc32(body) + body)
    except OSError as error:
        raise unwritable(root, error) from error
