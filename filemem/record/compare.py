"""What an edit changed: two versions of a record in, short phrases out.

What a record *says* is compared, key by key and section by section, never its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from filemem.record.keys import KEYS
from filemem.record.lines import cut, one_line
from filemem.record.model import DECISION, Problem, Record
from filemem.record.times import format_time

FORM = "only its form changed"
_LONG = 100  # characters of a value that is quoted
# Field -> what it is called.
_NAMES = {key.field: key.name for key in KEYS} | {
    "status_written": "words of the status",
    "mentions": "links in the text",
}
_TEXTS = {"decision": "decision", "text": "reasoning", "next_steps": "next steps"}
# What weighs most comes first. All other fields follow, so that no change of a new one is missed.
_FIRST = ("type", "id", "secrets_allowed", "status", "title", "outcomes", *_TEXTS)
_IMPLIED = {"path", "outcome", "topic_stated", "id_stated"}  # other phrases say these
_FIELDS = [
    *dict.fromkeys(field for field in (*_FIRST, *_NAMES, *Record._fields) if field not in _IMPLIED)
]


def changes(before: Record, after: Record) -> tuple[str, ...]:
    """Phrases for what changed between two versions, the weightiest first.

    `FORM` if both say the same.
    """
    phrases = [f"renamed from {before.path}"] if before.path != after.path else []
    for field in _FIELDS:
        phrases += _changes_of(field, before, after)
    return tuple(phrases) or (FORM,)


def _changes_of(field: str, before: Record, after: Record) -> list[str]:
    old = getattr(before, field)
    new = getattr(after, field)
    if field == "outcomes":
        return _outcomes(before, after)
    if field in _TEXTS:
        return _change_of_text(field, before, after)
    if old == new:
        return []
    if field == "extra":
        keys = sorted({*old, *new} - {"outcomes"})
        changed = (key for key in keys if old.get(key) != new.get(key))
        return [_changed(_quoted(key), old.get(key), new.get(key)) for key in changed]
    return [_changed(_NAMES.get(field, field), old, new)]


def _change_of_text(field: str, before: Record, after: Record) -> list[str]:
    old = _words(field, before)
    new = _words(field, after)
    if old == new:
        return []
    verb = "changed" if old and new else "added" if new else "removed"
    name = field if field == "text" and after.type != DECISION else _TEXTS[field]
    return [f"{name} {verb}"]


def _words(field: str, record: Record) -> list[str]:
    text: str = getattr(record, field)
    return [] if text == record.title else text.split()


def damage(before: Iterable[Problem], after: Iterable[Problem]) -> tuple[str, ...]:
    """Return what of a file cannot be read any more, and what can be again.

    The arguments are the problems of its two versions.
    """
    old = _errors(before)
    new = _errors(after)
    came = (f"{code}: {message}" for code, message in new.items() if code not in old)
    return (*came, *(f"{code} resolved" for code in old if code not in new))


def _errors(problems: Iterable[Problem]) -> dict[str, str]:
    return {problem.code: problem.message for problem in problems if problem.level == "error"}


def _outcomes(before: Record, after: Record) -> list[str]:
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    phrases = [
        f"outcome {entry.outcome}" + (f": {_quoted(entry.reason)}" if entry.reason else "")
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


def _changed(name: str, old: object, new: object) -> str:
    if any(isinstance(value, tuple | list | Mapping) for value in (old, new)):
        return f"{name} changed"
    return f"{name} {_value(name, old)} -> {_value(name, new)}"


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "allowed" if value else "none"
    if isinstance(value, int) and name == "created":
        return format_time(value)
    if value in (None, ""):
        return "none"
    return f'"{_quoted(str(value))}"' if name == "title" else _quoted(str(value))


def _quoted(text: str) -> str:
    return cut(one_line(text), _LONG)
