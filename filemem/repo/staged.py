"""What Git's index knows of the files in the work tree, read without Git.

From an index of any unusual form nothing is read; callers read the files instead.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# One entry of the index up to its flags, as Git's `index-format` describes it.
_ENTRY_STRUCT = struct.Struct(">10L20sH")
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
        return (
            self.ctime == state.st_ctime_ns
            and self.mtime == state.st_mtime_ns
            and self.inode == state.st_ino & 0xFFFFFFFF
            and self.owner == (state.st_uid, state.st_gid)
            and self.size == state.st_size
        )


def read_index(git_dir: Path) -> dict[str, StagedFile]:
    """Read the regular files of Git's index whose times prove that they are unchanged, by path.

    A file that was written when the index was, or later, may have been written again since: it is
    left out. So are files in conflict and marked ones. Only versions 2 and 3 of SHA-1 repositories
    are read, and no split index.
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
    """Yield the regular files that were last written before a time, in nanoseconds."""
    signature, version, count = struct.unpack_from(">4sLL", data)
    if signature != b"DIRC" or version not in (2, 3):
        return
    offset = 12
    entries: list[tuple[str, StagedFile]] = []
    for _ in range(count):
        fields = _ENTRY_STRUCT.unpack_from(data, offset)
        mode = fields[6]
        flags = fields[-1]
        flags_end = offset + _ENTRY_STRUCT.size
        name_start = flags_end
        if flags & _EXTENDED_FLAG:
            name_start += 2
        name_end = data.index(b"\0", name_start)
        is_marked = flags & _MARKED_FLAGS or any(data[flags_end:name_start])
        if mode >> 12 == _REGULAR_TYPE and not is_marked:
            file = _build_file(fields)
            if max(file.ctime, file.mtime) < deadline:
                entries.append((os.fsdecode(data[name_start:name_end]), file))
        size = name_end - offset
        offset += size + 8 - size % 8  # padded with one to eight NULs
    if b"link" not in _iter_extensions(data, offset):  # not split
        yield from entries


def _build_file(fields: tuple[Any, ...]) -> StagedFile:
    """Build a file from the fields of its entry."""
    ctime, ctime_ns, mtime, mtime_ns, _, inode, _, uid, gid, size, oid, _ = fields
    return StagedFile(
        ctime * 10**9 + ctime_ns, mtime * 10**9 + mtime_ns, inode, (uid, gid), size, oid.hex()
    )


def _iter_extensions(data: bytes, offset: int) -> Iterator[bytes]:
    """Yield the names of what follows the entries, up to the checksum."""
    while offset + _CHECKSUM_SIZE < len(data):
        name, size = struct.unpack_from(">4sL", data, offset)
        yield name
        offset += 8 + size
