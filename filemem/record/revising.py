"""What an edit in place changed, in people's words: two versions of one record in, short phrases out.

Rule: what a record *says* is compared, never its bytes, so that a reformatted file reads "only its form changed"; and a
phrase is true of these two versions alone, whatever the commit's message claims.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from filemem.record.decoding import CONFLICT
from filemem.record.keys import KEYS, SECRETS_ALLOWED
from filemem.record.lines import cut, fenced, one_line
from filemem.record.model import DECISION, Edge, Problem, Record
from filemem.record.saying import apart, lines_of
from filemem.record.times import format_time

FORM = "only its form changed"
_LONG = 100  # characters of a value that is quoted
_LISTED = 3  # items or sections that are named; the rest is counted
_EMPTY: tuple[object, ...] = (None, "", (), [])
_KEPT = 0.3  # of the lines; a text that keeps fewer is written anew
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*$")

# Fields that have words of their own below, or say nothing that another field does not say. All others are told by
# default, so that a new field of a record is never passed over.
_OWN_WORDS = frozenset(
    {"path", "title", "text", "decision", "next_steps", "status", "superseded_by", "outcome", "outcomes"}
    | {"created", "topic_stated", "id_stated", "extra", "number"}
)
_WEIGHTY = ("type", "id", "secrets_allowed")
_NAMES = {key.field: key.name for key in KEYS} | {"mentions": "links in the text"}  # field -> what it is called
_PLAIN = [
    field
    for field in dict.fromkeys((*_NAMES, *Record._fields))
    if field not in _OWN_WORDS and field not in _WEIGHTY and field in Record._fields
]

_TOLD = frozenset(_NAMES.get(field, field) for field in (*_PLAIN, *_WEIGHTY)) | {"status", "outcomes", "created"}


def revised(before: Record, after: Record, damaged: Iterable[str] = ()) -> tuple[str, ...]:
    """Say what changed from one version of a record to the next.

    Args:
        before, after: as they were read, each with its path at the time.
        damaged: what cannot be read any more, or again, as `damage` says it: no record tells of that.

    Returns:
        Phrases such as `status accepted -> deprecated`, the weightiest first; one that says so where nothing is said
        differently.
    """
    was, now = apart(before), apart(after)
    found = [
        *_moved(before, after),
        *_fields(before, after, _WEIGHTY),
        *filter(None, [status(before, after)]),
        *_outcome(before, after),
        *_title(before, after),
        *_fields(before, after, _PLAIN),
        *_others(before, after),
        *_text("decision", _said(before), _said(after)),
        *_text("reasoning" if after.type == DECISION else "text", was.argument, now.argument),
        *(() if _restated(before, after) else _text("status", was.standing, now.standing)),
        *_text("next steps", before.next_steps, after.next_steps),
        *damaged,
    ]
    return tuple(found) or (FORM,)


def nearest(versions: Iterable[Record], after: Record) -> Record:
    """The version of some from which the fewest changes led to another. Raises ValueError where there is none."""
    return min(versions, key=lambda one: len(revised(one, after)))


def damage(before: Iterable[Problem], after: Iterable[Problem]) -> tuple[str, ...]:
    """Say what of a file cannot be read any more, such as both sides of an unresolved merge, and what can be again.

    Args:
        before, after: the problems of its two versions.
    """
    errors = [[one for one in each if one.level == "error"] for each in (before, after)]
    was, now = (dict.fromkeys(one.code for one in each) for each in errors)
    came = (f"{one.code}: {one.message}" for one in errors[1] if one.code not in was)
    went = (f"{code} {'resolved' if code == CONFLICT else 'mended'}" for code in was if code not in now)
    return (*came, *went)


def _moved(before: Record, after: Record) -> Iterator[str]:
    if before.path != after.path:
        yield f"renamed from {before.path}"


def status(before: Record, after: Record) -> str:
    """Say how the status of a record changed, with what its file says that it was superseded by; "" for no change."""
    replaced = set(before.superseded_by) != set(after.superseded_by)
    old, now = ((_replaced(one) if replaced else "") or _standing(one) for one in (before, after))
    return f"status {old} -> {now}" if replaced or old != now else ""


def _replaced(record: Record) -> str:
    return f"superseded by {_listed(list(record.superseded_by))}" if record.superseded_by else ""


def _restated(before: Record, after: Record) -> bool:
    """Whether the status, the date or a link changed, which words of their own tell."""
    return bool(status(before, after)) or (before.created, before.supersedes) != (after.created, after.supersedes)


def _standing(record: Record) -> str:
    """The status in its author's own word, such as `Last Call`, where that is none of ours."""
    stated = record.extra.get("status")
    return _quoted(stated) if isinstance(stated, str) else record.status


def _outcome(before: Record, after: Record) -> Iterator[str]:
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    for entry in added:
        yield f"outcome {entry.outcome}" + (f": {_quoted(entry.reason)}" if entry.reason else "")
    for entry in before.outcomes:
        if entry not in after.outcomes:
            yield f"outcome {entry.outcome} of {format_time(entry.at)[:10]} taken back"
    if before.outcome != after.outcome and not added:
        yield f"outcome {before.outcome} -> {after.outcome}"


