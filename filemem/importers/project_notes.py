"""What teams keep in a project: a file of decisions, memory banks, Serena's notes, beads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.importers.notes import build_item
from filemem.importers.source import Row, iter_documents, iter_json_lines, read_text
from filemem.importers.values import render_sections, to_items, to_line, to_milliseconds, to_text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, OBSERVATION, parse_record
from filemem.record.lines import find_code_lines
from filemem.record.times import find_first_date

_HEADING = re.compile(r"(#{2,4})[ \t]+(.*\S)")
_BULLET = re.compile(r"[ \t]*[*+-][ \t]+(.*\S)")
_DAY = r"\d{4}-\d\d-\d\d(?:[ T][\d:.]+Z?)?"
_WORD = r"decision(?=\s*(?:[:.#\d]|[-–—]\s|$))|adr(?=\W*\d)"
_BEFORE_TITLE = re.compile(rf"(?i)\W*(?:(?:{_WORD}|{_DAY})\W*|\d+(?:[.):]+\s+|\s*[-–—]\s+))*")
# Headings that are parts of a decision, or of the page, in logs of this kind.
_PARTS = frozenset(
    (
        "rationale",
        "reasoning",
        "context",
        "implementation details",
        "implementation",
        "implications",
        "consequences",
        "alternatives",
        "alternatives considered",
        "options considered",
        "status",
        "date",
        "impact",
        "update log",
        "notes",
        "table of contents",
        "index",
    )
)
_DECISION_LOG = "decisionlog.md"
_STATE_FILE = "activecontext.md"  # where the work stands
_KINDS = {"bug": "bugfix", "feature": "feature", "epic": "feature"}
_REMOVED_STATUS = "tombstone"


class Entry(NamedTuple):
    """One decision of a log: its heading as written, and the lines below it."""

    heading: str
    body: tuple[str, ...]


def read_decision_log(source: Path) -> Iterator[Item]:
    """The decisions of a file with one heading each, such as `DECISIONS.md`. Raises BadInput."""
    entries = _split_entries(read_text(source).split("\n"))
    if not entries:
        raise BadInput(
            f"{source} has no heading for each decision",
            "such a file has lines like `## ADR-001: Use PostgreSQL`",
            field="source",
        )
    yield from _iter_decision_items(entries, source.name)


def read_memory_bank(source: Path) -> Iterator[Item]:
    """The files of a `memory-bank` folder: decisions, where the work stands, and notes."""
    for path, data in iter_documents(source):
        name = path.relative_to(source).as_posix()
        content = data.decode("utf-8", "replace").replace("\r\n", "\n")
        if path.name.lower() == _DECISION_LOG:
            yield from _iter_decision_items(_split_entries(content.split("\n")), name)
        elif path.name.lower() == _STATE_FILE:
            yield Item(name, CHECKPOINT, _read_mtime(path), {"summary": content.strip()})
        else:
            yield from _iter_note_items(path, name, data, "context")


def read_serena(source: Path) -> Iterator[Item]:
    """The notes of Serena, `.serena/memories`."""
    for path, data in iter_documents(source):
        yield from _iter_note_items(path, path.relative_to(source).as_posix(), data, "memory")


def read_beads(source: Path) -> Iterator[Item]:
    """The issues of beads, each an observation; deleted ones are passed over."""
    for row in iter_json_lines(source):
        if to_text(row.get("id")) and to_text(row.get("status")) != _REMOVED_STATUS:
            yield _build_issue_item(row)


def _build_issue_item(row: Row) -> Item:
    state = " ".join(
        filter(None, (to_text(row.get("status")) or "open", to_text(row.get("close_reason"))))
    )
    body = render_sections(
        ("", row.get("description")),
        ("Design", row.get("design")),
        ("Acceptance criteria", row.get("acceptance_criteria")),
        ("Notes", row.get("notes")),
        ("Status", state),
    )
    fields = {
        "title": to_line(row.get("title")) or to_text(row["id"]),
        "text": body,
        "kind": _KINDS.get(to_text(row.get("issue_type")), "change"),
        "concepts": to_items(row.get("labels")),
    }
    return Item(to_text(row["id"]), OBSERVATION, to_milliseconds(row.get("created_at")), fields)


def _iter_note_items(path: Path, name: str, data: bytes, kind: str) -> Iterator[Item]:
    record = parse_record(data, f"observations/{path.name}").record
    if record is not None:
        dated_record = record if record.created else record._replace(created=_read_mtime(path))
        yield build_item(dated_record._replace(type=OBSERVATION), name, extra_fields={"kind": kind})


def _read_mtime(path: Path) -> int:
    return int(path.stat().st_mtime * 1000)


def _split_entries(rows: Sequence[str]) -> list[Entry]:
    """Split a log at the highest level of heading below the title that names decisions."""
    headings = _list_headings(rows)
    if not headings:
        return []
    level = min(depth for _, depth, _ in headings)
    starts = [
        (index, name)
        for index, depth, name in headings
        if depth == level and not _is_part_heading(name)
    ]
    if not starts:
        return []
    ends = [at for at, _ in starts[1:]] + [len(rows)]
    return [
        Entry(name, tuple(rows[at + 1 : end])) for (at, name), end in zip(starts, ends, strict=True)
    ]


def _list_headings(rows: Sequence[str]) -> list[tuple[int, int, str]]:
    """Line, depth and text of each heading outside code."""
    code = find_code_lines(rows)
    matches = ((index, _HEADING.match(row)) for index, row in enumerate(rows) if index not in code)
    return [(at, len(match[1]), match[2]) for at, match in matches if match]


def _is_part_heading(name: str) -> bool:
    return name.strip(" *_:").casefold() in _PARTS


def _iter_decision_items(entries: Sequence[Entry], source: str) -> Iterator[Item]:
    """Items of a log; entries of one title are told apart by their order among these."""
    title_counts: Counter[str] = Counter()
    for entry in entries:
        title = _parse_title(entry)
        if not title:
            continue
        title_counts[title] += 1
        markdown = f"# {title}\n\n" + "\n".join(entry.body).strip() + "\n"
        record = parse_record(markdown.encode(), "decisions/entry.md").record
        if record is not None:
            created = record.created or _find_day(entry)
            suffix = f" ({title_counts[title]})" if title_counts[title] > 1 else ""
            key = f"{source}#{title}{suffix}"
            yield build_item(record._replace(type=DECISION, created=created), key, extra_fields={})


def _parse_title(entry: Entry) -> str:
    """The heading without number and date; a heading `Decision` is titled by its first point."""
    title = _BEFORE_TITLE.sub("", entry.heading, count=1).strip(" *_:")
    if title:
        return to_line(title)
    points = (match[1] for row in entry.body if (match := _BULLET.match(row)))
    first_point = next(points, "")
    return to_line(_BEFORE_TITLE.sub("", first_point, count=1).strip(" *_:"))


def _find_day(entry: Entry) -> int | None:
    rows = (entry.heading, *entry.body[:3])
    days = (find_first_date(row.replace("[", " ").replace("]", " ")) for row in rows)
    return next((day for day in days if day is not None), None)
