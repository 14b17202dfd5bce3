"""What commit messages say of a decision: it was reverted, or somebody wrote down what came of it. Pure.

Rule: evidence is shown and never acted upon. It comes from commits alone, so nothing that a record says can make it or
take it away; what answers it is an outcome that a later commit records.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from filemem.record import OUTCOMES, parse_outcome

# What `git revert` writes below the subject, and what the button of a forge leaves of it in the subject.
_REVERTS = r"(?m)^This reverts commit ([0-9a-f]{7,64})(?:,\s+reversing\s+changes\s+made\s+to\s+([0-9a-f]{7,64}))?"
_TITLE = r'^(Revert|Reapply) "(.*)"(?: \(#\d+\))?$'
_LINE = r"(?mi)^[ \t]*Decision:(.+)$"  # also as a squash quotes it
_SHOWN = 60  # characters of a trailer that a message cites
_UNSURE = "an Outcome stands before every Decision, and another follows"


class Said(NamedTuple):
    """What the `Decision:` and `Outcome:` trailers of a commit say.

    Args:
        names: what they call decisions, each as it is written: one name, or several.
        outcomes: names, each with what came of that decision, as a word of the format, and why; "" for the first where
            the commit carries it out and says no more.
        unclear: the other names, each with the reason why what came of it cannot be told.
    """

    names: tuple[str, ...] = ()
    outcomes: tuple[tuple[str, str, str], ...] = ()
    unclear: tuple[tuple[str, str], ...] = ()


class Claim(NamedTuple):
    """A commit whose message concerns decisions or other commits.

    Args:
        commit, at, author, subject: the commit; `at` in epoch milliseconds.
        reverts: full ids of the commits that it reverts, as far as they are written and on this branch; of a merge,
            all that it brought.
        said: what its trailers say.
        aside: what each `Decision:` line says that is no trailer: it stands not in the last block of the message.
    """

    commit: str
    at: int
    author: str
    subject: str
    reverts: tuple[str, ...] = ()
    said: Said = Said()
    aside: tuple[str, ...] = ()

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


def said(trailers: Iterable[tuple[str, str]]) -> Said:
    """Read the trailers of a commit: of a decision is the `Outcome:` that comes next, or the only one, if that leads.

    Args:
        trailers: keys and values of `Decision:` and `Outcome:`, as they follow each other.
    """
    groups: list[tuple[list[str], list[str]]] = [([], [])]  # decisions, and the outcomes after them
    for key, value in trailers:
        if key.casefold() == "outcome":
            groups[-1][1].append(value)
            continue
        if groups[-1][1]:
            groups.append(([], []))
        groups[-1][0].extend([value] if words(value) else [])
    (first, leading), *more = groups
    if not first and [after for _, after in more] == [[]]:
        groups = [(more[0][0], leading)]
    texts: dict[str, list[str]] = {}
    for names, after in groups:
        for name in names:
            texts.setdefault(name, []).extend(after)
    unsure = not groups[0][0] and _UNSURE
    told = {name: ("", "", unsure) if unsure else _outcome(after) for name, after in texts.items()}
    return Said(
        tuple(told),
        tuple((name, outcome, reason) for name, (outcome, reason, unclear) in told.items() if not unclear),
        tuple((name, unclear) for name, (*_, unclear) in told.items() if unclear),
    )


def words(names: str) -> list[str]:
    """The words of what a trailer calls decisions."""
    return names.replace(",", " ").split()


def carried_out(together: Iterable[Said]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What commits that come together name and carry out, and of what one of them says failed, or nothing clear.

    Args:
        together: what each of them says.
    """
    told = list(together)
    names = dict.fromkeys(name for one in told for name, *_ in one.outcomes)
    not_so = dict.fromkeys(name for one in told for name, outcome, _ in one.outcomes if outcome == "failed")
    not_so |= dict.fromkeys(name for one in told for name, _ in one.unclear)
    return tuple(name for name in names if name not in not_so), tuple(not_so)


