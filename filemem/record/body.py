"""The Markdown below the header: heading, sections with a meaning, log of outcomes, other text.

Only lines count: a section opens at `## Name` at the start of a line outside a fenced block.
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
    """The heading: its text, and the line it stands on."""

    text: str
    line: int


class Outline(NamedTuple):
    """Where the parts of a body stand; names of sections are case folded."""

    title: Title | None
    text_start: int  # the line where text below the heading begins
    text_ranges: tuple[Range, ...]  # the ranges that are text, in order
    sections: Mapping[str, Sequence[Range]]  # with a meaning -> its ranges, without headings
    code_lines: frozenset[int]  # lines in fenced blocks
    other_sections: Mapping[str, Range]  # unknown section -> range of the first of that name

    def get_ranges(self, name: str) -> Sequence[Range]:
        """Return where the sections of a name with a meaning stand."""
        return self.sections.get(name.casefold(), ())


class _Heading(NamedTuple):
    """A heading of a section. Level 0 is that of the title, and of what stands above it."""

    line: int
    level: int
    name: str


def parse_outline(
    lines: Lines, section_names: frozenset[str], *, stated_title: str = "", has_links: bool = False
) -> Outline:
    """Find the heading, the text, and the sections with these names, which are case folded.

    A heading that differs from a `stated` title is text. `linked`: the line below the heading may
    link to what the record replaces; it is no text.
    """
    code_lines = find_code_lines(lines)
    headings = _list_headings(lines, code_lines)
    title = _find_title(lines, headings, section_names)
    if title and stated_title and title.text != stated_title:
        title = None
    text_ranges: list[Range] = []
    sections: dict[str, list[Range]] = {}
    other_sections: dict[str, Range] = {}
    text_start = _find_text_start(lines, title, code_lines, has_links=has_links)
    for heading, next_heading in pairwise(_iter_borders(headings, title, text_start, len(lines))):
        name = heading.name.casefold()
        content = Range(heading.line + 1, next_heading.line)
        if heading.level == 2 and name in section_names:
            sections.setdefault(name, []).append(content)
            continue
        if name:
            other_sections.setdefault(name, content)
        _add_text_range(
            text_ranges, content if heading.level == 0 else Range(heading.line, next_heading.line)
        )
    return Outline(title, text_start, tuple(text_ranges), sections, code_lines, other_sections)


def _find_text_start(
    lines: Lines, title: Title | None, code_lines: frozenset[int], *, has_links: bool
) -> int:
    """Return the line below the heading, and below the links to what a record replaces."""
    if title is None:
        return 0
    start = title.line + 1
    first_line = next((n for n in range(start, len(lines)) if lines[n].strip()), start)
    if not has_links or first_line == len(lines) or first_line in code_lines:
        return start
    return first_line + 1 if REPLACES_LINE.fullmatch(lines[first_line]) else start


def _list_headings(lines: Lines, code_lines: frozenset[int]) -> list[_Heading]:
    headings = []
    for number, line in enumerate(lines):
        match = HEADING.match(line) if line.startswith("#") else None
        if match and number not in code_lines:
            headings.append(_Heading(number, len(match[1]), line[match.end() :].strip()))
    return headings


def _iter_borders(
    headings: Sequence[_Heading], title: Title | None, text_start: int, end: int
) -> Iterator[_Heading]:
    """Yield where the parts of a body begin: the top, the title, sections; then its end."""
    yield _Heading(-1, 0, "")
    for heading in headings:
        if title and heading.line == title.line:
            yield _Heading(heading.line, 0, "")
            yield _Heading(text_start - 1, 0, "")
        elif heading.level <= 2:
            yield heading
    yield _Heading(end, 0, "")


def _add_text_range(text_ranges: list[Range], new_range: Range) -> None:
    """Add a part to the text; it goes on with one that ends where it begins."""
    if text_ranges and text_ranges[-1].stop == new_range.start:
        text_ranges[-1] = Range(text_ranges[-1].start, new_range.stop)
    elif new_range.stop > new_range.start:
        text_ranges.append(new_range)


def _find_title(
    lines: Lines, headings: Sequence[_Heading], section_names: frozenset[str]
) -> Title | None:
    """The first `# ...`, else a lower heading that opens the text and names no usual section."""
    for heading in headings:
        if heading.level == 1 and heading.name:
            return Title(heading.name, heading.line)
    if not headings:
        return None
    number, _, text = headings[0]
    name = text.casefold()
    first_word = name.partition(" ")[0].rstrip(":")
    is_usual = not {first_word, name}.isdisjoint(_SECTION_NAMES | section_names)
    is_first = not any(map(str.strip, lines[:number]))
    return Title(text, number) if first_word and is_first and not is_usual else None


# -- reading and writing parts --------------------------------------------------------------------


def parse_text(lines: Lines, ranges: Iterable[Range], code_lines: frozenset[int]) -> str:
    """Return the text of these ranges, a blank line between them, escapes undone."""
    parts = []
    for start, stop in ranges:
        part = [
            unescape_line(line) if "\\" in line and number not in code_lines else line
            for number, line in enumerate(lines[start:stop], start)
        ]
        parts.append(normalize_text("\n".join(part)))
    return "\n\n".join(filter(None, parts))


class TextLine(NamedTuple):
    """A line of a text as it is read, and the line of the body; -1 if that has none."""

    text: str
    position: int


def list_text_lines(lines: Lines, outline: Outline) -> list[TextLine]:
    """Return the text as it is read, with a blank line behind each part."""
    text_lines: list[TextLine] = []
    for part in outline.text_ranges:
        part_text = parse_text(lines, [part], outline.code_lines)
        if not part_text:
            continue
        start = next(number for number in range(*part) if lines[number].strip())
        text_lines += [
            TextLine(line, place) for place, line in enumerate(part_text.split("\n"), start)
        ]
        next_position = text_lines[-1].position + 1
        is_blank = next_position < part.stop and not lines[next_position].strip()
        text_lines.append(TextLine("", next_position if is_blank else -1))
    return text_lines


class _Row(NamedTuple):
    """A line, its escapes undone, and the text of the item that it begins."""

    line: str
    item: str | None


def parse_items(
    lines: Lines, ranges: Iterable[Range], code_lines: frozenset[int]
) -> tuple[str, ...]:
    """Return the items of the lists in these ranges; a paragraph between them is an item too."""
    items: list[list[str]] = []
    for section in ranges:
        is_after_blank = True
        for line, item in _iter_rows(lines, section, code_lines):
            is_blank = not line.strip()
            is_start = not is_blank and (not items or (is_after_blank and not line[0].isspace()))
            if item is not None:
                items.append([item])
            elif is_start:
                items.append([line.strip()])
            elif items:
                items[-1].append(_INDENT.sub("", line))
            is_after_blank = is_blank
    return normalize_items("\n".join(item) for item in items)


def _iter_rows(lines: Lines, section: Range, code_lines: frozenset[int]) -> Iterator[_Row]:
    for number in range(*section):
        if number in code_lines:
            yield _Row(lines[number], None)
            continue
        line = unescape_fence(lines[number])
        item = _ITEM.match(line)
        yield _Row(line, (item[1] or "") if item else None)


def normalize_items(items: Iterable[str]) -> tuple[str, ...]:
    """Return list items as they are kept: trimmed, no blanks on empty lines, none empty."""
    normalized = (_BLANK_LINES.sub("\n", normalize_text(item).strip()) for item in items)
    return tuple(filter(None, normalized))


def format_items(items: Iterable[str]) -> str:
    """Return a Markdown list; further lines of an item are indented."""
    blocks = []
    for item in normalize_items(items):
        first, *further_lines = (escape_fence(line) for line in item.split("\n"))
        blocks.append(
            "\n".join((f"- {first}", *(f"  {line}" if line else "" for line in further_lines)))
        )
    return "\n".join(blocks)


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
    return _OUTCOME_BY_WORD.get(word.strip().casefold())


def normalize_outcomes(log: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return a log as it is kept: oldest first, reasons on one line, equal entries once."""
    return sort_outcomes(
        [Outcome(entry.at, entry.outcome, join_lines(entry.reason)) for entry in log]
    )


