"""The supersession graph as a value: what decisions say of their places, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from filemem.record import DECISION, Edge, Record, topic_key
from filemem.record.visibility import audience

DEMOTING = frozenset({"accepted", "deprecated"})

_topic_key = lru_cache(maxsize=2048)(topic_key)  # a node is asked for its key over and over
_UNDATED = 1 << 62  # sorts what has no date behind all else


class Node(NamedTuple):
    """What chains and listings need of a record. Of two decisions with one id the older counts.

    References are as they are written in what `of_record` makes; `meaning` makes ids of them.
    """

    id: str
    path: str
    type: str
    title: str
    created: int = 0  # epoch milliseconds: as the file states, else its first commit, else 0
    topic: str = ""
    stated: bool = False  # its topic; a decision that states none takes part in stated edges only
    status: str = "accepted"
    outcome: str = ""
    supersedes: tuple[str, ...] | None = None  # None where the key is absent
    superseded_by: tuple[str, ...] = ()  # what the record itself says it was superseded by
    edges: tuple[Edge, ...] = ()  # all but `supersedes`
    slug: str = ""  # what else the header says that it goes by
    affects: tuple[str, ...] = ()  # the paths and globs that it governs
    guards: tuple[str, ...] = ()  # the globs that its guards look into
    branch: str = ""  # of a checkpoint
    tags: tuple[str, ...] = ()
    kind: str = ""  # of an observation
    agent: str = ""
    audience: str = ""  # for whom it is meant; "" for everybody

    @property
    def key(self) -> str:
        """The topic's identity; empty where none is stated."""
        return _topic_key(self.topic) if self.stated else ""

    @property
    def folder(self) -> str:
        """The folder that its file is in: relative links start there."""
        return self.path.rpartition("/")[0]

    @property
    def replaces(self) -> tuple[str, ...]:
        """What its place in a chain depends on, as far as it says so itself."""
        return (*(self.supersedes or ()), *self.superseded_by, *self.synthesizes)

    @property
    def synthesizes(self) -> tuple[str, ...]:
        """What it merges: those on its own topic are replaced by it."""
        return tuple(edge.target for edge in self.edges if edge.kind == "synthesizes")

    @property
    def demotes(self) -> bool:
        """Whether what it replaces is no longer live."""
        return self.status in DEMOTING

    @property
    def age(self) -> tuple[int, str, str]:
        """The sort key of records: created, then path; the id only so that no two are equal."""
        return (self.created or _UNDATED, self.path, self.id)

    @property
    def references(self) -> tuple[str, ...]:
        """Every record that it refers to, each once."""
        targets = (edge.target for edge in self.edges)
        return tuple(dict.fromkeys((*(self.supersedes or ()), *self.superseded_by, *targets)))

    def meaning(self, ids: Mapping[str, str]) -> Node:
        """Return the node with its references replaced by what they mean."""

        def ids_of(references: Iterable[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(ids.get(reference, reference) for reference in references))

        return self._replace(
            supersedes=None if self.supersedes is None else ids_of(self.supersedes),
            superseded_by=ids_of(self.superseded_by),
            edges=tuple(
                edge._replace(target=ids.get(edge.target, edge.target)) for edge in self.edges
            ),
        )

    @classmethod
    def of_record(cls, record: Record) -> Node:
        """Return the node of a record, its references as they are written."""
        fields: dict[str, Any] = {name: getattr(record, name) for name in _COPIED}
        slug = record.extra.get("slug")
        return cls(
            **fields,
            created=record.created or 0,
            stated=record.topic_stated,
            outcome=record.outcome if record.type == DECISION else "",
            edges=tuple(edge for edge in record.edges if edge.kind != "supersedes"),
            slug=slug if isinstance(slug, str) else "",
            guards=tuple(dict.fromkeys(chain(*(guard.globs for guard in record.guards)))),
            audience=audience(record),
        )


_COPIED = {*Node._fields} & {*Record._fields} - {"created", "outcome", "guards"}


class Chain(NamedTuple):
    """The decisions of one topic."""

    topic: str  # topic key
    order: tuple[str, ...] = ()  # all of them, oldest first, whatever their status
    heads: tuple[str, ...] = ()  # those that hold today, oldest first
    implied: frozenset[str] = frozenset()  # those whose predecessor nobody stated

    @property
    def is_forked(self) -> bool:
        """True where two or more decisions hold at once, and somebody has to choose."""
        return len(self.heads) > 1


class Family(NamedTuple):
    """The decisions that are one entry in a list of topics."""

    key: str  # of the topic; "" where links alone join them
    members: tuple[str, ...]  # oldest first, those that state the topic behind the others
    heads: tuple[str, ...]  # what holds, on this topic or on others that went on with it


class Facts(NamedTuple):
    """What follows for a decision from all others, as hits and known order need it."""

    superseded_by: tuple[str, ...] = ()  # the direct successors that demote it, oldest first
    proposed: tuple[str, ...] = ()  # what is only proposed to replace it
    heads: tuple[str, ...] = ()  # what holds today for it: see `Graph.heads_of`
    forked: tuple[str, ...] = ()  # all that hold on its topic, where several do
    topics: tuple[str, ...] = ()  # the keys of its topic and of its heads'
    waiting: tuple[str, ...] = ()  # where nothing holds for it: what is proposed on its topic
    pointing: tuple[Edge, ...] = ()  # edges to it; the target is whose they are

    @classmethod
    def of(cls, parts: Iterable[Iterable[Any]]) -> Facts:
        """Return the facts that were written as JSON: as the list of their fields."""
        *names, pointing = map(tuple, parts)
        return cls._make((*names, tuple(map(Edge._make, pointing))))

    @property
    def ties(self) -> tuple[str, ...]:
        """What it has in common with the others of its chain, besides its own id."""
        return (*self.heads, *self.superseded_by, *self.proposed, *self.topics)

    def holds_for(self, node: str, /) -> tuple[str, ...]:
        """Return what holds for the decision with these facts: on a forked topic all, for one."""
        return self.forked if node in self.forked else self.heads

    def addressed(self, key: object, /) -> Facts:
        """Return them with the key of a store before each name."""

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(f"{key} {name}" for name in names)

        edges = tuple(edge._replace(target=f"{key} {edge.target}") for edge in self.pointing)
        return Facts._make((*map(named, self[:-1]), edges))


NO_FACTS = Facts()


class Flaw(NamedTuple):
    """What is wrong with a decision's place; `code` and `level` as in `filemem.record.Problem`."""

    node: str
    code: str
    level: str
    message: str


class Graph(NamedTuple):
    """Answers about supersession; made by `resolve`, never changed.

    Unknown ids and topics give empty answers.
    """

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
        return self.nodes[node].key if node in self.nodes else ""

    def is_head(self, node: str, /) -> bool:
        """Return whether this decision holds today: accepted, and demoted by nothing."""
        return node in self.ends.get(node, ())

    def superseded_by(self, node: str, /) -> tuple[str, ...]:
        """Return the direct successors that demote this decision, oldest first."""
        return self.demoters.get(node, ())

    def proposed_for(self, node: str, /) -> tuple[str, ...]:
        """Return what is only proposed to replace this decision, oldest first.

        Empty if something has replaced it.
        """
        if self.superseded_by(node):
            return ()
        proposals = self.proposals.get(node, ())
        return tuple(new for new in proposals if not self.superseded_by(new))

    def predecessors(self, node: str, /) -> tuple[str, ...]:
        """Return what this decision replaces, or would replace if accepted, oldest first."""
        return self.replaces.get(node, ())

    def heads_of(self, node: str, /) -> tuple[str, ...]:
        """Return what holds today for a decision.

        The ends of all ways up, on any topic; else the heads of its topic.
        """
        return self.ends.get(node) or self.chain(self.topic_of(node)).heads

    def holds_for(self, node: str, /) -> tuple[str, ...]:
        """Return what holds today for a decision; on a forked topic all, for one of them."""
        heads = self.chain(self.topic_of(node)).heads
        return heads if len(heads) > 1 and node in heads else self.heads_of(node)

    def waiting(self, topic: str, /) -> tuple[str, ...]:
        """Return what is only proposed on a topic key, oldest first."""
        order = self.chain(topic).order
        proposed = (node for node in order if self.nodes[node].status == "proposed")
        return tuple(node for node in proposed if not self.superseded_by(node))

    def facts(self, pointing: Iterable[Node]) -> dict[str, Facts]:
        """Return the facts of all decisions; `pointing`: the records whose edges lead to them."""
        waiting = {topic: self.waiting(topic) for topic in self.chains}
        edges: dict[str, list[Edge]] = {}
        for other in sorted(pointing, key=lambda node: node.age):
            for kind, target, reason in other.edges:
                edges.setdefault(target, []).append(Edge(kind, other.id, reason))
        return {
            node.id: self._facts(node, waiting, edges.get(node.id, ()))
            for node in self.nodes.values()
        }

    def _facts(
        self,
        node: Node,
        waiting: Mapping[str, tuple[str, ...]],
        pointing: Iterable[Edge],
    ) -> Facts:
        chain = self.chain(node.key)
        heads = self.heads_of(node.id)
        keys = {node.key, *map(self.topic_of, heads)} - {""}
        return Facts(
            superseded_by=self.superseded_by(node.id),
            proposed=self.proposed_for(node.id),
            heads=heads,
            forked=chain.heads if chain.is_forked else (),
            topics=tuple(sorted(f"topic:{key}" for key in keys)),
            waiting=() if heads else waiting.get(node.key, ()),
            pointing=tuple(pointing),
        )

    def ends_of(self, nodes: Iterable[str], /) -> tuple[str, ...]:
        """Return what holds today for these decisions, each once."""
        return tuple(dict.fromkeys(end for node in nodes for end in self.heads_of(node)))

    def holding(self, topic: str, /) -> tuple[str, ...]:
        """Return what holds today for a topic key.

        Its heads, else what replaced its decisions on other topics.
        """
        chain = self.chain(topic)
        return chain.heads or self.ends_of(chain.order)

    def next_supersedes(self, topic: str, /) -> tuple[str, ...]:
        """Return what a new decision on this topic key replaces.

        The heads, else the last deprecated decision that nothing replaced.
        """
        chain = self.chain(topic)
        left = [node for node in chain.order if not self.superseded_by(node)]
        deprecated = [node for node in left if self.nodes[node].status == "deprecated"]
        return chain.heads or tuple(deprecated[-1:])

    def family(self, node: str, /) -> tuple[str, ...]:
        """Return the decisions of its topic, oldest first.

        If it states none, those without a topic that links join to it.
        """
        topic = self.topic_of(node)
        return self.chain(topic).order if topic else self.linked([node], loose=True)

    def families(self) -> tuple[Family, ...]:
        """Return the topics, and what links join without one.

        What leads to a topic is counted there.
        """
        families = [
            Family(key, chain.order, self.holding(key)) for key, chain in self.chains.items()
        ]
        places = {head: at for at, family in enumerate(families) for head in family.heads}
        loose = {node: None for node in self.nodes if not self.topic_of(node)}
        while loose:
            members = tuple(node for node in self.family(next(iter(loose))) if node in loose)
            for node in members:
                del loose[node]
            heads = self.ends_of(members)
            if heads and places.keys() >= set(heads):
                place = places[heads[-1]]
                topic = families[place]
                families[place] = topic._replace(members=(*members, *topic.members))
            else:
                families.append(Family("", members, heads))
        return tuple(families)

    def linked(self, start: Iterable[str], /, *, loose: bool = False) -> tuple[str, ...]:
        """Return the decisions that links join to some, and those, oldest first.

        `loose`: only over decisions without a topic.
        """
        waiting = list(start)
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            joined = (*self.predecessors(node), *self.superseded_by(node), *self.proposed_for(node))
            for other in joined:
                if other not in seen and not (loose and self.topic_of(other)):
                    seen.add(other)
                    waiting.append(other)
        return tuple(sorted(seen & self.nodes.keys(), key=lambda name: self.nodes[name].age))
