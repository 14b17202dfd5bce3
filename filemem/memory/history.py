"""Answers in time order: how a topic was decided, all topics, what was saved around a moment.

Rule: identity and order come from the files, so that squash merges and rebases break no chain;
commits only add who, when and which edit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.index import Around, Node
from filemem.memory import fields, search
from filemem.memory.evidence import Testimony
from filemem.memory.hits import present, vacancy, without
from filemem.memory.store import Store
from filemem.query import Filter, Hit, Results
from filemem.record import (
    CHECKPOINT,
    DECISION,
    Parsed,
    adr_number,
    parse_time,
    short_id,
    topic_key,
)
from filemem.record.compare import FORM, changes, damage
from filemem.repo.history import Touch

LOOKED_AT = 50  # checkpoints among which this author's is looked for


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

    hit: Hit  # as its file is now, with what replaced it, and what commits say came of it
    supersedes: tuple[str, ...] = ()  # ids, oldest first
    implied: bool = False  # nobody stated what it supersedes
    foreign: bool = False  # it belongs to another topic that the chain leads to
    revisions: tuple[Revision, ...] = ()  # edits in place, oldest first, uncommitted ones last


class History(NamedTuple):
    """How a topic was decided: the chain, oldest first, and its live decisions."""

    topic: str
    heads: tuple[str, ...]  # what holds; if nothing does, what replaced its decisions elsewhere
    chain: tuple[Step, ...]
    notes: tuple[str, ...] = ()  # what Git's history does not show, and why
    forked: bool = False  # several decisions on the topic hold at once
    vacancy: str = ""  # in words, why nothing holds


class Topics(NamedTuple):
    """A page of the list of topics."""

    topics: tuple[Topic, ...]
    total: int  # in all, without a limit


class Topic(NamedTuple):
    """A topic with its live decisions."""

    topic: str  # its name; where no decision states one, the heading
    decisions: int  # how many there are
    heads: tuple[str, ...]  # ids of what holds, or of what replaced its decisions on other topics
    title: str  # the newest head's
    latest: int  # when the last one was made, epoch milliseconds
    stated: bool = True  # whether decisions name the topic; else they are joined by links alone
    forked: bool = False  # several decisions on the topic hold at once
    vacancy: str = ""  # in words, why nothing holds
    number: int | None = None  # in the file name of what holds, as ADRs have one
    path: str = ""  # of the file whose heading is the topic, if no decision states it


def history(store: Store, topic_or_id: str) -> History:
    """Return how a topic was decided, or the chain of a decision.

    That is found by id, path, title, number or file name. Raises NotFound, with what was probably
    meant; BadInput: the record is not a decision.
    """
    key = topic_key(topic_or_id)
    barred = store.barred
    start = store.index.lookup("topic", [key]) if key else []
    start = [node for node in start if node.key and node.id not in barred]
    if not start:
        start = [store.find(topic_or_id)]
        key = start[0].key
        if start[0].type != DECISION:
            article = fields.article(start[0].type)
            message = f"{start[0].id} is {article}; only decisions have a history of supersession"
            raise BadInput(message, field="topic")
    around = store.index.around(start)
    graph = around.graph
    members = graph.family(start[0].id)
    heads = graph.holding(key) if key else graph.ends_of(members)
    chain = _steps(store, around, [around.nodes[name] for name in graph.linked(members)], key)
    last = around.nodes[members[-1]]
    return History(
        topic=last.topic if key else start[0].topic,
        heads=without(barred, heads),
        chain=tuple(chain),
        notes=tuple(filter(None, [store.repo.incomplete()])),
        forked=graph.chain(key).is_forked,
        vacancy="" if heads else _vacancy(around, last, barred),
    )


def _vacancy(around: Around, last: Node, barred: Collection[str]) -> str:
    """That nothing holds on the topic of a decision, and what is proposed."""
    names = without((*barred, last.id), around.graph.waiting(last.key))
    return vacancy([around.nodes[name] for name in names])


def revisions(store: Store, references: Iterable[str]) -> dict[str, tuple[Revision, ...]]:
    """Return the edits of some records, by id. Raises NotFound."""
    nodes = list(map(store.find, references))
    return {node.id: _revisions(store, node, touches) for node, touches in _touches(store, nodes)}


def _touches(store: Store, nodes: Sequence[Node]) -> list[tuple[Node, tuple[Touch, ...]]]:
    paths = [store.files.named(node.path) for node in nodes]
    touches = store.history.touches(paths, store.tip)
    return [(node, touches[path]) for node, path in zip(nodes, paths, strict=True)]


def _steps(store: Store, around: Around, nodes: Sequence[Node], key: str) -> Iterable[Step]:
    graph = around.graph
    testimony = Testimony(store)
    hits = {hit.record.id: hit for hit in present(store, nodes)}
    for node, touches in _touches(store, [node for node in nodes if node.id in hits]):
        hit = hits[node.id]
        yield Step(
            hit=hit._replace(evidence=testimony.of(node, hit.record)),
            supersedes=without(store.barred, graph.predecessors(node.id)),
            implied=node.id in graph.chain(node.key).implied,
            foreign=node.key != key,
            revisions=_revisions(store, node, touches),
        )


def _revisions(store: Store, node: Node, touches: Sequence[Touch]) -> tuple[Revision, ...]:
    """The edits of a file after its first commit, oldest first, uncommitted changes included."""
    edits = []
    for _, touch in pairwise(reversed(touches)):
        commit = touch.commit
        revision = Revision(commit.id, commit.author, commit.agent, commit.at, commit.subject)
        edits.append(revision._replace(changes=_changes(store, touch)))
    if touches and store.tip == "HEAD" and store.edited(node.path):
        before = _version(store, touches[0].new, touches[0].path)
        edits.append(Revision("", "", "", 0, "", _compared(before, store.read(node.path))))
    return tuple(edits)


def _changes(store: Store, touch: Touch) -> tuple[str, ...]:
    """What a commit did to a file, in phrases."""
    if touch.kind == "D":
        return ("removed",)
    if touch.kind == "A":
        return ("brought back",)
    before = _version(store, touch.old, touch.before or touch.path)
    return _compared(before, _version(store, touch.new, touch.path))


def _version(store: Store, blob: str, path: str) -> Parsed:
    data = store.repo.blob(blob) if blob else None
    return Parsed(None) if data is None else store.parse(data, store.files.inside(path))


def _compared(before: Parsed, after: Parsed) -> tuple[str, ...]:
    if before.record is None or after.record is None:
        return ()
    damages = damage(before.problems, after.problems)
    phrases = changes(before.record, after.record)
    return (*(phrase for phrase in phrases if not damages or phrase != FORM), *damages)


def timeline(
    store: Store, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
) -> Results:
    """Return the records saved before and after a moment, oldest first.

    `anchor` is a record's id or a time; the default is the best hit of `query`, or the newest
    record. Raises BadInput: both are given; NotFound.
    """
    if anchor and query:
        raise BadInput("give anchor or query, not both", field="anchor")
    at = parse_time(anchor) if anchor else None
    middle: list[Node] = []
    if at is None:
        name = anchor or _best(store, query)
        if not name:
            return Results((), note="nothing found" if query else "nothing saved yet")
        middle = [store.find(name)]
        at = middle[0].created or store.clock()
    until = Filter(until=at, reader=store.reader)
    since = Filter(since=at, reader=store.reader)
    older = store.index.newest(until, depth_before + 1, 0)
    first = max(0, store.index.count(since) - depth_after - 1)  # the end of the listing
    younger = store.index.newest(since, depth_after + 1, first)
    nodes = [
        *reversed(_others(older, middle)[:depth_before]),
        *middle,
        *_others(reversed(younger), middle)[:depth_after],
    ]
    return Results(present(store, nodes), anchor=middle[0].id if middle else anchor)


def _best(store: Store, query: str) -> str:
    """The id of the best hit of a query, or of the newest record; "" if there is none."""
    hits = search.search(store, query, Filter(), limit=1).hits
    return hits[0].id if hits else ""


def _others(nodes: Iterable[Node], middle: Collection[Node]) -> list[Node]:
    ids = {node.id for node in middle}
    return [node for node in nodes if node.id not in ids]


def latest_checkpoint(store: Store, branch: str = "") -> tuple[Hit, str] | None:
    """Return the checkpoint to resume from, of `branch` or the current one.

    With it comes a note if it is of another branch or author.
    """
    here = branch or store.code.branch() or ""
    wanted = Filter(types=(CHECKPOINT,), reader=store.reader)
    recent: Sequence[Node] = ()
    if here:
        recent = store.index.newest(wanted._replace(branches=(here,)), LOOKED_AT, 0)
    hits = present(store, recent or store.index.newest(wanted, LOOKED_AT, 0))
    if not hits:
        return None
    own = ("", _author(store))
    hit = next((hit for hit in hits if hit.provenance.author in own), hits[0])
    notes = [_elsewhere(hit, here)]
    if hit.provenance.author not in own:
        notes.append(f"saved by {hit.provenance.author}")
    if hit is not hits[0]:
        notes.append(_newer(hits[0], hit.record.branch))
    return hit, "; ".join(filter(None, notes))


def _elsewhere(hit: Hit, here: str) -> str:
    """Note that a checkpoint is of another branch."""
    branch = hit.record.branch
    if branch in ("", here):
        return ""
    return f"from branch {branch}: there is none on {here or 'this branch'}"


def _author(store: Store) -> str:
    """The user's name, "" if Git knows none."""
    with suppress(BadInput):
        return store.repo.identity()[0][0]
    return ""


