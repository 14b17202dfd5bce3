"""The Markdown below the header: the heading, the sections with a meaning, the log of outcomes, and all other text.

Only lines count: a section opens at `## Name` at the start of a line outside a fenced block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from filemem.record.lines import (
    HEADING,
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

DECISION_SECTION, NEXT_STEPS, FACTS, REJECTED, OUTCOMES = (
    "Decision",
    "Next steps",
    "Facts",
    "Rejected",
    "Outcomes",
)
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
    """Where the parts of a body stand."""

    title: Title | None  # the heading, or None
    text: tuple[Range, ...]  # the ranges that are text, in order
    known: Mapping[
        str, Sequence[Range]
    ]  # section name, case folded -> its ranges, without the heading lines
    code: frozenset[int]  # lines in fenced blocks
    other: Mapping[
        str, Range
    ]  # unknown sections, name case folded -> range of the first of that name


def outline(lines: Lines, known: frozenset[str], *, stated: str = "") -> Outline:
    """Find the heading, the sections that `known` names, case folded, and the text; a `stated` title is the heading."""
    code = fenced(lines)
    headings = [
        (number, len(match[1]), line[match.end() :].strip())
        for number, line in enumerate(lines)
        if line.startswith("#") and number not in code and (match := HEADING.match(line))
    ]
    title = _title(lines, headings, known)
    if title and stated and title.text != stated:
        title = None
    marks = {number: (name.casefold(), level) for number, level, name in headings if level <= 2}
    if title:
        marks[title.line] = ("", 0)
    text: list[Range] = []
    sections: dict[str, list[Range]] = {}
    other: dict[str, Range] = {}
    start, owner, other_start = 0, "", 0
    last_other = ""
    for number, (name, level) in [*sorted(marks.items()), (len(lines), ("", 0))]:
        if last_other:
            other.setdefault(last_other, (other_start, number))
        if owner:
            sections.setdefault(owner, []).append((start, number))
        elif text and text[-1][1] == start:
            text[-1] = text[-1][0], number
        elif number > start:
            text.append((start, number))
        owner = name if level == 2 and name in known else ""
        start = number + 1 if owner or not level else number
        last_other, other_start = "" if owner else name, number + 1
    return Outline(title, tuple(text), sections, code, other)


def _title(
    lines: Lines, headings: list[tuple[int, int, str]], known: frozenset[str]
) -> Title | None:
    """The first `# ...`, else a lower heading that opens the text and names no usual section."""
    for number, level, text in headings:
        if level == 1 and text:
            return Title(text, number)
    number, _, text = headings[0] if headings else (0, 0, "")
    first = text.casefold().partition(" ")[0].rstrip(":")
    usual = {first, text.casefold()} & (_NO_TITLE | known)
    return (
        Title(text, number)
        if first and not usual and not any(map(str.strip, lines[:number]))
        else None
    )


# -- reading and writing parts ------------------------------------------------------------------------------


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


def read_items(lines: Lines, ranges: Iterable[Range], code: frozenset[int]) -> tuple[str, ...]:
    """Return the items of the lists in these ranges; a paragraph between them is an item too."""
    items: list[list[str]] = []
    for start, stop in ranges:
        apart = True
        for number in range(start, stop):
            line = lines[number] if number in code else unescape_fence(lines[number])
            match = _ITEM.match(line) if number not in code else None
            if match or (line[:1].strip() and apart) or not (items or not line.strip()):
                items.append([match[1] or "" if match else line.strip()])
            elif items:
                items[-1].append(_INDENT.sub("", line))
            apart = not line.strip()
    return tidy_items("\n".join(item) for item in items)


def tidy_items(items: Iterable[str]) -> tuple[str, ...]:
    """Return list items as they are kept: trimmed, no blanks on empty lines, none empty."""
    return tuple(kept for item in items if (kept := _BLANK_LINES.sub("\n", tidy(item).strip())))


def write_items(items: Iterable[str]) -> str:
    """Return a Markdown list; further lines of an item are indented."""
    written = []
    for item in tidy_items(items):
        first, *rest = (escape_fence(line) for line in item.split("\n"))
        written.append("\n".join((f"- {first}", *(f"  {line}" if line else "" for line in rest))))
    return "\n".join(written)


# -- the log of outcomes -------------------------------------------------------------------------------------

_ENTRY = (
    r"[ \t]*(?:[-*+][ \t]+)?\**(\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}[^\s]{0,20})?)\**[ \t]*[:,]?[ \t]*"
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


def in_order(entries: list[Outcome]) -> tuple[Outcome, ...]:
    """Return entries oldest first. Of equal times the lower line is newer, unless the lines are out of order
    (a union merge of two branches): then the text decides, so that both directions of a merge read the same."""
    entries = list(dict.fromkeys(entries))
    if any(later.at < earlier.at for earlier, later in pairwise(entries)):
        entries.sort()
    return tuple(entries)


def write_outcome(entry: Outcome, bullet: str = "-") -> str:
    """Return the log line of an entry."""
    line = f"{bullet} {format_time(entry.at, short=True)} {entry.outcome}"
    return f"{line}: {reason}" if (reason := one_line(entry.reason)) else line


def read_outcomes(
    lines: Lines, ranges: Iterable[Range]
) -> tuple[tuple[Outcome, ...], tuple[int, ...]]:
    """Return the entries in these ranges, oldest first, and the numbers of the lines that are none."""
    found: list[tuple[Outcome, list[str]]] = []
    unread: list[int] = []
    for start, stop in ranges:
        joins = False
        for number in range(start, stop):
            line = lines[number]
            if not line.strip():
                joins = False
            elif (match := re.match(_ENTRY, line)) and (entry := _entry(match)):
                found.append((entry, [entry.reason]))
                joins = True
            elif joins and not _BULLET.match(line):
                found[-1][1].append(line.strip())
            else:
                unread.append(number)
                joins = False
    entries = [Outcome(entry.at, entry.outcome, " ".join(parts).strip()) for entry, parts in found]
    return in_order(entries), tuple(unread)


def _entry(match: re.Match[str]) -> Outcome | None:
    at, outcome = parse_time(match[1].replace(" ", "T")), parse_outcome(match[2])
    return None if at is None or outcome is None else Outcome(at, outcome, match[3].strip())


# -- edges in prose ------------------------------------------------------------------------------------------

_EDGE_ID = r"(?:decision_[a-z0-9_]{1,200}|file_[0-9a-hjkmnp-tv-z]{16})(?![a-z0-9_])"
_KIND = r"(?<![\w-])(builds_on|debates|synthesizes)(?:\*\*)?[ \t]{0,8}:(?:\*\*)?[ \t]{0,8}"
_STATED = (
    rf"{_KIND}\[?[ \t]{{0,8}}"
    rf"((?:`?{_EDGE_ID}`?)(?:[ \t]{{0,8}},[ \t]{{0,8}}`?{_EDGE_ID}`?){{0,50}})"
)
_QUOTE = 200


def edges_in(text: str) -> tuple[Edge, ...]:
    """Return the edges that `text` states, each once, with the line that states it as the reason."""
    found: dict[tuple[str, str], Edge] = {}
    for line in text.split("\n") if "decision_" in text or "file_" in text else ():
        for match in re.finditer(_STATED, line, re.IGNORECASE):
            reason = line[max(0, match.end() - _QUOTE) :][:_QUOTE].strip()
            for target in re.findall(_EDGE_ID, match[2]):
                found.setdefault((match[1].lower(), target), Edge(match[1].lower(), target, reason))
    return tuple(found.values())


_LEADING = rf"(?:[ \t*-]{{0,4}}{_STATED}[`\]*]{{0,3}}[ \t.,;:\u2013\u2014-]{{0,8}})+"


def without_edges(text: str) -> str:
    """Return what a text says besides the edges that its lines begin with."""
    if text == IN_HEADER:
        return ""
    return re.sub(rf"^{_LEADING}", "", text, flags=re.IGNORECASE | re.MULTILINE)


_LISTED = rf"{_KIND}(.{{1,500}}?)(?=$|[;()]|[.!?](?:\s|$)| [-\u2013\u2014] )"


def references_said(text: str) -> tuple[tuple[str, str], ...]:
    """Return what a text names after `builds_on:` and the like, by ids or in other words: pairs of kind and name.

    Names are separated by commas; the list ends with the sentence or the line.
    """
    pairs = (
        (match[1].lower(), name.strip(" \t`'\"[]*"))
        for match in re.finditer(_LISTED, text, re.IGNORECASE | re.MULTILINE)
        for name in match[2].split(",")
    )
    return tuple(dict.fromkeys(pair for pair in pairs if pair[1]))
