"""The supersession graph as a value: what decisions say of their places, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from filemem.record import DECISION, Edge, Record, build_topic_key
from filemem.record.visibility import get_audience

DEMOTING = frozenset({"accepted", "deprecated"})

_compute_topic_key = lru_cache(maxsize=2048)(
    build_topic_key
)  # a node is asked for its key over and over
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
        return _compute_topic_key(self.topic) if self.stated else ""

    @property
    def folder(self) -> str:
        """The folder that its file is in: relative links start there."""
        return self.path.rpartition("/")[0]

    @property
    def replaced_references(self) -> tuple[str, ...]:
        """What its place in a chain depends on, as far as it says so itself."""
        return (*(self.supersedes or ()), *self.superseded_by, *self.merged_references)

    @property
    def merged_references(self) -> tuple[str, ...]:
        """What it merges: those on its own topic are replaced by it."""
        return tuple(edge.target for edge in self.edges if edge.kind == "synthesizes")

    @property
    def is_demoting(self) -> bool:
        """Whether what it replaces is no longer live."""
        return self.status in DEMOTING

    @property
    def sort_key(self) -> tuple[int, str, str]:
        """The sort key of records: created, then path; the id only so that no two are equal."""
        return (self.created or _UNDATED, self.path, self.id)

    @property
    def references(self) -> tuple[str, ...]:
        """Every record that it refers to, each once."""
        targets = (edge.target for edge in self.edges)
        return tuple(dict.fromkeys((*(self.supersedes or ()), *self.superseded_by, *targets)))

    def resolve_references(self, ids: Mapping[str, str]) -> Node:
        """Return the node with its references replaced by what they mean."""

        def resolve_ids(references: Iterable[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(ids.get(reference, reference) for reference in references))

        return self._replace(
            supersedes=None if self.supersedes is None else resolve_ids(self.supersedes),
            superseded_by=resolve_ids(self.superseded_by),
            edges=tuple(
                edge._replace(target=ids.get(edge.target, edge.target)) for edge in self.edges
            ),
        )

    @classmethod
    def from_record(cls, record: Record) -> Node:
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
            audience=get_audience(record),
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
    forked_heads: tuple[str, ...] = ()  # all that hold on its topic, where several do
    topic_keys: tuple[str, ...] = ()  # the keys of its topic and of its heads'
    topic_proposals: tuple[
        str, ...
    ] = ()  # where nothing holds for it: what is proposed on its topic
    incoming_edges: tuple[Edge, ...] = ()  # edges to it; the target is whose they are

    @classmethod
    def from_lists(cls, parts: Iterable[Iterable[Any]]) -> Facts:
        """Return the facts that were written as JSON: as the list of their fields."""
        *names, incoming_edges = map(tuple, parts)
        return cls._make((*names, tuple(map(Edge._make, incoming_edges))))

    @property
    def shared_keys(self) -> tuple[str, ...]:
        """What it has in common with the others of its chain, besides its own id."""
        return (*self.heads, *self.superseded_by, *self.proposed, *self.topic_keys)

    def list_holding(self, node: str, /) -> tuple[str, ...]:
        """Return what holds for the decision with these facts: on a forked topic all, for one."""
        return self.forked_heads if node in self.forked_heads else self.heads

    def add_store_key(self, key: object, /) -> Facts:
        """Return them with the key of a store before each name."""

        def prefix_names(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(f"{key} {name}" for name in names)

        edges = tuple(edge._replace(target=f"{key} {edge.target}") for edge in self.incoming_edges)
        return Facts._make((*map(prefix_names, self[:-1]), edges))


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
    replaced_ids: Mapping[str, tuple[str, ...]]
    demoters: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, tuple[str, ...]]
    problems: tuple[Flaw, ...]
    proposals: Mapping[str, tuple[str, ...]] = {}

    def get_chain(self, topic: str, /) -> Chain:
        """Return the chain of a topic key."""
        return self.chains.get(topic) or Chain(topic)

    def get_topic_key(self, node: str, /) -> str:
        """Return the topic key of a decision; empty where it states none."""
        return self.nodes[node].key if node in self.nodes else ""

    def is_head(self, node: str, /) -> bool:
        """Return whether this decision holds today: accepted, and demoted by nothing."""
        return node in self.ends.get(node, ())

    def list_successors(self, node: str, /) -> tuple[str, ...]:
        """Return the direct successors that demote this decision, oldest first."""
        return self.demoters.get(node, ())

    def list_proposals(self, node: str, /) -> tuple[str, ...]:
        """Return what is only proposed to replace this decision, oldest first.

        Empty if something has replaced it.
        """
        if self.list_successors(node):
            return ()
        proposals = self.proposals.get(node, ())
        return tuple(new for new in proposals if not self.list_successors(new))

    def list_predecessors(self, node: str, /) -> tuple[str, ...]:
        """Return what this decision replaces, or would replace if accepted, oldest first."""
        return self.replaced_ids.get(node, ())

    def list_heads(self, node: str, /) -> tuple[str, ...]:
        """Return what holds today for a decision.

        The ends of all ways up, on any topic; else the heads of its topic.
        """
        return self.ends.get(node) or self.get_chain(self.get_topic_key(node)).heads

    def list_holding(self, node: str, /) -> tuple[str, ...]:
        """Return what holds today for a decision; on a forked topic all, for one of them."""
        heads = self.get_chain(self.get_topic_key(node)).heads
        return heads if len(heads) > 1 and node in heads else self.list_heads(node)

    def list_topic_proposals(self, topic: str, /) -> tuple[str, ...]:
        """Return what is only proposed on a topic key, oldest first."""
        order = self.get_chain(topic).order
        proposed_ids = (node for node in order if self.nodes[node].status == "proposed")
        return tuple(node for node in proposed_ids if not self.list_successors(node))

    def build_facts(self, edge_nodes: Iterable[Node]) -> dict[str, Facts]:
        """Return the facts of all decisions; `pointing`: the records whose edges lead to them."""
        topic_proposals = {topic: self.list_topic_proposals(topic) for topic in self.chains}
        edges: dict[str, list[Edge]] = {}
        for other in sorted(edge_nodes, key=lambda node: node.sort_key):
            for kind, target, reason in other.edges:
                edges.setdefault(target, []).append(Edge(kind, other.id, reason))
        return {
            node.id: self._build_node_facts(node, topic_proposals, edges.get(node.id, ()))
            for node in self.nodes.values()
        }

    def _build_node_facts(
        self,
        node: Node,
        topic_proposals: Mapping[str, tuple[str, ...]],
        incoming_edges: Iterable[Edge],
    ) -> Facts:
        chain = self.get_chain(node.key)
        heads = self.list_heads(node.id)
        keys = {node.key, *map(self.get_topic_key, heads)} - {""}
        return Facts(
            superseded_by=self.list_successors(node.id),
            proposed=self.list_proposals(node.id),
            heads=heads,
            forked_heads=chain.heads if chain.is_forked else (),
            topic_keys=tuple(sorted(f"topic:{key}" for key in keys)),
            topic_proposals=() if heads else topic_proposals.get(node.key, ()),
            incoming_edges=tuple(incoming_edges),
        )

    def merge_heads(self, nodes: Iterable[str], /) -> tuple[str, ...]:
        """Return what holds today for these decisions, each once."""
        return tuple(dict.fromkeys(end for node in nodes for end in self.list_heads(node)))

    def list_topic_heads(self, topic: str, /) -> tuple[str, ...]:
        """Return what holds today for a topic key.

        Its heads, else what replaced its decisions on other topics.
        """
        chain = self.get_chain(topic)
        return chain.heads or self.merge_heads(chain.order)

    def list_next_superseded(self, topic: str, /) -> tuple[str, ...]:
        """Return what a new decision on this topic key replaces.

        The heads, else the last deprecated decision that nothing replaced.
        """
        chain = self.get_chain(topic)
        unreplaced = [node for node in chain.order if not self.list_successors(node)]
        deprecated = [node for node in unreplaced if self.nodes[node].status == "deprecated"]
        return chain.heads or tuple(deprecated[-1:])

    def list_family(self, node: str, /) -> tuple[str, ...]:
        """Return the decisions of its topic, oldest first.

        If it states none, those without a topic that links join to it.
        """
        topic = self.get_topic_key(node)
        return (
            self.get_chain(topic).order if topic else self.list_linked([node], topicless_only=True)
        )

    def list_families(self) -> tuple[Family, ...]:
        """Return the topics, and what links join without one.

        What leads to a topic is counted there.
        """
        families = [
            Family(key, chain.order, self.list_topic_heads(key))
            for key, chain in self.chains.items()
        ]
        places = {head: index for index, family in enumerate(families) for head in family.heads}
        topicless = {node: None for node in self.nodes if not self.get_topic_key(node)}
        while topicless:
            members = tuple(
                node for node in self.list_family(next(iter(topicless))) if node in topicless
            )
            for node in members:
                del topicless[node]
            heads = self.merge_heads(members)
            if heads and places.keys() >= set(heads):
                place = places[heads[-1]]
                topic = families[place]
                families[place] = topic._replace(members=(*members, *topic.members))
            else:
                families.append(Family("", members, heads))
        return tuple(families)

    def list_linked(
        self, start: Iterable[str], /, *, topicless_only: bool = False
    ) -> tuple[str, ...]:
        """Return the decisions that links join to some, and those, oldest first.

        `loose`: only over decisions without a topic.
        """
        queue = list(start)
        seen = set(queue)
        while queue:
            node = queue.pop()
            neighbours = (
                *self.list_predecessors(node),
                *self.list_successors(node),
                *self.list_proposals(node),
            )
            for other in neighbours:
                if other not in seen and not (topicless_only and self.get_topic_key(other)):
                    seen.add(other)
                    queue.append(other)
        return tuple(sorted(seen & self.nodes.keys(), key=lambda name: self.nodes[name].sort_key))
