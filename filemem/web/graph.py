"""The graph of decisions: nodes, stated edges, and edges by likeness."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.dialects import present
from filemem.dialects.mama import build_result
from filemem.dialects.reader import find_hit, restrict_to_caller
from filemem.record import DECISION, build_topic_key, strip_edges
from filemem.web.mama import MILLISECONDS, list_decisions
from filemem.web.route import Answer, Arguments, RouteFailure

if TYPE_CHECKING:
    from filemem.index import Node
    from filemem.memory import Memory
    from filemem.memory.overview import Row
    from filemem.query import Hit

MAX_NEWEST = 50  # decisions whose likeness to each other is looked at
MAX_NEIGHBOURS = 3  # to how many others each
EDGE_THRESHOLD = 0.7  # from which value on
MAX_SIMILAR = 5  # what /graph/similar shows: how many
SIMILAR_THRESHOLD = 0.5  # and from which value on
_MAX_QUERY_LENGTH = 2_000  # characters of a decision that its likeness to others is judged by
_EDGE_CACHE: dict[Path, tuple[str, list[Answer]]] = {}  # of each memory: its state then, its edges
RatedNode = tuple["Node", float]  # a decision, and how like another it is
NearestById = Mapping[str, Sequence[RatedNode]]


@restrict_to_caller
def answer_graph(memory: Memory, arguments: Arguments) -> Answer:
    """Draw the decisions, or those of a topic with their neighbours' edges; or `edges` alone."""
    began = time.perf_counter()
    edges = _get_edges(memory)
    if arguments.get("edges"):
        return {"edges": edges, "meta": {"total_edges": len(edges)}}
    hits = list_decisions(memory)
    if topic := arguments.get("topic"):
        hits = [hit for hit in hits if build_topic_key(hit.record.topic) == build_topic_key(topic)]
        kept_ids = {hit.id for hit in hits}
        edges = [edge for edge in edges if edge["from"] in kept_ids or edge["to"] in kept_ids]
    similar_edges = _build_similar_edges(memory, hits) if arguments.get("cluster") else []
    return {
        "nodes": [build_result(hit, MILLISECONDS) for hit in hits],
        "edges": edges,
        "similarityEdges": similar_edges,
        "meta": {
            "total_nodes": len(hits),
            "total_edges": len(edges),
            "topics": sorted({hit.record.topic for hit in hits if hit.record.topic}),
            "similarity_edges": len(similar_edges),
        },
        **present.build_degraded_note(memory),
        "latency": round((time.perf_counter() - began) * 1000),
    }


@restrict_to_caller
def answer_similar(memory: Memory, arguments: Arguments) -> Answer:
    """Find the decisions that are like a given one."""
    hit = find_hit(memory, arguments["id"], "id")
    if hit is None or hit.record.type != DECISION:
        raise RouteFailure(
            404,
            "NOT_FOUND",
            f"Decision not found: {arguments['id']}",
            "GET /api/mama/search shows ids",
        )
    similarities = {
        node.id: value for node, value in list_nearest(memory, hit, MAX_SIMILAR, SIMILAR_THRESHOLD)
    }
    hits = memory.get(*similarities) if similarities else ()
    return {
        "id": hit.id,
        "similar": [
            {
                "id": other.id,
                "topic": other.record.topic,
                "decision": other.record.decision,
                "outcome": other.record.outcome,
                "similarity": similarities[other.id],
            }
            for other in hits
        ],
        "count": len(similarities),
        **present.build_degraded_note(memory),
    }


def _get_edges(memory: Memory) -> list[Answer]:
    """The edges of a memory; found anew only where something has changed."""
    state = memory.keeper.state
    cached_state, edges = _EDGE_CACHE.get(memory.folder, ("", []))
    return (
        edges if cached_state == state else cache_edges(memory, state, memory.build_overview().rows)
    )


def cache_edges(memory: Memory, state: str, rows: Iterable[Row]) -> list[Answer]:
    """Find the edges of all records, and keep them for the next who asks in this state.

    Supersession as it holds, stated or implied; the other edges as they are stated.
    """
    decisions = {row.node.id: row for row in rows if row.node.type == DECISION}
    reasons: dict[tuple[str, str, str], str] = {}
    for record_id, row in decisions.items():
        for successor in row.superseded_by:
            reasons[successor, record_id, "supersedes"] = "the newer decision on the topic"
        for kind, target, reason in row.node.edges:
            if target in decisions:
                reasons[record_id, target, kind] = strip_edges(reason)
    edges = [
        {"from": start, "to": end, "relationship": kind, "reason": reason}
        for (start, end, kind), reason in reasons.items()
    ]
    _EDGE_CACHE[memory.folder] = (state, edges)
    return edges


def _build_similar_edges(memory: Memory, hits: Iterable[Hit]) -> list[Answer]:
    newest_hits = list(hits)[:MAX_NEWEST]
    ids = {hit.id for hit in newest_hits}
    edges: dict[frozenset[str], Answer] = {}
    nearest = group_nearest(memory, newest_hits, MAX_NEIGHBOURS, EDGE_THRESHOLD)
    for hit in newest_hits:
        for other, likeness in nearest[hit.id]:
            if other.id in ids:
                edge = {
                    "from": hit.id,
                    "to": other.id,
                    "relationship": "similar",
                    "similarity": likeness,
                }
                edges.setdefault(frozenset((hit.id, other.id)), edge)
    return list(edges.values())


def list_nearest(memory: Memory, hit: Hit, count: int, threshold: float) -> list[RatedNode]:
    """Decisions near to one, by meaning alone: the likest first."""
    return _filter_nearest(
        hit, memory.list_similar(_build_query(hit), DECISION, count + 1), count, threshold
    )


def group_nearest(memory: Memory, hits: Sequence[Hit], count: int, threshold: float) -> NearestById:
    """Decisions near to each of many, by its id."""
    rated = memory.list_similar_for_each(list(map(_build_query, hits)), DECISION, count + 1)
    return {
        hit.id: _filter_nearest(hit, rated_nodes, count, threshold)
        for hit, rated_nodes in zip(hits, rated, strict=True)
    }


def _build_query(hit: Hit) -> str:
    """What a decision is compared by: as words, of which none restricts or excludes."""
    text = f"{hit.record.topic} {hit.record.decision}"[:_MAX_QUERY_LENGTH]
    return "".join(char if char.isalnum() else " " for char in text)


def _filter_nearest(
    hit: Hit, rated: Iterable[RatedNode], count: int, threshold: float
) -> list[RatedNode]:
    pairs = [(node, round(value, 4)) for node, value in rated if node.id != hit.id]
    return [pair for pair in pairs if pair[1] >= threshold][:count]
