"""Moving HEAD and telling the user's index: the two places where we meet the user's own Git commands.

Both wait a little for the other's lock and never remove it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, FilememError
from filemem.repo.git import Git, GitError, feed, finish
from filemem.repo.helper import Helper

if TYPE_CHECKING:
    from filemem.repo.commit import Change

REFLOG = "filemem: save"  # what `git reflog` shows for our commits
_LASTS = 5.0  # seconds; it writes the time of its start into the reflog
PATIENCE = 3.0  # seconds to wait for a lock of another Git command
_DIGITS = {"sha1": 40, "sha256": 64}  # of an object id
PAUSE = 0.02  # seconds between two tries
_AT_ONCE = 4096  # bytes that an empty pipe takes on every system
_STATED: tuple[str, ...] = ("update-index", "-z", "--index-info")
_READING = ("update-index", "--add", "--remove", "--replace", "--ignore-skip-worktree-entries", "-z", "--stdin")
_UNCHECKED = ("core.safecrlf=false",)  # it would refuse a file for its line endings, or warn
_LOCKED = ("File exists", "Another git process", "Unable to create", "unable to create")
LET_GO = "try again in a while; if no Git command is running there, one was interrupted: remove that file"
_MOVED = ("but expected", "reference already exists", "unable to resolve reference")


class NotNow(FilememError):
    """A commit must wait: for the user, or for a lock.

    Args:
        reason: for what.
        hint: what to do.
        refused: whether the user's own hook has refused it, so that only they can have it tried again.
    """

    def __init__(self, reason: str, hint: str = "", *, refused: bool = False) -> None:
        super().__init__(reason, hint or "it is committed as soon as that is over")
        self.reason, self.refused = reason, refused


class Refs:
    """HEAD of one work tree, moved by one lasting `update-ref`."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._helper: Helper | None = None
        self._started = 0.0

    def warm(self) -> None:
        """Start the helper now, so that it is ready when needed."""
        if self._helper is not None and (self._helper.outdated or time.monotonic() - self._started > _LASTS):
            self.close()
        if self._helper is None:
            self._helper = Helper(self._git, "update-ref", "-m", REFLOG, "--stdin")
            self._started = time.monotonic()

    def move(self, branch: str, new: str, old: str | None) -> bool:
        """Point a branch to `new` if it is at `old`; None stands for "no commit yet".

        It is named and not left to HEAD, which may have been detached since anybody looked: nothing would hold the
        commit then.

        Args:
            branch: the whole name, as HEAD states it.

        Returns:
            Whether it was; False means that somebody else moved it.

        Raises:
            NotNow: another Git command holds a lock on it.
            GitError: Git refuses for another reason.
        """
        request = f"start\nupdate {branch} {new} {old or '0' * len(new)}\nprepare\ncommit\n".encode(
            "utf-8", "surrogateescape"
        )
        stop = time.monotonic() + PATIENCE
        while True:
            self.warm()
            try:
                return self._once(request)
            except GitError as error:
                self.close()
                if any(text in error.stderr for text in _MOVED):
                    return False
                killed = not error.stderr  # it may have moved HEAD before: then the next try is refused, rightly
                if not killed and not any(text in error.stderr for text in _LOCKED):
                    raise
                if time.monotonic() > stop:
                    raise NotNow(f"HEAD is locked: {error.message}") from None
            time.sleep(PAUSE)

    def _once(self, request: bytes) -> bool:
        assert self._helper is not None  # noqa: S101 - started just before
        self._helper.send(request)
        for expected in (b"start: ok", b"prepare: ok", b"commit: ok"):
            answer = self._helper.line()
            if answer != expected:
                raise GitError("update-ref", -1, answer.decode("utf-8", "replace"))
        return True

    def close(self) -> None:
        """Let the helper end."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None


class IndexUpdate:
    """A change of some entries of the user's index, begun at once and running beside other work.

    Args:
        git: runs Git.
        entries: mode and blob id by path from the top of the work tree; None removes the entry.
        hash_name: the repository's object format.
        reading: settings under which Git may read the entries from the files, where these are as the entries say: it
            notes their times too then, without which `git diff-files` takes a file for changed. None: it may not.
    """

    def __init__(
        self,
        git: Git,
        entries: Mapping[str, tuple[str, str] | None],
        hash_name: str,
        reading: Sequence[str] | None = None,
    ) -> None:
        self._git, self._entries, self._hash_name, self._reading = git, entries, hash_name, reading
        self._input = b""
        self._process: subprocess.Popen[bytes] | None = self._start() if entries else None
        self.written = not entries

    def wait(self) -> None:
        """Wait until the index is written.

        Raises:
            NotNow: another Git command holds the lock; names it, with its age.
            GitError: Git refuses for another reason.
        """
        stop = time.monotonic() + PATIENCE
        while self._process is not None:
            try:
                finish(self._process, "update-index", self._input)
                self._process, self.written = None, True
                if self._reading is not None and not self._taken():  # edited meanwhile, or converted by Git
                    self._reading = None
                    self._process = self._start()
            except GitError as error:
                self._process = None
                locked = any(text in error.stderr for text in _LOCKED)
                if not locked and self._reading is None:
                    raise
                if locked and time.monotonic() > stop:
                    raise self._held() from None
                time.sleep(PAUSE)
                self._reading = self._reading if locked else None
                self._process = self._start()

    def abandon(self) -> None:
        """Collect the process, if it still runs: killed, it would leave its lock behind."""
        if self._process is not None:
            try:
                finish(self._process, "update-index", self._input)
            except GitError:
                pass
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        if self._reading is None:
            how, self._input = _STATED, index_rows(self._entries, self._hash_name)
        else:
            how, self._input = _READING, b"".join(os.fsencode(path) + b"\0" for path in self._entries)
        # Ctrl-C must not reach it: where it has just made its lock, it leaves that behind.
        process = self._git.start(*how, config=(*_UNCHECKED, *(self._reading or ())), apart=True)
        if len(self._input) <= _AT_ONCE:
            feed(process, self._input)
        return process

    def _taken(self) -> bool:
        """Whether the index seems to have what it was to get: ids are looked for in its bytes."""
        data = _index_bytes(self._git)
        return all(bytes.fromhex(entry[1]) in data for entry in self._entries.values() if entry)

    def _held(self) -> NotNow:
        return NotNow(
            held(self._git.places.git_dir / "index.lock"),
            "if no Git command is running, one was interrupted: remove that file",
        )


def index_rows(entries: Mapping[str, tuple[str, str] | None], hash_name: str) -> bytes:
    """Say in Git's words what shall become of entries of an index: mode and blob id by path, None removes."""
    none = ("0", "0" * _DIGITS[hash_name])
    lines = [f"{' '.join(entry or none)}\t{path}\0" for path, entry in entries.items()]
    return "".join(lines).encode("utf-8", "surrogateescape")


