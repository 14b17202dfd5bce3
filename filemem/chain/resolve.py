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


def resolve(nodes: Iterable[Node], *, known_removed: Collection[str] = frozenset()) -> Graph:
    """The supersession graph of all decisions.

    `known_removed` are references that were removed on purpose.
    """
    by_id: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: node.age):
        by_id.setdefault(node.id, node)
    stated = _stated(by_id)
    replaces, order, circle = _ordered(by_id, stated.replaces)
    unstated = _unstated(order, stated.lost, circle)
    whole = defaultdict(set, {new: set(olds) for new, olds in replaces.items()})
    for new, olds in (*unstated.implied.items(), *unstated.bridged.items()):
        whole[new] |= olds
    problems = [
        _leads_nowhere(lost, lost.target in known_removed, bool(unstated.bridged.get(lost.node)))
        for lost in stated.lost
    ]
    problems += _in_circles(stated.replaces, circle)
    return _graph(order, whole, unstated.implied, tuple(sorted(problems)))


class _Reference(NamedTuple):
    """What a decision says of another; `key` is where it stands."""

    node: str
    key: str  # "supersedes" or "superseded by"
    target: str


class _Stated(NamedTuple):
    """What the records say of each other, and the references that lead nowhere."""

    replaces: dict[str, set[str]]
    lost: list[_Reference]


def _stated(by_id: Mapping[str, Node]) -> _Stated:
    names = _names(by_id)
    replaces: dict[str, set[str]] = defaultdict(set)
    lost: list[_Reference] = []
    for node in by_id.values():
        merged = (by_id.get(names.get(target, "")) for target in node.synthesizes)
        replaces[node.id] |= {old.id for old in merged if old and old.key == node.key != ""}
        for reference in _references(node):
            other = names.get(reference.target)
            if other is None:
                lost.append(reference)
            elif other and reference.key == "supersedes":
                replaces[node.id].add(other)
            elif other:
                replaces[other].add(node.id)
    return _Stated(replaces, lost)


def _names(by_id: Mapping[str, Node]) -> dict[str, str]:
    """Return what a reference may call a node, and whose that is: an id before a path."""
    paths = {node.path: node.id for node in by_id.values()}
    return {"": ""} | paths | {name: name for name in by_id}


def _references(node: Node) -> Iterator[_Reference]:
    for target in dict.fromkeys(node.supersedes or ()):
        yield _Reference(node.id, "supersedes", target)
    for target in dict.fromkeys(node.superseded_by):
        yield _Reference(node.id, "superseded by", target)


class _Ordered(NamedTuple):
    """Edges without circles, all decisions in order, and those in circles."""

    replaces: Edges
    order: list[Node]
    circle: AbstractSet[str]


def _ordered(by_id: Mapping[str, Node], stated: Edges) -> _Ordered:
    replaces: Edges = {new: olds - {new} for new, olds in stated.items()}
    order = _order(by_id, _demotions(by_id, replaces))
    if len(order) == len(by_id):
        return _Ordered(replaces, order, frozenset())
    # What is between two circles counts as in one.
    back = _order(by_id, _reversed(_demotions(by_id, replaces)))
    circle = by_id.keys() - {node.id for node in (*order, *back)}
    replaces = {new: olds - circle if new in circle else olds for new, olds in replaces.items()}
    return _Ordered(replaces, _order(by_id, _demotions(by_id, replaces)), circle)


def _demotions(by_id: Mapping[str, Node], replaces: Edges) -> Edges:
    return {new: olds for new, olds in replaces.items() if by_id[new].demotes}


