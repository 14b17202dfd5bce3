"""The front matter: where it stands, in which language, and its keys with their lines. Never raises on text.

Delimiters are python-frontmatter's (a test compares them), and so is the reader of JSON headers, which lets us keep
numbers as written. Its YAML loader is not used: it retypes what people write (`no`, `1.10`), drops a header that is a
list, takes the last of two equal keys in silence, and crashes on deep nesting. Its TOML loader needs one more package
for what Python has by now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from filemem.record.yamltext import MAX_DEPTH, UNPRINTABLE, Plain, Refused, Value, flow, read_simple

if TYPE_CHECKING:
    from filemem.record.yamlevents import Entry

MAX_HEADER = 64 * 1024  # characters

# tomllib takes the square of a dotted key's length: 10 s for 40 kB of `a.a.a`.
_MAX_OTHER = 16 * 1024
_MOST_DOTS = 256

BOUNDARIES: Mapping[str, re.Pattern[str]] = {
    "yaml": re.compile(r"^-{3,}\s*$", re.MULTILINE),
    "toml": re.compile(r"^\+{3,}\s*$", re.MULTILINE),
    "json": re.compile(r"^(?:{|})$", re.MULTILINE),
}
_BLANK = re.compile(r"(?:[ \t]*\n)*+")
_CHUNK = re.compile(r"^[^\s#\-\[\]{}][^\n:]{0,200}:(?=\s|\Z)", re.MULTILINE)
# `title: Use X: the good parts`, the commonest mistake: what is meant is plain.
_UNQUOTED_COLON = re.compile(r"([A-Za-z_][\w-]*):[ \t]+([^\s\"'\[{|>&*!#%@`][^\n]*)")
_MOST_CHUNKS = 200
_MOST_NOTES = 20


class Note(NamedTuple):
    """A problem whose path is not yet known; fields as in Problem."""

    line: int
    code: str
    level: str
    message: str


class Split(NamedTuple):
    """Where the header stands. Positions are characters; `kind` is "" where there is none."""

    kind: str = ""
    start: int = 0
    end: int = 0
    body: int = 0
    notes: tuple[Note, ...] = ()


class Header(NamedTuple):
    """What the header says.

    Args:
        values: key -> value, as written.
        lines: key -> line in the file, 1-based.
        body: where the body starts, in characters.
        sound: whether the header could be read without loss, so that it may be amended.
    """

    kind: str = ""
    values: Mapping[str, Value] = {}
    lines: Mapping[str, int] = {}
    body: int = 0
    sound: bool = True
    notes: tuple[Note, ...] = ()


def split_header(text: str) -> Split:
    """Find the header of `text` (LF line endings, no byte order mark)."""
    blank = _BLANK.match(text)
    begin = blank.end() if blank else 0
    if text[begin : begin + 1] not in ("-", "+", "{"):
        return Split()
    for kind, boundary in BOUNDARIES.items():
        opened = boundary.match(text, begin)
        if not opened:
            continue
        line = text.count("\n", 0, begin) + 1
        closed = boundary.search(text, opened.end())
        if closed is None:
            # A brace alone is more likely text than a header; a `---` that nothing closes is an accident.
            message = f"the header opened by `{opened[0].strip()}` is never closed; all is read as text"
            note = Note(line, "header-unclosed", "error", message)
            return Split(notes=() if kind == "json" else (note,))
        body = closed.end() + (text[closed.end() : closed.end() + 1] == "\n")
        start, end = opened.end(), closed.start()
        if kind == "json":
            start, end = opened.start(), closed.end()
        return Split(kind, start, end, body)
    return Split()


def read_header(text: str) -> Header:
    """Read the header of `text` (LF line endings, no byte order mark), as far as it can be read."""
    split = split_header(text)
    if not split.kind:
        return Header(notes=split.notes, sound=not split.notes)
    header = text[split.start : split.end]
    first_line = text.count("\n", 0, split.start) + 1
    if len(header) > MAX_HEADER:
        note = Note(first_line, "header-size", "error", f"the header is larger than {MAX_HEADER // 1024} KiB")
        return Header(split.kind, body=split.body, sound=False, notes=(note,))
    if split.kind == "yaml":
        return _yaml_header(header, first_line, split.body)
    return _other_header(split.kind, header, first_line, split.body)


def _yaml_header(text: str, first_line: int, body: int) -> Header:
    notes: list[Note] = []
    if not text.replace("\n", "").isprintable() and (control := re.search(UNPRINTABLE, text)):
        at = first_line + text.count("\n", 0, control.start())
        notes.append(Note(at, "control-character", "error", "a control character in the header"))
        text = re.sub(UNPRINTABLE, "\ufffd", text)
    elif (simple := read_simple(text.strip("\n"))) is not None:
        above = first_line + len(text) - len(text.lstrip("\n"))
        return Header("yaml", simple, {key: above + n for n, key in enumerate(simple)}, body)
    found: list[tuple[str | None, Value, int]]
    sound = not notes
    try:
        found = [(entry.key, entry.value, entry.at) for entry in _entries(text)]
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
            notes.append(Note(line, "odd-key", "error", "a key must be one word or line of text"))
            continue
        if key in values:
            sound = False
            message = f"`{key}` stands twice, first on line {lines[key]}; the lower one counts"
            notes.append(Note(line, "duplicate-key", "error", message))
        values[key] = value
        lines[key] = line
    return Header("yaml", values, lines, body, sound, tuple(notes))


def _entries(text: str) -> list[Entry]:
    from filemem.record.yamlevents import read_entries  # noqa: PLC0415 - 20 ms; most headers are simple

    return read_entries(text)[0]


def _trouble(error: Refused, text: str, first_line: int) -> Note:
    line = first_line + text.count("\n", 0, error.at)
    return Note(line, error.code, "error", f"{error.message}; correct the header")


def chunks(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a header that begin with a `key:` each, with where they begin; by their look alone."""
    start = -1
    for match in _CHUNK.finditer(text):
        if start >= 0:
            yield start, text[start : match.start()]
        start = match.start()
    if start >= 0:
        yield start, text[start:]


