"""YAML as front matter uses it: every scalar read as it is written; written so that no YAML reader, 1.1 or 1.2,
retypes it. What is not in the simple form that we write is read by `yamlevents`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

MAX_DEPTH = 32

# What libyaml refuses anywhere in a stream.
UNPRINTABLE = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"


class Plain(str):
    """A scalar that stands without quotes: inside `metadata` such a value may be a number."""

    __slots__ = ()


Value = str | list["Value"] | dict[str, "Value"]


class Refused(Exception):
    """The text is YAML that is not read: `code` as in problems, `at` the position of the cause."""

    def __init__(self, code: str, message: str, at: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at


_WORDS = r"\w(?:[\w./@+*\-]| (?=[\w./@+*\-]))*+"
_QUOTED = '"[^"\\\\\t\x85\u2028\u2029]*+"'
_ITEM = rf"(?:{_WORDS}|{_QUOTED})"
_SIMPLE_LINE = re.compile(rf"([A-Za-z_][A-Za-z0-9_-]*+): (?:({_WORDS})|({_QUOTED})|\[((?:{_ITEM}(?:, {_ITEM})*+)?)\])")
_SIMPLE_ITEM = re.compile(_ITEM)


def read_simple(text: str) -> dict[str, Value] | None:
    """Return the mapping of a header in which each line is `key: value` in the form that `flow` writes.

    This is most headers, at a tenth of the cost. None: it has another form, `yamlevents` must look.
    """
    values: dict[str, Value] = {}
    for line in text.split("\n"):
        match = _SIMPLE_LINE.fullmatch(line)
        if not match or match[1] in values:
            return None
        key, plain, quoted, items = match.groups()
        if plain is not None:
            values[key] = Plain(plain)
        elif quoted is not None:
            values[key] = quoted[1:-1]
        else:
            values[key] = [item[1:-1] if item[0] == '"' else Plain(item) for item in _SIMPLE_ITEM.findall(items)]
    return values


# Letters first, so that it is no number, date or sign; no character that means anything inside `[ ]` or `{ }`.
_SAFE = re.compile(r"[^\W\d_](?:[\w./@+*\-]| (?=[\w./@+*\-]))*")
_RETYPED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"))
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


def scalar(text: str) -> str:
    """Return `text` as one line of YAML that every reader takes for exactly this string."""
    if _SAFE.fullmatch(text) and text.lower() not in _RETYPED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(_ESCAPED, lambda found: f"\\u{ord(found[0]):04x}", quoted)


def flow(value: object) -> str:
    """Return a value as one line of YAML in flow style; numbers, booleans and None as JSON writes them."""
    if isinstance(value, str):
        return scalar(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return scalar(str(value))
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return scalar(str(value))


_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,299})(\.\d{1,300})?([eE][+-]?\d{1,4})?", re.ASCII)
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


def typed(value: Value) -> object:
    """Return a value of `metadata`: plain JSON numbers, `true`, `false` and `null` get their type."""
    if isinstance(value, dict):
        return {str(key): typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if not isinstance(value, Plain):
        return value
    if value in _CONSTANTS:
        return _CONSTANTS[value]
    if found := _NUMBER.fullmatch(value):
        if not (found[1] or found[2]):
            return int(value)
        if math.isfinite(number := float(value)):
            return number
    return str(value)
