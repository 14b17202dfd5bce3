"""What one state of a memory makes of another.

Which decisions stop holding, which forks appear, what is left hanging. Two graphs in, what differs
out; which records a change touched is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from filemem.chain.graph import Graph

GONE = ("supersedes-missing", "superseded-by-missing")  # flaws that a removal leaves behind


class Consequences(NamedTuple):
    """What follows for decisions; topics are topic keys."""

    superseded: Mapping[str, tuple[str, ...]]  # what holds no longer -> what replaced it
    accepted: tuple[str, ...]  # what was only proposed, or rejected, and holds now
    forked: Mapping[str, tuple[str, ...]]  # topic -> decisions that hold at once; see `eased`
    headless: tuple[str, ...]  # topics where something held and nothing does
    hanging: tuple[str, ...]  # decisions that refer to what is missing now


def consequences(before: Graph, after: Graph) -> Consequences:
    """Return what follows from going from one graph to the other.

    Both know the same part of the memory.
    """
    topics = {*before.chains, *after.chains}
    both = [node for node in after.nodes if node in before.nodes]
    risen = [node for node in both if after.is_head(node) and not before.is_head(node)]
    return Consequences(
        superseded=_superseded(both, before, after),
        accepted=tuple(node for node in risen if not before.nodes[node].demotes),
        forked={topic: _heads(after, topic) for topic in topics if _forks(before, after, topic)},
        headless=tuple(sorted(topic for topic in topics if _ends(before, after, topic))),
        hanging=tuple(sorted(_hanging(after) - _hanging(before))),
    )


def _superseded(nodes: Iterable[str], before: Graph, after: Graph) -> Mapping[str, tuple[str, ...]]:
    fallen = (node for node in nodes if before.is_head(node) and not after.is_head(node))
    successors = {node: after.superseded_by(node) for node in fallen}
    return {node: names for node, names in successors.items() if names}


def _heads(graph: Graph, topic: str) -> tuple[str, ...]:
    return graph.chain(topic).heads


def _forks(before: Graph, after: Graph, topic: str) -> bool:
    changed = set(_heads(after, topic)) != set(_heads(before, topic))
    return after.chain(topic).is_forked and changed and not eased(before, after, topic)


def _ends(before: Graph, after: Graph, topic: str) -> bool:
    return bool(_heads(before, topic)) and not _heads(after, topic)


def _hanging(graph: Graph) -> set[str]:
    return {flaw.node for flaw in graph.problems if flaw.code in GONE}


def eased(before: Graph, after: Graph, topic: str) -> bool:
    """Whether a fork was there before and is no wider now."""
    return 1 < len(_heads(before, topic)) >= len(_heads(after, topic))
