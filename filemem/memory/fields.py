"""Check the fields that callers pass, one function for each kind of value.

No other module checks the type or size of an argument. A function raises BadInput for an invalid
value, with the name of its field.
"""

from __future__ import annotations

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
MAX_PATH_BYTES = 4096  # as Linux allows
MAX_HEADING = 100  # characters of a heading made from a longer text (docs/format.md)
_MAX_SHOWN = 60  # characters of an invalid value in a message
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"

Validator = Callable[[str, object], object]


def validate_outcome(field: str, value: object) -> str:
    """Check an outcome in any case; `failure` counts as `failed`. Raises BadInput."""
    outcome = None
    if isinstance(value, str):
        outcome = parse_outcome(value)
    if outcome is None:
        raise _build_choice_error(field, OUTCOMES, value)
    return outcome


def _build_choice_error(field: str, choices: Iterable[str], value: object) -> BadInput:
    message = f"{field} must be one of {', '.join(choices)}, not {format_value(value)}"
    return BadInput(message, field=field)


def validate_text(field: str, value: object, limit: int = MAX_TEXT) -> str:
    r"""Check a free text; line ends become `\n`.

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
    if 0xDC80 <= code <= 0xDCFF:  # Python's surrogate for a byte that is not UTF-8
        message = f"{field} is not UTF-8: it holds the byte {code - 0xDC00:#04x}"
        raise BadInput(message, "send it as UTF-8", field=field)
    message = f"{field} holds the control character U+{code:04X}"
    raise BadInput(message, "remove it", field=field)


def validate_line(field: str, value: object) -> str:
    """Check a text of one line; runs of white space, newlines included, become one space.

    Raises BadInput.
    """
    text = validate_text(field, value, MAX_LINE)
    return " ".join(text.split())


def validate_entries(
    field: str, values: object, validator: Validator = validate_line
) -> tuple[Any, ...]:
    """Check a collection of any size, such as ids or paths, entry by entry.

    Raises BadInput, also for a single text.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadInput(f"{field} must be a list of texts, not {format_value(values)}", field=field)
    checked_values = []
    for index, value in enumerate(values):
        checked_value = validator(f"{field}[{index}]", value)
        checked_values.append(checked_value)
    return tuple(checked_values)


def validate_path(field: str, value: object) -> str:
    """Check the path of a file, which may have characters that other texts may not.

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
    """Check a list of one-line texts; a single text counts as a list of one.

    Empty texts are left out. Raises BadInput.
    """
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise BadInput(f"{field} must be a list of texts, not {format_value(value)}", field=field)
    if len(value) > MAX_ITEMS:
        message = f"{field} has {len(value):,} entries; at most {MAX_ITEMS} are kept"
        raise BadInput(message, field=field)
    lines = validate_entries(field, value)
    return tuple(line for line in lines if line)


def validate_words(field: str, value: object) -> tuple[str, ...]:
    """Check a list of words; a single text is split at commas, as in a file.

    A leading `#` is removed. Raises BadInput.
    """
    if isinstance(value, str):
        value = value.split(",")
    words = validate_lines(field, value)
    return tuple(strip_hash_sign(word) for word in words)


def validate_paths(field: str, value: object) -> tuple[str, ...]:
    """Check a list of paths or globs; `none` alone means an empty list. Raises BadInput."""
    paths = validate_lines(field, value)
    if paths == ("none",):
        return ()
    return paths


def validate_guards(field: str, value: object) -> tuple[Guard, ...]:
    """Check a list of guards, each a mapping as in a header. Raises BadInput."""
    try:
        guards = parse_guards(value)
    except ValueError as error:
        hint = 'such as {"forbid": "import redis", "in": ["src/**"]} or {"dependency": "redis"}'
        raise BadInput(f"{field}: {error}", hint, field=field) from None
    for guard in guards:
        for glob in guard.stated_globs:
            if is_inside_repository(glob.removeprefix("!")):
                continue
            message = f"{field}: {glob} leads out of the repository"
            raise BadInput(message, "name files from its top folder, such as src/**", field=field)
    return guards


def build_choice_validator(choices: tuple[str, ...]) -> Validator:
    """Build a function that checks a word in any case, which must be one of these."""

    def validate_choice(field: str, value: object) -> str:
        word = str(value).strip().casefold()
        if not isinstance(value, str) or word not in choices:
            raise _build_choice_error(field, choices, value)
        return word

    return validate_choice


def validate_fraction(field: str, value: object) -> float:
    """Check a number from 0 to 1. Raises BadInput."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    message = f"{field} must be a number between 0 and 1, not {format_value(value)}"
    raise BadInput(message, field=field)


def validate_integer(field: str, value: object, minimum: int, maximum: int) -> int:
    """Check a whole number. Raises BadInput."""
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
        return value
    expected = f"a whole number between {minimum:,} and {maximum:,}"
    message = f"{field} must be {expected}, not {format_value(value)}"
    raise BadInput(message, field=field)


