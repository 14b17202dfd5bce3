"""Waiting for the disk: first the bytes of new files, then the folders that name them.

A file system that keeps changes in the order of its journal is waited for once: the folder that
changed last carries all that came before it, as Git's `core.fsyncMethod=batch` has it. Elsewhere
each file and each folder is waited for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from filemem.repo.run import c_library

# What Linux's sync_file_range does: begin to write out; that, and wait before and after it.
_BEGIN = 2
_WHOLLY = 7


def write_new(file: Path, data: bytes, mode: int) -> None:
    """Write a new file into a folder that is made if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, mode), "wb") as into:
        into.write(data)


def write_out(files: Iterable[Path]) -> None:
    """Wait until the bytes of new files are where a `flush` of a later change makes them last."""
    paths = tuple(files)
    for step in (_begin, _complete):  # all begin before the first is waited for
        for path in paths:
            _opened(path, step)


def flush(folders: Iterable[Path], last: Path | None = None) -> None:
    """Wait until the listings of folders are on disk; one that is gone needs no waiting.

    `last` is one that changed after all others: it carries them where the order is kept.
    """
    rest = set(folders)
    if last is not None:
        device = last.stat().st_dev
        carried = _in_order(device)
        rest = {folder for folder in rest if not (carried and _device(folder) == device)}
        rest.add(last)
    for folder in rest:
        with suppress(FileNotFoundError):
            _opened(folder, os.fsync)


def _device(folder: Path) -> int:
    try:
        return folder.stat().st_dev
    except FileNotFoundError:
        return -1


def _opened(path: Path, step: Callable[[int], None]) -> None:
    at = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        step(at)
    finally:
        os.close(at)


def _begin(file: int) -> None:
    if _in_order(os.fstat(file).st_dev):
        _write_range(file, _BEGIN)


def _complete(file: int) -> None:
    if _in_order(os.fstat(file).st_dev):
        _write_range(file, _WHOLLY)
    else:
        os.fsync(file)


def _write_range(file: int, how: int) -> None:
    if c_library().sync_file_range(file, 0, 0, how):
        os.fsync(file)  # it tells what is wrong


@cache
def _in_order(device: int) -> bool:
    """Whether a device holds ext4 with a journal, or XFS: a flush carries all earlier changes.

    Not so Btrfs, whose flush carries one file alone, nor what no disk of this kernel holds.
    """
    try:
        number = f"{os.major(device)}:{os.minor(device)}"
        disk = Path("/sys/dev/block", number).resolve(strict=True).name
    except OSError:
        return False
    places = (Path("/sys/fs/ext4", disk, "journal_task"), Path("/sys/fs/xfs", disk))
    return any(place.exists() for place in places)
