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
from filemem.hints import suggest_choice
from filemem.query import is_inside_repository
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
    parse_outcome,
    shorten_line,
)
from filemem.record.guards import Guard, parse_guards
from filemem.record.keys import strip_hash_sign

MAX_LINE = 500  # characters of a one-line field
MAX_TEXT = 100_000  # characters of a free text
MAX_ITEMS = 200  # entries of a list
MAX_PATH_BYTES = 4096  # bytes of a path, as Linux allows
MAX_HEADING = 100  # characters of a heading made from a longer text (docs/format.md)
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"

Validator = Callable[[str, object], object]


def validate_outcome(field: str, value: object) -> str:
    """Read an outcome in any case, `failure` for `failed` included. Raises BadInput."""
    word = parse_outcome(value) if isinstance(value, str) else None
    if word is None:
        raise _build_choice_error(field, OUTCOMES, value)
    return word


def _build_choice_error(field: str, choices: Iterable[str], value: object) -> BadInput:
    message = f"{field} must be one of {', '.join(choices)}, not {format_value(value)}"
    return BadInput(message, field=field)


def validate_text(field: str, value: object, limit: int = MAX_TEXT) -> str:
    """Check a free text.

    Raises BadInput: it is no text, longer than `limit` characters, or has control characters.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be text, not {format_value(value)}", field=field)
    clean_text = value.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if len(clean_text) > limit:
        message = f"{field} has {len(clean_text):,} characters; at most {limit:,} are kept"
        raise BadInput(message, "shorten it, or split it into several", field=field)
    if not clean_text.isprintable():
        _refuse_control_characters(field, clean_text)
    return clean_text


def _refuse_control_characters(field: str, text: str) -> None:
    match = re.search(_CONTROL, text)
    if not match:
        return
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is not UTF-8
        message = f"{field} is not UTF-8: it holds the byte {code - 0xDC00:#04x}"
        raise BadInput(message, "send it as UTF-8", field=field)
    message = f"{field} holds the control character U+{code:04X}"
    raise BadInput(message, "remove it", field=field)


def validate_line(field: str, value: object) -> str:
    """Check a text of one line; runs of white space, newlines included, become one space.

    Raises BadInput.
    """
    return " ".join(validate_text(field, value, MAX_LINE).split())


def validate_entries(
    field: str, values: object, validator: Validator = validate_line
) -> tuple[Any, ...]:
    """Check a collection of any size, such as ids or paths, entry by entry.

    Raises BadInput, also for a single text.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadInput(f"{field} must be a list of texts, not {format_value(values)}", field=field)
    return tuple(validator(f"{field}[{i}]", entry) for i, entry in enumerate(values))


def validate_path(field: str, value: object) -> str:
    """Check the name of a file, which may hold characters that other texts may not.

    Raises BadInput.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be a path, not {format_value(value)}", field=field)
    try:
        name = os.fsencode(value)
        if len(name) <= MAX_PATH_BYTES and b"\0" not in name:
            return value
    except UnicodeEncodeError:
        pass
    message = f"{field}: no file can be named {format_value(value)}"
    raise BadInput(message, "give a path that this system allows", field=field)


def validate_lines(field: str, value: object) -> tuple[str, ...]:
    """Check a list of one-line texts; a single text counts as a list of one. Raises BadInput."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"{field} must be a list of texts, not {format_value(value)}", field=field)
    if len(values) > MAX_ITEMS:
        message = f"{field} has {len(values):,} entries; at most {MAX_ITEMS} are kept"
        raise BadInput(message, field=field)
    return tuple(filter(None, validate_entries(field, values)))


def validate_words(field: str, value: object) -> tuple[str, ...]:
    """Check a list of words; a single text is split at commas, as it is in a file.

    A `#` in front is none of a word. Raises BadInput.
    """
    values = value.split(",") if isinstance(value, str) else value
    return tuple(map(strip_hash_sign, validate_lines(field, values)))


def validate_paths(field: str, value: object) -> tuple[str, ...]:
    """Check a list of paths or globs; `none` alone means an empty list. Raises BadInput."""
    checked_paths = validate_lines(field, value)
    return () if checked_paths == ("none",) else checked_paths


def validate_guards(field: str, value: object) -> tuple[Guard, ...]:
    """Check a list of guards, each a mapping as in a header. Raises BadInput."""
    try:
        checked_guards = parse_guards(value)
    except ValueError as error:
        hint = 'such as {"forbid": "import redis", "in": ["src/**"]} or {"dependency": "redis"}'
        raise BadInput(f"{field}: {error}", hint, field=field) from None
    for glob in (glob for guard in checked_guards for glob in guard.stated_globs):
        if not is_inside_repository(glob.removeprefix("!")):
            message = f"{field}: {glob} leads out of the repository"
            raise BadInput(message, "name files from its top folder, such as src/**", field=field)
    return checked_guards


def build_choice_validator(choices: tuple[str, ...]) -> Validator:
    """Return the check of a word in any case that must be one of these."""

    def validate_choice(field: str, value: object) -> str:
        word = str(value).strip().casefold()
        if not isinstance(value, str) or word not in choices:
            raise _build_choice_error(field, choices, value)
        return word

    return validate_choice


def validate_fraction(field: str, value: object) -> float:
    """Check a number from 0 to 1. Raises BadInput."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        message = f"{field} must be a number between 0 and 1, not {format_value(value)}"
        raise BadInput(message, field=field)
    return float(number)


def validate_integer(field: str, value: object, minimum: int, maximum: int) -> int:
    """Check a whole number. Raises BadInput."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        expected = f"a whole number between {minimum:,} and {maximum:,}"
        raise BadInput(f"{field} must be {expected}, not {format_value(value)}", field=field)
    return value


