"""What `filemem export` wrote as lines of JSON: records with every field, under their own ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filemem.errors import BadInput
from filemem.importers.notes import item_of
from filemem.importers.source import Row, lines
from filemem.index.document import from_plain
from filemem.memory.ingest import Item
from filemem.record import TYPES, Record, parse_time

_USUAL = Record._field_defaults


def read(source: Path) -> Iterator[Item]:
    """The records of a file."""
    for number, row in enumerate(lines(source), 1):
        try:
            record = from_plain(_read(row))
        except (TypeError, ValueError, KeyError, AttributeError):
            raise BadInput(f"{source}: record {number} is not as filemem export writes it", field="source") from None
        stated = {name: getattr(record, name) for name in ("topic", "topic_stated", "supersedes")}
        kept = {"extra": record.extra, "superseded_by": record.superseded_by}
        yield item_of(record, record.id, kept=True, more={**stated, **kept})


def _read(row: Row) -> Mapping[str, Any]:
    """The fields of a record. Raises ValueError and the like where a value is not what its field holds."""
    said = {name: value for name, value in row.items() if name in _USUAL or name in ("id", "type")}
    created = parse_time(said.pop("created", ""))
    logged = [(parse_time(one["at"]) or 0, one["outcome"], one["reason"]) for one in said.pop("outcomes", ())]
    if said["type"] not in TYPES or not all(_fits(_USUAL.get(name, ""), value) for name, value in said.items()):
        raise ValueError
    if not all(isinstance(part, str) for one in logged for part in one[1:]):
        raise ValueError
    return {**said, "created": created, "outcomes": logged}


def _fits(usual: object, value: object) -> bool:
    if isinstance(value, list):
        return (isinstance(usual, tuple) or usual is None) and all(isinstance(one, str) for one in value)
    if isinstance(value, dict):
        return isinstance(usual, Mapping) or usual == ""
    return isinstance(value, type(usual)) if usual is not None else isinstance(value, (int, float))
