"""Where HEAD is, and why a commit must wait: the user is in the middle of something of theirs.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open commit editor it makes the user's
commit fail. Refs are read from plain files only where these show them; else Git is asked.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.paths import Places
from filemem.repo.run import Git, GitError

BRANCHES = "refs/heads/"
EDITOR_LIMIT = 600.0  # seconds; an editor that was left without a commit looks the same as one that is open
_ELSEWHERE = "refs/heads/.invalid"  # what HEAD names where refs are not kept in files
_MARKERS = (
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply/applying", "git am is in progress"),
    ("rebase-apply", "a rebase is in progress"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
    ("sequencer", "a cherry-pick or revert is in progress"),
    ("MERGE_HEAD", "a merge is in progress"),
    ("BISECT_LOG", "a bisect is in progress"),
)
_STARTED_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_MAX_MESSAGE = 1 << 16  # bytes of a commit message looked at
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


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
    if not ref:
        return Head("", tip_of(git, "HEAD"))
    return Head(ref, tip_of(git, ref))


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
    found = read_small(folder / ref)
    if _ID.fullmatch(found):
        return found
    try:
        return git.run("rev-parse", "-q", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    except GitError as error:
        if error.code == 1:
            return ""
        raise


def busy(places: Places, comment: str, now: float) -> str:
    """What the user is in the middle of, or ""."""
    for name, operation in _MARKERS:
        if (places.git_dir / name).exists():
            return operation
    return "a commit message is being edited" if _editor_open(places, comment, now) else ""


def branch_meant(git: Git) -> str:
    """The branch that HEAD will be on when the operation in progress is over, by its whole name; "" if not known."""
    if ref := head_ref(git):
        return ref
    for name in _STARTED_FROM:
        if text := read_small(git.places.git_dir / name):
            ref = text if text.startswith(BRANCHES) else BRANCHES + text
            return ref if tip_of(git, ref) else ""
    return ""


def _editor_open(places: Places, comment: str, now: float) -> bool:
    file = places.git_dir / "COMMIT_EDITMSG"
    try:
        message = file.stat()
        if not stat.S_ISREG(message.st_mode) or now - message.st_mtime > EDITOR_LIMIT:
            return False
        if message.st_mtime_ns <= max(_moves(places), default=0):
            return False
        with file.open("rb") as opened:
            lines = opened.read(_MAX_MESSAGE).splitlines()
    except OSError:
        return False
    marks = b"#;@!$%^&|:" if comment == "auto" else b""
    starts = tuple(bytes([m]) for m in marks) or (comment.encode(),)
    return any(line.startswith(starts) for line in lines)


def _moves(places: Places) -> Iterator[int]:
    """When HEAD was moved last, as far as the files show that may."""
    named = read_small(places.git_dir / "HEAD").removeprefix("ref: ") or "HEAD"
    own = [places.git_dir / "logs" / "HEAD", places.git_dir / "HEAD", places.git_dir / "reftable"]
    for file in (*own, places.common_dir / "reftable", places.common_dir / named):
        try:
            yield file.stat().st_mtime_ns
        except (OSError, ValueError):
            continue


def read_small(file: Path) -> str:
    """The text of a small file of Git's; "" where there is none."""
    try:
        return file.read_text(errors="surrogateescape").strip()
    except (OSError, ValueError):  # a name that no file can have
        return ""
