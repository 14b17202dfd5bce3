"""What is indexed of a record: texts, exact terms, passages to embed, and the card of a hit.

Rule: a document is a function of one file, its path and its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from filemem import query
from filemem.chain import Node
from filemem.record import DECISION, Edge, Outcome, Record, build_topic_key, shorten_id
from filemem.record.guards import Guard

TERM_FIELDS = (
    "short",
    "type",
    "topic",
    "tag",
    "outcome",
    "status",
    "agent",
    "affects",
    "branch",
    "user",
    "run",
    "session",
    "project",
)
PASSAGE_SIZE = 450  # characters; 900 and 1800 measured worse
MAX_PASSAGES = 24
MAX_TITLE_SIZE = 200  # characters
_SENTENCE_END = re.compile(r"\s(?:(?<=[.!?]\s)\s*|(?<=\n)\n*)")
_UNSPACED_END = re.compile(r"[。！？]")


def build_node(parts: Sequence[Any]) -> Node:
    """Return the node that was written as JSON: as the list of its fields."""
    values = [*map(_to_tuples, parts)]
    values[_EDGES_INDEX] = tuple(map(Edge._make, parts[_EDGES_INDEX]))
    return Node._make(values)


_EDGES_INDEX = Node._fields.index("edges")


def _to_tuples(value: Any) -> Any:
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value


class Doc(NamedTuple):
    """What is indexed of one record."""

    path: str
    blob: str  # Git blob id of the bytes it was made from; embeddings are cached under it
    created: int
    terms: Mapping[
        str, tuple[str, ...]
    ]  # exact values by field (see TERM_FIELDS); matched whole, never analysed
    title: str  # analysed, as are topic and body
    topic: str
    body: str
    passages: tuple[str, ...]  # texts to embed, each with the title in front
    node: Node  # what the index answers with
    card: str  # the whole record as JSON, so that what is found is shown without opening its file


def build_document(record: Record, blob: str) -> Doc:
    """Return what the index should know of a record; `blob` is the Git blob id of its file."""
    body = "\n\n".join(part for part in _list_body_parts(record) if part)
    analysed_text = f"{record.title}\n{body}"
    topic = (
        record.topic if record.topic_stated else ""
    )  # else it is the title, which would count twice
    return Doc(
        path=record.path,
        blob=blob,
        created=record.created or 0,
        terms={name: values for name, values in _build_terms(record).items() if values},
        title=record.title,
        topic=" ".join(part for part in (topic, query.split_identifiers(topic)) if part),
        body=f"{body}\n\n{query.split_identifiers(analysed_text)}",
        passages=build_passages(f"{topic}: {record.title}" if topic else record.title, body),
        node=Node.from_record(record),
        card=json.dumps(to_plain(record), separators=(",", ":"), default=str),
    )


def build_passages(title: str, text: str, size: int = PASSAGE_SIZE) -> tuple[str, ...]:
    """Return the texts to embed for a record, each with the title in front.

    They are pieces of about `size` characters, cut at line ends and sentence ends where possible.
    At most MOST_PASSAGES; what lies behind is found by words only.
    """
    heading = " ".join(title.split())[:MAX_TITLE_SIZE]
    pairs = ((heading, piece) for piece in _join_pieces(text, size) or [""])
    texts = ("\n".join(filter(None, pair)) for pair in pairs)
    return tuple(filter(None, texts))


def _join_pieces(text: str, size: int) -> list[str]:
    """Sentences and lines, joined up to `size` characters."""
    pieces: list[str] = []
    passage = ""
    for piece in _iter_pieces(text, size):
        if len(pieces) == MAX_PASSAGES:
            break
        if passage and len(passage) + 1 + len(piece) > size:
            pieces.append(passage)
            passage = piece
        else:
            passage = f"{passage} {piece}" if passage else piece
    if passage and len(pieces) < MAX_PASSAGES:
        pieces.append(passage)
    return pieces


def _iter_pieces(text: str, size: int) -> Iterator[str]:
    """Yield sentences and lines, and parts of those that are longer than `size`."""
    if not text.isascii():
        text = _UNSPACED_END.sub(r"\g<0>\n", text)
    for sentence in _SENTENCE_END.split(text):
        normalized = " ".join(sentence.split())
        position = 0
        while len(normalized) - position > size:
            gap = normalized.rfind(" ", position + size // 2, position + size)
            cut = gap if gap > 0 else position + size
            yield normalized[position:cut]
            position = cut + 1 if gap > 0 else cut
        if normalized[position:]:
            yield normalized[position:]


def parse_card(text: str) -> Record:
    """Return the record of a card."""
    return from_plain(json.loads(text))


def to_plain(record: Record) -> dict[str, Any]:
    """The fields that say something, in their order."""
    defaults = Record._field_defaults
    return {
        name: value
        for name, value in record._asdict().items()
        if name not in defaults or value != defaults[name]
    }


def from_plain(fields: Mapping[str, Any]) -> Record:
    """The record of plain values, or of what JSON made of them."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    values["outcomes"] = tuple(Outcome(*row) for row in values.get("outcomes", ()))
    values["mentions"] = tuple(Edge(*row) for row in values.get("mentions", ()))
    values["guards"] = tuple(Guard(*_to_tuples(guard)) for guard in values.get("guards", ()))
    return Record(**values)


def _build_terms(record: Record) -> dict[str, tuple[str, ...]]:
    is_decision = record.type == DECISION
    return {
        "short": (shorten_id(record.id),),
        "type": (record.type,),
        "topic": _as_tuple(build_topic_key(record.topic)),
        "tag": tuple({query.fold_value(tag) for tag in (*record.tags, *record.concepts)}),
        "outcome": (record.outcome,) if is_decision else (),
        "status": (record.status,) if is_decision else (),
        "agent": tuple({query.fold_value(name) for name in (record.agent, record.agent_id)} - {""}),
        "affects": record.affects,
        "branch": _as_tuple(record.branch),
        "user": _as_tuple(record.user_id),
        "run": _as_tuple(record.run_id),
        "session": _as_tuple(query.fold_value(record.session)),
        "project": _as_tuple(query.fold_value(record.project)),
    }


def _as_tuple(value: str) -> tuple[str, ...]:
    return (value,) if value else ()


def _list_body_parts(record: Record) -> tuple[str, ...]:
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
