"""The front matter keys, as one table: reading, writing, amending, schemas and docs follow it.

A value that cannot be used is a problem and stays under its key, as does a key that is not ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem.record.adr_read import resolve_field
from filemem.record.body import parse_outcome
from filemem.record.guards import parse_guards
from filemem.record.lines import join_lines
from filemem.record.links import parse_field_links, parse_field_references, parse_links
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
from filemem.record.status import StatedStatus, parse_status
from filemem.record.times import parse_time
from filemem.record.yaml import Header, PlainScalar, Value, format_flow, to_typed_value

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
    record_field: str = ""  # the field, where that has another name

    @property
    def field(self) -> str:
        """The field of a Record that the key fills."""
        return self.record_field or self.name


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
    Key("secrets", FLAG, record_field="secrets_allowed"),
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
_NAME_BY_FIELD = {"status": "status", "date": "created", "created": "created"}
# What we read and never write.
SUPERSEDED_BY = Key("superseded_by", EDGES, _D)
TITLE = Key("title", TEXT)
HEADER_NAMES = frozenset((*KEY_BY_NAME, *ALIASES, TITLE.name))  # that tell a header from other text


# -- how a value of each shape is read ------------------------------------------------------------

_NULL_WORDS = frozenset(("", "~", "null", "Null", "NULL"))
_ONE_WORD = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")


class InvalidValue(Exception):
    """A value is not what its key asks for; the text says what was expected."""


class InvalidGuards(InvalidValue):
    """The text says what is wrong, and where."""


def quote_value(value: Value) -> str:
    """Return a value as a message shows it, cut to 80 characters."""
    text = format_flow(value)
    text = text if isinstance(value, list | dict) or text.startswith('"') else f'"{text}"'
    return text if len(text) <= 80 else f"{text[:77]}..."


def _parse_text(value: Value) -> str:
    if isinstance(value, dict) and list(value.values()) == [""]:
        (value,) = value  # `{accepted}`: a template's braces left in
    if not isinstance(value, str):
        raise InvalidValue("text")
    return str(value)


def _parse_id(value: Value) -> str:
    text = _parse_text(value)
    if not _ONE_WORD.fullmatch(text):
        raise InvalidValue("one word without slashes")
    return text


def _parse_time(value: Value) -> int:
    time = parse_time(_parse_text(value))
    if time is None:
        raise InvalidValue("a date or time such as 2025-11-20T14:46:40.123Z")
    return time


def _parse_share(value: Value) -> float:
    text = _parse_text(value)
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise InvalidValue("a number between 0 and 1")
    return share


def _parse_flag(value: Value) -> bool:
    if _parse_text(value).strip() != SECRETS_ALLOWED:
        raise InvalidValue(f"the word {SECRETS_ALLOWED}")
    return True


def _parse_choice(value: Value, key: Key) -> str:
    text = _parse_text(value).strip()
    if key.name == "status":
        return text  # `read_status` looks at it
    choice = parse_outcome(text) if key.name == "outcome" else text.casefold()
    if choice not in key.choices:
        raise InvalidValue(f"one of {', '.join(key.choices)}")
    return choice


def _parse_mapping(value: Value) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidValue("a mapping")
    return {str(name): to_typed_value(item) for name, item in value.items()}


def _parse_origin(value: Value) -> str | dict[str, str]:
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return {str(name): str(item) for name, item in value.items()}
    return _parse_text(value)


def _parse_guards(value: Value) -> object:
    try:
        return parse_guards(value)
    except ValueError as error:
        raise InvalidGuards(str(error)) from None


def _parse_edges(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        return parse_field_references(str(value))
    return _parse_list(
        [_restore_wikilink(item) for item in value] if isinstance(value, list) else value
    )


def _restore_wikilink(item: Value) -> Value:
    """Return a link; `[[x]]` without quotes is a list in a list."""
    return f"[[{item[0]}]]" if isinstance(item, list) and len(item) == 1 else item


def _parse_words(value: Value) -> tuple[str, ...]:
    if isinstance(value, PlainScalar):
        return tuple(strip_hash_sign(part) for part in map(str.strip, value.split(",")) if part)
    return tuple(map(strip_hash_sign, _parse_list(value)))


def _parse_list(value: Value) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if any(not isinstance(item, str) for item in items):
        raise InvalidValue("a list of text")
    return tuple(str(item) for item in items if item and not _is_null(item))


_PARSERS: Mapping[str, Callable[[Value], object]] = {
    TEXT: _parse_text,
    LIST: _parse_list,
    WORDS: _parse_words,
    EDGES: _parse_edges,
    TIME: _parse_time,
    SHARE: _parse_share,
    MAPPING: _parse_mapping,
    FLAG: _parse_flag,
    ORIGIN: _parse_origin,
    GUARDS: _parse_guards,
}


def _parse_value(value: Value, key: Key) -> object:
    """Return a value in the shape of its key. Raises WrongValue."""
    if key.shape == CHOICE:
        return _parse_choice(value, key)
    return _parse_id(value) if key.name == "id" else _PARSERS[key.shape](value)


def strip_hash_sign(text: str) -> str:
    """Return a tag or concept without the `#` that some tools put in front."""
    return text.lstrip("#") or text


def _is_null(value: Value) -> bool:
    return isinstance(value, PlainScalar) and value in _NULL_WORDS


# -- from a header to the fields of a Record ------------------------------------------------------


class Fields(NamedTuple):
    """What a header says: fields of a Record, and what is not understood, under its key."""

    fields: dict[str, object]
    extra: dict[str, object]


def parse_fields(header: Header, problems: list[Problem]) -> Fields:
    """Return the fields of the Record to be, and what stays under its key.

    Problems are added to `notes`.
    """
    fields: dict[str, object] = {}
    reader = _FieldReader(header, fields, {}, problems)
    for name, value in header.values.items():
        reader.add_key(name, value)
    fields["id_stated"] = "id" in fields
    if fields.get("topic"):
        fields["topic_stated"] = True
    return Fields(fields, reader.extra)


class _FieldReader(NamedTuple):
    """A header half read."""

    header: Header
    fields: dict[str, object]
    extra: dict[str, object]
    problems: list[Problem]

    def add_key(self, name: str, value: Value) -> None:
        """Take the value of one key."""
        key = _resolve_key(name, self.header.values, self.fields)
        if key is None:
            self.extra[name] = value
            add_edges(self.fields, parse_field_links(name, format_flow(value).strip("[]")) or ())
        elif not _is_null(value):  # a template's blank is nothing stated
            try:
                self._set_field(name, key, _parse_value(value, key))
            except InvalidValue as error:
                self.extra[name] = value
                self.problems.append(self._build_problem(name, key, error))

    def _set_field(self, name: str, key: Key, value: object) -> None:
        if key.name == "status":
            self._add_status(name, str(value))
        elif key.shape == EDGES and self.fields.get(key.field):
            add_links(self.fields, key.field, value)
        else:
            self.fields[key.field] = value

    def _add_status(self, name: str, text: str) -> None:
        stated = parse_status(text)
        self.problems.extend(apply_status(stated, self.header.lines.get(name, 1), self.fields))
        if stated.status != text:
            self.extra[name] = text
        add_edges(self.fields, parse_links(text))

    def _build_problem(self, name: str, key: Key, error: InvalidValue) -> Problem:
        if isinstance(error, InvalidGuards):
            message = f"{name} cannot be read: {error}"
        else:
            message = f"{name} must be {error}, not {quote_value(self.header.values[name])}"
        # Other makers have types of their own; what states an `id` is ours.
        is_foreign = key.name == "type" and "id" not in self.header.values
        code = f"bad-{key.name.replace('_', '-')}"
        line = self.header.lines.get(name, 1)
        return Problem("", line, code, "hint" if is_foreign else "warning", message)


def apply_status(stated: StatedStatus, line: int, fields: dict[str, object]) -> Iterator[Problem]:
    """Put a status into the fields; yield the problem that it is not understood."""
    if stated.status:
        fields["status"] = stated.status
    if stated.status == UNKNOWN:
        fields["status_written"] = stated.written
        message = f'status not understood: "{stated.written}"'
        yield Problem("", line, UNKNOWN_STATUS, "warning", message)


def get_stated_title(header: Header) -> str:
    """Return the title that a header states, or ""."""
    value = header.values.get(TITLE.name, "")
    return join_lines(value) if isinstance(value, str) and not _is_null(value) else ""


def _resolve_key(
    name: str, values: Mapping[str, Value], fields: Mapping[str, object]
) -> Key | None:
    """Return our key of a name, or None.

    Another maker's name (`date`, `Created`, `superseded-by`) is ours too, unless ours stands there.
    """
    key = TITLE if name == TITLE.name else KEY_BY_NAME.get(name)
    if key is not None:
        return key
    folded_name = name.lower().replace("-", "_")
    label = resolve_field(name) if isinstance(values[name], str) else ""
    own_name = ALIASES.get(folded_name) or _NAME_BY_FIELD.get(label, folded_name)
    key = SUPERSEDED_BY if own_name == SUPERSEDED_BY.name else KEY_BY_NAME.get(own_name)
    if key is None or own_name in values.keys() - {name} or key.field in fields:
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
    current_links = fields.get(field)
    if isinstance(links, tuple) and links:
        earlier_links = current_links if isinstance(current_links, tuple) else ()
        fields[field] = tuple(dict.fromkeys((*earlier_links, *links)))