def _order(by_id: Mapping[str, Node], edges: Edges) -> list[Node]:
    """Return decisions by age, each behind what it leads to, without those in circles.

    Kahn's algorithm on a heap.
    """
    before = {node: set(edges.get(node, ())) for node in by_id}
    after = _reversed(before)
    ready = [node.age for node in by_id.values() if not before[node.id]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        placed = by_id[heapq.heappop(ready)[-1]]
        order.append(placed)
        for new in after.get(placed.id, ()):
            before[new].discard(placed.id)
            if not before[new]:
                heapq.heappush(ready, by_id[new].age)
    return order


class _Unstated(NamedTuple):
    """Edges that no record states: implied by the order of a topic; bridged over what is lost."""

    implied: dict[str, set[str]]
    bridged: dict[str, set[str]]


def _unstated(
    order: Iterable[Node], lost: Iterable[_Reference], circle: Collection[str]
) -> _Unstated:
    limits = _limits(lost)
    edges = _Unstated({}, {})
    earlier: dict[str, list[Node]] = defaultdict(list)
    for node in order:
        if not node.key:
            continue
        line = earlier[node.key]
        passed = circle if node.id in circle else ()
        if node.demotes and node.supersedes is None:
            implied = _before(line, passed, _ANY_TIME)
            if implied:
                edges.implied[node.id] = implied
        if node.id in limits:
            bridges = (_before(line, passed, limit) for limit in limits[node.id])
            edges.bridged[node.id] = set().union(*bridges)
        if node.demotes:
            line.append(node)
    return edges


def _limits(lost: Iterable[_Reference]) -> dict[str, list[int]]:
    """Return, of each decision, how old what it replaced is at least; ids hold a time."""
    limits: dict[str, list[int]] = defaultdict(list)
    for node, key, target in lost:
        if key == "supersedes":
            stamp = re.search(_TIME_IN_ID, target)
            limits[node].append(int(stamp[1]) if stamp else _ANY_TIME)
    return limits


def _before(line: Sequence[Node], passed: Collection[str], limit: int) -> set[str]:
    """Return the last of `line` that is not `passed` over, nor younger than `limit`."""
    for old in reversed(line):
        if old.created <= limit and old.id not in passed:
            return {old.id}
    return set()


def _leads_nowhere(lost: _Reference, on_purpose: bool, is_bridged: bool) -> Flaw:
    message = f"{lost.key} {lost.target}, which "
    message += "was removed" if on_purpose else "names no decision, or several"
    if is_bridged and lost.key == "supersedes":
        message += "; the one before it on the topic is taken instead"
    code = f"{lost.key.replace(' ', '-')}-missing"
    return Flaw(lost.node, code, "hint" if on_purpose else "warning", message)


def _in_circles(stated: Edges, circle: AbstractSet[str]) -> Iterator[Flaw]:
    for new in circle:
        by_way_of = ", ".join(sorted(stated[new] & circle))
        message = (
            f"supersedes {by_way_of}, which leads back to it; "
            "no decision of this circle demotes another"
        )
        yield Flaw(new, "supersedes-cycle", "error", message)
    message = "says that it supersedes itself, which is ignored; remove the reference"
    for new, olds in stated.items():
        if new in olds:
            yield Flaw(new, "supersedes-itself", "warning", message)


def _reversed(edges: Edges) -> dict[str, set[str]]:
    back: dict[str, set[str]] = defaultdict(set)
    for new, olds in edges.items():
        for old in olds:
            back[old].add(new)
    return back


def _graph(
    order: Sequence[Node],
    replaces: Edges,
    implied: Mapping[str, object],
    problems: tuple[Flaw, ...],
) -> Graph:
    """Write everything down in both directions and in the one order."""
    nodes = {node.id: node for node in order}
    places = {node: place for place, node in enumerate(nodes)}
    predecessors = {new: sorted(olds, key=places.__getitem__) for new, olds in replaces.items()}
    demoters: dict[str, list[str]] = defaultdict(list)
    proposals: dict[str, list[str]] = defaultdict(list)
    for new in filter(replaces.get, nodes):
        for old in predecessors[new]:
            if nodes[new].demotes:
                demoters[old].append(new)
            elif nodes[new].status == "proposed":
                proposals[old].append(new)
    ends = _ends(order, demoters)
    return Graph(
        nodes,
        _chains(order, implied, ends),
        replaces=_fixed(predecessors),
        demoters=_fixed(demoters),
        ends=ends,
        problems=problems,
        proposals=_fixed(proposals),
    )


def _fixed(edges: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {node: tuple(others) for node, others in edges.items()}


def _ends(
    order: Sequence[Node], demoters: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return where the ways up from each decision end: itself, or the ends of what demotes it."""
    ends: dict[str, tuple[str, ...]] = {}
    for node in reversed(order):
        above = demoters.get(node.id, ())
        if not above:
            ends[node.id] = (node.id,) if node.status == "accepted" else ()
        elif len(above) == 1:
            ends[node.id] = ends[above[0]]
        else:
            ends[node.id] = tuple(dict.fromkeys(end for new in above for end in ends[new]))
    return ends


def _chains(
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
