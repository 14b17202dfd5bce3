"""How a topic was decided, and how records were edited: the chain as files state it, the rest from the commit table.

Rule: identity and order come from the files, so that squash merges and rebases break no chain; commits only add who,
when and which edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.index import Around, Node
from filemem.memory import fields
from filemem.memory.evidence import Testimony
from filemem.memory.hits import present, vacancy
from filemem.memory.store import Store
from filemem.query import Hit
from filemem.record import DECISION, Parsed, parse, topic_key
from filemem.record.compare import FORM, changes, damage
from filemem.repo.history import Touch


class Revision(NamedTuple):
    """One edit of a record, or its move to another path."""

    commit: str  # full id; empty for an edit that is not committed
    author: str  # as the commit says
    agent: str
    at: int  # epoch milliseconds
    subject: str
    changes: tuple[str, ...] = ()  # in phrases such as `status accepted -> deprecated`


class Step(NamedTuple):
    """One decision in the history of a topic."""

    hit: Hit  # as its file says it now, who brought it, what replaced it, and what commits say came of it
    supersedes: tuple[str, ...] = ()  # ids, oldest first
    implied: bool = False  # nobody stated what it supersedes
    foreign: bool = False  # it belongs to another topic that the chain leads to
    revisions: tuple[Revision, ...] = ()  # edits in place, oldest first, at the end those that are not committed


class History(NamedTuple):
    """How a topic was decided: the chain, oldest first, and its live decisions."""

    topic: str
    heads: tuple[str, ...]  # what holds on the topic; where nothing does, what replaced its decisions on others
    chain: tuple[Step, ...]
    notes: tuple[str, ...] = ()  # what Git's history does not show, and why
    forked: bool = False  # several decisions on the topic hold at once
    vacancy: str = ""  # in words, why nothing holds


def history(store: Store, topic_or_id: str) -> History:
    """Return how a topic was decided, or the chain of a decision: by id, path, title, number or file name.

    Raises NotFound, with what was probably meant; BadInput: the record is not a decision.
    """
    key = topic_key(topic_or_id)
    start = [node for node in store.index.lookup("topic", [key]) if node.key] if key else []
    if not start:
        start = [store.find(topic_or_id)]
        if start[0].type != DECISION:
            told = f"{start[0].id} is {fields.article(start[0].type)}; only decisions have a history of supersession"
            raise BadInput(told, field="topic")
        key = start[0].key
    around = store.index.around(start)
    graph = around.graph
    members = graph.family(start[0].id)
    heads = graph.holding(key) if key else graph.ends_of(members)
    chain = _steps(store, around, [around.nodes[one] for one in graph.linked(members)], key)
    last = around.nodes[members[-1]]
    topic = last.topic if key else start[0].topic
    why, notes = vacancy(graph, around.nodes, last, heads), tuple(filter(None, [store.repo.incomplete()]))
    return History(topic, heads, tuple(chain), notes, graph.chain(key).is_forked, why)


def revisions(store: Store, references: Iterable[str]) -> dict[str, tuple[Revision, ...]]:
    """Return the edits of some records, by id. Raises NotFound."""
    nodes = [store.find(one) for one in references]
    return {node.id: _revisions(store, node, touches) for node, touches in _touches(store, nodes)}


def _touches(store: Store, nodes: Sequence[Node]) -> list[tuple[Node, tuple[Touch, ...]]]:
    found = store.history.touches([store.files.named(node.path) for node in nodes], store.tip)
    return [(node, found[store.files.named(node.path)]) for node in nodes]


def _steps(store: Store, around: Around, nodes: Sequence[Node], key: str) -> Iterable[Step]:
    graph, testimony = around.graph, Testimony(store)
    hits = {hit.record.id: hit for hit in present(store, nodes)}
    for node, touches in _touches(store, [node for node in nodes if node.id in hits]):
        hit = hits[node.id]
        yield Step(
            hit=hit._replace(evidence=testimony.of(node, hit.record)),
            supersedes=graph.predecessors(node.id),
            implied=node.id in graph.chain(node.key).implied,
            foreign=node.key != key,
            revisions=_revisions(store, node, touches),
        )


def _revisions(store: Store, node: Node, touches: Sequence[Touch]) -> tuple[Revision, ...]:
    """The edits of a file after its first commit, oldest first, uncommitted changes included."""
    edits = []
    for _, touch in pairwise(reversed(touches)):
        told: tuple[str, ...] = {"D": ("removed",), "A": ("brought back",)}.get(touch.kind, ())
        if not told:
            was = _version(store, touch.old, touch.before or touch.path)
            told = _compared(was, _version(store, touch.new, touch.path))
        commit = touch.commit
        edits.append(Revision(commit.id, commit.author, commit.agent, commit.at, commit.subject, told))
    if touches and store.tip == "HEAD" and store.edited(node.path):
        was = _version(store, touches[0].new, touches[0].path)
        edits.append(Revision("", "", "", 0, "", _compared(was, store.read(node.path))))
    return tuple(edits)


def _version(store: Store, blob: str, path: str) -> Parsed:
    data = store.repo.blob(blob) if blob else None
    return Parsed(None) if data is None else parse(data, store.files.inside(path))


def _compared(before: Parsed, after: Parsed) -> tuple[str, ...]:
    if before.record is None or after.record is None:
        return ()
    told = damage(before.problems, after.problems)
    phrases = changes(before.record, after.record)
    return (*(one for one in phrases if not told or one != FORM), *told)
