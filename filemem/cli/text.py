"""Text for people: nothing stored can control a terminal or look like a line of ours.

Rule: this module is light, since `--help` and `check --lint` import it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TextIO

from filemem.cli import console

Answer = Mapping[str, Any]
Style = Literal["", "bold", "dim", "red", "green", "yellow", "cyan", "grey"]


class Field(NamedTuple):
    """A field of an answer that has a line of its own, or one for each entry of its list."""

    name: str
    label: str = ""  # what stands before the value
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
# Sets apart: one set that reaches from control characters to surrogates is compiled into a table
# of 64 KB.
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
    """A value with control and hidden characters escaped, and line breaks if `field` is one
    line."""
    if isinstance(value, str):
        return _escape_text(value, is_multiline=field in _MULTILINE_FIELDS)
    if isinstance(value, Mapping):
        return {key: escape_value(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [escape_value(item, field) for item in value]
    return value


def _escape_text(text: str, *, is_multiline: bool) -> str:
    if is_multiline:
        text = text.replace("\r\n", "\n")
    line = text.replace("\n", "") if is_multiline else text
    if line.isprintable() and _BLANK_CHARS.isdisjoint(line):
        return text  # nearly every text: the patterns, slow to compile, are not even needed
    from filemem.record.lines import HIDDEN_CHARACTERS

    hidden_pattern = f"{_CONTROL}|{HIDDEN_CHARACTERS}"
    if not is_multiline:
        hidden_pattern += r"|[\t\n]"
    return re.sub(hidden_pattern, lambda match: match[0].encode("unicode_escape").decode(), text)


def style_text(text: str, *styles: Style, stream: TextIO | None = None) -> str:
    """A text with colours if it goes to a terminal: `stream`, or else where answers go."""
    codes = [str(_STYLE_CODES[look]) for look in styles if look]
    if not (text and codes and (stream or console.get_output()).isatty()):
        return text
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


def format_fields(answer: Answer, fields: Sequence[Field], indent: int = 0) -> list[str]:
    """Lines for the fields that have a value, one for each entry of a list."""
    margin = " " * indent
    rows: list[str] = []
    for field in fields:
        value = answer.get(field.name) or ()
        entries = value if isinstance(value, (list, tuple)) else (value,)
        rows += [style_text(f"{margin}{field.label}{entry}", field.style) for entry in entries]
    return rows


def join_lines(*rows: str) -> str:
    """The lines that are not empty, as one text."""
    return "\n".join(row for row in rows if row)


def join_cells(*texts: str | None, separator: str = "  ") -> str:
    """The texts that are not empty, on one line."""
    return separator.join(text for text in texts if text)
