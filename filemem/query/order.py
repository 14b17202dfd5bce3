"""Known order: what the history of decisions says about the places of hits, whatever their scores.

Rule: a superseded decision never stands above the decision that holds instead of it. The hits of
one chain stand together at the place of the best of them: what holds today first (brought in if the
query did not find it), the newest of what led there after it, three in all; what is left out is
counted. A decision whose status is not understood stands behind all else. Everything else keeps its
place.
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
    worth: float = 0.0  # the score of the best found of its chain


def arrange(
    scored: Iterable[Scored],
    facts: Mapping[str, Facts],
    *,
    unclear: Collection[str] = (),
    may_bring: Callable[[str], bool] = lambda _: True,
    may_show: Callable[[str], bool] = lambda _: True,
    limit: int | None = None,
) -> tuple[Placed, ...]:
    """Return the places of an answer, best first.

    `scored` has each record once, `facts` are those of the decisions among them. `unclear` are
    those whose status is not understood. `may_bring`: whether a head that was not found satisfies
    the filter. `may_show`: whether what was found is for more than to lead to what holds.
    """
    by_id = {row.id: row for row in sorted(scored, key=attrgetter("rank"))}
    last = [node for node in by_id if node in unclear and may_show(node)]
    placed: list[Placed] = []
    for group in _groups(by_id, facts):
        if limit is not None and len(placed) >= limit:
            break
        members = {node: facts.get(node, NO_FACTS) for node in group}
        placed += _of_one_chain(members, by_id, unclear, may_bring, may_show)
    least = min((place.worth for place in placed), default=1.0)
    placed += [Placed(node, by_id[node], 0, min(least, by_id[node].scores.final)) for node in last]
    return tuple(placed[:limit])


def is_unclear(node: Node) -> bool:
    """Whether the status of a decision is there and is not understood."""
    return node.type == DECISION and node.status == UNKNOWN


def _groups(nodes: Iterable[str], facts: Mapping[str, Facts]) -> list[list[str]]:
    """Put together what shares a topic or a head; groups and members stay in order."""
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for node in nodes:
        for other in facts.get(node, NO_FACTS).ties:
            if other != node:
                leader[lead(other)] = lead(node)
    groups: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        groups[lead(node)].append(node)
    return list(groups.values())


def _of_one_chain(
    members: Mapping[str, Facts],
    by_id: Mapping[str, Scored],
    unclear: Collection[str],
    may_bring: Callable[[str], bool],
    may_show: Callable[[str], bool],
) -> list[Placed]:
    live = _live(members)
    visible = [node for node in members if may_show(node)]
    heads = [node for node in visible if node in live]
    missing = [node for node in live if node not in by_id and may_bring(node)]
    heads += missing[: max(0, MOST_OF_A_CHAIN - len(heads))]
    others = [node for node in visible if node not in live and node not in unclear]
    others.sort(key=lambda node: by_id[node].created, reverse=True)
    kept = others[: max(0, MOST_OF_A_CHAIN - len(heads))]
    earlier = len(others) - len(kept)
    worth = by_id[next(iter(members))].scores.final
    placed = [Placed(node, by_id.get(node), worth=worth) for node in (*heads, *kept)]
    return [place._replace(earlier=earlier) for place in placed[:1]] + placed[1:]


def _live(members: Mapping[str, Facts]) -> Collection[str]:
    """Return the heads of decisions in order, and every head of a forked topic."""
    live: dict[str, None] = {}
    for node, facts in members.items():
        if node in facts.heads or facts.superseded_by:
            live.update(dict.fromkeys((*facts.heads, *facts.forked)))
    return live