def _title(before: Record, after: Record) -> Iterator[str]:
    if before.title != after.title:
        yield f'title "{_quoted(before.title)}" -> "{_quoted(after.title)}"'


def _fields(before: Record, after: Record, fields: Iterable[str]) -> Iterator[str]:
    """What changed in some fields, in the words that fit the shape of their values."""
    for field in fields:
        old, new = _read(before, field), _read(after, field)
        if field == "topic":
            old, new = (one.topic if one.topic_stated else "" for one in (before, after))
        if old != new:
            yield from _changed(_NAMES.get(field, field), old, new)


def _read(record: Record, field: str) -> object:
    """What a record says under a key: also a value that the key cannot use, which stands among the others."""
    return record.extra.get(_NAMES.get(field, field), getattr(record, field))


def _changed(name: str, old: object, new: object) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield f"{name} {_quoted(str(key))} {_value(old.get(key))} -> {_value(new.get(key))}"
    elif isinstance(old, tuple) or isinstance(new, tuple):
        yield f"{name} {_list_change(old, new)}"
    else:
        yield f"{name} {_value(old)} -> {_value(new)}"


def _list_change(old: object, new: object) -> str:
    was, now = ([_item(one) for one in each] if isinstance(each, tuple) else [] for each in (old, new))
    added, gone = [one for one in now if one not in was], [one for one in was if one not in now]
    if added or gone:
        return ", ".join([f"+ {_listed(added)}"] * bool(added) + [f"- {_listed(gone)}"] * bool(gone))
    if old is None or new is None:
        return f"{_stated(old)} -> {_stated(new)}"
    return "in another order"


def _item(one: object) -> str:
    return f"{one.kind} {one.target}" if isinstance(one, Edge) else _plain(one)


def _stated(value: object) -> str:
    return "not stated" if value is None else "nothing"


def _others(before: Record, after: Record) -> Iterator[str]:
    """The date, and keys that are not ours."""
    dates = [_read(one, "created") for one in (before, after)]
    if dates[0] != dates[1]:
        days = [_date(one) for one in dates]
        told = days if days[0] != days[1] else [_time(one) for one in dates]
        yield f"created {told[0]} -> {told[1]}"
    for key in sorted({*before.extra, *after.extra} - _TOLD):
        old, new = (_shape(one.extra.get(key)) for one in (before, after))
        if old != new and not (old in _EMPTY and new in _EMPTY):
            yield from _changed(_quoted(key), old, new)


def _shape(value: object) -> object:
    """A value as `_changed` tells it: a list as what it lists."""
    return tuple(value) if isinstance(value, list) else value


def _said(record: Record) -> str:
    """The decision where it stands below its heading; else the heading says it."""
    return record.decision if record.decision != record.title else ""


def _text(name: str, before: str, after: str) -> Iterator[str]:
    """How a text changed, and in which of its sections."""
    if before == after or before.split() == after.split():
        return
    if not before or not after:
        yield f"{name} {'added' if after else 'removed'}"
        return
    old, new = _sections(before), _sections(after)
    named = [part for part in new if part and part in old and old[part] != new[part]]
    named += [f"+ {part}" for part in new if part and part not in old]
    named += [f"- {part}" for part in old if part and part not in new]
    where = f" ({_listed(named)})" if named else ""
    yield f"{name} {_how(lines_of(before), lines_of(after))}{where}"


def _how(before: Counter[str], after: Counter[str]) -> str:
    same = (before & after).total()
    if same == before.total():
        return "extended"
    if same == after.total():
        return "shortened"
    return (
        "reworded" if same >= _KEPT * before.total() or max(before.total(), after.total()) <= _LISTED else "rewritten"
    )


def _sections(text: str) -> dict[str, str]:
    """What stands below each heading of a text, blanks evened out; "" is what stands above the first."""
    lines = text.split("\n")
    code = fenced(lines)
    name = ""

    def of(number: int) -> str:
        nonlocal name
        match = None if number in code else _HEADING.match(lines[number])
        name = match[1] if match else name
        return name

    found: dict[str, str] = {}
    for section, numbers in groupby(range(len(lines)), key=of):
        found[section] = " ".join([found.get(section, ""), *(" ".join(lines[each].split()) for each in numbers)])
    return {section: " ".join(said.split()) for section, said in found.items()}


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(_quoted(item) for item in items[:_LISTED]) + more


def _value(value: object) -> str:
    if isinstance(value, bool):
        return SECRETS_ALLOWED if value else "none"
    return "none" if value in _EMPTY else _quoted(_plain(value))


def _plain(value: object) -> str:
    """A value as YAML writes it on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_plain(one)}'.rstrip() for key, one in value.items())}}}"
    return f"[{', '.join(map(_plain, value))}]" if isinstance(value, list | tuple) else str(value)


def _date(at: object) -> str:
    return _time(at)[:10] if at is None or isinstance(at, int) else _quoted(str(at))


def _time(at: object) -> str:
    return format_time(at) if isinstance(at, int) else _value(at)


def _quoted(text: str) -> str:
    return cut(one_line(text), _LONG)