def held(lock: Path) -> str:
    """Say who holds a lock file, and since when."""
    return f"{lock} is held by another Git command{_age(lock)}"


class UserIndex(NamedTuple):
    """The user's index: what is staged for the next commit."""

    git: Git
    hash_name: str

    def entries(self, paths: Sequence[str]) -> dict[str, str]:
        """Blob id by path of what is staged or committed for these paths, and not in conflict."""
        answer = self.git.run("ls-files", "-s", "-z", "--", *paths).decode("utf-8", "surrogateescape") if paths else ""
        found: dict[str, str] = {}
        for row in answer.split("\0"):
            head, _, path = row.partition("\t")
            fields = head.split()
            if len(fields) == 3 and fields[2] == "0":
                found[path] = fields[1]
        return found

    def unmerged(self, folder: str) -> tuple[str, ...]:
        """The files in a folder that a merge, rebase or the like has left for the user to resolve."""
        answer = self.git.run("ls-files", "-u", "-z", "--", folder).decode("utf-8", "surrogateescape")
        return tuple(dict.fromkeys(row.partition("\t")[2] for row in answer.split("\0") if row))

    def written(self) -> float:
        """When it was written last, in seconds since the epoch."""
        try:
            return (self.git.places.git_dir / "index").stat().st_mtime
        except OSError:
            return 0.0

    def shows(self, changes: Iterable[Change]) -> bool:
        """Whether these changes seem to be in it still: ids are looked for in its bytes, Git is not asked.

        A doubt says no; where another file has the same content, yes.
        """
        data = _index_bytes(self.git)
        if not data:
            return False
        for change in changes:
            if change.entry and change.staged != "" and bytes.fromhex(change.entry[1]) not in data:
                return False
            if not change.entry and change.before and bytes.fromhex(change.before) in data:
                return False
        return True

    def repair(self, entries: Mapping[str, tuple[str, str] | None]) -> None:
        """Set entries: mode and blob id by path, None removes. Raises NotNow."""
        IndexUpdate(self.git, entries, self.hash_name).wait()

    def stage(self, path: str, entry: tuple[str, str] | None) -> None:
        """Set what the user's next commit has at a path: mode and blob id, or nothing.

        Raises:
            Conflict: another Git command holds the index.
        """
        try:
            if self.entries([path]).get(path) != (entry and entry[1]):
                self.repair({path: entry})
        except NotNow as wait:
            raise Conflict(wait.message, wait.hint) from None


def _index_bytes(git: Git) -> bytes:
    try:
        return (git.places.git_dir / "index").read_bytes()
    except OSError:
        return b""


def _age(lock: Path) -> str:
    try:
        return f" ({max(0.0, time.time() - lock.stat().st_mtime):.0f} s old)"
    except OSError:
        return ""
