"""The routes of the graph: decisions as nodes, stated edges, and edges by likeness."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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

MAX_NEWEST = 50  # only the newest decisions get edges by likeness
MAX_NEIGHBOURS = 3  # edges by likeness of each decision
EDGE_THRESHOLD = 0.7  # least likeness of an edge
MAX_SIMILAR = 5  # decisions that /graph/similar returns
SIMILAR_THRESHOLD = 0.5  # least likeness of these
_MAX_QUERY_LENGTH = 2_000  # characters of a decision that are compared with others
RatedNode = tuple["Node", float]  # a decision, and its likeness to another one
NearestById = Mapping[str, Sequence[RatedNode]]


class _CachedEdges(NamedTuple):
    """The edges of a memory, and its state when they were found."""

    state: str
    edges: list[Answer]


_EDGE_CACHE: dict[Path, _CachedEdges] = {}  # folder of a memory -> its edges


@restrict_to_caller
def answer_graph(memory: Memory, arguments: Arguments) -> Answer:
    """Return all decisions and their edges; those of one `topic`; or with `edges` only edges."""
    began = time.perf_counter()
    edges = _get_edges(memory)
    if arguments.get("edges"):
        return {"edges": edges, "meta": {"total_edges": len(edges)}}
    hits = list_decisions(memory)
    topic = arguments.get("topic")
    if topic:
        hits = _filter_topic(hits, topic)
        ids = {hit.id for hit in hits}
        edges = [edge for edge in edges if edge["from"] in ids or edge["to"] in ids]
    similar_edges: list[Answer] = []
    if arguments.get("cluster"):
        similar_edges = _build_similar_edges(memory, hits)
    topics = {hit.record.topic for hit in hits if hit.record.topic}
    answer: Answer = {
        "nodes": [build_result(hit, MILLISECONDS) for hit in hits],
        "edges": edges,
        "similarityEdges": similar_edges,
        "meta": {
            "total_nodes": len(hits),
            "total_edges": len(edges),
            "topics": sorted(topics),
            "similarity_edges": len(similar_edges),
        },
    }
    answer |= present.build_degraded_note(memory)
    answer["latency"] = round((time.perf_counter() - began) * 1000)
    return answer


def _filter_topic(hits: Iterable[Hit], topic: str) -> list[Hit]:
    """Return the decisions on a topic, however its name is spelled."""
    topic_key = build_topic_key(topic)
    return [hit for hit in hits if build_topic_key(hit.record.topic) == topic_key]


@restrict_to_caller
def answer_similar(memory: Memory, arguments: Arguments) -> Answer:
    """Find the decisions that are like a given one."""
    record_id = arguments["id"]
    hit = find_hit(memory, record_id, "id")
    if hit is None or hit.record.type != DECISION:
        message = f"Decision not found: {record_id}"
        raise RouteFailure(404, "NOT_FOUND", message, hint="GET /api/mama/search shows ids")
    nearest = list_nearest(memory, hit, MAX_SIMILAR, SIMILAR_THRESHOLD)
    similarities = {node.id: likeness for node, likeness in nearest}
    similar_hits = memory.get(*similarities) if similarities else ()
    answer = {
        "id": hit.id,
        "similar": [_build_similar(other, similarities[other.id]) for other in similar_hits],
        "count": len(similarities),
    }
    return answer | present.build_degraded_note(memory)


def _build_similar(hit: Hit, similarity: float) -> Answer:
    return {
        "id": hit.id,
        "topic": hit.record.topic,
        "decision": hit.record.decision,
        "outcome": hit.record.outcome,
        "similarity": similarity,
    }


def _get_edges(memory: Memory) -> list[Answer]:
    """Return the edges of a memory; they are found again only after a change."""
    state = memory.keeper.state
    cached = _EDGE_CACHE.get(memory.folder)
    if cached is not None and cached.state == state:
        return cached.edges
    return cache_edges(memory, state, memory.build_overview().rows)


def cache_edges(memory: Memory, state: str, rows: Iterable[Row]) -> list[Answer]:
    """Find the edges between all decisions, and cache them for this state of the memory.

    What supersedes what is taken as it is now, stated or implied; other edges as they are stated.
    """
    decisions = {row.node.id: row for row in rows if row.node.type == DECISION}
    edges: dict[tuple[str, str, str], Answer] = {}  # each edge once, with its last reason

    def add_edge(start: str, end: str, kind: str, reason: str) -> None:
        edge = {"from": start, "to": end, "relationship": kind, "reason": reason}
        edges[start, end, kind] = edge

    for record_id, row in decisions.items():
        for successor_id in row.superseded_by:
            add_edge(successor_id, record_id, "supersedes", "the newer decision on the topic")
        for kind, target_id, reason in row.node.edges:
            if target_id in decisions:
                add_edge(record_id, target_id, kind, strip_edges(reason))
    _EDGE_CACHE[memory.folder] = _CachedEdges(state, list(edges.values()))
    return _EDGE_CACHE[memory.folder].edges


def _build_similar_edges(memory: Memory, hits: Iterable[Hit]) -> list[Answer]:
    """Build one edge for each pair of the newest decisions that are alike."""
    newest_hits = list(hits)[:MAX_NEWEST]
    newest_ids = {hit.id for hit in newest_hits}
    edges: dict[frozenset[str], Answer] = {}
    nearest = group_nearest(memory, newest_hits, MAX_NEIGHBOURS, EDGE_THRESHOLD)
    for hit in newest_hits:
        for other, likeness in nearest[hit.id]:
            if other.id not in newest_ids:
                continue
            edge = {
                "from": hit.id,
                "to": other.id,
                "relationship": "similar",
                "similarity": likeness,
            }
            pair = frozenset((hit.id, other.id))
            edges.setdefault(pair, edge)
    return list(edges.values())


def list_nearest(memory: Memory, hit: Hit, count: int, threshold: float) -> list[RatedNode]:
    """List the decisions that are like a given one by meaning alone, most alike first."""
    rated_nodes = memory.list_similar(_build_query(hit), DECISION, count + 1)
    return _select_nearest(hit, rated_nodes, count, threshold)


def group_nearest(memory: Memory, hits: Sequence[Hit], count: int, threshold: float) -> NearestById:
    """Find the decisions that are like each of several ones, by the id of that one."""
    queries = [_build_query(hit) for hit in hits]
    answers = memory.list_similar_for_each(queries, DECISION, count + 1)
    nearest: dict[str, Sequence[RatedNode]] = {}
    for hit, rated_nodes in zip(hits, answers, strict=True):
        nearest[hit.id] = _select_nearest(hit, rated_nodes, count, threshold)
    return nearest


def _build_query(hit: Hit) -> str:
    """Return the words of a decision, without characters that have a meaning in a query."""
    text = f"{hit.record.topic} {hit.record.decision}"[:_MAX_QUERY_LENGTH]
    return "".join([char if char.isalnum() else " " for char in text])


def _select_nearest(
    hit: Hit, rated_nodes: Iterable[RatedNode], count: int, threshold: float
) -> list[RatedNode]:
    """Return up to `count` other decisions that reach the threshold, with rounded likeness."""
    nearest: list[RatedNode] = []
    for node, exact_likeness in rated_nodes:
        likeness = round(exact_likeness, 4)
        if node.id != hit.id and likeness >= threshold:
            nearest.append((node, likeness))
    return nearest[:count]
