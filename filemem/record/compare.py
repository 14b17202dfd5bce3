"""What an edit changed: two versions of a record in, short phrases out.

What a record *says* is compared, key by key and section by section, never its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from filemem.record.keys import KEYS
from filemem.record.lines import cut, fenced, one_line
from filemem.record.model import DECISION, Edge, Problem, Record
from filemem.record.times import format_time

FORM = "only its form changed"
_LONG = 100  # characters of a value that is quoted
_LISTED = 3  # items or sections that are named; the rest is counted
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*$")
_NAMES = {key.field: key.name for key in KEYS} | {"mentions": "links in the text"}  # field -> what it is called
_FIRST = ("type", "id", "secrets_allowed", "status", "title")  # what weighs most
_TEXTS = {"decision": "decision", "text": "reasoning", "next_steps": "next steps"}
_SAID_ELSEWHERE = {"path", "outcome", "outcomes", "topic_stated", "id_stated", "extra", *_TEXTS, *_FIRST}
# All other fields are compared by default, so that no change of a new one is passed over.
_OTHERS = [one for one in dict.fromkeys((*_NAMES, *Record._fields)) if one in set(Record._fields) - _SAID_ELSEWHERE]


def changes(before: Record, after: Record) -> tuple[str, ...]:
    """Return what changed from one version of a record to the next, the weightiest first.

    Args:
        before, after: as they were read, each with its path at the time.

    Returns:
        Phrases such as `status accepted -> deprecated` or `reasoning changed (Context)`; `FORM` if both say the same.
    """
    moved = [f"renamed from {before.path}"] if before.path != after.path else []
    first = [*_fields(before, after, _FIRST), *_outcomes(before, after)]
    rest = [*_fields(before, after, _OTHERS), *_unknown(before, after)]
    return (*moved, *first, *_texts(before, after, bool(first or rest)), *rest) or (FORM,)


def damage(before: Iterable[Problem], after: Iterable[Problem]) -> tuple[str, ...]:
    """Return what of a file cannot be read any more, and what can be again, given the problems of its two versions."""
    errors = [{one.code: one.message for one in each if one.level == "error"} for each in (before, after)]
    came = (f"{code}: {message}" for code, message in errors[1].items() if code not in errors[0])
    return (*came, *(f"{code} resolved" for code in errors[0] if code not in errors[1]))


def _fields(before: Record, after: Record, fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        name = _NAMES.get(field, field)
        # A value that its key cannot use stands among the unknown ones.
        old, new = (one.extra.get(name, getattr(one, field)) for one in (before, after))
        if old != new:
            yield _changed(name, old, new)


def _unknown(before: Record, after: Record) -> Iterator[str]:
    """Keys that are not ours."""
    for key in sorted({*before.extra, *after.extra} - {*_NAMES.values(), "outcomes"}):
        old, new = before.extra.get(key), after.extra.get(key)
        if old != new:
            yield _changed(_quoted(key), old, new)


def _outcomes(before: Record, after: Record) -> Iterator[str]:
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    for entry in added:
        yield f"outcome {entry.outcome}" + (f": {_quoted(entry.reason)}" if entry.reason else "")
    for entry in before.outcomes:
        if entry not in after.outcomes:
            yield f"outcome {entry.outcome} of {format_time(entry.at)[:10]} taken back"
    if before.outcome != after.outcome and not added:
        yield f"outcome {before.outcome} -> {after.outcome}"


def _texts(before: Record, after: Record, more: bool) -> Iterator[str]:
    """Which texts changed, and in which sections; a status that `more` shows already is passed over."""
    for field, name in _TEXTS.items():
        old, new = _sections(before, field), _sections(after, field)
        parts = [one for one in {**new, **old} if old.get(one) != new.get(one)]
        if parts and not (more and {one.casefold() for one in parts} <= {"status", "date"}):
            named = [one for one in parts if one] if old and new else []
            word = name if after.type == DECISION or field != "text" else field
            how = "changed" if old and new else "added" if new else "removed"
            yield f"{word} {how}" + (f" ({_listed(named)})" if named else "")


def _sections(record: Record, field: str) -> dict[str, list[str]]:
    """The words below each heading of a text; "" is what stands above the first."""
    text: str = getattr(record, field)
    if not text or (field == "decision" and text == record.title):
        return {}
    lines, name = text.split("\n"), ""
    code, found = fenced(lines), dict[str, list[str]]()
    for number, line in enumerate(lines):
        match = None if number in code else _HEADING.match(line)
        name = match[1] if match else name
        found.setdefault(name, []).extend([] if match else line.split())
    return found


def _changed(name: str, old: object, new: object) -> str:
    if not isinstance(old, tuple | list) and not isinstance(new, tuple | list):
        return f"{name} {_value(name, old)} -> {_value(name, new)}"
    was, now = ([_value(name, one) for one in each] if isinstance(each, tuple | list) else [] for each in (old, new))
    added, gone = [one for one in now if one not in was], [one for one in was if one not in now]
    parts = [f"{sign} {_listed(items)}" for sign, items in (("+", added), ("-", gone)) if items]
    return f"{name} {', '.join(parts) or 'written another way'}"


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(_quoted(item) for item in items[:_LISTED]) + more


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "allowed" if value else "none"
    if isinstance(value, int) and name == "created":
        return format_time(value)
    if isinstance(value, Edge):
        return f"{value.kind} {value.target}"
    if isinstance(value, Mapping):
        return _quoted(f"{{{', '.join(f'{key}: {one}' for key, one in value.items())}}}") if value else "none"
    if value in (None, "", (), []):
        return "none"
    return f'"{_quoted(str(value))}"' if name == "title" else _quoted(str(value))


def _quoted(text: str) -> str:
    return cut(one_line(text), _LONG)