def validate_flag(field: str, value: object) -> bool:
    """Check a truth value: true or false, nothing else. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{field} must be true or false, not {format_value(value)}", field=field)
    return value


def validate_mapping(field: str, value: object) -> Mapping[str, object]:
    """Check a mapping with text keys, of at most TEXT characters. Raises BadInput."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        message = f"{field} must be a mapping with text keys, not {format_value(value)}"
        raise BadInput(message, field=field)
    if len(str(value)) > MAX_TEXT:
        raise BadInput(f"{field} is larger than {MAX_TEXT:,} characters", field=field)
    return value


def format_value(value: object) -> str:
    """Return an invalid value in short, for a message."""
    if value is None:
        return "nothing"
    picture = repr(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
    return picture if len(picture) <= 60 else picture[:59] + "…"


# what each type takes


def _build_table(*groups: tuple[Validator, str]) -> dict[str, Validator]:
    return {name: check for check, names in groups for name in names.split()}


COMMON = _build_table(
    (validate_words, "tags"),
    (validate_line, "agent session source"),
    (validate_flag, "allow_secret"),
)
FIELDS = {
    DECISION: _build_table(
        (validate_line, "topic reason limitation"),
        (validate_text, "decision reasoning"),
        (validate_fraction, "confidence"),
        (build_choice_validator(STATUSES), "status"),
        (validate_outcome, "outcome"),
        (build_choice_validator(DECIDERS), "decided_by"),
        (validate_lines, "supersedes builds_on debates synthesizes rejected"),
        (validate_paths, "affects"),
        (validate_guards, "guards"),
    ),
    CHECKPOINT: _build_table(
        (validate_text, "summary next_steps"),
        (validate_lines, "open_files"),
        (validate_line, "branch"),
    ),
    OBSERVATION: _build_table(
        (validate_line, "title project department user_id agent_id run_id scope memory_type"),
        (validate_text, "text"),
        (build_choice_validator(KINDS), "kind"),
        (build_choice_validator(VISIBILITIES), "visibility"),
        (validate_lines, "facts files_read files_modified"),
        (validate_words, "concepts"),
        (validate_mapping, "metadata"),
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


def resolve_type(values: Mapping[str, object]) -> str:
    """Return the record type, from `type` or from the fields. Raises BadInput."""
    stated_type = values.get("type")
    implied_type = next(
        (kind for sign, kind in _SIGNS.items() if values.get(sign) is not None), None
    )
    if stated_type is None and implied_type:
        return implied_type
    if stated_type in TYPES and (stated_type != DECISION or implied_type != OBSERVATION):
        return str(stated_type)
    if stated_type in KINDS and implied_type in (OBSERVATION, None):
        return OBSERVATION
    message = "nothing to save"
    if stated_type is not None:
        message = f"type must be one of {', '.join(TYPES)}, not {format_value(stated_type)}"
    raise BadInput(
        message,
        "a decision has topic, decision and reasoning; a checkpoint has summary; "
        "an observation has title and text",
        field="type",
    )


def validate_fields(fields: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """Check every field of a save; return the record type and the fields that are stated.

    Raises BadInput.
    """
    named_values = {_ALIASES.get(name, name): value for name, value in fields.items()}
    values = {name: value for name, value in named_values.items() if value is not None}
    kind = resolve_type(values)
    stated_type = values.pop("type", None)
    if stated_type not in (None, *TYPES) or (stated_type == DECISION and kind == OBSERVATION):
        values.setdefault("kind", stated_type)
    checks = {**FIELDS[kind], **COMMON}
    for name in named_values:
        if name not in checks and name not in NAMES.difference(values):
            raise _build_unknown_field_error(kind, name)
    checked_values = {name: checks[name](name, value) for name, value in values.items()}
    _refuse_missing(kind, checked_values)
    return kind, checked_values


def _refuse_missing(kind: str, checked_values: Mapping[str, object]) -> None:
    missing_fields = list_missing(kind, checked_values)
    if missing_fields:
        hint = f"give {', '.join(_REQUIRED[kind])}"
        raise BadInput(
            f"{add_article(kind)} needs {' and '.join(missing_fields)}",
            hint,
            field=missing_fields[0],
        )
    if "reason" in checked_values and "outcome" not in checked_values:
        message = "a reason needs the outcome it explains"
        raise BadInput(message, "give outcome as well", field="outcome")


def _build_unknown_field_error(kind: str, name: str) -> BadInput:
    owner = next((other for other, table in FIELDS.items() if name in table), None)
    if owner:
        hint = f"that is for {add_article(owner)}: leave it out, or save twice"
    else:
        hint = suggest_choice(name, [*FIELDS[kind], *COMMON])
    return BadInput(f"{add_article(kind)} has no field {name!r}", hint, field=name)


def list_missing(kind: str, fields: Mapping[str, object]) -> list[str]:
    """Return the required fields of a type that are missing or blank."""
    return [name for name in _REQUIRED[kind] if not str(fields.get(name) or "").strip()]


def add_article(kind: str) -> str:
    """Return a record type with its article."""
    return f"an {kind}" if kind == OBSERVATION else f"a {kind}"


def build_heading(content: str) -> str:
    """Return the heading for a text: its first line that is not blank, cut."""
    rows = (" ".join(row.split()) for row in content.splitlines())
    return shorten_line(next(filter(None, rows), ""), MAX_HEADING)
