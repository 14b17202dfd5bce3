"""Known order: what the history of decisions says about the places of hits, whatever their scores say.

Rule: a superseded decision never stands above the decision that holds instead of it. The hits of one chain stand
together at the place of the best of them: what holds today first (brought in where the query did not find it),
the newest of what led there after it, three in all; what is left out is counted. A decision whose status is not
understood stands behind all else. Everything else keeps its place.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from filemem.chain import NO_FACTS, Facts, Node
from filemem.query.score import Scored
from filemem.record import DECISION, UNKNOWN

MOST_OF_A_CHAIN = 3


class Placed(NamedTuple):
    """One place in the answer."""

    id: str  # the record
    scored: Scored | None  # None where it holds for a record that was found: the caller loads it
    earlier: int = 0  # found of the same chain and left out; stated on its newest alone
    worth: float = 0.0  # the score of the best found of its chain: one place, one score, however much of it is shown


def arrange(
    scored: Iterable[Scored],  # each record once
    known: Mapping[str, Facts],  # of the decisions among them
    *,
    unclear: Collection[str] = (),  # those whose status is not understood
    may_bring: Callable[[str], bool] = lambda _: (
        True
    ),  # whether a head that was not found satisfies the filter
    may_show: Callable[[str], bool] = lambda _: (
        True
    ),  # whether what was found is for more than to lead to what holds
    limit: int | None = None,
) -> tuple[Placed, ...]:
    """Return the places of an answer, best first."""
    found = {each.id: each for each in sorted(scored, key=attrgetter("rank"))}
    last = [node for node in found if node in unclear and may_show(node)]
    placed: list[Placed] = []
    for members in _groups(found, known):
        if limit is not None and len(placed) >= limit:
            break
        facts = {node: known.get(node, NO_FACTS) for node in members}
        placed += _of_one_chain(facts, found, unclear, may_bring, may_show)
    least = min((place.worth for place in placed), default=1.0)
    placed += [Placed(node, found[node], 0, min(least, found[node].scores.final)) for node in last]
    return tuple(placed[:limit])


def is_unclear(node: Node) -> bool:
    """Whether the status of a decision is there and is not understood."""
    return node.type == DECISION and node.status == UNKNOWN


def _groups(found: Iterable[str], known: Mapping[str, Facts]) -> list[list[str]]:
    """Put together what shares a topic or a head; groups and members in the order of `found`."""
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for node in found:
        for other in known.get(node, NO_FACTS).ties:
            if other != node:
                leader[lead(other)] = lead(node)
    groups: dict[str, list[str]] = defaultdict(list)
    for node in found:
        groups[lead(node)].append(node)
    return list(groups.values())


def _of_one_chain(
    members: Mapping[str, Facts],
    found: Mapping[str, Scored],
    unclear: Collection[str],
    may_bring: Callable[[str], bool],
    may_show: Callable[[str], bool],
) -> list[Placed]:
    live: dict[str, None] = {}  # their own heads, and every head of a forked topic
    for node, facts in members.items():
        if node in facts.heads or facts.superseded_by:
            live.update(dict.fromkeys((*facts.heads, *facts.forked)))
    heads = [node for node in members if node in live and may_show(node)]
    missing = [node for node in live if node not in found and may_bring(node)]
    heads += missing[: max(0, MOST_OF_A_CHAIN - len(heads))]
    others = [
        node for node in members if node not in live and node not in unclear and may_show(node)
    ]
    others.sort(key=lambda node: found[node].created, reverse=True)
    kept = others[: max(0, MOST_OF_A_CHAIN - len(heads))]
    earlier = len(others) - len(kept)
    worth = found[next(iter(members))].scores.final
    return [
        Placed(node, found.get(node), 0 if at else earlier, worth)
        for at, node in enumerate([*heads, *kept])
    ]
