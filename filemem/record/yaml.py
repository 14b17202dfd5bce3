"""YAML as front matter uses it, read as it is written, and written so that no reader retypes it.

What is not in the simple form that we write is read from the events of the library's parser, under
a guard. Nothing is ever composed by the library: its composer recurses in C and a 30 kB file of
brackets ends the process. The only importer of yaml besides python-frontmatter, at first need: it
costs as much as a search.
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
    """A scalar that stands without quotes: inside `metadata` such a value may be a number."""

    __slots__ = ()


Value = str | list["Value"] | dict[str, "Value"]


class YamlRefusal(Exception):
    """The text is YAML that is not read: `code` as in problems, `at` the position of the cause."""

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
    """Return the mapping of a header whose lines are `key: value` in the form that `flow` writes.

    This is most headers, at a tenth of the cost. None: `read_entries` must look.
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
            values[key] = {name: _parse_item(value) for name, value in _SIMPLE_PAIR.findall(pairs)}
        else:
            values[key] = [_parse_item(item) for item in _SIMPLE_ITEM.findall(items)]
    return values


def _parse_item(text: str) -> Value:
    return text[1:-1] if text[0] == '"' else PlainScalar(text)


# Letters first, so that it is no number, date or sign; no character with a meaning in `[ ]`, `{ }`.
_SAFE_SCALAR = re.compile(r"[^\W\d_](?:[\w./@+*\-]| (?=[\w./@+*\-]))*")
_RESERVED_WORDS = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf")
)
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


def format_scalar(text: str) -> str:
    """Return `text` as one line of YAML that every reader takes for exactly this string."""
    text = replace_surrogates(text)
    if _SAFE_SCALAR.fullmatch(text) and text.lower() not in _RESERVED_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(_ESCAPED, lambda match: f"\\u{ord(match[0]):04x}", quoted)


def format_flow(value: object) -> str:
    """Return a value as one line of YAML in flow style; numbers, booleans, None as in JSON."""
    if isinstance(value, str):
        return format_scalar(value)
    if isinstance(value, Mapping):
        pairs = (f"{format_scalar(str(key))}: {format_flow(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_flow(item) for item in value) + "]"
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return json.dumps(value) if is_number or value is None else format_scalar(str(value))


_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,299})(\.\d{1,300})?([eE][+-]?\d{1,4})?", re.ASCII)
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


def to_typed_value(value: Value) -> object:
    """Return a value of `metadata`: plain JSON numbers, `true`, `false`, `null` get their type."""
    if isinstance(value, dict):
        return {str(key): to_typed_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_typed_value(item) for item in value]
    return _to_typed_scalar(value) if isinstance(value, PlainScalar) else value


def _to_typed_scalar(text: PlainScalar) -> object:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    match = _NUMBER.fullmatch(text)
    if match is None:
        return str(text)
    if not (match[1] or match[2]):
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else str(text)


# -- any other form -------------------------------------------------------------------------------

MAX_EVENTS = 5_000
_TEXT_TAG = "tag:yaml.org,2002:str"  # `!!str` says what we do anyway

_END_EVENTS = ("SequenceEndEvent", "MappingEndEvent")


class Span(NamedTuple):
    """Where something starts and ends, in characters from the start of the text."""

    start: int
    stop: int


