"""A file of what was found out, so that it need not be found out again. Losing it, or a disk that takes none, costs
time and never an answer.

Rule: what is written together is one block with its checksum, and one that is damaged makes all of the file count for
nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from pathlib import Path
from typing import NamedTuple

_HEADER = rb"~ (\d{1,18}) ([0-9a-f]{8})\n"  # size in bytes and CRC-32 of what follows
_BLOCKS = 256  # beyond so many the file is written anew, as one


class Memo(NamedTuple):
    """What is remembered in one file, whatever process wrote it."""

    file: Path

    def read(self) -> bytes:
        """What it holds; b"" where it is not there, or is not as it was written."""
        try:
            found = _blocks(self.file.read_bytes())
        except OSError:
            return b""
        data = b"".join(found)
        if len(found) > _BLOCKS:
            self.write(data)
        return data

    def write(self, data: bytes) -> None:
        """Replace it, all at once."""
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            aside = self.file.with_name(f"{self.file.name}.{os.getpid()}")
            aside.write_bytes(_block(data))
            aside.replace(self.file)

    def append(self, data: bytes) -> int:
        """Add to what it holds; return by how many bytes the file has grown."""
        with contextlib.suppress(OSError), self.file.open("ab", buffering=0) as file:
            return file.write(_block(data)) or 0
        return 0

    def state(self) -> tuple[int, int, int]:
        """What tells whether anybody wrote to it: which file it is, its size, and its time in nanoseconds."""
        try:
            found = self.file.stat()
        except OSError:
            return 0, 0, 0
        return found.st_ino, found.st_size, found.st_mtime_ns


def _block(data: bytes) -> bytes:
    return b"~ %d %08x\n%b" % (len(data), zlib.crc32(data), data)


def _blocks(data: bytes) -> list[bytes]:
    """The blocks of a file; none where one of them is damaged."""
    found, at = [], 0
    while at < len(data):
        header = re.compile(_HEADER).match(data, at)
        if header is None:
            return []
        at = header.end() + int(header[1])
        block = data[header.end() : at]
        if (len(block), b"%08x" % zlib.crc32(block)) != (int(header[1]), header[2]):
            return []
        found.append(block)
    return found
