"""The Markdown below the header: the heading, the sections with a meaning, and all other text.

Only lines count: a section opens at `## Name` at the start of a line outside a fenced block.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from filemem.record.escapes import HEADING, escape_fence, unescape_fence, unescape_line
from filemem.record.lines import Lines, Range, fenced, tidy
from filemem.record.model import CHECKPOINT, DECISION, OBSERVATION

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
LISTS = frozenset(name.casefold() for name in (FACTS, REJECTED))  # sections whose items count, each by itself

_UNDERLINE = re.compile(r"=+[ \t]*$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$")
_BLANK_LINES = re.compile(r"\n[^\S\n]+(?=\n)")
# Section names that open records of other makers: such a heading is no title.
_NO_TITLE = {"abstract", "background", "context", "considerations", "decision", "description", "motivation"}
_NO_TITLE |= {"overview", "problem", "rationale", "references", "status", "summary"}


class Title(NamedTuple):
    """The heading: its text, the line it stands on, how many lines it takes, whether `#` marks it."""

    text: str
    line: int
    height: int = 1
    marked: bool = True


class Outline(NamedTuple):
    """Where the parts of a body stand.

    Args:
        title: the heading, or None.
        text: the ranges that are text, in order; a paragraph beside a list of alternatives or facts is text too.
        known: section name, case folded -> its ranges, without the heading lines.
        code: lines in fenced blocks.
        other: unknown sections, name case folded -> range of the first of that name.
    """

    title: Title | None
    text: tuple[Range, ...]
    known: Mapping[str, Sequence[Range]]
    code: frozenset[int]
    other: Mapping[str, Range]


def outline(lines: Lines, known: frozenset[str], *, stated: str = "", may_fence: bool = True) -> Outline:
    """Find the heading, the known sections and the text among `lines`.

    Args:
        lines: the body.
        known: names of sections with a meaning, case folded.
        stated: the title that the header states; another heading is then a part of the text.
        may_fence: False where no line can belong to a fenced block.
    """
    code = fenced(lines) if may_fence else frozenset()
    headings = [
        (number, len(match[1]), line[match.end() :].strip())
        for number, line in enumerate(lines)
        if line.startswith("#") and number not in code and (match := HEADING.match(line))
    ]
    title = _title(lines, headings, code, known)
    if title and stated and title.text != stated:
        title = None
    marks = {number: (1, name.casefold(), level) for number, level, name in headings if level <= 2}
    if title:
        marks[title.line] = (title.height, "", 0)
    text: list[Range] = []
    sections: dict[str, list[Range]] = {}
    other: dict[str, Range] = {}
    start, owner, other_start = 0, "", 0
    last_other = ""
    for number, (count, name, level) in [*sorted(marks.items()), (len(lines), (0, "", 0))]:
        if last_other:
            other.setdefault(last_other, (other_start, number))
        if owner:
            listed, beside = _split(lines, start, number, code) if owner in LISTS else ([(start, number)], [])
            sections.setdefault(owner, []).extend(listed)
            text += beside
        elif text and text[-1][1] == start:
            text[-1] = text[-1][0], number
        elif number > start:
            text.append((start, number))
        owner = name if level == 2 and name in known else ""
        start = number + count if owner or not level else number
        last_other, other_start = "" if owner else name, number + 1
    return Outline(title, tuple(text), sections, code, other)


def _split(lines: Lines, start: int, stop: int, code: frozenset[int]) -> tuple[list[Range], list[Range]]:
    """Part a section into its lists and the paragraphs beside them; without a list its paragraphs are the list."""
    starts: list[tuple[int, bool]] = []  # where a list or a paragraph begins
    listed, after_blank = False, True
    for number in range(start, stop):
        line = lines[number]
        if line.strip():
            item = number not in code and bool(_ITEM.match(line))
            ends_list = listed and after_blank and line[0] not in " \t"
            if not listed if item else ends_list or not starts:
                listed = item
                starts.append((number, listed))
        after_blank = not line.strip()
    if not any(listed for _, listed in starts):
        return [(start, stop)], []
    ends = [number for number, _ in starts[1:]] + [stop]
    parts = [((number, end), listed) for (number, listed), end in zip(starts, ends, strict=True)]
    return [part for part, listed in parts if listed], [part for part, listed in parts if not listed]


def _title(
    lines: Lines, headings: list[tuple[int, int, str]], code: frozenset[int], known: frozenset[str]
) -> Title | None:
    for number, level, text in headings:
        if level == 1 and text:
            return Title(text, number)
    opening = next((number for number, level, text in headings if level == 2 and text.casefold() in known), len(lines))
    for number, line in enumerate(lines[:opening]):  # below it, an underline is a line of the section's text
        if number == 0 or line[:1] != "=" or number in code or not _UNDERLINE.match(line):
            continue
        above = lines[number - 1].strip()
        if above and not above.startswith(("-", "*", ">", "#", "|")):
            return Title(above, number - 1, 2, marked=False)
    if headings:
        number, _, text = headings[0]
        first = text.casefold().partition(" ")[0].rstrip(":")
        if (
            first
            and not {first, text.casefold()} & (_NO_TITLE | known)
            and not any(line.strip() for line in lines[:number])
        ):
            return Title(text, number)
    return None


# -- reading and writing parts ------------------------------------------------------------------------------


def read_text(lines: Lines, ranges: Iterable[Range], code: frozenset[int]) -> str:
    """Return the text of these ranges, a blank line between them, escapes undone."""
    parts = []
    for start, stop in ranges:
        part = "\n".join(lines[start:stop])
        if "\\" in part:
            part = "\n".join(_plain(lines, number, code) for number in range(start, stop))
        part = tidy(part)
        if part:
            parts.append(part)
    return "\n\n".join(parts)


def _plain(lines: Lines, number: int, code: frozenset[int]) -> str:
    line = lines[number]
    return unescape_line(line) if "\\" in line and number not in code else line


def read_items(lines: Lines, ranges: Iterable[Range], code: frozenset[int]) -> tuple[str, ...]:
    """Return the items of the lists in these ranges; a paragraph between them is an item too."""
    items: list[list[str]] = []
    for start, stop in ranges:
        margin, after_blank = -1, True
        for number in range(start, stop):
            line = lines[number] if number in code else unescape_fence(lines[number])
            if not line.strip():
                after_blank = True
                if items:
                    items[-1].append("")
                continue
            match = _ITEM.match(line) if number not in code else None
            if match and (margin < 0 or len(match[1]) <= margin):
                margin = len(match[1])
                items.append([match[2] or ""])
            elif line[0] in " \t" and margin >= 0:
                items[-1].append(_dedent(line, margin + 2))
            elif after_blank or not items:
                margin = -1
                items.append([line.strip()])
            else:
                items[-1].append(line)
            after_blank = False
    return tidy_items("\n".join(item) for item in items)


def tidy_items(items: Iterable[str]) -> tuple[str, ...]:
    """Return list items as they are kept: trimmed, no blanks on empty lines, none empty."""
    return tuple(kept for item in items if (kept := _BLANK_LINES.sub("\n", tidy(item).strip())))


def _dedent(line: str, most: int) -> str:
    for width in range(most):
        if line[width : width + 1] not in (" ", "\t"):
            return line[width:]
    return line[most:]


def write_items(items: Iterable[str]) -> str:
    """Return a Markdown list; further lines of an item are indented."""
    written = []
    for item in items:
        first, *rest = (escape_fence(line) for line in item.split("\n"))
        written.append("\n".join((f"- {first}", *(f"  {line}" if line else "" for line in rest))))
    return "\n".join(written)
