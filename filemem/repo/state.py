"""HEAD, branch and index: where they stand, why a commit must wait, and how they are held still.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open editor it makes
the user's commit fail. Locks are held by Git's own children, so that none is left behind when we
are killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
LOCKED, MOVED = (
    "locked",
    "moved",
)  # why a lock was not taken: another command has it, or the branch is elsewhere
_MERGE_LIMIT = (
    0.5  # seconds; a merge that found nothing to do looks the same as one that has just begun
)
_BEGINS = 0.3  # seconds that a Git command has to read what it works on, also under load
_START_FIELD = 19  # the place of its begin in what the system says of a process, after its name
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
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOVE = re.compile(r"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*?> (\d{1,12}) [-+]\d{4}\t(.*)")
_REFLOG = "filemem: save"  # what `git reflog` shows for our commits
_LOCK_HELD = ".lock': File exists"  # what Git says of a lock that another command has
_LOCK_POLL, _START_TIMEOUT = (
    0.0005,
    1.0,
)  # seconds between two looks for the lock, and those that Git has to start
SAVE_TIMEOUT = (
    50.0  # seconds that a save waits for others: thirty at one moment, under load; clients wait 60
)
_POLL = 0.004  # seconds between two tries for the lock of saves
_READ_COMMAND = (
    "update-index",
    "--add",
    "--remove",
    "--ignore-skip-worktree-entries",
    "-z",
    "--stdin",
)
_ENTRY_COMMAND = ("update-index", "-z", "--index-info")
_TIP_CACHE: dict[
    Path, tuple[tuple[object, ...], str]
] = {}  # of refs that have no file of their own: what Git said


class Branch(NamedTuple):
    """A branch: its name without `refs/heads/` or the remote's, and its last commit; "" for none of either."""

    name: str
    tip: str

    @property
    def ref(self) -> str:
        """The whole name; "" for none."""
        return f"{BRANCHES}{self.name}" if self.name else ""


def read_head_branch(git: Git) -> Branch:
    """Where HEAD is now, on no branch where it is detached.

    Raises BrokenStore where it cannot be read.
    """
    ref = read_head_ref(git)
    return Branch(ref.removeprefix(BRANCHES), read_tip(git, ref or "HEAD"))


def read_head_ref(git: Git) -> str:
    """The whole name of the branch that HEAD names; "" where it is detached."""
    try:
        ref = (
            (git.folders.git_dir / "HEAD")
            .read_text(errors="surrogateescape")
            .strip()
            .removeprefix("ref: ")
        )
    except OSError as error:
        raise BrokenStore(f"HEAD cannot be read: {error.strerror}", "run `git fsck`") from None
    if ref == _NO_FILE_REF:
        try:
            ref = git.run("symbolic-ref", "-q", "HEAD").decode().strip()
        except GitError:
            return ""
    return ref if ref.startswith(BRANCHES) else ""


