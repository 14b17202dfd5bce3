"""Advice: what helps to go on beside an answer: similar records, a topic that was meant, why nothing was found.

Advice is never worth a failed answer: what cannot be asked is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from filemem import query
from filemem.errors import BrokenStore
from filemem.index import Node
from filemem.memory.fields import alike, meant
from filemem.memory.store import Store
from filemem.query import FIELDS, Filter, Terms
from filemem.record import CHECKPOINT, DECISION, Record, edges_in, topic_key

NEAR = 5  # records looked at for likeness
GIST = 900  # characters of a text that are compared by meaning
SAME_START = 3  # letters that topics share before they are compared
NEAR_TOPIC = 0.85  # of difflib's ratio: `cache key` and `cache keys` are nearer, `auth` and `auth api` are not
NOTHING_YET = "nothing is saved yet"
LIKENESS = {
    "hybrid": "shares a word with the query, or comes near to what it means",
    "keyword": "shares a word with the query",
    "vector": "comes near to what the query means",
}  # mode of a search -> what it looks for


class Similar(NamedTuple):
    """A record that is near to one just saved; `similarity` is a cosine on 0..1."""

    id: str
    title: str
    topic: str
    similarity: float
    hint: str


def similar(store: Store, record: Record) -> tuple[Similar, ...]:
    """Records that say nearly what a new one says, but what it replaces, and a topic that is spelt nearly alike."""
    if record.type == CHECKPOINT:
        return ()
    try:
        found = (*_alike(store, record), *_near_topics(store, record))
    except BrokenStore:
        return ()
    return tuple({each.id: each for each in found}.values())


def dangling(store: Store, record: Record) -> str:
    """Name the links in a text that lead to no record, or ""."""
    try:
        lost = [edge.target for edge in edges_in(record.text) if not store.index.answering(edge.target)]
    except BrokenStore:
        return ""
    return f"its text links to {' and '.join(lost)}, which no record is called" if lost else ""


def _alike(store: Store, record: Record) -> Iterator[Similar]:
    without = {record.id, *(record.supersedes or ())}
    terms = Terms(text=f"{record.title}\n{record.text}"[:GIST])
    found = store.index.candidates(terms, Filter(types=(record.type,)), NEAR + len(without)).candidates
    near = {one.id: one for one in found if one.id not in without and (one.cosine or 0.0) >= query.NEARLY}
    if not near:
        return
    known = store.records([one.path for one in near.values()])
    others = [(old.id, f"{old.title}\n{old.text}", near[old.id].cosine) for old in known.values() if old.id in near]
    key = topic_key(record.topic) if record.type == DECISION else ""
    graph = store.around(one.node for one in near.values() if key and one.node.key == key).graph
    for one in query.similar(f"{record.title}\n{record.text}", others):
        node = near[one.id].node
        here = bool(key) and node.key == key
        if not (here and graph.superseded_by(node.id)):
            yield Similar(node.id, node.title, node.topic if node.stated else "", one.likeness, _hint(node, here))


def _hint(node: Node, here: bool) -> str:
    if node.type != DECISION:
        return "says nearly the same; update it instead of saving it twice"
    if here:
        return f"it is {node.status} on this topic; update it, or supersede it, instead of deciding it twice"
    return f"if it is about the same thing, reuse the topic {node.topic!r} or builds_on"


def _near_topics(store: Store, record: Record) -> Iterator[Similar]:
    key = topic_key(record.topic) if record.type == DECISION else ""
    if not key or record.supersedes:
        return
    topics = [topic for topic, _ in store.index.terms("topic", key[:SAME_START]) if topic != key]
    for node in store.lookup("topic", alike(key, topics, 1, NEAR_TOPIC))[:1]:
        told = f"this topic is new; if {node.topic!r} is the same thing, use that name"
        yield Similar(node.id, node.title, node.topic, NEAR_TOPIC, told)


def why_empty(store: Store, wanted: Filter, matched: int, offset: int, mode: str) -> str:
    """Say in one sentence why a search shows nothing.

    Args:
        store: the parts.
        wanted: the restrictions.
        matched: how many records match all the same.
        offset: how many hits were passed over.
        mode: how it was searched: a key of LIKENESS; "" where nothing was asked.
    """
    if matched:
        return passed_over(matched, offset)
    if not store.index.count():
        return "" if store.obstacle() or not store.index.exists else unbegun(store)
    for field, name in FIELDS.items():
        for value in getattr(wanted, field):
            known = [one for one, _ in store.index.terms(name)]
            if value and value not in known:
                near = meant(value, known)
                return f"no record has {name} {value!r}" + (f": {near}" if near else "")
    return nothing_like(mode if store.index.count(wanted) else "", restricted=wanted != Filter())


def unbegun(store: Store) -> str:
    """What to do where nothing is saved."""
    return "no memory here yet: filemem init, or just save" if store.absent else NOTHING_YET


def passed_over(matched: int, offset: int) -> str:
    """Say that an offset lies past the last hit; `matched` is how many there are, at least one."""
    counted = "only 1 record matches" if matched == 1 else f"only {matched:,} records match"
    return f"{counted}, and offset {offset:,} passes over {'it' if matched == 1 else 'them all'}"


def nothing_like(mode: str, *, restricted: bool) -> str:
    """Say that nothing is like what was asked, or, where nothing was, that nothing is there to list.

    Args:
        mode: how it was searched: a key of LIKENESS; "" where nothing was asked.
        restricted: whether some records alone were looked at.
    """
    among = " among those that pass the restrictions" if restricted else ""
    if mode:
        return f"no record{among} {LIKENESS[mode]}"
    return "no record passes these restrictions" if restricted else NOTHING_YET
