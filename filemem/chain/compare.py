"""What one state of a memory makes of another.

Which decisions stop holding, which forks appear, what is left hanging. Two graphs in, what differs
out; which records a change touched is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from filemem.chain.graph import Graph

MISSING_CODES = (
    "supersedes-missing",
    "superseded-by-missing",
)  # flaws that a removal leaves behind


class Consequences(NamedTuple):
    """What follows for decisions; topics are topic keys."""

    successors: Mapping[str, tuple[str, ...]]  # what holds no longer -> what replaced it
    accepted_ids: tuple[str, ...]  # what was only proposed, or rejected, and holds now
    forks: Mapping[str, tuple[str, ...]]  # topic -> decisions that hold at once; see `eased`
    headless_topics: tuple[str, ...]  # topics where something held and nothing does
    dangling: tuple[str, ...]  # decisions that refer to what is missing now


def compute_consequences(before: Graph, after: Graph) -> Consequences:
    """Return what follows from going from one graph to the other.

    Both know the same part of the memory.
    """
    topics = {*before.chains, *after.chains}
    common_nodes = [node for node in after.nodes if node in before.nodes]
    new_heads = [node for node in common_nodes if after.is_head(node) and not before.is_head(node)]
    return Consequences(
        successors=_map_superseded(common_nodes, before, after),
        accepted_ids=tuple(node for node in new_heads if not before.nodes[node].is_demoting),
        forks={
            topic: _get_heads(after, topic)
            for topic in topics
            if _has_new_fork(before, after, topic)
        },
        headless_topics=tuple(
            sorted(topic for topic in topics if _has_ended(before, after, topic))
        ),
        dangling=tuple(sorted(_list_dangling(after) - _list_dangling(before))),
    )


def _map_superseded(
    nodes: Iterable[str], before: Graph, after: Graph
) -> Mapping[str, tuple[str, ...]]:
    former_heads = (node for node in nodes if before.is_head(node) and not after.is_head(node))
    successors = {node: after.list_successors(node) for node in former_heads}
    return {node: names for node, names in successors.items() if names}


def _get_heads(graph: Graph, topic: str) -> tuple[str, ...]:
    return graph.get_chain(topic).heads


def _has_new_fork(before: Graph, after: Graph, topic: str) -> bool:
    is_changed = set(_get_heads(after, topic)) != set(_get_heads(before, topic))
    return (
        after.get_chain(topic).is_forked and is_changed and not is_fork_eased(before, after, topic)
    )


def _has_ended(before: Graph, after: Graph, topic: str) -> bool:
    return bool(_get_heads(before, topic)) and not _get_heads(after, topic)


def _list_dangling(graph: Graph) -> set[str]:
    return {flaw.node for flaw in graph.problems if flaw.code in MISSING_CODES}


def is_fork_eased(before: Graph, after: Graph, topic: str) -> bool:
    """Whether a fork was there before and is no wider now."""
    return 1 < len(_get_heads(before, topic)) >= len(_get_heads(after, topic))
