"""What commit messages say of a decision: it was reverted, or somebody wrote down what came of it. Pure.

Rule: evidence is shown and never acted upon. It comes from commits alone, so nothing that a record says can make it or
take it away; what answers it is an outcome that a later commit records.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

# What `git revert` writes below the subject, and what the button of a forge leaves of it in the subject.
_REVERTS = r"(?m)^This reverts commit ([0-9a-f]{7,64})(?:,\s+reversing\s+changes\s+made\s+to\s+([0-9a-f]{7,64}))?"
_TITLE = r'^(Revert|Reapply) "(.*)"(?: \(#\d+\))?$'


class Claim(NamedTuple):
    """A commit whose message concerns decisions or other commits.

    Args:
        commit, at, author, subject: the commit; `at` in epoch milliseconds.
        reverts: full ids of the commits that it reverts, as far as they are written and on this branch; of a merge,
            all that it brought.
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
        found = re.match(_TITLE, self.subject)
        if not found:
            return ""
        return found[2] if found[1] == "Revert" else f'Revert "{found[2]}"'


class Evidence(NamedTuple):
    """What history says came of a decision; `at` in epoch milliseconds."""

    outcome: str
    commit: str
    at: int
    author: str
    text: str

    def __str__(self) -> str:
        return f"possibly {self.outcome}: {self.text}"


def reverted(body: str) -> tuple[tuple[str, str], ...]:
    """The ids of the commits that a message says it reverts, each with the side of a merge that is left, or ""."""
    return tuple(re.findall(_REVERTS, body))


def evidence(names: Collection[str], carriers: Mapping[str, str], claims: Sequence[Claim]) -> tuple[Evidence, ...]:
    """What the claims say of one decision, oldest first.

    Args:
        names: ids that mean the decision.
        carriers: the commits that brought it, by id, each with its subject.
        claims: every claim on this branch, each after all that it descends from.
    """
    carried, known = dict(carriers), frozenset(names)
    found = []
    for place, claim in enumerate(claims):
        said, name = "", claim.commit[:10]
        if not known.isdisjoint(claim.decisions):
            said = f"{name} says so: {claim.subject}" if claim.outcome else ""
            carried |= {} if claim.outcome else {claim.commit: claim.subject}
        outcome = claim.outcome if said else "failed"
        said = said or (f"reverted in {name}" if _reverts_any(claim, carried) else "")
        if said and _stands(claims, place):
            found.append(Evidence(outcome, claim.commit, claim.at, claim.author, said))
    return tuple(found)


def _stands(claims: Sequence[Claim], place: int) -> bool:
    """Whether a claim was not taken back, or what took it back was itself: by what came later, whatever clocks say."""
    family = {claims[place].commit: claims[place].subject}
    takers: list[tuple[str, list[str]]] = []
    for other in claims[place + 1 :]:
        taken = [commit for commit, subject in family.items() if _reverts_any(other, {commit: subject})]
        if taken:
            takers.append((other.commit, taken))
            family[other.commit] = other.subject
    fallen: set[str] = set()
    for taker, taken in reversed(takers):
        if taker not in fallen:
            fallen.update(taken)
    return claims[place].commit not in fallen


def _reverts_any(claim: Claim, commits: Mapping[str, str]) -> bool:
    """Whether a claim takes back one of some commits: by id, or where it gives none by subject."""
    if claim.reverts:
        return not commits.keys().isdisjoint(claim.reverts)
    return bool(claim.title) and claim.title in commits.values()
