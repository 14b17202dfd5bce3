"""Compare two states of a memory by their supersession graphs.

Finds superseded decisions, new forks and dangling references. The caller knows which records a
change touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from filemem.chain.graph import Graph

MISSING_CODES = ("supersedes-missing", "superseded-by-missing")  # flaws left by a removal


class Consequences(NamedTuple):
    """What a change does to decisions; topics are topic keys."""

    successors: Mapping[str, tuple[str, ...]]  # decision that is no longer live -> its successors
    accepted_ids: tuple[str, ...]  # decisions that were proposed or rejected and are live now
    forks: Mapping[str, tuple[str, ...]]  # topic -> live decisions; see `is_fork_eased`
    headless_topics: tuple[str, ...]  # topics that lost their last live decision
    dangling: tuple[str, ...]  # decisions that now refer to a missing record


def compute_consequences(before: Graph, after: Graph) -> Consequences:
    """Compute what changes from one graph to the other.

    Both graphs must cover the same part of the memory.
    """
    forks = {}
    headless_topics = []
    for topic in sorted({*before.chains, *after.chains}):
        if _has_new_fork(before, after, topic):
            forks[topic] = _get_heads(after, topic)
        if _get_heads(before, topic) and not _get_heads(after, topic):
            headless_topics.append(topic)
    new_dangling = _list_dangling(after) - _list_dangling(before)
    return Consequences(
        successors=_map_superseded(before, after),
        accepted_ids=_list_accepted(before, after),
        forks=forks,
        headless_topics=tuple(headless_topics),
        dangling=tuple(sorted(new_dangling)),
    )


def _map_superseded(before: Graph, after: Graph) -> Mapping[str, tuple[str, ...]]:
    """Map decisions that are no longer live to the decisions that replaced them."""
    superseded = {}
    for node in after.nodes:
        if not before.is_head(node) or after.is_head(node):
            continue
        successors = after.list_successors(node)
        if successors:
            superseded[node] = successors
    return superseded


def _list_accepted(before: Graph, after: Graph) -> tuple[str, ...]:
    """List the decisions that became live because their status changed."""
    accepted_ids = []
    for node in after.nodes:
        old_node = before.nodes.get(node)
        if old_node is None or old_node.is_demoting:
            continue
        if after.is_head(node) and not before.is_head(node):
            accepted_ids.append(node)
    return tuple(accepted_ids)


def _get_heads(graph: Graph, topic: str) -> tuple[str, ...]:
    return graph.get_chain(topic).heads


def _has_new_fork(before: Graph, after: Graph, topic: str) -> bool:
    if not after.get_chain(topic).is_forked:
        return False
    if set(_get_heads(after, topic)) == set(_get_heads(before, topic)):
        return False
    return not is_fork_eased(before, after, topic)


def _list_dangling(graph: Graph) -> set[str]:
    return {flaw.node for flaw in graph.problems if flaw.code in MISSING_CODES}


def is_fork_eased(before: Graph, after: Graph, topic: str) -> bool:
    """Return whether the topic was forked before and has no more live decisions now."""
    old_count = len(_get_heads(before, topic))
    new_count = len(_get_heads(after, topic))
    return old_count > 1 and new_count <= old_count
