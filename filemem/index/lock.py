"""One writer per index folder. Rule: whoever can not have the lock at once does something else.

The folder may be deleted at any time; a lock on a file that is no longer there keeps nobody out, and is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filemem.index.folder import prepare, unwritable

if TYPE_CHECKING:
    from filelock import BaseFileLock

_NAME = "lock"


class WriterLock:
    """The right to write to an index folder; ends with the process at the latest."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock: BaseFileLock | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the file that is locked

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._lock is not None and self._lock.is_locked and self._file == self._there()

    def acquire(self) -> bool:
        """Take the lock if nobody has it; say whether it is ours now.

        Raises:
            BrokenStore: the index folder can not be written.
        """
        if self.held:
            return True
        self.release()
        from filelock import FileLock, Timeout  # noqa: PLC0415  # costs more than a search, which never locks

        try:
            prepare(self._root)
            (self._root / _NAME).touch()
            file = self._there()
            lock = FileLock(self._root / _NAME, timeout=0, thread_local=False)
            lock.acquire()
        except Timeout:
            return False
        except OSError as error:
            raise unwritable(self._root, error) from error
        if file is None or file != self._there():  # deleted meanwhile: what we locked is not what others see
            lock.release()
            return False
        self._lock, self._file = lock, file
        return True

    def release(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            self._lock.release()
            self._lock, self._file = None, None

    def _there(self) -> tuple[int, int] | None:
        try:
            found = (self._root / _NAME).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
