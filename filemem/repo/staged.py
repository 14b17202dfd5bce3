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

_STAT = struct.Struct(">10L20sH")  # of one entry of the index, as Git's `index-format` has it
_REGULAR = stat.S_IFREG >> 12
_EXTENDED = 0x4000  # of an entry's flags: more of them follow
_MARKED = 0xB000  # in conflict, or not looked at
_TICK = 20_000_000  # nanoseconds; a time this near to the index's may hide a later write
_CHECKSUM = 20  # bytes at the end


class Staged(NamedTuple):
    """A file as Git's index knows it: what `stat` said when Git saw it last, and its blob."""

    ctime: int  # nanoseconds
    mtime: int
    inode: int
    owner: tuple[int, int]
    size: int
    blob: str

    def is_of(self, state: os.stat_result) -> bool:
        """Whether a file was not touched since."""
        return self[:-1] == (
            state.st_ctime_ns,
            state.st_mtime_ns,
            state.st_ino & 0xFFFFFFFF,
            (state.st_uid, state.st_gid),
            state.st_size,
        )


def read_index(git_dir: Path) -> dict[str, Staged]:
    """Return the regular files of Git's index that its times can vouch for, by path.

    A file that was written when the index was, or later, may have been written once more since: it
    is left out, as Git reads it too. So is what is in conflict or marked. Other forms of the index
    than versions 2 and 3 of SHA-1 repositories, and split ones, give nothing.
    """
    index = git_dir / "index"
    try:
        written = index.stat().st_mtime_ns
        data = index.read_bytes()
        entries = dict(_entries(data, written - _TICK))
    except (OSError, struct.error, ValueError):
        return {}
    return entries


def _entries(data: bytes, before: int) -> Iterator[tuple[str, Staged]]:
    mark, version, count = struct.unpack_from(">4sLL", data)
    if mark != b"DIRC" or version not in (2, 3):
        return
    at = 12
    entries = list[tuple[str, Staged]]()
    for _ in range(count):
        *times, _, inode, mode, uid, gid, size, oid, flags = _STAT.unpack_from(data, at)
        name = at + _STAT.size + (2 if flags & _EXTENDED else 0)
        end = data.index(b"\0", name)
        marked = flags & _MARKED or any(data[at + _STAT.size : name])
        ctime = times[0] * 10**9 + times[1]
        mtime = times[2] * 10**9 + times[3]
        if mode >> 12 == _REGULAR and not marked and max(ctime, mtime) < before:
            entry = Staged(ctime, mtime, inode, (uid, gid), size, oid.hex())
            entries.append((os.fsdecode(data[name:end]), entry))
        at += end - at + 8 - (end - at) % 8  # padded with one to eight NULs
    if b"link" not in _extensions(data, at):
        yield from entries


def _extensions(data: bytes, at: int) -> Iterator[bytes]:
    """Yield the names of what follows the entries, up to the checksum."""
    while at + _CHECKSUM < len(data):
        name, size = struct.unpack_from(">4sL", data, at)
        yield name
        at += 8 + size
