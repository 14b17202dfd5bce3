"""Why a commit must wait: the user is in the middle of something of theirs. Read from Git's own marker files.

Moving HEAD under a rebase or a merge loses work when it is aborted; under an open commit editor, or beside a command
that has read HEAD already, it makes the user's commit fail.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from filemem.repo.discovery import Places
from filemem.repo.head import BRANCHES
from filemem.repo.processes import Mover
from filemem.repo.settings import Settings

EDITOR_LIMIT = 600.0  # seconds; an editor that was left without a commit looks the same as one that is open
MERGING = "a merge is in progress"
_MARKERS = (
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply/applying", "git am is in progress"),
    ("rebase-apply", "a rebase is in progress"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
    ("sequencer", "a cherry-pick or revert is in progress"),
    ("MERGE_HEAD", MERGING),
    ("BISECT_LOG", "a bisect is in progress"),
)
_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "pre-merge-commit")  # between reading HEAD and moving it
_LOOK = 0.01  # seconds between two looks for a command at work
_MAX_MESSAGE = 1 << 16  # bytes of a commit message looked at


def reason(
    places: Places,
    settings: Settings,
    branch: str | None,
    tip: str,
    mover: Callable[[], Mover | None],
    now: float,
    patience: float,
) -> str:
    """Why commits must wait now, or "".

    Args:
        places: the repository.
        settings: its configuration.
        branch: what HEAD points to, None where it is detached.
        tip: the commit that HEAD is at; "" if that is not known.
        mover: looks for the Git command of the user's that is about to move HEAD.
        now: seconds since the epoch.
        patience: seconds to wait for that command.
    """
    waiting = partial(_waiting, places, branch, settings.text("core.commentchar") or "#", now)
    slow = settings.signing is not None  # the user's commits wait for a passphrase, as ours do
    hooks = settings.text("core.hookspath") or ""
    if not (found := waiting()) and (slow or _may_be_moving(places, hooks, tip)):
        found = _at_work(places, mover, patience) or waiting()
    return found


def _waiting(places: Places, branch: str | None, comment: str, now: float) -> str:
    """What the user is in the middle of, or ""; `comment` begins Git's comment lines ("auto" for any)."""
    for name, operation in _MARKERS:
        if (places.git_dir / name).exists():
            return operation
    if branch is None:
        return "HEAD is detached"
    if _editor_open(places.git_dir, comment, now):
        return "a commit message is being edited"
    return ""


def _may_be_moving(places: Places, hooks_path: str, tip: str) -> bool:
    """Whether a command of the user's may have read HEAD and not moved it yet: a few stats, to spare a look for it.

    That takes it long where it runs hooks; and a merge of many files, which notes in ORIG_HEAD that it has begun.
    """
    if tip and _merged_from(places) == tip:
        return True
    folder = places.work_tree / Path(hooks_path).expanduser() if hooks_path else places.common_dir / "hooks"
    return any((folder / name).exists() for name in _HOOKS)


def _at_work(places: Places, mover: Callable[[], Mover | None], patience: float) -> str:
    """Say which command of the user's is at work, after some seconds of waiting for its end; "" for none.

    One that waits for us is not waited for.
    """
    stop = time.monotonic() + patience
    while True:
        noted = _merged_from(places)
        found = mover()
        if found is None and noted == _merged_from(places):  # none began while we looked
            return ""
        if found and (found.waits_for_us or time.monotonic() >= stop):
            return f"{found.name} is at work here"
        time.sleep(_LOOK if found else 0)


def _merged_from(places: Places) -> str:
    """The commit that HEAD was at when the last merge or reset began; "" for none."""
    try:
        return (places.git_dir / "ORIG_HEAD").read_text(errors="replace").strip()
    except OSError:
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
