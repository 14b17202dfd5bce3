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
    REPLACES,
    Lines,
    Range,
    escape_fence,
    fenced,
    one_line,
    tidy,
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
_NO_TITLE = {
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
    home: int  # the line where text below the heading begins
    text: tuple[Range, ...]  # the ranges that are text, in order
    sections: Mapping[str, Sequence[Range]]  # with a meaning -> its ranges, without headings
    code: frozenset[int]  # lines in fenced blocks
    other: Mapping[str, Range]  # unknown section -> range of the first of that name

    def ranges(self, name: str) -> Sequence[Range]:
        """Return where the sections of a name with a meaning stand."""
        return self.sections.get(name.casefold(), ())


class _Heading(NamedTuple):
    """A heading of a section. Level 0 is that of the title, and of what stands above it."""

    line: int
    level: int
    name: str


def outline(
    lines: Lines, names: frozenset[str], *, stated: str = "", linked: bool = False
) -> Outline:
    """Find the heading, the text, and the sections with these names, which are case folded.

    A heading that differs from a `stated` title is text. `linked`: the line below the heading may
    link to what the record replaces; it is no text.
    """
    code = fenced(lines)
    headings = _headings(lines, code)
    title = _title(lines, headings, names)
    if title and stated and title.text != stated:
        title = None
    text: list[Range] = []
    sections: dict[str, list[Range]] = {}
    other: dict[str, Range] = {}
    home = _home(lines, title, code, linked=linked)
    for heading, following in pairwise(_borders(headings, title, home, len(lines))):
        name = heading.name.casefold()
        content = Range(heading.line + 1, following.line)
        if heading.level == 2 and name in names:
            sections.setdefault(name, []).append(content)
            continue
        if name:
            other.setdefault(name, content)
        _add_text(text, content if heading.level == 0 else Range(heading.line, following.line))
    return Outline(title, home, tuple(text), sections, code, other)


def _home(lines: Lines, title: Title | None, code: frozenset[int], *, linked: bool) -> int:
    """Return the line below the heading, and below the links to what a record replaces."""
    if title is None:
        return 0
    home = title.line + 1
    first = next((n for n in range(home, len(lines)) if lines[n].strip()), home)
    if not linked or first == len(lines) or first in code:
        return home
    return first + 1 if REPLACES.fullmatch(lines[first]) else home


def _headings(lines: Lines, code: frozenset[int]) -> list[_Heading]:
    headings = []
    for number, line in enumerate(lines):
        match = HEADING.match(line) if line.startswith("#") else None
        if match and number not in code:
            headings.append(_Heading(number, len(match[1]), line[match.end() :].strip()))
    return headings


def _borders(
    headings: Sequence[_Heading], title: Title | None, home: int, end: int
) -> Iterator[_Heading]:
    """Yield where the parts of a body begin: the top, the title, sections; then its end."""
    yield _Heading(-1, 0, "")
    for heading in headings:
        if title and heading.line == title.line:
            yield _Heading(heading.line, 0, "")
            yield _Heading(home - 1, 0, "")
        elif heading.level <= 2:
            yield heading
    yield _Heading(end, 0, "")


def _add_text(text: list[Range], part: Range) -> None:
    """Add a part to the text; it goes on with one that ends where it begins."""
    if text and text[-1].stop == part.start:
        text[-1] = Range(text[-1].start, part.stop)
    elif part.stop > part.start:
        text.append(part)


def _title(lines: Lines, headings: Sequence[_Heading], names: frozenset[str]) -> Title | None:
    """The first `# ...`, else a lower heading that opens the text and names no usual section."""
    for heading in headings:
        if heading.level == 1 and heading.name:
            return Title(heading.name, heading.line)
    if not headings:
        return None
    number, _, text = headings[0]
    name = text.casefold()
    first_word = name.partition(" ")[0].rstrip(":")
    is_usual = not {first_word, name}.isdisjoint(_NO_TITLE | names)
    opens = not any(map(str.strip, lines[:number]))
    return Title(text, number) if first_word and opens and not is_usual else None


# -- reading and writing parts --------------------------------------------------------------------


def read_text(lines: Lines, ranges: Iterable[Range], code: frozenset[int]) -> str:
    """Return the text of these ranges, a blank line between them, escapes undone."""
    parts = []
    for start, stop in ranges:
        part = [
            unescape_line(line) if "\\" in line and number not in code else line
            for number, line in enumerate(lines[start:stop], start)
        ]
        parts.append(tidy("\n".join(part)))
    return "\n\n".join(filter(None, parts))


class TextLine(NamedTuple):
    """A line of a text as it is read, and the line of the body; -1 if that has none."""

    text: str
    place: int


def text_lines(lines: Lines, parts: Outline) -> list[TextLine]:
    """Return the text as it is read, with a blank line behind each part."""
    text: list[TextLine] = []
    for part in parts.text:
        read = read_text(lines, [part], parts.code)
        if not read:
            continue
        first = next(number for number in range(*part) if lines[number].strip())
        text += [TextLine(line, place) for place, line in enumerate(read.split("\n"), first)]
        after = text[-1].place + 1
        is_blank = after < part.stop and not lines[after].strip()
        text.append(TextLine("", after if is_blank else -1))
    return text


class _Row(NamedTuple):
    """A line, its escapes undone, and the text of the item that it begins."""

    line: str
    item: str | None


def read_items(lines: Lines, ranges: Iterable[Range], code: frozenset[int]) -> tuple[str, ...]:
    """Return the items of the lists in these ranges; a paragraph between them is an item too."""
    items: list[list[str]] = []
    for section in ranges:
        after_blank = True
        for line, item in _rows(lines, section, code):
            is_blank = not line.strip()
            begins = not is_blank and (not items or (after_blank and not line[0].isspace()))
            if item is not None:
                items.append([item])
            elif begins:
                items.append([line.strip()])
            elif items:
                items[-1].append(_INDENT.sub("", line))
            after_blank = is_blank
    return tidy_items("\n".join(item) for item in items)


def _rows(lines: Lines, section: Range, code: frozenset[int]) -> Iterator[_Row]:
    for number in range(*section):
        if number in code:
            yield _Row(lines[number], None)
            continue
        line = unescape_fence(lines[number])
        item = _ITEM.match(line)
        yield _Row(line, (item[1] or "") if item else None)


def tidy_items(items: Iterable[str]) -> tuple[str, ...]:
    """Return list items as they are kept: trimmed, no blanks on empty lines, none empty."""
    trimmed = (_BLANK_LINES.sub("\n", tidy(item).strip()) for item in items)
    return tuple(filter(None, trimmed))


def write_items(items: Iterable[str]) -> str:
    """Return a Markdown list; further lines of an item are indented."""
    written = []
    for item in tidy_items(items):
        first, *rest = (escape_fence(line) for line in item.split("\n"))
        written.append("\n".join((f"- {first}", *(f"  {line}" if line else "" for line in rest))))
    return "\n".join(written)


# -- the log of outcomes --------------------------------------------------------------------------

_ENTRY = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?"
    r"\**(\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}[^\s]{0,20})?)\**[ \t]*[:,]?[ \t]*"
    r"\**([A-Za-z]{2,20})\**(?![\w-])[ \t]*(?::[ \t]*|$)?(.*)$"
)
_BULLET = re.compile(r"[ \t]{0,1}[-*+][ \t]")
_WORDS = {
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
    return _WORDS.get(word.strip().casefold())


def tidy_outcomes(log: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return a log as it is kept: oldest first, reasons on one line, equal entries once."""
    return in_order([Outcome(entry.at, entry.outcome, one_line(entry.reason)) for entry in log])


def in_order(entries: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return entries oldest first, each once.

    Of equal times the lower line is newer, unless the lines are out of order (a union merge of two
    branches): then the text decides, so that both directions of a merge read the same.
    """
    distinct = list(dict.fromkeys(entries))
    if any(later.at < earlier.at for earlier, later in pairwise(distinct)):
        distinct.sort()
    return tuple(distinct)


def write_outcome(entry: Outcome, bullet: str = "-") -> str:
    """Return the log line of an entry."""
    line = f"{bullet} {format_time(entry.at, short=True)} {entry.outcome}"
    reason = one_line(entry.reason)
    return f"{line}: {reason}" if reason else line


class Log(NamedTuple):
    """The entries of a log, oldest first, and the numbers of the lines that are none."""

    entries: tuple[Outcome, ...] = ()
    unread: tuple[int, ...] = ()


def read_outcomes(lines: Lines, ranges: Iterable[Range]) -> Log:
    """Read the log in these ranges; a line without a bullet goes on with the entry above it."""
    entries: list[Outcome] = []
    reasons: list[list[str]] = []  # of each entry, in lines
    unread: list[int] = []
    for start, stop in ranges:
        joins = False
        for number in range(start, stop):
            line = lines[number]
            entry = _entry(line)
            if entry is not None:
                entries.append(entry)
                reasons.append([entry.reason])
                joins = True
            elif joins and line.strip() and not _BULLET.match(line):
                reasons[-1].append(line.strip())
            else:
                joins = False
                if line.strip():
                    unread.append(number)
    whole = (" ".join(reason).strip() for reason in reasons)
    log = (entry._replace(reason=why) for entry, why in zip(entries, whole, strict=True))
    return Log(in_order(log), tuple(unread))


def _entry(line: str) -> Outcome | None:
    match = _ENTRY.match(line)
    if match is None:
        return None
    at = parse_time(match[1].replace(" ", "T"))
    outcome = parse_outcome(match[2])
    return None if at is None or outcome is None else Outcome(at, outcome, match[3].strip())


# -- edges in prose -------------------------------------------------------------------------------

_EDGE_ID = r"(?:decision_[a-z0-9_]{1,200}|file_[0-9a-hjkmnp-tv-z]{16})(?![a-z0-9_])"
_KIND = r"(?<![\w-])(builds_on|debates|synthesizes)(?:\*\*)?[ \t]{0,8}:(?:\*\*)?[ \t]{0,8}"
_STATED = (
    rf"{_KIND}\[?[ \t]{{0,8}}"
    rf"((?:`?{_EDGE_ID}`?)(?:[ \t]{{0,8}},[ \t]{{0,8}}`?{_EDGE_ID}`?){{0,50}})"
)
_QUOTE = 200


def edges_in(text: str) -> tuple[Edge, ...]:
    """Return the edges that a text states, each once; the line that states it is the reason."""
    edges: dict[tuple[str, str], Edge] = {}
    if "decision_" not in text and "file_" not in text:
        return ()
    for line in text.split("\n"):
        for match in re.finditer(_STATED, line, re.IGNORECASE):
            kind = match[1].lower()
            reason = line[max(0, match.end() - _QUOTE) :][:_QUOTE].strip()
            for target in re.findall(_EDGE_ID, match[2]):
                edges.setdefault((kind, target), Edge(kind, target, reason))
    return tuple(edges.values())


_LEADING = rf"(?:[ \t*-]{{0,4}}{_STATED}[`\]*]{{0,3}}[ \t.,;:\u2013\u2014-]{{0,8}})+"


def without_edges(text: str) -> str:
    """Return what a text says besides the edges that its lines begin with."""
    if text == IN_HEADER:
        return ""
    return re.sub(rf"^{_LEADING}", "", text, flags=re.IGNORECASE | re.MULTILINE)


_LISTED = rf"{_KIND}(.{{1,500}}?)(?=$|[;()]|[.!?](?:\s|$)| [-\u2013\u2014] )"


class NamedEdge(NamedTuple):
    """An edge as a text states it: its kind, and what the other record is called."""

    kind: str
    name: str


def references_said(text: str) -> tuple[NamedEdge, ...]:
    """Return what a text names after `builds_on:` and the like, by ids or in other words.

    Names are separated by commas; the list ends with the sentence or the line.
    """
    edges = (
        NamedEdge(match[1].lower(), name.strip(" \t`'\"[]*"))
        for match in re.finditer(_LISTED, text, re.IGNORECASE | re.MULTILINE)
        for name in match[2].split(",")
    )
    return tuple(dict.fromkeys(edge for edge in edges if edge.name))
