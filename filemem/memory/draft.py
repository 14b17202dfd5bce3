"""Drafts of records: values, edges, the decisions that are replaced, and the bytes of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from filemem.chain import DEMOTING, Node
from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory import fields
from filemem.memory.adr_numbers import find_highest_number
from filemem.memory.store import Store, compute_tombstone
from filemem.record import (
    CHECKPOINT,
    DECISION,
    EDGE_KINDS,
    OBSERVATION,
    OUTCOMES,
    Outcome,
    Record,
    build_id,
    build_record_path,
    build_topic_key,
    derive_id,
    parse_adr_number,
    refuse_unreadable,
    render_adr,
    render_record,
    to_datetime,
)

# The field that a heading is made of.
_HEADING_FIELDS = {DECISION: "decision", CHECKPOINT: "summary", OBSERVATION: "text"}
# Fields of a save that are not keys of a record.
NON_RECORD_FIELDS = ("allow_secret", "reasoning", "summary", "reason")
NO_OUTCOME = OUTCOMES[0]


class Draft(NamedTuple):
    """A record to write, the decisions that it replaces, and its bytes."""

    record: Record
    replaced_nodes: tuple[Node, ...]
    data: bytes


def compose_draft(
    kind: str,
    valid_fields: Mapping[str, Any],
    store: Store,
    *,
    now: int,
    entropy: bytes,
    is_secret_allowed: bool,
) -> Draft:
    """Draft a record from checked fields; a decision replaces the current live ones."""
    resolved_fields = dict(valid_fields)
    resolved_fields.update(_resolve_edges(store, valid_fields))
    values = dict(resolved_fields)
    for name in NON_RECORD_FIELDS:
        values.pop(name, None)
    replaced_nodes: tuple[Node, ...] = ()
    if kind == DECISION:
        replaced_nodes = _find_replaced(store, resolved_fields)
        values |= _build_decision_values(store, resolved_fields, replaced_nodes, now)
    elif kind == OBSERVATION:
        values.setdefault("kind", "discovery")
    values["title"], values["text"] = build_texts(kind, resolved_fields)
    record = Record(
        id=build_id(kind, now, entropy, str(values.get("topic", ""))),
        type=kind,
        created=now,
        secrets_allowed=is_secret_allowed,
        **values,
    )
    newest_adr = store.files.find_newest_adr() if kind == DECISION else ""
    if newest_adr:
        record, data = _build_adr(store, record, newest_adr, replaced_nodes)
    else:
        record = record._replace(path=build_record_path(record))
        links = [(node.title, node.path) for node in replaced_nodes if not node.audience]
        data = render_record(record, links)
    refuse_unreadable(data, record.path)
    return Draft(record, replaced_nodes, data)


def _build_decision_values(
    store: Store, valid_fields: Mapping[str, Any], replaced_nodes: tuple[Node, ...], now: int
) -> dict[str, Any]:
    """Build the values of a decision that depend on other decisions, or on the time."""
    values: dict[str, Any] = {
        "topic": _find_spelling(store, valid_fields["topic"]),
        "topic_stated": True,
        "supersedes": tuple(node.id for node in replaced_nodes),
    }
    status = valid_fields.get("status", "accepted")
    if "affects" not in valid_fields and status in DEMOTING:
        # A successor governs the files of the decisions that it replaces unless it says otherwise.
        values["affects"] = _list_affects(store, replaced_nodes)
    outcome = valid_fields.get("outcome", NO_OUTCOME)
    if outcome != NO_OUTCOME:
        reason = valid_fields.get("reason", "")
        values["outcomes"] = (Outcome(now, outcome, reason),)
    return values


def _list_affects(store: Store, nodes: Iterable[Node]) -> tuple[str, ...]:
    records = store.read_records([node.path for node in nodes])
    paths: dict[str, None] = {}
    for record in records.values():
        paths.update(dict.fromkeys(record.affects))
    return tuple(paths)


def _find_spelling(store: Store, topic: str) -> str:
    """Return a topic as the oldest decision that states it spells it."""
    key = build_topic_key(topic)
    nodes = store.index.read_nodes_by_field("topic", [key])
    stating_nodes = [node for node in nodes if node.stated]
    if not stating_nodes:
        return topic
    return min(stating_nodes, key=attrgetter("sort_key")).topic


def build_texts(kind: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the heading of a record and the text below it."""
    heading = values.get("title", "")
    full_text = values.get(_HEADING_FIELDS[kind], "")
    title = heading or fields.build_heading(full_text)
    if kind == DECISION:
        return title, values.get("reasoning", "")
    if full_text == title and not heading:
        return title, ""
    return title, full_text


