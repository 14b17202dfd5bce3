"""Text as lines: how it is kept, line ends, fenced blocks, escapes, hidden characters.

Text of callers is escaped with a backslash where it would open or close something. Reading takes
the backslash off, so callers get back what they gave.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

Lines = Sequence[str]


class Range(NamedTuple):
    """Some lines: the first, and the one behind the last."""

    start: int
    stop: int


MAX_FILE = 1024 * 1024  # bytes
CONFLICT = "conflict"  # the code of a merge that was not finished
# Both sides may have appended to that log.
WAY_OUT = "keep one side of the text, and every line under Outcomes"
HEADING_LIMIT = 100  # characters of a first line that become the heading

# What may stand before a fence: blanks and list markers.
PREFIX = r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+"
FENCE = re.compile(rf"({PREFIX})(`{{3,}}+|~{{3,}}+)(.*)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LEADING_BLANK = re.compile(r"\A(?:[^\S\n]*+\n)++")


def lf(text: str) -> str:
    """Return text with LF line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def tidy(text: str) -> str:
    """Return text as it is kept: LF line ends, no blank lines around it, only valid characters."""
    text = lf(text)
    if "\0" in text:
        text = text.replace("\0", "\ufffd")  # as CommonMark asks
    return _LEADING_BLANK.sub("", valid(text).rstrip())


def valid(text: str) -> str:
    """Return text that UTF-8 can hold: lone surrogates, which JSON may have, are replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def one_line(text: str) -> str:
    """Return text as one line: line ends and the blanks around them become one space."""
    return " ".join(filter(None, map(str.strip, tidy(text).split("\n"))))


def cut(line: str, limit: int) -> str:
    """Return up to `limit` characters of a line; if there are more, it ends in an ellipsis."""
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def heading(text: str) -> str:
    """Return the heading for a text that has none: its first line, up to 100 characters."""
    return tidy(text).partition("\n")[0].strip()[:HEADING_LIMIT].strip()


def fenced(lines: Lines) -> frozenset[int]:
    """Return the numbers of the lines in fenced blocks. An unclosed fence opens none."""
    code: set[int] = set()
    start = 0
    fence = ""  # that is open
    for number, line in enumerate(lines):
        match = FENCE.match(line) if "```" in line or "~~~" in line else None
        if match is None:
            continue
        prefix, marks, rest = match.groups()
        if not fence:
            if marks[0] == "~" or "`" not in rest:
                start = number
                fence = marks
        elif marks.startswith(fence) and not f"{prefix}{rest}".strip():
            code.update(range(start, number + 1))
            fence = ""
    return frozenset(code)


# -- two versions of a text -----------------------------------------------------------------------


class Kept(NamedTuple):
    """How many items stay at the start and at the end."""

    head: int
    tail: int


def kept_at_ends(old: Sequence[object], new: Sequence[object]) -> Kept:
    """Compare two lists from both ends."""
    shorter = min(len(old), len(new))
    tail = next((n for n in range(shorter) if old[-1 - n] != new[-1 - n]), shorter)
    rest = shorter - tail
    return Kept(next((n for n in range(rest) if old[n] != new[n]), rest), tail)


def with_ends_of(old: str, new: str) -> str:
    """Return `new`, which has LF line ends, with the ends of `old`.

    New lines end as their neighbours do.
    """
    lines = _LINE.findall(old)
    edited = _LINE.findall(new)
    head, tail = kept_at_ends([lf(line) for line in lines], edited)
    stop = len(lines) - tail
    above = lines[max(0, head - 1) : head]
    below = lines[stop : stop + 1]
    usual = next(filter(None, map(_end, (*lines[head:stop], *above, *below, *lines[:1]))), "\n")
    middle = []
    for number, line in enumerate(edited[head : len(edited) - tail], head):
        end = (_end(lines[number]) if number < stop else "") or usual
        middle.append(line.removesuffix("\n") + end if line.endswith("\n") else line)
    return "".join((*lines[:head], *middle, *lines[stop:]))


def _end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


# -- escapes --------------------------------------------------------------------------------------

HEADING = re.compile(r"(#{1,6})(?=[ \t]|$)")
_TARGET = r"\[[^\[\]]*\]\([^()\s]*\)"
REPLACES = re.compile(rf"Replaces {_TARGET}(?:, {_TARGET})*")  # below a heading: written by a save
_ESCAPED_LINE = re.compile(r"\\+(?=#{1,6}(?:[ \t]|$)|<{7}|>{7}|Replaces \[)")
_ESCAPED_FENCE = re.compile(rf"({PREFIX})(\\+)(?=```|~~~)")


def escape(text: str, sections: frozenset[str] | None = None) -> str:
    """Escape text of callers, so that reading returns it.

    `sections` are those with a meaning where it goes, case folded; None inside of one.
    """
    lines = text.split("\n")
    code = fenced(lines)
    return "\n".join(
        line if number in code else _escape_line(line, sections)
        for number, line in enumerate(lines)
    )


def _escape_line(line: str, sections: frozenset[str] | None) -> str:
    is_escaped = _ESCAPED_LINE.match(line) or REPLACES.fullmatch(line)
    is_mark = is_escaped or line.startswith(("<<<<<<<", ">>>>>>>"))
    return f"\\{line}" if is_mark or _ends_section(line, sections) else escape_fence(line)


def _ends_section(line: str, sections: frozenset[str] | None) -> bool:
    """Whether a line is a heading that would end the text."""
    match = HEADING.match(line)
    if match is None:
        return False
    level = len(match[1])
    if sections is None:
        return level <= 2
    return level == 2 and line[match.end() :].strip().casefold() in sections


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


def unescape_fence(line: str) -> str:
    """Undo the escaping of a fence."""
    if "\\" in line:
        match = _ESCAPED_FENCE.match(line)
        return f"{match[1]}{line[match.end(1) + 1 :]}" if match else line
    return line


# Characters that a reader does not see and a model reads, after the Unicode Character Database:
# Bidi_Control (UAX #9) and Default_Ignorable_Code_Point (UAX #44), less what ordinary writing
# needs: marks of direction, single variation selectors, joiners outside Latin text (UTS #51; Indic,
# Persian, Arabic scripts), the flags of regions.
HIDDEN = "|".join(
    (
        "[\u202a-\u202e\u2066-\u2069]+",  # direction overrides and isolates
        "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+",  # tags
        "(?:[\u200b\u2060\u180e]|(?<!\\A)\ufeff)+",  # zero-width spaces
        "(?<=[A-Za-z0-9])[\u200c\u200d]+(?=[A-Za-z0-9])",  # zero-width joiners in a Latin word
        "[\u2061-\u2065\u206a-\u206f\ufff9-\ufffb]+",  # invisible operators and format characters
        "[\u115f\u1160\u3164\uffa0]+",  # fillers
        "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}",  # several variation selectors
    )
)


def hidden_characters(text: str) -> str:
    """Return the hidden characters of a text, in the order in which they stand there."""
    return "" if text.isascii() else "".join(re.findall(HIDDEN, text))


def named(character: str) -> str:
    """Return what to call the first of some hidden characters."""
    return f"U+{ord(character[0]):04X}, a character that is invisible in review"
