"""Writing to the disk, and waiting for it: on a slow one seven waits in a row cost seven times one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(eq=False, repr=False, slots=True, kw_only=True)
class Aside:
    """A file on its way to disk: written aside, under `source` until it stands in its place, and open as `fd`."""

    source: Path | None = None
    fd: int = -1

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        if self.fd >= 0:
            os.fsync(self.fd)

    def discard(self) -> None:
        """Let go of the file; one that never came into its place is removed."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self.source is not None:
            self.source.unlink(missing_ok=True)
            self.source = None


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
