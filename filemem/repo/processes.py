"""Which Git commands run in this work tree, as far as the system tells: Linux does, in `/proc`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from filemem.repo.discovery import Places
from filemem.repo.refs import REFLOG

_PROC = Path("/proc")
_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds; no start of a process is known better
_MOVERS = frozenset(
    {"am", "checkout", "cherry-pick", "commit", "merge", "rebase", "reset", "revert", "stash", "switch"}
)
_WITH_VALUE = frozenset({b"-c", b"-C", b"--git-dir", b"--work-tree", b"--namespace", b"--exec-path", b"--config-env"})


class Mover(NamedTuple):
    """A Git command of the user's that will move HEAD, or change index and files together.

    Args:
        name: as the user knows it, such as "git merge".
        waits_for_us: whether it runs a hook that we are part of: it does not end before we do.
    """

    name: str
    waits_for_us: bool


def git_at_work(places: Places) -> bool:
    """Whether some Git command may be running here; yes where it cannot be known."""
    if not (_PROC / "self/cwd").exists():
        return True
    for pid in _gits():
        try:
            at = _folder(pid)
            if (at.is_relative_to(places.work_tree) or at.is_relative_to(places.common_dir)) and not _is_helper(pid):
                return True
        except OSError:
            continue
    return False


def mover(places: Places) -> Mover | None:
    """The command that is about to move HEAD of this work tree; None for none, and where it cannot be known.

    One that has moved it, and runs us as its last hook, is past. Git works from the top of the work tree.
    """
    for pid in _gits():
        try:
            if _folder(pid) == places.work_tree and (verb := _verb(pid)) in _MOVERS:
                above = _is_above(pid)
                if not (above and _has_moved(places, pid)):
                    return Mover(f"git {verb}", above)
        except (OSError, ValueError, IndexError):
            continue
    return None


def _gits() -> list[str]:
    found = []
    try:
        pids = [name for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        try:
            if (_PROC / pid / "comm").read_bytes().startswith(b"git"):
                found.append(pid)
        except OSError:
            continue
    return found


def _folder(pid: str) -> Path:
    return Path(os.readlink(_PROC / pid / "cwd"))  # noqa: PTH115 - Path.readlink is the same


def _words(pid: str) -> list[bytes]:
    return (_PROC / pid / "cmdline").read_bytes().split(b"\0")


def _is_helper(pid: str) -> bool:
    """Whether a process is one of filemem's lasting readers and ref movers: idle whenever we hold the save lock."""
    arguments = _words(pid)
    return b"cat-file" in arguments or REFLOG.encode() in arguments


def _verb(pid: str) -> str:
    """What a Git process was asked to do: its first word that is neither an option nor an option's value."""
    words = iter(_words(pid)[1:])
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith(b"-"):
            return word.decode("utf-8", "replace")
    return ""


def _has_moved(places: Places, pid: str) -> bool:
    """Whether HEAD was moved since a process was started, and not by us."""
    try:
        log = places.git_dir / "logs" / "HEAD"
        if log.stat().st_mtime < _begun(pid) + _TICK:  # where both fall into one tick it may have moved before
            return False
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            return not file.read().rstrip().endswith(b"\t" + REFLOG.encode())
    except OSError:
        return False


def _begun(pid: str) -> float:
    """When a process was started, in seconds since the epoch."""
    since_boot = int(_stat(pid)[19]) * _TICK
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def _is_above(pid: str) -> bool:
    """Whether a process is one of those that started us."""
    above = str(os.getppid())
    while above not in ("0", "1", pid):
        above = _stat(above)[1]
    return above == pid


def _stat(pid: str) -> list[str]:
    """The fields of a process behind its name, which may hold anything: state, parent, and so on."""
    return (_PROC / pid / "stat").read_text().rpartition(")")[2].split()
