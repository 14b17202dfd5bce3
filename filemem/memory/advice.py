"""Advice: what a new record is like, and why a search shows nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem import query
from filemem.chain import DEMOTING
from filemem.errors import BrokenStore
from filemem.hints import NOTHING_YET, closest
from filemem.index import ModelUnavailable, Near, Node
from filemem.memory.store import Store, listed
from filemem.query import Filter
from filemem.record import (
    CHECKPOINT,
    DECISION,
    Record,
    age,
    cut,
    hidden_characters,
    named,
    one_line,
    short_id,
    topic_key,
)

NEAREST = 20  # records that a new one is compared with
GIST = 900  # characters of a text by which it is compared
# The cosine of texts, and of titles, from which on two say the same (bench/relevance.md).
SAME = 0.57
ELSEWHERE = 0.4  # cosine from which on a decision is about what another topic holds,
FURTHER = 0.2  # if that is this much nearer than its own chain and the name of its topic
PATIENCE = 0.003  # seconds of the processor after which no further hint is looked for
MOST = 3  # similar records that are named
REASON = 160  # characters of a reason in an answer
# Of difflib's ratio: `cache key` and `cache keys` are nearer than `auth` and `auth api`.
NEAR_TOPIC = 0.85


class Similar(NamedTuple):
    """A record that is near to one just saved; `similarity` is a cosine on 0..1."""

    id: str
    title: str
    topic: str
    similarity: float
    hint: str


class Advice(NamedTuple):
    """What the maker of a new record should know."""

    similar: tuple[Similar, ...] = ()
    warning: str = ""


def advise(store: Store, record: Record, *, implied: bool, budget: Callable[[], bool]) -> Advice:
    """Name records that say the same as a new one, or a topic that it fits better than its own.

    `implied`: it replaces what holds on its topic, and nobody named that. `budget` says whether
    there is time for a further hint: who saves does not wait for it. Empty if the index is broken.
    """
    if record.type == CHECKPOINT:
        return Advice()
    try:
        near = _near(store, record)
        warning = _misplaced(store, record, near) if implied else ""
        hints = [] if warning else list(_same(store, record, near))
        hints += _further_hints(store, record, budget, last=not (hints or warning))
    except BrokenStore:
        return Advice()
    similar = {other.id: other for other in hints}
    return Advice(tuple(similar.values()), warning)


def notes(
    store: Store, record: Record, replaced: Collection[Node], checked: Mapping[str, object]
) -> list[str]:
    """What the maker of a record may not expect; `checked`: the fields that were stated."""
    sentences = []
    if replaced and record.affects and "affects" not in checked:
        sentences.append(f"still governs {', '.join(record.affects)}, as what it replaces did")
    if "guards" not in checked and any(node.guards for node in replaced):
        sentences.append("the guards of what it replaces end: give those that still hold")
    if "supersedes" in checked and record.status in DEMOTING:
        sentences += _beside(store, record, replaced)
    return sentences


def _beside(store: Store, record: Record, replaced: Collection[Node]) -> list[str]:
    """Name what holds on the topic of a new decision beside it; it names others to replace."""
    key = topic_key(record.topic)
    around = store.index.around(store.index.lookup("topic", [key]))
    ended = {record.id, *store.barred, *(node.id for node in replaced)}
    others = [around.nodes[head] for head in around.graph.chain(key).heads if head not in ended]
    return [f"on this topic holds too: {listed(others)}; the topic is forked"] if others else []


def hidden(data: bytes) -> list[str]:
    """Name the invisible characters of a file."""
    rows = map(hidden_characters, data.decode().splitlines())
    return [
        f"line {number} of the file holds {named(characters)}"
        for number, characters in enumerate(rows, 1)
        if characters
    ]


def _further_hints(
    store: Store, record: Record, budget: Callable[[], bool], *, last: bool
) -> list[Similar]:
    """What is looked for while there is time; with `last` a near topic, where nothing else is."""
    hints = list(_restated(store, record)) if budget() else []
    if last and not hints and budget():
        hints += _near_topics(store, record)
    return hints


def budget() -> Callable[[], bool]:
    """The processor time that a save has for hints: on a busy machine they do not get fewer."""
    stop = time.thread_time() + PATIENCE
    return lambda: time.thread_time() < stop


def reasons(store: Store, replaced: Collection[Node]) -> tuple[str, ...]:
    """Return a line for each decision that is replaced: its title, its age, and why it was made."""
    records = store.records([node.path for node in replaced])
    lines = []
    for node in (node for node in replaced if node.id not in store.barred):
        since = f" ({age(store.clock() - node.created)} old)" if node.created else ""
        reason = ""
        if node.path in records:
            record = records[node.path]
            decided = "" if record.decision == node.title else record.decision
            reason = one_line(query.prose(f"{record.text}\n\n## Decision\n\n{decided}"))
        lines.append(f"{node.title}{since}" + (f": {cut(reason, REASON)}" if reason else ""))
    return tuple(lines)


def _near(store: Store, record: Record) -> list[Near]:
    """Compare a record with others of its type.

    A command does not load the model for this: it compares none.
    """
    if not store.serving:
        return []
    try:
        near = store.index.near(
            record.title, _text(record)[:GIST], NEAREST, record.supersedes or ()
        )
    except ModelUnavailable:
        return []
    hidden = {record.id, *store.barred}
    return [
        other for other in near if other.node.type == record.type and other.node.id not in hidden
    ]


def _misplaced(store: Store, record: Record, near: Iterable[Near]) -> str:
    """Return a warning if a decision is nearer to what another topic holds than to its own."""
    own = [other.text for other in near if _of_its_chain(record, other.node)]
    others = [other for other in near if not _of_its_chain(record, other.node)]
    likely = _further(others, own)
    if likely and store.index.model:  # few come here: then the name of the topic is compared too
        text, topic = store.index.model.encode([_text(record)[:GIST], record.topic])
        likely = _further(likely, [*own, float(text @ topic)])
    holding = _not_superseded(store, [other.node for other in likely])
    for other in sorted(likely, key=lambda other: -other.text):
        if other.node.id in holding:
            place = f"{other.node.title!r} on topic {other.node.topic!r}"
            return (
                f"this is nearer to {place} than to what it replaces; if it belongs there, "
                f"delete {short_id(record.id)} and save it on that topic"
            )
    return ""


def _further(others: Iterable[Near], own: Iterable[float]) -> list[Near]:
    """Those that a text is much nearer to than to what is its own."""
    least = max(ELSEWHERE, max(own, default=0.0) + FURTHER)
    return [other for other in others if other.text >= least]


def _same(store: Store, record: Record, near: Iterable[Near]) -> Iterator[Similar]:
    """Yield records that say the same as a new one and are not superseded."""
    for node, likeness in _repeating(store, record, near):
        topic = node.topic if node.stated else ""
        yield Similar(node.id, node.title, topic, likeness, _way_on(record, node))


def _restated(store: Store, record: Record) -> Iterator[Similar]:
    """Yield the decisions that say the same as one that a new one replaces, and still hold."""
    replaced = record.supersedes or () if record.status in DEMOTING else ()
    nodes = store.index.lookup("id", replaced)
    for old in store.records([node.path for node in nodes]).values():
        for node, likeness in _repeating(store, old, _near(store, old)):
            if node.status == "accepted" and node.id not in (record.id, *replaced):
                hint = (
                    f"on topic {node.topic!r} it says what this replaces, and it still holds; "
                    "if it should not, set its status to deprecated"
                )
                yield Similar(node.id, node.title, node.topic, likeness, hint)


def _repeating(store: Store, record: Record, near: Iterable[Near]) -> Iterator[tuple[Node, float]]:
    """Yield what says the same as a record and is not superseded, and how much alike it is."""
    same = {
        other.node: min(other.text, other.title)
        for other in near
        if min(other.text, other.title) >= SAME
    }
    if record.type == DECISION:
        titled = store.index.lookup("name", [record.title.casefold()])
        same |= {node: 1.0 for node in titled if node.type == DECISION and node.id != record.id}
    hidden = {*(record.supersedes or ()), *store.barred}
    left = [node for node in same if node.id not in hidden]
    holding = _not_superseded(store, left)
    left = [node for node in left if node.id in holding]
    for node in sorted(left, key=lambda node: (-same[node], node.id))[:MOST]:
        yield node, min(1.0, same[node])


def _way_on(record: Record, node: Node) -> str:
    """Return what to do about a new record that says the same as another."""
    if record.type != DECISION:
        return "says nearly the same; update it instead of saving it twice"
    if _of_its_chain(record, node):
        return f"it is {node.status} on this topic"
    return (
        f"it is {node.status} on topic {node.topic!r}; if both answer one question, "
        f"delete {short_id(record.id)} and save this on that topic"
    )


def _of_its_chain(record: Record, node: Node) -> bool:
    """Whether a decision is on the topic of a new one, or is replaced by it."""
    return node.key == topic_key(record.topic) or node.id in (record.supersedes or ())


def _not_superseded(store: Store, nodes: Collection[Node]) -> frozenset[str]:
    """Return the ids of those that no other record supersedes."""
    rows = store.by_id([node.id for node in nodes])
    return frozenset(name for name, row in rows.items() if not row.facts.superseded_by)


def _near_topics(store: Store, record: Record) -> Iterator[Similar]:
    """Yield a topic like a new one, if their decisions share words too."""
    key = topic_key(record.topic)
    if record.type != DECISION or record.supersedes or not key:
        return
    spelt, nodes = _topics_like(store, key)
    text = _text(record)
    near = [node for node in nodes if node.key in spelt or query.topical(text, node.title)]
    rows = store.by_id([node.id for node in near])
    for node in near:
        if node.id in rows[node.id].facts.heads:
            hint = f"this topic is new; if {node.topic!r} is the same thing, use that name"
            yield Similar(node.id, node.title, node.topic, NEAR_TOPIC, hint)
            return


def _topics_like(store: Store, key: str) -> tuple[list[str], list[Node]]:
    """The topics that are spelt like a new one; the decisions on these, and on others like it.

    Of two that are alike, one may also have all words of the other.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - 3 ms; for a topic that is new

    topics = [topic for topic, _ in store.index.terms("topic", key[:3]) if topic != key]
    spelt = get_close_matches(key, topics, n=1, cutoff=NEAR_TOPIC)
    words = set(key.split("_"))
    by_words = {topic: set(topic.split("_")) for topic in topics}
    nested = [topic for topic, own in by_words.items() if words <= own or words >= own]
    if not (spelt or nested):
        return [], []
    barred = store.barred
    nodes = store.index.lookup("topic", {*spelt, *nested})
    return spelt, [node for node in nodes if node.id not in barred]


