"""Text that callers give is escaped with a backslash where it would open or close something, and the backslash is
taken off on reading; so what was given is what is read."""

from __future__ import annotations

import re
from collections.abc import Callable

from filemem.record.lines import FENCE, PREFIX, fenced

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
