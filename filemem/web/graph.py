"""The graph of decisions: nodes, stated edges, and edges by likeness."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.dialects import present
from filemem.dialects.mama import result
from filemem.dialects.reader import find, for_caller
from filemem.record import DECISION, topic_key, without_edges
from filemem.web.mama import MILLISECONDS, every_decision
from filemem.web.route import Answer, Arguments, Refused

if TYPE_CHECKING:
    from filemem.index import Node
    from filemem.memory import Memory
    from filemem.memory.overview import Row
    from filemem.query import Hit

NEWEST = 50  # decisions whose likeness to each other is looked at
NEIGHBOURS = 3  # to how many others each
ALIKE = 0.7  # from which value on
SIMILAR = 5  # what /graph/similar shows: how many
LIKE = 0.5  # and from which value on
_WORDS = 2_000  # characters of a decision that its likeness to others is judged by
_EDGES: dict[Path, tuple[str, list[Answer]]] = {}  # of each memory: its state then, its edges
Rated = tuple["Node", float]  # a decision, and how like another it is
Near = Mapping[str, Sequence[Rated]]


@for_caller
def graph(memory: Memory, arguments: Arguments) -> Answer:
    """Draw the decisions, or those of a topic with their neighbours' edges; or `edges` alone."""
    began = time.perf_counter()
    edges = _edges_of(memory)
    if arguments.get("edges"):
        return {"edges": edges, "meta": {"total_edges": len(edges)}}
    hits = every_decision(memory)
    if topic := arguments.get("topic"):
        hits = [hit for hit in hits if topic_key(hit.record.topic) == topic_key(topic)]
        kept = {hit.id for hit in hits}
        edges = [edge for edge in edges if edge["from"] in kept or edge["to"] in kept]
    alike = _alike(memory, hits) if arguments.get("cluster") else []
    return {
        "nodes": [result(hit, MILLISECONDS) for hit in hits],
        "edges": edges,
        "similarityEdges": alike,
        "meta": {
            "total_nodes": len(hits),
            "total_edges": len(edges),
            "topics": sorted({hit.record.topic for hit in hits if hit.record.topic}),
            "similarity_edges": len(alike),
        },
        **present.lacking(memory),
        "latency": round((time.perf_counter() - began) * 1000),
    }


@for_caller
def similar(memory: Memory, arguments: Arguments) -> Answer:
    """Find the decisions that are like a given one."""
    hit = find(memory, arguments["id"], "id")
    if hit is None or hit.record.type != DECISION:
        raise Refused(
            404,
            "NOT_FOUND",
            f"Decision not found: {arguments['id']}",
            "GET /api/mama/search shows ids",
        )
    alike = {node.id: value for node, value in near(memory, hit, SIMILAR, LIKE)}
    hits = memory.get(*alike) if alike else ()
    return {
        "id": hit.id,
        "similar": [
            {
                "id": other.id,
                "topic": other.record.topic,
                "decision": other.record.decision,
                "outcome": other.record.outcome,
                "similarity": alike[other.id],
            }
            for other in hits
        ],
        "count": len(alike),
        **present.lacking(memory),
    }


def _edges_of(memory: Memory) -> list[Answer]:
    """The edges of a memory; found anew only where something has changed."""
    state = memory.keeper.state
    before, edges = _EDGES.get(memory.folder, ("", []))
    return edges if before == state else keep_edges(memory, state, memory.overview().rows)


def keep_edges(memory: Memory, state: str, rows: Iterable[Row]) -> list[Answer]:
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
                reasons[record_id, target, kind] = without_edges(reason)
    edges = [
        {"from": start, "to": end, "relationship": kind, "reason": reason}
        for (start, end, kind), reason in reasons.items()
    ]
    _EDGES[memory.folder] = (state, edges)
    return edges


def _alike(memory: Memory, hits: Iterable[Hit]) -> list[Answer]:
    newest = list(hits)[:NEWEST]
    ids = {hit.id for hit in newest}
    edges: dict[frozenset[str], Answer] = {}
    likest = all_near(memory, newest, NEIGHBOURS, ALIKE)
    for hit in newest:
        for other, likeness in likest[hit.id]:
            if other.id in ids:
                edge = {
                    "from": hit.id,
                    "to": other.id,
                    "relationship": "similar",
                    "similarity": likeness,
                }
                edges.setdefault(frozenset((hit.id, other.id)), edge)
    return list(edges.values())


def near(memory: Memory, hit: Hit, count: int, least: float) -> list[Rated]:
    """Decisions near to one, by meaning alone: the likest first."""
    return _likest(hit, memory.alike(_words_of(hit), DECISION, count + 1), count, least)


def all_near(memory: Memory, hits: Sequence[Hit], count: int, least: float) -> Near:
    """Decisions near to each of many, by its id."""
    rated = memory.all_alike(list(map(_words_of, hits)), DECISION, count + 1)
    return {hit.id: _likest(hit, near, count, least) for hit, near in zip(hits, rated, strict=True)}


def _words_of(hit: Hit) -> str:
    """What a decision is compared by: as words, of which none restricts or excludes."""
    text = f"{hit.record.topic} {hit.record.decision}"[:_WORDS]
    return "".join(char if char.isalnum() else " " for char in text)


def _likest(hit: Hit, rated: Iterable[Rated], count: int, least: float) -> list[Rated]:
    pairs = [(node, round(value, 4)) for node, value in rated if node.id != hit.id]
    return [pair for pair in pairs if pair[1] >= least][:count]