def _text(record: Record) -> str:
    return f"{record.title}\n{record.text}"


def topic_hint(store: Store, key: str) -> str:
    """A hint at the topic that was probably meant."""
    names = [name for name, _ in store.index.terms("topic")]
    return closest(key, names, "filemem topics lists them")


def why_empty(store: Store, wanted: Filter, has_words: bool) -> str:
    """Explain in one sentence why a search shows nothing; `has_words`: the query has some."""
    if not store.index.count(Filter(reader=store.reader)):
        if store.obstacle() or not store.index.exists:
            return ""
        begin = "there is no memory here yet: run `filemem init`, or save something"
        return begin if store.absent else NOTHING_YET
    for name, values in wanted.exact.items():
        unknown = _unknown_value(store, wanted, name, values)
        if unknown:
            return unknown
    passing = has_words and store.index.count(wanted) > 0
    return nothing_like(passing, restricted=wanted != Filter(reader=wanted.reader))


def _unknown_value(store: Store, wanted: Filter, name: str, values: Collection[str]) -> str:
    """Say which value of a filter no record has, or ""."""
    for value in filter(None, values):
        terms = [term for term, _ in store.index.terms(name, wanted=wanted)]
        if value not in terms:
            near = closest(value, terms)
            return f"no record has {name} {value!r}" + (f": {near}" if near else "")
    return ""


def passed_over(offset: int) -> str:
    """Explain that an offset lies past the last hit."""
    return f"nothing from offset {offset:,} on"


def nothing_like(has_words: bool, *, restricted: bool) -> str:
    """Explain that nothing is similar to the words of a query; without words, to the filters."""
    if has_words:
        passing = " that passes the filters" if restricted else ""
        return f"no record{passing} is similar to the query"
    return "no record passes these filters" if restricted else NOTHING_YET
