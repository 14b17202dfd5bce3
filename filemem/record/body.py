"""The Markdown below the header: the heading, the sections with a meaning, and all other text.

Only lines count: a section opens at `## Name` at the start of a line outside a fenced block. Text that callers
give is escaped with a backslash where it would open or close something, and the backslash is taken off on
reading; so what was given is what is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

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
HEADING_LIMIT = 100  # characters of a first line that become the heading

Lines = Sequence[str]
Range = tuple[int, int]  # first line, line after the last

_HEADING = re.compile(r"(#{1,6})(?=[ \t]|$)")
_PREFIX = r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+"
_FENCE = re.compile(rf"({_PREFIX})(`{{3,}}+|~{{3,}}+)(.*)")
_ESCAPED_LINE = re.compile(r"\\+(?=#{1,6}(?:[ \t]|$)|<{7}|>{7})")
_ESCAPED_FENCE = re.compile(rf"({_PREFIX})(\\+)(?=```|~~~)")
_UNDERLINE = re.compile(r"=+[ \t]*$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$")
_LEADING_BLANK = re.compile(r"\A(?:[^\S\n]*+\n)++")
_BLANK_LINES = re.compile(r"\n[^\S\n]+(?=\n)")
# Section names that open records of other makers: such a heading is no title.
_NO_TITLE = {"abstract", "background", "context", "considerations", "decision", "description", "motivation"}
_NO_TITLE |= {"overview", "problem", "rationale", "references", "status", "summary"}


def tidy(text: str) -> str:
    """Return text as it is kept: LF line ends, no blank first lines, no blank end, no NUL, no lone surrogate."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")  # as CommonMark asks
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _LEADING_BLANK.sub("", text.rstrip())


def one_line(text: str) -> str:
    """Return text as one line: line ends and the blanks around them become one space."""
    return " ".join(part for line in tidy(text).split("\n") if (part := line.strip()))


def heading(text: str) -> str:
    """Return the heading for a text that has none: its first line, up to 100 characters."""
    return tidy(text).partition("\n")[0].strip()[:HEADING_LIMIT].strip()


def fences(lines: Lines) -> list[Range]:
    """Return the fenced blocks, fence lines included. A fence that nothing closes is no fence."""
    found = [
        (number, match)
        for number, line in enumerate(lines)
        if ("```" in line or "~~~" in line) and (match := _FENCE.match(line))
    ]
    longest = {"`": 0, "~": 0}
    closable: list[bool] = []
    for _, match in reversed(found):
        sign, length = match[2][0], len(match[2])
        closable.append(longest[sign] >= length)
        if _closes(match):
            longest[sign] = max(longest[sign], length)
    blocks: list[Range] = []
    opened: tuple[int, str, int] | None = None
    for (number, match), can_close in zip(found, reversed(closable), strict=True):
        sign, length = match[2][0], len(match[2])
        if opened is None:
            if can_close and not (sign == "`" and "`" in match[3]):
                opened = number, sign, length
        elif sign == opened[1] and length >= opened[2] and _closes(match):
            blocks.append((opened[0], number + 1))
            opened = None
    return blocks


def _closes(match: re.Match[str]) -> bool:
    return not match[3].strip() and not match[1].strip()


def fenced(lines: Lines) -> frozenset[int]:
    """Return the numbers of the lines that belong to fenced blocks."""
    return frozenset(number for start, stop in fences(lines) for number in range(start, stop))


@dataclass(frozen=True, slots=True)
class Title:
    """The heading: its text, the line it stands on, how many lines it takes, whether `#` marks it."""

    text: str
    line: int
    count: int = 1
    marked: bool = True


