"""HEAD, branch and index: where they stand, why a commit must wait, and how they are held still.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open commit editor it makes the user's
commit fail. Refs are read from plain files only where these show them; else Git is asked. Locks are held by Git's own
children, so that none is left behind when we are killed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.run import Git, GitError, Helper, end

if TYPE_CHECKING:
    from filemem.repo import Repo
    from filemem.repo.journal import Entry
    from filemem.repo.paths import Places

BRANCHES = "refs/heads/"
LOCKED, MOVED = "locked", "moved"  # why a lock was not taken: another command has it, or the branch is elsewhere
_EDITOR_LIMIT = 600.0  # seconds; an editor that was left without a commit looks the same as one that is open
_ELSEWHERE = "refs/heads/.invalid"  # what HEAD names where refs are not kept in files
_MARKERS = {
    "rebase-merge": "a rebase is in progress",
    "rebase-apply/applying": "git am is in progress",
    "rebase-apply": "a rebase is in progress",
    "CHERRY_PICK_HEAD": "a cherry-pick is in progress",
    "REVERT_HEAD": "a revert is in progress",
    "sequencer": "a cherry-pick or revert is in progress",
    "MERGE_HEAD": "a merge is in progress",
    "BISECT_LOG": "a bisect is in progress",
}
_STARTED_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_MAX_MESSAGE = 1 << 16  # bytes of a commit message looked at
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFLOG = "filemem: save"  # what `git reflog` shows for our commits
_BRANCH_MOVED = ("but expected", "reference already exists", "unable to resolve reference")
_HELD = ("File exists", "Another git process", "Unable to create", "unable to create", "unable to write new index")
_LOOK, _STARTS = 0.0005, 1.0  # seconds between two looks for the lock, and those that Git has to start
_READING = ("update-index", "--add", "--remove", "--ignore-skip-worktree-entries", "-z", "--stdin")
_STATED = ("update-index", "-z", "--index-info")


class Head(NamedTuple):
    """Where HEAD is: the whole name of its branch ("" where detached), and its commit ("" before the first one)."""

    ref: str
    tip: str

    @property
    def branch(self) -> str:
        """The short name of the branch; "" where HEAD is detached."""
        return self.ref.removeprefix(BRANCHES)


def head(git: Git) -> Head:
    """Where HEAD is now. Raises BrokenStore where it cannot be read."""
    ref = head_ref(git)
    return Head(ref, tip_of(git, ref or "HEAD"))


def head_ref(git: Git) -> str:
    """The whole name of the ref that HEAD names; "" where it is detached."""
    try:
        found = (git.places.git_dir / "HEAD").read_text(errors="surrogateescape").strip().removeprefix("ref: ")
    except OSError as error:
        raise BrokenStore(f"HEAD cannot be read: {error.strerror}", "run `git fsck`") from None
    if found == _ELSEWHERE:
        try:
            found = git.run("symbolic-ref", "-q", "HEAD").decode().strip()
        except GitError:
            return ""
    return found if found.startswith("refs/") else ""


def tip_of(git: Git, ref: str) -> str:
    """The commit that a ref, by its whole name or "HEAD", is at; "" for none."""
    folder = git.places.git_dir if ref == "HEAD" else git.places.common_dir
    found = _read(folder / ref)
    if _ID.fullmatch(found):
        return found
    try:
        return git.run("rev-parse", "-q", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    except GitError as error:
        if error.code == 1:
            return ""
        raise


def busy(places: Places, comment: str) -> str:
    """What the user is in the middle of, or ""; `comment` is how lines of comments begin in commit messages."""
    for name, operation in _MARKERS.items():
        if (places.git_dir / name).exists():
            return operation
    return "a commit message is being edited" if _editor_open(places, comment) else ""


def branch_meant(git: Git) -> str:
    """The branch that HEAD will be on when the operation in progress is over, by its whole name; "" if not known."""
    if ref := head_ref(git):
        return ref
    for name in _STARTED_FROM:
        if text := _read(git.places.git_dir / name):
            ref = text if text.startswith(BRANCHES) else BRANCHES + text
            return ref if tip_of(git, ref) else ""
    return ""


def _editor_open(places: Places, comment: str) -> bool:
    """Whether a commit message was written since HEAD moved last, with Git's comments still in it."""
    own, common = places.git_dir, places.common_dir
    branch = common / (_read(own / "HEAD").removeprefix("ref: ") or "HEAD")
    try:
        message = (own / "COMMIT_EDITMSG").stat()
        if not stat.S_ISREG(message.st_mode) or time.time() - message.st_mtime > _EDITOR_LIMIT:
            return False
        moves = (own / "logs" / "HEAD", own / "HEAD", own / "reftable", common / "reftable", branch)
        if message.st_mtime_ns <= max(stamp(file)[2] for file in moves):
            return False
        with (own / "COMMIT_EDITMSG").open("rb") as file:
            lines = file.read(_MAX_MESSAGE).splitlines()
    except (OSError, ValueError):  # a name that no file can have
        return False
    starts = tuple(mark.encode() for mark in ("#;@!$%^&|:" if comment == "auto" else (comment,)))
    return any(line.startswith(starts) for line in lines)


