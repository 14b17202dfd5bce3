"""Whose an id is where several files claim it: the file's that was there first.

Rule: first is what landed first, told by the ancestry of commits alone. A commit may bear any date and a record may
state any; neither takes an id away from a file that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from filemem.repo.history import History

Landing = Callable[[Collection[str]], Mapping[str, int]]  # commits -> the place of each, earlier ones first


class Claim(NamedTuple):
    """A file that states an id: its path, its first commit ("" where there is none yet), when it says it was made."""

    id: str
    path: str
    commit: str
    created: int


def owners(claims: Iterable[Claim], landing: Landing) -> dict[str, str]:
    """Return the path of the file that each id belongs to.

    Args:
        claims: every file's.
        landing: asked only where an id is claimed twice.
    """
    by_id: dict[str, list[Claim]] = {}
    for claim in claims:
        by_id.setdefault(claim.id, []).append(claim)
    contested = {claim.commit for several in by_id.values() if len(several) > 1 for claim in several}
    order = landing(contested - {""}) if len(contested) > 1 else {}

    def age(claim: Claim) -> tuple[bool, int, int, str]:
        """What is committed is older than what is not; what came in one commit is told apart by path alone."""
        if not claim.commit:
            return True, 0, claim.created, claim.path
        return False, order.get(claim.commit, len(order)), 0, claim.path

    return {each: min(several, key=age).path for each, several in by_id.items()}


def landing(*histories: History) -> Landing:
    """Place commits by when they landed in the first of some histories that has them; what is in none comes last."""

    def places(commits: Collection[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for history in histories:
            for commit in history.landed(set(commits) - found.keys()):
                found[commit] = len(found)
        return found

    return places
