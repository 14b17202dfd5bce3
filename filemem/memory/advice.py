"""Advice: which records a new record resembles, and why a search found nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
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
# Two records count as duplicates from this cosine of texts and of titles (bench/relevance.md).
SAME_THRESHOLD = 0.57
# A decision seems to belong to another topic if its cosine with a decision there is at least the
# threshold, and exceeds that with its own chain and topic by the margin.
OTHER_TOPIC_THRESHOLD = 0.4
TOPIC_MARGIN = 0.2
HINT_SECONDS = 0.003  # processor time after which the search for hints stops
MAX_SIMILAR = 3  # similar records that are named
MAX_REASON = 160  # characters of a reason in an answer
# Of difflib's ratio: `cache key` and `cache keys` are nearer than `auth` and `auth api`.
TOPIC_CUTOFF = 0.85


class Similar(NamedTuple):
    """A record that is similar to one just saved; `similarity` is a cosine on 0..1."""

    id: str
    title: str
    topic: str
    similarity: float
    hint: str


class Advice(NamedTuple):
    """Hints for the maker of a new record."""

    similar: tuple[Similar, ...] = ()
    warning: str = ""


def advise(
    store: Store, record: Record, *, is_implied: bool, has_time: Callable[[], bool]
) -> Advice:
    """Find records that duplicate a new one, or a topic that it fits better than its own.

    If the index is broken, there is no advice.

    Args:
        is_implied: Whether it replaces the live decision of its topic without naming it.
        has_time: Returns whether there is time for further hints, as a save must not wait.
    """
    if record.type == CHECKPOINT:
        return Advice()
    try:
        near = _find_near(store, record)
        warning = ""
        if is_implied:
            warning = _check_placement(store, record, near)
        hints: list[Similar] = []
        if not warning:
            hints += _iter_duplicates(store, record, near)
        include_topics = not hints and not warning
        hints += _find_further_hints(store, record, has_time, include_topics=include_topics)
    except BrokenStore:
        return Advice()
    by_id = {hint.id: hint for hint in hints}
    return Advice(similar=tuple(by_id.values()), warning=warning)


def list_notes(
    store: Store,
    record: Record,
    replaced_nodes: Collection[Node],
    stated_fields: Mapping[str, object],
) -> list[str]:
    """List consequences of a save that its maker may not expect."""
    notes = []
    if replaced_nodes and record.affects and "affects" not in stated_fields:
        paths = ", ".join(record.affects)
        notes.append(f"still governs {paths}, as what it replaces did")
    if "guards" not in stated_fields and any(node.guards for node in replaced_nodes):
        notes.append("the guards of what it replaces end: give those that still hold")
    if "supersedes" in stated_fields and record.status in DEMOTING:
        rivals = _list_rivals(store, record, replaced_nodes)
        if rivals:
            titles = format_nodes(rivals)
            notes.append(f"on this topic holds too: {titles}; the topic is forked")
    return notes


def _list_rivals(store: Store, record: Record, replaced_nodes: Collection[Node]) -> list[Node]:
    """List the live decisions on the topic of a new decision that it does not replace."""
    key = build_topic_key(record.topic)
    topic_nodes = store.index.read_nodes_by_field("topic", [key])
    chain_set = store.index.read_chains(topic_nodes)
    excluded_ids = {record.id}
    excluded_ids.update(store.barred_ids)
    excluded_ids.update(node.id for node in replaced_nodes)
    heads = chain_set.graph.get_chain(key).heads
    return [chain_set.nodes[head] for head in heads if head not in excluded_ids]


def list_hidden_characters(data: bytes) -> list[str]:
    """Describe the invisible characters of a file, by line."""
    notes = []
    for number, line in enumerate(data.decode().splitlines(), 1):
        hidden = find_hidden_characters(line)
        if hidden:
            notes.append(f"line {number} of the file holds {describe_character(hidden)}")
    return notes


def _find_further_hints(
    store: Store, record: Record, has_time: Callable[[], bool], *, include_topics: bool
) -> list[Similar]:
    """Find hints while there is time; a near topic only if there is no other hint."""
    hints: list[Similar] = []
    if has_time():
        hints += _iter_restatements(store, record)
    if include_topics and not hints and has_time():
        hints += _iter_near_topics(store, record)
    return hints


def start_budget() -> Callable[[], bool]:
    """Return a function that tells whether a save has time left for hints.

    It measures processor time, so that a busy machine gives as many hints as an idle one.
    """
    deadline = time.thread_time() + HINT_SECONDS

    def has_time() -> bool:
        return time.thread_time() < deadline

    return has_time


def list_replacement_reasons(store: Store, replaced_nodes: Collection[Node]) -> tuple[str, ...]:
    """Return a line for each decision that is replaced: its title, age and reason."""
    records = store.read_records([node.path for node in replaced_nodes])
    lines = []
    for node in replaced_nodes:
        if node.id in store.barred_ids:
            continue
        line = node.title
        if node.created:
            age = format_age(store.clock() - node.created)
            line += f" ({age} old)"
        record = records.get(node.path)
        if record is not None:
            reason = _extract_reason(record, node.title)
            if reason:
                line += f": {shorten_line(reason, MAX_REASON)}"
        lines.append(line)
    return tuple(lines)


def _extract_reason(record: Record, title: str) -> str:
    """Return the reasoning of a decision, then the decision unless its title repeats it."""
    decision = record.decision
    if decision == title:
        decision = ""
    text = f"{record.text}\n\n## Decision\n\n{decision}"
    return join_lines(query.extract_prose(text))


def _find_near(store: Store, record: Record) -> list[Neighbour]:
    """Find the nearest records of its type; none in a command, which loads no model for this."""
    if not store.serving:
        return []
    gist = _build_text(record)[:MAX_GIST]
    superseded_ids = record.supersedes or ()
    try:
        near = store.index.find_nearest(record.title, gist, MAX_COMPARED, superseded_ids)
    except ModelUnavailable:
        return []
    hidden_ids = {record.id, *store.barred_ids}
    return [
        other
        for other in near
        if other.node.type == record.type and other.node.id not in hidden_ids
    ]


def _check_placement(store: Store, record: Record, near: Iterable[Neighbour]) -> str:
    """Return a warning if a decision is nearer to another topic than to its own, or ""."""
    own_cosines = []
    others = []
    for neighbour in near:
        if _is_in_chain(record, neighbour.node):
            own_cosines.append(neighbour.text_cosine)
        else:
            others.append(neighbour)
    likely = _filter_much_nearer(others, own_cosines)
    if likely and store.index.model:  # only now, as it is rare: compare with the topic's name too
        gist = _build_text(record)[:MAX_GIST]
        text_vector, topic_vector = store.index.model.encode([gist, record.topic])
        own_cosines.append(float(text_vector @ topic_vector))
        likely = _filter_much_nearer(likely, own_cosines)
    unsuperseded_ids = _find_unsuperseded(store, [other.node for other in likely])
    for other in sorted(likely, key=attrgetter("text_cosine"), reverse=True):
        if other.node.id in unsuperseded_ids:
            return _format_misplacement(record, other.node)
    return ""


def _format_misplacement(record: Record, node: Node) -> str:
    return (
        f"this is nearer to {node.title!r} on topic {node.topic!r} than to what it replaces; "
        f"if it belongs there, delete {shorten_id(record.id)} and save it on that topic"
    )


def _filter_much_nearer(
    others: Iterable[Neighbour], own_cosines: Iterable[float]
) -> list[Neighbour]:
    """Return the neighbours on other topics that are much nearer than those on its own."""
    best_own = max(own_cosines, default=0.0)
    threshold = max(OTHER_TOPIC_THRESHOLD, best_own + TOPIC_MARGIN)
    return [other for other in others if other.text_cosine >= threshold]


def _iter_duplicates(store: Store, record: Record, near: Iterable[Neighbour]) -> Iterator[Similar]:
    """Yield records that duplicate a new one and are not superseded."""
    for node, similarity in _iter_repeats(store, record, near):
        topic = ""
        if node.stated:
            topic = node.topic
        hint = _format_duplicate_hint(record, node)
        yield Similar(node.id, node.title, topic, similarity, hint)


def _iter_restatements(store: Store, record: Record) -> Iterator[Similar]:
    """Yield live decisions that duplicate a decision which a new one replaces."""
    if record.status not in DEMOTING or not record.supersedes:
        return
    replaced_nodes = store.index.read_nodes_by_field("id", record.supersedes)
    old_records = store.read_records([node.path for node in replaced_nodes])
    for old_record in old_records.values():
        near = _find_near(store, old_record)
        for node, similarity in _iter_repeats(store, old_record, near):
            if node.status != "accepted" or node.id in (record.id, *record.supersedes):
                continue
            hint = (
                f"on topic {node.topic!r} it says what this replaces, and it still holds; "
                "if it should not, set its status to deprecated"
            )
            yield Similar(node.id, node.title, node.topic, similarity, hint)


def _iter_repeats(
    store: Store, record: Record, near: Iterable[Neighbour]
) -> Iterator[tuple[Node, float]]:
    """Yield records that duplicate a record and are not superseded, with their similarity."""
    similarities = _compute_similarities(store, record, near)
    hidden_ids = set(store.barred_ids)
    hidden_ids.update(record.supersedes or ())
    candidates = [node for node in similarities if node.id not in hidden_ids]
    unsuperseded_ids = _find_unsuperseded(store, candidates)
    repeats = [node for node in candidates if node.id in unsuperseded_ids]
    repeats.sort(key=attrgetter("id"))
    repeats.sort(key=similarities.__getitem__, reverse=True)
    for node in repeats[:MAX_SIMILAR]:
        yield node, min(1.0, similarities[node])


def _compute_similarities(
    store: Store, record: Record, near: Iterable[Neighbour]
) -> dict[Node, float]:
    """Compute the similarity of records that duplicate a record; 1 for a decision of its title."""
    similarities: dict[Node, float] = {}
    for other in near:
        similarity = min(other.text_cosine, other.title_cosine)
        if similarity >= SAME_THRESHOLD:
            similarities[other.node] = similarity
    if record.type == DECISION:
        for node in store.index.read_nodes_by_field("name", [record.title.casefold()]):
            if node.type == DECISION and node.id != record.id:
                similarities[node] = 1.0
    return similarities


def _format_duplicate_hint(record: Record, node: Node) -> str:
    """Format what to do about a new record that duplicates another."""
    if record.type != DECISION:
        return "says nearly the same; update it instead of saving it twice"
    if _is_in_chain(record, node):
        return f"it is {node.status} on this topic"
    return (
        f"it is {node.status} on topic {node.topic!r}; if both answer one question, "
        f"delete {shorten_id(record.id)} and save this on that topic"
    )


def _is_in_chain(record: Record, node: Node) -> bool:
    """Return whether a decision is on the topic of a new one, or is replaced by it."""
    if node.key == build_topic_key(record.topic):
        return True
    return record.supersedes is not None and node.id in record.supersedes


def _find_unsuperseded(store: Store, nodes: Collection[Node]) -> frozenset[str]:
    """Return the ids of the records that no other record supersedes."""
    rows = store.find_by_id([node.id for node in nodes])
    return frozenset(record_id for record_id, row in rows.items() if not row.facts.superseded_by)


def _iter_near_topics(store: Store, record: Record) -> Iterator[Similar]:
    """Yield the first live decision on a topic like a new one, if they share words too."""
    key = build_topic_key(record.topic)
    if record.type != DECISION or record.supersedes or not key:
        return
    similar_keys, nodes = _find_similar_topics(store, key)
    text = _build_text(record)
    near_nodes = [
        node
        for node in nodes
        if node.key in similar_keys or query.compute_topicality(text, node.title)
    ]
    rows = store.find_by_id([node.id for node in near_nodes])
    for node in near_nodes:
        if node.id in rows[node.id].facts.heads:
            hint = f"this topic is new; if {node.topic!r} is the same thing, use that name"
            yield Similar(node.id, node.title, node.topic, TOPIC_CUTOFF, hint)
            return


def _find_similar_topics(store: Store, key: str) -> tuple[list[str], list[Node]]:
    """Find the topics with a spelling like a new one, and decisions on these and related topics.

    Topics are related if one has all words of the other.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - 3 ms; only for a new topic

    topics = [topic for topic, _ in store.index.count_terms("topic", key[:3]) if topic != key]
    similar_keys = get_close_matches(key, topics, n=1, cutoff=TOPIC_CUTOFF)
    words = set(key.split("_"))
    wanted_keys = set(similar_keys)
    for topic in topics:
        topic_words = set(topic.split("_"))
        if words <= topic_words or words >= topic_words:
            wanted_keys.add(topic)
    if not wanted_keys:
        return [], []
    barred_ids = store.barred_ids
    nodes = store.index.read_nodes_by_field("topic", wanted_keys)
    return similar_keys, [node for node in nodes if node.id not in barred_ids]


