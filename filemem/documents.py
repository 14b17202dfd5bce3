"""From records to what is indexed about them: exact terms, text to analyse, passages to embed, and a node. Pure.

A *node* is the small JSON value that travels with a document through the index: all that chains and listings need
without opening the file. The index does not look inside it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Self

from filemem import chain, query
from filemem.record import DECISION, Edge, Record, namesake, readings, short_id, topic_key

Resolve = Callable[[str], str | None]  # a reference as written -> the id of a record, where one is meant


_topic_key = lru_cache(maxsize=2048)(topic_key)  # a node is asked for its key over and over


class Doc(NamedTuple):
    """One indexed record.

    Args:
        path: store-relative path, the key of the document.
        blob: Git blob id of the bytes it was made from; embeddings are cached under it.
        id: the record's id.
        type: decision, checkpoint or observation.
        created: epoch milliseconds; orders listings and serves `since` / `until`.
        terms: exact values by field (see TERM_FIELDS); matched whole, never analysed.
        title: analysed, boosted.
        topic: analysed, boosted.
        body: analysed.
        passages: texts to embed, each with the title in front.
        node: JSON that travels with the document and means nothing to the index.
    """

    path: str
    blob: str
    id: str
    type: str
    created: int
    terms: Mapping[str, tuple[str, ...]]
    title: str
    topic: str
    body: str
    passages: tuple[str, ...]
    node: str


TERM_FIELDS = (
    "id",
    "short",
    "type",
    "topic",
    "tag",
    "outcome",
    "status",
    "agent",
    "affects",
    "branch",
    "user",
    "run",
    "metadata",  # see filemem.query.metadata
    "ref",  # ids that the record's edges point to
    "refers",  # the names that its references may mean, as they are written: where one changes hands, it is read again
    "live",  # yes, no
    "open",  # what a later look must settle: "id" (another file has it)
)


class Edited(NamedTuple):
    """A commit that changed a record after its first one. `at` in epoch milliseconds."""

    commit: str
    author: str
    agent: str
    at: int


EDITS_KEPT = 5  # of a record, the newest


STATED = ("user_id", "agent_id", "run_id", "scope", "memory_type")
"""Keys of a record that are asked for as if they were metadata."""


class Birth(NamedTuple):
    """Who wrote a record first, from Git alone: empty where it is not committed yet. `at` in epoch milliseconds.

    `path` is where it was then; `reviewers` and `co_authors` come from the commit's trailers; `edits` are the newest of
    the commits that changed it since, oldest first; `nth` says which of the files without an id that began at that path
    it is, counted as they landed. What is not committed may have a path and a number: those that it will have.
    `unsure` says that a partial clone lacks versions which may tell of an earlier commit.
    """

    commit: str = ""
    author: str = ""
    agent: str = ""
    at: int = 0
    path: str = ""
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    edits: tuple[Edited, ...] = ()
    nth: int = 1
    unsure: bool = False

    @property
    def unseen(self) -> bool:
        """Whether it came before the history that this clone has: only then a commit lacks its author."""
        return bool(self.commit) and not self.author

    @property
    def name(self) -> str:
        """What a file without an id is known by, as `parse` takes it; "" where that is its path of today."""
        return namesake(self.path, self.nth)

    def edited(self, later: Iterable[Edited]) -> Self:
        """The same with further edits, each after its ancestors; those it knows already are not counted twice.

        Sides that were merged are told by time; a rebase makes many commits in one second, which stay as they came.
        """
        every = dict.fromkeys((*self.edits, *later))
        return self._replace(edits=tuple(sorted(every, key=lambda edit: edit.at)[-EDITS_KEPT:]))


class Node(NamedTuple):
    """What chains and listings need to know of a record. Edge targets are ids where they could be resolved."""

    id: str
    path: str
    type: str
    title: str
    created: int
    topic: str = ""
    stated: bool = False
    status: str = "accepted"
    outcome: str = ""
    supersedes: tuple[str, ...] | None = None
    superseded_by: tuple[str, ...] = ()
    edges: tuple[tuple[str, str, str], ...] = ()  # kind, target, reason: all but supersedes
    birth: Birth = Birth()
    live: bool = True
    open: tuple[str, ...] = ()
    number: str = ""

    @property
    def key(self) -> str:
        """The topic's identity; empty where none is stated."""
        return _topic_key(self.topic) if self.stated else ""

    def values(self, field: str) -> tuple[str, ...]:
        """The exact terms of a field that decide which decisions belong together, as the index would have them."""
        return _TERMS[field](self)

    def dumps(self) -> str:
        """Write the node as JSON."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> "Node":
        """Read a node from JSON written by `dumps`."""
        return _loaded(text)


_TERMS: Mapping[str, Callable[[Node], tuple[str, ...]]] = {
    "topic": lambda node: (node.key,),
    "id": lambda node: (node.id,),
    "short": lambda node: (short_id(node.id),),
    "path": lambda node: (node.path,),
    "ref": lambda node: (*(node.supersedes or ()), *node.superseded_by, *(target for _, target, _ in node.edges)),
    "open": lambda node: node.open,
    "refers": lambda _: (),  # only the files say how a reference is written
}


def having(nodes: Iterable[Node], wanted: Mapping[str, Collection[str]]) -> list[Node]:
    """The nodes that have one of the exact terms in any of the fields, which `Node.values` knows."""
    asked = [(_TERMS[field], frozenset(terms)) for field, terms in wanted.items() if terms]
    return [node for node in nodes if any(not terms.isdisjoint(terms_of(node)) for terms_of, terms in asked)]


@lru_cache(maxsize=1024)  # one question meets the same nodes over and over: as candidates, neighbours and hits
def _loaded(text: str) -> Node:
    node = Node._make(json.loads(text))
    return node._replace(
        supersedes=None if node.supersedes is None else tuple(node.supersedes),
        superseded_by=tuple(node.superseded_by),
        edges=tuple((kind, target, reason) for kind, target, reason in node.edges),
        birth=_birth(*node.birth),
        open=tuple(node.open),
    )


def _birth(*values: Any) -> Birth:
    birth = Birth(*values)
    edits = tuple(Edited(*edit) for edit in birth.edits)
    return birth._replace(reviewers=tuple(birth.reviewers), co_authors=tuple(birth.co_authors), edits=edits)


def node_of(record: Record, birth: Birth, resolve: Resolve) -> Node:
    """Describe a record for chains and listings.

    Args:
        record: the record as read.
        birth: its first commit.
        resolve: turns a reference as written (id, number, file name, link) into an id.
    """

    def ids(references: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(resolve(reference) or reference for reference in references))

    def others(edge: Edge) -> tuple[str, str, str]:
        return edge.kind, ids((edge.target,))[0], edge.reason

    supersedes = None if record.supersedes is None else ids(record.supersedes)
    superseded_by = ids(record.superseded_by)
    edges = tuple(others(edge) for edge in record.edges if edge.kind != "supersedes")
    return Node(
        id=record.id,
        path=record.path,
        type=record.type,
        title=record.title,
        created=record.created if record.created is not None else birth.at,
        topic=record.topic,
        stated=record.topic_stated,
        status=record.status,
        outcome=record.outcome if record.type == DECISION else "",
        supersedes=supersedes,
        superseded_by=superseded_by,
        edges=edges,
        birth=birth,
        number=record.number,
    )


UNDATED = 2**63 - 1  # milliseconds: neither stated nor committed means that it has only just been written


def chain_node(node: Node) -> chain.Node:
    """The part of a node that decides supersession."""
    return chain.Node(
        id=node.id,
        path=node.path,
        topic=node.key,
        created=node.created or UNDATED,
        status=node.status,
        supersedes=node.supersedes,
        demoted_by=node.superseded_by,
        synthesizes=tuple(target for kind, target, _ in node.edges if kind == "synthesizes"),
        born=node.birth.commit,
        born_order=node.birth.at or -1,
        first_path=node.birth.path,
    )


def doc_of(record: Record, blob: str, node: Node) -> Doc:
    """Say what the index should know about a record."""
    body = "\n\n".join(part for part in _body(record) if part)
    analysed = f"{record.title}\n{body}"
    topic = record.topic if record.topic_stated else ""  # else it is the title, which would count twice
    return Doc(
        path=record.path,
        blob=blob,
        id=record.id,
        type=record.type,
        created=node.created,
        terms={name: values for name, values in _terms(record, node).items() if values},
        title=record.title,
        topic=" ".join(part for part in (topic, query.split_identifiers(topic)) if part),
        body=f"{body}\n\n{query.split_identifiers(analysed)}",
        passages=query.passages(f"{topic}: {record.title}" if topic else record.title, body),
        node=node.dumps(),
    )


def _terms(record: Record, node: Node) -> dict[str, tuple[str, ...]]:
    decision = record.type == DECISION
    targets = (*(node.supersedes or ()), *node.superseded_by, *(target for _, target, _ in node.edges))
    return {
        "id": (record.id,),
        "short": (short_id(record.id),),
        "type": (record.type,),
        "topic": (topic_key(record.topic),) if topic_key(record.topic) else (),
        "tag": tuple({query.fold(tag) for tag in (*record.tags, *record.concepts)}),
        "outcome": (record.outcome,) if decision else (),
        "status": (record.status,) if decision else (),
        "agent": tuple({query.fold(name) for name in (record.agent or node.birth.agent, record.agent_id)} - {""}),
        "affects": record.affects,
        "branch": (record.branch,) if record.branch else (),
        "user": (record.user_id,) if record.user_id else (),
        "run": (record.run_id,) if record.run_id else (),
        "metadata": _metadata(record),
        "ref": tuple(dict.fromkeys(targets)),
        "refers": tuple(dict.fromkeys(name for one in _references(record) for name in readings(one))),
        "live": ("yes" if node.live else "no",),
        "open": node.open,
    }


def _references(record: Record) -> tuple[str, ...]:
    return (*(record.supersedes or ()), *record.superseded_by, *(edge.target for edge in record.edges))


def _metadata(record: Record) -> tuple[str, ...]:
    """The metadata, and what callers file with it although the format has keys of their own for it."""
    stated = {name: value for name in STATED if (value := getattr(record, name))}
    return query.metadata_terms({**record.metadata, **stated}) if record.metadata or stated else ()


def _body(record: Record) -> tuple[str, ...]:
    """Everything a person could search for, in reading order. The title stands apart."""
    return (
        record.decision if record.decision != record.title else "",
        record.text,
        record.next_steps,
        "\n".join(record.facts),
        "\n".join(record.rejected),
        "\n".join(entry.reason for entry in record.outcomes if entry.reason),
        record.limitation,
        " ".join((*record.tags, *record.concepts)),
        " ".join((*record.affects, *record.open_files, *record.files_read, *record.files_modified)),
    )
