"""Check the fields that callers pass, one function for each kind of value.

No other module checks the type or size of an argument. An invalid one is refused, with the name of
its field.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from filemem.errors import BadInput
from filemem.hints import suggest
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

LINE = 500  # characters of a one-line field
TEXT = 100_000  # characters of a free text
ITEMS = 200  # entries of a list
LONGEST = 4096  # bytes of a path, as Linux allows
HEADING = 100  # characters of a heading made from a longer text (docs/format.md)
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"

Check = Callable[[str, object], object]


def outcome(field: str, value: object) -> str:
    """Read an outcome in any case, `failure` for `failed` included. Raises BadInput."""
    word = parse_outcome(value) if isinstance(value, str) else None
    if word is None:
        raise _not_one_of(field, OUTCOMES, value)
    return word


def _not_one_of(field: str, words: Iterable[str], value: object) -> BadInput:
    message = f"{field} must be one of {', '.join(words)}, not {in_short(value)}"
    return BadInput(message, field=field)


def text(field: str, value: object, limit: int = TEXT) -> str:
    """Check a free text.

    Raises BadInput: it is no text, longer than `limit` characters, or has control characters.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be text, not {in_short(value)}", field=field)
    clean = value.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if len(clean) > limit:
        message = f"{field} has {len(clean):,} characters; at most {limit:,} are kept"
        raise BadInput(message, "shorten it, or split it into several", field=field)
    if not clean.isprintable():
        _refuse_control(field, clean)
    return clean


def _refuse_control(field: str, text: str) -> None:
    match = re.search(_CONTROL, text)
    if not match:
        return
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is not UTF-8
        message = f"{field} is not UTF-8: it holds the byte {code - 0xDC00:#04x}"
        raise BadInput(message, "send it as UTF-8", field=field)
    message = f"{field} holds the control character U+{code:04X}"
    raise BadInput(message, "remove it", field=field)


def line(field: str, value: object) -> str:
    """Check a text of one line; runs of white space, newlines included, become one space.

    Raises BadInput.
    """
    return " ".join(text(field, value, LINE).split())


def entries(field: str, values: object, check: Check = line) -> tuple[Any, ...]:
    """Check a collection of any size, such as ids or paths, entry by entry.

    Raises BadInput, also for a single text.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadInput(f"{field} must be a list of texts, not {in_short(values)}", field=field)
    return tuple(check(f"{field}[{i}]", entry) for i, entry in enumerate(values))


def path(field: str, value: object) -> str:
    """Check the name of a file, which may hold characters that other texts may not.

    Raises BadInput.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be a path, not {in_short(value)}", field=field)
    try:
        name = os.fsencode(value)
        if len(name) <= LONGEST and b"\0" not in name:
            return value
    except UnicodeEncodeError:
        pass
    message = f"{field}: no file can be named {in_short(value)}"
    raise BadInput(message, "give a path that this system allows", field=field)


def lines(field: str, value: object) -> tuple[str, ...]:
    """Check a list of one-line texts; a single text counts as a list of one. Raises BadInput."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"{field} must be a list of texts, not {in_short(value)}", field=field)
    if len(values) > ITEMS:
        message = f"{field} has {len(values):,} entries; at most {ITEMS} are kept"
        raise BadInput(message, field=field)
    return tuple(filter(None, entries(field, values)))


def words(field: str, value: object) -> tuple[str, ...]:
    """Check a list of words; a single text is split at commas, as it is in a file.

    A `#` in front is none of a word. Raises BadInput.
    """
    values = value.split(",") if isinstance(value, str) else value
    return tuple(map(word, lines(field, values)))


def paths(field: str, value: object) -> tuple[str, ...]:
    """Check a list of paths or globs; `none` alone means an empty list. Raises BadInput."""
    checked = lines(field, value)
    return () if checked == ("none",) else checked


def guards(field: str, value: object) -> tuple[Guard, ...]:
    """Check a list of guards, each a mapping as in a header. Raises BadInput."""
    try:
        read = read_guards(value)
    except ValueError as error:
        hint = 'such as {"forbid": "import redis", "in": ["src/**"]} or {"dependency": "redis"}'
        raise BadInput(f"{field}: {error}", hint, field=field) from None
    for glob in (glob for guard in read for glob in guard.within):
        if not within(glob.removeprefix("!")):
            message = f"{field}: {glob} leads out of the repository"
            raise BadInput(message, "name files from its top folder, such as src/**", field=field)
    return read


def one_of(words: tuple[str, ...]) -> Check:
    """Return the check of a word in any case that must be one of these."""

    def check(field: str, value: object) -> str:
        word = str(value).strip().casefold()
        if not isinstance(value, str) or word not in words:
            raise _not_one_of(field, words, value)
        return word

    return check


def fraction(field: str, value: object) -> float:
    """Check a number from 0 to 1. Raises BadInput."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        message = f"{field} must be a number between 0 and 1, not {in_short(value)}"
        raise BadInput(message, field=field)
    return float(number)


