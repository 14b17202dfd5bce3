"""Read and write the YAML of front matter. Values are kept as text, so that none changes its type.

A header in the simple form that filemem writes is read with a pattern. Any other is built here from
the events of the library's parser, with limits. The library's own composer is not used: it recurses
in C, and a 30 kB file of brackets ends the process. yaml is imported at first need, because the
import takes as long as a search.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

from filemem.record.lines import replace_surrogates
from filemem.record.model import Problem

MAX_DEPTH = 32

# What libyaml refuses anywhere in a stream.
UNPRINTABLE = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"


class PlainScalar(str):
    """A scalar without quotes; in `metadata` such a value may be a number."""

    __slots__ = ()


Value = str | list["Value"] | dict[str, "Value"]


class YamlRefusal(Exception):
    """YAML that is not read: `code` as in problems, `position` of the cause in characters."""

    def __init__(self, code: str, message: str, position: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position


_WORDS = r"\w(?:[\w./@+*\-]| (?=[\w./@+*\-]))*+"
_QUOTED = '"[^"\\\\\t\x85\u2028\u2029]*+"'
_ITEM = rf"(?:{_WORDS}|{_QUOTED})"
_KEY = "[A-Za-z_][A-Za-z0-9_-]*+"
_PAIR = rf"{_KEY}: {_ITEM}"
_SIMPLE_LINE = re.compile(
    rf"({_KEY}): (?:({_WORDS})|({_QUOTED})|\[((?:{_ITEM}(?:, {_ITEM})*+)?)\]"
    rf"|{{({_PAIR}(?:, {_PAIR}){{0,999}}+)}})"
)
_SIMPLE_PAIR = re.compile(rf"({_KEY}): ({_ITEM})")
_SIMPLE_ITEM = re.compile(_ITEM)


def parse_simple(text: str) -> dict[str, Value] | None:
    """Read a header of lines `key: value` in the form that `format_flow` writes.

    Most headers are, and this takes a tenth of the time of `parse_entries`. Returns None for any
    other form.
    """
    values: dict[str, Value] = {}
    for line in text.split("\n"):
        match = _SIMPLE_LINE.fullmatch(line)
        if not match or match[1] in values:
            return None
        key, plain_text, quoted_text, items, pairs = match.groups()
        if plain_text is not None:
            values[key] = PlainScalar(plain_text)
        elif quoted_text is not None:
            values[key] = quoted_text[1:-1]
        elif pairs is not None:
            values[key] = {name: _parse_item(item) for name, item in _SIMPLE_PAIR.findall(pairs)}
        else:
            values[key] = [_parse_item(item) for item in _SIMPLE_ITEM.findall(items)]
    return values


def _parse_item(text: str) -> Value:
    if text.startswith('"'):
        return text[1:-1]
    return PlainScalar(text)


# Letters first, so that it is no number, date or sign; no character with a meaning in `[ ]`, `{ }`.
_SAFE_SCALAR = re.compile(r"[^\W\d_](?:[\w./@+*\-]| (?=[\w./@+*\-]))*")
_RESERVED_WORDS = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf")
)
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


def format_scalar(text: str) -> str:
    """Return text as one line of YAML that every reader takes for this string."""
    text = replace_surrogates(text)
    if _SAFE_SCALAR.fullmatch(text) and text.lower() not in _RESERVED_WORDS:
        return text
    quoted_text = json.dumps(text, ensure_ascii=False)
    return re.sub(_ESCAPED, _escape_character, quoted_text)


def _escape_character(match: re.Match[str]) -> str:
    code_point = ord(match[0])
    return f"\\u{code_point:04x}"


def format_flow(value: object) -> str:
    """Return a value as one line of YAML in flow style; numbers, booleans, None as in JSON."""
    if isinstance(value, str):
        return format_scalar(value)
    if isinstance(value, Mapping):
        pairs = []
        for key, item in value.items():
            name = format_scalar(str(key))
            pairs.append(f"{name}: {format_flow(item)}")
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        items = [format_flow(item) for item in value]
        return "[" + ", ".join(items) + "]"
    if value is None:
        return json.dumps(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return json.dumps(value)
    return format_scalar(str(value))


_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,299})(\.\d{1,300})?([eE][+-]?\d{1,4})?", re.ASCII)
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


def to_typed_value(value: Value) -> object:
    """Return a value of `metadata`: plain JSON numbers, `true`, `false`, `null` get their type."""
    if isinstance(value, dict):
        return {str(key): to_typed_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_typed_value(item) for item in value]
    if isinstance(value, PlainScalar):
        return _to_typed_scalar(value)
    return value


def _to_typed_scalar(text: PlainScalar) -> object:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    match = _NUMBER.fullmatch(text)
    if match is None:
        return str(text)
    fraction, exponent = match.groups()
    if not fraction and not exponent:
        return int(text)
    number = float(text)
    if math.isfinite(number):
        return number
    return str(text)


# -- any other form -------------------------------------------------------------------------------

MAX_EVENTS = 5_000
_TEXT_TAG = "tag:yaml.org,2002:str"  # `!!str` says what we do anyway

_END_EVENTS = ("SequenceEndEvent", "MappingEndEvent")


class Span(NamedTuple):
    """A range of characters."""

    start: int
    stop: int


class Entry(NamedTuple):
    """One key of the root mapping; positions are characters from the start of the text.

    The key is at `key_start` to `key_end`, without its colon; the value at `start` to `end`,
    without the comments and blank lines below it.
    """

    key: str | None  # None if it is not a scalar
    value: Value
    key_start: int
    key_end: int
    start: int
    end: int
    style: str  # "scalar", "flow" or "block"
    items: tuple[Span, ...] = ()  # of a list


class Entries(NamedTuple):
    """The keys of a mapping, and whether it is written in braces."""

    entries: tuple[Entry, ...] = ()
    in_braces: bool = False


class _Event(NamedTuple):
    kind: str
    event: Any


_Events = Iterator[_Event]


class _Node(NamedTuple):
    """A value, where it ends, and the places of its items if it is a list."""

    value: Value
    end: int
    items: tuple[Span, ...] = ()


def _iter_events(next_event: Callable[[], Any]) -> _Events:
    """Yield the events of a text. Raises YamlRefusal for aliases, tags and too many events."""
    for number in count(1):
        event = next_event()
        kind = type(event).__name__
        position = event.start_mark.index
        if number > MAX_EVENTS:
            raise YamlRefusal("yaml-size", f"more than {MAX_EVENTS:,} YAML events", position)
        if kind == "AliasEvent":
            raise YamlRefusal("yaml-alias", "aliases (`*name`) are not read", position)
        if getattr(event, "tag", None) not in (None, _TEXT_TAG):
            raise YamlRefusal("yaml-tag", "tags (`!name`) are not read", position)
        yield _Event(kind, event)


def _build_node(events: _Events, kind: str, event: Any, depth: int) -> _Node:
    """Return the value that starts with `event`."""
    if kind == "ScalarEvent":
        text = event.value if event.style else PlainScalar(event.value)
        return _Node(text, event.end_mark.index)
    start = event.start_mark.index
    if depth >= MAX_DEPTH:
        raise YamlRefusal("yaml-depth", f"more than {MAX_DEPTH} levels deep", start)
    end = start
    values: list[Value] = []  # of a mapping: a key, its value, the next key ...
    items: list[Span] = []
    for child_kind, child_event in events:
        if child_kind in _END_EVENTS:
            if event.flow_style:
                end = child_event.end_mark.index
            break
        node = _build_node(events, child_kind, child_event, depth + 1)
        end = node.end
        values.append(node.value)
        items.append(Span(child_event.start_mark.index, end))
    if kind == "SequenceStartEvent":
        return _Node(values, end, tuple(items))
    return _Node(_build_mapping(values), end)


def _build_mapping(values: list[Value]) -> dict[str, Value]:
    """Return the mapping of alternating keys and values; other keys than text are written out."""
    mapping: dict[str, Value] = {}
    for index in range(0, len(values), 2):
        key = values[index]
        name = key if isinstance(key, str) else format_flow(key)
        mapping[name] = values[index + 1]
    return mapping


def parse_entries(text: str) -> Entries:
    """Read the keys of a mapping.

    Raises YamlRefusal if the text is not a mapping, is too large, or has aliases or tags.
    """
    import yaml  # noqa: PLC0415 - 12 ms, and not all who import this read a header

    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    try:
        events = _iter_events(loader(text).get_event)
        return _build_entries(events)
    except yaml.YAMLError as error:
        raise _to_refusal(error) from None


def _to_refusal(error: Exception) -> YamlRefusal:
    """Return a refusal with the cause and the position of an error of the library."""
    cause = getattr(error, "problem", None) or getattr(error, "reason", None)
    message = f"the header is not YAML: {cause or 'it cannot be read'}"
    mark = getattr(error, "problem_mark", None)
    if not mark:
        mark = getattr(error, "context_mark", None)
    position = 0
    if mark:
        position = mark.index
    return YamlRefusal("yaml-syntax", message, position)


def _build_entries(events: _Events) -> Entries:
    next(events)  # the start of the stream
    if next(events).kind == "StreamEndEvent":
        return Entries()
    kind, root = next(events)
    if kind == "ScalarEvent" and not root.value:
        return Entries()
    if kind != "MappingStartEvent":
        message = "the header is not a list of `key: value`"
        raise YamlRefusal("header-not-mapping", message, root.start_mark.index)
    entries = tuple(_iter_entries(events))
    next(events)  # the end of the document
    kind, end = next(events)
    if kind != "StreamEndEvent":
        raise YamlRefusal("yaml-syntax", "more than one YAML document", end.start_mark.index)
    return Entries(entries, in_braces=bool(root.flow_style))


def _iter_entries(events: _Events) -> Iterator[Entry]:
    """Yield the keys of the root mapping, up to its end."""
    for key_kind, key_event in events:
        if key_kind == "MappingEndEvent":
            return
        key = _build_node(events, key_kind, key_event, depth=1)
        kind, event = next(events)
        node = _build_node(events, kind, event, depth=1)
        style = "block"
        if kind == "ScalarEvent":
            style = "scalar"
        elif event.flow_style:
            style = "flow"
        yield Entry(
            key=key.value if isinstance(key.value, str) else None,
            value=node.value,
            key_start=key_event.start_mark.index,
            key_end=key.end,
            start=event.start_mark.index,
            end=node.end,
            style=style,
            items=node.items,
        )


# -- a header -------------------------------------------------------------------------------------

_CHUNK = re.compile(r"^[^\s#\-\[\]{}][^\n:]{0,200}:(?=\s|\Z)", re.MULTILINE)
# `title: Use X: the good parts`, the commonest mistake: what is meant is plain.
_UNQUOTED_COLON = re.compile(r"([A-Za-z_][\w-]*):[ \t]+([^\s\"'\[{|>&*!#%@`][^\n]*)")
# A tag or an alias to YAML, meant as text.
_RESERVED_SIGN = re.compile(r"(?:[:\-] |[\[,] ?)([!*])\S{0,300}+\Z")
_MAX_CHUNKS = 200
_MAX_PROBLEMS = 20


class Header(NamedTuple):
    """A header as read."""

    kind: str = ""
    values: Mapping[str, Value] = {}  # key -> value, as written
    lines: Mapping[str, int] = {}  # key -> line in the file, 1-based
    body_start: int = 0  # where the body starts, in characters
    is_intact: bool = True  # all of it was read, so that it may be changed in place
    problems: tuple[Problem, ...] = ()


class _Key(NamedTuple):
    """A key as read, its value and its position; the name is None if it is not a scalar."""

    name: str | None
    value: Value
    position: int


def parse_yaml(text: str, first_line: int, body_start: int) -> Header:
    """Read the text between the two delimiters of a header, as far as possible.

    Args:
        text: The text between the delimiters.
        first_line: The line on which it starts.
        body_start: Where the body starts, in characters.
    """
    problems: list[Problem] = []
    control = _find_control_character(text)
    if control is None:
        values = parse_simple(text.strip("\n"))
        if values is not None:
            return _build_simple_header(values, text, first_line, body_start)
    else:
        line = first_line + text.count("\n", 0, control.start())
        message = "a control character in the header"
        problems.append(Problem("", line, "control-character", "error", message))
        text = re.sub(UNPRINTABLE, "\ufffd", text)
    try:
        entries = parse_entries(text).entries
    except YamlRefusal as error:
        problem = _build_problem(error, text, first_line)
        if problem.code == "header-not-mapping":
            return Header("", problems=(*problems, problem), is_intact=False)
        keys, key_problems = _salvage_keys(text, first_line)
        problems += key_problems or [problem]
    else:
        keys = [_Key(entry.key, entry.value, entry.key_start) for entry in entries]
    return _build_header(keys, text, first_line, body_start, problems)


def _find_control_character(text: str) -> re.Match[str] | None:
    joined_text = text.replace("\n", "")
    if joined_text.isprintable():
        return None
    return re.search(UNPRINTABLE, text)


def _build_simple_header(
    values: dict[str, Value], text: str, first_line: int, body_start: int
) -> Header:
    """Return a header with one key on each line."""
    lines: dict[str, int] = {}
    blank_lines = len(text) - len(text.lstrip("\n"))
    line = first_line + blank_lines
    for name in values:
        lines[name] = line
        line += 1
    return Header("yaml", values, lines, body_start)


def _build_header(
    keys: Iterable[_Key], text: str, first_line: int, body_start: int, problems: list[Problem]
) -> Header:
    """Return a header with these keys; `problems` are those found so far."""
    values: dict[str, Value] = {}
    lines: dict[str, int] = {}
    is_intact = not problems
    line = first_line
    counted_end = 0
    for name, value, position in keys:
        line += text.count("\n", counted_end, position)
        counted_end = position
        if name is None:
            message = "a key must be one word or line of text"
            problems.append(Problem("", line, "odd-key", "error", message))
            continue
        if name in values:
            is_intact = False
            message = f"`{name}` stands twice, first on line {lines[name]}; the lower one counts"
            problems.append(Problem("", line, "duplicate-key", "error", message))
        values[name] = value
        lines[name] = line
    return Header("yaml", values, lines, body_start, is_intact, tuple(problems))


def _build_problem(error: YamlRefusal, text: str, first_line: int) -> Problem:
    line = first_line + text.count("\n", 0, error.position)
    text_read = text[: error.position + 1]
    row = text_read.rpartition("\n")[2]
    message = f"{error.message}; {_format_hint(row)}"
    return Problem("", line, error.code, "error", message)


def _format_hint(row: str) -> str:
    """Return how to correct a header that cannot be read past the end of this row."""
    sign = _RESERVED_SIGN.search(row)
    if sign is None:
        return "correct the header"
    return f"quote a value that begins with `{sign[1]}`"


class Chunk(NamedTuple):
    """A part of a header that looks like one key with its value, and where it starts."""

    start: int
    text: str


def iter_chunks(text: str) -> Iterator[Chunk]:
    """Yield the parts of a header, one for each key."""
    borders = [match.start() for match in _CHUNK.finditer(text)]
    borders.append(len(text))
    for start, stop in pairwise(borders):
        yield Chunk(start, text[start:stop])


class _Salvage(NamedTuple):
    """The keys of a broken header that could be read, and the problems of the others."""

    keys: list[_Key]
    problems: list[Problem]


def _salvage_keys(text: str, first_line: int) -> _Salvage:
    """Read each key by itself, so that one bad value does not hide the others."""
    keys: list[_Key] = []
    problems: list[Problem] = []
    for start, chunk in islice(iter_chunks(text), _MAX_CHUNKS):
        try:
            entries = parse_entries(chunk).entries
        except YamlRefusal as error:
            line = first_line + text.count("\n", 0, start)
            problems.append(_build_problem(error, chunk, line))
            pair = _UNQUOTED_COLON.fullmatch(chunk.rstrip())
            if pair:
                keys.append(_Key(pair[1], PlainScalar(pair[2]), start))
            continue
        keys += [_Key(entry.key, entry.value, start + entry.key_start) for entry in entries]
    return _Salvage(keys, problems[:_MAX_PROBLEMS])
