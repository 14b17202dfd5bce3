"""What a killed save leaves in the Git directory: locks and temporary files. Removed only when provably ours and dead.

A lock is ours if our journal says that the step which takes it had begun, the lock was made just then, the process that
wrote the entry is gone, and no Git command runs in this repository. Where that cannot be known the lock stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from filemem.repo.discovery import Places
from filemem.repo.journal import Entry
from filemem.repo.lock import alive
from filemem.repo.refs import REFLOG

AGE = 10.0  # seconds that a lock must have been left alone
_SPAN = 8.0  # seconds from the beginning of a step in which its lock is taken
_PID = re.compile(r"(\d+)-[0-9a-f]+$")


def clear_locks(places: Places, branch: str | None, entries: Sequence[Entry], now: float) -> list[str]:
    """Remove the locks of saves that died; returns their names. `now` in epoch seconds."""
    removed = []
    for entry in entries:
        if alive(entry.operation.pid, entry.operation.started):
            continue
        for lock, begun, contents in _locks(places, branch, entry):
            if _is_ours(lock, begun, contents, now) and not git_at_work(places):
                lock.unlink(missing_ok=True)
                removed.append(lock.name)
    return removed


def temporary(folders: Sequence[Path]) -> Iterator[Path]:
    """Temporary files of processes that are gone, in folders of ours."""
    for folder in folders:
        for name in _listing(folder):
            pid = _PID.search(name) if name.startswith(".") else None
            if pid and not alive(int(pid[1]), ""):
                yield folder / name


def _locks(places: Places, branch: str | None, entry: Entry) -> Iterator[tuple[Path, float, tuple[bytes, ...] | None]]:
    """The locks an operation may hold: file, when its step began, and what it may contain (None: anything)."""
    for begun in entry.noted.get("index", ()):
        yield places.git_dir / "index.lock", int(begun) / 1000, None
    contents = (b"", *(commit.encode() for commit in entry.noted.get("commit", ())))
    for begun in entry.noted.get("ref", ()):
        yield places.git_dir / "HEAD.lock", int(begun) / 1000, contents
        if branch:
            yield places.common_dir / "refs" / "heads" / f"{branch}.lock", int(begun) / 1000, contents


def _is_ours(lock: Path, begun: float, contents: tuple[bytes, ...] | None, now: float) -> bool:
    try:
        made = lock.lstat().st_mtime
        if now - made < AGE or not begun - 1 <= made <= begun + _SPAN:
            return False
        return contents is None or lock.read_bytes().strip() in contents
    except OSError:
        return False


def git_at_work(places: Places) -> bool:
    """Whether some Git command may be running here; yes where it cannot be known."""
    if not Path("/proc/self/cwd").exists():
        return True
    for pid in _listing(Path("/proc")):
        if not pid.isdigit():
            continue
        try:
            if Path(f"/proc/{pid}/comm").read_text().startswith("git") and not _is_helper(pid):
                at = Path(os.readlink(f"/proc/{pid}/cwd"))  # noqa: PTH115 - Path.readlink is the same
                if at.is_relative_to(places.work_tree) or at.is_relative_to(places.common_dir):
                    return True
        except OSError:
            continue
    return False


def _is_helper(pid: str) -> bool:
    """Whether a process is one of filemem's lasting readers and ref movers: idle whenever we hold the save lock."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"cat-file" in arguments or REFLOG.encode() in arguments


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
