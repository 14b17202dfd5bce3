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


MAX_FILE_SIZE = 1024 * 1024  # bytes
CONFLICT_CODE = "conflict"  # the code of a merge that was not finished
# Both sides may have appended to that log.
CONFLICT_HINT = "keep one side of the text, and every line under Outcomes"
MAX_HEADING_LENGTH = 100  # characters of a first line that become the heading

# What may stand before a fence: blanks and list markers.
PREFIX = r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+"
FENCE = re.compile(rf"({PREFIX})(`{{3,}}+|~{{3,}}+)(.*)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LEADING_BLANK = re.compile(r"\A(?:[^\S\n]*+\n)++")


def normalize_line_ends(text: str) -> str:
    """Return text with LF line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def normalize_text(text: str) -> str:
    """Return text as it is kept: LF line ends, no blank lines around it, only valid characters."""
    text = normalize_line_ends(text)
    if "\0" in text:
        text = text.replace("\0", "\ufffd")  # as CommonMark asks
    return _LEADING_BLANK.sub("", replace_surrogates(text).rstrip())


def replace_surrogates(text: str) -> str:
    """Return text that UTF-8 can hold: lone surrogates, which JSON may have, are replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def join_lines(text: str) -> str:
    """Return text as one line: line ends and the blanks around them become one space."""
    return " ".join(filter(None, map(str.strip, normalize_text(text).split("\n"))))


def shorten_line(line: str, limit: int) -> str:
    """Return up to `limit` characters of a line; if there are more, it ends in an ellipsis."""
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def get_heading(text: str) -> str:
    """Return the heading for a text that has none: its first line, up to 100 characters."""
    return normalize_text(text).partition("\n")[0].strip()[:MAX_HEADING_LENGTH].strip()


def find_code_lines(lines: Lines) -> frozenset[int]:
    """Return the numbers of the lines in fenced blocks. An unclosed fence opens none."""
    code_lines: set[int] = set()
    start = 0
    fence = ""  # that is open
    for number, line in enumerate(lines):
        match = FENCE.match(line) if "```" in line or "~~~" in line else None
        if match is None:
            continue
        prefix, marks, info = match.groups()
        if not fence:
            if marks[0] == "~" or "`" not in info:
                start = number
                fence = marks
        elif marks.startswith(fence) and not f"{prefix}{info}".strip():
            code_lines.update(range(start, number + 1))
            fence = ""
    return frozenset(code_lines)


# -- two versions of a text -----------------------------------------------------------------------


class KeptCounts(NamedTuple):
    """How many items stay at the start and at the end."""

    head: int
    tail: int


def count_kept_ends(old: Sequence[object], new: Sequence[object]) -> KeptCounts:
    """Compare two lists from both ends."""
    shorter = min(len(old), len(new))
    tail = next((n for n in range(shorter) if old[-1 - n] != new[-1 - n]), shorter)
    remaining = shorter - tail
    return KeptCounts(next((n for n in range(remaining) if old[n] != new[n]), remaining), tail)


def restore_line_ends(old: str, new: str) -> str:
    """Return `new`, which has LF line ends, with the ends of `old`.

    New lines end as their neighbours do.
    """
    lines = _LINE.findall(old)
    new_lines = _LINE.findall(new)
    head, tail = count_kept_ends([normalize_line_ends(line) for line in lines], new_lines)
    stop = len(lines) - tail
    above = lines[max(0, head - 1) : head]
    below = lines[stop : stop + 1]
    default_end = next(
        filter(None, map(_get_line_end, (*lines[head:stop], *above, *below, *lines[:1]))), "\n"
    )
    changed_lines = []
    for number, line in enumerate(new_lines[head : len(new_lines) - tail], head):
        end = (_get_line_end(lines[number]) if number < stop else "") or default_end
        changed_lines.append(line.removesuffix("\n") + end if line.endswith("\n") else line)
    return "".join((*lines[:head], *changed_lines, *lines[stop:]))


def _get_line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


# -- escapes --------------------------------------------------------------------------------------

HEADING = re.compile(r"(#{1,6})(?=[ \t]|$)")
_TARGET = r"\[[^\[\]]*\]\([^()\s]*\)"
REPLACES_LINE = re.compile(
    rf"Replaces {_TARGET}(?:, {_TARGET})*"
)  # below a heading: written by a save
_ESCAPED_LINE = re.compile(r"\\+(?=#{1,6}(?:[ \t]|$)|<{7}|>{7}|Replaces \[)")
_ESCAPED_FENCE = re.compile(rf"({PREFIX})(\\+)(?=```|~~~)")


def escape_text(text: str, sections: frozenset[str] | None = None) -> str:
    """Escape text of callers, so that reading returns it.

    `sections` are those with a meaning where it goes, case folded; None inside of one.
    """
    lines = text.split("\n")
    code_lines = find_code_lines(lines)
    return "\n".join(
        line if number in code_lines else _escape_line(line, sections)
        for number, line in enumerate(lines)
    )


def _escape_line(line: str, sections: frozenset[str] | None) -> str:
    is_escaped = _ESCAPED_LINE.match(line) or REPLACES_LINE.fullmatch(line)
    needs_escape = is_escaped or line.startswith(("<<<<<<<", ">>>>>>>"))
    return f"\\{line}" if needs_escape or _is_section_end(line, sections) else escape_fence(line)


def _is_section_end(line: str, sections: frozenset[str] | None) -> bool:
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
HIDDEN_CHARACTERS = "|".join(
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


def find_hidden_characters(text: str) -> str:
    """Return the hidden characters of a text, in the order in which they stand there."""
    return "" if text.isascii() else "".join(re.findall(HIDDEN_CHARACTERS, text))


def describe_character(character: str) -> str:
    """Return what to call the first of some hidden characters."""
    return f"U+{ord(character[0]):04X}, a character that is invisible in review"
