"""Import the JSON Lines of `filemem export`: records with every field, which keep their ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from filemem.errors import BadInput
from filemem.importers.notes import build_item
from filemem.importers.source import Row, iter_json_lines
from filemem.index.document import from_plain
from filemem.memory.ingest import Item
from filemem.record import TYPES, Record, parse_time, render_record


def read(source: Path) -> Iterator[Item]:
    """Read the records of a file. Raises BadInput for a line that no export writes."""
    for number, row in enumerate(iter_json_lines(source), 1):
        try:
            record = _parse_record(row)
        except (TypeError, ValueError, KeyError, AttributeError):
            message = f"{source}: record {number} is not as filemem export writes it"
            raise BadInput(message, field="source") from None
        extra_fields = {
            "topic": record.topic,
            "topic_stated": record.topic_stated,
            "supersedes": record.supersedes,
            "superseded_by": record.superseded_by,
            "extra": record.extra,
        }
        yield build_item(record, record.id, keeps_id=True, extra_fields=extra_fields)


def _parse_record(row: Row) -> Record:
    """Parse the record of a line.

    Raises TypeError, ValueError, KeyError or AttributeError: a field has a wrong value.
    """
    fields = {name: row[name] for name in row if name in Record._fields}
    outcomes = []
    for outcome in fields.get("outcomes", ()):
        time = parse_time(outcome["at"]) or 0
        outcomes.append((time, outcome["outcome"], outcome["reason"]))
    fields["outcomes"] = outcomes
    fields["created"] = parse_time(fields.get("created", ""))
    record = from_plain(fields)
    render_record(record)  # raises for wrong types
    for text in (record.id, record.title, record.text):
        if not isinstance(text, str):
            raise TypeError
    if record.type not in TYPES:
        raise ValueError
    return record
