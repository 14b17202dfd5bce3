"""The front matter keys, as one table: reading, writing, amending, schemas and docs follow it.

A value that cannot be used is a problem and stays under its key, as does a key that is not ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem.record.adr_read import field_named
from filemem.record.body import parse_outcome
from filemem.record.guards import read_guards
from filemem.record.lines import one_line
from filemem.record.links import links_in, links_of_field, stated_references
from filemem.record.model import (
    CHECKPOINT,
    DECIDERS,
    DECISION,
    KINDS,
    OBSERVATION,
    OUTCOMES,
    STATUSES,
    TYPES,
    UNKNOWN,
    UNKNOWN_STATUS,
    VISIBILITIES,
    Edge,
    Problem,
)
from filemem.record.status import Stated, read_status
from filemem.record.times import parse_time
from filemem.record.yaml import Header, Plain, Value, flow, typed

TEXT = "text"
CHOICE = "choice"
LIST = "list"
WORDS = "words"
EDGES = "edges"
TIME = "time"
SHARE = "share"
MAPPING = "mapping"
FLAG = "flag"
ORIGIN = "origin"
GUARDS = "guards"


class Key(NamedTuple):
    """One front matter key: its name, the shape of its value, the types it is for.

    Shapes: a choice is one of `choices`; a list is of text, a lone value a list of one, and of
    words it is split at commas; edges are ids, paths or links of other records; a share is between
    0 and 1; a flag is the word `allowed`; an origin is text, or a mapping of text; guards are
    mappings, which `record/guards` reads.
    """

    name: str
    shape: str
    types: tuple[str, ...] = TYPES
    choices: tuple[str, ...] = ()
    fills: str = ""  # the field, where that has another name

    @property
    def field(self) -> str:
        """The field of a Record that the key fills."""
        return self.fills or self.name


_D = (DECISION,)
_C = (CHECKPOINT,)
_O = (OBSERVATION,)

# The order is the order in which new files are written.
KEYS: tuple[Key, ...] = (
    Key("id", TEXT),
    Key("type", CHOICE, choices=TYPES),
    Key("topic", TEXT, _D),
    Key("created", TIME),
    Key("status", CHOICE, _D, STATUSES),
    Key("confidence", SHARE, _D),
    Key("outcome", CHOICE, _D, OUTCOMES),
    Key("limitation", TEXT, _D),
    Key("decided_by", CHOICE, _D, DECIDERS),
    Key("supersedes", EDGES, _D),
    Key("builds_on", EDGES, _D),
    Key("debates", EDGES, _D),
    Key("synthesizes", EDGES, _D),
    Key("affects", LIST, _D),
    Key("guards", GUARDS, _D),
    Key("branch", TEXT, _C),
    Key("open_files", LIST, _C),
    Key("kind", CHOICE, _O, KINDS),
    Key("project", TEXT, _O),
    Key("concepts", WORDS, _O),
    Key("files_read", LIST, _O),
    Key("files_modified", LIST, _O),
    Key("department", TEXT, _O),
    Key("visibility", CHOICE, _O, VISIBILITIES),
    Key("user_id", TEXT, _O),
    Key("agent_id", TEXT, _O),
    Key("run_id", TEXT, _O),
    Key("scope", TEXT, _O),
    Key("memory_type", TEXT, _O),
    Key("tags", WORDS),
    Key("agent", TEXT),
    Key("session", TEXT),
    Key("source", ORIGIN),
    Key("secrets", FLAG, fills="secrets_allowed"),
    Key("metadata", MAPPING, _O),
)
KEY_BY_NAME = {key.name: key for key in KEYS}
KEY_ORDER = {key.name: place for place, key in enumerate(KEYS)}

SECRETS_ALLOWED = "allowed"

# Names that other makers use for ours. If both stand there, ours counts and theirs is kept as an
# unknown key.
ALIASES = {"date": "created", "replaces": "supersedes", "stage": "status", "state": "status"}
ALIASES |= {"guard": "guards"}
ALIASES |= dict.fromkeys(("superseded_by", "supersededby", "replaced_by"), "superseded_by")
_OF_FIELD = {"status": "status", "date": "created", "created": "created"}
# What we read and never write.
SUPERSEDED_BY = Key("superseded_by", EDGES, _D)
TITLE = Key("title", TEXT)
NAMES = frozenset((*KEY_BY_NAME, *ALIASES, TITLE.name))  # that tell a header from other text


# -- how a value of each shape is read ------------------------------------------------------------

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_ONE_WORD = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")


class WrongValue(Exception):
    """A value is not what its key asks for; the text says what was expected."""


class WrongGuards(WrongValue):
    """The text says what is wrong, and where."""


def quoted(value: Value) -> str:
    """Return a value as a message shows it, cut to 80 characters."""
    text = flow(value)
    text = text if isinstance(value, list | dict) or text.startswith('"') else f'"{text}"'
    return text if len(text) <= 80 else f"{text[:77]}..."


def _plain(value: Value) -> str:
    if isinstance(value, dict) and list(value.values()) == [""]:
        (value,) = value  # `{accepted}`: a template's braces left in
    if not isinstance(value, str):
        raise WrongValue("text")
    return str(value)


def _id(value: Value) -> str:
    text = _plain(value)
    if not _ONE_WORD.fullmatch(text):
        raise WrongValue("one word without slashes")
    return text


def _time(value: Value) -> int:
    time = parse_time(_plain(value))
    if time is None:
        raise WrongValue("a date or time such as 2025-11-20T14:46:40.123Z")
    return time


def _share(value: Value) -> float:
    text = _plain(value)
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise WrongValue("a number between 0 and 1")
    return share


def _flag(value: Value) -> bool:
    if _plain(value).strip() != SECRETS_ALLOWED:
        raise WrongValue(f"the word {SECRETS_ALLOWED}")
    return True


def _choice(value: Value, key: Key) -> str:
    text = _plain(value).strip()
    if key.name == "status":
        return text  # `read_status` looks at it
    choice = parse_outcome(text) if key.name == "outcome" else text.casefold()
    if choice not in key.choices:
        raise WrongValue(f"one of {', '.join(key.choices)}")
    return choice


def _mapping(value: Value) -> dict[str, object]:
    if not isinstance(value, dict):
        raise WrongValue("a mapping")
    return {str(name): typed(item) for name, item in value.items()}


def _origin(value: Value) -> str | dict[str, str]:
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return {str(name): str(item) for name, item in value.items()}
    return _plain(value)


def _guards(value: Value) -> object:
    try:
        return read_guards(value)
    except ValueError as error:
        raise WrongGuards(str(error)) from None


def _edges(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        return stated_references(str(value))
    return _list([_unwrapped(item) for item in value] if isinstance(value, list) else value)


def _unwrapped(item: Value) -> Value:
    """Return a link; `[[x]]` without quotes is a list in a list."""
    return f"[[{item[0]}]]" if isinstance(item, list) and len(item) == 1 else item


def _words(value: Value) -> tuple[str, ...]:
    if isinstance(value, Plain):
        return tuple(word(part) for part in map(str.strip, value.split(",")) if part)
    return tuple(map(word, _list(value)))


def _list(value: Value) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if any(not isinstance(item, str) for item in items):
        raise WrongValue("a list of text")
    return tuple(str(item) for item in items if item and not _is_null(item))


_READERS: Mapping[str, Callable[[Value], object]] = {
    TEXT: _plain,
    LIST: _list,
    WORDS: _words,
    EDGES: _edges,
    TIME: _time,
    SHARE: _share,
    MAPPING: _mapping,
    FLAG: _flag,
    ORIGIN: _origin,
    GUARDS: _guards,
}


def _read(value: Value, key: Key) -> object:
    """Return a value in the shape of its key. Raises WrongValue."""
    if key.shape == CHOICE:
        return _choice(value, key)
    return _id(value) if key.name == "id" else _READERS[key.shape](value)


def word(text: str) -> str:
    """Return a tag or concept without the `#` that some tools put in front."""
    return text.lstrip("#") or text


def _is_null(value: Value) -> bool:
    return isinstance(value, Plain) and value in _NULL


# -- from a header to the fields of a Record ------------------------------------------------------


class Fields(NamedTuple):
    """What a header says: fields of a Record, and what is not understood, under its key."""

    fields: dict[str, object]
    extra: dict[str, object]


def read_fields(header: Header, notes: list[Problem]) -> Fields:
    """Return the fields of the Record to be, and what stays under its key.

    Problems are added to `notes`.
    """
    fields: dict[str, object] = {}
    reading = _Reading(header, fields, {}, notes)
    for name, value in header.values.items():
        reading.add(name, value)
    fields["id_stated"] = "id" in fields
    if fields.get("topic"):
        fields["topic_stated"] = True
    return Fields(fields, reading.extra)


class _Reading(NamedTuple):
    """A header half read."""

    header: Header
    fields: dict[str, object]
    extra: dict[str, object]
    notes: list[Problem]

    def add(self, name: str, value: Value) -> None:
        """Take the value of one key."""
        key = _key_of(name, self.header.values, self.fields)
        if key is None:
            self.extra[name] = value
            add_edges(self.fields, links_of_field(name, flow(value).strip("[]")) or ())
        elif not _is_null(value):  # a template's blank is nothing stated
            try:
                self._fill(name, key, _read(value, key))
            except WrongValue as wrong:
                self.extra[name] = value
                self.notes.append(self._complaint(name, key, wrong))

    def _fill(self, name: str, key: Key, value: object) -> None:
        if key.name == "status":
            self._add_status(name, str(value))
        elif key.shape == EDGES and self.fields.get(key.field):
            add_links(self.fields, key.field, value)
        else:
            self.fields[key.field] = value

    def _add_status(self, name: str, text: str) -> None:
        stated = read_status(text)
        self.notes.extend(note_status(stated, self.header.lines.get(name, 1), self.fields))
        if stated.status != text:
            self.extra[name] = text
        add_edges(self.fields, links_in(text))

    def _complaint(self, name: str, key: Key, wrong: WrongValue) -> Problem:
        if isinstance(wrong, WrongGuards):
            message = f"{name} cannot be read: {wrong}"
        else:
            message = f"{name} must be {wrong}, not {quoted(self.header.values[name])}"
        # Other makers have types of their own; what states an `id` is ours.
        is_theirs = key.name == "type" and "id" not in self.header.values
        code = f"bad-{key.name.replace('_', '-')}"
        line = self.header.lines.get(name, 1)
        return Problem("", line, code, "hint" if is_theirs else "warning", message)


def note_status(stated: Stated, line: int, fields: dict[str, object]) -> Iterator[Problem]:
    """Put a status into the fields; yield the problem that it is not understood."""
    if stated.status:
        fields["status"] = stated.status
    if stated.status == UNKNOWN:
        fields["status_written"] = stated.written
        message = f'status not understood: "{stated.written}"'
        yield Problem("", line, UNKNOWN_STATUS, "warning", message)


def stated_title(header: Header) -> str:
    """Return the title that a header states, or ""."""
    value = header.values.get(TITLE.name, "")
    return one_line(value) if isinstance(value, str) and not _is_null(value) else ""


def _key_of(name: str, values: Mapping[str, Value], fields: Mapping[str, object]) -> Key | None:
    """Return our key of a name, or None.

    Another maker's name (`date`, `Created`, `superseded-by`) is ours too, unless ours stands there.
    """
    key = TITLE if name == TITLE.name else KEY_BY_NAME.get(name)
    if key is not None:
        return key
    plain = name.lower().replace("-", "_")
    label = field_named(name) if isinstance(values[name], str) else ""
    ours = ALIASES.get(plain) or _OF_FIELD.get(label, plain)
    key = SUPERSEDED_BY if ours == SUPERSEDED_BY.name else KEY_BY_NAME.get(ours)
    if key is None or ours in values.keys() - {name} or key.field in fields:
        return None
    return key


def add_edges(fields: dict[str, object], edges: Iterable[Edge]) -> None:
    """Add links that a text states to the fields for their kinds."""
    for edge in edges:
        if edge.kind in ("supersedes", "superseded_by"):
            add_links(fields, edge.kind, (edge.target,))
        else:
            add_links(fields, "mentions", (edge,))


def add_links(fields: dict[str, object], field: str, links: object) -> None:
    """Add links to other records to those that a field has."""
    present = fields.get(field)
    if isinstance(links, tuple) and links:
        earlier = present if isinstance(present, tuple) else ()
        fields[field] = tuple(dict.fromkeys((*earlier, *links)))
