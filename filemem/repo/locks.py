"""Git's own children that hold index.lock, HEAD.lock and the branch's lock for us, and the user's index.

Rule: a lock is ours only if none was there before and our child has it open. A child whose input ends without a
`commit` lets go and changes nothing; so it does when we are killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.repo.run import GitError, Helper, end

if TYPE_CHECKING:
    from filemem.repo import Repo
    from filemem.repo.journal import Entry

LOCKED, MOVED = "locked", "moved"  # why a lock was not taken: another command has it, or the branch is elsewhere
_REFLOG = "filemem: save"  # what `git reflog` shows for our commits
_MOVED = ("but expected", "reference already exists", "unable to resolve reference")
_LOCKED = ("File exists", "Another git process", "Unable to create", "unable to create", "unable to write new index")
_LOOK, _STARTS = 0.0005, 1.0  # seconds between two looks for the lock, and those that Git has to start
_READING = ("update-index", "--add", "--remove", "--ignore-skip-worktree-entries", "-z", "--stdin")
_STATED = ("update-index", "-z", "--index-info")


class Locks:
    """The locks of one save. `take` them, `enter` the files, `move` the branch; always `release` at the end."""

    def __init__(self, repo: Repo, *, reading: bool) -> None:
        self._lock = repo.git_dir / "index.lock"
        self._repo, self._reading, self._entered = repo, reading, False
        self._branch = Helper(repo.git, "update-ref", "-m", _REFLOG, "--stdin")
        self._index = Helper(repo.git, *(_READING if reading else _STATED), config=_index_settings(repo))

    def take_index(self) -> bool:
        """Wait until the index's lock is ours; False where another command was faster. Raises GitError."""
        child, stop = self._index.process, time.monotonic() + _STARTS
        while time.monotonic() < stop:
            if _holds(child.pid, self._lock):
                return True
            if child.poll() is not None:
                raise self._index.ended()
            time.sleep(_LOOK)
        return False

    def take_branch(self, ref: str, new: str, old: str) -> str:
        """Lock HEAD and its branch, which is to move from `old` ("" for none) to `new`. Raises GitError.

        Returns:
            LOCKED, MOVED, or "" where they are ours.
        """
        request = f"start\nupdate {ref} {new} {old or '0' * len(new)}\nprepare\n"
        try:
            self._branch.send(request.encode("utf-8", "surrogateescape"))
            self._expect(b"start: ok", b"prepare: ok")
        except GitError as error:
            if any(text in error.stderr for text in _MOVED):
                return MOVED
            if any(text in error.stderr for text in _LOCKED):
                return LOCKED
            raise
        return ""

    def enter(self, entries: Mapping[str, str]) -> None:
        """Give the index its entries, blob id by path, "" for none; it is written when the locks are released."""
        self._entered = bool(entries)
        if self._reading:
            self._index.send(b"".join(os.fsencode(path) + b"\0" for path in entries))
            return
        nothing = "0" * len(self._repo.blob_id(b""))
        for path, oid in entries.items():
            mode = item.mode.decode() if (item := self._repo.item(path)) else "100644"
            row = f"{mode if oid else '0'} {oid or nothing}\t{path}\0"
            self._index.send(row.encode("utf-8", "surrogateescape"))

    def move(self) -> None:
        """Move the branch. Raises GitError; it may have moved then."""
        self._branch.send(b"commit\n")
        self._expect(b"commit: ok")

    def release_branch(self) -> None:
        """Let go of HEAD and the branch: whether it has moved is certain afterwards."""
        with suppress(GitError):
            self._branch.close()

    def release(self, *, keep: bool) -> None:
        """Let go of all locks; the index is written if it is to keep its new entries, else it stays as it was."""
        self.release_branch()
        if self._entered and not keep:
            end(self._index.process)
        with suppress(GitError):  # whether it was written shows in the index
            self._index.close()

    def _expect(self, *answers: bytes) -> None:
        for expected in answers:
            if (answer := self._branch.line()) != expected:
                raise GitError("update-ref", -1, answer.decode("utf-8", "replace"))


def shown(repo: Repo, entries: Iterable[Entry]) -> bool:
    """Whether the user's index seems to have what saves have entered: ids are looked for in its bytes."""
    try:
        data = (repo.git_dir / "index").read_bytes()
    except OSError:
        return False
    latest = {edit.path: (blob, old) for entry in entries for edit, blob, old in entry.rows}
    return all((bytes.fromhex(blob or old) in data) == bool(blob) for blob, old in latest.values())


def describe(git_dir: Path) -> str:
    """Say who keeps a lock, and since when."""
    lock = git_dir / "index.lock"
    with suppress(OSError):
        return f"{lock} is held by another Git command ({max(0.0, time.time() - lock.stat().st_mtime):.0f} s old)"
    return "another Git command holds a lock"


def _index_settings(repo: Repo) -> tuple[str, ...]:
    """Of the index's own features, the monitor stays where the user's configuration says plainly so."""
    found = repo.settings
    plain = found.text("core.fsmonitor", user_only=True) == found.text("core.fsmonitor") == "true"
    return ("core.safecrlf=false", *(("core.fsmonitor=true",) if plain else ()), *(found.unfiltered or ()))


def _holds(pid: int, lock: Path) -> bool:
    """Whether a child has a lock file open; where the system does not show that, whether there is one."""
    try:
        there = lock.stat()
        names = os.listdir(f"/proc/{pid}/fd")
    except FileNotFoundError:
        return lock.exists() and not Path("/proc/self/fd").exists()
    except PermissionError:
        return True
    for name in names:
        with suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), there):  # noqa: PTH116 - one call a descriptor
                return True
    return False
