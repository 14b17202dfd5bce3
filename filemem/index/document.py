"""A document is a function of one file: what is indexed of a record. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from filemem import query
from filemem.chain import Node
from filemem.record import DECISION, Edge, Outcome, Record, short_id, topic_key

TERM_FIELDS = tuple("short type topic tag outcome status agent affects branch user run".split())  # noqa: SIM905


def node_from(parts: Sequence[Any]) -> Node:
    """Return the node that was written as JSON: as the list of its fields."""
    return Node._make(map(_tuples, parts))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Doc(NamedTuple):
    """What is indexed of one record.

    Args:
        blob: Git blob id of the bytes it was made from; embeddings are cached under it.
        terms: exact values by field (see TERM_FIELDS); matched whole, never analysed.
        title, topic, body: analysed.
        passages: texts to embed, each with the title in front.
        node: what the index answers with.
        card: the whole record as JSON, so that what is found is shown without opening its file.
    """

    path: str
    blob: str
    created: int
    terms: Mapping[str, tuple[str, ...]]
    title: str
    topic: str
    body: str
    passages: tuple[str, ...]
    node: Node
    card: str


def document(record: Record, blob: str) -> Doc:
    """Return what the index should know of a record; `blob` is the Git blob id of its file."""
    body = "\n\n".join(part for part in _body(record) if part)
    analysed = f"{record.title}\n{body}"
    topic = record.topic if record.topic_stated else ""  # else it is the title, which would count twice
    return Doc(
        path=record.path,
        blob=blob,
        created=record.created or 0,
        terms={name: values for name, values in _terms(record).items() if values},
        title=record.title,
        topic=" ".join(part for part in (topic, query.split_identifiers(topic)) if part),
        body=f"{body}\n\n{query.split_identifiers(analysed)}",
        passages=query.passages(f"{topic}: {record.title}" if topic else record.title, body),
        node=Node.of_record(record),
        card=_card(record),
    )


def key(blob: str) -> int:
    """Return the number under which the vectors of a blob are filed: its first 63 bits."""
    return int(blob[:16], 16) >> 1


def clean(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _card(record: Record) -> str:
    """Write a record as JSON."""
    plain = Record._field_defaults
    said = {name: value for name, value in record._asdict().items() if name not in plain or value != plain[name]}
    return json.dumps(said, separators=(",", ":"), default=str)


def record_from(text: str) -> Record:
    """Return the record of a card."""
    said: dict[str, Any] = json.loads(text)
    said = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    said["outcomes"] = tuple(Outcome(*one) for one in said.get("outcomes", ()))
    said["mentions"] = tuple(Edge(*one) for one in said.get("mentions", ()))
    return Record(**said)


def _terms(record: Record) -> dict[str, tuple[str, ...]]:
    decision = record.type == DECISION
    key = topic_key(record.topic)
    return {
        "short": (short_id(record.id),),
        "type": (record.type,),
        "topic": (key,) if key else (),
        "tag": tuple({query.fold(tag) for tag in (*record.tags, *record.concepts)}),
        "outcome": (record.outcome,) if decision else (),
        "status": (record.status,) if decision else (),
        "agent": tuple({query.fold(name) for name in (record.agent, record.agent_id)} - {""}),
        "affects": record.affects,
        "branch": (record.branch,) if record.branch else (),
        "user": (record.user_id,) if record.user_id else (),
        "run": (record.run_id,) if record.run_id else (),
    }


def _body(record: Record) -> tuple[str, ...]:
    """Everything a person could search for, in reading order. The title stands apart."""
    return (
        record.decision if record.decision != record.title else "",
        record.text,
        record.next_steps,
        "\n".join(record.facts),
        "\n".join(record.rejected),
        "\n".join(entry.reason for entry in record.outcomes if entry.reason),
        record.limitation,
        " ".join((*record.tags, *record.concepts)),
        " ".join((*record.affects, *record.open_files, *record.files_read, *record.files_modified)),
    )
