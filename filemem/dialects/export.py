"""Export records as lines of JSON with every field, as a text, or as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

from filemem.dialects.present import render_record
from filemem.index.document import to_plain
from filemem.record import DECISION, Record, format_time

_DERIVED_FIELDS = ("mentions", "id_stated")  # from the text, and the path
_COLUMNS = ["id", "type", "created", "topic", "title", "text"]
_COLUMNS += ["status", "outcome", "confidence", "tags", "agent", "path"]


def render_records(records: Iterable[Record], form: str, exported_at: int) -> str:
    """Return records as a text in one form; `filemem import filemem` reads the lines of JSON.

    Args:
        records: in the order in which they are written.
        form: "jsonl", "markdown" or "csv".
        exported_at: epoch milliseconds.
    """
    if form == "jsonl":
        lines = [json.dumps(_build_line(record), ensure_ascii=False) for record in records]
        return "".join(f"{line}\n" for line in lines)
    if form == "csv":
        return render_table(_COLUMNS, [_build_row(record) for record in records])
    return render_document("Records", records, exported_at)


def _build_row(record: Record) -> Mapping[str, object]:
    row = record._asdict()
    row["text"] = render_record(record)
    row["created"] = _format_created(record.created)
    return row


def _build_line(record: Record) -> Mapping[str, object]:
    fields = to_plain(record)
    for name in _DERIVED_FIELDS:
        fields.pop(name, None)
    fields["created"] = _format_created(record.created) or None
    if record.outcomes:
        fields["outcomes"] = [
            {**outcome._asdict(), "at": format_time(outcome.at)} for outcome in record.outcomes
        ]
    return {name: value for name, value in fields.items() if value is not None}


def _format_created(created: int | None) -> str:
    return "" if created is None else format_time(created)


def render_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return a table as CSV; no cell is a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_format_cell(row.get(name)) for name in columns])
    return buffer.getvalue()


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, tuple):
        text = ", ".join(str(item) for item in value)
    if text.startswith(("=", "+", "-", "@", "\t", "\r")):  # a program would run it as a formula
        return f"'{text}"
    return text


def render_document(title: str, records: Iterable[Record], exported_at: int) -> str:
    """Return records as one text to read."""
    head = f"# {title}, exported {format_time(exported_at)}\n\n"
    return head + "\n".join(_render_record(record) for record in records)


def _render_record(record: Record) -> str:
    outcome = f", outcome {record.outcome}" if record.type == DECISION else ""
    head = f"{record.type}, created {_format_created(record.created)}{outcome}, id {record.id}"
    return f"## {record.topic or record.title}\n\n{head}\n\n{render_record(record)}\n"
