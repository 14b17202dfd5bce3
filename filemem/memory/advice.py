"""Advice: what a new record is like, and why a search shows nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem import query
from filemem.chain import DEMOTING
from filemem.errors import BrokenStore
from filemem.hints import NOTHING_YET, format_closest
from filemem.index import ModelUnavailable, Neighbour, Node
from filemem.memory.store import Store, format_nodes
from filemem.query import Filter
from filemem.record import (
    CHECKPOINT,
    DECISION,
    Record,
    build_topic_key,
    describe_character,
    find_hidden_characters,
    format_age,
    join_lines,
    shorten_id,
    shorten_line,
)

MAX_COMPARED = 20  # records that a new one is compared with
MAX_GIST = 900  # characters of a text by which it is compared
# The cosine of texts, and of titles, from which on two say the same (bench/relevance.md).
SAME_THRESHOLD = 0.57
OTHER_TOPIC_THRESHOLD = 0.4  # cosine from which on a decision is about what another topic holds,
TOPIC_MARGIN = 0.2  # if that is this much nearer than its own chain and the name of its topic
HINT_SECONDS = 0.003  # seconds of the processor after which no further hint is looked for
MAX_SIMILAR = 3  # similar records that are named
MAX_REASON = 160  # characters of a reason in an answer
# Of difflib's ratio: `cache key` and `cache keys` are nearer than `auth` and `auth api`.
TOPIC_CUTOFF = 0.85


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


def advise(
    store: Store, record: Record, *, is_implied: bool, has_time: Callable[[], bool]
) -> Advice:
    """Name records that say the same as a new one, or a topic that it fits better than its own.

    `implied`: it replaces what holds on its topic, and nobody named that. `budget` says whether
    there is time for a further hint: who saves does not wait for it. Empty if the index is broken.
    """
    if record.type == CHECKPOINT:
        return Advice()
    try:
        near = _find_near(store, record)
        warning = _check_placement(store, record, near) if is_implied else ""
        hints = [] if warning else list(_iter_duplicates(store, record, near))
        hints += _find_further_hints(store, record, has_time, include_topics=not (hints or warning))
    except BrokenStore:
        return Advice()
    similar = {other.id: other for other in hints}
    return Advice(tuple(similar.values()), warning)


def list_notes(
    store: Store,
    record: Record,
    replaced_nodes: Collection[Node],
    stated_fields: Mapping[str, object],
) -> list[str]:
    """What the maker of a record may not expect; `checked`: the fields that were stated."""
    sentences = []
    if replaced_nodes and record.affects and "affects" not in stated_fields:
        sentences.append(f"still governs {', '.join(record.affects)}, as what it replaces did")
    if "guards" not in stated_fields and any(node.guards for node in replaced_nodes):
        sentences.append("the guards of what it replaces end: give those that still hold")
    if "supersedes" in stated_fields and record.status in DEMOTING:
        sentences += _list_fork_notes(store, record, replaced_nodes)
    return sentences


def _list_fork_notes(store: Store, record: Record, replaced_nodes: Collection[Node]) -> list[str]:
    """Name what holds on the topic of a new decision beside it; it names others to replace."""
    key = build_topic_key(record.topic)
    around = store.index.read_chains(store.index.read_nodes_by_field("topic", [key]))
    excluded_ids = {record.id, *store.barred_ids, *(node.id for node in replaced_nodes)}
    others = [
        around.nodes[head] for head in around.graph.get_chain(key).heads if head not in excluded_ids
    ]
    return (
        [f"on this topic holds too: {format_nodes(others)}; the topic is forked"] if others else []
    )


def list_hidden_characters(data: bytes) -> list[str]:
    """Name the invisible characters of a file."""
    rows = map(find_hidden_characters, data.decode().splitlines())
    return [
        f"line {number} of the file holds {describe_character(characters)}"
        for number, characters in enumerate(rows, 1)
        if characters
    ]


def _find_further_hints(
    store: Store, record: Record, has_time: Callable[[], bool], *, include_topics: bool
) -> list[Similar]:
    """What is looked for while there is time; with `last` a near topic, where nothing else is."""
    hints = list(_iter_restatements(store, record)) if has_time() else []
    if include_topics and not hints and has_time():
        hints += _iter_near_topics(store, record)
    return hints


def start_budget() -> Callable[[], bool]:
    """The processor time that a save has for hints: on a busy machine they do not get fewer."""
    deadline = time.thread_time() + HINT_SECONDS
    return lambda: time.thread_time() < deadline


def list_replacement_reasons(store: Store, replaced_nodes: Collection[Node]) -> tuple[str, ...]:
    """Return a line for each decision that is replaced: its title, its age, and why it was made."""
    records = store.read_records([node.path for node in replaced_nodes])
    lines = []
    for node in (node for node in replaced_nodes if node.id not in store.barred_ids):
        since = f" ({format_age(store.clock() - node.created)} old)" if node.created else ""
        reason = ""
        if node.path in records:
            record = records[node.path]
            decided = "" if record.decision == node.title else record.decision
            reason = join_lines(query.extract_prose(f"{record.text}\n\n## Decision\n\n{decided}"))
        lines.append(
            f"{node.title}{since}" + (f": {shorten_line(reason, MAX_REASON)}" if reason else "")
        )
    return tuple(lines)


def _find_near(store: Store, record: Record) -> list[Neighbour]:
    """Compare a record with others of its type.

    A command does not load the model for this: it compares none.
    """
    if not store.serving:
        return []
    try:
        near = store.index.find_nearest(
            record.title, _build_text(record)[:MAX_GIST], MAX_COMPARED, record.supersedes or ()
        )
    except ModelUnavailable:
        return []
    hidden_ids = {record.id, *store.barred_ids}
    return [
        other
        for other in near
        if other.node.type == record.type and other.node.id not in hidden_ids
    ]


def _check_placement(store: Store, record: Record, near: Iterable[Neighbour]) -> str:
    """Return a warning if a decision is nearer to what another topic holds than to its own."""
    own = [other.text_cosine for other in near if _is_in_chain(record, other.node)]
    others = [other for other in near if not _is_in_chain(record, other.node)]
    likely = _filter_much_nearer(others, own)
    if likely and store.index.model:  # few come here: then the name of the topic is compared too
        text, topic = store.index.model.encode([_build_text(record)[:MAX_GIST], record.topic])
        likely = _filter_much_nearer(likely, [*own, float(text @ topic)])
    unsuperseded_ids = _find_unsuperseded(store, [other.node for other in likely])
    for other in sorted(likely, key=lambda other: -other.text_cosine):
        if other.node.id in unsuperseded_ids:
            place = f"{other.node.title!r} on topic {other.node.topic!r}"
            return (
                f"this is nearer to {place} than to what it replaces; if it belongs there, "
                f"delete {shorten_id(record.id)} and save it on that topic"
            )
    return ""


def _filter_much_nearer(others: Iterable[Neighbour], own: Iterable[float]) -> list[Neighbour]:
    """Those that a text is much nearer to than to what is its own."""
    threshold = max(OTHER_TOPIC_THRESHOLD, max(own, default=0.0) + TOPIC_MARGIN)
    return [other for other in others if other.text_cosine >= threshold]


def _iter_duplicates(store: Store, record: Record, near: Iterable[Neighbour]) -> Iterator[Similar]:
    """Yield records that say the same as a new one and are not superseded."""
    for node, likeness in _iter_repeats(store, record, near):
        topic = node.topic if node.stated else ""
        yield Similar(node.id, node.title, topic, likeness, _format_duplicate_hint(record, node))


def _iter_restatements(store: Store, record: Record) -> Iterator[Similar]:
    """Yield the decisions that say the same as one that a new one replaces, and still hold."""
    replaced_ids = record.supersedes or () if record.status in DEMOTING else ()
    nodes = store.index.read_nodes_by_field("id", replaced_ids)
    for old in store.read_records([node.path for node in nodes]).values():
        for node, likeness in _iter_repeats(store, old, _find_near(store, old)):
            if node.status == "accepted" and node.id not in (record.id, *replaced_ids):
                hint = (
                    f"on topic {node.topic!r} it says what this replaces, and it still holds; "
                    "if it should not, set its status to deprecated"
                )
                yield Similar(node.id, node.title, node.topic, likeness, hint)


def _iter_repeats(
    store: Store, record: Record, near: Iterable[Neighbour]
) -> Iterator[tuple[Node, float]]:
    """Yield what says the same as a record and is not superseded, and how much alike it is."""
    likenesses = {
        other.node: min(other.text_cosine, other.title_cosine)
        for other in near
        if min(other.text_cosine, other.title_cosine) >= SAME_THRESHOLD
    }
    if record.type == DECISION:
        titled = store.index.read_nodes_by_field("name", [record.title.casefold()])
        likenesses |= {
            node: 1.0 for node in titled if node.type == DECISION and node.id != record.id
        }
    hidden_ids = {*(record.supersedes or ()), *store.barred_ids}
    candidates = [node for node in likenesses if node.id not in hidden_ids]
    unsuperseded_ids = _find_unsuperseded(store, candidates)
    candidates = [node for node in candidates if node.id in unsuperseded_ids]
    for node in sorted(candidates, key=lambda node: (-likenesses[node], node.id))[:MAX_SIMILAR]:
        yield node, min(1.0, likenesses[node])


def _format_duplicate_hint(record: Record, node: Node) -> str:
    """Return what to do about a new record that says the same as another."""
    if record.type != DECISION:
        return "says nearly the same; update it instead of saving it twice"
    if _is_in_chain(record, node):
        return f"it is {node.status} on this topic"
    return (
        f"it is {node.status} on topic {node.topic!r}; if both answer one question, "
        f"delete {shorten_id(record.id)} and save this on that topic"
    )


def _is_in_chain(record: Record, node: Node) -> bool:
    """Whether a decision is on the topic of a new one, or is replaced by it."""
    return node.key == build_topic_key(record.topic) or node.id in (record.supersedes or ())


def _find_unsuperseded(store: Store, nodes: Collection[Node]) -> frozenset[str]:
    """Return the ids of those that no other record supersedes."""
    rows = store.find_by_id([node.id for node in nodes])
    return frozenset(name for name, row in rows.items() if not row.facts.superseded_by)


def _iter_near_topics(store: Store, record: Record) -> Iterator[Similar]:
    """Yield a topic like a new one, if their decisions share words too."""
    key = build_topic_key(record.topic)
    if record.type != DECISION or record.supersedes or not key:
        return
    similar_keys, nodes = _find_similar_topics(store, key)
    text = _build_text(record)
    near = [
        node
        for node in nodes
        if node.key in similar_keys or query.compute_topicality(text, node.title)
    ]
    rows = store.find_by_id([node.id for node in near])
    for node in near:
        if node.id in rows[node.id].facts.heads:
            hint = f"this topic is new; if {node.topic!r} is the same thing, use that name"
            yield Similar(node.id, node.title, node.topic, TOPIC_CUTOFF, hint)
            return


def _find_similar_topics(store: Store, key: str) -> tuple[list[str], list[Node]]:
    """The topics that are spelt like a new one; the decisions on these, and on others like it.

    Of two that are alike, one may also have all words of the other.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - 3 ms; for a topic that is new

    topics = [topic for topic, _ in store.index.count_terms("topic", key[:3]) if topic != key]
    similar_keys = get_close_matches(key, topics, n=1, cutoff=TOPIC_CUTOFF)
    words = set(key.split("_"))
    by_words = {topic: set(topic.split("_")) for topic in topics}
    nested = [topic for topic, own in by_words.items() if words <= own or words >= own]
    if not (similar_keys or nested):
        return [], []
    barred = store.barred_ids
    nodes = store.index.read_nodes_by_field("topic", {*similar_keys, *nested})
    return similar_keys, [node for node in nodes if node.id not in barred]


