"""Text as lines: how it is kept, which lines belong to fenced blocks, where merges are unresolved."""

from __future__ import annotations

import re
from collections.abc import Sequence

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


_OUTCOME_LINE = r"outcome:|[ \t]*[-*+][ \t]+\d{4}-\d\d-\d\d\S*[ \t]+\w+"
_AROUND_OUTCOMES = r"\s*$|#+[ \t]+Outcomes\b"


def way_out(lines: Lines, conflict: tuple[int, int, int]) -> str:
    """Return how to end a conflict from `conflicts`: both sides may have appended to the log of outcomes."""
    start, middle, end = conflict
    second = next(number for number in range(middle, end) if lines[number].rstrip() == "=======")
    sides = lines[start + 1 : middle], lines[second + 1 : end]
    outcomes = [[line for line in side if re.match(_OUTCOME_LINE, line)] for side in sides]
    others = [line for line in (*sides[0], *sides[1]) if not re.match(f"{_OUTCOME_LINE}|{_AROUND_OUTCOMES}", line)]
    if not any(outcomes):
        return "keep one side"
    if others:
        return "keep one side of the text, and every line under Outcomes"
    return "keep both lines under Outcomes and one `outcome:`" if all(outcomes) else "keep the outcome"
