"""Records as other programs read them: lines of JSON with every field, a text, or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

from filemem.dialects.present import everything
from filemem.index.document import to_plain
from filemem.record import DECISION, Outcome, Record, format_time

FORMS = ("jsonl", "markdown", "csv")
_DERIVED = ("mentions", "id_stated")  # from the text, and the path
_COLUMNS = ["id", "type", "created", "topic", "title", "text"]
_COLUMNS += ["status", "outcome", "confidence", "tags", "agent", "path"]


def exported(records: Iterable[Record], form: str, at: int) -> str:
    """Records, in one of FORMS; `at`: when, epoch milliseconds. `filemem import filemem` reads the lines of JSON."""
    if form == "jsonl":
        return "".join(f"{json.dumps(_line(one), ensure_ascii=False)}\n" for one in records)
    if form == "csv":
        rows = (
            {**one._asdict(), "text": everything(one), "created": _when(one.created)}
            for one in records
        )
        return table(_COLUMNS, rows)
    return document("Records", records, at)


def _line(record: Record) -> Mapping[str, object]:
    said = {name: value for name, value in to_plain(record).items() if name not in _DERIVED}
    said["created"] = _when(record.created) or None
    if record.outcomes:
        said["outcomes"] = [
            {**one._asdict(), "at": format_time(one.at)}
            for one in map(Outcome._make, record.outcomes)
        ]
    return {name: value for name, value in said.items() if value is not None}


def _when(at: int | None) -> str:
    return "" if at is None else format_time(at)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table as CSV; no cell is a formula."""
    into = io.StringIO()
    writer = csv.writer(into)
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return into.getvalue()


def _cell(value: object) -> str:
    text = (
        ""
        if value is None
        else ", ".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def document(title: str, records: Iterable[Record], at: int) -> str:
    """Records as one text to read."""
    return f"# {title}, exported {format_time(at)}\n\n" + "\n".join(map(_text, records))


def _text(record: Record) -> str:
    came = f", outcome {record.outcome}" if record.type == DECISION else ""
    told = f"{record.type}, created {_when(record.created)}{came}, id {record.id}"
    return f"## {record.topic or record.title}\n\n{told}\n\n{everything(record)}\n"
