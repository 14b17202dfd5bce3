"""From a header to the fields of a Record, by the table of keys; other makers' names for them included.

A value that cannot be used is a problem and stays under its key, as does a key that is not ours.
"""

import re
from collections.abc import Mapping

from filemem.record.foreign import read_status
from filemem.record.header import Header, Note
from filemem.record.keys import ALIASES, EDGES, KEY_BY_NAME, SUPERSEDED_BY, TITLE_KEY, Key
from filemem.record.model import STATUSES
from filemem.record.references import NUMBER_WORDS
from filemem.record.values import NULL, READERS, ForeignValue, WrongValue, shown
from filemem.record.yamltext import Plain, Value

_OURS = frozenset((*KEY_BY_NAME, *ALIASES))
_SERIES, _DIGITS = re.compile(r"[a-z]{2,8}"), re.compile(r"[0-9]{1,5}")
_ID = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")


def read_fields(header: Header, notes: list[Note]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields of the Record to be, and what stays under its key; problems are added to `notes`."""
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, value in header.values.items():
        key = KEY_BY_NAME.get(name) or _key_meant(name, header.values, fields)
        if key is None:
            if name != TITLE_KEY or not isinstance(value, str):
                extra[name] = value
            continue
        if isinstance(value, Plain) and value in NULL:
            continue  # a template's blank is nothing stated
        try:
            read = READERS[key.shape](value, key)
        except WrongValue as wrong:
            extra[name] = value
            if not isinstance(wrong, ForeignValue):
                message = f"{name} must be {wrong}, not {shown(value)}"
                notes.append(Note(header.lines.get(name, 1), f"bad-{key.name.replace('_', '-')}", "warning", message))
            continue
        if key.name == "status":
            _read_status(str(read), header, fields, extra, notes)
        elif key.shape == EDGES and fields.get(key.field):
            add_links(fields, key.field, read)
        elif read is not None:
            fields[key.field] = read
    if fields.get("topic"):
        fields["topic_stated"] = True
    fields["id_stated"] = _is_id_stated(fields, extra, header, notes)
    if not fields["id_stated"] and (number := _number(header.values)):
        fields["number"] = number
    return fields, extra


def _number(values: Mapping[str, Value]) -> str:
    """The number that a header gives its record, with the name of its series, as `fip-0004`; or "".

    Makers who number records in headers begin with that (`fip: "0004"`, `pep: 8`), or name it by a word for numbers. A
    number under any other key (a weight, a year) orders or describes, and is nobody's name.
    """
    others = [(name.lower(), value) for name, value in values.items() if name.lower() not in _OURS]
    series = [one for one in others[:1] if one[0] != TITLE_KEY and _SERIES.fullmatch(one[0])]
    for name, value in (*series, *(one for one in others if one[0] in NUMBER_WORDS)):
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            return f"{name}-{value}"
    return ""


def _is_id_stated(fields: dict[str, object], extra: dict[str, object], header: Header, notes: list[Note]) -> bool:
    if "id" not in fields or _ID.fullmatch(str(fields["id"])):
        return "id" in fields
    extra["id"] = fields.pop("id")
    message = f"id must be one word without slashes, not {shown(str(extra['id']))}"
    notes.append(Note(header.lines.get("id", 1), "bad-id", "warning", message))
    return False


def _key_meant(name: str, values: Mapping[str, Value], fields: Mapping[str, object]) -> Key | None:
    """Return the key of ours that another maker's means (`date`, `Created`, `superseded-by`) unless ours stands."""
    lower = name.lower()
    ours = ALIASES.get(name) or ALIASES.get(lower) or lower
    key = SUPERSEDED_BY if ours == SUPERSEDED_BY.name else KEY_BY_NAME.get(ours)
    return key if key and ours not in values.keys() - {name} and key.field not in fields else None


def _read_status(
    word: str, header: Header, fields: dict[str, object], extra: dict[str, object], notes: list[Note]
) -> None:
    standing = read_status(word)
    if standing.status != word:
        extra["status"] = word
    if standing.status is None:
        message = f"status must be one of {', '.join(STATUSES)}, not {shown(word)}"
        notes.append(Note(header.lines.get("status", 1), "bad-status", "warning", message))
    else:
        fields["status"] = standing.status
    add_links(fields, "superseded_by", standing.superseded_by)
    add_links(fields, "supersedes", standing.supersedes)


def add_links(fields: dict[str, object], field: str, links: object) -> None:
    """Add links to other records to those that a field has."""
    known = fields.get(field)
    if isinstance(links, tuple) and links:
        fields[field] = tuple(dict.fromkeys((*known, *links))) if isinstance(known, tuple) else links
