"""What is indexed of a record: texts, exact terms, passages to embed, and the card of a hit.

A document depends on the path and the bytes of one file, and on nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
    """Return a node from the list of its fields, as JSON has it."""
    node = Node(*_to_tuples(list(parts)))
    edges = tuple(Edge(*edge) for edge in node.edges)
    return node._replace(edges=edges)


def _to_tuples(value: Any) -> Any:
    """Return a value with every list in it replaced by a tuple."""
    if not isinstance(value, list):
        return value
    return tuple(_to_tuples(part) for part in value)


class Doc(NamedTuple):
    """What is indexed of one record."""

    path: str
    blob: str  # Git blob id of the bytes it was made from; embeddings are cached under it
    created: int
    # Values by field (see TERM_FIELDS), which a search matches exactly.
    terms: Mapping[str, tuple[str, ...]]
    title: str  # analysed, as are topic and body
    topic: str
    body: str
    passages: tuple[str, ...]  # texts to embed, each with the title in front
    node: Node  # what the index answers with
    card: str  # the whole record as JSON, so that what is found is shown without opening its file


def build_document(record: Record, blob: str) -> Doc:
    """Return the document of a record; `blob` is the Git blob id of its file."""
    body = "\n\n".join(_list_body_parts(record))
    identifiers = query.split_identifiers(f"{record.title}\n{body}")
    topic = ""
    heading = record.title
    if record.topic_stated:  # else the topic is the title, which would count twice
        topic = record.topic
        heading = f"{topic}: {record.title}" if topic else record.title
    return Doc(
        path=record.path,
        blob=blob,
        created=record.created or 0,
        terms=_build_terms(record),
        title=record.title,
        topic=_join_present(" ", [topic, query.split_identifiers(topic)]),
        body=f"{body}\n\n{identifiers}",
        passages=build_passages(heading, body),
        node=Node.from_record(record),
        card=json.dumps(to_plain(record), separators=(",", ":"), default=str),
    )


def _join_present(separator: str, parts: Iterable[str]) -> str:
    """Join the parts that are not empty."""
    return separator.join(part for part in parts if part)


def build_passages(title: str, text: str, size: int = PASSAGE_SIZE) -> tuple[str, ...]:
    """Return the texts to embed for a record, each with the title in front.

    They are pieces of about `size` characters, cut at the ends of lines and sentences if possible.
    Text after the first MAX_PASSAGES pieces is not embedded.
    """
    heading = " ".join(title.split())[:MAX_TITLE_SIZE]
    pieces = _join_pieces(text, size)
    if not pieces:
        return (heading,) if heading else ()
    return tuple(_join_present("\n", [heading, piece]) for piece in pieces)


def _join_pieces(text: str, size: int) -> list[str]:
    """Return sentences and lines, joined up to `size` characters."""
    pieces: list[str] = []
    passage = ""
    for piece in _iter_pieces(text, size):
        if len(pieces) == MAX_PASSAGES:
            break
        if not passage:
            passage = piece
        elif len(passage) + 1 + len(piece) > size:
            pieces.append(passage)
            passage = piece
        else:
            passage = f"{passage} {piece}"
    if passage and len(pieces) < MAX_PASSAGES:
        pieces.append(passage)
    return pieces


def _iter_pieces(text: str, size: int) -> Iterator[str]:
    """Yield sentences and lines, those longer than `size` in parts."""
    if not text.isascii():
        text = _UNSPACED_END.sub(r"\g<0>\n", text)
    for sentence in _SENTENCE_END.split(text):
        rest = " ".join(sentence.split())
        while len(rest) > size:
            gap = rest.rfind(" ", size // 2, size)
            if gap > 0:
                yield rest[:gap]
                rest = rest[gap + 1 :]
            else:
                yield rest[:size]
                rest = rest[size:]
        if rest:
            yield rest


def parse_card(text: str) -> Record:
    """Return the record of a card."""
    return from_plain(json.loads(text))


def to_plain(record: Record) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults, in order."""
    defaults = Record._field_defaults
    fields = {}
    for name, value in record._asdict().items():
        is_default = name in defaults and value == defaults[name]
        if not is_default:
            fields[name] = value
    return fields


def from_plain(fields: Mapping[str, Any]) -> Record:
    """Return the record of fields that `to_plain` made, also if they went through JSON."""
    values = {name: _parse_field(name, value) for name, value in fields.items()}
    return Record(**values)


def _parse_field(name: str, value: Any) -> Any:
    """Return the value of a field of a record, with the classes and tuples that JSON lacks."""
    if name == "outcomes":
        return tuple(Outcome(*outcome) for outcome in value)
    if name == "mentions":
        return tuple(Edge(*edge) for edge in value)
    if name == "guards":
        return tuple(Guard(*_to_tuples(guard)) for guard in value)
    return tuple(value) if isinstance(value, list) else value


def _build_terms(record: Record) -> dict[str, tuple[str, ...]]:
    """Return the exact values of a record by field, without fields that have none."""
    terms = {
        "short": (shorten_id(record.id),),
        "type": (record.type,),
        "topic": (build_topic_key(record.topic),),
        "tag": _fold_values((*record.tags, *record.concepts)),
        "outcome": (),
        "status": (),
        "agent": _fold_values((record.agent, record.agent_id)),
        "affects": record.affects,
        "branch": (record.branch,),
        "user": (record.user_id,),
        "run": (record.run_id,),
        "session": (query.fold_value(record.session),),
        "project": (query.fold_value(record.project),),
    }
    if record.type == DECISION:
        terms["outcome"] = (record.outcome,)
        terms["status"] = (record.status,)
    return {name: values for name, values in terms.items() if any(values)}


def _fold_values(values: Iterable[str]) -> tuple[str, ...]:
    """Return values in the form in which they are compared, each once and not empty."""
    folded = {query.fold_value(value) for value in values}
    return tuple(value for value in folded if value)


def _list_body_parts(record: Record) -> list[str]:
    """Return all texts of a record that a person may search for, in reading order.

    The title is not one of them.
    """
    parts = []
    if record.decision != record.title:
        parts.append(record.decision)
    reasons = [entry.reason for entry in record.outcomes if entry.reason]
    files = chain(record.affects, record.open_files, record.files_read, record.files_modified)
    parts += [
        record.text,
        record.next_steps,
        "\n".join(record.facts),
        "\n".join(record.rejected),
        "\n".join(reasons),
        record.limitation,
        " ".join(chain(record.tags, record.concepts)),
        " ".join(files),
    ]
    return [part for part in parts if part]
