"""Records written by hand and committed, for tests of snapshots: no save, no index, so that they cost little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filemem.memory.store import Store
from tests.support import git, write


@contextmanager
def opened(repo: Path, store: str | None = None) -> Iterator[Store]:
    """The parts of a memory."""
    parts = Store(repo, store)
    try:
        yield parts
    finally:
        parts.close()


def commit(repo: Path, subject: str = "Change", **environment: Any) -> str:
    """Commit all there is; returns the id."""
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", subject, **environment)
    return git(repo, "rev-parse", "HEAD")


def day(number: int) -> dict[str, Any]:
    """The environment of a commit on a day of January 2025."""
    at = f"2025-01-{number:02d}T12:00:00Z"
    return {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


def decision(
    repo: Path, name: str, topic: str, *supersedes: str, created: int = 1, **keys: str
) -> Path:
    """Write a decision called after its file, made on a day of January 2025; not committed.

    Args:
        repo: the repository.
        name: of the file, and the end of the id `decision_NAME`.
        topic: of the decision.
        supersedes: names of what it replaces.
        created: the day.
        keys: further keys of the header.
    """
    header = {
        "id": f"decision_{name.rpartition('/')[2]}",
        "type": "decision",
        "created": f'"2025-01-{created:02d}T12:00:00.000Z"',
        "supersedes": f"[{', '.join(f'decision_{one}' for one in supersedes)}]",
        "topic": topic,
        **keys,
    }
    rows = "".join(f"{key}: {value}\n" for key, value in header.items())
    words = "".join(
        f"Line {number} of {name}, which stands in {name} and nowhere else.\n"
        for number in range(9)
    )
    return write(
        repo / f"memory/decisions/{name}.md",
        f"---\n{rows}---\n# Use {name.rpartition('/')[2]}\n\n{words}",
    )


def reword(path: Path, old: str, new: str) -> None:
    """Change words in a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
