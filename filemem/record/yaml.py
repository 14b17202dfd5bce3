"""YAML as front matter uses it: every scalar read as it is written; written so that no reader, 1.1 or 1.2, retypes it.

What is not in the simple form that we write is read from the events of the library's parser, under a guard. Nothing is
ever composed by the library: its composer recurses in C and a 30 kB file of brackets ends the process. The only
importer of yaml besides python-frontmatter, at first need: it costs as much as a search.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

from filemem.record.lines import valid
from filemem.record.model import Problem

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
        self.code, self.message, self.at = code, message, at


_WORDS = r"\w(?:[\w./@+*\-]| (?=[\w./@+*\-]))*+"
_QUOTED = '"[^"\\\\\t\x85\u2028\u2029]*+"'
_ITEM = rf"(?:{_WORDS}|{_QUOTED})"
_KEY = "[A-Za-z_][A-Za-z0-9_-]*+"
_PAIR = rf"{_KEY}: {_ITEM}"
_SIMPLE_LINE = re.compile(
    rf"({_KEY}): (?:({_WORDS})|({_QUOTED})|\[((?:{_ITEM}(?:, {_ITEM})*+)?)\]|{{({_PAIR}(?:, {_PAIR}){{0,999}}+)}})"
)
_SIMPLE_PAIR = re.compile(rf"({_KEY}): ({_ITEM})")
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
        key, plain, quoted, items, pairs = match.groups()
        if plain is not None:
            values[key] = Plain(plain)
        elif quoted is not None:
            values[key] = quoted[1:-1]
        elif pairs is not None:
            values[key] = {name: _item(value) for name, value in _SIMPLE_PAIR.findall(pairs)}
        else:
            values[key] = [_item(item) for item in _SIMPLE_ITEM.findall(items)]
    return values


def _item(text: str) -> Value:
    return text[1:-1] if text[0] == '"' else Plain(text)


# Letters first, so that it is no number, date or sign; no character that means anything inside `[ ]` or `{ }`.
_SAFE = re.compile(r"[^\W\d_](?:[\w./@+*\-]| (?=[\w./@+*\-]))*")
_RETYPED = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf")
)
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


def scalar(text: str) -> str:
    """Return `text` as one line of YAML that every reader takes for exactly this string."""
    text = valid(text)
    if _SAFE.fullmatch(text) and text.lower() not in _RETYPED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(_ESCAPED, lambda found: f"\\u{ord(found[0]):04x}", quoted)


def flow(value: object) -> str:
    """Return a value as one line of YAML in flow style; numbers, booleans and None as JSON writes them."""
    if isinstance(value, str):
        return scalar(value)
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{scalar(str(key))}: {flow(item)}" for key, item in value.items())
            + "}"
        )
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


# -- any other form -------------------------------------------------------------------------------

MAX_EVENTS = 5_000
_TEXT_TAG = "tag:yaml.org,2002:str"  # `!!str` says what we do anyway

Spans = tuple[tuple[int, int], ...]


class Entry(NamedTuple):
    """One key of the root mapping. Positions are characters from the start of the text that was read."""

    key: str | None  # the key, None where it is not a scalar
    value: Value  # what stands there
    at: int  # start of the key; `key_end` where it ends, before the colon
    key_end: int
    start: int  # start of the value; `end` the end of its last character, comments and blank lines excluded
    end: int
    style: str  # "scalar", "flow" or "block"
    items: Spans = ()  # where each item of a list starts and ends


_Events = Iterator[tuple[str, Any]]


def _events(next_event: Callable[[], Any]) -> _Events:
    """Yield the events of one text and their kinds; too many of them, aliases and tags are refused."""
    for number in count(1):
        event = next_event()
        kind, at = type(event).__name__, event.start_mark.index
        if number > MAX_EVENTS:
            raise Refused("yaml-size", f"more than {MAX_EVENTS:,} YAML events", at)
        if kind == "AliasEvent":
            raise Refused("yaml-alias", "aliases (`*name`) are not read", at)
        if getattr(event, "tag", None) not in (None, _TEXT_TAG):
            raise Refused("yaml-tag", "tags (`!name`) are not read", at)
        yield kind, event


def _node(events: _Events, kind: str, event: Any, depth: int) -> tuple[Value, int, Spans]:
    """Return the value that starts with `event`, where it ends, and where its items stand."""
    if kind == "ScalarEvent":
        return (event.value if event.style else Plain(event.value)), event.end_mark.index, ()
    end = event.start_mark.index
    if depth >= MAX_DEPTH:
        raise Refused("yaml-depth", f"more than {MAX_DEPTH} levels deep", end)
    values: list[Value] = []  # of a mapping: a key, its value, the next key ...
    items: list[tuple[int, int]] = []
    while (found := next(events))[0] not in ("SequenceEndEvent", "MappingEndEvent"):
        value, end, _ = _node(events, *found, depth + 1)
        values.append(value)
        items.append((found[1].start_mark.index, end))
    end = found[1].end_mark.index if event.flow_style else end
    if kind == "SequenceStartEvent":
        return values, end, tuple(items)
    keys = (key if isinstance(key, str) else flow(key) for key in values[::2])
    return dict(zip(keys, values[1::2], strict=True)), end, ()


def read_entries(text: str) -> tuple[list[Entry], bool]:
    """The keys of a mapping, and whether it is written in braces; Refused if it is none, too large, or has aliases."""
    import yaml  # noqa: PLC0415 - 12 ms, and not all who import this read a header

    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    try:
        return _entries(_events(loader(text).get_event))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = (
            getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        )
        raise Refused(
            "yaml-syntax", f"the header is not YAML: {what}", mark.index if mark else 0
        ) from None


def _entries(events: _Events) -> tuple[list[Entry], bool]:
    next(events)
    if next(events)[0] == "StreamEndEvent":
        return [], False
    kind, root = next(events)
    if kind != "MappingStartEvent":
        if kind == "ScalarEvent" and not root.value:
            return [], False
        raise Refused(
            "header-not-mapping", "the header is not a list of `key: value`", root.start_mark.index
        )
    entries: list[Entry] = []
    while (found := next(events))[0] != "MappingEndEvent":
        key, key_end, _ = _node(events, *found, 1)
        kind, first = next(events)
        value, end, items = _node(events, kind, first, 1)
        style = "scalar" if kind == "ScalarEvent" else "flow" if first.flow_style else "block"
        name, at = key if isinstance(key, str) else None, found[1].start_mark.index
        entries.append(Entry(name, value, at, key_end, first.start_mark.index, end, style, items))
    next(events)
    if (after := next(events))[0] != "StreamEndEvent":
        raise Refused("yaml-syntax", "more than one YAML document", after[1].start_mark.index)
    return entries, bool(root.flow_style)


# -- a header -------------------------------------------------------------------------------------

_CHUNK = re.compile(r"^[^\s#\-\[\]{}][^\n:]{0,200}:(?=\s|\Z)", re.MULTILINE)
# `title: Use X: the good parts`, the commonest mistake: what is meant is plain.
_UNQUOTED_COLON = re.compile(r"([A-Za-z_][\w-]*):[ \t]+([^\s\"'\[{|>&*!#%@`][^\n]*)")
_SIGN = re.compile(
    r"(?:[:\-] |[\[,] ?)([!*])\S{0,300}+\Z"
)  # a tag or an alias to YAML, meant as text
_MOST_CHUNKS = 200
_MOST_NOTES = 20


class Header(NamedTuple):
    """What the header says."""

    kind: str = ""
    values: Mapping[str, Value] = {}  # key -> value, as written
    lines: Mapping[str, int] = {}  # key -> line in the file, 1-based
    body: int = 0  # where the body starts, in characters
    sound: bool = True  # whether the header could be read without loss, so that it may be amended
    notes: tuple[Problem, ...] = ()


def read_yaml(text: str, first_line: int, body: int) -> Header:
    """Read the text between two delimiters, as far as it can be read; `body` is where the text below it starts."""
    notes: list[Problem] = []
    if not text.replace("\n", "").isprintable() and (control := re.search(UNPRINTABLE, text)):
        at = first_line + text.count("\n", 0, control.start())
        notes.append(
            Problem("", at, "control-character", "error", "a control character in the header")
        )
        text = re.sub(UNPRINTABLE, "\ufffd", text)
    elif (simple := read_simple(text.strip("\n"))) is not None:
        above = first_line + len(text) - len(text.lstrip("\n"))
        return Header("yaml", simple, {key: above + n for n, key in enumerate(simple)}, body)
    found: list[tuple[str | None, Value, int]]
    sound = not notes
    try:
        found = [(entry.key, entry.value, entry.at) for entry in read_entries(text)[0]]
    except Refused as error:
        trouble = _trouble(error, text, first_line)
        if trouble.code == "header-not-mapping":
            return Header("", notes=(*notes, trouble), sound=False)
        sound = False
        found, lost = _salvage(text, first_line)
        notes += lost or [trouble]
    values: dict[str, Value] = {}
    lines: dict[str, int] = {}
    line, seen = first_line, 0
    for key, value, at in found:
        line, seen = line + text.count("\n", seen, at), at
        if key is None:
            notes.append(
                Problem("", line, "odd-key", "error", "a key must be one word or line of text")
            )
            continue
        if key in values:
            sound = False
            message = f"`{key}` stands twice, first on line {lines[key]}; the lower one counts"
            notes.append(Problem("", line, "duplicate-key", "error", message))
        values[key] = value
        lines[key] = line
    return Header("yaml", values, lines, body, sound, tuple(notes))


def _trouble(error: Refused, text: str, first_line: int) -> Problem:
    line = first_line + text.count("\n", 0, error.at)
    row = text[: error.at + 1].rpartition("\n")[2]
    message = f"{error.message}; {_way_out(row)}"
    return Problem("", line, error.code, "error", message)


def _way_out(row: str) -> str:
    """How to mend a header that is read no further than the end of this row."""
    sign = _SIGN.search(row)
    return f"quote a value that begins with `{sign[1]}`" if sign else "correct the header"


def chunks(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a header that begin with a `key:` each, with where they begin; by their look alone."""
    starts = [match.start() for match in _CHUNK.finditer(text)]
    for start, stop in pairwise([*starts, len(text)]):
        yield start, text[start:stop]


def _salvage(
    text: str, first_line: int
) -> tuple[list[tuple[str | None, Value, int]], list[Problem]]:
    """Read each `key:` by itself, so that one bad value does not hide the others."""
    found: list[tuple[str | None, Value, int]] = []
    lost: list[Problem] = []
    for start, chunk in islice(chunks(text), _MOST_CHUNKS):
        try:
            entries, _ = read_entries(chunk)
        except Refused as error:
            if len(lost) < _MOST_NOTES:
                lost.append(_trouble(error, chunk, first_line + text.count("\n", 0, start)))
            if meant := _UNQUOTED_COLON.fullmatch(chunk.rstrip()):
                found.append((meant[1], Plain(meant[2]), start))
        else:
            found += [(entry.key, entry.value, start + entry.at) for entry in entries]
    return found, lost