def _salvage(text: str, first_line: int) -> tuple[list[tuple[str | None, Value, int]], list[Note]]:
    """Read each `key:` by itself, so that one bad value does not hide the others."""
    found: list[tuple[str | None, Value, int]] = []
    lost: list[Note] = []
    for start, chunk in islice(chunks(text), _MOST_CHUNKS):
        try:
            entries = _entries(chunk)
        except Refused as error:
            if len(lost) < _MOST_NOTES:
                lost.append(_trouble(error, chunk, first_line + text.count("\n", 0, start)))
            if meant := _UNQUOTED_COLON.fullmatch(chunk.rstrip()):
                found.append((meant[1], Plain(meant[2]), start))
        else:
            found += [(entry.key, entry.value, start + entry.at) for entry in entries]
    return found, lost


def _other_header(kind: str, text: str, first_line: int, body: int) -> Header:
    try:
        if len(text) > _MAX_OTHER or any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
            raise ValueError(f"larger than {_MAX_OTHER // 1024} KiB, or a line has too many dots")
        values = dict(_LOADERS[kind](text))
    except (ValueError, RecursionError) as error:
        at = getattr(error, "lineno", 1) if kind == "json" else _toml_line(str(error))
        why = "it nests too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        message = f"the header cannot be read as {kind.upper()}: {why}"
        note = Note(first_line + at - 1, f"{kind}-syntax", "error", message)
        return Header(kind, body=body, sound=False, notes=(note,))
    lines = {key: first_line + max(0, _line_of(key, text)) for key in values}
    return Header(kind, values, lines, body)


def _toml_line(message: str) -> int:
    found = re.search(r"at line (\d{1,6})", message)
    return int(found[1]) if found else 1


def _line_of(key: str, text: str) -> int:
    at = text.find(key)
    return text.count("\n", 0, at) if at >= 0 else 0


def _json(text: str) -> Iterator[tuple[str, Value]]:
    from frontmatter.default_handlers import JSONHandler  # noqa: PLC0415 - 30 ms for a header that few files have

    loaded = JSONHandler().load(text, parse_int=Plain, parse_float=Plain, parse_constant=Plain)
    for key, value in loaded.items():
        yield key, _as_written(value, 1)


def _toml(text: str) -> Iterator[tuple[str, Value]]:
    import tomllib  # noqa: PLC0415 - 12 ms for a header that few files have

    for key, value in tomllib.loads(text, parse_float=Plain).items():
        yield key, _as_written(value, 1)


_LOADERS: dict[str, Callable[[str], Iterator[tuple[str, Value]]]] = {"json": _json, "toml": _toml}


def _as_written(value: object, depth: int) -> Value:
    if isinstance(value, str):
        return value
    if depth >= MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        return {str(key): _as_written(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item, depth + 1) for item in value]
    if value is None or isinstance(value, bool | int):
        return Plain(flow(value))
    isoformat = getattr(value, "isoformat", None)
    return Plain(isoformat() if isoformat else str(value))
