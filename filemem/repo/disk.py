"""Writing to the disk, and waiting for it: on a slow one seven waits in a row cost seven times one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path


def write_all(fd: int, data: bytes) -> None:
    """Write all of some bytes to an open file; the system may take them in parts."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(folder: Path) -> None:
    """Wait until the listing of a folder is on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def together(calls: Sequence[Callable[[], None]]) -> None:
    """Run the calls at the same time and return when all have ended; raises the first error of any."""
    errors: list[OSError] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls[1:]]
    for thread in threads:
        thread.start()
    for call in calls[:1]:
        guarded(call)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
