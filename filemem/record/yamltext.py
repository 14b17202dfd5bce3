"""YAML as front matter uses it: read under a guard, every scalar as it is written; written so that no YAML
reader, 1.1 or 1.2, retypes it.

Nothing is ever composed by the library: its composer recurses in C and a 30 kB file of brackets ends the
process. The guard works on the events, before a value exists.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

MAX_DEPTH = 32
MAX_EVENTS = 5_000

_Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
# What libyaml refuses anywhere in a stream.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


class Plain(str):
    """A scalar that stands without quotes: inside `metadata` such a value may be a number."""

    __slots__ = ()


Value = str | list["Value"] | dict[str, "Value"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the root mapping. Positions are characters from the start of the text that was read.

    Args:
        key: the key, None where it is not a scalar.
        value: what stands there.
        at: start of the key; `key_end` where it ends, before the colon.
        start: start of the value; `end` the end of its last character, comments and blank lines excluded.
        style: "scalar", "flow" or "block".
        items: where each item of a list starts and ends.
    """

    key: str | None
    value: Value
    at: int
    key_end: int
    start: int
    end: int
    style: str
    items: tuple[tuple[int, int], ...] = ()


class Refused(Exception):
    """The text is YAML that is not read: `code` as in problems, `at` the position of the cause."""

    def __init__(self, code: str, message: str, at: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at


class _Events:
    """The event stream of one text, with the guard on depth, number and aliases."""

    __slots__ = ("_left", "_next")

    def __init__(self, text: str, budget: int) -> None:
        self._next = _Loader(text).get_event
        self._left = budget

    def next(self) -> Any:
        event: Any = self._next()
        self._left -= 1
        if self._left < 0:
            raise Refused("yaml-size", f"more than {MAX_EVENTS:,} YAML events", event.start_mark.index)
        return event

    def node(self, event: Any, depth: int) -> tuple[Value, int, tuple[tuple[int, int], ...]]:
        """Return the value that starts with `event`, where it ends, and where its items stand."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            text = event.value
            return (text if event.style else Plain(text)), event.end_mark.index, ()
        at = event.start_mark.index
        if kind is yaml.AliasEvent:
            raise Refused("yaml-alias", "aliases (`*name`) are not read", at)
        if depth >= MAX_DEPTH:
            raise Refused("yaml-depth", f"more than {MAX_DEPTH} levels deep", at)
        if kind is yaml.SequenceStartEvent:
            return self._sequence(event, depth)
        if kind is yaml.MappingStartEvent:
            return self._mapping(event, depth)
        raise Refused("yaml-syntax", "more than one YAML document", at)

    def _sequence(self, start: Any, depth: int) -> tuple[Value, int, tuple[tuple[int, int], ...]]:
        values: list[Value] = []
        items: list[tuple[int, int]] = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            value, end, _ = self.node(event, depth + 1)
            values.append(value)
            items.append((event.start_mark.index, end))
        last = items[-1][1] if items else 0
        return values, _end(event) if start.flow_style else last, tuple(items)

    def _mapping(self, start: Any, depth: int) -> tuple[Value, int, tuple[tuple[int, int], ...]]:
        values: dict[str, Value] = {}
        end = start.start_mark.index
        while type(event := self.next()) is not yaml.MappingEndEvent:
            key = self.node(event, depth + 1)[0]
            value, end, _ = self.node(self.next(), depth + 1)
            values[key if isinstance(key, str) else flow(key)] = value
        return values, _end(event) if start.flow_style else end, ()


def _end(event: Any) -> int:
    return int(event.end_mark.index)


def read_entries(text: str, budget: int = MAX_EVENTS) -> tuple[list[Entry], bool]:
    """Return the keys of the mapping that `text` is, and whether it is written in braces.

    Raises:
        Refused: it is too deep, too large, not a mapping, or uses aliases.
        yaml.YAMLError: it is not YAML.
    """
    events = _Events(text, budget)
    events.next()
    if type(events.next()) is yaml.StreamEndEvent:
        return [], False
    root = events.next()
    if type(root) is not yaml.MappingStartEvent:
        if type(root) is yaml.ScalarEvent and not root.value:
            return [], False
        raise Refused("header-not-mapping", "the header is not a list of `key: value`", root.start_mark.index)
    entries: list[Entry] = []
    while type(event := events.next()) is not yaml.MappingEndEvent:
        key, key_end, _ = events.node(event, 1)
        first = events.next()
        value, end, items = events.node(first, 1)
        style = "scalar" if type(first) is yaml.ScalarEvent else ("flow" if first.flow_style else "block")
        entries.append(
            Entry(
                key if isinstance(key, str) else None,
                value,
                event.start_mark.index,
                key_end,
                first.start_mark.index,
                end,
                style,
                items,
            )
        )
    events.next()
    if type(after := events.next()) is not yaml.StreamEndEvent:
        raise Refused("yaml-syntax", "more than one YAML document", after.start_mark.index)
    return entries, bool(root.flow_style)


_WORDS = r"\w(?:[\w./@+*\-]| (?=[\w./@+*\-]))*+"
_QUOTED = '"[^"\\\\\t\x85\u2028\u2029]*+"'
_ITEM = rf"(?:{_WORDS}|{_QUOTED})"
_SIMPLE_LINE = re.compile(rf"([A-Za-z_][A-Za-z0-9_-]*+): (?:({_WORDS})|({_QUOTED})|\[((?:{_ITEM}(?:, {_ITEM})*+)?)\])")
_SIMPLE_ITEM = re.compile(_ITEM)


def read_simple(text: str) -> dict[str, Value] | None:
    """Return the mapping of a header in which each line is `key: value` in the form that `flow` writes.

    This is most headers, at a tenth of the cost. None: it has another form, `read_entries` must look.
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
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def scalar(text: str) -> str:
    """Return `text` as one line of YAML that every reader takes for exactly this string."""
    if _SAFE.fullmatch(text) and text.lower() not in _RETYPED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


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
