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
from filemem.record import DECISION, Edge, Outcome, Record, short_id, topic_key
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
PASSAGE = 450  # characters; 900 and 1800 measured worse
MOST_PASSAGES = 24
TITLE_IN_PASSAGE = 200  # characters
_SENTENCE_END = re.compile(r"\s(?:(?<=[.!?]\s)\s*|(?<=\n)\n*)")
_UNSPACED_END = re.compile(r"[。！？]")


def node_from(parts: Sequence[Any]) -> Node:
    """Return the node that was written as JSON: as the list of its fields."""
    values = [*map(_tuples, parts)]
    values[_EDGES] = tuple(map(Edge._make, parts[_EDGES]))
    return Node._make(values)


_EDGES = Node._fields.index("edges")


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


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


def document(record: Record, blob: str) -> Doc:
    """Return what the index should know of a record; `blob` is the Git blob id of its file."""
    body = "\n\n".join(part for part in _body(record) if part)
    analysed = f"{record.title}\n{body}"
    topic = (
        record.topic if record.topic_stated else ""
    )  # else it is the title, which would count twice
    return Doc(
        path=record.path,
        blob=blob,
        created=record.created or 0,
        terms={name: values for name, values in _terms(record).items() if values},
        title=record.title,
        topic=" ".join(part for part in (topic, query.split_identifiers(topic)) if part),
        body=f"{body}\n\n{query.split_identifiers(analysed)}",
        passages=passages(f"{topic}: {record.title}" if topic else record.title, body),
        node=Node.of_record(record),
        card=json.dumps(to_plain(record), separators=(",", ":"), default=str),
    )


def passages(title: str, text: str, size: int = PASSAGE) -> tuple[str, ...]:
    """Return the texts to embed for a record, each with the title in front.

    They are pieces of about `size` characters, cut at line ends and sentence ends where possible.
    At most MOST_PASSAGES; what lies behind is found by words only.
    """
    head = " ".join(title.split())[:TITLE_IN_PASSAGE]
    pairs = ((head, piece) for piece in _packed(text, size) or [""])
    texts = ("\n".join(filter(None, pair)) for pair in pairs)
    return tuple(filter(None, texts))


def _packed(text: str, size: int) -> list[str]:
    """Sentences and lines, joined up to `size` characters."""
    pieces: list[str] = []
    filled = ""
    for piece in _pieces(text, size):
        if len(pieces) == MOST_PASSAGES:
            break
        if filled and len(filled) + 1 + len(piece) > size:
            pieces.append(filled)
            filled = piece
        else:
            filled = f"{filled} {piece}" if filled else piece
    if filled and len(pieces) < MOST_PASSAGES:
        pieces.append(filled)
    return pieces


def _pieces(text: str, size: int) -> Iterator[str]:
    """Yield sentences and lines, and parts of those that are longer than `size`."""
    if not text.isascii():
        text = _UNSPACED_END.sub(r"\g<0>\n", text)
    for sentence in _SENTENCE_END.split(text):
        rest = " ".join(sentence.split())
        at = 0
        while len(rest) - at > size:
            gap = rest.rfind(" ", at + size // 2, at + size)
            cut = gap if gap > 0 else at + size
            yield rest[at:cut]
            at = cut + 1 if gap > 0 else cut
        if rest[at:]:
            yield rest[at:]


def record_from(text: str) -> Record:
    """Return the record of a card."""
    return from_plain(json.loads(text))


def to_plain(record: Record) -> dict[str, Any]:
    """The fields that say something, in their order."""
    usual = Record._field_defaults
    return {
        name: value
        for name, value in record._asdict().items()
        if name not in usual or value != usual[name]
    }


def from_plain(fields: Mapping[str, Any]) -> Record:
    """The record of plain values, or of what JSON made of them."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    values["outcomes"] = tuple(Outcome(*row) for row in values.get("outcomes", ()))
    values["mentions"] = tuple(Edge(*row) for row in values.get("mentions", ()))
    values["guards"] = tuple(Guard(*_tuples(guard)) for guard in values.get("guards", ()))
    return Record(**values)


def _terms(record: Record) -> dict[str, tuple[str, ...]]:
    is_decision = record.type == DECISION
    return {
        "short": (short_id(record.id),),
        "type": (record.type,),
        "topic": _stated(topic_key(record.topic)),
        "tag": tuple({query.fold(tag) for tag in (*record.tags, *record.concepts)}),
        "outcome": (record.outcome,) if is_decision else (),
        "status": (record.status,) if is_decision else (),
        "agent": tuple({query.fold(name) for name in (record.agent, record.agent_id)} - {""}),
        "affects": record.affects,
        "branch": _stated(record.branch),
        "user": _stated(record.user_id),
        "run": _stated(record.run_id),
        "session": _stated(query.fold(record.session)),
        "project": _stated(query.fold(record.project)),
    }


def _stated(value: str) -> tuple[str, ...]:
    return (value,) if value else ()


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