def _newer(hit: Hit, branch: str) -> str:
    """Note that another author saved a newer checkpoint."""
    record = hit.record
    where = f" on branch {record.branch}" if record.branch != branch else ""
    author = hit.provenance.author
    return f"{author} saved a newer one{where}: {record.title} ({short_id(record.id)})"


def topics(store: Store, prefix: str = "", *, limit: int, offset: int = 0) -> Topics:
    """List topics with a word in their name or live decision.

    They stand by ADR number if files have one, else alphabetically. Decisions without a topic come
    last, by path: one entry for all that links join. If links lead to a stated topic, they are
    counted there.
    """
    last, count = store.index.topics(topic_key(prefix), limit, offset)
    around = store.index.around(last)
    families = {family.members[-1]: family for family in around.graph.families()}
    barred = store.barred
    nodes = [node for node in last if node.id in families and node.id not in barred]
    return Topics(tuple(_topic(store, around, *families[node.id]) for node in nodes), count)


def _topic(
    store: Store, around: Around, key: str, members: Sequence[str], heads: tuple[str, ...]
) -> Topic:
    barred = store.barred
    heads = without(barred, heads)
    last = around.nodes[members[-1]]
    live = [around.nodes[head] for head in heads]
    newest = max(live, key=lambda node: node.age, default=last)
    # A heading names what holds, a topic all of the chain, whatever that went on under.
    named = last if key or newest.stated else newest
    return Topic(
        topic=named.topic,
        decisions=len(members),
        heads=heads,
        title=newest.title if live else "",
        latest=last.created,
        stated=last.stated,
        forked=len(live) > 1 and bool(key) and {node.key for node in live} == {key},
        vacancy="" if live else _vacancy(around, last, barred),
        number=adr_number(newest.path, newest.id),
        path="" if key else store.display_path(named.path),
    )
