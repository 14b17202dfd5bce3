"""Print text safely: stored text cannot control a terminal or imitate a line of ours.

Rule: this module imports little, since `--help` and `check --lint` import it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TextIO

from filemem.cli import console

Answer = Mapping[str, Any]
Style = Literal["", "bold", "dim", "red", "green", "yellow", "cyan", "grey"]


class Field(NamedTuple):
    """How to print a field of an answer: on one line, or on one line for each entry of a list."""

    name: str
    label: str = ""  # printed before the value
    style: Style = ""


HINT = Field("hint", "hint: ", "yellow")
NOTE = Field("note", "note: ", "yellow")
WARNING = Field("warning", "warning: ", "yellow")

# Fields whose texts may have several lines.
_MULTILINE_FIELDS = frozenset(
    (
        "text",
        "reasoning",
        "decision",
        "summary",
        "next_steps",
        "limitation",
        "facts",
        "snippet",
        "message",
        "hint",
        "note",
        "content",
        "purge",
    )
)
# Three small sets: a single set from control characters to surrogates would compile to 64 KB.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u2028\u2029\ufeff]|[\ud800-\udfff]"
_BLANK_CHARS = frozenset(
    "\u115f\u1160\u3164\uffa0\ufe0e\ufe0f"
)  # hidden, yet letters or marks to Python
_STYLE_CODES: Mapping[Style, int] = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "cyan": 36,
    "grey": 90,
}


def escape_value(value: Any, field: str = "") -> Any:
    """Escape control and hidden characters in a value and in everything it contains.

    Line breaks are escaped too, unless `field` may have several lines.
    """
    if isinstance(value, str):
        return _escape_text(value, is_multiline=field in _MULTILINE_FIELDS)
    if isinstance(value, Mapping):
        return {key: escape_value(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [escape_value(item, field) for item in value]
    return value


def _escape_text(text: str, *, is_multiline: bool) -> str:
    line = text
    if is_multiline:
        text = text.replace("\r\n", "\n")
        line = text.replace("\n", "")
    if line.isprintable() and _BLANK_CHARS.isdisjoint(line):
        return text  # nearly every text ends here, without the patterns, which compile slowly
    from filemem.record.lines import HIDDEN_CHARACTERS

    hidden_pattern = f"{_CONTROL}|{HIDDEN_CHARACTERS}"
    if not is_multiline:
        hidden_pattern += r"|[\t\n]"
    return re.sub(hidden_pattern, _escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def style_text(text: str, *styles: Style, stream: TextIO | None = None) -> str:
    """Colour a text if `stream` is a terminal; without `stream`, if answers go to one."""
    codes = [str(_STYLE_CODES[style]) for style in styles if style]
    if not text or not codes:
        return text
    output = stream or console.get_output()
    if not output.isatty():
        return text
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


def format_fields(answer: Answer, fields: Sequence[Field], indent: int = 0) -> list[str]:
    """Format the fields that have a value, one line for each entry of a list."""
    margin = " " * indent
    rows: list[str] = []
    for field in fields:
        entries = answer.get(field.name)
        if not entries:
            continue
        if not isinstance(entries, (list, tuple)):
            entries = [entries]
        for entry in entries:
            row = f"{margin}{field.label}{entry}"
            rows.append(style_text(row, field.style))
    return rows


def join_lines(rows: Iterable[str]) -> str:
    """Join the rows that are not empty, one a line."""
    return "\n".join([row for row in rows if row])


def join_cells(*texts: str | None, separator: str = "  ") -> str:
    """Join the texts that are not empty, on one line."""
    return separator.join([text for text in texts if text])
