"""The front matter keys, as one table: reading, writing, amending, the schemas and the docs all follow it.

A value that cannot be used is a problem and stays under its key, as does a key that is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem.record.body import parse_outcome
from filemem.record.foreign import field_named
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

TEXT, CHOICE, LIST, WORDS, EDGES = "text", "choice", "list", "words", "edges"
TIME, SHARE, MAPPING, FLAG, ORIGIN = "time", "share", "mapping", "flag", "origin"
GUARDS = "guards"


class Key(NamedTuple):
    """One front matter key: its name, the shape of its value, the types it is for.

    Shapes: a choice is one of `choices`; a list is of text, a lone value a list of one, and of words it is split at
    commas; edges are ids, paths or links of other records; a share is between 0 and 1; a flag is the word `allowed`; an
    origin is text, or a mapping of text; guards are mappings, `record/guards` reads them.
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


_D, _C, _O = (DECISION,), (CHECKPOINT,), (OBSERVATION,)

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

# Names that other makers use for ours. Where both stand, ours counts and theirs is kept as an unknown key.
ALIASES = {"date": "created", "replaces": "supersedes", "stage": "status", "state": "status"}
ALIASES |= {"guard": "guards"}
ALIASES |= dict.fromkeys(("superseded_by", "supersededby", "replaced_by"), "superseded_by")
_OF_FIELD = {"status": "status", "date": "created", "created": "created"}
# What we read and never write.
SUPERSEDED_BY = Key("superseded_by", EDGES, _D)
TITLE = Key("title", TEXT)
NAMES = frozenset((*KEY_BY_NAME, *ALIASES, TITLE.name))  # that tell a header from other text


# -- how a value of each shape is read -----------------------------------------------------------------------

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_ONE_WORD = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")


class WrongValue(Exception):
    """A value is not what its key asks for; the text says what was expected."""


class WrongGuards(WrongValue):
    """The text says what is wrong, and where."""


def shown(value: Value) -> str:
    text = flow(value)
    text = text if isinstance(value, list | dict) or text.startswith('"') else f'"{text}"'
    return text if len(text) <= 80 else f"{text[:77]}..."


def _read(value: Value, key: Key) -> object:  # noqa: C901
    """Return a value in the shape of its key. Raises WrongValue."""
    if key.shape == MAPPING:
        if isinstance(value, dict):
            return {str(name): typed(item) for name, item in value.items()}
        raise WrongValue("a mapping")
    if (
        key.shape == ORIGIN
        and isinstance(value, dict)
        and all(isinstance(item, str) for item in value.values())
    ):
        return {str(name): str(item) for name, item in value.items()}
    if key.shape in (LIST, WORDS, EDGES):
        return _items(value, key.shape)
    if key.shape == GUARDS:
        return _guards(value)
    if isinstance(value, dict) and list(value.values()) == [
        ""
    ]:  # `{accepted}`: a template's braces left in
        (value,) = value
    if not isinstance(value, str):
        raise WrongValue("text")
    text, word = str(value), value.strip()
    found: object
    if key.shape == TIME:
        found, wanted = parse_time(text), "a date or time such as 2025-11-20T14:46:40.123Z"
    elif key.shape == SHARE:
        found, wanted = _share(text), "a number between 0 and 1"
    elif key.shape == FLAG:
        found, wanted = word == SECRETS_ALLOWED or None, f"the word {SECRETS_ALLOWED}"
    elif key.shape == CHOICE:
        ours = parse_outcome(word) if key.name == "outcome" else word.casefold()
        choice = word if key.name == "status" else ours if ours in key.choices else None
        found, wanted = choice, f"one of {', '.join(key.choices)}"
    else:
        found, wanted = (
            text if key.name != "id" or _ONE_WORD.fullmatch(text) else None,
            "one word without slashes",
        )
    if found is None:
        raise WrongValue(wanted)
    return found


def _guards(value: Value) -> object:
    try:
        return read_guards(value)
    except ValueError as error:
        raise WrongGuards(str(error)) from None


