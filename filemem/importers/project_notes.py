"""What teams keep in a project: a file of decisions, memory banks, Serena's notes, beads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from filemem.errors import BadInput
from filemem.importers.notes import item_of
from filemem.importers.source import Row, documents, lines, read_text
from filemem.importers.values import items, line, moment, sections, text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, OBSERVATION, parse
from filemem.record.lines import fenced
from filemem.record.times import first_date
from filemem.tuples import NamedTuple

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
_STATE = "activecontext.md"  # where the work stands
_KINDS = {"bug": "bugfix", "feature": "feature", "epic": "feature"}
_REMOVED = "tombstone"


class Entry(NamedTuple):
    """One decision of a log: its heading as written, and the lines below it."""

    heading: str
    body: tuple[str, ...]


def read_decision_log(source: Path) -> Iterator[Item]:
    """The decisions of a file with one heading each, such as `DECISIONS.md`. Raises BadInput."""
    entries = _entries(read_text(source).split("\n"))
    if not entries:
        raise BadInput(
            f"{source} has no heading for each decision",
            "such a file has lines like `## ADR-001: Use PostgreSQL`",
            field="source",
        )
    yield from _decisions(entries, source.name)


def read_memory_bank(source: Path) -> Iterator[Item]:
    """The files of a `memory-bank` folder: decisions, where the work stands, and notes."""
    for path, data in documents(source):
        name = path.relative_to(source).as_posix()
        content = data.decode("utf-8", "replace").replace("\r\n", "\n")
        if path.name.lower() == _DECISION_LOG:
            yield from _decisions(_entries(content.split("\n")), name)
        elif path.name.lower() == _STATE:
            yield Item(name, CHECKPOINT, _time_of(path), {"summary": content.strip()})
        else:
            yield from _note(path, name, data, "context")


def read_serena(source: Path) -> Iterator[Item]:
    """The notes of Serena, `.serena/memories`."""
    for path, data in documents(source):
        yield from _note(path, path.relative_to(source).as_posix(), data, "memory")


def read_beads(source: Path) -> Iterator[Item]:
    """The issues of beads, each an observation; deleted ones are passed over."""
    for row in lines(source):
        if text(row.get("id")) and text(row.get("status")) != _REMOVED:
            yield _issue(row)


def _issue(row: Row) -> Item:
    state = " ".join(
        filter(None, (text(row.get("status")) or "open", text(row.get("close_reason"))))
    )
    body = sections(
        ("", row.get("description")),
        ("Design", row.get("design")),
        ("Acceptance criteria", row.get("acceptance_criteria")),
        ("Notes", row.get("notes")),
        ("Status", state),
    )
    fields = {
        "title": line(row.get("title")) or text(row["id"]),
        "text": body,
        "kind": _KINDS.get(text(row.get("issue_type")), "change"),
        "concepts": items(row.get("labels")),
    }
    return Item(text(row["id"]), OBSERVATION, moment(row.get("created_at")), fields)


def _note(path: Path, name: str, data: bytes, kind: str) -> Iterator[Item]:
    record = parse(data, f"observations/{path.name}").record
    if record is not None:
        dated = record if record.created else record._replace(created=_time_of(path))
        yield item_of(dated._replace(type=OBSERVATION), name, more={"kind": kind})


def _time_of(path: Path) -> int:
    return int(path.stat().st_mtime * 1000)


def _entries(rows: Sequence[str]) -> list[Entry]:
    """Split a log at the highest level of heading below the title that names decisions."""
    headings = _headings(rows)
    if not headings:
        return []
    level = min(depth for _, depth, _ in headings)
    starts = [(at, name) for at, depth, name in headings if depth == level and not _is_part(name)]
    if not starts:
        return []
    ends = [at for at, _ in starts[1:]] + [len(rows)]
    return [
        Entry(name, tuple(rows[at + 1 : end])) for (at, name), end in zip(starts, ends, strict=True)
    ]


def _headings(rows: Sequence[str]) -> list[tuple[int, int, str]]:
    """Line, depth and text of each heading outside code."""
    code = fenced(rows)
    matches = ((at, _HEADING.match(row)) for at, row in enumerate(rows) if at not in code)
    return [(at, len(match[1]), match[2]) for at, match in matches if match]


def _is_part(name: str) -> bool:
    return name.strip(" *_:").casefold() in _PARTS


def _decisions(entries: Sequence[Entry], source: str) -> Iterator[Item]:
    """Items of a log; entries of one title are told apart by their order among these."""
    seen: Counter[str] = Counter()
    for entry in entries:
        title = _title(entry)
        if not title:
            continue
        seen[title] += 1
        markdown = f"# {title}\n\n" + "\n".join(entry.body).strip() + "\n"
        record = parse(markdown.encode(), "decisions/entry.md").record
        if record is not None:
            created = record.created or _day(entry)
            again = f" ({seen[title]})" if seen[title] > 1 else ""
            key = f"{source}#{title}{again}"
            yield item_of(record._replace(type=DECISION, created=created), key, more={})


def _title(entry: Entry) -> str:
    """The heading without number and date; a heading `Decision` is titled by its first point."""
    title = _BEFORE_TITLE.sub("", entry.heading, count=1).strip(" *_:")
    if title:
        return line(title)
    points = (match[1] for row in entry.body if (match := _BULLET.match(row)))
    first = next(points, "")
    return line(_BEFORE_TITLE.sub("", first, count=1).strip(" *_:"))


def _day(entry: Entry) -> int | None:
    rows = (entry.heading, *entry.body[:3])
    days = (first_date(row.replace("[", " ").replace("]", " ")) for row in rows)
    return next((day for day in days if day is not None), None)