def read_tip(git: Git, ref: str) -> str:
    """The commit that a ref, by its whole name or "HEAD", is at; "" for none."""
    folder = git.folders.git_dir if ref == "HEAD" else git.folders.common_dir
    text = read_git_file(folder / ref)
    if _ID.fullmatch(text):
        return text
    files = (
        folder / ref,
        *(git.folders.common_dir / name for name in ("packed-refs", "reftable/tables.list")),
    )
    stamps = tuple(
        map(read_file_stamp, files)
    )  # Git is asked once while these stay, but each time of a ref that names another
    if text or _TIP_CACHE.get(files[0], ((),))[0] != stamps:
        output = b""
        try:
            output = git.run("rev-parse", "-q", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        except GitError as error:
            if error.code != 1:
                raise
        _TIP_CACHE[files[0]] = stamps, output.decode().strip()
    return _TIP_CACHE[files[0]][1]


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

    The file alone does not show it: Git leaves it where a commit is given up or refused.
    """
    work_tree, git_dir, common_dir = folders
    message = git_dir / "COMMIT_EDITMSG"
    branch = common_dir / (read_git_file(git_dir / "HEAD").removeprefix("ref: ") or "HEAD")
    state_files = (
        git_dir / "logs" / "HEAD",
        git_dir / "HEAD",
        git_dir / "reftable",
        common_dir / "reftable",
        branch,
    )
    written_at = read_file_stamp(message)[2]
    if written_at <= max(read_file_stamp(file)[2] for file in state_files):
        return False
    if not any(line.startswith(_COMMENT) for line in read_git_file(message).splitlines()):
        return False
    if (_PROCESSES / "self").exists():
        message_path = os.fsencode(message.resolve())
        return any(
            _is_commit_process(process, work_tree, message_path) for process in _PROCESSES.iterdir()
        )
    return 0 <= time.time() - written_at / 1e9 < _EDITOR_LIMIT


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
    return started_at > moved_at and 0 <= time.time() - started_at / 1e9 < _MERGE_LIMIT


def is_command_starting(folders: GitFolders) -> bool:
    """Whether a command of the user's may have read HEAD and index, to write both later.

    A merge notes that in ORIG_HEAD; before it does, its process alone shows it.
    """
    if has_noted_merge(folders.git_dir):
        return True
    return any(
        _is_starting_command(process_id, folders.work_tree) for process_id in _list_process_ids()
    )


def _list_process_ids() -> list[str]:
    """The numbers of all processes; none where they cannot be seen."""
    with suppress(OSError):
        return list(filter(str.isdigit, os.listdir(_PROCESSES)))
    return []


def _is_starting_command(process_id: str, work_tree: Path) -> bool:
    """Whether a process is a Git command in a work tree that has just begun, and is not filemem's."""
    process = f"{_PROCESSES}/{process_id}"
    with suppress(OSError):  # it has ended, or belongs to another user
        if os.readlink(f"{process}/cwd") != str(work_tree):  # noqa: PTH115 - most end here
            return False
        words = Path(process, "cmdline").read_bytes().split(b"\0")
        if os.path.basename(words[0]) != b"git" or OWN_MARK.encode() in words:
            return False
        start_ticks = int(
            Path(process, "stat").read_bytes().rpartition(b")")[2].split()[_START_FIELD]
        )
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")
        return age < _BEGINS
    return False


def find_intended_branch(git: Git) -> str:
    """The branch that HEAD will be on when the operation in progress is over.

    By its whole name; "" if not known.
    """
    if ref := read_head_ref(git):
        return ref
    for name in _STARTED_FROM:
        if text := read_git_file(git.folders.git_dir / name):
            ref = text if text.startswith(BRANCHES) else BRANCHES + text
            return ref if read_tip(git, ref) else ""
    return ""


class RefMove(NamedTuple):
    """How HEAD or a branch moved in this clone."""

    old_tip: str
    new_tip: str
    seconds: int  # seconds since 1970
    is_save: bool  # by a save of ours
    is_commit: bool  # by a new commit by hand, no amended, picked or merged one


def read_moves(git: Git, ref: str) -> list[RefMove]:
    """The moves of HEAD, or of a branch by its whole name, oldest first: its reflog, into which no fetch writes."""
    folder = git.folders.git_dir if ref == "HEAD" else git.folders.common_dir
    rows = (_MOVE.match(row) for row in read_git_file(folder / "logs" / ref).splitlines())
    commit_prefixes = ("commit: ", "commit (initial): ")
    return [
        RefMove(
            row[1],
            row[2],
            int(row[3]),
            row[4].startswith(_REFLOG),
            row[4].startswith(commit_prefixes),
        )
        for row in rows
        if row
    ]


def list_entry_names(folder: Path) -> list[str]:
    """The names of entries of the journal in a folder, oldest first."""
    try:
        return sorted(name for name in os.listdir(folder) if name[:1].isdigit())
    except OSError:
        return []


# holding them still


class SaveLock:
    """One save at a time per repository. Who waits holds `next`, and who comes back waits for that: nobody starves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mutex = threading.RLock()
        self._file: IO[bytes] | None = None

    @contextlib.contextmanager
    def hold(self, timeout: float = SAVE_TIMEOUT) -> Iterator[None]:
        """Hold the lock; who holds it already, in this thread, holds it on. Raises Locked, BrokenStore."""
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
        """A file, locked for as long as it is open."""
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
                raise Locked(
                    f"another save is in progress: a process holds {file.name}", "try again"
                )
            time.sleep(_POLL)


class GitLocks:
    """Git's own children that hold index.lock, HEAD.lock and the branch's lock for us; `reading`: one reads the files.

    Always `release` at the end. A child whose input ends without a `commit` lets go and changes nothing.
    """

    def __init__(self, repo: Repo, *, reads_files: bool) -> None:
        self._repo, self._reads_files = repo, reads_files
        self._has_entries, self._target = False, ("", "")
        # Of the index's own features, the monitor stays where the user's configuration says plainly so.
        settings, key = repo.settings, "core.fsmonitor"
        monitor = (
            [f"{key}=true"]
            if settings.get_text(key, user_only=True) == settings.get_text(key) == "true"
            else []
        )
        self._config = ("core.safecrlf=false", *monitor, *(settings.no_filter_settings or ()))
        self._helpers: list[GitProcess] = []  # for merges, and for the branch
        self._index: GitProcess | None = None

    def start(self) -> None:
        """Start the children that wait for requests; they hold nothing yet. Raises BrokenStore."""
        if not self._helpers:
            self._helpers.append(GitProcess(self._repo.git, "update-ref", "--stdin"))
            self._helpers.append(GitProcess(self._repo.git, "update-ref", "-m", _REFLOG, "--stdin"))

    def take_merges(self) -> bool:
        """Make merges wait where they begin; False where one has begun. Raises GitError.

        A merge writes ORIG_HEAD after it has read HEAD and index, and before it locks the index.
        It waits there for the lock of ORIG_HEAD; at the index's it would fail half done.
        """
        self.start()
        orig_head = read_git_file(self._repo.git_dir / "ORIG_HEAD")
        if orig_head and not _ID.fullmatch(orig_head):  # Git could not say whether it is the same
            return not has_noted_merge(self._repo.git_dir)
        null_id = "0" * len(self._repo.compute_blob_id(b""))
        process = self._helpers[0]
        try:
            process.send(f"start\nverify ORIG_HEAD {orig_head or null_id}\nprepare\n".encode())
            _expect_answers(process, b"start: ok", b"prepare: ok")
        except GitError as error:
            if (
                _LOCK_HELD in error.stderr
                or read_git_file(self._repo.git_dir / "ORIG_HEAD") != orig_head
            ):
                return False
            raise
        return not has_noted_merge(self._repo.git_dir)

    def take_index(self) -> bool:
        """Wait for the index's lock; False where another command has it. Raises GitError."""
        arguments = _READ_COMMAND if self._reads_files else _ENTRY_COMMAND
        self._index = GitProcess(self._repo.git, *arguments, config=self._config)
        process = self._index.process
        lock = self._repo.git_dir / "index.lock"
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            if _has_lock_open(process.pid, lock):
                return True
            if process.poll() is not None:
                if _LOCK_HELD not in (error := self._index.collect_error()).stderr:
                    raise error
                return False
            time.sleep(_LOCK_POLL)
        return False

    def take_branch(self, ref: str, new_tip: str, old_tip: str) -> str:
        """Lock HEAD and its branch, to move from `old` ("" for none) to `new`: LOCKED, MOVED or "". Raises GitError."""
        self._target = ref, new_tip
        process = self._helpers[1]
        request = f"start\nupdate {ref} {new_tip} {old_tip or '0' * len(new_tip)}\nprepare\n"
        try:
            process.send(request.encode("utf-8", "surrogateescape"))
            _expect_answers(process, b"start: ok", b"prepare: ok")
        except GitError as error:
            if read_tip(self._repo.git, ref) != old_tip:
                return MOVED
            if _LOCK_HELD not in error.stderr:
                raise
            return LOCKED
        return ""

    def send_entries(self, entries: Mapping[str, str]) -> None:
        """Give the index its entries, blob id by path, "" for none; it is written when the locks are released."""
        assert self._index is not None  # noqa: S101 - its lock is ours
        self._has_entries = bool(entries)
        if self._reads_files:
            self._index.send(b"".join(os.fsencode(path) + b"\0" for path in entries))
            return
        null_id = "0" * len(self._repo.compute_blob_id(b""))
        for path, oid in entries.items():
            mode = item.mode.decode() if (item := self._repo.find_item(path)) else "100644"
            row = f"{mode if oid else '0'} {oid or null_id}\t{path}\0"
            self._index.send(row.encode("utf-8", "surrogateescape"))

    def move_branch(self) -> None:
        """Move the branch. Raises GitError; it may have moved then."""
        self._helpers[1].send(b"commit\n")
        _expect_answers(self._helpers[1], b"commit: ok")
        self._target = ("", "")

    def release(self) -> bool:
        """Let go of all; says whether the index keeps its entries: not where the branch was to move and has not."""
        ref, new_tip = self._target
        index = self._index
        if not ref and index is not None:  # it is certain: both may end at once
            index.close_input()
        for branch in self._helpers[1:]:  # first: whether it has moved is certain then
            _close_process(branch)
        keeps_entries = not ref or read_tip(self._repo.git, ref) == new_tip
        if index is not None:
            if self._has_entries and not keeps_entries:
                end_process(index.process)
            _close_process(index)  # whether it was written shows in the index
        for merges in self._helpers[:1]:  # last: a merge that has waited may go on
            _close_process(merges)
        self._helpers = []
        self._index = None
        self._has_entries = False
        self._target = "", ""
        return keeps_entries


def _close_process(process: GitProcess) -> None:
    with suppress(GitError):
        process.close()


def _expect_answers(process: GitProcess, *answers: bytes) -> None:
    """Read answers of a child. Raises GitError where it gives others."""
    for expected in answers:
        if (answer := process.read_line()) != expected:
            raise GitError("update-ref", -1, answer.decode("utf-8", "replace"))


def _has_lock_open(pid: int, lock: Path) -> bool:
    """Whether a child has a lock file open; where the system does not show that, whether there is one."""
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - asked every half millisecond
        return lock.exists()
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir() if lock.exists() else ():
            with suppress(OSError):
                if file.samefile(lock):
                    return True
    return False