def _share(text: str) -> float | None:
    try:
        return share if 0 <= (share := float(text)) <= 1 else None
    except ValueError:
        return None


def _items(value: Value, shape: str) -> tuple[str, ...]:
    if shape == WORDS and isinstance(value, Plain):
        return tuple(word(part) for part in map(str.strip, value.split(",")) if part)
    if shape == EDGES and isinstance(value, str):
        return stated_references(str(value))
    items = value if isinstance(value, list) else [value]
    if shape == EDGES:  # `[[x]]` without quotes is a list in a list
        items = [
            f"[[{item[0]}]]" if isinstance(item, list) and len(item) == 1 else item
            for item in items
        ]
    if any(not isinstance(item, str) for item in items):
        raise WrongValue("a list of text")
    texts = (str(item) for item in items if item and not _is_null(item))
    return tuple(map(word, texts) if shape == WORDS else texts)


def word(text: str) -> str:
    """Return a tag or concept without the `#` that some tools put in front."""
    return text.lstrip("#") or text


def _is_null(value: Value) -> bool:
    return isinstance(value, Plain) and value in _NULL


# -- from a header to the fields of a Record -----------------------------------------------------------------


def read_fields(
    header: Header, notes: list[Problem]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields of the Record to be, and what stays under its key; problems are added to `notes`."""
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, value in header.values.items():
        key = (
            TITLE
            if name == TITLE.name
            else KEY_BY_NAME.get(name) or _key_meant(name, header.values, fields)
        )
        if key is None:
            extra[name] = value
            add_edges(fields, links_of_field(name, flow(value).strip("[]")) or ())
            continue
        if _is_null(value):
            continue  # a template's blank is nothing stated
        try:
            read = _read(value, key)
        except WrongValue as wrong:
            extra[name] = value
            # Other makers have types of their own; what states an `id` is ours.
            level = "hint" if key.name == "type" and "id" not in header.values else "warning"
            message = _complaint(name, wrong, value)
            notes.append(
                Problem(
                    "",
                    header.lines.get(name, 1),
                    f"bad-{key.name.replace('_', '-')}",
                    level,
                    message,
                )
            )
            continue
        if key.name == "status":
            text = str(read)
            stated = read_status(text)
            notes += note_status(stated, header.lines.get(name, 1), fields)
            if stated.status != text:
                extra[name] = text
            add_edges(fields, links_in(text))
        elif key.shape == EDGES and fields.get(key.field):
            add_links(fields, key.field, read)
        else:
            fields[key.field] = read
    fields["id_stated"] = "id" in fields
    if fields.get("topic"):
        fields["topic_stated"] = True
    return fields, extra


def _complaint(name: str, wrong: WrongValue, value: Value) -> str:
    if isinstance(wrong, WrongGuards):
        return f"{name} cannot be read: {wrong}"
    return f"{name} must be {wrong}, not {shown(value)}"


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


def _key_meant(name: str, values: Mapping[str, Value], fields: Mapping[str, object]) -> Key | None:
    """Return the key of ours that another maker's means (`date`, `Created`, `superseded-by`) unless ours stands."""
    plain = name.lower().replace("-", "_")
    label = field_named(name) if isinstance(values[name], str) else ""
    ours = ALIASES.get(plain) or _OF_FIELD.get(label, plain)
    key = SUPERSEDED_BY if ours == SUPERSEDED_BY.name else KEY_BY_NAME.get(ours)
    return key if key and ours not in values.keys() - {name} and key.field not in fields else None


def add_edges(fields: dict[str, object], edges: Iterable[Edge]) -> None:
    """Add links that a text states to the fields for their kinds."""
    for edge in edges:
        if edge.kind in ("supersedes", "superseded_by"):
            add_links(fields, edge.kind, (edge.target,))
        else:
            add_links(fields, "mentions", (edge,))


def add_links(fields: dict[str, object], field: str, links: object) -> None:
    """Add links to other records to those that a field has."""
    known = fields.get(field)
    if isinstance(links, tuple) and links:
        fields[field] = tuple(dict.fromkeys((*(known if isinstance(known, tuple) else ()), *links)))
