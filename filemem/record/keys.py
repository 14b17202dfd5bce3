"""The front matter keys as one table, which reading, writing, amending, schemas and docs use.

An invalid value is a problem and stays under its key in `extra`, as does an unknown key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
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

    Shapes: a choice is one of `choices`; a list is of text, where a lone value is a list of one;
    words are a list that is also split at commas; edges are ids, paths or links of other records; a
    share is between 0 and 1; a flag is the word `allowed`; an origin is text or a mapping of text;
    guards are mappings, which `record/guards` reads.
    """

    name: str
    shape: str
    types: tuple[str, ...] = TYPES
    choices: tuple[str, ...] = ()
    record_field: str = ""  # the field, if it has another name

    @property
    def field(self) -> str:
        """The field of a Record that the key fills."""
        return self.record_field or self.name


_DECISIONS = (DECISION,)
_CHECKPOINTS = (CHECKPOINT,)
_OBSERVATIONS = (OBSERVATION,)

# The order is the order in which new files are written.
KEYS: tuple[Key, ...] = (
    Key("id", TEXT),
    Key("type", CHOICE, choices=TYPES),
    Key("topic", TEXT, _DECISIONS),
    Key("created", TIME),
    Key("status", CHOICE, _DECISIONS, STATUSES),
    Key("confidence", SHARE, _DECISIONS),
    Key("outcome", CHOICE, _DECISIONS, OUTCOMES),
    Key("limitation", TEXT, _DECISIONS),
    Key("decided_by", CHOICE, _DECISIONS, DECIDERS),
    Key("supersedes", EDGES, _DECISIONS),
    Key("builds_on", EDGES, _DECISIONS),
    Key("debates", EDGES, _DECISIONS),
    Key("synthesizes", EDGES, _DECISIONS),
    Key("affects", LIST, _DECISIONS),
    Key("guards", GUARDS, _DECISIONS),
    Key("branch", TEXT, _CHECKPOINTS),
    Key("open_files", LIST, _CHECKPOINTS),
    Key("kind", CHOICE, _OBSERVATIONS, KINDS),
    Key("project", TEXT, _OBSERVATIONS),
    Key("concepts", WORDS, _OBSERVATIONS),
    Key("files_read", LIST, _OBSERVATIONS),
    Key("files_modified", LIST, _OBSERVATIONS),
    Key("department", TEXT, _OBSERVATIONS),
    Key("visibility", CHOICE, _OBSERVATIONS, VISIBILITIES),
    Key("user_id", TEXT, _OBSERVATIONS),
    Key("agent_id", TEXT, _OBSERVATIONS),
    Key("run_id", TEXT, _OBSERVATIONS),
    Key("scope", TEXT, _OBSERVATIONS),
    Key("memory_type", TEXT, _OBSERVATIONS),
    Key("tags", WORDS),
    Key("agent", TEXT),
    Key("session", TEXT),
    Key("source", ORIGIN),
    Key("secrets", FLAG, record_field="secrets_allowed"),
    Key("metadata", MAPPING, _OBSERVATIONS),
)
KEY_BY_NAME = {key.name: key for key in KEYS}
KEY_ORDER = {key.name: place for place, key in enumerate(KEYS)}

SECRETS_ALLOWED = "allowed"

# Names that other tools use for our keys. If a header has both, ours counts and theirs is kept as
# an unknown key.
ALIASES = {"date": "created", "replaces": "supersedes", "stage": "status", "state": "status"}
ALIASES |= {"guard": "guards"}
ALIASES |= dict.fromkeys(("superseded_by", "supersededby", "replaced_by"), "superseded_by")
_NAME_BY_FIELD = {"status": "status", "date": "created", "created": "created"}
# Keys that are read and never written.
SUPERSEDED_BY = Key("superseded_by", EDGES, _DECISIONS)
TITLE = Key("title", TEXT)
# They distinguish a header from other text.
HEADER_NAMES = frozenset((*KEY_BY_NAME, *ALIASES, TITLE.name))


# -- how a value of each shape is read ------------------------------------------------------------

_NULL_WORDS = frozenset(("", "~", "null", "Null", "NULL"))
_ONE_WORD = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")


class InvalidValue(Exception):
    """A value is not of the shape of its key; the text is the expected shape."""


