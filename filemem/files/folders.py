"""Opening folders and files below the work tree one step at a time, never through a link.

Each step is relative to the folder already open, so whatever is renamed or replaced meanwhile, the result lies inside
the work tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from filemem.errors import BadInput, BrokenStore, NotFound

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: a FIFO must not hold us up
_LINKS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO)


@contextlib.contextmanager
def open_folder(
    work_tree: Path, parts: tuple[str, ...], *, create: bool = False, changed: list[int] | None = None
) -> Iterator[int]:
    """Open the folder `parts` below the work tree.

    Args:
        work_tree: the one folder that is opened by its path.
        parts: names of the folders below it.
        create: make the folders that are missing.
        changed: receives an open descriptor of every folder that got a new one; the caller closes them.

    Raises:
        NotFound: it is not there, and `create` is off.
        BadInput: a link or a file stands on the way.
        BrokenStore: the disk refuses.
    """
    try:
        at = os.open(work_tree, _FOLDER)
    except OSError as error:
        raise broken(error, str(work_tree)) from None
    try:
        for part in parts:
            below = _step(at, part, create, changed)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def read_file(folder: int, name: str, path: str, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes from an open folder; `path` is for messages.

    Raises:
        NotFound: it is not there.
        BadInput: it is a link, something other than a regular file, or larger.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        why = "is a link or no regular file" if error.errno in _LINKS else f"cannot be read: {error.strerror}"
        raise BadInput(f"{path} {why}", "records are regular files", field="path") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path} is no regular file", "records are regular files", field="path")
        if found.st_size <= limit:
            data = b""
            while len(data) <= limit and (more := os.read(fd, found.st_size + 1)):  # it may grow while it is read
                data += more
            if len(data) <= limit:
                return data
        raise BadInput(f"{path} is larger than {limit} bytes", "split it up", field="path")
    finally:
        os.close(fd)


def broken(error: OSError, path: str) -> BrokenStore | BadInput:
    """The error to raise for a disk that refuses."""
    if error.errno == errno.ENAMETOOLONG:
        return BadInput(f"{path[:80]}... is too long a name", "shorten it", field="path")
    hints = {errno.ENOSPC: "free some disk space", errno.EROFS: "the file system is read-only"}
    hint = hints.get(error.errno or 0, "check who may write there")
    return BrokenStore(f"{path}: {error.strerror}", hint)


def _step(at: int, part: str, create: bool, changed: list[int] | None) -> int:
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    except FileNotFoundError:
        if not create:
            raise NotFound(f"there is no folder {part}") from None
    except OSError as error:
        if error.errno in _LINKS:
            raise BadInput(f"{part} is a link or a file, not a folder", "links are not followed", "path") from None
        raise broken(error, part) from None
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=at)
        if changed is not None:
            changed.append(os.dup(at))
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        raise broken(error, part) from None
