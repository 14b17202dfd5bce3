"""What a killed save leaves in the Git directory: locks and temporary files. Removed only when provably ours and dead.

A lock is ours if our journal says that the step which takes it had begun, the lock was made just then, the process that
wrote the entry is gone, and no Git command runs in this repository. Where that cannot be known the lock stays.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from filemem.repo.discovery import Places
from filemem.repo.journal import Entry
from filemem.repo.lock import alive
from filemem.repo.processes import git_at_work
from filemem.repo.refs import PATIENCE, PAUSE, held

AGE = 10.0  # seconds that a lock must have been left alone
_SPAN = 8.0  # seconds from the beginning of a step in which its lock is taken
_PID = re.compile(r"(\d+)-[0-9a-f]+$")


class Leftovers(NamedTuple):
    """What to look for in one work tree.

    Args:
        places: the repository.
        journal: the folder of our journal.
        branch: what HEAD names; None where it is detached.
    """

    places: Places
    journal: Path
    branch: str | None

    def temporary(self) -> Iterator[Path]:
        """Temporary files of processes that are gone, in folders of ours."""
        for folder in (self.places.spool, self.places.object_spool, self.journal):
            for name in _listing(folder):
                pid = _PID.search(name) if name.startswith(".") else None
                if pid and not alive(int(pid[1]), ""):
                    yield folder / name

    def clear_locks(self, entries: Iterable[Entry]) -> list[str]:
        """Remove the locks of saves with these entries that died; returns their names."""
        removed = []
        for entry in entries:
            if alive(entry.operation.pid, entry.operation.started):
                continue
            for lock, begun, contents in self._locks(entry):
                if is_ours(lock, begun, contents) and not git_at_work(self.places):
                    lock.unlink(missing_ok=True)
                    removed.append(lock.name)
        return removed

    def in_the_way(self) -> str:
        """Which lock is in the way of a commit, or ""; where Git is at work, waits a little for it to end."""
        stop = time.monotonic() + PATIENCE
        while lock := next(filter(Path.exists, self._lock_files()), None):
            if time.monotonic() > stop or not git_at_work(self.places):
                return held(lock)
            time.sleep(PAUSE)
        return ""

    def _lock_files(self) -> list[Path]:
        """The locks that a commit takes: of the index, of HEAD, of the branch."""
        git_dir, heads = self.places.git_dir, self.places.common_dir / "refs" / "heads"
        return [
            git_dir / "index.lock",
            git_dir / "HEAD.lock",
            *([heads / f"{self.branch}.lock"] if self.branch else []),
        ]

    def _locks(self, entry: Entry) -> Iterator[tuple[Path, float, tuple[bytes, ...] | None]]:
        """The locks an operation may hold: file, when its step began, and what it may contain (None: anything)."""
        index, *refs = self._lock_files()
        for begun in entry.noted.get("index", ()):
            yield index, int(begun) / 1000, None
        contents = (b"", *(commit.encode() for commit in entry.noted.get("commit", ())))
        for begun in entry.noted.get("ref", ()):
            yield from ((lock, int(begun) / 1000, contents) for lock in refs)


def is_ours(lock: Path, begun: float, contents: tuple[bytes, ...] | None) -> bool:
    """Whether a lock was made in a step of ours that began then (epoch seconds), and left alone since.

    Args:
        lock: the file.
        begun: when the step began.
        contents: what it may hold; None for anything.
    """
    try:
        made = lock.lstat().st_mtime
        if time.time() - made < AGE or not begun - 1 <= made <= begun + _SPAN:
            return False
        return contents is None or lock.read_bytes().strip() in contents
    except OSError:
        return False


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
