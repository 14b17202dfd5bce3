"""What an edit changed: two versions of a record in, short phrases out.

What a record *says* is compared, key by key and section by section, never its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from filemem.record.keys import KEYS
from filemem.record.lines import join_lines, shorten_line
from filemem.record.model import DECISION, Problem, Record
from filemem.record.times import format_time

FORM_CHANGED = "only its form changed"
_MAX_QUOTE = 100  # characters of a value that is quoted
# Field -> what it is called.
_NAMES = {key.field: key.name for key in KEYS} | {
    "status_written": "words of the status",
    "mentions": "links in the text",
}
_TEXT_NAMES = {"decision": "decision", "text": "reasoning", "next_steps": "next steps"}
# What weighs most comes first. All other fields follow, so that no change of a new one is missed.
_LEADING_FIELDS = ("type", "id", "secrets_allowed", "status", "title", "outcomes", *_TEXT_NAMES)
_IMPLIED_FIELDS = {"path", "outcome", "topic_stated", "id_stated"}  # other phrases say these
_FIELDS = [
    *dict.fromkeys(
        field
        for field in (*_LEADING_FIELDS, *_NAMES, *Record._fields)
        if field not in _IMPLIED_FIELDS
    )
]


def describe_changes(before: Record, after: Record) -> tuple[str, ...]:
    """Phrases for what changed between two versions, the weightiest first.

    `FORM` if both say the same.
    """
    phrases = [f"renamed from {before.path}"] if before.path != after.path else []
    for field in _FIELDS:
        phrases += _describe_field(field, before, after)
    return tuple(phrases) or (FORM_CHANGED,)


def _describe_field(field: str, before: Record, after: Record) -> list[str]:
    old_value = getattr(before, field)
    new_value = getattr(after, field)
    if field == "outcomes":
        return _describe_outcomes(before, after)
    if field in _TEXT_NAMES:
        return _describe_text(field, before, after)
    if old_value == new_value:
        return []
    if field == "extra":
        keys = sorted({*old_value, *new_value} - {"outcomes"})
        changed_keys = (key for key in keys if old_value.get(key) != new_value.get(key))
        return [
            _describe_value(_shorten_text(key), old_value.get(key), new_value.get(key))
            for key in changed_keys
        ]
    return [_describe_value(_NAMES.get(field, field), old_value, new_value)]


def _describe_text(field: str, before: Record, after: Record) -> list[str]:
    old_words = _split_words(field, before)
    new_words = _split_words(field, after)
    if old_words == new_words:
        return []
    verb = "changed" if old_words and new_words else "added" if new_words else "removed"
    name = field if field == "text" and after.type != DECISION else _TEXT_NAMES[field]
    return [f"{name} {verb}"]


def _split_words(field: str, record: Record) -> list[str]:
    text: str = getattr(record, field)
    return [] if text == record.title else text.split()


def describe_damage(before: Iterable[Problem], after: Iterable[Problem]) -> tuple[str, ...]:
    """Return what of a file cannot be read any more, and what can be again.

    The arguments are the problems of its two versions.
    """
    old_errors = _get_errors(before)
    new_errors = _get_errors(after)
    phrases = (
        f"{code}: {message}" for code, message in new_errors.items() if code not in old_errors
    )
    return (*phrases, *(f"{code} resolved" for code in old_errors if code not in new_errors))


def _get_errors(problems: Iterable[Problem]) -> dict[str, str]:
    return {problem.code: problem.message for problem in problems if problem.level == "error"}


def _describe_outcomes(before: Record, after: Record) -> list[str]:
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    phrases = [
        f"outcome {entry.outcome}" + (f": {_shorten_text(entry.reason)}" if entry.reason else "")
        for entry in added
    ]
    phrases += [
        f"outcome {entry.outcome} of {format_time(entry.at)[:10]} taken back"
        for entry in before.outcomes
        if entry not in after.outcomes
    ]
    if before.outcome != after.outcome and not added:
        phrases.append(f"outcome {before.outcome} -> {after.outcome}")
    return phrases


def _describe_value(name: str, old_value: object, new_value: object) -> str:
    if any(isinstance(value, tuple | list | Mapping) for value in (old_value, new_value)):
        return f"{name} changed"
    return f"{name} {_format_value(name, old_value)} -> {_format_value(name, new_value)}"


def _format_value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "allowed" if value else "none"
    if isinstance(value, int) and name == "created":
        return format_time(value)
    if value in (None, ""):
        return "none"
    return f'"{_shorten_text(str(value))}"' if name == "title" else _shorten_text(str(value))


def _shorten_text(text: str) -> str:
    return shorten_line(join_lines(text), _MAX_QUOTE)
