"""Import notes of a project: a file of decisions, memory banks, Serena's notes, beads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.importers.notes import build_item, read_mtime
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
    """Read the decisions of a file with one heading each, such as `DECISIONS.md`.

    Raises BadInput.
    """
    entries = _split_entries(read_text(source).split("\n"))
    if not entries:
        raise BadInput(
            f"{source} has no heading for each decision",
            "such a file has lines like `## ADR-001: Use PostgreSQL`",
            field="source",
        )
    yield from _iter_decision_items(entries, source.name)


def read_memory_bank(source: Path) -> Iterator[Item]:
    """Read the files of a `memory-bank` folder: decisions, where the work stands, and notes."""
    for path, data in iter_documents(source):
        name = path.relative_to(source).as_posix()
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        if path.name.lower() == _DECISION_LOG:
            entries = _split_entries(text.split("\n"))
            yield from _iter_decision_items(entries, name)
        elif path.name.lower() == _STATE_FILE:
            yield Item(name, CHECKPOINT, read_mtime(path), {"summary": text.strip()})
        else:
            yield from _iter_note_items(path, name, data, kind="context")


def read_serena(source: Path) -> Iterator[Item]:
    """Read the notes of Serena, `.serena/memories`."""
    for path, data in iter_documents(source):
        name = path.relative_to(source).as_posix()
        yield from _iter_note_items(path, name, data, kind="memory")


def read_beads(source: Path) -> Iterator[Item]:
    """Read the issues of beads as observations, without deleted ones."""
    for row in iter_json_lines(source):
        is_deleted = to_text(row.get("status")) == _REMOVED_STATUS
        if to_text(row.get("id")) and not is_deleted:
            yield _build_issue_item(row)


def _build_issue_item(row: Row) -> Item:
    state = to_text(row.get("status")) or "open"
    close_reason = to_text(row.get("close_reason"))
    if close_reason:
        state += f" {close_reason}"
    body = render_sections(
        ("", row.get("description")),
        ("Design", row.get("design")),
        ("Acceptance criteria", row.get("acceptance_criteria")),
        ("Notes", row.get("notes")),
        ("Status", state),
    )
    issue_id = to_text(row["id"])
    fields = {
        "title": to_line(row.get("title")) or issue_id,
        "text": body,
        "kind": _KINDS.get(to_text(row.get("issue_type")), "change"),
        "concepts": to_items(row.get("labels")),
    }
    return Item(issue_id, OBSERVATION, to_milliseconds(row.get("created_at")), fields)


def _iter_note_items(path: Path, name: str, data: bytes, kind: str) -> Iterator[Item]:
    """Yield the item of a note, if its file can be read."""
    record = parse_record(data, f"observations/{path.name}").record
    if record is None:
        return
    created = record.created or read_mtime(path)
    observation = record._replace(type=OBSERVATION, created=created)
    yield build_item(observation, name, extra_fields={"kind": kind})


class _Heading(NamedTuple):
    """A heading of a file."""

    line: int  # its index
    level: int
    text: str


def _split_entries(rows: Sequence[str]) -> list[Entry]:
    """Split a log at the highest level of heading below the title that names decisions."""
    headings = _list_headings(rows)
    if not headings:
        return []
    top_level = min(heading.level for heading in headings)
    top_headings = [heading for heading in headings if heading.level == top_level]
    entry_headings = [heading for heading in top_headings if not _is_part_heading(heading.text)]
    entries = []
    end = len(rows)
    for heading in reversed(entry_headings):
        body = tuple(rows[heading.line + 1 : end])
        entries.append(Entry(heading.text, body))
        end = heading.line
    entries.reverse()
    return entries


def _list_headings(rows: Sequence[str]) -> list[_Heading]:
    """List the headings outside code."""
    code_lines = find_code_lines(rows)
    headings = []
    for index, row in enumerate(rows):
        if index in code_lines:
            continue
        match = _HEADING.match(row)
        if match:
            headings.append(_Heading(line=index, level=len(match[1]), text=match[2]))
    return headings


def _is_part_heading(name: str) -> bool:
    return name.strip(" *_:").casefold() in _PARTS


def _iter_decision_items(entries: Sequence[Entry], source: str) -> Iterator[Item]:
    """Yield the items of a log; equal titles get numbers."""
    title_counts: Counter[str] = Counter()
    for entry in entries:
        title = _parse_title(entry)
        if not title:
            continue
        title_counts[title] += 1
        body = "\n".join(entry.body).strip()
        markdown = f"# {title}\n\n{body}\n"
        record = parse_record(markdown.encode(), "decisions/entry.md").record
        if record is None:
            continue
        item_id = f"{source}#{title}"
        if title_counts[title] > 1:
            item_id += f" ({title_counts[title]})"
        created = record.created or _find_day(entry)
        decision = record._replace(type=DECISION, created=created)
        yield build_item(decision, item_id, extra_fields={})


def _parse_title(entry: Entry) -> str:
    """Parse the heading without number and date; if nothing is left, the first bullet point."""
    title = _strip_title(entry.heading)
    if title:
        return to_line(title)
    for row in entry.body:
        match = _BULLET.match(row)
        if match:
            return to_line(_strip_title(match[1]))
    return ""


def _strip_title(text: str) -> str:
    """Remove number, date and markup from a title."""
    return _BEFORE_TITLE.sub("", text, count=1).strip(" *_:")


def _find_day(entry: Entry) -> int | None:
    """Find a date in the heading or the first lines; None if there is none."""
    for row in (entry.heading, *entry.body[:3]):
        day = find_first_date(row.replace("[", " ").replace("]", " "))
        if day is not None:
            return day
    return None
