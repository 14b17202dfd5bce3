"""Text as lines: how it is kept, which lines are fenced or in conflict, how it is escaped, what it hides.

Text that callers give is escaped with a backslash where it would open or close something, and the backslash is taken
off on reading; so what was given is what is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Lines = Sequence[str]
Range = tuple[int, int]  # first line, line after the last

HEADING_LIMIT = 100  # characters of a first line that become the heading

# What may stand before a fence: blanks and list markers.
PREFIX = r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+"
FENCE = re.compile(rf"({PREFIX})(`{{3,}}+|~{{3,}}+)(.*)")
_LEADING_BLANK = re.compile(r"\A(?:[^\S\n]*+\n)++")


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


def cut(line: str, limit: int) -> str:
    """Return up to `limit` characters of a line, the last of them an ellipsis where there are more."""
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def heading(text: str) -> str:
    """Return the heading for a text that has none: its first line, up to 100 characters."""
    return tidy(text).partition("\n")[0].strip()[:HEADING_LIMIT].strip()


def fences(lines: Lines) -> list[Range]:
    """Return the fenced blocks, fence lines included. A fence that nothing closes is no fence."""
    found = [
        (number, match)
        for number, line in enumerate(lines)
        if ("```" in line or "~~~" in line) and (match := FENCE.match(line))
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


MAX_FILE = 1024 * 1024  # bytes
CONFLICT = "conflict"  # the code of a merge that was not finished
WAY_OUT = "keep one side of the text, and every line under Outcomes"  # both sides may have appended to that log


# -- escapes -------------------------------------------------------------------------------------------------

HEADING = re.compile(r"(#{1,6})(?=[ \t]|$)")
_ESCAPED_LINE = re.compile(r"\\+(?=#{1,6}(?:[ \t]|$)|<{7}|>{7})")
_ESCAPED_FENCE = re.compile(rf"({PREFIX})(\\+)(?=```|~~~)")


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
        match = _ESCAPED_FENCE.match(line) or FENCE.match(line)
        if match and not (match[2].startswith("`") and "`" in line[match.end(2) :]):
            return f"{match[1]}\\{line[match.end(1) :]}"
    return line


def unescape_line(line: str) -> str:
    """Undo the escaping of one line that is not in a fenced block."""
    return line[1:] if _ESCAPED_LINE.match(line) else unescape_fence(line)


def escape_text(text: str, known: frozenset[str]) -> str:
    """Escape text that stands below the heading of a record in which these sections have a meaning."""

    def opens(line: str) -> bool:
        return line[:3] in ("## ", "##\t") and line[3:].strip().casefold() in known

    return _escape(text, opens)


def escape_section(text: str) -> str:
    """Escape text that stands in a section of its own."""

    def closes(line: str) -> bool:
        match = HEADING.match(line)
        return match is not None and len(match[1]) <= 2

    return _escape(text, closes)


def unescape_fence(line: str) -> str:
    """Undo the escaping of a fence."""
    if "\\" in line:
        match = _ESCAPED_FENCE.match(line)
        return f"{match[1]}{line[match.end(1) + 1 :]}" if match else line
    return line


# Characters that a reader does not see and a model reads, after the Unicode Character Database: Bidi_Control (UAX #9)
# and Default_Ignorable_Code_Point (UAX #44), less what ordinary writing needs: marks of direction, single variation
# selectors, joiners outside Latin text (UTS #51; Indic, Persian, Arabic scripts), the flags of regions.
HIDDEN: Mapping[str, str] = {
    "a direction override": "[\u202a-\u202e]+",
    "a direction isolate": "[\u2066-\u2069]+",
    "a tag character": "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+",
    "a zero-width space": "(?:[\u200b\u2060\u180e]|(?<!\\A)\ufeff)+",
    "a zero-width joiner in a Latin word": "(?<=[A-Za-z0-9])[\u200c\u200d]+(?=[A-Za-z0-9])",
    "an invisible operator or format character": "[\u2061-\u2065\u206a-\u206f\ufff9-\ufffb]+",
    "a filler that looks like nothing": "[\u115f\u1160\u3164\uffa0]+",
    "several variation selectors in a row": "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}",
}  # name -> the pattern of a run of them
_ANY_HIDDEN = "|".join(f"({pattern})" for pattern in HIDDEN.values())
_HIDDEN_NAMES = tuple(HIDDEN)


class Hidden(NamedTuple):
    """One kind of hidden character: how many there are, and where the first stands, counted from 1."""

    name: str
    amount: int
    line: int
    column: int


def hidden_characters(text: str) -> tuple[Hidden, ...]:
    """Return the kinds of hidden characters in a text, each once, in the order in which they first stand there."""
    if text.isascii():
        return ()
    found: dict[int, Hidden] = {}
    for run in re.finditer(_ANY_HIDDEN, text):
        kind = run.lastindex or 1
        if kind in found:
            found[kind] = found[kind]._replace(amount=found[kind].amount + len(run[0]))
        else:
            start = run.start()
            line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
            found[kind] = Hidden(_HIDDEN_NAMES[kind - 1], len(run[0]), line, column)
    return tuple(found.values())