def validate_flag(field: str, value: object) -> bool:
    """Check a truth value: true or false, nothing else. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{field} must be true or false, not {format_value(value)}", field=field)
    return value


def validate_mapping(field: str, value: object) -> Mapping[str, object]:
    """Check a mapping with text keys, of limited size. Raises BadInput."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        message = f"{field} must be a mapping with text keys, not {format_value(value)}"
        raise BadInput(message, field=field)
    if len(str(value)) > MAX_TEXT:
        raise BadInput(f"{field} is larger than {MAX_TEXT:,} characters", field=field)
    return value


def format_value(value: object) -> str:
    """Format an invalid value in short, for a message."""
    if value is None:
        return "nothing"
    text = type(value).__name__
    if isinstance(value, (str, int, float, bool)):
        text = repr(value)
    if len(text) > _MAX_SHOWN:
        text = text[: _MAX_SHOWN - 1] + "…"
    return text


# the fields of each type


def _build_table(*groups: tuple[Validator, str]) -> dict[str, Validator]:
    """Build a table of validators by field from validators with their fields."""
    table = {}
    for validator, names in groups:
        table.update(dict.fromkeys(names.split(), validator))
    return table


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
NAMES = frozenset({"type"}).union(COMMON, *FIELDS.values())
_REQUIRED = {
    DECISION: ("topic", "decision", "reasoning"),
    CHECKPOINT: ("summary",),
    OBSERVATION: ("text",),
}
_TYPE_BY_FIELD = {
    "summary": CHECKPOINT,
    "text": OBSERVATION,
    "title": OBSERVATION,
    "decision": DECISION,
    "topic": DECISION,
}
_ALIASES = {"memory_session_id": "session"}


def _find_implied_type(values: Mapping[str, object]) -> str | None:
    """Find the record type that the fields imply; None if they imply none."""
    for field, kind in _TYPE_BY_FIELD.items():
        if values.get(field) is not None:
            return kind
    return None


def resolve_type(values: Mapping[str, object]) -> str:
    """Return the record type, from `type` or from the fields. Raises BadInput.

    `type` may also be the kind of an observation.
    """
    stated_type = values.get("type")
    implied_type = _find_implied_type(values)
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
    """Check every field of a save; return the record type and the fields that have a value.

    Raises BadInput.
    """
    named_values = {}
    for stated_name, value in fields.items():
        name = _ALIASES.get(stated_name, stated_name)
        named_values[name] = value
    values = {name: value for name, value in named_values.items() if value is not None}
    kind = resolve_type(values)
    stated_type = values.pop("type", None)
    is_other_kind = stated_type == DECISION and kind == OBSERVATION
    if is_other_kind or stated_type not in (None, *TYPES):
        values.setdefault("kind", stated_type)
    validators = FIELDS[kind] | COMMON
    for name in named_values:
        if name not in validators:
            _refuse_unknown_field(kind, name, values)
    checked_values = {name: validators[name](name, value) for name, value in values.items()}
    _refuse_missing(kind, checked_values)
    return kind, checked_values


def _refuse_missing(kind: str, checked_values: Mapping[str, object]) -> None:
    missing_fields = list_missing(kind, checked_values)
    if missing_fields:
        message = f"{add_article(kind)} needs {' and '.join(missing_fields)}"
        hint = f"give {', '.join(_REQUIRED[kind])}"
        raise BadInput(message, hint, field=missing_fields[0])
    if "reason" in checked_values and "outcome" not in checked_values:
        message = "a reason needs the outcome it explains"
        raise BadInput(message, "give outcome as well", field="outcome")


def _refuse_unknown_field(kind: str, name: str, values: Mapping[str, object]) -> None:
    """Raise BadInput, unless it is a known field of another type without a value."""
    if name in NAMES and name not in values:
        return
    hint = suggest_choice(name, [*FIELDS[kind], *COMMON])
    for other, table in FIELDS.items():
        if name in table:
            hint = f"that is for {add_article(other)}: leave it out, or save twice"
            break
    raise BadInput(f"{add_article(kind)} has no field {name!r}", hint, field=name)


def list_missing(kind: str, fields: Mapping[str, object]) -> list[str]:
    """List the required fields of a type that are missing or blank."""
    missing_fields = []
    for name in _REQUIRED[kind]:
        value = fields.get(name) or ""
        if not str(value).strip():
            missing_fields.append(name)
    return missing_fields


def add_article(kind: str) -> str:
    """Return a record type with its article."""
    if kind == OBSERVATION:
        return f"an {kind}"
    return f"a {kind}"


def build_heading(content: str) -> str:
    """Build the heading of a text: its first line that is not blank, shortened; or ""."""
    for line in content.splitlines():
        words = line.split()
        if words:
            return shorten_line(" ".join(words), MAX_HEADING)
    return ""