def _build_adr(
    store: Store, record: Record, newest_path: str, replaced_nodes: tuple[Node, ...]
) -> tuple[Record, bytes]:
    """Build a decision as the next file of an ADR folder.

    Its topic is stated if neither heading nor links show it.
    """
    record = record._replace(topic_stated=not _is_topic_visible(store, record, replaced_nodes))
    links = [(node.title, node.path) for node in replaced_nodes]
    example = store.files.read(newest_path)
    # The local day, as a person would write it; our own timestamps are UTC.
    local_time = to_datetime(record.created or 0).astimezone()
    day = local_time.date().isoformat()
    number = parse_adr_number(newest_path)
    first_step = 1
    if number is not None:
        first_step = find_highest_number(store) - number + 1
    for step in count(first_step):
        path, data, stated_id = render_adr(record, newest_path, example, links, day, step)
        # The name of a forgotten record would hide the new one, and two may be saved on one day.
        is_forgotten = compute_tombstone(derive_id(path)) in store.tombstones
        if not is_forgotten and store.files.read_state(path) is None:
            break
    return record._replace(path=path, id=stated_id or derive_id(path)), data


def _is_topic_visible(store: Store, record: Record, replaced_nodes: tuple[Node, ...]) -> bool:
    """Return whether the heading of an ADR, or its link to a replaced one, shows its topic."""
    key = build_topic_key(record.topic)
    if key == build_topic_key(record.title):
        return True
    if not replaced_nodes or not store.index.read_nodes_by_field("heading", [key]):
        return False
    return not store.index.read_nodes_by_field("topic", [key])


def _resolve_edges(store: Store, valid_fields: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    edges: dict[str, tuple[str, ...]] = {}
    for name in EDGE_KINDS:
        references = valid_fields.get(name)
        if references:
            edges[name] = resolve_ids(store, name, references)
    return edges


def resolve_ids(store: Store, field: str, references: Iterable[str]) -> tuple[str, ...]:
    """Turn the references of an edge into ids. Raises NotFound; BadInput: not a decision."""
    ids: dict[str, None] = {}
    for reference in references:
        try:
            node = store.resolve_name(reference).node
        except NotFound as error:
            raise NotFound(f"{field}: {error.message}", error.hint) from None
        if node.type != DECISION:
            article = fields.add_article(node.type)
            message = f"{field}: {node.id} is {article}; edges lead to decisions"
            raise BadInput(message, field=field)
        ids[node.id] = None
    return tuple(ids)


def _find_replaced(store: Store, valid_fields: Mapping[str, Any]) -> tuple[Node, ...]:
    """Find the decisions that a new one replaces: the stated ones, else the heads of its topic.

    Raises Conflict if the topic is forked.
    """
    if "supersedes" in valid_fields:
        ids = valid_fields["supersedes"]
        return tuple(store.index.read_nodes_by_field("id", ids)) if ids else ()
    topic = valid_fields["topic"]
    key = build_topic_key(topic)
    if not key:
        message = "topic has no letters or digits"
        raise BadInput(message, "name what the decision is about", field="topic")
    topicless_nodes = store.index.read_nodes_by_field("heading", [key])
    topic_nodes = store.index.read_nodes_by_field("topic", [key])
    chain_set = store.index.read_chains([*topic_nodes, *topicless_nodes])
    graph = chain_set.graph
    heads = graph.list_next_superseded(key)
    if not heads:
        heads = graph.merge_heads([node.id for node in topicless_nodes])
    if len(heads) > 1:
        heads = _select_merged(topic, heads, valid_fields.get("synthesizes", ()))
    return tuple(chain_set.nodes[head] for head in heads)


def _select_merged(
    topic: str, heads: tuple[str, ...], merged_ids: Collection[str]
) -> tuple[str, ...]:
    """Select the heads of a forked topic that a decision merges. Raises Conflict without any."""
    if not merged_ids:
        raise Conflict(
            f"topic {topic} is forked: {len(heads)} decisions hold at once",
            "read them, then save again and name those that the new decision replaces "
            "in supersedes or synthesizes",
            heads=heads,
        )
    return tuple(head for head in heads if head in merged_ids)
