"""The supersession graph as a value: decisions, their chains, and which of them are live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from filemem.record import DECISION, Edge, Record, build_topic_key, shorten_id
from filemem.record.visibility import get_audience

DEMOTING = frozenset({"accepted", "deprecated"})

_UNDATED = 1 << 62  # sorts records without a date behind all others

# Chains read the key of a node many times.
_compute_topic_key = lru_cache(maxsize=2048)(build_topic_key)


class Node(NamedTuple):
    """The part of a record that chains and listings use.

    If two decisions have one id, the older counts. `from_record` keeps references as they are
    written; `resolve_references` replaces them by ids.
    """

    id: str
    path: str
    type: str
    title: str
    created: int = 0  # epoch milliseconds: as the file states, else its first commit, else 0
    topic: str = ""
    stated: bool = False  # whether it states its topic; if not, only stated edges link it
    status: str = "accepted"
    outcome: str = ""
    supersedes: tuple[str, ...] | None = None  # None if the key is absent
    superseded_by: tuple[str, ...] = ()  # as the record itself states it
    edges: tuple[Edge, ...] = ()  # all but `supersedes`
    slug: str = ""  # another name for the record, from its header
    affects: tuple[str, ...] = ()  # the paths and globs that it governs
    guards: tuple[str, ...] = ()  # the globs that its guards check
    branch: str = ""  # of a checkpoint
    tags: tuple[str, ...] = ()
    kind: str = ""  # of an observation
    agent: str = ""
    audience: str = ""  # who may see it; "" if everyone may

    @property
    def key(self) -> str:
        """The key of the stated topic, or ""."""
        if not self.stated:
            return ""
        return _compute_topic_key(self.topic)

    @property
    def label(self) -> str:
        """The title and the short id, for messages."""
        return f"{self.title} ({shorten_id(self.id)})"

    @property
    def folder(self) -> str:
        """The folder of its file, to which relative links refer."""
        return self.path.rpartition("/")[0]

    @property
    def replaced_references(self) -> tuple[str, ...]:
        """The references that decide its place in a chain."""
        stated_references = self.supersedes or ()
        return stated_references + self.superseded_by + self.merged_references

    @property
    def merged_references(self) -> tuple[str, ...]:
        """The decisions that it merges; it replaces those on its own topic."""
        return tuple(edge.target for edge in self.edges if edge.kind == "synthesizes")

    @property
    def is_demoting(self) -> bool:
        """Whether the decisions that it replaces are no longer live."""
        return self.status in DEMOTING

    @property
    def sort_key(self) -> tuple[int, str, str]:
        """The time and path by which records are sorted; the id makes the key unique."""
        return (self.created or _UNDATED, self.path, self.id)

    @property
    def references(self) -> tuple[str, ...]:
        """All records that it refers to, each once."""
        targets = list(self.supersedes or ())
        targets += self.superseded_by
        targets += [edge.target for edge in self.edges]
        return tuple(dict.fromkeys(targets))

    def resolve_references(self, ids: Mapping[str, str]) -> Node:
        """Return the node with its references replaced by the ids they stand for.

        `ids` maps references to ids; any other reference stays.
        """
        supersedes = self.supersedes
        if supersedes is not None:
            supersedes = _resolve_ids(supersedes, ids)
        edges = []
        for edge in self.edges:
            target = ids.get(edge.target, edge.target)
            edges.append(edge._replace(target=target))
        return self._replace(
            supersedes=supersedes,
            superseded_by=_resolve_ids(self.superseded_by, ids),
            edges=tuple(edges),
        )

    @classmethod
    def from_record(cls, record: Record) -> Node:
        """Build the node of a record, with its references as they are written."""
        outcome = ""
        if record.type == DECISION:
            outcome = record.outcome
        slug = record.extra.get("slug")
        if not isinstance(slug, str):
            slug = ""
        guard_globs: dict[str, None] = {}
        for guard in record.guards:
            guard_globs.update(dict.fromkeys(guard.globs))
        return cls(
            id=record.id,
            path=record.path,
            type=record.type,
            title=record.title,
            created=record.created or 0,
            topic=record.topic,
            stated=record.topic_stated,
            status=record.status,
            outcome=outcome,
            supersedes=record.supersedes,
            superseded_by=record.superseded_by,
            edges=tuple(edge for edge in record.edges if edge.kind != "supersedes"),
            slug=slug,
            affects=record.affects,
            guards=tuple(guard_globs),
            branch=record.branch,
            tags=record.tags,
            kind=record.kind,
            agent=record.agent,
            audience=get_audience(record),
        )


def _resolve_ids(references: Iterable[str], ids: Mapping[str, str]) -> tuple[str, ...]:
    resolved_ids = [ids.get(reference, reference) for reference in references]
    return tuple(dict.fromkeys(resolved_ids))


class Chain(NamedTuple):
    """The decisions of one topic."""

    topic: str  # topic key
    order: tuple[str, ...] = ()  # all decisions of any status, oldest first
    heads: tuple[str, ...] = ()  # the live decisions, oldest first
    implied: frozenset[str] = frozenset()  # decisions with an inferred predecessor

    @property
    def is_forked(self) -> bool:
        """Whether several decisions are live at once."""
        return len(self.heads) > 1


class Family(NamedTuple):
    """The decisions of one entry in a list of topics."""

    key: str  # of the topic; "" if only links join the decisions
    members: tuple[str, ...]  # oldest first; decisions that state the topic follow the others
    heads: tuple[str, ...]  # live decisions, of this topic or of topics that continue it


class Facts(NamedTuple):
    """The place of a decision among all others, as hits and their order need it."""

    superseded_by: tuple[str, ...] = ()  # the direct successors that demote it, oldest first
    proposed: tuple[str, ...] = ()  # proposed decisions that would replace it
    heads: tuple[str, ...] = ()  # the live decisions for it: see `Graph.list_heads`
    forked_heads: tuple[str, ...] = ()  # all live decisions of its topic, if there are several
    topic_keys: tuple[str, ...] = ()  # the keys of its topic and of the topics of its heads
    topic_proposals: tuple[str, ...] = ()  # without heads: the proposals on its topic
    incoming_edges: tuple[Edge, ...] = ()  # edges to it; `target` is the record they come from

    @classmethod
    def from_lists(cls, fields: Iterable[Iterable[Any]]) -> Facts:
        """Build facts from JSON: the list of their fields in order."""
        values = [tuple(values) for values in fields]
        facts = cls._make(values)
        edges = tuple(Edge._make(edge) for edge in facts.incoming_edges)
        return facts._replace(incoming_edges=edges)

    @property
    def shared_keys(self) -> tuple[str, ...]:
        """The keys, besides its id, that it can share with the others of its chain."""
        return self.heads + self.superseded_by + self.proposed + self.topic_keys

    def list_holding(self, node: str, /) -> tuple[str, ...]:
        """List the live decisions for the decision `node`; all of a fork if it is one of them."""
        if node in self.forked_heads:
            return self.forked_heads
        return self.heads

    def add_store_key(self, key: object, /) -> Facts:
        """Return the facts with the key of a store before each name."""

        def prefix(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(f"{key} {name}" for name in names)

        edges = [edge._replace(target=f"{key} {edge.target}") for edge in self.incoming_edges]
        return Facts(
            superseded_by=prefix(self.superseded_by),
            proposed=prefix(self.proposed),
            heads=prefix(self.heads),
            forked_heads=prefix(self.forked_heads),
            topic_keys=prefix(self.topic_keys),
            topic_proposals=prefix(self.topic_proposals),
            incoming_edges=tuple(edges),
        )


NO_FACTS = Facts()


class Flaw(NamedTuple):
    """A problem with a decision's edges; `code` and `level` as in `filemem.record.Problem`."""

    node: str
    code: str
    level: str
    message: str


