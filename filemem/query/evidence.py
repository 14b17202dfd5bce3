"""What commit messages say of a decision: it was reverted, or somebody wrote down what came of it. Pure.

Rule: evidence is shown and never acted upon. It comes from commits alone, so nothing that a record says can make it or
take it away; what answers it is an outcome that a later commit records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

# What `git revert` writes below the subject, and what the button of a forge leaves of it in the subject.
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{7,64})", re.MULTILINE)
_TITLE = re.compile(r'^Revert "(.*)"(?: \(#\d+\))?$')
SHORTEST = 7  # characters of an abbreviated commit id


class Claim(NamedTuple):
    """A commit whose message concerns decisions or other commits.

    Args:
        commit, at, author, subject: the commit; `at` in epoch milliseconds.
        reverts: ids of the commits that it reverts, as far as they are written.
        decisions: what its `Decision:` trailers name.
        outcome: what its `Outcome:` trailer says, as a word of the format; "" for none.
    """

    commit: str
    at: int
    author: str
    subject: str
    reverts: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    outcome: str = ""

    @property
    def title(self) -> str:
        """The subject of the commit that it takes back, by its own subject; "" if it takes none back."""
        found = _TITLE.match(self.subject)
        return found[1] if found else ""


class Evidence(NamedTuple):
    """What history says came of a decision; `at` in epoch milliseconds."""

    outcome: str
    commit: str
    at: int
    author: str
    text: str

    def __str__(self) -> str:
        return f"possibly {self.outcome}: {self.text}"


def reverted(body: str) -> tuple[str, ...]:
    """The ids of the commits that a message says it reverts."""
    return tuple(_REVERTS.findall(body))


def evidence(names: Collection[str], carriers: Mapping[str, str], claims: Sequence[Claim]) -> tuple[Evidence, ...]:
    """What the claims say of one decision, oldest first.

    Args:
        names: ids that mean the decision.
        carriers: the commits that brought it, by id, each with its subject.
        claims: every claim on this branch.
    """
    naming = [claim for claim in claims if not set(names).isdisjoint(claim.decisions)]
    carried = {**carriers, **{one.commit: one.subject for one in naming if not one.outcome}}
    found = [
        Evidence("failed", claim.commit, claim.at, claim.author, f"reverted in {claim.commit[:10]}")
        for claim in claims
        if _reverts_any(claim, carried) and not _taken_back(claim, claims)
    ]
    found += [
        Evidence(claim.outcome, claim.commit, claim.at, claim.author, f"{claim.commit[:10]} says so: {claim.subject}")
        for claim in naming
        if claim.outcome and not _taken_back(claim, claims)
    ]
    return tuple(sorted(found, key=lambda one: (one.at, one.commit)))


def _taken_back(claim: Claim, claims: Iterable[Claim]) -> bool:
    own = {claim.commit: claim.subject}
    return any(other is not claim and other.at >= claim.at and _reverts_any(other, own) for other in claims)


def _reverts_any(claim: Claim, commits: Mapping[str, str]) -> bool:
    """Whether a claim takes back one of some commits: by id, or where it gives none by subject."""
    if claim.reverts:
        return any(commit.startswith(one) for one in claim.reverts for commit in commits)
    return bool(claim.title) and claim.title in commits.values()
