"""Commits and what they did to files, as Git's log and the trailers of messages say."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from filemem.repo import log

IMPORTED = "Imported-From"  # the trailer that `memory.ingest` writes: the system
REVERTS = "Reverts"  # the trailer that stands for "This reverts commit X." in a message
# A commit can state any number of names of any length:
MAX_NAME_SIZE = 200  # characters of a name that are read
MAX_NAMES = 20  # names of one kind that are read
MAX_EDITS = 5  # of a file, the newest
_REVERT = re.compile(
    r"(?m)^This reverts commit (\w{40,64})(?:,\s+reversing\s+changes\s+made\s+to\s+(\w{40,64}))?"
)


class Commit(NamedTuple):
    """A commit, and what its trailers say; they include (`REVERTS`, id) for each revert."""

    id: str
    parents: tuple[str, ...]
    author: str
    at: int  # when it was made, epoch ms
    subject: str
    agent: str = ""
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()


class Touch(NamedTuple):
    """What a commit did to a file; "" for what does not apply."""

    commit: Commit
    kind: str  # A, M, D or R
    path: str
    old_path: str  # before a rename
    old_blob: str
    new_blob: str


def parse_trailers(trailers: str) -> tuple[tuple[str, str], ...]:
    """Parse the trailers of a commit, as in its header, into keys and values."""
    pairs = []
    for part in trailers.split("\x1f"):
        key, _, value = part.partition("\x1e")
        line = " ".join(value.split())
        if line:
            pairs.append((key.strip(), line))
    return tuple(pairs)


def add_reverts(header: log.CommitHeader) -> str:
    """Return the trailers of a commit, with one for each commit that its message reverts."""
    trailers = header.trailers
    for reverted_id, side in _REVERT.findall(header.body):
        trailers = f"{trailers}\x1f{REVERTS}\x1e{reverted_id} {side}".strip("\x1f ")
    return trailers


def has_decision(trailers: str) -> bool:
    """Whether a commit names a decision or reverts something."""
    for key, _ in parse_trailers(trailers):
        if key == REVERTS or key.lower() in ("decision", "outcome"):
            return True
    return False


def collect_values(trailers: Iterable[tuple[str, str]], wanted_key: str) -> tuple[str, ...]:
    """Collect the values of the trailers with a key, given in lower case."""
    values = [value[:MAX_NAME_SIZE] for key, value in trailers if key.lower() == wanted_key]
    return tuple(values[:MAX_NAMES])


def build_provenance(
    touches: Sequence[Touch],
    boundary: Container[str],
    branch: str,
    default: str,
    landing: Commit | None,
) -> dict[str, Any]:
    """Build the fields of a `Provenance`: who wrote a file.

    Args:
        touches: what commits did to the file, newest first.
        boundary: the commits at which a shallow clone ends.
        branch: the current branch.
        default: the default branch; "" for none.
        landing: what brought the file to the default branch; None for nothing.
    """
    first_commit = touches[-1].commit
    if first_commit.id in boundary:  # the clone lacks the commit that names the author
        return {"commit": touches[0].commit.id}
    changes = [touch.commit for touch in touches if touch.old_blob != touch.new_blob]
    edits = [commit for commit in changes if commit.id != first_commit.id]
    newest_edits = edits[:MAX_EDITS]
    is_merged = None
    if default:
        is_merged = landing is not None or default == branch
    return {
        "author": first_commit.author,
        "agent": first_commit.agent,
        "commit": first_commit.id,
        "date": first_commit.at,
        "branch": branch,
        "default": default,
        "merged": is_merged,
        "landed": landing.at if landing else None,
        "reviewers": first_commit.reviewers,
        "co_authors": first_commit.co_authors,
        "edits": tuple(reversed(newest_edits)),
    }
