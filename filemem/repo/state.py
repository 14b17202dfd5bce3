"""Why a commit must wait: the user is in the middle of something of theirs. Read from Git's own marker files.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open commit editor it makes the user's
commit fail.
"""

from __future__ import annotations

import stat
from pathlib import Path

from filemem.repo.discovery import Places
from filemem.repo.head import BRANCHES

EDITOR_LIMIT = 600.0  # seconds; an editor that was left without a commit looks the same as one that is open
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
_MAX_MESSAGE = 1 << 16  # bytes of a commit message looked at


def waiting(places: Places, branch: str | None, comment: str, now: float) -> str:
    """Why commits must wait now, or "".

    Args:
        places: the repository.
        branch: what HEAD points to, None where it is detached.
        comment: the start of Git's comment lines ("#" unless configured; "auto" for any).
        now: seconds since the epoch.
    """
    for name, reason in _MARKERS:
        if (places.git_dir / name).exists():
            return reason
    if branch is None:
        return "HEAD is detached"
    if _editor_open(places.git_dir, comment, now):
        return "a commit message is being edited"
    return ""


def rebased(git_dir: Path) -> str:
    """The branch that a rebase in progress is about; "" where there is none."""
    for name in ("rebase-merge/head-name", "rebase-apply/head-name"):
        try:
            text = (git_dir / name).read_text(errors="surrogateescape").strip()
        except OSError:
            continue
        return text.removeprefix(BRANCHES) if text.startswith(BRANCHES) else ""
    return ""


def _editor_open(git_dir: Path, comment: str, now: float) -> bool:
    try:
        message, log = (git_dir / "COMMIT_EDITMSG").stat(), (git_dir / "logs" / "HEAD").stat()
        if message.st_mtime_ns <= log.st_mtime_ns or now - message.st_mtime > EDITOR_LIMIT:
            return False
        if not stat.S_ISREG(message.st_mode):
            return False
        with (git_dir / "COMMIT_EDITMSG").open("rb") as file:
            lines = file.read(_MAX_MESSAGE).splitlines()
    except OSError:
        return False
    marks = tuple(b"#;@!$%^&|:") if comment == "auto" else ()
    starts = tuple(bytes([m]) for m in marks) or (comment.encode(),)
    return any(line.startswith(starts) for line in lines)