@dataclass(frozen=True, slots=True)
class Outline:
    """Where the parts of a body stand.

    Args:
        title: the heading, or None.
        text: the ranges that are text, in order.
        known: section name, case folded -> its ranges, without the heading lines.
        code: lines in fenced blocks.
        other: unknown sections, name case folded -> range of the first of that name.
    """

    title: Title | None
    text: tuple[Range, ...]
    known: Mapping[str, tuple[Range, ...]]
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
        if line.startswith("#") and number not in code and (match := _HEADING.match(line))
    ]
    title = _title(lines, headings, code, known)
    if title and stated and title.text != stated:
        title = None
    marks = {number: (1, name.casefold(), level) for number, level, name in headings if level <= 2}
    if title:
        marks[title.line] = (title.count, "", 0)
    text: list[Range] = []
    sections: dict[str, tuple[Range, ...]] = {}
    other: dict[str, Range] = {}
    start, owner, other_start = 0, "", 0
    last_other = ""
    for number, (count, name, level) in [*sorted(marks.items()), (len(lines), (0, "", 0))]:
        if last_other:
            other.setdefault(last_other, (other_start, number))
        if owner:
            sections[owner] = (*sections.get(owner, ()), (start, number))
        elif text and text[-1][1] == start:
            text[-1] = text[-1][0], number
        elif number > start:
            text.append((start, number))
        owner = name if level == 2 and name in known else ""
        start = number + count if owner or not level else number
        last_other, other_start = "" if owner else name, number + 1
    return Outline(title, tuple(text), sections, code, other)


def _title(
    lines: Lines, headings: list[tuple[int, int, str]], code: frozenset[int], known: frozenset[str]
) -> Title | None:
    for number, level, text in headings:
        if level == 1 and text:
            return Title(text, number)
    for number, line in enumerate(lines):
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


# -- escaping ----------------------------------------------------------------------------------------------


def _escape(text: str, structural: Callable[[str], bool]) -> str:
    lines = text.split("\n")
    code = fenced(lines)
    return "\n".join(line if number in code else _escape_line(line, structural) for number, line in enumerate(lines))


def _escape_line(line: str, structural: Callable[[str], bool]) -> str:
    if _ESCAPED_LINE.match(line) or structural(line) or line.startswith(("<<<<<<<", ">>>>>>>")):
        return f"\\{line}"
    return escape_fence(line)


def escape_fence(line: str) -> str:
    """Return a line that neither opens nor closes a fenced block."""
    if "```" in line or "~~~" in line:
        match = _ESCAPED_FENCE.match(line) or _FENCE.match(line)
        if match and not (match[2].startswith("`") and "`" in line[match.end(2) :]):
            return f"{match[1]}\\{line[match.end(1) :]}"
    return line


def unescape_line(line: str) -> str:
    """Undo the escaping of one line that is not in a fenced block."""
    return line[1:] if _ESCAPED_LINE.match(line) else _unescape_fence(line)


def escape_text(text: str, type_: str) -> str:
    """Escape text that stands below the heading of a record of this type."""
    known = SECTIONS[type_]

    def opens(line: str) -> bool:
        return line[:3] in ("## ", "##\t") and line[3:].strip().casefold() in known

    return _escape(text, opens)


def escape_section(text: str) -> str:
    """Escape text that stands in a section of its own."""

    def closes(line: str) -> bool:
        match = _HEADING.match(line)
        return match is not None and len(match[1]) <= 2

    return _escape(text, closes)


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
            line = lines[number] if number in code else _unescape_fence(lines[number])
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


def _unescape_fence(line: str) -> str:
    if "\\" in line:
        match = _ESCAPED_FENCE.match(line)
        return f"{match[1]}{line[match.end(1) + 1 :]}" if match else line
    return line


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


# -- merge conflicts ----------------------------------------------------------------------------------------


def conflicts(lines: Lines) -> list[tuple[int, int, int]]:
    """Return the unresolved merge conflicts as line numbers: `<<<<<<<`, the end of the first side, `>>>>>>>`."""
    starts = [n for n, line in enumerate(lines) if line.startswith("<<<<<<<")]
    if not starts:
        return []
    code = fenced(lines)
    found: list[tuple[int, int, int]] = []
    start = middle = divider = -1
    for number, line in enumerate(lines):
        if number in code:
            continue
        if line.startswith("<<<<<<<"):
            start, middle, divider = number, -1, -1
        elif line.startswith("|||||||") and start >= 0 > middle:
            middle = number
        elif line.rstrip() == "=======" and start >= 0 > divider:
            divider = number
            middle = number if middle < 0 else middle
        elif line.startswith(">>>>>>>") and divider >= 0:
            found.append((start, middle, number))
            start = middle = divider = -1
    return found
