"""Where HEAD is, in any work tree: what the files of its Git directory tell, without a process."""

from __future__ import annotations

from pathlib import Path

BRANCHES = "refs/heads/"
ELSEWHERE = "refs/heads/.invalid"  # what HEAD names where refs are not kept in files


def pointed(git_dir: Path) -> str:
    """What HEAD names: a ref by its whole name, or a commit where it is detached. Raises OSError."""
    return (git_dir / "HEAD").read_text(errors="surrogateescape").strip().removeprefix("ref: ")


def branch(git_dir: Path) -> str:
    """The branch that a work tree has; "" where HEAD is detached or cannot be read."""
    try:
        found = pointed(git_dir)
    except OSError:
        return ""
    return found.removeprefix(BRANCHES) if found.startswith(BRANCHES) else ""
