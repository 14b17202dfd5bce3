"""Which decision holds today: the supersession graph, from what each record says about itself.

The rule of this module: truth is a function of the set of records, never of the order they are
read in, and a doubt never hides a decision. If records contradict each other, all of them stay
visible and a problem says so.

A successor *replaces* its predecessors; it *demotes* them only while it is accepted or deprecated.
1. What is stated: `supersedes`, `synthesizes` within the topic, and "Superseded by" on the old
   side, across topics. Edges between decisions that lead back to themselves are dropped, all of
   them, so that none of these is demoted.
2. One order of all decisions: by time, then path; but what replaces comes after what it replaces.
3. What is not stated: a decision on a stated topic without the key replaces the one before it, and
   a reference to a record that is gone leads to the next older one. Both point back in the order,
   so no circle can arise.

The work is one sort and a few passes; nothing recurses, so a chain may be as long as it likes.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from filemem.chain.graph import Chain, Flaw, Graph, Node

Edges = Mapping[str, AbstractSet[str]]  # successor -> what it replaces

_TIME_IN_ID = r"_([0-9]{10,15})_[0-9a-z]{8}\Z"
_ANY_TIME = 1 << 62


def build_graph(nodes: Iterable[Node], *, known_removed: Collection[str] = frozenset()) -> Graph:
    """The supersession graph of all decisions.

    `known_removed` are references that were removed on purpose.
    """
    by_id: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: node.sort_key):
        by_id.setdefault(node.id, node)
    stated_edges = _collect_stated(by_id)
    replaces, order, circle_ids = _break_circles(by_id, stated_edges.replaces)
    inferred_edges = _infer_edges(order, stated_edges.lost_references, circle_ids)
    all_edges = defaultdict(set, {new: set(old_ids) for new, old_ids in replaces.items()})
    for new, olds in (*inferred_edges.implied.items(), *inferred_edges.bridged.items()):
        all_edges[new] |= olds
    problems = [
        _build_missing_flaw(
            lost_reference,
            lost_reference.target in known_removed,
            bool(inferred_edges.bridged.get(lost_reference.node)),
        )
        for lost_reference in stated_edges.lost_references
    ]
    problems += _iter_circle_flaws(stated_edges.replaces, circle_ids)
    return _assemble_graph(order, all_edges, inferred_edges.implied, tuple(sorted(problems)))


class _Reference(NamedTuple):
    """What a decision says of another; `key` is where it stands."""

    node: str
    key: str  # "supersedes" or "superseded by"
    target: str


class _StatedEdges(NamedTuple):
    """What the records say of each other, and the references that lead nowhere."""

    replaces: dict[str, set[str]]
    lost_references: list[_Reference]


def _collect_stated(by_id: Mapping[str, Node]) -> _StatedEdges:
    names = _map_names(by_id)
    replaces: dict[str, set[str]] = defaultdict(set)
    lost_references: list[_Reference] = []
    for node in by_id.values():
        merged_nodes = (by_id.get(names.get(target, "")) for target in node.merged_references)
        replaces[node.id] |= {old.id for old in merged_nodes if old and old.key == node.key != ""}
        for reference in _iter_references(node):
            other = names.get(reference.target)
            if other is None:
                lost_references.append(reference)
            elif other and reference.key == "supersedes":
                replaces[node.id].add(other)
            elif other:
                replaces[other].add(node.id)
    return _StatedEdges(replaces, lost_references)


def _map_names(by_id: Mapping[str, Node]) -> dict[str, str]:
    """Return what a reference may call a node, and whose that is: an id before a path."""
    paths = {node.path: node.id for node in by_id.values()}
    return {"": ""} | paths | {name: name for name in by_id}


def _iter_references(node: Node) -> Iterator[_Reference]:
    for target in dict.fromkeys(node.supersedes or ()):
        yield _Reference(node.id, "supersedes", target)
    for target in dict.fromkeys(node.superseded_by):
        yield _Reference(node.id, "superseded by", target)


class _Ordering(NamedTuple):
    """Edges without circles, all decisions in order, and those in circles."""

    replaces: Edges
    order: list[Node]
    circle_ids: AbstractSet[str]


def _break_circles(by_id: Mapping[str, Node], stated_edges: Edges) -> _Ordering:
    replaces: Edges = {new: old_ids - {new} for new, old_ids in stated_edges.items()}
    order = _sort_nodes(by_id, _filter_demotions(by_id, replaces))
    if len(order) == len(by_id):
        return _Ordering(replaces, order, frozenset())
    # What is between two circles counts as in one.
    reverse_order = _sort_nodes(by_id, _reverse_edges(_filter_demotions(by_id, replaces)))
    circle_ids = by_id.keys() - {node.id for node in (*order, *reverse_order)}
    replaces = {
        new: olds - circle_ids if new in circle_ids else olds for new, olds in replaces.items()
    }
    return _Ordering(replaces, _sort_nodes(by_id, _filter_demotions(by_id, replaces)), circle_ids)


def _filter_demotions(by_id: Mapping[str, Node], replaces: Edges) -> Edges:
    return {new: old_ids for new, old_ids in replaces.items() if by_id[new].is_demoting}


def _sort_nodes(by_id: Mapping[str, Node], edges: Edges) -> list[Node]:
    """Return decisions by age, each behind what it leads to, without those in circles.

    Kahn's algorithm on a heap.
    """
    predecessors = {node: set(edges.get(node, ())) for node in by_id}
    successors = _reverse_edges(predecessors)
    ready = [node.sort_key for node in by_id.values() if not predecessors[node.id]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        next_node = by_id[heapq.heappop(ready)[-1]]
        order.append(next_node)
        for new in successors.get(next_node.id, ()):
            predecessors[new].discard(next_node.id)
            if not predecessors[new]:
                heapq.heappush(ready, by_id[new].sort_key)
    return order


class _InferredEdges(NamedTuple):
    """Edges that no record states: implied by the order of a topic; bridged over what is lost."""

    implied: dict[str, set[str]]
    bridged: dict[str, set[str]]


def _infer_edges(
    order: Iterable[Node], lost_references: Iterable[_Reference], circle_ids: Collection[str]
) -> _InferredEdges:
    limits = _list_age_limits(lost_references)
    edges = _InferredEdges({}, {})
    earlier: dict[str, list[Node]] = defaultdict(list)
    for node in order:
        if not node.key:
            continue
        line = earlier[node.key]
        skipped_ids = circle_ids if node.id in circle_ids else ()
        if node.is_demoting and node.supersedes is None:
            implied_ids = _find_predecessor(line, skipped_ids, _ANY_TIME)
            if implied_ids:
                edges.implied[node.id] = implied_ids
        if node.id in limits:
            bridges = (_find_predecessor(line, skipped_ids, limit) for limit in limits[node.id])
            edges.bridged[node.id] = set().union(*bridges)
        if node.is_demoting:
            line.append(node)
    return edges


def _list_age_limits(lost_references: Iterable[_Reference]) -> dict[str, list[int]]:
    """Return, of each decision, how old what it replaced is at least; ids hold a time."""
    limits: dict[str, list[int]] = defaultdict(list)
    for node, key, target in lost_references:
        if key == "supersedes":
            stamp = re.search(_TIME_IN_ID, target)
            limits[node].append(int(stamp[1]) if stamp else _ANY_TIME)
    return limits


def _find_predecessor(line: Sequence[Node], skipped_ids: Collection[str], limit: int) -> set[str]:
    """Return the last of `line` that is not `passed` over, nor younger than `limit`."""
    for old in reversed(line):
        if old.created <= limit and old.id not in skipped_ids:
            return {old.id}
    return set()


def _build_missing_flaw(reference: _Reference, is_removed: bool, is_bridged: bool) -> Flaw:
    message = f"{reference.key} {reference.target}, which "
    message += "was removed" if is_removed else "names no decision, or several"
    if is_bridged and reference.key == "supersedes":
        message += "; the one before it on the topic is taken instead"
    code = f"{reference.key.replace(' ', '-')}-missing"
    return Flaw(reference.node, code, "hint" if is_removed else "warning", message)


def _iter_circle_flaws(stated_edges: Edges, circle_ids: AbstractSet[str]) -> Iterator[Flaw]:
    for new in circle_ids:
        neighbours = ", ".join(sorted(stated_edges[new] & circle_ids))
        message = (
            f"supersedes {neighbours}, which leads back to it; "
            "no decision of this circle demotes another"
        )
        yield Flaw(new, "supersedes-cycle", "error", message)
    message = "says that it supersedes itself, which is ignored; remove the reference"
    for new, old_ids in stated_edges.items():
        if new in old_ids:
            yield Flaw(new, "supersedes-itself", "warning", message)


def _reverse_edges(edges: Edges) -> dict[str, set[str]]:
    reversed_edges: dict[str, set[str]] = defaultdict(set)
    for new, old_ids in edges.items():
        for old in old_ids:
            reversed_edges[old].add(new)
    return reversed_edges


def _assemble_graph(
    order: Sequence[Node],
    replaces: Edges,
    implied: Mapping[str, object],
    problems: tuple[Flaw, ...],
) -> Graph:
    """Write everything down in both directions and in the one order."""
    nodes = {node.id: node for node in order}
    places = {node: place for place, node in enumerate(nodes)}
    predecessors = {
        new: sorted(old_ids, key=places.__getitem__) for new, old_ids in replaces.items()
    }
    demoters: dict[str, list[str]] = defaultdict(list)
    proposals: dict[str, list[str]] = defaultdict(list)
    for new in filter(replaces.get, nodes):
        for old in predecessors[new]:
            if nodes[new].is_demoting:
                demoters[old].append(new)
            elif nodes[new].status == "proposed":
                proposals[old].append(new)
    ends = _compute_ends(order, demoters)
    return Graph(
        nodes,
        _build_chains(order, implied, ends),
        replaced_ids=_freeze_edges(predecessors),
        demoters=_freeze_edges(demoters),
        ends=ends,
        problems=problems,
        proposals=_freeze_edges(proposals),
    )


def _freeze_edges(edges: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {node: tuple(others) for node, others in edges.items()}


def _compute_ends(
    order: Sequence[Node], demoters: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return where the ways up from each decision end: itself, or the ends of what demotes it."""
    ends: dict[str, tuple[str, ...]] = {}
    for node in reversed(order):
        successors = demoters.get(node.id, ())
        if not successors:
            ends[node.id] = (node.id,) if node.status == "accepted" else ()
        elif len(successors) == 1:
            ends[node.id] = ends[successors[0]]
        else:
            ends[node.id] = tuple(dict.fromkeys(end for new in successors for end in ends[new]))
    return ends


def _build_chains(
    order: Iterable[Node],
    implied: Mapping[str, object],
    ends: Mapping[str, Collection[str]],
) -> dict[str, Chain]:
    topics: dict[str, list[str]] = defaultdict(list)
    for node in order:
        if node.key:
            topics[node.key].append(node.id)
    chains: dict[str, Chain] = {}
    for topic, line in topics.items():
        heads = tuple(node for node in line if node in ends[node])
        chains[topic] = Chain(topic, tuple(line), heads, frozenset(line) & implied.keys())
    return chains
