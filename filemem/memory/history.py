"""Answers in time order: how a topic was decided, all topics, how records were edited, what was saved around a moment.

Rule: identity and order come from the files, so that squash merges and rebases break no chain; commits only add who,
when and which edit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.index import Around, Node
from filemem.memory import fields
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

    hit: Hit  # as its file says it now, who brought it, what replaced it, and what commits say came of it
    supersedes: tuple[str, ...] = ()  # ids, oldest first
    implied: bool = False  # nobody stated what it supersedes
    foreign: bool = False  # it belongs to another topic that the chain leads to
    revisions: tuple[
        Revision, ...
    ] = ()  # edits in place, oldest first, at the end those that are not committed


class History(NamedTuple):
    """How a topic was decided: the chain, oldest first, and its live decisions."""

    topic: str
    heads: tuple[
        str, ...
    ]  # what holds on the topic; where nothing does, what replaced its decisions on others
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
    path: str = ""  # where no decision states the topic: of the file whose heading it is, from the top of the work tree


def history(store: Store, topic_or_id: str) -> History:
    """Return how a topic was decided, or the chain of a decision: by id, path, title, number or file name.

    Raises NotFound, with what was probably meant; BadInput: the record is not a decision.
    """
    key = topic_key(topic_or_id)
    barred = store.barred
    start = store.index.lookup("topic", [key]) if key else []
    start = [node for node in start if node.key and node.id not in barred]
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
    why = "" if heads else _vacancy(around, last, barred)
    notes = tuple(filter(None, [store.repo.incomplete()]))
    return History(
        topic, without(barred, heads), tuple(chain), notes, graph.chain(key).is_forked, why
    )


def _vacancy(around: Around, last: Node, barred: Collection[str]) -> str:
    """That nothing holds on the topic of a decision, and what is proposed."""
    names = without((*barred, last.id), around.graph.waiting(last.key))
    return vacancy([around.nodes[name] for name in names])


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
            supersedes=without(store.barred, graph.predecessors(node.id)),
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
        edits.append(
            Revision(commit.id, commit.author, commit.agent, commit.at, commit.subject, told)
        )
    if touches and store.tip == "HEAD" and store.edited(node.path):
        was = _version(store, touches[0].new, touches[0].path)
        edits.append(Revision("", "", "", 0, "", _compared(was, store.read(node.path))))
    return tuple(edits)


def _version(store: Store, blob: str, path: str) -> Parsed:
    data = store.repo.blob(blob) if blob else None
    return Parsed(None) if data is None else store.parse(data, store.files.inside(path))


def _compared(before: Parsed, after: Parsed) -> tuple[str, ...]:
    if before.record is None or after.record is None:
        return ()
    told = damage(before.problems, after.problems)
    phrases = changes(before.record, after.record)
    return (*(one for one in phrases if not told or one != FORM), *told)


def timeline(
    store: Store, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
) -> Results:
    """Return the records saved before and after a moment, oldest first.

    `anchor` is a record's id or a time; the default is the best hit of `query`, or the newest record. Raises BadInput:
    both are given; NotFound.
    """
    if anchor and query:
        raise BadInput("give anchor or query, not both", field="anchor")
    middle: Node | None = None
    if (at := parse_time(anchor) if anchor else None) is None:
        from filemem.memory import search  # noqa: PLC0415 - a history searches nothing

        best = () if anchor else search.search(store, query, Filter(), limit=1).hits
        if not (anchor or best):
            return Results((), note="nothing found" if query else "nothing saved yet")
        middle = store.find(anchor or best[0].id)
        at = middle.created or store.clock()
    skip = middle.id if middle else ""
    until = Filter(until=at, reader=store.reader)
    older = [n for n in store.index.newest(until, depth_before + 1, 0) if n.id != skip]
    older = older[:depth_before]
    since = Filter(since=at, reader=store.reader)
    first = max(
        0, store.index.count(since) - depth_after - 1
    )  # the end of the newest-first listing
    younger = [
        n for n in reversed(store.index.newest(since, depth_after + 1, first)) if n.id != skip
    ][:depth_after]
    nodes = [*reversed(older), *([middle] if middle else []), *younger]
    return Results(present(store, nodes), anchor=skip or anchor)


def latest_checkpoint(store: Store, branch: str = "") -> tuple[Hit, str] | None:
    """Return the checkpoint to resume from, of `branch` or the current one, and a note if it is another author's."""
    here = branch or store.code.branch() or ""
    wanted = Filter(types=(CHECKPOINT,), reader=store.reader)
    ways = ([wanted._replace(branches=(here,))] if here else []) + [wanted]
    recent = next((found for way in ways if (found := store.index.newest(way, LOOKED_AT, 0))), [])
    if not recent:
        return None
    me = ""
    with suppress(BadInput):  # Git knows no name of the user's
        me = store.repo.identity()[0][0]
    hits = present(store, recent)
    hit = next((one for one in hits if one.provenance.author in ("", me)), hits[0])
    notes = []
    if hit.record.branch and hit.record.branch != here:
        notes.append(f"from branch {hit.record.branch}: there is none on {here or 'this branch'}")
    if hit.provenance.author not in ("", me):
        notes.append(f"saved by {hit.provenance.author}")
    if hit is not (newest := hits[0]):
        where = (
            f" on branch {newest.record.branch}"
            if newest.record.branch != hit.record.branch
            else ""
        )
        notes.append(
            f"{newest.provenance.author} saved a newer one{where}: {newest.title} ({short_id(newest.id)})"
        )
    return hit, "; ".join(notes)


def topics(store: Store, prefix: str = "", *, limit: int, offset: int = 0) -> Topics:
    """List topics with a word in their name or live decision, by ADR number if files have one, else alphabetically.

    Decisions without a topic come last, by path: one entry for all that links join. If links lead to a stated topic,
    they are counted there.
    """
    last, count = store.index.topics(topic_key(prefix), limit, offset)
    around = store.index.around(last)
    families = {one.members[-1]: one for one in around.graph.families()}
    barred = store.barred
    found = (
        _topic(store, around, *families[node.id])
        for node in last
        if node.id in families and node.id not in barred
    )
    return Topics(tuple(found), count)


def _topic(
    store: Store, around: Around, key: str, members: Sequence[str], heads: tuple[str, ...]
) -> Topic:
    barred = store.barred
    heads = without(barred, heads)
    held = [around.nodes[head] for head in heads]
    newest = max(held, key=lambda node: node.age, default=None)
    last = around.nodes[members[-1]]
    # A heading names what holds, a topic all of the chain, whatever that went on under.
    named = newest if newest and not key and not newest.stated else last
    return Topic(
        topic=named.topic,
        decisions=len(members),
        heads=heads,
        title=newest.title if newest else "",
        latest=last.created,
        stated=last.stated,
        forked=len(held) > 1 and all(key and node.key == key for node in held),
        vacancy="" if heads else _vacancy(around, last, barred),
        number=adr_number((newest or last).path, (newest or last).id),
        path="" if key else store.display_path(named.path),
    )
