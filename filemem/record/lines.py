"""Text as lines: how it is kept, which lines are fenced or in conflict, how it is escaped, what it hides.

Text that callers give is escaped with a backslash where it would open or close something, and the backslash is taken
off on reading; so what was given is what is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Lines = Sequence[str]
Range = tuple[int, int]  # first line, line after the last

MAX_FILE = 1024 * 1024  # bytes
CONFLICT = "conflict"  # the code of a merge that was not finished
WAY_OUT = "keep one side of the text, and every line under Outcomes"  # both sides may have appended to that log
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
    return _LEADING_BLANK.sub("", valid(text).rstrip())


def valid(text: str) -> str:
    """Return text that can be written as UTF-8: lone surrogates, which JSON may hold, are replaced."""
    return (
        text
        if text.isascii()
        else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def one_line(text: str) -> str:
    """Return text as one line: line ends and the blanks around them become one space."""
    return " ".join(part for line in tidy(text).split("\n") if (part := line.strip()))


def cut(line: str, limit: int) -> str:
    """Return up to `limit` characters of a line, the last of them an ellipsis where there are more."""
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def heading(text: str) -> str:
    """Return the heading for a text that has none: its first line, up to 100 characters."""
    return tidy(text).partition("\n")[0].strip()[:HEADING_LIMIT].strip()


def fenced(lines: Lines) -> frozenset[int]:
    """Return the numbers of the lines that belong to fenced blocks; a fence that nothing closes is none."""
    code: set[int] = set()
    start, opened = 0, ""
    for number, line in enumerate(lines):
        match = FENCE.match(line) if "```" in line or "~~~" in line else None
        if not match:
            continue
        if not opened:
            if not (match[2][0] == "`" and "`" in match[3]):
                start, opened = number, match[2]
        elif match[2].startswith(opened) and not match[3].strip() and not match[1].strip():
            code.update(range(start, number + 1))
            opened = ""
    return frozenset(code)


# -- escapes -------------------------------------------------------------------------------------------------

HEADING = re.compile(r"(#{1,6})(?=[ \t]|$)")
_ESCAPED_LINE = re.compile(r"\\+(?=#{1,6}(?:[ \t]|$)|<{7}|>{7})")
_ESCAPED_FENCE = re.compile(rf"({PREFIX})(\\+)(?=```|~~~)")


def escape(text: str, known: frozenset[str] | None = None) -> str:
    """Escape text of callers, so that reading returns it; `known` are the sections with a meaning, None inside one."""
    lines = text.split("\n")
    code = fenced(lines)
    return "\n".join(
        line if number in code else _escape_line(line, known) for number, line in enumerate(lines)
    )


def _escape_line(line: str, known: frozenset[str] | None) -> str:
    match = HEADING.match(line)
    level, name = (len(match[1]), line[match.end() :].strip().casefold()) if match else (0, "")
    structural = 0 < level <= 2 if known is None else level == 2 and name in known
    if structural or _ESCAPED_LINE.match(line) or line.startswith(("<<<<<<<", ">>>>>>>")):
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


def unescape_fence(line: str) -> str:
    """Undo the escaping of a fence."""
    if "\\" in line:
        match = _ESCAPED_FENCE.match(line)
        return f"{match[1]}{line[match.end(1) + 1 :]}" if match else line
    return line


# Characters that a reader does not see and a model reads, after the Unicode Character Database: Bidi_Control (UAX #9)
# and Default_Ignorable_Code_Point (UAX #44), less what ordinary writing needs: marks of direction, single variation
# selectors, joiners outside Latin text (UTS #51; Indic, Persian, Arabic scripts), the flags of regions.
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
