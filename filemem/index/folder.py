"""The index folder, and how a file in it is replaced. Rule: a reader sees the old file or the new one, never a part."""

import errno
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filemem.errors import BrokenStore

_README = """\
This folder is filemem's search index. Everything in it is derived from the records in the work tree and may be
deleted at any time; the next `filemem` command makes it again.

CURRENT       the generation in use
g0000000001/  a generation: words/ (Tantivy), vectors/, entries (what it was made from), seal.json (checksums)
fresh/        records that were saved but are not yet part of a generation
kept/         what was in use at commits that HEAD has left, for when it comes back to them
past/         the same for states of the store that were asked about (--at); the last few
lock          held by the process that writes
"""


def prepare(root: Path) -> None:
    """Make the index folder and its explanation."""
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "README.md").exists():
        (root / "README.md").write_text(_README, encoding="utf-8")


def unwritable(root: Path, error: OSError) -> BrokenStore:
    """Return the error for an index folder that refuses us."""
    return BrokenStore(
        f"the index folder {root} can not be written: {error.strerror or error}",
        "make it writable, free some space, or let the index live in your cache folder",
    )


def refused(number: int) -> BrokenStore:
    """Return the error for something that the system refused while the index was written or read, by its number."""
    full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return BrokenStore(
        f"the search index can not be written or read: {os.strerror(number)}",
        f"{'free some disk space' if full else 'see what the system says'}; the records are not affected",
    )


def checked(value: object) -> bytes:
    """Write a value with its checksum."""
    body = json.dumps(value).encode()
    return b"%08x\n" % zlib.crc32(body) + body


def unchecked(data: bytes) -> Any:
    """Read what `checked` wrote; None where it is torn."""
    crc, _, body = data.partition(b"\n")
    return json.loads(body) if crc == b"%08x" % zlib.crc32(body) else None


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file at once; a power cut may leave a torn one, so it holds a checksum and what it says can be lost."""
    _replace(path, data, lambda _: None)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file so that a crash at any moment leaves the old or the new one."""
    _replace(path, data, os.fsync)
    sync_folder(path.parent)


def _replace(path: Path, data: bytes, settle: Callable[[int], None]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            settle(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