class InvalidGuards(InvalidValue):
    """Guards are invalid; the text says what is wrong, and where."""


def quote_value(value: Value) -> str:
    """Return a value as a message shows it, cut to 80 characters."""
    text = format_flow(value)
    if isinstance(value, str) and not text.startswith('"'):
        text = f'"{text}"'
    if len(text) <= 80:
        return text
    return f"{text[:77]}..."


def _parse_text(value: Value) -> str:
    if isinstance(value, dict) and list(value.values()) == [""]:
        [name] = value  # `{accepted}`: the braces of a template are left
        return str(name)
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
    if not 0 <= share <= 1:  # refuses NaN too
        raise InvalidValue("a number between 0 and 1")
    return share


def _parse_flag(value: Value) -> bool:
    word = _parse_text(value).strip()
    if word != SECRETS_ALLOWED:
        raise InvalidValue(f"the word {SECRETS_ALLOWED}")
    return True


def _parse_choice(value: Value, key: Key) -> str:
    text = _parse_text(value).strip()
    if key.name == "status":
        return text  # `parse_status` reads it
    choice = parse_outcome(text) if key.name == "outcome" else text.casefold()
    if choice not in key.choices:
        choices = ", ".join(key.choices)
        raise InvalidValue(f"one of {choices}")
    return choice


def _parse_mapping(value: Value) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidValue("a mapping")
    return {str(name): to_typed_value(item) for name, item in value.items()}


def _parse_origin(value: Value) -> str | dict[str, str]:
    if not isinstance(value, dict):
        return _parse_text(value)
    origin: dict[str, str] = {}
    for name, item in value.items():
        if not isinstance(item, str):
            return _parse_text(value)
        origin[str(name)] = str(item)
    return origin


def _parse_guards(value: Value) -> object:
    try:
        return parse_guards(value)
    except ValueError as error:
        raise InvalidGuards(str(error)) from None


