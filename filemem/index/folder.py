"""The folder of an index: what may be written there, and what is said where it cannot be read."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from filemem.errors import BrokenStore

_CHUNK_SIZE = 1 << 18  # bytes of a file that are read at a time
_README = """\
This folder is filemem's search index. Everything in it is derived from the records in the work
tree and may be deleted at any time; the next `filemem` command makes it again.
"""


class IndexDamaged(BrokenStore):
    """The index cannot be used and must be rebuilt; the records are not affected."""

    def __init__(self, damage: str) -> None:
        super().__init__(
            f"the search index is damaged: {damage}",
            "run `filemem index --rebuild`; the records are not affected",
        )


def build_system_error(number: int) -> BrokenStore:
    """Return the error for something that the system refused a library, by its number."""
    message = f"the search index cannot be written or read: {os.strerror(number)}"
    return BrokenStore(
        message, "check the free space, and who may write there; the records are not affected"
    )


@contextlib.contextmanager
def writable_folder(root: Path) -> Iterator[None]:
    """Make the index folder and its explanation. Raises BrokenStore for what the system refuses."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / "README.md").exists():
            (root / "README.md").write_text(_README, encoding="utf-8")
        yield
    except OSError as error:
        raise BrokenStore(
            f"the index folder {root} cannot be written: {error.strerror or error}",
            "make it writable or free some space, or let the index live in your cache folder",
        ) from error


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, in order; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_file_stamp(path: Path) -> list[int]:
    """Return what any write to a file changes: its inode, size and time; [] where it is gone."""
    try:
        state = path.stat()
    except OSError:
        return []
    return [state.st_ino, state.st_size, state.st_mtime_ns]


def compute_checksum(path: Path) -> int:
    """Return the CRC-32 of a file; -1 where it cannot be read."""
    total = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_SIZE):
                total = zlib.crc32(chunk, total)
    except OSError:
        return -1
    return total
