"""Known order: the places of hits by the history of decisions, whatever their scores.

A superseded decision never stands above the live decision that replaces it. The hits of one chain
stand together at the place of the best of them: live decisions first (brought in if the query did
not find them), then the newest others, three in all; the rest is counted. Decisions with a status
that is not understood come last. Everything else keeps its place.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from filemem.chain import NO_FACTS, Facts, Node
from filemem.query.score import ScoredCandidate
from filemem.record import DECISION, UNKNOWN

MAX_PER_CHAIN = 3


class Placement(NamedTuple):
    """One place in the answer."""

    id: str  # the record
    scored: ScoredCandidate | None  # None for a live decision that the query did not find
    earlier: int = 0  # hits of the chain that were left out, on its first place alone
    chain_score: float = 0.0  # the best score in its chain


def arrange_hits(
    scored: Iterable[ScoredCandidate],
    facts: Mapping[str, Facts],
    *,
    unclear_ids: Collection[str] = (),
    hidden_ids: Collection[str] = (),
    unwanted_heads: Collection[str] = (),
    limit: int | None = None,
) -> tuple[Placement, ...]:
    """Put the hits of a search in order, best first.

    Args:
        scored: the candidates, each record once.
        facts: how the decisions among them stand in their chains.
        unclear_ids: decisions whose status is not understood.
        hidden_ids: candidates that only lead to live decisions and are not shown.
        unwanted_heads: live decisions outside the filter, not to be brought in.
        limit: the maximum number of places.
    """
    ranked = sorted(scored, key=attrgetter("rank"))
    scored_by_id = {row.id: row for row in ranked}
    placements: list[Placement] = []
    for group in _group_by_chain(scored_by_id, facts):
        if limit is not None and len(placements) >= limit:
            break
        members = {id_: facts.get(id_, NO_FACTS) for id_ in group}
        placements += _place_chain(
            members,
            scored_by_id,
            unclear_ids=unclear_ids,
            hidden_ids=hidden_ids,
            unwanted_heads=unwanted_heads,
        )
    least_score = min((placement.chain_score for placement in placements), default=1.0)
    for row in ranked:
        if row.id in unclear_ids and row.id not in hidden_ids:
            score = min(least_score, row.scores.final)
            placements.append(Placement(row.id, row, chain_score=score))
    return tuple(placements[:limit])


def is_unclear(node: Node) -> bool:
    """Whether the status of a decision is there and is not understood."""
    return node.type == DECISION and node.status == UNKNOWN


def _group_by_chain(ids: Collection[str], facts: Mapping[str, Facts]) -> list[list[str]]:
    """Group records that share a topic or a head; groups and members keep their order."""
    leaders: dict[str, str] = {}
    for id_ in ids:
        leaders.setdefault(id_, id_)
        for key in facts.get(id_, NO_FACTS).shared_keys:
            leaders.setdefault(key, key)
            leaders[_find_leader(leaders, key)] = _find_leader(leaders, id_)
    groups: dict[str, list[str]] = defaultdict(list)
    for id_ in ids:
        groups[_find_leader(leaders, id_)].append(id_)
    return list(groups.values())


def _find_leader(leaders: dict[str, str], name: str) -> str:
    """Follow the links of a name to its end; shorten the path on the way."""
    while leaders[name] != name:
        leaders[name] = leaders[leaders[name]]
        name = leaders[name]
    return name


def _place_chain(
    members: Mapping[str, Facts],
    scored_by_id: Mapping[str, ScoredCandidate],
    *,
    unclear_ids: Collection[str],
    hidden_ids: Collection[str],
    unwanted_heads: Collection[str],
) -> list[Placement]:
    """Place the live decisions of a chain, then the newest others; count what is left out."""
    live_ids = _list_live(members)
    placed_ids: list[str] = []
    others: list[ScoredCandidate] = []
    for id_ in members:
        if id_ in hidden_ids:
            continue
        if id_ in live_ids:
            placed_ids.append(id_)
        elif id_ not in unclear_ids:
            others.append(scored_by_id[id_])
    for id_ in live_ids:
        is_missing = id_ not in scored_by_id and id_ not in unwanted_heads
        if is_missing and len(placed_ids) < MAX_PER_CHAIN:
            placed_ids.append(id_)
    others.sort(key=attrgetter("created"), reverse=True)
    free_count = max(0, MAX_PER_CHAIN - len(placed_ids))
    placed_ids += [row.id for row in others[:free_count]]
    return _build_placements(placed_ids, members, scored_by_id, len(others[free_count:]))


def _build_placements(
    placed_ids: Iterable[str],
    members: Iterable[str],
    scored_by_id: Mapping[str, ScoredCandidate],
    omitted_count: int,
) -> list[Placement]:
    """Build the places of a chain, all with its best score."""
    chain_score = max(scored_by_id[id_].scores.final for id_ in members)
    placements: list[Placement] = []
    for id_ in placed_ids:
        earlier = 0 if placements else omitted_count
        placements.append(Placement(id_, scored_by_id.get(id_), earlier, chain_score))
    return placements


def _list_live(members: Mapping[str, Facts]) -> Collection[str]:
    """Return the heads of decisions in order, and every head of a forked topic."""
    live_ids: dict[str, None] = {}
    for id_, facts in members.items():
        if id_ in facts.heads or facts.superseded_by:
            for head in facts.heads + facts.forked_heads:
                live_ids[head] = None
    return live_ids
