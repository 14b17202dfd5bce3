"""HEAD and branches: where they are, why a commit must wait, and the locks of a save.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open editor it makes
the user's commit fail. Git's own child processes hold its locks: none is left if we are killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore, Locked
from filemem.repo.run import (
    OWN_MARK,
    Git,
    GitError,
    GitFolders,
    GitProcess,
    end_process,
    read_file_stamp,
    read_git_file,
)

if TYPE_CHECKING:
    from filemem.repo import Repo

BRANCHES = "refs/heads/"
_MERGE_LIMIT = 0.5  # seconds that a merge counts as running: one that did nothing looks alike
_BEGINS = 0.3  # seconds that a Git command has to read what it works on, also under load
_START_FIELD = 19  # the field of /proc/PID/stat, after the name, that holds the start time
_EDITOR_LIMIT = 60.0  # seconds that an editor counts as open where processes cannot be seen
_PROCESSES = Path("/proc")
_NO_FILE_REF = "refs/heads/.invalid"  # what HEAD names where refs are not kept in files
_MARKERS = {
    "rebase-merge": "a rebase is in progress",
    "rebase-apply": "a rebase or git am is in progress",
    "CHERRY_PICK_HEAD": "a cherry-pick is in progress",
    "REVERT_HEAD": "a revert is in progress",
    "sequencer": "a cherry-pick or revert is in progress",
    "MERGE_HEAD": "a merge is in progress",
    "BISECT_LOG": "a bisect is in progress",
}
_STARTED_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_COMMENT = tuple("#;@!$%^&|:")  # what `core.commentChar=auto` chooses from
OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SAVE_REFLOG = "filemem: save"  # what `git reflog` shows for our commits
# Seconds that a save waits for others: enough for thirty at once under load; clients wait 60.
SAVE_TIMEOUT = 50.0
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
_POLL = 0.004  # seconds between two tries for the lock of saves


class Branch(NamedTuple):
    """A branch and its last commit."""

    name: str  # without `refs/heads/` or the remote's name; "" for none
    tip: str  # "" before the first commit

    @property
    def ref(self) -> str:
        """The whole name; "" for none."""
        return f"{BRANCHES}{self.name}" if self.name else ""


class _CachedTip(NamedTuple):
    """The commit of a ref, and the state of Git's files in which it was read."""

    stamps: tuple[tuple[int, int, int], ...]
    tip: str


_TIP_CACHE: dict[Path, _CachedTip] = {}  # of refs without a file of their own, by path


def read_head_branch(git: Git) -> Branch:
    """Read the branch of HEAD; its name is "" if HEAD is detached. Raises BrokenStore."""
    ref = read_head_ref(git)
    return Branch(ref.removeprefix(BRANCHES), read_tip(git, ref or "HEAD"))


def read_head_ref(git: Git) -> str:
    """Read the full name of the branch of HEAD; "" if HEAD is detached. Raises BrokenStore."""
    file = git.folders.git_dir / "HEAD"
    try:
        text = file.read_text(errors="surrogateescape")
    except OSError as error:
        raise BrokenStore(f"HEAD cannot be read: {error.strerror}", "run `git fsck`") from None
    ref = text.strip().removeprefix("ref: ")
    if ref == _NO_FILE_REF:
        try:
            ref = git.run("symbolic-ref", "-q", "HEAD").decode().strip()
        except GitError:
            return ""
    return ref if ref.startswith(BRANCHES) else ""


def read_tip(git: Git, ref: str) -> str:
    """Read the commit of a ref, given by its full name or as "HEAD"; "" for none."""
    common_dir = git.folders.common_dir
    folder = git.folders.git_dir if ref == "HEAD" else common_dir
    file = folder / ref
    text = read_git_file(file)
    if OBJECT_ID.fullmatch(text):
        return text
    stamps = (
        read_file_stamp(file),
        read_file_stamp(common_dir / "packed-refs"),
        read_file_stamp(common_dir / "reftable/tables.list"),
    )
    # A ref with other text names a further ref, whose files are not among these: ask Git each time.
    cached = _TIP_CACHE.get(file)
    if not text and cached is not None and cached.stamps == stamps:
        return cached.tip
    tip = _resolve_ref(git, ref)
    _TIP_CACHE[file] = _CachedTip(stamps, tip)
    return tip


