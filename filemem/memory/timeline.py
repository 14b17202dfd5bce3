"""Answers in time order: records around a moment, the latest checkpoint, the topics."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from filemem.chain import Family
from filemem.errors import BadInput
from filemem.index import Around, Node
from filemem.memory import search
from filemem.memory.hits import present, vacancy
from filemem.memory.store import Store
from filemem.query import Filter, Hit, Results
from filemem.record import CHECKPOINT, adr_number, parse_time, short_id, topic_key

LOOKED_AT = 50  # checkpoints among which this author's is looked for


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
        best = () if anchor else search.search(store, query, Filter(), limit=1).hits
        if not (anchor or best):
            return Results((), note="nothing found" if query else "nothing saved yet")
        middle = store.find(anchor or best[0].id)
        at = middle.created or store.clock()
    skip = middle.id if middle else ""
    older = [n for n in store.index.newest(Filter(until=at), depth_before + 1, 0) if n.id != skip][:depth_before]
    since = Filter(since=at)
    first = max(0, store.index.count(since) - depth_after - 1)  # the end of the newest-first listing
    younger = [n for n in reversed(store.index.newest(since, depth_after + 1, first)) if n.id != skip][:depth_after]
    nodes = [*reversed(older), *([middle] if middle else []), *younger]
    return Results(present(store, nodes), anchor=skip or anchor)


def latest_checkpoint(store: Store, branch: str = "") -> tuple[Hit, str] | None:
    """Return the checkpoint to resume from, of `branch` or the current one, and a note if it is another author's."""
    here = branch or store.code.branch() or ""
    wanted = Filter(types=(CHECKPOINT,))
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
        where = f" on branch {newest.record.branch}" if newest.record.branch != hit.record.branch else ""
        notes.append(f"{newest.provenance.author} saved a newer one{where}: {newest.title} ({short_id(newest.id)})")
    return hit, "; ".join(notes)


def topics(store: Store, prefix: str = "", *, limit: int, offset: int = 0) -> Topics:
    """List topics with a word in their name or live decision, by ADR number if files have one, else alphabetically.

    Decisions without a topic come last, by path: one entry for all that links join. If links lead to a stated topic,
    they are counted there.
    """
    last, count = store.index.topics(topic_key(prefix), limit, offset)
    around = store.index.around(last)
    families = {one.members[-1]: one for one in around.graph.families()}
    found = (_topic(store, around, families[node.id]) for node in last if node.id in families)
    return Topics(tuple(found), count)


def _topic(store: Store, around: Around, family: Family) -> Topic:
    graph, key, members, heads = around.graph, *family
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
        vacancy=vacancy(graph, around.nodes, last, heads),
        number=adr_number((newest or last).path, (newest or last).id),
        path="" if key else store.shown(named.path),
    )
