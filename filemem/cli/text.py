"""Text for people: nothing stored can control a terminal or look like a line of ours.

Rule: this module is light, since `--help` and `check --lint` import it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TextIO

from filemem.cli import console

Answer = Mapping[str, Any]
Look = Literal["", "bold", "dim", "red", "green", "yellow", "cyan", "grey"]


class Field(NamedTuple):
    """A field of an answer that has a line of its own, or one for each entry of its list."""

    name: str
    label: str = ""  # what stands before the value
    look: Look = ""


HINT = Field("hint", "hint: ", "yellow")
NOTE = Field("note", "note: ", "yellow")
WARNING = Field("warning", "warning: ", "yellow")

# Fields whose texts may have several lines.
_TEXTS = frozenset(
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
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\ufe0e\ufe0f")  # hidden, yet letters or marks to Python
_CODES: Mapping[Look, int] = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "cyan": 36,
    "grey": 90,
}


def plain(value: Any, field: str = "") -> Any:
    """A value with control and hidden characters escaped, and line breaks if `field` is one
    line."""
    if isinstance(value, str):
        return _visible(value, several_lines=field in _TEXTS)
    if isinstance(value, Mapping):
        return {key: plain(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, field) for item in value]
    return value


def _visible(text: str, *, several_lines: bool) -> str:
    if several_lines:
        text = text.replace("\r\n", "\n")
    line = text.replace("\n", "") if several_lines else text
    if line.isprintable() and _BLANK.isdisjoint(line):
        return text  # nearly every text: the patterns, slow to compile, are not even needed
    from filemem.record.lines import HIDDEN

    unseen = f"{_CONTROL}|{HIDDEN}"
    if not several_lines:
        unseen += r"|[\t\n]"
    return re.sub(unseen, lambda match: match[0].encode("unicode_escape").decode(), text)


def styled(text: str, *looks: Look, stream: TextIO | None = None) -> str:
    """A text with colours if it goes to a terminal: `stream`, or else where answers go."""
    codes = [str(_CODES[look]) for look in looks if look]
    if not (text and codes and (stream or console.out()).isatty()):
        return text
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


def lines(answer: Answer, fields: Sequence[Field], indent: int = 0) -> list[str]:
    """Lines for the fields that have a value, one for each entry of a list."""
    margin = " " * indent
    rows: list[str] = []
    for field in fields:
        value = answer.get(field.name) or ()
        entries = value if isinstance(value, (list, tuple)) else (value,)
        rows += [styled(f"{margin}{field.label}{entry}", field.look) for entry in entries]
    return rows


def block(*rows: str) -> str:
    """The lines that are not empty, as one text."""
    return "\n".join(row for row in rows if row)


def cells(*texts: str | None, separator: str = "  ") -> str:
    """The texts that are not empty, on one line."""
    return separator.join(text for text in texts if text)