def _resolve_ref(git: Git, ref: str) -> str:
    """Ask Git for the commit of a ref; "" for none."""
    arguments = ("rev-parse", "-q", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    try:
        return git.run(*arguments).decode().strip()
    except GitError as error:
        if error.code == 1:
            return ""
        raise


def find_busy_reason(folders: GitFolders) -> str:
    """What the user is in the middle of, or ""."""
    for name, operation in _MARKERS.items():
        if (folders.git_dir / name).exists():
            return operation
    if not _is_message_open(folders):
        return ""
    return f"a commit message is being edited: {folders.git_dir / 'COMMIT_EDITMSG'}"


def _is_message_open(folders: GitFolders) -> bool:
    """Whether a commit message is open in an editor. Git holds no lock then, but its process waits.

    The file alone does not show it: Git leaves it behind when a commit is abandoned or refused.
    """
    git_dir = folders.git_dir
    message = git_dir / "COMMIT_EDITMSG"
    written_at = read_file_stamp(message)[2]
    if written_at <= _find_last_change(folders):
        return False
    lines = read_git_file(message).splitlines()
    if not any(line.startswith(_COMMENT) for line in lines):
        return False
    if not (_PROCESSES / "self").exists():
        return 0 <= time.time() - written_at / 1e9 < _EDITOR_LIMIT
    message_path = os.fsencode(message.resolve())
    for process in _PROCESSES.iterdir():
        if _is_commit_process(process, folders.work_tree, message_path):
            return True
    return False


def _find_last_change(folders: GitFolders) -> int:
    """When HEAD or its branch was last written, in nanoseconds."""
    git_dir = folders.git_dir
    common_dir = folders.common_dir
    head = git_dir / "HEAD"
    branch = read_git_file(head).removeprefix("ref: ") or "HEAD"
    files = (
        git_dir / "logs" / "HEAD",
        head,
        git_dir / "reftable",
        common_dir / "reftable",
        common_dir / branch,
    )
    return max(read_file_stamp(file)[2] for file in files)


def _is_commit_process(process: Path, work_tree: Path, message: bytes) -> bool:
    """Whether a process is an editor that Git started with a message, or a `git commit` here.

    Git starts the editor with the whole path; an alias hides the word `commit`.
    """
    if not process.name.isdigit():
        return False
    with suppress(OSError):  # it has ended, or belongs to another user
        words = (process / "cmdline").read_bytes().split(b"\0")
        if message in words:
            return True
        if os.path.basename(words[0]) == b"git" and b"commit" in words:
            return (process / "cwd").readlink() == work_tree
    return False


def has_noted_merge(git_dir: Path) -> bool:
    """Whether a merge seems to have read HEAD and index, to write both, and holds no lock yet."""
    started_at = read_file_stamp(git_dir / "ORIG_HEAD")[2]
    moved_at = read_file_stamp(git_dir / "logs" / "HEAD")[2]
    if started_at <= moved_at:
        return False
    age = time.time() - started_at / 1e9
    return 0 <= age < _MERGE_LIMIT


def is_command_starting(folders: GitFolders) -> bool:
    """Whether a command of the user's may have read HEAD and index, to write both later.

    A merge notes that in ORIG_HEAD; before it does, only its process shows it.
    """
    if has_noted_merge(folders.git_dir):
        return True
    work_tree = str(folders.work_tree)
    return any(_is_starting_command(process_id, work_tree) for process_id in _list_process_ids())


def _list_process_ids() -> list[str]:
    """List the ids of all processes; none if the system does not show them."""
    try:
        names = os.listdir(_PROCESSES)
    except OSError:
        return []
    return [name for name in names if name.isdigit()]


def _is_starting_command(process_id: str, work_tree: str) -> bool:
    """Whether a process is a Git command in a work tree that has just begun, and not filemem's."""
    process = f"{_PROCESSES}/{process_id}"
    with suppress(OSError):  # it has ended, or belongs to another user
        if os.readlink(f"{process}/cwd") != work_tree:  # noqa: PTH115 - most end here
            return False
        words = Path(process, "cmdline").read_bytes().split(b"\0")
        if os.path.basename(words[0]) != b"git" or OWN_MARK.encode() in words:
            return False
        _, _, status = Path(process, "stat").read_bytes().rpartition(b")")
        start_ticks = int(status.split()[_START_FIELD])
        started_at = start_ticks / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_at < _BEGINS
    return False


def find_intended_branch(git: Git) -> str:
    """Find the branch that HEAD will be on when the operation in progress is over.

    Returns its full name; "" if not known.
    """
    head_ref = read_head_ref(git)
    if head_ref:
        return head_ref
    for name in _STARTED_FROM:
        text = read_git_file(git.folders.git_dir / name)
        if text:
            ref = BRANCHES + text.removeprefix(BRANCHES)
            return ref if read_tip(git, ref) else ""
    return ""


class SaveLock:
    """One save at a time per repository.

    The first process in the queue holds `next` while it waits for `lock`, so none starves.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mutex = threading.RLock()
        self._file: IO[bytes] | None = None

    @contextmanager
    def hold(self, timeout: float = SAVE_TIMEOUT) -> Iterator[None]:
        """Hold the lock; a thread may take it again while it has it. Raises Locked, BrokenStore."""
        deadline = time.monotonic() + timeout
        if not self._mutex.acquire(timeout=timeout):
            raise Locked("another save is in progress", "try again")
        outer_file = self._file
        try:
            if outer_file is None:
                with self._open_locked("next", deadline):
                    self._file = self._open_locked("lock", deadline)
            yield
        finally:
            if self._file is not None and outer_file is None:
                self._file.close()
            self._file = outer_file
            self._mutex.release()

    def _open_locked(self, name: str, deadline: float) -> IO[bytes]:
        """Open a file that stays locked until it is closed."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = (self._folder / name).open("ab")
        except OSError as error:
            message = f"{self._folder} cannot be written: {error.strerror}"
            hint = f"check who may write there; for a group: chmod -R g+rwX {self._folder}"
            raise BrokenStore(message, hint) from None
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            if time.monotonic() > deadline:
                file.close()
                message = f"another save is in progress: a process holds {file.name}"
                raise Locked(message, "try again")
            time.sleep(_POLL)


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