def whole(field: str, value: object, least: int, most: int) -> int:
    """Check a whole number. Raises BadInput."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        wanted = f"a whole number between {least:,} and {most:,}"
        raise BadInput(f"{field} must be {wanted}, not {in_short(value)}", field=field)
    return value


def flag(field: str, value: object) -> bool:
    """Check a truth value: true or false, nothing else. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{field} must be true or false, not {in_short(value)}", field=field)
    return value


def mapping(field: str, value: object) -> Mapping[str, object]:
    """Check a mapping with text keys, of at most TEXT characters. Raises BadInput."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        message = f"{field} must be a mapping with text keys, not {in_short(value)}"
        raise BadInput(message, field=field)
    if len(str(value)) > TEXT:
        raise BadInput(f"{field} is larger than {TEXT:,} characters", field=field)
    return value


def in_short(value: object) -> str:
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


def type_of(values: Mapping[str, object]) -> str:
    """Return the record type, from `type` or from the fields. Raises BadInput."""
    stated = values.get("type")
    implied = next((kind for sign, kind in _SIGNS.items() if values.get(sign) is not None), None)
    if stated is None and implied:
        return implied
    if stated in TYPES and (stated != DECISION or implied != OBSERVATION):
        return str(stated)
    if stated in KINDS and implied in (OBSERVATION, None):
        return OBSERVATION
    message = "nothing to save"
    if stated is not None:
        message = f"type must be one of {', '.join(TYPES)}, not {in_short(stated)}"
    raise BadInput(
        message,
        "a decision has topic, decision and reasoning; a checkpoint has summary; "
        "an observation has title and text",
        field="type",
    )


def check(fields: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """Check every field of a save; return the record type and the fields that are stated.

    Raises BadInput.
    """
    named = {_ALIASES.get(name, name): value for name, value in fields.items()}
    values = {name: value for name, value in named.items() if value is not None}
    kind = type_of(values)
    stated = values.pop("type", None)
    if stated not in (None, *TYPES) or (stated == DECISION and kind == OBSERVATION):
        values.setdefault("kind", stated)
    checks = {**FIELDS[kind], **COMMON}
    for name in named:
        if name not in checks and name not in NAMES.difference(values):
            raise _unknown_field(kind, name)
    checked = {name: checks[name](name, value) for name, value in values.items()}
    _refuse_lacking(kind, checked)
    return kind, checked


def _refuse_lacking(kind: str, checked: Mapping[str, object]) -> None:
    lacking = missing(kind, checked)
    if lacking:
        hint = f"give {', '.join(_REQUIRED[kind])}"
        raise BadInput(f"{article(kind)} needs {' and '.join(lacking)}", hint, field=lacking[0])
    if "reason" in checked and "outcome" not in checked:
        message = "a reason needs the outcome it explains"
        raise BadInput(message, "give outcome as well", field="outcome")


def _unknown_field(kind: str, name: str) -> BadInput:
    owner = next((other for other, table in FIELDS.items() if name in table), None)
    if owner:
        hint = f"that is for {article(owner)}: leave it out, or save twice"
    else:
        hint = suggest(name, [*FIELDS[kind], *COMMON])
    return BadInput(f"{article(kind)} has no field {name!r}", hint, field=name)


def missing(kind: str, fields: Mapping[str, object]) -> list[str]:
    """Return the required fields of a type that are missing or blank."""
    return [name for name in _REQUIRED[kind] if not str(fields.get(name) or "").strip()]


def article(kind: str) -> str:
    """Return a record type with its article."""
    return f"an {kind}" if kind == OBSERVATION else f"a {kind}"


def heading(whole: str) -> str:
    """Return the heading for a text: its first line that is not blank, cut."""
    rows = (" ".join(row.split()) for row in whole.splitlines())
    return cut(next(filter(None, rows), ""), HEADING)
