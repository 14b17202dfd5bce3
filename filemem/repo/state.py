"""HEAD and branches: where they are, why a commit must wait, and the lock of saves.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open editor it makes
the user's commit fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from filemem.errors import BrokenStore, Locked
from filemem.repo.run import (
    OWN_MARK,
    Git,
    GitError,
    GitFolders,
    read_file_stamp,
    read_git_file,
)

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
_MOVE = re.compile(r"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*?> (\d{1,12}) [-+]\d{4}\t(.*)")
SAVE_REFLOG = "filemem: save"  # what `git reflog` shows for our commits
# Seconds that a save waits for others: enough for thirty at once under load; clients wait 60.
SAVE_TIMEOUT = 50.0
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


class RefMove(NamedTuple):
    """How HEAD or a branch moved in this clone."""

    old_tip: str
    new_tip: str
    seconds: int  # since 1970
    is_save: bool  # by a save of ours
    is_commit: bool  # by a new commit of the user's, not an amended, picked or merged one


def read_moves(git: Git, ref: str) -> list[RefMove]:
    """Read the moves of HEAD, or of a branch by its full name, from its reflog, oldest first.

    No fetch writes into these reflogs.
    """
    folder = git.folders.git_dir if ref == "HEAD" else git.folders.common_dir
    moves = []
    for line in read_git_file(folder / "logs" / ref).splitlines():
        match = _MOVE.match(line)
        if match is None:
            continue
        message = match[4]
        move = RefMove(
            old_tip=match[1],
            new_tip=match[2],
            seconds=int(match[3]),
            is_save=message.startswith(SAVE_REFLOG),
            is_commit=message.startswith(("commit: ", "commit (initial): ")),
        )
        moves.append(move)
    return moves


def list_entry_names(folder: Path) -> list[str]:
    """List the names of journal entries in a folder, oldest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(name for name in names if name[:1].isdigit())


# holding them still


class SaveLock:
    """One save at a time per repository.

    The first process in the queue holds `next` while it waits for `lock`, so none starves.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mutex = threading.RLock()
        self._file: IO[bytes] | None = None

    @contextlib.contextmanager
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
