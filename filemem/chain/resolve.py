"""Build the supersession graph: which decisions are live, from what the records state.

The rule of this module: the result depends on the set of records, never on the order in which they
are read, and a doubt never hides a decision. If records contradict each other, all of them stay
visible and a problem is reported.

A successor *replaces* its predecessors; it *demotes* them only while it is accepted or deprecated.
1. Stated edges: `supersedes`, `synthesizes` within the topic, and "Superseded by" on the older
   record, across topics. All edges within a circle are dropped, so that none of its decisions is
   demoted.
2. One order of all decisions: by time, then path; but a successor follows its predecessors.
3. Inferred edges: a decision that states a topic but not `supersedes` replaces the previous one on
   the topic, and a reference to a missing record leads to the next older one. Both point back in
   the order, so they cannot form a circle.

The work is one sort and a few passes. Nothing recurses, so a chain may have any length.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import NamedTuple

from filemem.chain.graph import Chain, Flaw, Graph, Node

Edges = Mapping[str, AbstractSet[str]]  # successor -> what it replaces

_TIME_IN_ID = r"_([0-9]{10,15})_[0-9a-z]{8}\Z"
_ANY_TIME = 1 << 62


def build_graph(nodes: Iterable[Node], *, known_removed: Collection[str] = frozenset()) -> Graph:
    """Build the supersession graph of all decisions.

    If several nodes have one id, the oldest counts.

    Args:
        known_removed: References to records that were removed on purpose.
    """
    by_id: dict[str, Node] = {}
    for node in sorted(nodes, key=attrgetter("sort_key")):
        by_id.setdefault(node.id, node)
    stated = _collect_stated(by_id)
    ordering = _break_circles(by_id, stated.replaces)
    inferred = _infer_edges(ordering.order, stated.lost_references, ordering.circle_ids)
    problems = _list_missing_flaws(stated.lost_references, known_removed, inferred.bridged)
    problems += _iter_circle_flaws(stated.replaces, ordering.circle_ids)
    return _assemble_graph(
        order=ordering.order,
        replaces=_merge_edges(ordering.replaces, inferred.implied, inferred.bridged),
        implied_ids=inferred.implied.keys(),
        problems=tuple(sorted(problems)),
    )


def _merge_edges(*edge_maps: Edges) -> Edges:
    merged_edges: dict[str, set[str]] = defaultdict(set)
    for edges in edge_maps:
        for new, old_ids in edges.items():
            merged_edges[new] |= old_ids
    return merged_edges


class _Reference(NamedTuple):
    """A reference from one decision to another; `key` is the field that states it."""

    node: str
    key: str  # "supersedes" or "superseded by"
    target: str


class _StatedEdges(NamedTuple):
    """Edges that records state, and references to no known record."""

    replaces: dict[str, set[str]]
    lost_references: list[_Reference]


def _collect_stated(by_id: Mapping[str, Node]) -> _StatedEdges:
    ids = _map_reference_ids(by_id)
    replaces: dict[str, set[str]] = defaultdict(set)
    lost_references: list[_Reference] = []
    for node in by_id.values():
        replaces[node.id] |= _find_merged_ids(node, by_id, ids)
        for reference in _iter_references(node):
            other = ids.get(reference.target)
            if other is None:
                lost_references.append(reference)
            elif reference.key == "supersedes":
                replaces[node.id].add(other)
            else:
                replaces[other].add(node.id)
    return _StatedEdges(replaces, lost_references)


def _find_merged_ids(node: Node, by_id: Mapping[str, Node], ids: Mapping[str, str]) -> set[str]:
    """Return the decisions on its own topic that a decision merges."""
    if not node.key:
        return set()
    merged_ids = set()
    for target in node.merged_references:
        other = ids.get(target)
        if other is not None and by_id[other].key == node.key:
            merged_ids.add(other)
    return merged_ids


def _map_reference_ids(by_id: Mapping[str, Node]) -> dict[str, str]:
    """Map everything that can refer to a node, its path or its id, to the id.

    An id wins over an equal path.
    """
    by_path = {node.path: node.id for node in by_id.values()}
    own_ids = {node_id: node_id for node_id in by_id}
    return by_path | own_ids


def _iter_references(node: Node) -> Iterator[_Reference]:
    """Yield the references of a decision that name something, each once."""
    for target in dict.fromkeys(node.supersedes or ()):
        if target:
            yield _Reference(node=node.id, key="supersedes", target=target)
    for target in dict.fromkeys(node.superseded_by):
        if target:
            yield _Reference(node=node.id, key="superseded by", target=target)


class _Ordering(NamedTuple):
    """Edges without circles, all decisions in order, and the ids of those in circles."""

    replaces: Edges
    order: list[Node]
    circle_ids: AbstractSet[str]


def _break_circles(by_id: Mapping[str, Node], stated_edges: Edges) -> _Ordering:
    """Order all decisions; drop the edges within circles."""
    replaces: dict[str, AbstractSet[str]] = {}
    for new, old_ids in stated_edges.items():
        replaces[new] = old_ids - {new}
    demotions = _filter_demotions(by_id, replaces)
    order = _sort_nodes(by_id, demotions)
    if len(order) == len(by_id):
        return _Ordering(replaces, order, circle_ids=frozenset())
    # A decision in a circle is reached from neither end. One between two circles counts as in one.
    reverse_order = _sort_nodes(by_id, _reverse_edges(demotions))
    reached_ids = {node.id for node in order}
    reached_ids.update(node.id for node in reverse_order)
    circle_ids = by_id.keys() - reached_ids
    for new in circle_ids:
        replaces[new] -= circle_ids
    order = _sort_nodes(by_id, _filter_demotions(by_id, replaces))
    return _Ordering(replaces, order, circle_ids)


def _filter_demotions(by_id: Mapping[str, Node], replaces: Edges) -> Edges:
    return {new: old_ids for new, old_ids in replaces.items() if by_id[new].is_demoting}


def _sort_nodes(by_id: Mapping[str, Node], edges: Edges) -> list[Node]:
    """Sort decisions by age, but each behind what it replaces; leave out those in circles.

    This is Kahn's algorithm on a heap.
    """
    predecessors = {node_id: set(edges.get(node_id, ())) for node_id in by_id}
    successors = _reverse_edges(predecessors)
    ready_keys = [node.sort_key for node in by_id.values() if not predecessors[node.id]]
    heapq.heapify(ready_keys)
    order: list[Node] = []
    while ready_keys:
        _, _, node_id = heapq.heappop(ready_keys)
        order.append(by_id[node_id])
        for new in successors.get(node_id, ()):
            predecessors[new].discard(node_id)
            if not predecessors[new]:
                heapq.heappush(ready_keys, by_id[new].sort_key)
    return order


class _InferredEdges(NamedTuple):
    """Edges that no record states, by successor."""

    implied: dict[str, set[str]]  # from the order of a topic
    bridged: dict[str, set[str]]  # around a reference to a missing record


def _infer_edges(
    order: Iterable[Node], lost_references: Iterable[_Reference], circle_ids: Collection[str]
) -> _InferredEdges:
    age_limits = _list_age_limits(lost_references)
    edges = _InferredEdges(implied={}, bridged={})
    earlier: dict[str, list[Node]] = defaultdict(list)  # by topic
    for node in order:
        if not node.key:
            continue
        line = earlier[node.key]
        skipped_ids: Collection[str] = ()
        if node.id in circle_ids:
            skipped_ids = circle_ids
        if node.is_demoting and node.supersedes is None:
            implied_ids = _find_predecessors(line, skipped_ids, [_ANY_TIME])
            if implied_ids:
                edges.implied[node.id] = implied_ids
        if node.id in age_limits:
            bridged_ids = _find_predecessors(line, skipped_ids, age_limits[node.id])
            edges.bridged[node.id] = bridged_ids
        if node.is_demoting:
            line.append(node)
    return edges


def _list_age_limits(lost_references: Iterable[_Reference]) -> dict[str, list[int]]:
    """List for each decision the latest times at which its missing predecessors can be made.

    An id contains its time; without one, any time is possible.
    """
    age_limits: dict[str, list[int]] = defaultdict(list)
    for reference in lost_references:
        if reference.key != "supersedes":
            continue
        stamp = re.search(_TIME_IN_ID, reference.target)
        limit = int(stamp[1]) if stamp else _ANY_TIME
        age_limits[reference.node].append(limit)
    return age_limits


def _find_predecessors(
    line: Sequence[Node], skipped_ids: Collection[str], age_limits: Iterable[int]
) -> set[str]:
    """Find for each limit the last decision of a topic that is not younger, if there is one."""
    predecessor_ids = set()
    for limit in age_limits:
        for old in reversed(line):
            if old.created <= limit and old.id not in skipped_ids:
                predecessor_ids.add(old.id)
                break
    return predecessor_ids


def _list_missing_flaws(
    lost_references: Iterable[_Reference], known_removed: Collection[str], bridged: Edges
) -> list[Flaw]:
    flaws = []
    for reference in lost_references:
        level = "warning"
        reason = "names no decision, or several"
        if reference.target in known_removed:
            level = "hint"
            reason = "was removed"
        message = f"{reference.key} {reference.target}, which {reason}"
        if reference.key == "supersedes" and bridged.get(reference.node):
            message += "; the one before it on the topic is taken instead"
        key = reference.key.replace(" ", "-")
        flaw = Flaw(reference.node, code=f"{key}-missing", level=level, message=message)
        flaws.append(flaw)
    return flaws


def _iter_circle_flaws(stated_edges: Edges, circle_ids: AbstractSet[str]) -> Iterator[Flaw]:
    for new in circle_ids:
        neighbours = ", ".join(sorted(stated_edges[new] & circle_ids))
        message = (
            f"supersedes {neighbours}, which leads back to it; "
            "no decision of this circle demotes another"
        )
        yield Flaw(new, code="supersedes-cycle", level="error", message=message)
    message = "says that it supersedes itself, which is ignored; remove the reference"
    for new, old_ids in stated_edges.items():
        if new in old_ids:
            yield Flaw(new, code="supersedes-itself", level="warning", message=message)


def _reverse_edges(edges: Edges) -> dict[str, set[str]]:
    reversed_edges: dict[str, set[str]] = defaultdict(set)
    for new, old_ids in edges.items():
        for old in old_ids:
            reversed_edges[old].add(new)
    return reversed_edges


def _assemble_graph(
    order: Sequence[Node],
    replaces: Edges,
    implied_ids: AbstractSet[str],
    problems: tuple[Flaw, ...],
) -> Graph:
    """Build the graph with its edges in both directions, all lists in the order of decisions."""
    nodes = {node.id: node for node in order}
    places = {node_id: place for place, node_id in enumerate(nodes)}
    predecessors = {}
    demoters: dict[str, list[str]] = defaultdict(list)
    proposals: dict[str, list[str]] = defaultdict(list)
    for new in nodes:
        if not replaces.get(new):
            continue
        predecessors[new] = sorted(replaces[new], key=places.__getitem__)
        for old in predecessors[new]:
            if nodes[new].is_demoting:
                demoters[old].append(new)
            elif nodes[new].status == "proposed":
                proposals[old].append(new)
    ends = _compute_ends(order, demoters)
    return Graph(
        nodes=nodes,
        chains=_build_chains(order, implied_ids, ends),
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
    """Compute the live decisions that each decision leads to over its demoters, or itself."""
    ends: dict[str, tuple[str, ...]] = {}
    for node in reversed(order):
        successors = demoters.get(node.id, ())
        if not successors:
            is_live = node.status == "accepted"
            ends[node.id] = (node.id,) if is_live else ()
        elif len(successors) == 1:
            ends[node.id] = ends[successors[0]]
        else:
            all_ends: dict[str, None] = {}
            for new in successors:
                all_ends.update(dict.fromkeys(ends[new]))
            ends[node.id] = tuple(all_ends)
    return ends


def _build_chains(
    order: Iterable[Node], implied_ids: AbstractSet[str], ends: Mapping[str, Collection[str]]
) -> dict[str, Chain]:
    """Build the chain of each topic."""
    topics: dict[str, list[str]] = defaultdict(list)
    for node in order:
        if node.key:
            topics[node.key].append(node.id)
    chains: dict[str, Chain] = {}
    for topic, line in topics.items():
        heads = [node_id for node_id in line if node_id in ends[node_id]]
        chains[topic] = Chain(
            topic=topic,
            order=tuple(line),
            heads=tuple(heads),
            implied=frozenset(line) & implied_ids,
        )
    return chains
