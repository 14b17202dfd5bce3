"""Check the fields that callers pass: one function for each kind of value, one table of the fields of each type.

No other module checks the type or size of an argument. An invalid one is refused, with the name of its field.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from filemem.errors import BadInput, suggest
from filemem.query import within
from filemem.record import (
    CHECKPOINT,
    DECIDERS,
    DECISION,
    KINDS,
    OBSERVATION,
    OUTCOMES,
    STATUSES,
    TYPES,
    VISIBILITIES,
    cut,
    parse_outcome,
)
from filemem.record.guards import Guard, read_guards
from filemem.record.keys import word

LINE, TEXT = 500, 100_000  # characters of a one-line field and of a free text
ITEMS = 200  # entries of a list
LONGEST = 4096  # bytes of a path, as Linux allows
HEADING = 100  # characters of a heading made from a longer text (docs/format.md)
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"

Check = Callable[[str, object], object]


def outcome(field: str, value: object) -> str:
    """Read an outcome in any case, `failure` for `failed` included. Raises BadInput."""
    word = parse_outcome(value) if isinstance(value, str) else None
    if word is None:
        raise BadInput(
            f"{field} must be one of {', '.join(OUTCOMES)}, not {shown(value)}", field=field
        )
    return word


def text(field: str, value: object, limit: int = TEXT) -> str:
    """Check a free text. Raises BadInput: no text, longer than `limit` characters, or with control characters."""
    if not isinstance(value, str):
        raise BadInput(f"{field} must be text, not {shown(value)}", field=field)
    clean = value.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if len(clean) > limit:
        told = f"{field} has {len(clean):,} characters; at most {limit:,} are kept"
        raise BadInput(told, "shorten it, or split it into several", field=field)
    if not clean.isprintable() and (bad := re.search(_CONTROL, clean)):
        if "\udc80" <= bad[0] <= "\udcff":  # how Python keeps a byte that is not UTF-8
            told = f"{field} is not UTF-8: it holds the byte {ord(bad[0]) - 0xDC00:#04x}"
            raise BadInput(told, "send it as UTF-8", field=field)
        raise BadInput(
            f"{field} holds the control character U+{ord(bad[0]):04X}", "remove it", field=field
        )
    return clean


def line(field: str, value: object) -> str:
    """Check a text of one line; runs of white space, newlines included, become one space. Raises BadInput."""
    return " ".join(text(field, value, LINE).split())


def each(field: str, values: object, check: Check = line) -> tuple[Any, ...]:
    """Check a collection of any size, such as ids or paths, entry by entry. Raises BadInput, also for a single text."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadInput(f"{field} must be a list of texts, not {shown(values)}", field=field)
    return tuple(check(f"{field}[{i}]", entry) for i, entry in enumerate(values))


def path(field: str, value: object) -> str:
    """Check the name of a file, which may hold characters that other texts may not. Raises BadInput."""
    if not isinstance(value, str):
        raise BadInput(f"{field} must be a path, not {shown(value)}", field=field)
    try:
        name = os.fsencode(value)
        if len(name) <= LONGEST and b"\0" not in name:
            return value
    except UnicodeEncodeError:
        pass
    raise BadInput(
        f"{field}: no file can be named {shown(value)}",
        "give a path that this system allows",
        field=field,
    )


def lines(field: str, value: object) -> tuple[str, ...]:
    """Check a list of one-line texts; a single text counts as a list of one. Raises BadInput."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"{field} must be a list of texts, not {shown(value)}", field=field)
    if len(values) > ITEMS:
        raise BadInput(
            f"{field} has {len(values):,} entries; at most {ITEMS} are kept", field=field
        )
    return tuple(item for item in each(field, values) if item)


def words(field: str, value: object) -> tuple[str, ...]:
    """Check a list of words; a single text is split at commas, as it is in a file.

    A `#` in front is none of a word. Raises BadInput.
    """
    values = value.split(",") if isinstance(value, str) else value
    return tuple(map(word, lines(field, values)))


def paths(field: str, value: object) -> tuple[str, ...]:
    """Check a list of paths or globs; `none` alone means an empty list. Raises BadInput."""
    return () if (given := lines(field, value)) == ("none",) else given


def guards(field: str, value: object) -> tuple[Guard, ...]:
    """Check a list of guards, each a mapping as in a header. Raises BadInput."""
    try:
        read = read_guards(value)
    except ValueError as error:
        hint = 'such as {"forbid": "import redis", "in": ["src/**"]} or {"dependency": "redis"}'
        raise BadInput(f"{field}: {error}", hint, field=field) from None
    for glob in (glob for guard in read for glob in guard.within):
        if not within(glob.removeprefix("!")):
            raise BadInput(
                f"{field}: {glob} leads out of the repository",
                "name files from its top folder, such as src/**",
                field=field,
            )
    return read


def one_of(words: tuple[str, ...]) -> Check:
    """Return the check of a word in any case that must be one of these."""

    def check(field: str, value: object) -> str:
        word = str(value).strip().casefold()
        if not isinstance(value, str) or word not in words:
            raise BadInput(
                f"{field} must be one of {', '.join(words)}, not {shown(value)}", field=field
            )
        return word

    return check


def fraction(field: str, value: object) -> float:
    """Check a number from 0 to 1. Raises BadInput."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        raise BadInput(f"{field} must be a number between 0 and 1, not {shown(value)}", field=field)
    return float(number)


