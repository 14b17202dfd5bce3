"""The front matter keys, as one table: reading, writing, amending, the schemas and the docs all follow it.

A value that cannot be used is a problem and stays under its key, as does a key that is not ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from filemem.record.body import parse_outcome
from filemem.record.foreign import read_status, stated_references
from filemem.record.lines import one_line
from filemem.record.model import (
    CHECKPOINT,
    DECIDERS,
    DECISION,
    KINDS,
    OBSERVATION,
    OUTCOMES,
    STATUSES,
    TYPES,
    VISIBILITIES,
    Note,
)
from filemem.record.references import NUMBER_WORDS
from filemem.record.times import parse_time
from filemem.record.yaml import Header, Plain, Value, flow, typed

TEXT, CHOICE, LIST, WORDS, EDGES, TIME, SHARE, MAPPING, FLAG = (
    "text",
    "choice",  # text, one of `choices`
    "list",  # a list of text; a lone value is a list of one
    "words",  # the same, and a lone value is split at commas
    "edges",  # ids, paths or links of other records
    "time",
    "share",  # a number between 0 and 1
    "mapping",
    "flag",  # the one word `allowed`
)


class Key(NamedTuple):
    """One front matter key: its name, the Record field it fills, the shape of its value, the types it is for."""

    name: str
    field: str
    shape: str
    types: tuple[str, ...] = TYPES
    choices: tuple[str, ...] = ()


_D, _C, _O = (DECISION,), (CHECKPOINT,), (OBSERVATION,)

# The order is the order in which new files are written.
KEYS: tuple[Key, ...] = (
    Key("id", "id", TEXT),
    Key("type", "type", CHOICE, choices=TYPES),
    Key("topic", "topic", TEXT, _D),
    Key("created", "created", TIME),
    Key("status", "status", CHOICE, _D, STATUSES),
    Key("confidence", "confidence", SHARE, _D),
    Key("outcome", "outcome", CHOICE, _D, OUTCOMES),
    Key("limitation", "limitation", TEXT, _D),
    Key("decided_by", "decided_by", CHOICE, _D, DECIDERS),
    Key("supersedes", "supersedes", EDGES, _D),
    Key("builds_on", "builds_on", EDGES, _D),
    Key("debates", "debates", EDGES, _D),
    Key("synthesizes", "synthesizes", EDGES, _D),
    Key("affects", "affects", LIST, _D),
    Key("branch", "branch", TEXT, _C),
    Key("open_files", "open_files", LIST, _C),
    Key("kind", "kind", CHOICE, _O, KINDS),
    Key("project", "project", TEXT, _O),
    Key("concepts", "concepts", WORDS, _O),
    Key("files_read", "files_read", LIST, _O),
    Key("files_modified", "files_modified", LIST, _O),
    Key("department", "department", TEXT, _O),
    Key("visibility", "visibility", CHOICE, _O, VISIBILITIES),
    Key("user_id", "user_id", TEXT, _O),
    Key("agent_id", "agent_id", TEXT, _O),
    Key("run_id", "run_id", TEXT, _O),
    Key("scope", "scope", TEXT, _O),
    Key("memory_type", "memory_type", TEXT, _O),
    Key("tags", "tags", WORDS),
    Key("agent", "agent", TEXT),
    Key("session", "session", TEXT),
    Key("source", "source", TEXT),
    Key("secrets", "secrets_allowed", FLAG),
    Key("metadata", "metadata", MAPPING, _O),
)
KEY_BY_NAME = {key.name: key for key in KEYS}
KEY_ORDER = {key.name: place for place, key in enumerate(KEYS)}

SECRETS_ALLOWED = "allowed"

# Names that other makers use for ours. Where both stand, ours counts and theirs is kept as an unknown key.
_OLD_SIDE = ("superseded_by", "superseded-by", "supersededBy", "replaced-by", "replaced_by")
ALIASES = {"date": "created", "replaces": "supersedes", "builds-on": "builds_on"}
ALIASES |= dict.fromkeys(_OLD_SIDE, "superseded_by")
# What we read and never write.
SUPERSEDED_BY = Key("superseded_by", "superseded_by", EDGES, _D)
TITLE = Key("title", "title", TEXT)


# -- how a value of each shape is read -----------------------------------------------------------------------

NULL = frozenset(("", "~", "null", "Null", "NULL"))


class WrongValue(Exception):
    """A value is not what its key asks for; the text says what was expected."""


def shown(value: Value) -> str:
    text = flow(value)
    text = text if isinstance(value, list | dict) or text.startswith('"') else f'"{text}"'
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text(value: Value, key: Key) -> str:
    if isinstance(value, dict) and len(value) == 1:  # `{accepted}`: a template's braces left in
        ((inner, empty),) = value.items()
        value = inner if empty == "" else value
    elif isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise WrongValue("text")
    if key.name == "id" and not _ONE_WORD.fullmatch(value):
        raise WrongValue("one word without slashes")
    return str(value)


def _choice(value: Value, key: Key) -> str | None:
    word = _text(value, key).strip()
    if key.name == "status" and read_status(word).status:
        return word
    if word in key.choices:
        return word
    if key.name == "outcome" and (outcome := parse_outcome(word)):
        return outcome
    if word.casefold() in key.choices:
        return word.casefold()
    raise WrongValue(f"one of {', '.join(key.choices)}")


def _list(value: Value, _: Key) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    found: list[str] = []
    for item in items:
        if isinstance(item, dict) or (isinstance(item, list) and any(not isinstance(i, str) for i in item)):
            raise WrongValue("a list of text")
        parts = item if isinstance(item, list) else [item]
        found += [str(part) for part in parts if part and not (isinstance(part, Plain) and part in NULL)]
    return tuple(found)


def _words(value: Value, key: Key) -> tuple[str, ...]:
    if isinstance(value, Plain):
        return tuple(word for part in value.split(",") if (word := part.strip()))
    return _list(value, key)


def _edges(value: Value, key: Key) -> tuple[str, ...]:
    if isinstance(value, str):
        return stated_references(str(value))
    if isinstance(value, list):  # `[[x]]` without quotes is a list in a list
        value = [f"[[{item[0]}]]" if isinstance(item, list) and len(item) == 1 else item for item in value]
    return _list(value, key)


def _time(value: Value, key: Key) -> int:
    at = parse_time(_text(value, key))
    if at is None:
        raise WrongValue("a date or time such as 2025-11-20T14:46:40.123Z")
    return at


def _share(value: Value, key: Key) -> float:
    try:
        share = float(_text(value, key))
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise WrongValue("a number between 0 and 1")
    return share


def _mapping(value: Value, _: Key) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise WrongValue("a mapping")
    return {str(key): typed(item) for key, item in value.items()}


def _flag(value: Value, key: Key) -> bool:
    if _text(value, key).strip() != SECRETS_ALLOWED:
        raise WrongValue(f"the word {SECRETS_ALLOWED}")
    return True


READERS: Mapping[str, Callable[[Value, Key], object]] = {
    TEXT: _text,
    CHOICE: _choice,
    LIST: _list,
    WORDS: _words,
    EDGES: _edges,
    TIME: _time,
    SHARE: _share,
    MAPPING: _mapping,
    FLAG: _flag,
}


# -- from a header to the fields of a Record -----------------------------------------------------------------

_OURS = frozenset((*KEY_BY_NAME, *ALIASES))
_SERIES, _DIGITS = re.compile(r"[a-z]{2,8}"), re.compile(r"[0-9]{1,5}")
_ONE_WORD = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")


def read_fields(header: Header, notes: list[Note]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields of the Record to be, and what stays under its key; problems are added to `notes`."""
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, value in header.values.items():
        key = TITLE if name == TITLE.name else KEY_BY_NAME.get(name) or _key_meant(name, header.values, fields)
        if key is None:
            extra[name] = value
            continue
        if isinstance(value, Plain) and value in NULL:
            continue  # a template's blank is nothing stated
        try:
            read = READERS[key.shape](value, key)
        except WrongValue as wrong:
            extra[name] = value
            # Other makers have types of their own; what states an `id` is ours.
            level = "hint" if key.name == "type" and "id" not in header.values else "warning"
            message = f"{name} must be {wrong}, not {shown(value)}"
            notes.append(Note(header.lines.get(name, 1), f"bad-{key.name.replace('_', '-')}", level, message))
            continue
        if key.name == "status":
            standing = read_status(str(read))
            fields["status"] = standing.status
            if standing.status != read:
                extra[name] = read
            add_links(fields, "superseded_by", standing.superseded_by)
            add_links(fields, "supersedes", standing.supersedes)
        elif key.shape == EDGES and fields.get(key.field):
            add_links(fields, key.field, read)
        else:
            fields[key.field] = read
    fields["id_stated"] = "id" in fields
    if fields.get("topic"):
        fields["topic_stated"] = True
    if not (fields["id_stated"] and fields.get("topic")) and (number := _number(header.values)):
        fields["number"] = number
    return fields, extra