def _build_text(record: Record) -> str:
    return f"{record.title}\n{record.text}"


def build_topic_hint(store: Store, key: str) -> str:
    """Build a hint that names the topic that was probably meant."""
    topics = [topic for topic, _ in store.index.count_terms("topic")]
    return format_closest(key, topics, "filemem topics lists them")


def explain_empty(store: Store, criteria: Filter, has_words: bool) -> str:
    """Explain in one sentence why a search found nothing; "" if the store or index is missing.

    `has_words` tells whether the query has words.
    """
    if not store.index.count_records(Filter(reader=store.reader)):
        if store.find_obstacle() or not store.index.is_built:
            return ""
        if store.is_absent:
            return "there is no memory here yet: run `filemem init`, or save something"
        return NOTHING_YET
    for name, values in criteria.exact_terms.items():
        explanation = _explain_unknown_value(store, criteria, name, values)
        if explanation:
            return explanation
    has_matches = has_words and store.index.count_records(criteria) > 0
    # There are records: a query without words finds none only by its filters and exclusions.
    is_restricted = not has_matches or criteria != Filter(reader=criteria.reader)
    return explain_no_match(has_matches, is_restricted=is_restricted)


def _explain_unknown_value(
    store: Store, criteria: Filter, name: str, values: Collection[str]
) -> str:
    """Name the first value of a filter that no record has, or return ""."""
    for value in values:
        if not value:
            continue
        terms = [term for term, _ in store.index.count_terms(name, record_filter=criteria)]
        if value not in terms:
            explanation = f"no record has {name} {value!r}"
            closest = format_closest(value, terms)
            if closest:
                explanation += f": {closest}"
            return explanation
    return ""


def explain_offset(offset: int) -> str:
    """Explain that an offset is beyond the last hit."""
    return f"nothing from offset {offset:,} on"


def explain_no_match(has_words: bool, *, is_restricted: bool) -> str:
    """Explain that no record matches the words of a query, or without words the filters."""
    if has_words and is_restricted:
        return "no record that passes the filters is similar to the query"
    if has_words:
        return "no record is similar to the query"
    if is_restricted:
        return "no record passes these filters"
    return NOTHING_YET