def sort_outcomes(entries: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return entries oldest first, each once.

    Of equal times the lower line is newer, unless the lines are out of order (a union merge of two
    branches): then the text decides, so that both directions of a merge read the same.
    """
    distinct = list(dict.fromkeys(entries))
    if any(later.at < earlier.at for earlier, later in pairwise(distinct)):
        distinct.sort()
    return tuple(distinct)


def format_outcome(entry: Outcome, bullet: str = "-") -> str:
    """Return the log line of an entry."""
    line = f"{bullet} {format_time(entry.at, short=True)} {entry.outcome}"
    reason = join_lines(entry.reason)
    return f"{line}: {reason}" if reason else line


class OutcomeLog(NamedTuple):
    """The entries of a log, oldest first, and the numbers of the lines that are none."""

    entries: tuple[Outcome, ...] = ()
    unread_lines: tuple[int, ...] = ()


def parse_outcomes(lines: Lines, ranges: Iterable[Range]) -> OutcomeLog:
    """Read the log in these ranges; a line without a bullet goes on with the entry above it."""
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
    joined_reasons = (" ".join(reason).strip() for reason in reasons)
    log = (entry._replace(reason=why) for entry, why in zip(entries, joined_reasons, strict=True))
    return OutcomeLog(sort_outcomes(log), tuple(unread_lines))


def _parse_entry(line: str) -> Outcome | None:
    match = _ENTRY.match(line)
    if match is None:
        return None
    time = parse_time(match[1].replace(" ", "T"))
    outcome = parse_outcome(match[2])
    return None if time is None or outcome is None else Outcome(time, outcome, match[3].strip())


# -- edges in prose -------------------------------------------------------------------------------

_EDGE_ID = r"(?:decision_[a-z0-9_]{1,200}|file_[0-9a-hjkmnp-tv-z]{16})(?![a-z0-9_])"
_KIND = r"(?<![\w-])(builds_on|debates|synthesizes)(?:\*\*)?[ \t]{0,8}:(?:\*\*)?[ \t]{0,8}"
_EDGE_STATEMENT = (
    rf"{_KIND}\[?[ \t]{{0,8}}"
    rf"((?:`?{_EDGE_ID}`?)(?:[ \t]{{0,8}},[ \t]{{0,8}}`?{_EDGE_ID}`?){{0,50}})"
)
_MAX_REASON = 200


def parse_edges(text: str) -> tuple[Edge, ...]:
    """Return the edges that a text states, each once; the line that states it is the reason."""
    edges: dict[tuple[str, str], Edge] = {}
    if "decision_" not in text and "file_" not in text:
        return ()
    for line in text.split("\n"):
        for match in re.finditer(_EDGE_STATEMENT, line, re.IGNORECASE):
            kind = match[1].lower()
            reason = line[max(0, match.end() - _MAX_REASON) :][:_MAX_REASON].strip()
            for target in re.findall(_EDGE_ID, match[2]):
                edges.setdefault((kind, target), Edge(kind, target, reason))
    return tuple(edges.values())


_LEADING_EDGES = rf"(?:[ \t*-]{{0,4}}{_EDGE_STATEMENT}[`\]*]{{0,3}}[ \t.,;:\u2013\u2014-]{{0,8}})+"


def strip_edges(text: str) -> str:
    """Return what a text says besides the edges that its lines begin with."""
    if text == IN_HEADER:
        return ""
    return re.sub(rf"^{_LEADING_EDGES}", "", text, flags=re.IGNORECASE | re.MULTILINE)


_NAMED_EDGES = rf"{_KIND}(.{{1,500}}?)(?=$|[;()]|[.!?](?:\s|$)| [-\u2013\u2014] )"


class NamedEdge(NamedTuple):
    """An edge as a text states it: its kind, and what the other record is called."""

    kind: str
    name: str


def parse_named_edges(text: str) -> tuple[NamedEdge, ...]:
    """Return what a text names after `builds_on:` and the like, by ids or in other words.

    Names are separated by commas; the list ends with the sentence or the line.
    """
    edges = (
        NamedEdge(match[1].lower(), name.strip(" \t`'\"[]*"))
        for match in re.finditer(_NAMED_EDGES, text, re.IGNORECASE | re.MULTILINE)
        for name in match[2].split(",")
    )
    return tuple(dict.fromkeys(edge for edge in edges if edge.name))