def stated_title(header: Header) -> str:
    """Return the title that a header states, or ""."""
    value = header.values.get(TITLE.name, "")
    try:
        return "" if isinstance(value, Plain) and value in NULL else one_line(_text(value, TITLE))
    except WrongValue:
        return ""


def _number(values: Mapping[str, Value]) -> str:
    """The number that a header gives its record, with the name of its series, as `fip-0004`; or "".

    Makers who number records in headers begin with that (`fip: "0004"`, `pep: 8`), or name it by a word for numbers. A
    number under any other key (a weight, a year) orders or describes, and is nobody's name.
    """
    others = [(name.lower(), value) for name, value in values.items() if name.lower() not in _OURS]
    series = [one for one in others[:1] if one[0] != TITLE.name and _SERIES.fullmatch(one[0])]
    for name, value in (*series, *(one for one in others if one[0] in NUMBER_WORDS)):
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            return f"{name}-{value}"
    return ""


def _key_meant(name: str, values: Mapping[str, Value], fields: Mapping[str, object]) -> Key | None:
    """Return the key of ours that another maker's means (`date`, `Created`, `superseded-by`) unless ours stands."""
    lower = name.lower()
    ours = ALIASES.get(name) or ALIASES.get(lower) or lower
    key = SUPERSEDED_BY if ours == SUPERSEDED_BY.name else KEY_BY_NAME.get(ours)
    return key if key and ours not in values.keys() - {name} and key.field not in fields else None


def add_links(fields: dict[str, object], field: str, links: object) -> None:
    """Add links to other records to those that a field has."""
    known = fields.get(field)
    if isinstance(links, tuple) and links:
        fields[field] = tuple(dict.fromkeys((*known, *links))) if isinstance(known, tuple) else links
