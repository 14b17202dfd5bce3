"""Known order: what the history of decisions says about the places of hits, whatever their scores say.

Rule: a superseded decision never stands above the decision that holds instead of it. The hits of one chain stand
together at the place of the best of them: what holds today first (brought in where the query did not find it),
the newest of what led there after it, three in all; what is left out is counted. A decision whose status is not
understood stands behind all else. Everything else keeps its place.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from filemem.chain import Graph, Node
from filemem.query.score import Scored
from filemem.record import UNKNOWN
from filemem.tuples import NamedTuple

MOST_OF_A_CHAIN = 3


class Placed(NamedTuple):
    """One place in the answer."""

    id: str  # the record
    scored: Scored | None  # None where it holds for a record that was found: the caller loads it
    earlier: int = 0  # found of the same chain and left out; stated on its newest alone
    worth: float = 0.0  # the score of the best found of its chain: one place, one score, however much of it is shown


def arrange(
    scored: Iterable[Scored],  # each record once
    known: Graph,  # of the decisions among them
    *,
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
    unclear = [node for node in found if is_unclear(known.nodes.get(node)) and may_show(node)]
    placed: list[Placed] = []
    for members in _groups(found, known):
        if limit is not None and len(placed) >= limit:
            break
        placed += _of_one_chain(members, found, known, may_bring, may_show)
    least = min((place.worth for place in placed), default=1.0)
    placed += [
        Placed(node, found[node], 0, min(least, found[node].scores.final)) for node in unclear
    ]
    return tuple(placed[:limit])


def is_unclear(node: Node | None) -> bool:
    """Whether the status of a decision is there and is not understood."""
    return node is not None and node.status == UNKNOWN


def _groups(found: Mapping[str, Scored], known: Graph) -> list[list[str]]:
    """Put together what shares a topic or a head; groups and members in the order of `found`."""
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for node in found:
        heads = known.heads_of(node)
        # A head may stand on a forked topic.
        topics = {known.topic_of(each) for each in {node, *heads}} - {""}
        above = (*known.superseded_by(node), *known.proposed_for(node))
        for other in (*heads, *above, *(f"topic:{topic}" for topic in sorted(topics))):
            if other != node:
                leader[lead(other)] = lead(node)
    groups: dict[str, list[str]] = defaultdict(list)
    for node in found:
        groups[lead(node)].append(node)
    return list(groups.values())


def _of_one_chain(
    members: Sequence[str],
    found: Mapping[str, Scored],
    known: Graph,
    may_bring: Callable[[str], bool],
    may_show: Callable[[str], bool],
) -> list[Placed]:
    live: dict[str, None] = {}  # their own heads, and every head of a forked topic
    for node in members:
        own = known.heads_of(node)
        if node in own or known.superseded_by(node):
            topic_heads = known.chain(known.topic_of(node)).heads
            live.update(dict.fromkeys((*own, *(topic_heads if len(topic_heads) > 1 else ()))))
    heads = [node for node in members if node in live and may_show(node)]
    missing = [node for node in live if node not in found and may_bring(node)]
    heads += missing[: max(0, MOST_OF_A_CHAIN - len(heads))]
    others = [
        node
        for node in members
        if node not in live and may_show(node) and not is_unclear(known.nodes.get(node))
    ]
    others.sort(key=lambda node: found[node].created, reverse=True)
    kept = others[: max(0, MOST_OF_A_CHAIN - len(heads))]
    earlier = len(others) - len(kept)
    worth = found[members[0]].scores.final
    return [
        Placed(node, found.get(node), 0 if at else earlier, worth)
        for at, node in enumerate([*heads, *kept])
    ]