class Graph(NamedTuple):
    """The supersession graph; `build_graph` builds it, and nothing changes it.

    Unknown ids and topics give empty answers.
    """

    nodes: Mapping[str, Node]  # in the order of all decisions
    chains: Mapping[str, Chain]
    replaced_ids: Mapping[str, tuple[str, ...]]
    demoters: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, tuple[str, ...]]  # the live decisions that successors lead to
    problems: tuple[Flaw, ...]
    proposals: Mapping[str, tuple[str, ...]] = {}

    def get_chain(self, topic: str, /) -> Chain:
        """Return the chain of a topic key."""
        return self.chains.get(topic) or Chain(topic)

    def get_topic_key(self, node: str, /) -> str:
        """Return the topic key of a decision; "" if it states no topic."""
        if node not in self.nodes:
            return ""
        return self.nodes[node].key

    def is_head(self, node: str, /) -> bool:
        """Return whether this decision is live: accepted, and demoted by no other."""
        return node in self.ends.get(node, ())

    def list_successors(self, node: str, /) -> tuple[str, ...]:
        """Return the direct successors that demote this decision, oldest first."""
        return self.demoters.get(node, ())

    def list_proposals(self, node: str, /) -> tuple[str, ...]:
        """List the proposed decisions that would replace this one, oldest first.

        There are none if it was already replaced.
        """
        if self.list_successors(node):
            return ()
        proposals = self.proposals.get(node, ())
        return tuple(new for new in proposals if not self.list_successors(new))

    def list_predecessors(self, node: str, /) -> tuple[str, ...]:
        """List the decisions that this one replaces, or would if accepted, oldest first."""
        return self.replaced_ids.get(node, ())

    def list_heads(self, node: str, /) -> tuple[str, ...]:
        """List the live decisions for a decision.

        They are the ends of its successors on any topic, else the heads of its topic.
        """
        ends = self.ends.get(node, ())
        if ends:
            return ends
        return self._get_own_chain(node).heads

    def _get_own_chain(self, node: str) -> Chain:
        topic = self.get_topic_key(node)
        return self.get_chain(topic)

    def list_holding(self, node: str, /) -> tuple[str, ...]:
        """List the live decisions for a decision; all of a fork if it is one of them."""
        chain = self._get_own_chain(node)
        if chain.is_forked and node in chain.heads:
            return chain.heads
        return self.list_heads(node)

    def list_topic_proposals(self, topic: str, /) -> tuple[str, ...]:
        """List the proposed decisions on a topic key, oldest first."""
        proposals = []
        for node in self.get_chain(topic).order:
            is_proposed = self.nodes[node].status == "proposed"
            if is_proposed and not self.list_successors(node):
                proposals.append(node)
        return tuple(proposals)

    def build_facts(self, edge_nodes: Iterable[Node]) -> dict[str, Facts]:
        """Build the facts of all decisions; `edge_nodes` are the records with edges to them."""
        topic_proposals = {topic: self.list_topic_proposals(topic) for topic in self.chains}
        incoming_edges: dict[str, list[Edge]] = defaultdict(list)
        for source in sorted(edge_nodes, key=attrgetter("sort_key")):
            for kind, target, reason in source.edges:
                edge = Edge(kind=kind, target=source.id, reason=reason)
                incoming_edges[target].append(edge)
        all_facts = {}
        for node in self.nodes.values():
            edges = incoming_edges.get(node.id, ())
            all_facts[node.id] = self._build_node_facts(node, topic_proposals, edges)
        return all_facts

    def _build_node_facts(
        self,
        node: Node,
        topic_proposals: Mapping[str, tuple[str, ...]],
        incoming_edges: Iterable[Edge],
    ) -> Facts:
        chain = self.get_chain(node.key)
        heads = self.list_heads(node.id)
        keys = {node.key}
        for head in heads:
            keys.add(self.get_topic_key(head))
        keys.discard("")
        proposals: tuple[str, ...] = ()
        if not heads:
            proposals = topic_proposals.get(node.key, ())
        forked_heads: tuple[str, ...] = ()
        if chain.is_forked:
            forked_heads = chain.heads
        return Facts(
            superseded_by=self.list_successors(node.id),
            proposed=self.list_proposals(node.id),
            heads=heads,
            forked_heads=forked_heads,
            topic_keys=tuple(sorted(f"topic:{key}" for key in keys)),
            topic_proposals=proposals,
            incoming_edges=tuple(incoming_edges),
        )

    def merge_heads(self, nodes: Iterable[str], /) -> tuple[str, ...]:
        """List the live decisions for these decisions, each once."""
        heads: dict[str, None] = {}
        for node in nodes:
            heads.update(dict.fromkeys(self.list_heads(node)))
        return tuple(heads)

    def list_topic_heads(self, topic: str, /) -> tuple[str, ...]:
        """List the live decisions for a topic key.

        They are its heads, else the heads of other topics that replaced its decisions.
        """
        chain = self.get_chain(topic)
        return chain.heads or self.merge_heads(chain.order)

    def list_next_superseded(self, topic: str, /) -> tuple[str, ...]:
        """List the decisions that a new decision on this topic key replaces.

        They are the heads, else the last deprecated decision without a successor.
        """
        chain = self.get_chain(topic)
        if chain.heads:
            return chain.heads
        for node in reversed(chain.order):
            is_deprecated = self.nodes[node].status == "deprecated"
            if is_deprecated and not self.list_successors(node):
                return (node,)
        return ()

    def list_family(self, node: str, /) -> tuple[str, ...]:
        """List the decisions of its topic, oldest first.

        If it states no topic, they are the decisions without a topic that links join to it.
        """
        topic = self.get_topic_key(node)
        if topic:
            return self.get_chain(topic).order
        return self.list_linked([node], topicless_only=True)

    def list_families(self) -> tuple[Family, ...]:
        """List the topics, and the groups of linked decisions without a topic.

        A group that leads to a topic is counted there.
        """
        families: list[Family] = []
        places: dict[str, int] = {}  # head -> index of its family
        for topic, chain in self.chains.items():
            heads = self.list_topic_heads(topic)
            places.update(dict.fromkeys(heads, len(families)))
            families.append(Family(topic, chain.order, heads))
        for group in self._iter_topicless_groups():
            heads = self.merge_heads(group)
            if heads and places.keys() >= set(heads):
                place = places[heads[-1]]
                family = families[place]
                families[place] = family._replace(members=group + family.members)
            else:
                families.append(Family(key="", members=group, heads=heads))
        return tuple(families)

    def _iter_topicless_groups(self) -> Iterator[tuple[str, ...]]:
        """Yield the groups of linked decisions without a topic, each decision once."""
        seen: set[str] = set()
        for node in self.nodes:
            if node in seen or self.get_topic_key(node):
                continue
            group = tuple(other for other in self.list_family(node) if other not in seen)
            seen.update(group)
            yield group

    def list_linked(
        self, start: Iterable[str], /, *, topicless_only: bool = False
    ) -> tuple[str, ...]:
        """List the decisions at `start` and all that links join to them, oldest first.

        `topicless_only` follows links only to decisions without a topic.
        """
        queue = list(start)
        seen = set(queue)
        while queue:
            node = queue.pop()
            neighbours = (
                self.list_predecessors(node)
                + self.list_successors(node)
                + self.list_proposals(node)
            )
            for other in neighbours:
                if other in seen or (topicless_only and self.get_topic_key(other)):
                    continue
                seen.add(other)
                queue.append(other)
        known_nodes = [self.nodes[node] for node in seen if node in self.nodes]
        known_nodes.sort(key=attrgetter("sort_key"))
        return tuple(node.id for node in known_nodes)