def _build_text(record: Record) -> str:
    return f"{record.title}\n{record.text}"


def build_topic_hint(store: Store, key: str) -> str:
    """A hint at the topic that was probably meant."""
    names = [name for name, _ in store.index.count_terms("topic")]
    return format_closest(key, names, "filemem topics lists them")


def explain_empty(store: Store, criteria: Filter, has_words: bool) -> str:
    """Explain in one sentence why a search shows nothing; `has_words`: the query has some."""
    if not store.index.count_records(Filter(reader=store.reader)):
        if store.find_obstacle() or not store.index.is_built:
            return ""
        begin = "there is no memory here yet: run `filemem init`, or save something"
        return begin if store.is_absent else NOTHING_YET
    for name, values in criteria.exact_terms.items():
        explanation = _explain_unknown_value(store, criteria, name, values)
        if explanation:
            return explanation
    has_matches = has_words and store.index.count_records(criteria) > 0
    return explain_no_match(has_matches, is_restricted=criteria != Filter(reader=criteria.reader))


def _explain_unknown_value(
    store: Store, criteria: Filter, name: str, values: Collection[str]
) -> str:
    """Say which value of a filter no record has, or ""."""
    for value in filter(None, values):
        terms = [term for term, _ in store.index.count_terms(name, record_filter=criteria)]
        if value not in terms:
            near = format_closest(value, terms)
            return f"no record has {name} {value!r}" + (f": {near}" if near else "")
    return ""


def explain_offset(offset: int) -> str:
    """Explain that an offset lies past the last hit."""
    return f"nothing from offset {offset:,} on"


def explain_no_match(has_words: bool, *, is_restricted: bool) -> str:
    """Explain that nothing is similar to the words of a query; without words, to the filters."""
    if has_words:
        passing = " that passes the filters" if is_restricted else ""
        return f"no record{passing} is similar to the query"
    return "no record passes these filters" if is_restricted else NOTHING_YET
