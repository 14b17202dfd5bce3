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
_NAMES = {key.field: key.name for key in KEYS} | {
    "status_written": "words of the status",
    "mentions": "links in the text",
}  # field -> what it is called
_TEXTS = {"decision": "decision", "text": "reasoning", "next_steps": "next steps"}
# What weighs most comes first; all other fields are compared by default, so that no change of a new one is passed over.
_FIRST = ("type", "id", "secrets_allowed", "status", "title", "outcomes", *_TEXTS)
_SAID_ELSEWHERE = {"path", "outcome", "topic_stated", "id_stated"}
_FIELDS = [
    one for one in dict.fromkeys((*_FIRST, *_NAMES, *Record._fields)) if one not in _SAID_ELSEWHERE
]


def changes(before: Record, after: Record) -> tuple[str, ...]:
    """Phrases for what changed between two versions, the weightiest first; `FORM` if both say the same."""
    told = [f"renamed from {before.path}"] if before.path != after.path else []
    for field in _FIELDS:
        old, new = getattr(before, field), getattr(after, field)
        if field == "outcomes":
            told += _outcomes(before, after)
        elif field in _TEXTS:
            words = [
                [] if one == each.title else one.split()
                for one, each in ((old, before), (new, after))
            ]
            name = field if field == "text" and after.type != DECISION else _TEXTS[field]
            if words[0] != words[1]:
                told.append(
                    f"{name} {'changed' if all(words) else 'added' if words[1] else 'removed'}"
                )
        elif field == "extra":
            keys = (
                key for key in sorted({*old, *new} - {"outcomes"}) if old.get(key) != new.get(key)
            )
            told += [_changed(_quoted(key), old.get(key), new.get(key)) for key in keys]
        elif old != new:
            told.append(_changed(_NAMES.get(field, field), old, new))
    return tuple(told) or (FORM,)


def damage(before: Iterable[Problem], after: Iterable[Problem]) -> tuple[str, ...]:
    """Return what of a file cannot be read any more, and what can be again, given the problems of its two versions."""
    errors = [
        {one.code: one.message for one in each if one.level == "error"} for each in (before, after)
    ]
    came = (f"{code}: {message}" for code, message in errors[1].items() if code not in errors[0])
    return (*came, *(f"{code} resolved" for code in errors[0] if code not in errors[1]))


def _outcomes(before: Record, after: Record) -> list[str]:
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    gone = [entry for entry in before.outcomes if entry not in after.outcomes]
    told = [
        f"outcome {one.outcome}" + (f": {_quoted(one.reason)}" if one.reason else "")
        for one in added
    ]
    told += [f"outcome {one.outcome} of {format_time(one.at)[:10]} taken back" for one in gone]
    if before.outcome != after.outcome and not added:
        told.append(f"outcome {before.outcome} -> {after.outcome}")
    return told


def _changed(name: str, old: object, new: object) -> str:
    if any(isinstance(one, tuple | list | Mapping) for one in (old, new)):
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
