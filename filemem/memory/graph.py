"""Which decisions belong together: gathers the nodes that a question about chains depends on, and resolves them.

Only supersession is followed (topic, supersedes, superseded_by, synthesizes); other edges are shown, not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from filemem import chain
from filemem.documents import Node, chain_node
from filemem.record import DECISION

Lookup = Callable[[str, Collection[str]], list[Node]]  # field of the index, values -> the nodes that have one
Unrelated = Callable[[str, str], bool]  # two commits: does neither contain the other?

MOST = 5_000  # nodes gathered for one question; a chain longer than this is shown in part


def supersession(node: Node) -> tuple[str, ...]:
    """The ids that a node's place in its chain depends on, as far as the node itself says."""
    merged = tuple(target for kind, target, _ in node.edges if kind == "synthesizes")
    return (*(node.supersedes or ()), *node.superseded_by, *merged)


def gather(lookup: Lookup, start: Iterable[Node], known: Mapping[str, Node] | None = None) -> dict[str, Node]:
    """Collect every decision on whose existence the places of `start` depend.

    Args:
        lookup: finds nodes by an exact term.
        start: the nodes in question.
        known: nodes by path that are newer than what `lookup` finds.

    Returns:
        Nodes by id, `start` included.
    """
    fresh = known or {}
    found: dict[str, Node] = {}
    asked: set[tuple[str, str]] = set()
    wave = [node for node in start if node.type == DECISION]
    while wave and len(found) < MOST:
        found.update((node.id, node) for node in wave)
        wants = {
            "topic": {node.key for node in wave if node.key},
            "ref": {node.id for node in wave},
            "id": {target for node in wave for target in supersession(node) if target not in found},
        }
        wave = []
        for field, values in wants.items():
            new = [value for value in values if (field, value) not in asked]
            asked.update((field, value) for value in new)
            current = [fresh.get(node.path, node) for node in lookup(field, new)] if new else []
            wave += [node for node in current if node.type == DECISION and node.id not in found]
            if field == "ref":
                linked = set(new)
                wave = [n for n in wave if linked.intersection(supersession(n)) or n.key in wants["topic"]]
    return found


def resolve(
    nodes: Iterable[Node], *, removed: frozenset[str] = frozenset(), unrelated: Unrelated | None = None
) -> chain.Graph:
    """Resolve supersession over nodes; `removed` and `unrelated` as `chain.resolve` takes them."""
    chain_nodes = [chain_node(node) for node in nodes]
    if unrelated is None:
        return chain.resolve(chain_nodes, known_removed=removed)
    return chain.resolve(chain_nodes, known_removed=removed, unrelated=unrelated)


def is_live(graph: chain.Graph, node: Node) -> bool:
    """Whether a record holds today: it is no decision, or a head."""
    return node.type != DECISION or graph.is_head(node.id)
