"""Records as other programs read them: lines of JSON with every field, a text, or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

from filemem.dialects.present import render_record
from filemem.index.document import to_plain
from filemem.record import DECISION, Record, format_time

FORMS = ("jsonl", "markdown", "csv")
_DERIVED_FIELDS = ("mentions", "id_stated")  # from the text, and the path
_COLUMNS = ["id", "type", "created", "topic", "title", "text"]
_COLUMNS += ["status", "outcome", "confidence", "tags", "agent", "path"]


def render_records(records: Iterable[Record], form: str, exported_at: int) -> str:
    """Write records, in one of FORMS. `filemem import filemem` reads the lines of JSON.

    Args:
        records: in the order in which they are written.
        form: one of FORMS.
        at: when, epoch milliseconds.
    """
    if form == "jsonl":
        return "".join(
            f"{json.dumps(_build_line(record), ensure_ascii=False)}\n" for record in records
        )
    if form == "csv":
        return render_table(_COLUMNS, map(_build_row, records))
    return render_document("Records", records, exported_at)


def _build_row(record: Record) -> Mapping[str, object]:
    return {
        **record._asdict(),
        "text": render_record(record),
        "created": _format_created(record.created),
    }


def _build_line(record: Record) -> Mapping[str, object]:
    fields = {
        name: value for name, value in to_plain(record).items() if name not in _DERIVED_FIELDS
    }
    fields["created"] = _format_created(record.created) or None
    if record.outcomes:
        fields["outcomes"] = [
            {**outcome._asdict(), "at": format_time(outcome.at)} for outcome in record.outcomes
        ]
    return {name: value for name, value in fields.items() if value is not None}


def _format_created(created: int | None) -> str:
    return "" if created is None else format_time(created)


def render_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table as CSV; no cell is a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_format_cell(row.get(name)) for name in columns])
    return buffer.getvalue()


def _format_cell(value: object) -> str:
    text = "" if value is None else str(value)
    if isinstance(value, tuple):
        text = ", ".join(map(str, value))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def render_document(title: str, records: Iterable[Record], exported_at: int) -> str:
    """Records as one text to read."""
    return f"# {title}, exported {format_time(exported_at)}\n\n" + "\n".join(
        map(_render_record, records)
    )


def _render_record(record: Record) -> str:
    outcome = f", outcome {record.outcome}" if record.type == DECISION else ""
    head = f"{record.type}, created {_format_created(record.created)}{outcome}, id {record.id}"
    return f"## {record.topic or record.title}\n\n{head}\n\n{render_record(record)}\n"
