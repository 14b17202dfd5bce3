"""Which decision holds today: the supersession graph, derived from what each record says about itself.

The rule of this module: truth is a function of the set of records, never of the order they are read in, and a
doubt never hides a decision. Where records contradict each other, all of them stay visible and a problem says so.

A successor *replaces* its predecessors; it *demotes* them only while it is accepted or deprecated.
1. What is stated: `supersedes`, `synthesizes` within the topic, and "Superseded by" on the old side, across topics.
   Edges between decisions that lead back to themselves are dropped, all of them, so that none of these is demoted.
2. One order of all decisions: by time, then path; but what replaces always comes after what it replaces.
3. What is not stated: a decision on a stated topic without the key replaces the one before it, and a reference
   to a record that is gone leads to the next older one. Both point back in the order, so no circle can arise.

The work is one sort and a few passes; nothing recurses, so a chain may be as long as it likes.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from filemem.chain.graph import Chain, Flaw, Graph, Node
from filemem.tuples import NamedTuple

Edges = Mapping[str, AbstractSet[str]]  # successor -> what it replaces

_TIME_IN_ID = r"_([0-9]{10,15})_[0-9a-z]{8}\Z"
_ANY_TIME = 1 << 62


def resolve(nodes: Iterable[Node], *, known_removed: Collection[str] = frozenset()) -> Graph:
    """The supersession graph of all decisions; `known_removed` are references that were removed on purpose."""
    known: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: node.age):
        known.setdefault(node.id, node)
    stated, gone = _stated(known)
    replaces = {new: olds - {new} for new, olds in stated.items()}
    order = _order(known, _demotions(known, replaces))
    circle = set[str]()
    if len(order) < len(known):  # what is between two circles counts as in one
        back = _order(known, _reversed(_demotions(known, replaces)))
        circle = known.keys() - {node.id for node in order} - {node.id for node in back}
        replaces = {new: olds - circle if new in circle else olds for new, olds in replaces.items()}
        order = _order(known, _demotions(known, replaces))
    implied, bridged = _unstated(order, gone, circle)
    whole = defaultdict(set, {new: set(olds) for new, olds in replaces.items()})
    for new, olds in (*implied.items(), *bridged.items()):
        whole[new] |= olds
    problems = [
        _leads_nowhere(lost, lost.reference in known_removed, bool(bridged.get(lost.node)))
        for lost in gone
    ]
    for new in circle:
        by_way_of = ", ".join(sorted(stated[new] & circle))
        message = f"supersedes {by_way_of}, which leads back to it; no decision of this circle demotes another"
        problems.append(Flaw(new, "supersedes-cycle", "error", message))
    itself = "says that it supersedes itself, which is ignored; remove the reference"
    problems += [
        Flaw(new, "supersedes-itself", "warning", itself)
        for new, olds in stated.items()
        if new in olds
    ]
    return _graph(order, whole, implied, tuple(sorted(problems)))


class _Gone(NamedTuple):
    """A reference that leads nowhere; `key` is where it stands."""

    node: str
    key: str  # "supersedes" or "superseded by"
    reference: str


def _stated(known: Mapping[str, Node]) -> tuple[dict[str, set[str]], list[_Gone]]:
    """Return what the records say of each other, and the references that lead nowhere."""
    # What a reference may call a node, and whose that is: an id before a path.
    names = {node.path: node.id for node in known.values()} | {"": ""} | {id_: id_ for id_ in known}
    stated: dict[str, set[str]] = defaultdict(set)
    gone: list[_Gone] = []
    for node in known.values():
        merged = [names.get(reference, "") for reference in node.synthesizes]
        stated[node.id].update(
            old for old in merged if old and node.key and known[old].key == node.key
        )
        for key, references in (
            ("supersedes", node.supersedes or ()),
            ("superseded by", node.superseded_by),
        ):
            for reference in dict.fromkeys(references):
                other = names.get(reference)
                if other is None:
                    gone.append(_Gone(node.id, key, reference))
                elif other:
                    new, old = (node.id, other) if key == "supersedes" else (other, node.id)
                    stated[new].add(old)
    return stated, gone


def _demotions(known: Mapping[str, Node], replaces: Edges) -> Edges:
    return {new: olds for new, olds in replaces.items() if known[new].demotes}


def _order(known: Mapping[str, Node], edges: Edges) -> list[Node]:
    """Return decisions by age, each behind what it leads to (Kahn's algorithm on a heap), without those in circles."""
    before = {node: set(edges.get(node, ())) for node in known}
    after = _reversed(before)
    ready = [node.age for node in known.values() if not before[node.id]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        placed = known[heapq.heappop(ready)[-1]]
        order.append(placed)
        for new in after.get(placed.id, ()):
            before[new].discard(placed.id)
            if not before[new]:
                heapq.heappush(ready, known[new].age)
    return order


def _unstated(
    order: Iterable[Node], gone: Iterable[_Gone], circle: Collection[str]
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the edges that nobody wrote: implied by the order of a topic, and bridged over what is gone."""
    limits: dict[str, list[int]] = defaultdict(list)
    for lost in gone:
        if lost.key == "supersedes":
            stamp = re.search(_TIME_IN_ID, lost.reference)
            limits[lost.node].append(int(stamp[1]) if stamp else _ANY_TIME)
    implied: dict[str, set[str]] = {}
    bridged: dict[str, set[str]] = {}
    earlier: dict[str, list[Node]] = defaultdict(list)
    for node in order:
        key = node.key
        if not key:
            continue
        demotes = node.demotes
        line, passed = earlier[key], circle if node.id in circle else ()
        if demotes and node.supersedes is None:
            implied[node.id] = _before(line, passed, _ANY_TIME)
        if node.id in limits:
            bridged[node.id] = set().union(
                *(_before(line, passed, limit) for limit in limits[node.id])
            )
        if demotes:
            line.append(node)
    return {node: found for node, found in implied.items() if found}, bridged


def _before(line: Sequence[Node], passed: Collection[str], limit: int) -> set[str]:
    """Return the last of `line` that is not `passed` over, nor younger than `limit`; empty if none is."""
    for old in reversed(line):
        if old.created <= limit and old.id not in passed:
            return {old.id}
    return set()


def _leads_nowhere(gone: _Gone, on_purpose: bool, bridged: bool) -> Flaw:
    why = "was removed" if on_purpose else "names no decision, or several"
    then = (
        "; the one before it on the topic is taken instead"
        if gone.key == "supersedes" and bridged
        else ""
    )
    code, level = f"{gone.key.replace(' ', '-')}-missing", "hint" if on_purpose else "warning"
    return Flaw(gone.node, code, level, f"{gone.key} {gone.reference}, which {why}{then}")


def _reversed(edges: Edges) -> dict[str, set[str]]:
    back: dict[str, set[str]] = defaultdict(set)
    for new, olds in edges.items():
        for old in olds:
            back[old].add(new)
    return back


def _graph(
    order: Sequence[Node], replaces: Edges, implied: Collection[str], problems: tuple[Flaw, ...]
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
    directed = [
        {key: tuple(values) for key, values in each.items()}
        for each in (predecessors, demoters, proposals)
    ]
    return Graph(
        nodes, _chains(order, implied, ends), directed[0], directed[1], ends, problems, directed[2]
    )


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
    implied: Collection[str],
    ends: Mapping[str, Collection[str]],
) -> dict[str, Chain]:
    topics: dict[str, list[str]] = defaultdict(list)
    for node in order:
        if key := node.key:
            topics[key].append(node.id)
    return {
        topic: Chain(
            topic,
            order=tuple(line),
            heads=tuple(node for node in line if node in ends[node]),
            implied=frozenset(node for node in line if node in implied),
        )
        for topic, line in topics.items()
    }
