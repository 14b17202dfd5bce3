"""The supersession graph as a value: what a decision says about its place, and what follows from all of it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

DEMOTING = frozenset({"accepted", "deprecated"})

_UNDATED = 1 << 62  # sorts what nobody knows a date of behind all else


class Node(NamedTuple):
    """What one decision says about its place.

    Args:
        id: its identity; of two nodes with one id the older counts.
        path: store-relative.
        topic: topic key; empty where none is stated, such a decision takes part in stated edges only.
        created: epoch milliseconds; 0 where nobody knows.
        status: proposed, accepted, rejected or deprecated.
        supersedes: references (ids, or paths of files without an id); None where the key is absent.
        demoted_by: references to what the record itself says it was superseded by.
        synthesizes: references; those on its own topic are replaced by it.
    """

    id: str
    path: str
    topic: str
    created: int
    status: str
    supersedes: tuple[str, ...] | None
    demoted_by: tuple[str, ...] = ()
    synthesizes: tuple[str, ...] = ()

    @property
    def demotes(self) -> bool:
        """True where what it replaces is no longer live."""
        return self.status in DEMOTING

    @property
    def age(self) -> tuple[int, str, str]:
        """The sort key of decisions: created, then path; the id only so that no two are equal."""
        return (self.created or _UNDATED, self.path, self.id)


class Chain(NamedTuple):
    """The decisions of one topic.

    Args:
        topic: topic key.
        order: all of them, oldest first, whatever their status.
        heads: those that hold today, oldest first.
        implied: those whose predecessor nobody stated.
        replaced: how many are superseded.
    """

    topic: str
    order: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    implied: frozenset[str] = frozenset()
    replaced: int = 0

    @property
    def is_forked(self) -> bool:
        """True where two or more decisions hold at once, and somebody has to choose."""
        return len(self.heads) > 1


class Flaw(NamedTuple):
    """What is wrong with a decision's place; `code` and `level` as in `filemem.record.Problem`."""

    node: str
    code: str
    level: str
    message: str


class Graph(NamedTuple):
    """Answers about supersession; made by `resolve`, never changed. Unknown ids and topics give empty answers."""

    nodes: Mapping[str, Node]  # in the one order of all decisions
    chains: Mapping[str, Chain]
    replaces: Mapping[str, tuple[str, ...]]
    demoters: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, tuple[str, ...]]
    problems: tuple[Flaw, ...]
    proposals: Mapping[str, tuple[str, ...]] = {}

    def chain(self, topic: str, /) -> Chain:
        """Return the chain of a topic key."""
        return self.chains.get(topic) or Chain(topic)

    def topic_of(self, node: str, /) -> str:
        """Return the topic key of a decision; empty where it states none."""
        return self.nodes[node].topic if node in self.nodes else ""

    def is_head(self, node: str, /) -> bool:
        """Return whether this decision holds today: accepted, and demoted by nothing."""
        return node in self.ends.get(node, ())

    def superseded_by(self, node: str, /) -> tuple[str, ...]:
        """Return the direct successors that demote this decision, oldest first."""
        return self.demoters.get(node, ())

    def proposed_for(self, node: str, /) -> tuple[str, ...]:
        """Return what is only proposed to replace this decision, oldest first; empty where something has."""
        if self.superseded_by(node):
            return ()
        return tuple(each for each in self.proposals.get(node, ()) if not self.superseded_by(each))

    def predecessors(self, node: str, /) -> tuple[str, ...]:
        """Return what this decision replaces (or would replace, where it is only proposed), oldest first."""
        return self.replaces.get(node, ())

    def heads_of(self, node: str, /) -> tuple[str, ...]:
        """Return what holds today for this decision: the ends of all ways up from it, also on other topics.

        Where no way leads to a head (it was only proposed, or ends in a deprecated one), the topic's heads.
        """
        return self.ends.get(node) or self.chain(self.topic_of(node)).heads

    def holding(self, topic: str, /) -> tuple[str, ...]:
        """Return what holds today for a topic key: its heads, else what replaced its decisions on others."""
        chain = self.chain(topic)
        return chain.heads or tuple(dict.fromkeys(end for node in chain.order for end in self.ends[node]))

    def next_supersedes(self, topic: str, /) -> tuple[str, ...]:
        """Return what a new decision on this topic key replaces: the heads, else the last deprecated one left."""
        chain = self.chain(topic)
        left = [node for node in chain.order if not self.superseded_by(node)]
        return chain.heads or tuple([node for node in left if self.nodes[node].status == "deprecated"][-1:])

    def family(self, node: str, /) -> tuple[str, ...]:
        """Return the decisions that one belongs to, oldest first: its topic's, or, where it states none, those without
        a topic that links join to it."""
        topic = self.topic_of(node)
        return self.chain(topic).order if topic else self.linked([node], loose=True)

    def linked(self, start: Iterable[str], /, *, loose: bool = False) -> tuple[str, ...]:
        """Return the decisions that links join to some, those included, oldest first; with `loose`, by those without a
        topic."""
        waiting = list(start)
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            joined = {*self.predecessors(node), *self.superseded_by(node), *self.proposed_for(node)} - seen
            new = {one for one in joined if not (loose and self.topic_of(one))}
            seen |= new
            waiting.extend(new)
        return tuple(sorted(seen & self.nodes.keys(), key=lambda each: self.nodes[each].age))
