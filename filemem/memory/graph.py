"""Which decisions belong together: gathers the nodes that a question about chains depends on, and resolves them.

Only supersession is followed (topic, supersedes, superseded_by, synthesizes); other edges are shown, not followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem import chain
from filemem.documents import Node, chain_node
from filemem.memory import phrases
from filemem.record import DECISION

if TYPE_CHECKING:
    from filemem.memory.store import Store

Lookup = Callable[[Mapping[str, Collection[str]]], list[Node]]  # fields of the index and values -> who has any of them
Unrelated = Callable[[str, str], bool]  # two commits: does neither contain the other?

NAMED = 2  # proposals that are named; the others are counted
MOST = 5_000  # nodes gathered for one question; a chain longer than this is shown in part


def supersession(node: Node) -> tuple[str, ...]:
    """The ids that a node's place in its chain depends on, as far as the node itself says."""
    merged = tuple(target for kind, target, _ in node.edges if kind == "synthesizes")
    return (*(node.supersedes or ()), *node.superseded_by, *merged)


class Gathered(NamedTuple):
    """Decisions by id, and every record that was met and points to one of them, by whatever edge."""

    nodes: dict[str, Node]
    pointing: tuple[Node, ...]


def gather(lookup: Lookup, start: Iterable[Node], known: Mapping[str, Node] | None = None) -> Gathered:
    """Collect every decision on whose existence the places of `start` depend, `start` included.

    Args:
        lookup: finds nodes by exact terms.
        start: the nodes in question.
        known: nodes by path that are newer than what `lookup` finds.
    """
    fresh = known or {}
    found: dict[str, Node] = {}
    pointing: dict[str, Node] = {}
    asked: dict[str, set[str]] = {"topic": set(), "ref": set(), "id": set()}
    wave = [node for node in start if node.type == DECISION]
    while wave and len(found) < MOST:
        found.update((node.id, node) for node in wave)
        wants = {
            "topic": {node.key for node in wave if node.key} - asked["topic"],
            "ref": {node.id for node in wave} - asked["ref"],
            "id": {target for node in wave for target in supersession(node) if target not in found} - asked["id"],
        }
        for field, values in wants.items():
            asked[field] |= values
        current = [fresh.get(node.path, node) for node in lookup(wants)]
        pointing.update((node.id, node) for node in current if not wants["ref"].isdisjoint(node.values("ref")))
        wave = [
            node
            for node in current
            if node.type == DECISION
            and node.id not in found
            and (
                node.key in wants["topic"] or node.id in wants["id"] or not wants["ref"].isdisjoint(supersession(node))
            )
        ]
    return Gathered(found, tuple(pointing.values()))


def resolve(
    nodes: Iterable[Node],
    *,
    removed: frozenset[str] = frozenset(),
    unrelated: Unrelated = chain.never,
    several: Mapping[str, str] | None = None,
) -> chain.Graph:
    """Resolve supersession over nodes; `removed`, `unrelated` and `several` as `chain.resolve` takes them."""
    return chain.resolve(map(chain_node, nodes), known_removed=removed, unrelated=unrelated, several=several or {})


def neighbourhood(store: Store, nodes: Iterable[Node]) -> tuple[chain.Graph, dict[str, Node], tuple[Node, ...]]:
    """The supersession graph around nodes, the decisions in it by id, and the records that point to one of them."""
    around, pointing = gather(store.lookup_any, nodes)
    return resolve(around.values(), unrelated=store.unrelated), around, pointing


def contest(heads: Sequence[Node], key: str) -> str:
    """Say that several decisions hold for one: a fork where they are on one topic; "" where no more than one holds.

    Args:
        heads: what holds.
        key: the topic of the one for which they hold.
    """
    if len(heads) < 2:
        return ""
    topics = {node.key: node.topic for node in heads}
    counts = Counter(node.key for node in heads)
    forks = [
        f"contested: {count} decisions on {'this topic' if each == key else topics[each]} hold at once"
        for each, count in counts.items()
        if each and count > 1
    ]
    if forks and len(topics) == 1:
        return forks[0]
    where = [f"on {topics[each]}" for each in topics if each]
    where += ["without a topic"] if where and "" in topics else []
    replaced = f"replaced by {len(heads)} decisions" + (f", {' and '.join(where)}" if where else "")
    return "; ".join((replaced, *forks))


