"""What of other branches is no edit of a file as it is here: what its first commit brought as well.

Rule: a squash or a cherry-pick brings a text at once; the commits in which another branch came to that text are no
edits of it, whenever that branch is merged. What it says tells them apart, not when they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from filemem.repo.git import LONG, Git
from filemem.repo.lives import Revision, Same

if TYPE_CHECKING:
    from filemem.repo.history import History


def side_by_side(told: Sequence[Revision]) -> bool:
    """Whether several branches added the file of these versions, newest first."""
    return any(not one.old and one.blob and below.blob for one, below in pairwise(told))


def since_it_came(history: History, told: Sequence[Revision], first: str, same: Same) -> Sequence[Revision]:
    """The versions of a file without those that led to what its first commit brought.

    Args:
        history: where they are told from.
        told: newest first; the first commit may be missing, where they came by another branch.
        first: the first commit.
        same: knows what versions say.
    """
    there = history.entries({one.path for one in told}, first)
    version = next((there[one.path] for one in reversed(told) if one.path in there), "")
    after = _listed(history.git, "--ancestry-path", history.tip, f"^{first}")
    edits = [one for one in told if one.old and one.blob and one.commit.id not in after]
    brought = [one.commit.id for one in edits if version and same.includes(one.path, version, one.old, one.blob)]
    led = _listed(history.git, *brought, f"^{first}") if brought else frozenset()
    passed_over = {one.commit.id for one in edits} & led
    return [one for one in told if one.commit.id not in passed_over]


def _listed(git: Git, *asked: str) -> frozenset[str]:
    return frozenset(git.run("rev-list", *asked, "--", limit=LONG).decode().split())