def stamp(file: Path) -> tuple[int, int, int]:
    """What shows that a file was written or replaced: its number, size and time; -1 for one that is not there."""
    try:
        found = file.stat()
    except OSError:
        return -1, -1, -1
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read(file: Path) -> str:
    """The text of a small file of Git's; "" where there is none."""
    try:
        return file.read_text(errors="surrogateescape").strip()
    except (OSError, ValueError):  # a name that no file can have
        return ""


def shown(git_dir: Path, entries: Iterable[Entry]) -> bool:
    """Whether the user's index seems to have what saves have entered: ids are looked for in its bytes."""
    try:
        data = (git_dir / "index").read_bytes()
    except OSError:
        return False
    latest = {edit.path: edit for entry in entries for edit in entry.edits}
    return all((bytes.fromhex(edit.blob or edit.old) in data) == bool(edit.blob) for edit in latest.values())


# holding them still


class Locks:
    """Git's own children that hold index.lock, HEAD.lock and the branch's lock for us.

    Take them, `enter` the files, `move` the branch; always `release` at the end. A lock is ours only if our child has
    it open. A child whose input ends without a `commit` lets go and changes nothing; so it does when we are killed.

    Args:
        repo: the repository.
        reading: the child reads the files that it enters; else it is told their blob ids.
    """

    def __init__(self, repo: Repo, *, reading: bool) -> None:
        self._repo, self._reading = repo, reading
        self._entered, self._target = False, ("", "")
        # Of the index's own features, the monitor stays where the user's configuration says plainly so.
        found = repo.settings
        plain = found.text("core.fsmonitor", user_only=True) == found.text("core.fsmonitor") == "true"
        config = ("core.safecrlf=false", *(("core.fsmonitor=true",) if plain else ()), *(found.unfiltered or ()))
        self._branch = Helper(repo.git, "update-ref", "-m", _REFLOG, "--stdin")
        self._index = Helper(repo.git, *(_READING if reading else _STATED), config=config)

    def take_index(self) -> bool:
        """Wait until the index's lock is ours; False where another command was faster. Raises GitError."""
        child, lock, stop = self._index.process, self._repo.git_dir / "index.lock", time.monotonic() + _STARTS
        while time.monotonic() < stop:
            if _holds(child.pid, lock):
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
        self._target = ref, new
        request = f"start\nupdate {ref} {new} {old or '0' * len(new)}\nprepare\n"
        try:
            self._branch.send(request.encode("utf-8", "surrogateescape"))
            self._expect(b"start: ok", b"prepare: ok")
        except GitError as error:
            if any(text in error.stderr for text in _BRANCH_MOVED):
                return MOVED
            if any(text in error.stderr for text in _HELD):
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
        self._target = ("", "")

    def release(self) -> bool:
        """Let go of all locks; the index keeps its new entries unless the branch was to move and has not.

        Returns:
            Whether it keeps them.
        """
        ref, new = self._target
        with suppress(GitError):  # first: whether the branch has moved is certain then
            self._branch.close()
        keep = not ref or tip_of(self._repo.git, ref) == new
        if self._entered and not keep:
            end(self._index.process)
        with suppress(GitError):  # whether it was written shows in the index
            self._index.close()
        return keep

    def _expect(self, *answers: bytes) -> None:
        for expected in answers:
            if (answer := self._branch.line()) != expected:
                raise GitError("update-ref", -1, answer.decode("utf-8", "replace"))


def describe(git_dir: Path) -> str:
    """Say who keeps a lock, and since when."""
    lock = git_dir / "index.lock"
    with suppress(OSError):
        return f"{lock} is held by another Git command ({max(0.0, time.time() - lock.stat().st_mtime):.0f} s old)"
    return "another Git command holds a lock"


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