class Entry(NamedTuple):
    """One key of the root mapping. Positions are as in a Span.

    The key is at `at` to `key_end`, the colon excluded; the value at `start` to `end`, comments and
    blank lines below it excluded.
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
    """A value, where it ends, and the items of a list."""

    value: Value
    end: int
    items: tuple[Span, ...] = ()


def _iter_events(next_event: Callable[[], Any]) -> _Events:
    """Yield the events of one text; too many of them, aliases and tags are refused."""
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
        return _Node(event.value if event.style else PlainScalar(event.value), event.end_mark.index)
    end = event.start_mark.index
    if depth >= MAX_DEPTH:
        raise YamlRefusal("yaml-depth", f"more than {MAX_DEPTH} levels deep", end)
    values: list[Value] = []  # of a mapping: a key, its value, the next key ...
    items: list[Span] = []
    for child_kind, child_event in events:
        if child_kind in _END_EVENTS:
            end = child_event.end_mark.index if event.flow_style else end
            break
        node = _build_node(events, child_kind, child_event, depth + 1)
        end = node.end
        values.append(node.value)
        items.append(Span(child_event.start_mark.index, end))
    if kind == "SequenceStartEvent":
        return _Node(values, end, tuple(items))
    keys = (key if isinstance(key, str) else format_flow(key) for key in values[::2])
    return _Node(dict(zip(keys, values[1::2], strict=True)), end)


def parse_entries(text: str) -> Entries:
    """Read the keys of a mapping. Raises Refused if it is none, too large, or has aliases."""
    import yaml  # noqa: PLC0415 - 12 ms, and not all who import this read a header

    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    try:
        return _build_entries(_iter_events(loader(text).get_event))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        message = f"the header is not YAML: {problem or 'it cannot be read'}"
        raise YamlRefusal("yaml-syntax", message, mark.index if mark else 0) from None


def _build_entries(events: _Events) -> Entries:
    next(events)
    if next(events).kind == "StreamEndEvent":
        return Entries()
    kind, root = next(events)
    if kind == "ScalarEvent" and not root.value:
        return Entries()
    if kind != "MappingStartEvent":
        message = "the header is not a list of `key: value`"
        raise YamlRefusal("header-not-mapping", message, root.start_mark.index)
    entries = tuple(_iter_entries(events))
    next(events)
    end = next(events)
    if end.kind != "StreamEndEvent":
        raise YamlRefusal("yaml-syntax", "more than one YAML document", end.event.start_mark.index)
    return Entries(entries, bool(root.flow_style))


def _iter_entries(events: _Events) -> Iterator[Entry]:
    """Yield the keys of the root mapping, up to its end."""
    for kind, event in events:
        if kind == "MappingEndEvent":
            return
        key = _build_node(events, kind, event, 1)
        value_kind, value_event = next(events)
        value, end, items = _build_node(events, value_kind, value_event, 1)
        style = "flow" if value_kind != "ScalarEvent" and value_event.flow_style else "block"
        yield Entry(
            key.value if isinstance(key.value, str) else None,
            value,
            event.start_mark.index,
            key.end,
            value_event.start_mark.index,
            end,
            "scalar" if value_kind == "ScalarEvent" else style,
            items,
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
    """What the header says."""

    kind: str = ""
    values: Mapping[str, Value] = {}  # key -> value, as written
    lines: Mapping[str, int] = {}  # key -> line in the file, 1-based
    body_start: int = 0  # where the body starts, in characters
    is_intact: bool = (
        True  # whether the header could be read without loss, so that it may be amended
    )
    problems: tuple[Problem, ...] = ()


class _Key(NamedTuple):
    """A key as it was read, its value, and where it stands."""

    name: str | None
    value: Value
    position: int


def parse_yaml(text: str, first_line: int, body: int) -> Header:
    """Read the text between two delimiters, as far as it can be read.

    `body` is where the text below it starts.
    """
    problems: list[Problem] = []
    joined_text = text.replace("\n", "")
    control = None if joined_text.isprintable() else re.search(UNPRINTABLE, text)
    simple_values = None if control else parse_simple(text.strip("\n"))
    if simple_values is not None:
        first_key_line = first_line + len(text) - len(text.lstrip("\n"))
        return Header(
            "yaml",
            simple_values,
            {key: first_key_line + n for n, key in enumerate(simple_values)},
            body,
        )
    if control:
        line = first_line + text.count("\n", 0, control.start())
        message = "a control character in the header"
        problems.append(Problem("", line, "control-character", "error", message))
        text = re.sub(UNPRINTABLE, "\ufffd", text)
    try:
        keys = [
            _Key(entry.key, entry.value, entry.key_start) for entry in parse_entries(text).entries
        ]
    except YamlRefusal as error:
        problem = _build_problem(error, text, first_line)
        if problem.code == "header-not-mapping":
            return Header("", problems=(*problems, problem), is_intact=False)
        keys, lost_problems = _salvage_keys(text, first_line)
        problems += lost_problems or [problem]
    return _build_header(keys, text, first_line, body, problems)


def _build_header(
    keys: Iterable[_Key], text: str, first_line: int, body: int, problems: list[Problem]
) -> Header:
    """Return a header with these keys; `notes` are what was wrong with it so far."""
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
    return Header("yaml", values, lines, body, is_intact, tuple(problems))


def _build_problem(error: YamlRefusal, text: str, first_line: int) -> Problem:
    line = first_line + text.count("\n", 0, error.position)
    row = text[: error.position + 1].rpartition("\n")[2]
    message = f"{error.message}; {_format_hint(row)}"
    return Problem("", line, error.code, "error", message)


def _format_hint(row: str) -> str:
    """How to mend a header that is read no further than the end of this row."""
    sign = _RESERVED_SIGN.search(row)
    return f"quote a value that begins with `{sign[1]}`" if sign else "correct the header"


class Chunk(NamedTuple):
    """A part of a header that by its look begins with `key:`, and where it begins."""

    start: int
    text: str


def iter_chunks(text: str) -> Iterator[Chunk]:
    """Yield the parts of a header, a key each."""
    starts = [match.start() for match in _CHUNK.finditer(text)]
    for start, stop in pairwise([*starts, len(text)]):
        yield Chunk(start, text[start:stop])


class _Salvage(NamedTuple):
    keys: list[_Key]
    problems: list[Problem]


def _salvage_keys(text: str, first_line: int) -> _Salvage:
    """Read each `key:` by itself, so that one bad value does not hide the others."""
    keys: list[_Key] = []
    problems: list[Problem] = []
    for start, chunk in islice(iter_chunks(text), _MAX_CHUNKS):
        try:
            entries = parse_entries(chunk).entries
        except YamlRefusal as error:
            problems.append(_build_problem(error, chunk, first_line + text.count("\n", 0, start)))
            pair = _UNQUOTED_COLON.fullmatch(chunk.rstrip())
            if pair:
                keys.append(_Key(pair[1], PlainScalar(pair[2]), start))
        else:
            keys += [_Key(entry.key, entry.value, start + entry.key_start) for entry in entries]
    return _Salvage(keys, problems[:_MAX_PROBLEMS])
