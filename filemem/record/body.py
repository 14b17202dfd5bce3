"""The Markdown below the header: heading, text, known sections and the log of outcomes.

A section begins at a line `## Name` outside fenced blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from filemem.record.lines import (
    HEADING,
    REPLACES_LINE,
    Lines,
    Range,
    escape_fence,
    find_code_lines,
    join_lines,
    normalize_text,
    unescape_fence,
    unescape_line,
)
from filemem.record.model import CHECKPOINT, DECISION, IN_HEADER, OBSERVATION, Edge, Outcome
from filemem.record.model import OUTCOMES as OUTCOME_WORDS
from filemem.record.times import format_time, parse_time

DECISION_SECTION = "Decision"
NEXT_STEPS = "Next steps"
FACTS = "Facts"
REJECTED = "Rejected"
OUTCOMES = "Outcomes"
SECTIONS: Mapping[str, frozenset[str]] = {
    DECISION: frozenset(name.casefold() for name in (DECISION_SECTION, REJECTED, OUTCOMES)),
    CHECKPOINT: frozenset((NEXT_STEPS.casefold(),)),
    OBSERVATION: frozenset((FACTS.casefold(),)),
}

_ITEM = re.compile(r" ?(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$")
_INDENT = re.compile(r"\A[ \t]{1,2}")
_BLANK_LINES = re.compile(r"\n[^\S\n]+(?=\n)")
# Section names that open records of other makers: such a heading is no title.
_SECTION_NAMES = {
    "abstract",
    "background",
    "context",
    "considerations",
    "decision",
    "description",
    "motivation",
    "overview",
    "problem",
    "rationale",
    "references",
    "status",
    "summary",
}


class Title(NamedTuple):
    """The heading: its text and its line."""

    text: str
    line: int


class Outline(NamedTuple):
    """The parts of a body, by lines; names of sections are case folded."""

    title: Title | None
    text_start: int  # the first line of the text below the heading
    text_ranges: tuple[Range, ...]  # in order
    sections: Mapping[str, Sequence[Range]]  # ranges of the known sections, without headings
    code_lines: frozenset[int]  # lines in fenced blocks
    other_sections: Mapping[str, Range]  # of an unknown name, the first section

    def get_ranges(self, name: str) -> Sequence[Range]:
        """Return the ranges of a known section; () if it is missing."""
        return self.sections.get(name.casefold(), ())


class _Heading(NamedTuple):
    """A heading; level 0 marks the start of text that no section heading opens."""

    line: int
    level: int
    name: str


def parse_outline(
    lines: Lines, section_names: frozenset[str], *, stated_title: str = "", has_links: bool = False
) -> Outline:
    """Find the heading, the text and the sections of a body.

    Args:
        lines: The lines of the body.
        section_names: Names of the known sections, case folded.
        stated_title: The title in the header; a heading that differs from it is text.
        has_links: Whether the line below the heading may link to the replaced records. Such a line
            is not text.
    """
    code_lines = find_code_lines(lines)
    headings = _list_headings(lines, code_lines)
    title = _find_title(lines, headings, section_names)
    if title and stated_title and title.text != stated_title:
        title = None
    text_start = _find_text_start(lines, title, code_lines, has_links=has_links)
    text_ranges: list[Range] = []
    sections: dict[str, list[Range]] = {}
    other_sections: dict[str, Range] = {}
    borders = _iter_borders(headings, title, text_start, len(lines))
    for heading, next_heading in pairwise(borders):
        name = heading.name.casefold()
        content = Range(heading.line + 1, next_heading.line)
        if heading.level == 2 and name in section_names:
            sections.setdefault(name, []).append(content)
            continue
        if name:
            other_sections.setdefault(name, content)
        if heading.level == 0:
            _add_text_range(text_ranges, content)
        else:
            with_heading = Range(heading.line, next_heading.line)
            _add_text_range(text_ranges, with_heading)
    return Outline(
        title=title,
        text_start=text_start,
        text_ranges=tuple(text_ranges),
        sections=sections,
        code_lines=code_lines,
        other_sections=other_sections,
    )


def _find_text_start(
    lines: Lines, title: Title | None, code_lines: frozenset[int], *, has_links: bool
) -> int:
    """Return the line below the heading, or below the links to the replaced records."""
    if title is None:
        return 0
    start = title.line + 1
    if not has_links:
        return start
    for number in range(start, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if number not in code_lines and REPLACES_LINE.fullmatch(line):
            return number + 1
        return start
    return start


def _list_headings(lines: Lines, code_lines: frozenset[int]) -> list[_Heading]:
    headings = []
    for number, line in enumerate(lines):
        if not line.startswith("#") or number in code_lines:
            continue
        match = HEADING.match(line)
        if match:
            level = len(match[1])
            name = line[match.end() :].strip()
            headings.append(_Heading(number, level, name))
    return headings


def _iter_borders(
    headings: Sequence[_Heading], title: Title | None, text_start: int, end: int
) -> Iterator[_Heading]:
    """Yield where each part of a body begins: top, title, text, sections; then the end."""
    yield _Heading(line=-1, level=0, name="")
    for heading in headings:
        if title and heading.line == title.line:
            yield _Heading(line=heading.line, level=0, name="")
            yield _Heading(line=text_start - 1, level=0, name="")
        elif heading.level <= 2:
            yield heading
    yield _Heading(line=end, level=0, name="")


def _add_text_range(text_ranges: list[Range], new_range: Range) -> None:
    """Add a range of text; join it with the last one if they touch."""
    if text_ranges and text_ranges[-1].stop == new_range.start:
        text_ranges[-1] = Range(text_ranges[-1].start, new_range.stop)
    elif new_range.stop > new_range.start:
        text_ranges.append(new_range)


def _find_title(
    lines: Lines, headings: Sequence[_Heading], section_names: frozenset[str]
) -> Title | None:
    """Return the first `# ...`, else a lower heading that opens the body and names no section."""
    for heading in headings:
        if heading.level == 1 and heading.name:
            return Title(heading.name, heading.line)
    if not headings:
        return None
    first = headings[0]
    has_text_above = any(line.strip() for line in lines[: first.line])
    if has_text_above or _is_section_name(first.name, section_names):
        return None
    return Title(first.name, first.line)


def _is_section_name(heading: str, section_names: frozenset[str]) -> bool:
    """Whether a heading is empty or names a section, such as `Context: why`."""
    name = heading.casefold()
    first_word = name.partition(" ")[0].rstrip(":")
    if not first_word:
        return True
    return any(word in _SECTION_NAMES or word in section_names for word in (first_word, name))


# -- reading and writing parts --------------------------------------------------------------------


def parse_text(lines: Lines, ranges: Iterable[Range], code_lines: frozenset[int]) -> str:
    """Return the unescaped text of some ranges, a blank line between two."""
    parts = []
    for start, stop in ranges:
        part_lines = []
        for number in range(start, stop):
            line = lines[number]
            if "\\" in line and number not in code_lines:
                line = unescape_line(line)
            part_lines.append(line)
        part = normalize_text("\n".join(part_lines))
        if part:
            parts.append(part)
    return "\n\n".join(parts)


class TextLine(NamedTuple):
    """A line of a text as read, and its line in the body; -1 if the body has no such line."""

    text: str
    position: int


def list_text_lines(lines: Lines, outline: Outline) -> list[TextLine]:
    """Return the lines of the text as read, a blank one after each range."""
    text_lines: list[TextLine] = []
    for part in outline.text_ranges:
        text = parse_text(lines, [part], outline.code_lines)
        if not text:
            continue
        position = part.start
        while not lines[position].strip():
            position += 1
        for line in text.split("\n"):
            text_lines.append(TextLine(line, position))
            position += 1
        has_blank_line = position < part.stop and not lines[position].strip()
        text_lines.append(TextLine("", position if has_blank_line else -1))
    return text_lines


class _Row(NamedTuple):
    """An unescaped line, and the text of the list item that it begins; None if it begins none."""

    line: str
    item: str | None


def parse_items(
    lines: Lines, ranges: Iterable[Range], code_lines: frozenset[int]
) -> tuple[str, ...]:
    """Return the list items in these ranges; a paragraph between them counts as an item too."""
    items: list[list[str]] = []  # each as its lines
    for section in ranges:
        is_after_blank = True
        for line, item in _iter_rows(lines, section, code_lines):
            is_blank = not line.strip()
            is_paragraph = is_after_blank and not is_blank and not line[0].isspace()
            if item is not None:
                items.append([item])
            elif items and not is_paragraph:
                items[-1].append(_INDENT.sub("", line))
            elif not is_blank:
                items.append([line.strip()])
            is_after_blank = is_blank
    return normalize_items("\n".join(item) for item in items)


def _iter_rows(lines: Lines, section: Range, code_lines: frozenset[int]) -> Iterator[_Row]:
    for number in range(section.start, section.stop):
        if number in code_lines:
            yield _Row(lines[number], None)
            continue
        line = unescape_fence(lines[number])
        match = _ITEM.match(line)
        if match:
            yield _Row(line, match[1] or "")
        else:
            yield _Row(line, None)


def normalize_items(items: Iterable[str]) -> tuple[str, ...]:
    """Return list items as they are stored: trimmed, empty lines without blanks, none empty."""
    normalized = []
    for item in items:
        text = normalize_text(item).strip()
        if text:
            normalized.append(_BLANK_LINES.sub("\n", text))
    return tuple(normalized)


def format_items(items: Iterable[str]) -> str:
    """Return items as a Markdown list, their further lines indented."""
    rows = []
    for item in normalize_items(items):
        prefix = "- "
        for line in item.split("\n"):
            row = prefix + escape_fence(line)
            rows.append(row if line else "")
            prefix = "  "
    return "\n".join(rows)


# -- the log of outcomes --------------------------------------------------------------------------

_ENTRY = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?"
    r"\**(\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}[^\s]{0,20})?)\**[ \t]*[:,]?[ \t]*"
    r"\**([A-Za-z]{2,20})\**(?![\w-])[ \t]*(?::[ \t]*|$)?(.*)$"
)
_BULLET = re.compile(r"[ \t]{0,1}[-*+][ \t]")
_OUTCOME_BY_WORD = {
    **{word: word for word in OUTCOME_WORDS},
    "failure": "failed",
    "fail": "failed",
    "succeeded": "success",
    "successful": "success",
    "partially": "partial",
    "open": "pending",
}


def parse_outcome(word: str) -> str | None:
    """Return the outcome that a word means (`FAILURE`, `succeeded`, ...), or None."""
    folded_word = word.strip().casefold()
    return _OUTCOME_BY_WORD.get(folded_word)


def normalize_outcomes(log: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return a log as it is stored: oldest first, reasons on one line, equal entries once."""
    return sort_outcomes(entry._replace(reason=join_lines(entry.reason)) for entry in log)