def _outcome(texts: Sequence[str]) -> tuple[str, str, str]:
    """The outcome that some trailers state and the reason after a colon; third why none can be told, else ""."""
    parts = {text: text.partition(":")[::2] for text in texts}
    told = {text: (parse_outcome(word), reason.strip()) for text, (word, reason) in parts.items()}
    if unread := [text for text, (word, _) in told.items() if word is None]:
        return "", "", f"{unread[0][:_SHOWN]!r} is none of {', '.join(OUTCOMES)}"
    found = list(dict.fromkeys(word for word, _ in told.values() if word))
    if len(found) > 1:
        return "", "", f"it says {' and '.join(found)}"
    return next(iter(found), ""), "; ".join(dict.fromkeys(reason for _, reason in told.values() if reason)), ""


def aside(body: str, trailers: Said) -> tuple[str, ...]:
    """What each `Decision:` line of a message says that is none of its trailers.

    Args:
        body: the message below its subject.
        trailers: what its trailers say.
    """
    known = {word for one in trailers.names for word in words(one)}
    lines = dict.fromkeys(" ".join(line.split()) for line in re.findall(_LINE, body))
    return tuple(line for line in lines if not known.issuperset(words(line)))


def reverted(body: str) -> tuple[tuple[str, str], ...]:
    """The ids of the commits that a message says it reverts, each with the side of a merge that is left, or ""."""
    return tuple(re.findall(_REVERTS, body))


def evidence(names: Collection[str], carriers: Mapping[str, str], claims: Sequence[Claim]) -> tuple[Evidence, ...]:
    """What the claims say of one decision, each by the commit since which it is so, in the order of these.

    Args:
        names: ids that mean the decision.
        carriers: the commits that brought it, by id, each with its subject.
        claims: every claim on this branch, each after all that it descends from.
    """
    carried, known = dict(carriers), frozenset(names)
    found: list[tuple[int, Evidence]] = []
    for place, claim in enumerate(claims):
        outcomes = _spoken(claim.said, known)
        carried |= {claim.commit: claim.subject} if "" in outcomes else {}
        outcome = next(filter(None, outcomes), "")
        reverts = not outcome and _reverts_any(claim, carried)
        if (outcome or reverts) and (at := _in_force(claims, place)) is not None:
            since = claims[at]
            cited = f"{claim.commit[:10]} says so: {outcomes[outcome] or claim.subject}" if outcome else ""
            text = cited or f"reverted in {since.commit[:10]}"
            found.append((at, Evidence(outcome or "failed", since.commit, since.at, since.author, text)))
    return tuple(one for _, one in sorted(found, key=lambda placed: placed[0]))


def _spoken(told: Said, names: frozenset[str]) -> dict[str, str]:
    """What a commit says came of a decision, each with the reason; nothing where two that it says differ."""
    outcomes = {outcome: reason for name, outcome, reason in told.outcomes if name in names}
    unclear = any(name in names for name, _ in told.unclear) or len([one for one in outcomes if one]) > 1
    return {} if unclear else outcomes


def _in_force(claims: Sequence[Claim], place: int) -> int | None:
    """The place of the claim since which one is in force: its own, or the last's that took back what had taken it back.

    None where it is not. By what came later, whatever clocks say.
    """
    own = claims[place]
    family = {own.commit: own.subject}
    takers: list[tuple[str, list[str]]] = []
    since: int | None = place
    for at, other in enumerate(claims[place + 1 :], start=place + 1):
        taken = [commit for commit, subject in family.items() if _reverts_any(other, {commit: subject})]
        if taken:
            takers.append((other.commit, taken))
            family[other.commit] = other.subject
            if own.commit in _fallen(takers):
                since = None
            elif since is None:
                since = at
    return since


def _fallen(takers: Sequence[tuple[str, Collection[str]]]) -> set[str]:
    """The commits that are taken back; `takers` after what they take, each with that."""
    fallen: set[str] = set()
    for taker, taken in reversed(takers):
        if taker not in fallen:
            fallen.update(taken)
    return fallen


def _reverts_any(claim: Claim, commits: Mapping[str, str]) -> bool:
    """Whether a claim takes back one of some commits: by id, or where it gives none by subject."""
    if claim.reverts:
        return not commits.keys().isdisjoint(claim.reverts)
    return bool(claim.title) and claim.title in commits.values()