def _parse_edges(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        return parse_field_references(str(value))
    if isinstance(value, list):
        value = [_restore_wikilink(item) for item in value]
    return _parse_list(value)


def _restore_wikilink(item: Value) -> Value:
    """Return a link as text; to YAML, `[[x]]` without quotes is a list in a list."""
    if isinstance(item, list) and len(item) == 1:
        return f"[[{item[0]}]]"
    return item


def _parse_words(value: Value) -> tuple[str, ...]:
    if isinstance(value, PlainScalar):
        return _split_words(value)
    return tuple(strip_hash_sign(word) for word in _parse_list(value))


def _split_words(text: str) -> tuple[str, ...]:
    words = []
    for part in text.split(","):
        word = part.strip()
        if word:
            words.append(strip_hash_sign(word))
    return tuple(words)


def _parse_list(value: Value) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    items = []
    for item in values:
        if not isinstance(item, str):
            raise InvalidValue("a list of text")
        if item and not _is_null(item):
            items.append(str(item))
    return tuple(items)


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
    """Return a value in the shape of its key. Raises InvalidValue."""
    if key.shape == CHOICE:
        return _parse_choice(value, key)
    if key.name == "id":
        return _parse_id(value)
    parser = _PARSERS[key.shape]
    return parser(value)


def strip_hash_sign(text: str) -> str:
    """Return a tag or concept without the `#` that some tools put in front of it."""
    return text.lstrip("#") or text


def _is_null(value: Value) -> bool:
    return isinstance(value, PlainScalar) and value in _NULL_WORDS


# -- from a header to the fields of a Record ------------------------------------------------------


class Fields(NamedTuple):
    """The fields of a Record that a header states, and its other keys as written."""

    fields: dict[str, object]
    extra: dict[str, object]


def parse_fields(header: Header, problems: list[Problem]) -> Fields:
    """Return the fields of a Record and the keys that are not understood.

    Problems are added to `problems`.
    """
    reader = _FieldReader(header=header, fields={}, extra={}, problems=problems)
    for name, value in header.values.items():
        reader.add_key(name, value)
    fields = reader.fields
    fields["id_stated"] = "id" in fields
    if fields.get("topic"):
        fields["topic_stated"] = True
    return Fields(fields, reader.extra)


class _FieldReader(NamedTuple):
    """A header while it is read."""

    header: Header
    fields: dict[str, object]
    extra: dict[str, object]
    problems: list[Problem]

    def add_key(self, name: str, value: Value) -> None:
        """Take the value of one key."""
        key = _resolve_key(name, self.header.values, self.fields)
        if key is None:
            self.extra[name] = value
            text = format_flow(value).strip("[]")
            add_edges(self.fields, parse_field_links(name, text) or ())
            return
        if _is_null(value):
            return  # a template's blank states nothing
        try:
            parsed_value = _parse_value(value, key)
        except InvalidValue as error:
            self.extra[name] = value
            self.problems.append(self._build_problem(name, key, error))
            return
        self._set_field(name, key, parsed_value)

    def _set_field(self, name: str, key: Key, value: object) -> None:
        if key.name == "status":
            self._add_status(name, str(value))
        elif key.shape == EDGES and self.fields.get(key.field):
            add_links(self.fields, key.field, value)
        else:
            self.fields[key.field] = value

    def _add_status(self, name: str, text: str) -> None:
        stated = parse_status(text)
        line = self.header.lines.get(name, 1)
        self.problems.extend(apply_status(stated, line, self.fields))
        if stated.status != text:
            self.extra[name] = text
        add_edges(self.fields, parse_links(text))

    def _build_problem(self, name: str, key: Key, error: InvalidValue) -> Problem:
        if isinstance(error, InvalidGuards):
            message = f"{name} cannot be read: {error}"
        else:
            quoted_value = quote_value(self.header.values[name])
            message = f"{name} must be {error}, not {quoted_value}"
        level = "warning"
        if key.name == "type" and "id" not in self.header.values:
            level = "hint"  # a file of another tool, with other types
        code = "bad-" + key.name.replace("_", "-")
        line = self.header.lines.get(name, 1)
        return Problem("", line, code, level, message)


def apply_status(stated: StatedStatus, line: int, fields: dict[str, object]) -> list[Problem]:
    """Put a status into the fields; return the problem if it is not understood."""
    if stated.status:
        fields["status"] = stated.status
    if stated.status != UNKNOWN:
        return []
    fields["status_written"] = stated.written
    message = f'status not understood: "{stated.written}"'
    return [Problem("", line, UNKNOWN_STATUS, "warning", message)]


def get_stated_title(header: Header) -> str:
    """Return the title that a header states, or ""."""
    value = header.values.get(TITLE.name, "")
    if not isinstance(value, str) or _is_null(value):
        return ""
    return join_lines(value)


def _resolve_key(
    name: str, values: Mapping[str, Value], fields: Mapping[str, object]
) -> Key | None:
    """Return the key that a name in a header means, or None.

    Names of other tools (`date`, `Created`, `superseded-by`) count if ours is not stated as well.
    """
    if name == TITLE.name:
        return TITLE
    if name in KEY_BY_NAME:
        return KEY_BY_NAME[name]
    own_name = _resolve_alias(name, values[name])
    key = KEY_BY_NAME.get(own_name)
    if own_name == SUPERSEDED_BY.name:
        key = SUPERSEDED_BY
    if key is None or key.field in fields:
        return None
    if own_name != name and own_name in values:
        return None
    return key


def _resolve_alias(name: str, value: Value) -> str:
    """Return our name for another tool's key, or its name in lower case with underscores."""
    folded_name = name.lower().replace("-", "_")
    if folded_name in ALIASES:
        return ALIASES[folded_name]
    if not isinstance(value, str):
        return folded_name
    return _NAME_BY_FIELD.get(resolve_field(name), folded_name)


def add_edges(fields: dict[str, object], edges: Iterable[Edge]) -> None:
    """Add links that a text states to the fields for their kinds."""
    for edge in edges:
        if edge.kind in ("supersedes", "superseded_by"):
            add_links(fields, edge.kind, (edge.target,))
        else:
            add_links(fields, "mentions", (edge,))


def add_links(fields: dict[str, object], field: str, links: object) -> None:
    """Add links to other records to a field, each once."""
    if not isinstance(links, tuple) or not links:
        return
    current_links = fields.get(field)
    all_links = list(current_links) if isinstance(current_links, tuple) else []
    all_links += links
    fields[field] = tuple(dict.fromkeys(all_links))