def vacancy(
    resolved: chain.Graph, nodes: Mapping[str, Node], members: Collection[str], told: Collection[str] = ()
) -> str:
    """Say that nothing holds for decisions that belong together, and why: how those stand that nothing replaced.

    What they were only to replace elsewhere, and what holds still, is named; "" where something holds for them.

    Args:
        resolved: the graph.
        nodes: the decisions in it, by id.
        members: the decisions.
        told: those of which it is known already how they stand.
    """
    every, held = _last(resolved, members), ends(resolved, members)
    spared = _spared(resolved, every)
    if not set(held) <= set(spared):
        return ""
    last = [nodes[one] for one in every if one not in told]
    topics = {nodes[one].key: nodes[one].topic for one in members}
    counts = Counter(
        node.status + (f" on {node.topic}" if node.key not in topics else "")
        for node in last
        if node.status != "proposed"
    )
    why = ", ".join(f"{count} {how}" for how, count in counts.items())
    proposed = [phrases.called(node.title, node.id) for node in last if node.status == "proposed"]
    more = f" and {len(proposed) - NAMED} more" if len(proposed) > NAMED else ""
    named = f"proposed: {', '.join(proposed[:NAMED])}{more}" if proposed else ""
    where = " and ".join(topics[key] for key in topics if key)
    empty = f"nothing holds{f' on {where}' if spared else ''}{f': {why}' if why else ''}"
    denied = not held and (where or not spared)  # without a topic there is nowhere but where it still holds
    return "; ".join(filter(None, (empty if denied else "", named, holding([nodes[one] for one in spared]))))


def holding(heads: Sequence[Node]) -> str:
    """Say that decisions hold, by their names, each with its topic; "" for none."""
    told = [phrases.called(one.title, one.id) + (f" on {one.topic}" if one.key else "") for one in heads]
    return f"{' and '.join(told)} {'holds' if len(told) == 1 else 'hold'}" if told else ""


def only_proposed(resolved: chain.Graph, nodes: Mapping[str, Node], one: str) -> str:
    """Say what is only proposed in the place of a decision; "" for nothing.

    Args:
        resolved: the graph.
        nodes: the decisions in it, by id.
        one: the decision.
    """
    named = [phrases.called(nodes[new].title, new) for new in resolved.proposed_for(one)]
    return f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} only proposed" if named else ""


def _last(resolved: chain.Graph, members: Iterable[str]) -> list[str]:
    """What the ways up from some decisions end in, whatever its status, and what is proposed there; oldest first."""
    waiting, seen = list(members), set[str]()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += resolved.superseded_by(node) or resolved.proposed_for(node)
    return sorted((one for one in seen if not resolved.superseded_by(one)), key=lambda one: resolved.nodes[one].age)


def _spared(resolved: chain.Graph, last: Iterable[str]) -> list[str]:
    """What holds although some decisions, which were only proposed or were rejected, name it as replaced."""
    idle = [one for one in last if not resolved.nodes[one].demotes]
    heads = (head for one in idle for old in resolved.predecessors(one) for head in resolved.ends[old])
    return list(dict.fromkeys(heads))


def family(resolved: chain.Graph, node: Node) -> Sequence[str]:
    """The decisions that a decision belongs to: those on its topic, or, where it states none, those without a topic
    that links join to it, though by no way through a topic: what a topic replaced is that one's to tell.
    """
    return resolved.chain(node.key).order if node.key else linked(resolved, [node.id], loose=True)


def linked(resolved: chain.Graph, start: Iterable[str], *, loose: bool = False) -> list[str]:
    """The decisions that edges join to some, those included, oldest first; where `loose`, by those without a topic."""
    waiting = list(start)
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        joined = resolved.predecessors(node), resolved.superseded_by(node), resolved.proposed_for(node)
        new = {one for one in set().union(*joined) - seen if not (loose and resolved.topic_of(one))}
        seen |= new
        waiting.extend(new)
    return sorted(seen, key=lambda each: resolved.nodes[each].age)


def ends(resolved: chain.Graph, nodes: Iterable[str]) -> tuple[str, ...]:
    """What holds for some decisions."""
    return tuple(dict.fromkeys(head for node in nodes for head in resolved.heads_of(node)))


def is_live(graph: chain.Graph, node: Node) -> bool:
    """Whether a record holds today: it is no decision, or a head."""
    return node.type != DECISION or graph.is_head(node.id)