def sort_outcomes(entries: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return entries oldest first, each once.

    Entries with equal times keep their order. If the log is not sorted by time, after a union merge
    of two branches, their text decides instead, so that both directions of the merge are equal.
    """
    distinct = list(dict.fromkeys(entries))
    is_sorted = all(earlier.at <= later.at for earlier, later in pairwise(distinct))
    if not is_sorted:
        distinct.sort()
    return tuple(distinct)


def format_outcome(entry: Outcome, bullet: str = "-") -> str:
    """Return the log line of an entry."""
    time = format_time(entry.at, short=True)
    line = f"{bullet} {time} {entry.outcome}"
    reason = join_lines(entry.reason)
    if not reason:
        return line
    return f"{line}: {reason}"


class OutcomeLog(NamedTuple):
    """The entries of a log, oldest first, and the numbers of the lines that are not entries."""

    entries: tuple[Outcome, ...] = ()
    unread_lines: tuple[int, ...] = ()


def parse_outcomes(lines: Lines, ranges: Iterable[Range]) -> OutcomeLog:
    """Read the log in these ranges; a line without a bullet continues the entry above it."""
    entries: list[Outcome] = []
    reasons: list[list[str]] = []  # of each entry, in lines
    unread_lines: list[int] = []
    for start, stop in ranges:
        can_continue = False
        for number in range(start, stop):
            line = lines[number]
            entry = _parse_entry(line)
            if entry is not None:
                entries.append(entry)
                reasons.append([entry.reason])
                can_continue = True
            elif can_continue and line.strip() and not _BULLET.match(line):
                reasons[-1].append(line.strip())
            else:
                can_continue = False
                if line.strip():
                    unread_lines.append(number)
    for index, reason_lines in enumerate(reasons):
        reason = " ".join(reason_lines).strip()
        entries[index] = entries[index]._replace(reason=reason)
    return OutcomeLog(sort_outcomes(entries), tuple(unread_lines))


def _parse_entry(line: str) -> Outcome | None:
    match = _ENTRY.match(line)
    if match is None:
        return None
    time = parse_time(match[1].replace(" ", "T"))
    outcome = parse_outcome(match[2])
    if time is None or outcome is None:
        return None
    return Outcome(time, outcome, reason=match[3].strip())


# -- edges in prose -------------------------------------------------------------------------------

_EDGE_ID = r"(?:decision_[a-z0-9_]{1,200}|file_[0-9a-hjkmnp-tv-z]{16})(?![a-z0-9_])"
_KIND = r"(?<![\w-])(builds_on|debates|synthesizes)(?:\*\*)?[ \t]{0,8}:(?:\*\*)?[ \t]{0,8}"
_EDGE_STATEMENT = (
    rf"{_KIND}\[?[ \t]{{0,8}}"
    rf"((?:`?{_EDGE_ID}`?)(?:[ \t]{{0,8}},[ \t]{{0,8}}`?{_EDGE_ID}`?){{0,50}})"
)
_MAX_REASON = 200


def parse_edges(text: str) -> tuple[Edge, ...]:
    """Return the edges that a text states, each once; the reason is the line that states it."""
    if "decision_" not in text and "file_" not in text:
        return ()
    edges: dict[tuple[str, str], Edge] = {}
    for line in text.split("\n"):
        for match in re.finditer(_EDGE_STATEMENT, line, re.IGNORECASE):
            kind = match[1].lower()
            reason_start = max(0, match.end() - _MAX_REASON)
            reason = line[reason_start : reason_start + _MAX_REASON].strip()
            for target in re.findall(_EDGE_ID, match[2]):
                edge = Edge(kind, target, reason)
                edges.setdefault((kind, target), edge)
    return tuple(edges.values())


_LEADING_EDGES = rf"(?:[ \t*-]{{0,4}}{_EDGE_STATEMENT}[`\]*]{{0,3}}[ \t.,;:\u2013\u2014-]{{0,8}})+"


def strip_edges(text: str) -> str:
    """Return a text without the edges at the start of its lines."""
    if text == IN_HEADER:
        return ""
    return re.sub(rf"^{_LEADING_EDGES}", "", text, flags=re.IGNORECASE | re.MULTILINE)


_NAMED_EDGES = rf"{_KIND}(.{{1,500}}?)(?=$|[;()]|[.!?](?:\s|$)| [-\u2013\u2014] )"


class NamedEdge(NamedTuple):
    """An edge as a text states it: its kind, and the name of the other record."""

    kind: str
    name: str


def parse_named_edges(text: str) -> tuple[NamedEdge, ...]:
    """Return the records that a text names after `builds_on:` and the like, by id or otherwise.

    Commas separate names; the list ends with the sentence or the line.
    """
    edges: dict[NamedEdge, None] = {}
    for match in re.finditer(_NAMED_EDGES, text, re.IGNORECASE | re.MULTILINE):
        kind = match[1].lower()
        for part in match[2].split(","):
            name = part.strip(" \t`'\"[]*")
            if name:
                edges[NamedEdge(kind, name)] = None
    return tuple(edges)
