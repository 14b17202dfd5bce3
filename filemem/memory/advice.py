"""Advice: what a new record is like, and why a search shows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from filemem import query
from filemem.errors import BrokenStore
from filemem.memory.fields import alike, meant
from filemem.memory.store import Store
from filemem.query import FIELDS, Filter, Terms
from filemem.record import CHECKPOINT, DECISION, Record, topic_key

NEAREST = 20  # records that are compared with a new one; what says nearly the same is far nearer
GIST = 900  # characters of a text by which it is compared
NEAR_TOPIC = (
    0.85  # of difflib's ratio: `cache key` and `cache keys` are nearer than `auth` and `auth api`
)
NOTHING_YET = "nothing is saved yet"


class Similar(NamedTuple):
    """A record that is near to one just saved; `similarity` is a cosine on 0..1."""

    id: str
    title: str
    topic: str
    similarity: float
    hint: str


def similar(store: Store, record: Record) -> tuple[Similar, ...]:
    """Find records that say nearly the same as a new one, and a topic of nearly the same name; () on failure."""
    if record.type == CHECKPOINT:
        return ()
    try:
        likest = sorted(_alike(store, record), key=lambda one: (-one.similarity, one.id))
        found = [*likest, *_near_topics(store, record)]
    except BrokenStore:
        return ()
    return tuple({each.id: each for each in found}.values())


def _alike(store: Store, record: Record) -> Iterator[Similar]:
    """Yield live records that are near in meaning and share words. A command compares words only."""
    own, without = _text(record), {record.id, *(record.supersedes or ())}
    words = tuple(dict.fromkeys(own[:GIST].split()))[: query.MAX_TERMS]
    asked, mode = (Terms(text=own[:GIST]), "vector") if store.serving else (Terms(words), "keyword")
    found = store.index.candidates(asked, depth=NEAREST, mode=mode).candidates
    near = {
        one.path: one
        for one in found
        if one.node.type == record.type and one.node.id not in without
    }
    graph = store.index.around(one.node for one in near.values()).graph
    for path, old in store.records(near).items():
        like = query.likeness(own, _text(old), near[path].cosine)
        if old.type == DECISION:
            like = like or query.likeness(record.title, old.title, None)
        if not like or graph.superseded_by(old.id):
            continue
        node = near[path].node
        told = "says nearly the same; update it instead of saving it twice"
        if node.type == DECISION:
            told = f"it is {node.status}; if it is about the same thing, reuse the topic {node.topic!r} or builds_on"
        yield Similar(node.id, node.title, node.topic if node.stated else "", like, told)


def _near_topics(store: Store, record: Record) -> Iterator[Similar]:
    """Yield a topic spelt like a new one, or one that has all its words, if their decisions share words too."""
    key = topic_key(record.topic) if record.type == DECISION and not record.supersedes else ""
    topics = [one for one, _ in store.index.terms("topic", key[:3]) if one != key] if key else []
    words, spelt = set(key.split("_")), alike(key, topics, 1, NEAR_TOPIC)
    nested = [one for one in topics if words <= set(one.split("_")) or words >= set(one.split("_"))]
    nodes = store.index.lookup("topic", {*spelt, *nested})
    graph = store.index.around(nodes).graph
    near = (one for one in nodes if one.key in spelt or query.topical(_text(record), one.title))
    for node in [one for one in near if graph.is_head(one.id)][:1]:
        told = f"this topic is new; if {node.topic!r} is the same thing, use that name"
        yield Similar(node.id, node.title, node.topic, NEAR_TOPIC, told)


def apart(record: Record, replaced: Record) -> str:
    """Return a warning if a decision shares no word with the one that it replaces; else ""."""
    alike = record.title.split()[:1] == replaced.title.split()[:1]  # `Use REST`, `Use GraphQL`
    if alike or query.topical(_text(record), _text(replaced)):
        return ""
    told = f"this has little in common with {replaced.title!r}: one topic holds one decision"
    return f"{told}; if both hold, undo this and give it a topic of its own"


def _text(record: Record) -> str:
    return f"{record.title}\n{record.text}"


def why_empty(store: Store, wanted: Filter, asked: bool) -> str:
    """Explain in one sentence why a search shows nothing; `asked`: whether the query had words."""
    if not store.index.count():
        begin = (
            "there is no memory here yet: run `filemem init`, or save something"
            if store.absent
            else NOTHING_YET
        )
        return "" if store.obstacle() or not store.index.exists else begin
    for field, name in FIELDS.items():
        for value in getattr(wanted, field):
            known = [one for one, _ in store.index.terms(name)]
            if value and value not in known:
                near = meant(value, known)
                return f"no record has {name} {value!r}" + (f": {near}" if near else "")
    return nothing_like(asked and store.index.count(wanted) > 0, restricted=wanted != Filter())


def passed_over(offset: int) -> str:
    """Explain that an offset lies past the last hit."""
    return f"nothing from offset {offset:,} on"


def nothing_like(asked: bool, *, restricted: bool) -> str:
    """Explain that nothing is similar to what was `asked` or, without a question, that there is nothing to list."""
    if asked:
        return (
            f"no record{' that passes the filters' if restricted else ''} is similar to the query"
        )
    return "no record passes these filters" if restricted else NOTHING_YET
