"""Git's locks of index, HEAD and branch, for the moment in which a save changes them.

They are held by Git's own child processes, so that none is left behind when we are killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.repo.run import GitError, GitProcess, end_process, read_git_file
from filemem.repo.state import OBJECT_ID, SAVE_REFLOG, has_noted_merge, read_tip

if TYPE_CHECKING:
    from filemem.repo import Repo

# Why a lock was not taken:
LOCKED = "locked"  # another command has it
MOVED = "moved"  # the branch has another tip than expected
_LOCK_HELD = ".lock': File exists"  # what Git says of a lock that another command has
_LOCK_POLL = 0.0005  # seconds between two looks for the lock
_START_TIMEOUT = 1.0  # seconds that Git has to start and take the lock
_READ_COMMAND = (
    "update-index",
    "--add",
    "--remove",
    "--ignore-skip-worktree-entries",
    "-z",
    "--stdin",
)
_ENTRY_COMMAND = ("update-index", "-z", "--index-info")


class GitLocks:
    """Git's own child processes, which hold index.lock, HEAD.lock and the branch's lock for us.

    With `reads_files`, Git reads the files itself to enter them into the index. Always `release` at
    the end. A child whose input ends without a `commit` releases its lock and changes nothing.
    """

    def __init__(self, repo: Repo, *, reads_files: bool) -> None:
        self._repo = repo
        self._reads_files = reads_files
        self._has_entries = False
        self._moving_ref = ""  # the branch that is to move and has not surely moved yet
        self._new_tip = ""
        self._config = ["core.safecrlf=false"]
        settings = repo.settings
        # The file system monitor stays on only if the user's own configuration says so.
        key = "core.fsmonitor"
        if settings.get_text(key) == "true" and settings.get_text(key, user_only=True) == "true":
            self._config.append(f"{key}=true")
        self._config += settings.no_filter_settings or ()
        self._merges: GitProcess | None = None
        self._branch: GitProcess | None = None
        self._index: GitProcess | None = None

    def start(self) -> None:
        """Start the children that wait for requests; they hold nothing yet. Raises BrokenStore."""
        if self._merges is None:
            self._merges = GitProcess(self._repo.git, "update-ref", "--stdin")
            self._branch = GitProcess(self._repo.git, "update-ref", "-m", SAVE_REFLOG, "--stdin")

    def take_merges(self) -> bool:
        """Make merges wait where they begin; False if one has begun. Raises GitError.

        A merge writes ORIG_HEAD after it has read HEAD and index, and before it locks the index.
        It waits there for the lock of ORIG_HEAD; at the index's it would fail half done.
        """
        self.start()
        assert self._merges is not None  # noqa: S101 - started
        git_dir = self._repo.git_dir
        orig_head = read_git_file(git_dir / "ORIG_HEAD")
        if orig_head and not OBJECT_ID.fullmatch(orig_head):  # `verify` compares ids only
            return not has_noted_merge(git_dir)
        expected = orig_head or self._build_null_id()
        try:
            self._merges.send(f"start\nverify ORIG_HEAD {expected}\nprepare\n".encode())
            _expect_answers(self._merges, b"start: ok", b"prepare: ok")
        except GitError as error:
            is_locked = _LOCK_HELD in error.stderr
            if is_locked or read_git_file(git_dir / "ORIG_HEAD") != orig_head:
                return False
            raise
        return not has_noted_merge(git_dir)

    def _build_null_id(self) -> str:
        """Build the id that stands for no object: zeros."""
        return "0" * len(self._repo.compute_blob_id(b""))

    def take_index(self) -> bool:
        """Wait for the index's lock; False if another command has it. Raises GitError."""
        arguments = _READ_COMMAND if self._reads_files else _ENTRY_COMMAND
        self._index = GitProcess(self._repo.git, *arguments, config=self._config)
        process = self._index.process
        lock = self._repo.git_dir / "index.lock"
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            if _has_lock_open(process.pid, lock):
                return True
            if process.poll() is not None:
                error = self._index.collect_error()
                if _LOCK_HELD not in error.stderr:
                    raise error
                return False
            time.sleep(_LOCK_POLL)
        return False

    def take_branch(self, ref: str, new_tip: str, old_tip: str) -> str:
        """Lock HEAD and its branch, to move it from `old_tip` ("" for none) to `new_tip`.

        Returns "", or why there is no lock: LOCKED or MOVED. Raises GitError.
        """
        assert self._branch is not None  # noqa: S101 - started
        self._moving_ref = ref
        self._new_tip = new_tip
        expected = old_tip or "0" * len(new_tip)
        request = f"start\nupdate {ref} {new_tip} {expected}\nprepare\n"
        try:
            self._branch.send(request.encode("utf-8", "surrogateescape"))
            _expect_answers(self._branch, b"start: ok", b"prepare: ok")
        except GitError as error:
            if read_tip(self._repo.git, ref) != old_tip:
                return MOVED
            if _LOCK_HELD in error.stderr:
                return LOCKED
            raise
        return ""

    def send_entries(self, entries: Mapping[str, str]) -> None:
        """Give the index its entries: blob id by path, "" to remove one.

        The index is written when the locks are released.
        """
        assert self._index is not None  # noqa: S101 - its lock is ours
        self._has_entries = bool(entries)
        if self._reads_files:
            names = b"".join(os.fsencode(path) + b"\0" for path in entries)
            self._index.send(names)
            return
        null_id = self._build_null_id()
        for path, oid in entries.items():
            item = self._repo.find_item(path)
            mode = item.mode.decode() if item else "100644"
            row = f"{mode} {oid}" if oid else f"0 {null_id}"
            self._index.send(f"{row}\t{path}\0".encode("utf-8", "surrogateescape"))

    def move_branch(self) -> None:
        """Move the branch. Raises GitError; it may have moved then."""
        assert self._branch is not None  # noqa: S101 - its lock is ours
        self._branch.send(b"commit\n")
        _expect_answers(self._branch, b"commit: ok")
        self._moving_ref = ""

    def release(self) -> bool:
        """Release all locks; returns whether the index keeps its entries.

        It does not if the branch was to move and has not.
        """
        is_certain = not self._moving_ref
        if is_certain and self._index is not None:  # index and branch may end at once
            self._index.close_input()
        _close_process(self._branch)  # before the index: now it is certain whether it has moved
        keeps_entries = is_certain or read_tip(self._repo.git, self._moving_ref) == self._new_tip
        if self._index is not None and self._has_entries and not keeps_entries:
            end_process(self._index.process)
        _close_process(self._index)  # whether it was written shows in the index
        _close_process(self._merges)  # last: a merge that has waited may go on
        self._merges = None
        self._branch = None
        self._index = None
        self._has_entries = False
        self._moving_ref = ""
        return keeps_entries


def _close_process(process: GitProcess | None) -> None:
    """Close a process, if it was started, whether it fails or not."""
    if process is not None:
        with suppress(GitError):
            process.close()


def _expect_answers(process: GitProcess, *answers: bytes) -> None:
    """Read answers of a child. Raises GitError if it gives others."""
    for expected in answers:
        answer = process.read_line()
        if answer != expected:
            raise GitError("update-ref", -1, answer.decode("utf-8", "replace"))


def _has_lock_open(pid: int, lock: Path) -> bool:
    """Whether a child has a lock file open; if the system does not show that, whether it exists."""
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - asked every half millisecond
        return lock.exists()
    with suppress(OSError):
        if not lock.exists():
            return False
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if file.samefile(lock):
                    return True
    return False
