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
from filemem.query.score import ScoredCandidate
from filemem.record import DECISION, UNKNOWN

MAX_PER_CHAIN = 3


class Placement(NamedTuple):
    """One place in the answer."""

    id: str  # the record
    scored: (
        ScoredCandidate | None
    )  # None where it holds for a record that was found: the caller loads it
    earlier: int = 0  # found of the same chain and left out; stated on its newest alone
    chain_score: float = 0.0  # the score of the best found of its chain


def arrange_hits(
    scored: Iterable[ScoredCandidate],
    facts: Mapping[str, Facts],
    *,
    unclear_ids: Collection[str] = (),
    can_bring: Callable[[str], bool] = lambda _: True,
    can_show: Callable[[str], bool] = lambda _: True,
    limit: int | None = None,
) -> tuple[Placement, ...]:
    """Return the places of an answer, best first.

    `scored` has each record once, `facts` are those of the decisions among them. `unclear` are
    those whose status is not understood. `may_bring`: whether a head that was not found satisfies
    the filter. `may_show`: whether what was found is for more than to lead to what holds.
    """
    by_id = {row.id: row for row in sorted(scored, key=attrgetter("rank"))}
    last_ids = [node for node in by_id if node in unclear_ids and can_show(node)]
    placements: list[Placement] = []
    for group in _group_by_chain(by_id, facts):
        if limit is not None and len(placements) >= limit:
            break
        members = {node: facts.get(node, NO_FACTS) for node in group}
        placements += _place_chain(members, by_id, unclear_ids, can_bring, can_show)
    least_score = min((place.chain_score for place in placements), default=1.0)
    placements += [
        Placement(node, by_id[node], 0, min(least_score, by_id[node].scores.final))
        for node in last_ids
    ]
    return tuple(placements[:limit])


def is_unclear(node: Node) -> bool:
    """Whether the status of a decision is there and is not understood."""
    return node.type == DECISION and node.status == UNKNOWN


def _group_by_chain(nodes: Iterable[str], facts: Mapping[str, Facts]) -> list[list[str]]:
    """Put together what shares a topic or a head; groups and members stay in order."""
    leader: dict[str, str] = {}

    def find_leader(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for node in nodes:
        for other in facts.get(node, NO_FACTS).shared_keys:
            if other != node:
                leader[find_leader(other)] = find_leader(node)
    groups: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        groups[find_leader(node)].append(node)
    return list(groups.values())


def _place_chain(
    members: Mapping[str, Facts],
    by_id: Mapping[str, ScoredCandidate],
    unclear_ids: Collection[str],
    can_bring: Callable[[str], bool],
    can_show: Callable[[str], bool],
) -> list[Placement]:
    live_ids = _list_live(members)
    visible_ids = [node for node in members if can_show(node)]
    heads = [node for node in visible_ids if node in live_ids]
    missing_heads = [node for node in live_ids if node not in by_id and can_bring(node)]
    heads += missing_heads[: max(0, MAX_PER_CHAIN - len(heads))]
    other_ids = [node for node in visible_ids if node not in live_ids and node not in unclear_ids]
    other_ids.sort(key=lambda node: by_id[node].created, reverse=True)
    kept_ids = other_ids[: max(0, MAX_PER_CHAIN - len(heads))]
    omitted_count = len(other_ids) - len(kept_ids)
    chain_score = by_id[next(iter(members))].scores.final
    placements = [
        Placement(node, by_id.get(node), chain_score=chain_score) for node in (*heads, *kept_ids)
    ]
    return [place._replace(earlier=omitted_count) for place in placements[:1]] + placements[1:]


def _list_live(members: Mapping[str, Facts]) -> Collection[str]:
    """Return the heads of decisions in order, and every head of a forked topic."""
    live_ids: dict[str, None] = {}
    for node, facts in members.items():
        if node in facts.heads or facts.superseded_by:
            live_ids.update(dict.fromkeys((*facts.heads, *facts.forked_heads)))
    return live_ids
