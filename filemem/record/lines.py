"""Text as lines: normal form, line ends, fenced blocks, escapes, hidden characters.

Writing escapes a caller's text with a backslash where it would open or close a section or a block.
Reading removes the backslash, so callers get their text back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

Lines = Sequence[str]


class Range(NamedTuple):
    """A range of lines; `stop` is the line after the last."""

    start: int
    stop: int


MAX_FILE_SIZE = 1024 * 1024  # bytes
CONFLICT_CODE = "conflict"  # the code of a merge that was not finished
# Both sides may have appended to that log.
CONFLICT_HINT = "keep one side of the text, and every line under Outcomes"
MAX_HEADING_LENGTH = 100  # characters of a first line that become the heading

# Blanks and list markers before a fence.
PREFIX = r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+"
FENCE = re.compile(rf"({PREFIX})(`{{3,}}+|~{{3,}}+)(.*)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LEADING_BLANK = re.compile(r"\A(?:[^\S\n]*+\n)++")


def normalize_line_ends(text: str) -> str:
    """Return text with LF line ends."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def normalize_text(text: str) -> str:
    """Return text as it is stored: LF line ends, no blank lines around it, valid characters."""
    text = normalize_line_ends(text)
    if "\0" in text:
        text = text.replace("\0", "\ufffd")  # as CommonMark asks
    text = replace_surrogates(text).rstrip()
    return _LEADING_BLANK.sub("", text)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON may contain and UTF-8 cannot encode."""
    if text.isascii():
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return data.decode("utf-16-le", "replace")


def join_lines(text: str) -> str:
    """Return text as one line: line ends and the blanks around them become one space."""
    lines = [line.strip() for line in normalize_text(text).split("\n")]
    return " ".join(line for line in lines if line)


def shorten_line(line: str, limit: int) -> str:
    """Return up to `limit` characters of a line; a shortened line ends in an ellipsis."""
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def get_heading(text: str) -> str:
    """Return the heading for a text without one: its first line, up to 100 characters."""
    first_line = normalize_text(text).partition("\n")[0].strip()
    return first_line[:MAX_HEADING_LENGTH].strip()


def find_code_lines(lines: Lines) -> frozenset[int]:
    """Return the numbers of the lines in fenced code blocks, fences included.

    An unclosed fence does not open a block.
    """
    code_lines: set[int] = set()
    start = 0
    open_fence = ""
    for number, line in enumerate(lines):
        if "```" not in line and "~~~" not in line:
            continue
        match = FENCE.match(line)
        if match is None:
            continue
        prefix, marks, info = match.groups()
        if not open_fence:
            if marks[0] == "~" or "`" not in info:
                start = number
                open_fence = marks
            continue
        other_text = prefix + info
        if marks.startswith(open_fence) and not other_text.strip():
            code_lines.update(range(start, number + 1))
            open_fence = ""
    return frozenset(code_lines)


# -- two versions of a text -----------------------------------------------------------------------


class KeptCounts(NamedTuple):
    """How many items two lists share at the start (`head`) and at the end (`tail`)."""

    head: int
    tail: int


def count_kept_ends(old: Sequence[object], new: Sequence[object]) -> KeptCounts:
    """Count the items that two lists have in common at their end, then at their start."""
    shorter = min(len(old), len(new))
    tail = 0
    while tail < shorter and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    head = 0
    while head < shorter - tail and old[head] == new[head]:
        head += 1
    return KeptCounts(head, tail)


def restore_line_ends(old: str, new: str) -> str:
    """Return `new`, which has LF line ends, with the line ends of `old`.

    A changed line gets the end of the line that it replaces, an added line a neighbour's.
    """
    old_lines = _LINE.findall(old)
    new_lines = _LINE.findall(new)
    normalized_lines = [normalize_line_ends(line) for line in old_lines]
    head, tail = count_kept_ends(normalized_lines, new_lines)
    old_stop = len(old_lines) - tail
    new_stop = len(new_lines) - tail
    default_end = _find_default_end(old_lines, head, old_stop)
    changed_lines = []
    for number in range(head, new_stop):
        line = new_lines[number]
        if line.endswith("\n"):
            old_end = ""
            if number < old_stop:
                old_end = _get_line_end(old_lines[number])
            line = line.removesuffix("\n") + (old_end or default_end)
        changed_lines.append(line)
    return "".join(old_lines[:head] + changed_lines + old_lines[old_stop:])


def _find_default_end(lines: Lines, start: int, stop: int) -> str:
    """Return the line end for lines that replace `lines[start:stop]`."""
    candidates = [*lines[start:stop]]
    candidates += lines[max(0, start - 1) : start]
    candidates += lines[stop : stop + 1]
    candidates += lines[:1]
    for line in candidates:
        end = _get_line_end(line)
        if end:
            return end
    return "\n"


def _get_line_end(line: str) -> str:
    content = line.rstrip("\r\n")
    return line[len(content) :]


# -- escapes --------------------------------------------------------------------------------------

HEADING = re.compile(r"(#{1,6})(?=[ \t]|$)")
_TARGET = r"\[[^\[\]]*\]\([^()\s]*\)"
# A save writes it below the heading.
REPLACES_LINE = re.compile(rf"Replaces {_TARGET}(?:, {_TARGET})*")
_ESCAPED_LINE = re.compile(r"\\+(?=#{1,6}(?:[ \t]|$)|<{7}|>{7}|Replaces \[)")
_ESCAPED_FENCE = re.compile(rf"({PREFIX})(\\+)(?=```|~~~)")


def escape_text(text: str, sections: frozenset[str] | None = None) -> str:
    """Escape a caller's text, so that reading the file returns it unchanged.

    Args:
        text: The text to write.
        sections: Case-folded names of the sections that would end the text; None if the text goes
            into a section, which any heading of level 1 or 2 would end.
    """
    lines = text.split("\n")
    code_lines = find_code_lines(lines)
    for number, line in enumerate(lines):
        if number not in code_lines:
            lines[number] = _escape_line(line, sections)
    return "\n".join(lines)


def _escape_line(line: str, sections: frozenset[str] | None) -> str:
    if _needs_backslash(line) or _is_section_end(line, sections):
        return f"\\{line}"
    return escape_fence(line)


def _needs_backslash(line: str) -> bool:
    """Whether a line looks escaped, like the links to replaced records or like a conflict mark."""
    if line.startswith(("<<<<<<<", ">>>>>>>")):
        return True
    if _ESCAPED_LINE.match(line):
        return True
    return REPLACES_LINE.fullmatch(line) is not None


def _is_section_end(line: str, sections: frozenset[str] | None) -> bool:
    """Whether a line is a heading that would end the text."""
    match = HEADING.match(line)
    if match is None:
        return False
    level = len(match[1])
    if sections is None:
        return level <= 2
    name = line[match.end() :].strip().casefold()
    return level == 2 and name in sections


def escape_fence(line: str) -> str:
    """Escape a line that would open or close a fenced block."""
    if "```" not in line and "~~~" not in line:
        return line
    match = _ESCAPED_FENCE.match(line) or FENCE.match(line)
    if match is None:
        return line
    info = line[match.end(2) :]
    if match[2].startswith("`") and "`" in info:
        return line  # code within a line
    prefix_end = match.end(1)
    return line[:prefix_end] + "\\" + line[prefix_end:]


def unescape_line(line: str) -> str:
    """Undo the escaping of a line outside fenced blocks."""
    if _ESCAPED_LINE.match(line):
        return line[1:]
    return unescape_fence(line)


def unescape_fence(line: str) -> str:
    """Undo the escaping of a fence."""
    if "\\" not in line:
        return line
    match = _ESCAPED_FENCE.match(line)
    if match is None:
        return line
    prefix_end = match.end(1)
    return line[:prefix_end] + line[prefix_end + 1 :]


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
    """Return the hidden characters of a text, in their order."""
    if text.isascii():
        return ""
    return "".join(re.findall(HIDDEN_CHARACTERS, text))


def describe_character(character: str) -> str:
    """Describe the first of some hidden characters, for a message."""
    code_point = ord(character[0])
    return f"U+{code_point:04X}, a character that is invisible in review"