def whole(field: str, value: object, least: int, most: int) -> int:
    """Check a whole number. Raises BadInput."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        wanted = f"a whole number between {least:,} and {most:,}"
        raise BadInput(f"{field} must be {wanted}, not {shown(value)}", field=field)
    return value


def flag(field: str, value: object) -> bool:
    """Check a truth value: true or false, nothing else. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{field} must be true or false, not {shown(value)}", field=field)
    return value


def mapping(field: str, value: object) -> Mapping[str, object]:
    """Check a mapping with text keys, of at most TEXT characters. Raises BadInput."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadInput(f"{field} must be a mapping with text keys, not {shown(value)}", field=field)
    if len(str(value)) > TEXT:
        raise BadInput(f"{field} is larger than {TEXT:,} characters", field=field)
    return value


def alike(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names most similar to a word, the closest first; `cutoff` is difflib's ratio, 0 to 1."""
    from difflib import get_close_matches  # noqa: PLC0415 - 3 ms; for a wrong word, or a topic that is new

    return get_close_matches(name[:LINE], list(known), n=most, cutoff=cutoff)


def meant(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean ...?` for an unknown name; `otherwise` if no known name is similar."""
    near = alike(name, known, 2, 0.5)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def shown(value: object) -> str:
    """Return an invalid value in short, for a message."""
    if value is None:
        return "nothing"
    picture = repr(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
    return picture if len(picture) <= 60 else picture[:59] + "…"


# what each type takes


def _table(*groups: tuple[Check, str]) -> dict[str, Check]:
    return {name: check for check, names in groups for name in names.split()}


COMMON = _table((words, "tags"), (line, "agent session source"), (flag, "allow_secret"))
FIELDS = {
    DECISION: _table(
        (line, "topic reason limitation"),
        (text, "decision reasoning"),
        (fraction, "confidence"),
        (one_of(STATUSES), "status"),
        (outcome, "outcome"),
        (one_of(DECIDERS), "decided_by"),
        (lines, "supersedes builds_on debates synthesizes rejected"),
        (paths, "affects"),
        (guards, "guards"),
    ),
    CHECKPOINT: _table((text, "summary next_steps"), (lines, "open_files"), (line, "branch")),
    OBSERVATION: _table(
        (line, "title project department user_id agent_id run_id scope memory_type"),
        (text, "text"),
        (one_of(KINDS), "kind"),
        (one_of(VISIBILITIES), "visibility"),
        (lines, "facts files_read files_modified"),
        (words, "concepts"),
        (mapping, "metadata"),
    ),
}
NAMES = frozenset({"type", *COMMON}.union(*FIELDS.values()))
_REQUIRED = {
    DECISION: ("topic", "decision", "reasoning"),
    CHECKPOINT: ("summary",),
    OBSERVATION: ("text",),
}
_SIGNS = {
    "summary": CHECKPOINT,
    "text": OBSERVATION,
    "title": OBSERVATION,
    "decision": DECISION,
    "topic": DECISION,
}
_ALIASES = {"memory_session_id": "session"}


def type_of(given: Mapping[str, object]) -> str:
    """Return the record type, from `type` or from the fields given. Raises BadInput."""
    stated = given.get("type")
    implied = next((kind for sign, kind in _SIGNS.items() if given.get(sign) is not None), None)
    if stated is None and implied:
        return implied
    if stated in TYPES and (stated != DECISION or implied != OBSERVATION):
        return str(stated)
    if stated in KINDS and implied in (OBSERVATION, None):
        return OBSERVATION
    raise BadInput(
        f"type must be one of {', '.join(TYPES)}, not {shown(stated)}"
        if stated is not None
        else "nothing to save",
        "a decision has topic, decision and reasoning; a checkpoint has summary; an observation has title and text",
        field="type",
    )


def check(fields: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """Check every field of a save; return the record type and the fields that are given. Raises BadInput."""
    named = {_ALIASES.get(name, name): value for name, value in fields.items()}
    given = {name: value for name, value in named.items() if value is not None}
    kind = type_of(given)
    if (stated := given.pop("type", None)) not in (None, *TYPES) or (
        stated == DECISION and kind == OBSERVATION
    ):
        given.setdefault("kind", stated)
    known = {**FIELDS[kind], **COMMON}
    for name in named:
        if name not in known and (name in given or name not in NAMES):
            owner = next((other for other, table in FIELDS.items() if name in table), None)
            hint = (
                f"that is for {article(owner)}: leave it out, or save twice"
                if owner
                else suggest(name, known)
            )
            raise BadInput(f"{article(kind)} has no field {name!r}", hint, field=name)
    checked = {name: known[name](name, value) for name, value in given.items()}
    if lacking := missing(kind, checked):
        needed = f"give {', '.join(_REQUIRED[kind])}"
        raise BadInput(f"{article(kind)} needs {' and '.join(lacking)}", needed, field=lacking[0])
    if "reason" in checked and "outcome" not in checked:
        raise BadInput(
            "a reason needs the outcome it explains", "give outcome as well", field="outcome"
        )
    return kind, checked


def missing(kind: str, fields: Mapping[str, object]) -> list[str]:
    """Return the required fields of a type that are missing or blank."""
    return [name for name in _REQUIRED[kind] if not str(fields.get(name) or "").strip()]


def article(kind: str) -> str:
    """Return a record type with its article."""
    return f"an {kind}" if kind == OBSERVATION else f"a {kind}"


def heading(whole: str) -> str:
    """Return the heading for a text: its first line that is not blank, cut to HEADING characters."""
    first = next(
        (stripped for row in whole.splitlines() if (stripped := " ".join(row.split()))), ""
    )
    return cut(first, HEADING)
