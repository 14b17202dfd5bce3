"""One save at a time per repository. Politeness, not correctness: that comes from moving HEAD by comparison."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import BrokenStore, Locked

if TYPE_CHECKING:
    from filelock import FileLock

_POLL = 0.005  # seconds
_OWNER = 120  # bytes of the note that says who holds the lock


class SaveLock:
    """The lock of one repository, in our folder of the Git directory that all work trees share."""

    def __init__(self, folder: Path) -> None:
        self._file, self._owner = folder / "lock", folder / "lock.owner"
        self._lock: FileLock | None = None
        self.myself = started(os.getpid())

    @contextlib.contextmanager
    def held(self, timeout: float) -> Iterator[None]:
        """Hold the lock.

        Args:
            timeout: seconds to wait for another process.

        Raises:
            Locked: another process kept it for that long; names it.
            BrokenStore: the Git directory cannot be written.
        """
        from filelock import FileLock, Timeout  # its import costs as much as a save; readers never lock

        try:
            if self._lock is None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._lock = FileLock(str(self._file), thread_local=False)
            self._lock.acquire(timeout=timeout, poll_interval=_POLL)
        except Timeout:
            raise Locked(
                f"another save is in progress: {self._describe()}", "try again; if it never ends, stop that process"
            ) from None
        except OSError as error:
            raise BrokenStore(
                f"{self._file.parent} cannot be written: {error.strerror}", "check who may write to the Git directory"
            ) from None
        try:
            self._sign()
            yield
        finally:
            self._lock.release()

    def _sign(self) -> None:
        # A leftover name misleads nobody: it is shown only while the lock is held. Overwritten in place, since
        # a file that is truncated first is flushed to disk by some file systems.
        text = f"{os.getpid()} {int(time.time())} {Path(sys.argv[0] or 'python').name}"[:_OWNER]
        with contextlib.suppress(OSError):
            fd = os.open(self._owner, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(fd, text.encode().ljust(_OWNER), 0)
            finally:
                os.close(fd)

    def _describe(self) -> str:
        try:
            pid, since, name = self._owner.read_text().rstrip().split(" ", 2)
            return f"process {pid} ({name}) holds {self._file} for {max(0, int(time.time()) - int(since))} s"
        except (OSError, ValueError):
            return f"a process holds {self._file}"


def started(pid: int) -> str:
    """When a process was started, in a form only good for comparison; empty where it cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return f"{boot}:{fields[19]}"


def alive(pid: int, since: str) -> bool:
    """Whether the process that was started at `since` (from `started`; "" for unknown) may still run."""
    if since:
        return started(pid) == since
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
