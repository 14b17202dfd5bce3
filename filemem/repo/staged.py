"""What Git's index knows of the files in the work tree, read without Git.

Rule: whatever is not plain gives nothing, and the files are read instead.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ENTRY_STRUCT = struct.Struct(
    ">10L20sH"
)  # of one entry of the index, as Git's `index-format` has it
_REGULAR_TYPE = stat.S_IFREG >> 12
_EXTENDED_FLAG = 0x4000  # of an entry's flags: more of them follow
_MARKED_FLAGS = 0xB000  # in conflict, or not looked at
_TICK = 20_000_000  # nanoseconds; a time this near to the index's may hide a later write
_CHECKSUM_SIZE = 20  # bytes at the end


class StagedFile(NamedTuple):
    """A file as Git's index knows it: what `stat` said when Git saw it last, and its blob."""

    ctime: int  # nanoseconds
    mtime: int
    inode: int
    owner: tuple[int, int]
    size: int
    blob: str

    def is_unchanged(self, state: os.stat_result) -> bool:
        """Whether a file was not touched since."""
        return self[:-1] == (
            state.st_ctime_ns,
            state.st_mtime_ns,
            state.st_ino & 0xFFFFFFFF,
            (state.st_uid, state.st_gid),
            state.st_size,
        )


def read_index(git_dir: Path) -> dict[str, StagedFile]:
    """Return the regular files of Git's index that its times can vouch for, by path.

    A file that was written when the index was, or later, may have been written once more since: it
    is left out, as Git reads it too. So is what is in conflict or marked. Other forms of the index
    than versions 2 and 3 of SHA-1 repositories, and split ones, give nothing.
    """
    index = git_dir / "index"
    try:
        index_time = index.stat().st_mtime_ns
        data = index.read_bytes()
        entries = dict(_iter_entries(data, index_time - _TICK))
    except (OSError, struct.error, ValueError):
        return {}
    return entries


def _iter_entries(data: bytes, deadline: int) -> Iterator[tuple[str, StagedFile]]:
    signature, version, count = struct.unpack_from(">4sLL", data)
    if signature != b"DIRC" or version not in (2, 3):
        return
    offset = 12
    entries = list[tuple[str, StagedFile]]()
    for _ in range(count):
        *times, _, inode, mode, uid, gid, size, oid, flags = _ENTRY_STRUCT.unpack_from(data, offset)
        name_start = offset + _ENTRY_STRUCT.size + (2 if flags & _EXTENDED_FLAG else 0)
        end = data.index(b"\0", name_start)
        is_marked = flags & _MARKED_FLAGS or any(data[offset + _ENTRY_STRUCT.size : name_start])
        ctime = times[0] * 10**9 + times[1]
        mtime = times[2] * 10**9 + times[3]
        if mode >> 12 == _REGULAR_TYPE and not is_marked and max(ctime, mtime) < deadline:
            entry = StagedFile(ctime, mtime, inode, (uid, gid), size, oid.hex())
            entries.append((os.fsdecode(data[name_start:end]), entry))
        offset += end - offset + 8 - (end - offset) % 8  # padded with one to eight NULs
    if b"link" not in _iter_extensions(data, offset):
        yield from entries


def _iter_extensions(data: bytes, offset: int) -> Iterator[bytes]:
    """Yield the names of what follows the entries, up to the checksum."""
    while offset + _CHECKSUM_SIZE < len(data):
        name, size = struct.unpack_from(">4sL", data, offset)
        yield name
        offset += 8 + size
