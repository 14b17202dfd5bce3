"""What `filemem export` wrote as lines of JSON: records with every field, under their own ids."""

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
    """The records of a file. Raises BadInput: one is not as an export has it."""
    for number, row in enumerate(iter_json_lines(source), 1):
        try:
            record = _parse_record(row)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise BadInput(
                f"{source}: record {number} is not as filemem export writes it", field="source"
            ) from None
        stated_fields = {
            name: getattr(record, name)
            for name in ("topic", "topic_stated", "supersedes", "superseded_by")
        }
        yield build_item(
            record, record.id, keeps_id=True, extra_fields={**stated_fields, "extra": record.extra}
        )


def _parse_record(row: Row) -> Record:
    """The record of a line. Raises ValueError and the like: a field has a wrong value."""
    fields = {name: value for name, value in row.items() if name in Record._fields}
    fields["outcomes"] = [
        (parse_time(outcome["at"]) or 0, outcome["outcome"], outcome["reason"])
        for outcome in fields.get("outcomes", ())
    ]
    fields["created"] = parse_time(fields.get("created", ""))
    record = from_plain(fields)
    render_record(record)
    texts = (record.id, record.title, record.text)
    if record.type not in TYPES or not all(isinstance(text, str) for text in texts):
        raise ValueError
    return record
