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
from filemem.repo.run import OURS, Git, GitError, Helper, Places, end, read, stamp

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
_BEGAN = 19  # the place of its begin in what the system says of a process, after its name
_EDITOR_LIMIT = 60.0  # seconds that an editor counts as open where processes cannot be seen
_PROCESSES = Path("/proc")
_ELSEWHERE = "refs/heads/.invalid"  # what HEAD names where refs are not kept in files
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
_HELD = ".lock': File exists"  # what Git says of a lock that another command has
_LOOK, _STARTS = (
    0.0005,
    1.0,
)  # seconds between two looks for the lock, and those that Git has to start
SWARM = (
    50.0  # seconds that a save waits for others: thirty at one moment, under load; clients wait 60
)
_POLL = 0.004  # seconds between two tries for the lock of saves
_READING = ("update-index", "--add", "--remove", "--ignore-skip-worktree-entries", "-z", "--stdin")
_STATED = ("update-index", "-z", "--index-info")
_TIPS: dict[
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


def head(git: Git) -> Branch:
    """Where HEAD is now, on no branch where it is detached.

    Raises BrokenStore where it cannot be read.
    """
    ref = head_ref(git)
    return Branch(ref.removeprefix(BRANCHES), tip_of(git, ref or "HEAD"))


def head_ref(git: Git) -> str:
    """The whole name of the branch that HEAD names; "" where it is detached."""
    try:
        found = (
            (git.places.git_dir / "HEAD")
            .read_text(errors="surrogateescape")
            .strip()
            .removeprefix("ref: ")
        )
    except OSError as error:
        raise BrokenStore(f"HEAD cannot be read: {error.strerror}", "run `git fsck`") from None
    if found == _ELSEWHERE:
        try:
            found = git.run("symbolic-ref", "-q", "HEAD").decode().strip()
        except GitError:
            return ""
    return found if found.startswith(BRANCHES) else ""


def tip_of(git: Git, ref: str) -> str:
    """The commit that a ref, by its whole name or "HEAD", is at; "" for none."""
    folder = git.places.git_dir if ref == "HEAD" else git.places.common_dir
    found = read(folder / ref)
    if _ID.fullmatch(found):
        return found
    files = (
        folder / ref,
        *(git.places.common_dir / name for name in ("packed-refs", "reftable/tables.list")),
    )
    marks = tuple(
        map(stamp, files)
    )  # Git is asked once while these stay, but each time of a ref that names another
    if found or _TIPS.get(files[0], ((),))[0] != marks:
        asked = b""
        try:
            asked = git.run("rev-parse", "-q", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        except GitError as error:
            if error.code != 1:
                raise
        _TIPS[files[0]] = marks, asked.decode().strip()
    return _TIPS[files[0]][1]


def busy(places: Places) -> str:
    """What the user is in the middle of, or ""."""
    for name, operation in _MARKERS.items():
        if (places.git_dir / name).exists():
            return operation
    if not _edited(places):
        return ""
    return f"a commit message is being edited: {places.git_dir / 'COMMIT_EDITMSG'}"


def _edited(places: Places) -> bool:
    """Whether a commit message is open in an editor. Git holds no lock then, but its process waits.

    The file alone does not show it: Git leaves it where a commit is given up or refused.
    """
    work_tree, git_dir, common_dir = places
    message = git_dir / "COMMIT_EDITMSG"
    branch = common_dir / (read(git_dir / "HEAD").removeprefix("ref: ") or "HEAD")
    moves = (
        git_dir / "logs" / "HEAD",
        git_dir / "HEAD",
        git_dir / "reftable",
        common_dir / "reftable",
        branch,
    )
    written = stamp(message)[2]
    if written <= max(stamp(file)[2] for file in moves):
        return False
    if not any(line.startswith(_COMMENT) for line in read(message).splitlines()):
        return False
    if (_PROCESSES / "self").exists():
        opened = os.fsencode(message.resolve())
        return any(_commits(process, work_tree, opened) for process in _PROCESSES.iterdir())
    return 0 <= time.time() - written / 1e9 < _EDITOR_LIMIT


def _commits(process: Path, work_tree: Path, message: bytes) -> bool:
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


def noted_merge(git_dir: Path) -> bool:
    """Whether a merge seems to have read HEAD and index, to write both, and holds no lock yet."""
    began = stamp(git_dir / "ORIG_HEAD")[2]
    last = stamp(git_dir / "logs" / "HEAD")[2]
    return began > last and 0 <= time.time() - began / 1e9 < _MERGE_LIMIT


def beginning(places: Places) -> bool:
    """Whether a command of the user's may have read HEAD and index, to write both later.

    A merge notes that in ORIG_HEAD; before it does, its process alone shows it.
    """
    if noted_merge(places.git_dir):
        return True
    return any(_begins(number, places.work_tree) for number in _numbers())


def _numbers() -> list[str]:
    """The numbers of all processes; none where they cannot be seen."""
    with suppress(OSError):
        return list(filter(str.isdigit, os.listdir(_PROCESSES)))
    return []


def _begins(number: str, work_tree: Path) -> bool:
    """Whether a process is a Git command in a work tree that has just begun, and is not filemem's."""
    process = f"{_PROCESSES}/{number}"
    with suppress(OSError):  # it has ended, or belongs to another user
        if os.readlink(f"{process}/cwd") != str(work_tree):  # noqa: PTH115 - most end here
            return False
        words = Path(process, "cmdline").read_bytes().split(b"\0")
        if os.path.basename(words[0]) != b"git" or OURS.encode() in words:
            return False
        began = int(Path(process, "stat").read_bytes().rpartition(b")")[2].split()[_BEGAN])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
        return age < _BEGINS
    return False


def branch_meant(git: Git) -> str:
    """The branch that HEAD will be on when the operation in progress is over.

    By its whole name; "" if not known.
    """
    if ref := head_ref(git):
        return ref
    for name in _STARTED_FROM:
        if text := read(git.places.git_dir / name):
            ref = text if text.startswith(BRANCHES) else BRANCHES + text
            return ref if tip_of(git, ref) else ""
    return ""


class Move(NamedTuple):
    """How HEAD or a branch moved in this clone."""

    old: str
    new: str
    at: int  # seconds since 1970
    saves: bool  # by a save of ours
    commits: bool  # by a new commit by hand, no amended, picked or merged one


def moves(git: Git, ref: str) -> list[Move]:
    """The moves of HEAD, or of a branch by its whole name, oldest first: its reflog, into which no fetch writes."""
    folder = git.places.git_dir if ref == "HEAD" else git.places.common_dir
    rows = (_MOVE.match(row) for row in read(folder / "logs" / ref).splitlines())
    made = ("commit: ", "commit (initial): ")
    return [
        Move(row[1], row[2], int(row[3]), row[4].startswith(_REFLOG), row[4].startswith(made))
        for row in rows
        if row
    ]


def numbered(folder: Path) -> list[str]:
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
    def held(self, patience: float = SWARM) -> Iterator[None]:
        """Hold the lock; who holds it already, in this thread, holds it on. Raises Locked, BrokenStore."""
        stop = time.monotonic() + patience
        if not self._mutex.acquire(timeout=patience):
            raise Locked("another save is in progress", "try again")
        outer = self._file
        try:
            if outer is None:
                with self._taken("next", stop):
                    self._file = self._taken("lock", stop)
            yield
        finally:
            if self._file is not None and outer is None:
                self._file.close()
            self._file = outer
            self._mutex.release()

    def _taken(self, name: str, stop: float) -> IO[bytes]:
        """A file, locked for as long as it is open."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = (self._folder / name).open("ab")
        except OSError as error:
            told = f"{self._folder} cannot be written: {error.strerror}"
            hint = f"check who may write there; for a group: chmod -R g+rwX {self._folder}"
            raise BrokenStore(told, hint) from None
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            if time.monotonic() > stop:
                file.close()
                raise Locked(
                    f"another save is in progress: a process holds {file.name}", "try again"
                )
            time.sleep(_POLL)


class Locks:
    """Git's own children that hold index.lock, HEAD.lock and the branch's lock for us; `reading`: one reads the files.

    Always `release` at the end. A child whose input ends without a `commit` lets go and changes nothing.
    """

    def __init__(self, repo: Repo, *, reading: bool) -> None:
        self._repo, self._reading = repo, reading
        self._entered, self._target = False, ("", "")
        # Of the index's own features, the monitor stays where the user's configuration says plainly so.
        found, key = repo.settings, "core.fsmonitor"
        monitor = (
            [f"{key}=true"] if found.text(key, user_only=True) == found.text(key) == "true" else []
        )
        self._config = ("core.safecrlf=false", *monitor, *(found.unfiltered or ()))
        self._helpers: list[Helper] = []  # for merges, and for the branch
        self._index: Helper | None = None

    def start(self) -> None:
        """Start the children that wait for requests; they hold nothing yet. Raises BrokenStore."""
        if not self._helpers:
            self._helpers.append(Helper(self._repo.git, "update-ref", "--stdin"))
            self._helpers.append(Helper(self._repo.git, "update-ref", "-m", _REFLOG, "--stdin"))

    def take_merges(self) -> bool:
        """Make merges wait where they begin; False where one has begun. Raises GitError.

        A merge writes ORIG_HEAD after it has read HEAD and index, and before it locks the index.
        It waits there for the lock of ORIG_HEAD; at the index's it would fail half done.
        """
        self.start()
        noted = read(self._repo.git_dir / "ORIG_HEAD")
        if noted and not _ID.fullmatch(noted):  # Git could not say whether it is the same
            return not noted_merge(self._repo.git_dir)
        nothing = "0" * len(self._repo.blob_id(b""))
        merges = self._helpers[0]
        try:
            merges.send(f"start\nverify ORIG_HEAD {noted or nothing}\nprepare\n".encode())
            _expect(merges, b"start: ok", b"prepare: ok")
        except GitError as error:
            if _HELD in error.stderr or read(self._repo.git_dir / "ORIG_HEAD") != noted:
                return False
            raise
        return not noted_merge(self._repo.git_dir)

    def take_index(self) -> bool:
        """Wait for the index's lock; False where another command has it. Raises GitError."""
        words = _READING if self._reading else _STATED
        self._index = Helper(self._repo.git, *words, config=self._config)
        child = self._index.process
        lock = self._repo.git_dir / "index.lock"
        stop = time.monotonic() + _STARTS
        while time.monotonic() < stop:
            if _holds(child.pid, lock):
                return True
            if child.poll() is not None:
                if _HELD not in (error := self._index.ended()).stderr:
                    raise error
                return False
            time.sleep(_LOOK)
        return False

    def take_branch(self, ref: str, new: str, old: str) -> str:
        """Lock HEAD and its branch, to move from `old` ("" for none) to `new`: LOCKED, MOVED or "". Raises GitError."""
        self._target = ref, new
        branch = self._helpers[1]
        request = f"start\nupdate {ref} {new} {old or '0' * len(new)}\nprepare\n"
        try:
            branch.send(request.encode("utf-8", "surrogateescape"))
            _expect(branch, b"start: ok", b"prepare: ok")
        except GitError as error:
            if tip_of(self._repo.git, ref) != old:
                return MOVED
            if _HELD not in error.stderr:
                raise
            return LOCKED
        return ""

    def enter(self, entries: Mapping[str, str]) -> None:
        """Give the index its entries, blob id by path, "" for none; it is written when the locks are released."""
        assert self._index is not None  # noqa: S101 - its lock is ours
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
        self._helpers[1].send(b"commit\n")
        _expect(self._helpers[1], b"commit: ok")
        self._target = ("", "")

    def release(self) -> bool:
        """Let go of all; says whether the index keeps its entries: not where the branch was to move and has not."""
        ref, new = self._target
        index = self._index
        if not ref and index is not None:  # it is certain: both may end at once
            index.hang_up()
        for branch in self._helpers[1:]:  # first: whether it has moved is certain then
            _close(branch)
        keep = not ref or tip_of(self._repo.git, ref) == new
        if index is not None:
            if self._entered and not keep:
                end(index.process)
            _close(index)  # whether it was written shows in the index
        for merges in self._helpers[:1]:  # last: a merge that has waited may go on
            _close(merges)
        self._helpers = []
        self._index = None
        self._entered = False
        self._target = "", ""
        return keep


def _close(child: Helper) -> None:
    with suppress(GitError):
        child.close()


def _expect(child: Helper, *answers: bytes) -> None:
    """Read answers of a child. Raises GitError where it gives others."""
    for expected in answers:
        if (answer := child.line()) != expected:
            raise GitError("update-ref", -1, answer.decode("utf-8", "replace"))


def _holds(pid: int, lock: Path) -> bool:
    """Whether a child has a lock file open; where the system does not show that, whether there is one."""
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - asked every half millisecond
        return lock.exists()
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir() if lock.exists() else ():
            with suppress(OSError):
                if file.samefile(lock):
                    return True
    return False
