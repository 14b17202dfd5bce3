"""YAML that has another form than ours, read under a guard on the events of the library's parser.

Nothing is ever composed by the library: its composer recurses in C and a 30 kB file of brackets ends the
process. The guard works on the events, before a value exists. The only importer of yaml, and itself imported at first
need: most headers are read by `yamltext.read_simple`, and yaml costs as much as a search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from filemem.record.yamltext import MAX_DEPTH, Plain, Refused, Value, flow

MAX_EVENTS = 5_000

_Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader


class Entry(NamedTuple):
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


class _Events:
    """The event stream of one text, with the guard on depth, number and aliases."""

    __slots__ = ("_left", "_next")

    def __init__(self, text: str) -> None:
        self._next = _Loader(text).get_event
        self._left = MAX_EVENTS

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


def read_entries(text: str) -> tuple[list[Entry], bool]:
    """Return the keys of the mapping that `text` is, and whether it is written in braces.

    Raises:
        Refused: it is not YAML, too deep, too large, not a mapping, or uses aliases.
    """
    try:
        return _entries(_Events(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise Refused("yaml-syntax", f"the header is not YAML: {what}", mark.index if mark else 0) from None


def _entries(events: _Events) -> tuple[list[Entry], bool]:
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
