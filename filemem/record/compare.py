"""Describe in short phrases what changed between two versions of a record.

Values of keys and sections are compared, not bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from filemem.record.keys import KEYS
from filemem.record.lines import join_lines, shorten_line
from filemem.record.model import DECISION, Problem, Record
from filemem.record.times import format_time

FORM_CHANGED = "only its form changed"
_MAX_QUOTE = 100  # characters of a value that is quoted
_COMPOSITE_TYPES = (tuple, list, Mapping)
# Field -> its name in a phrase.
_NAMES = {key.field: key.name for key in KEYS} | {
    "status_written": "words of the status",
    "mentions": "links in the text",
}
_TEXT_NAMES = {"decision": "decision", "text": "reasoning", "next_steps": "next steps"}
# The most important fields come first. All others follow, so that no change of a new one is missed.
_LEADING_FIELDS = ("type", "id", "secrets_allowed", "status", "title", "outcomes", *_TEXT_NAMES)
_IMPLIED_FIELDS = {"path", "outcome", "topic_stated", "id_stated"}  # in other phrases
_ORDER = dict.fromkeys((*_LEADING_FIELDS, *_NAMES, *Record._fields))
_FIELDS = [field for field in _ORDER if field not in _IMPLIED_FIELDS]


def describe_changes(before: Record, after: Record) -> tuple[str, ...]:
    """Return phrases for the changes between two versions, the most important first.

    If both have equal values, the one phrase is `FORM_CHANGED`.
    """
    phrases = []
    if before.path != after.path:
        phrases.append(f"renamed from {before.path}")
    for field in _FIELDS:
        phrases += _describe_field(field, before, after)
    return tuple(phrases) or (FORM_CHANGED,)


def _describe_field(field: str, before: Record, after: Record) -> list[str]:
    if field == "outcomes":
        return _describe_outcomes(before, after)
    if field in _TEXT_NAMES:
        return _describe_text(field, before, after)
    if field == "extra":
        return _describe_extra(before.extra, after.extra)
    old_value = getattr(before, field)
    new_value = getattr(after, field)
    if old_value == new_value:
        return []
    return [_describe_value(_NAMES.get(field, field), old_value, new_value)]


def _describe_extra(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    phrases = []
    for key in sorted({*old, *new}):
        old_value = old.get(key)
        new_value = new.get(key)
        if key != "outcomes" and old_value != new_value:
            phrases.append(_describe_value(_shorten_text(key), old_value, new_value))
    return phrases


def _describe_text(field: str, before: Record, after: Record) -> list[str]:
    old_words = _split_words(field, before)
    new_words = _split_words(field, after)
    if old_words == new_words:
        return []
    name = _TEXT_NAMES[field]
    if field == "text" and after.type != DECISION:
        name = field
    if not old_words:
        return [f"{name} added"]
    if not new_words:
        return [f"{name} removed"]
    return [f"{name} changed"]


def _split_words(field: str, record: Record) -> list[str]:
    text: str = getattr(record, field)
    if text == record.title:
        return []
    return text.split()


def describe_damage(before: Iterable[Problem], after: Iterable[Problem]) -> tuple[str, ...]:
    """Return phrases for the new errors and the resolved ones.

    The arguments are the problems of the two versions of a file.
    """
    old_errors = _get_errors(before)
    new_errors = _get_errors(after)
    phrases = []
    for code, message in new_errors.items():
        if code not in old_errors:
            phrases.append(f"{code}: {message}")
    phrases += [f"{code} resolved" for code in old_errors if code not in new_errors]
    return tuple(phrases)


def _get_errors(problems: Iterable[Problem]) -> dict[str, str]:
    return {problem.code: problem.message for problem in problems if problem.level == "error"}


def _describe_outcomes(before: Record, after: Record) -> list[str]:
    phrases = []
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    for entry in added:
        phrase = f"outcome {entry.outcome}"
        if entry.reason:
            phrase += f": {_shorten_text(entry.reason)}"
        phrases.append(phrase)
    for entry in before.outcomes:
        if entry not in after.outcomes:
            day = format_time(entry.at)[:10]
            phrases.append(f"outcome {entry.outcome} of {day} taken back")
    if before.outcome != after.outcome and not added:
        phrases.append(f"outcome {before.outcome} -> {after.outcome}")
    return phrases


def _describe_value(name: str, old_value: object, new_value: object) -> str:
    if isinstance(old_value, _COMPOSITE_TYPES) or isinstance(new_value, _COMPOSITE_TYPES):
        return f"{name} changed"
    old_text = _format_value(name, old_value)
    new_text = _format_value(name, new_value)
    return f"{name} {old_text} -> {new_text}"


def _format_value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "allowed" if value else "none"
    if isinstance(value, int) and name == "created":
        return format_time(value)
    if value is None or value == "":
        return "none"
    text = _shorten_text(str(value))
    if name == "title":
        return f'"{text}"'
    return text


def _shorten_text(text: str) -> str:
    return shorten_line(join_lines(text), _MAX_QUOTE)
