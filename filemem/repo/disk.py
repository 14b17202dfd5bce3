"""Our files in the Git directory: who may use them, and when they are on disk.

In a repository that a group shares, `core.sharedRepository` says who may use what filemem makes,
and Git gives its own files their modes by the same rule. A save waits first for the bytes of new
files, then for the folders that name them.

A file system that keeps changes in the order of its journal is waited for once: flushing the folder
that changed last includes all earlier changes, as in Git's `core.fsyncMethod=batch`. On others each
file and each folder is flushed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from filemem.repo.run import load_c_library

# What Linux's sync_file_range does: begin to write out; that, and wait before and after it.
_BEGIN_FLAG = 2
_COMPLETE_FLAGS = 7
_SHARED_BITS = dict.fromkeys(("group", "true", "yes", "on", "1"), 0o660)
_SHARED_BITS |= dict.fromkeys(("all", "world", "everybody", "2"), 0o664)
PRIVATE_FOLDER = "pages"  # the folder of files that hold a token: they stay their owner's


def write_new_file(file: Path, data: bytes, mode: int) -> None:
    """Write a new file, and make its folder if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(file, flags, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def sync_files(files: Iterable[Path]) -> None:
    """Wait until the bytes of new files are on disk, or will be with the next flush of a folder."""
    paths = tuple(files)
    for path in paths:  # all begin before the first is waited for
        _run_on_descriptor(path, _begin_writeout)
    for path in paths:
        _run_on_descriptor(path, _complete_writeout)


def sync_folders(folders: Iterable[Path], last_changed: Path | None = None) -> None:
    """Wait until the listings of folders are on disk; missing folders are passed over.

    `last_changed` changed after all others: if the file system keeps the order, its flush includes
    theirs.
    """
    remaining = set(folders)
    if last_changed is not None:
        device = last_changed.stat().st_dev
        if _has_ordered_journal(device):
            remaining = {folder for folder in remaining if _read_device(folder) != device}
        remaining.add(last_changed)
    for folder in remaining:
        with suppress(FileNotFoundError):
            _run_on_descriptor(folder, os.fsync)


def _read_device(folder: Path) -> int:
    try:
        return folder.stat().st_dev
    except FileNotFoundError:
        return -1


def _run_on_descriptor(path: Path, step: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        step(descriptor)
    finally:
        os.close(descriptor)


def _begin_writeout(descriptor: int) -> None:
    if _has_ordered_journal(os.fstat(descriptor).st_dev):
        _write_range(descriptor, _BEGIN_FLAG)


def _complete_writeout(descriptor: int) -> None:
    if _has_ordered_journal(os.fstat(descriptor).st_dev):
        _write_range(descriptor, _COMPLETE_FLAGS)
    else:
        os.fsync(descriptor)


def _write_range(descriptor: int, flags: int) -> None:
    if load_c_library().sync_file_range(descriptor, 0, 0, flags):
        os.fsync(descriptor)  # it reports what is wrong


@cache
def _has_ordered_journal(device: int) -> bool:
    """Whether a device holds ext4 with a journal, or XFS: a flush includes all earlier changes.

    A flush of Btrfs includes one file only; a network file system has no device here.
    """
    try:
        number = f"{os.major(device)}:{os.minor(device)}"
        disk = Path("/sys/dev/block", number).resolve(strict=True).name
    except OSError:
        return False
    markers = (Path("/sys/fs/ext4", disk, "journal_task"), Path("/sys/fs/xfs", disk))
    return any(marker.exists() for marker in markers)


def compute_mode(mode: int, sharing: str) -> int:
    """Compute the mode of a file or folder for a value of `core.sharedRepository`."""
    stated_bits = 0
    if re.fullmatch("0?[0-7]{3}", sharing):
        stated_bits = int(sharing, 8) & 0o666
    bits = stated_bits or _SHARED_BITS.get(sharing.lower(), 0)
    if not bits:
        return mode
    if not mode & stat.S_IWUSR:
        bits &= 0o444
    if mode & stat.S_IXUSR:
        bits |= (bits & 0o444) >> 2
    if stat.S_ISDIR(mode):
        bits |= stat.S_ISGID
    if stated_bits:  # instead of the old ones
        mode &= ~0o777
    return mode | bits


def share_folder(folder: Path, sharing: str) -> None:
    """Give a folder and all in it the modes that `core.sharedRepository` asks for."""
    with suppress(OSError):  # it is gone meanwhile
        for path in (folder, *folder.rglob("*")):
            old_mode = path.lstat().st_mode
            mode = compute_mode(old_mode, sharing)
            if stat.S_ISLNK(old_mode) or PRIVATE_FOLDER in path.relative_to(folder).parts:
                continue
            if mode != old_mode:
                with suppress(OSError):  # another user's
                    path.chmod(stat.S_IMODE(mode))
