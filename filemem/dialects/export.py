"""Records as other programs read them: lines of JSON with every field, a text, or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

from filemem.dialects.present import everything
from filemem.index.document import to_plain
from filemem.record import DECISION, Record, format_time

FORMS = ("jsonl", "markdown", "csv")
_DERIVED = ("mentions", "id_stated")  # from the text, and the path
_COLUMNS = ["id", "type", "created", "topic", "title", "text"]
_COLUMNS += ["status", "outcome", "confidence", "tags", "agent", "path"]


def exported(records: Iterable[Record], form: str, at: int) -> str:
    """Write records, in one of FORMS. `filemem import filemem` reads the lines of JSON.

    Args:
        records: in the order in which they are written.
        form: one of FORMS.
        at: when, epoch milliseconds.
    """
    if form == "jsonl":
        return "".join(f"{json.dumps(_line(record), ensure_ascii=False)}\n" for record in records)
    if form == "csv":
        return table(_COLUMNS, map(_row, records))
    return document("Records", records, at)


def _row(record: Record) -> Mapping[str, object]:
    return {**record._asdict(), "text": everything(record), "created": _when(record.created)}


def _line(record: Record) -> Mapping[str, object]:
    fields = {name: value for name, value in to_plain(record).items() if name not in _DERIVED}
    fields["created"] = _when(record.created) or None
    if record.outcomes:
        fields["outcomes"] = [
            {**outcome._asdict(), "at": format_time(outcome.at)} for outcome in record.outcomes
        ]
    return {name: value for name, value in fields.items() if value is not None}


def _when(at: int | None) -> str:
    return "" if at is None else format_time(at)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table as CSV; no cell is a formula."""
    into = io.StringIO()
    writer = csv.writer(into)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in columns])
    return into.getvalue()


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    if isinstance(value, tuple):
        text = ", ".join(map(str, value))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def document(title: str, records: Iterable[Record], at: int) -> str:
    """Records as one text to read."""
    return f"# {title}, exported {format_time(at)}\n\n" + "\n".join(map(_text, records))


def _text(record: Record) -> str:
    outcome = f", outcome {record.outcome}" if record.type == DECISION else ""
    about = f"{record.type}, created {_when(record.created)}{outcome}, id {record.id}"
    return f"## {record.topic or record.title}\n\n{about}\n\n{everything(record)}\n"
