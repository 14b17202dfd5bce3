"""What narrows a search, as callers name it: words to alternatives, dates and ages to moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from filemem.errors import BadInput
from filemem.memory import arguments
from filemem.query import Filter, fold, metadata_wanted, parse_moment
from filemem.record import OUTCOMES, STATUSES, TYPES, topic_key, unreal


def restrictions_of(restrictions: Mapping[str, Any], now: int) -> Filter:
    """Read the restrictions of a search.

    Raises:
        BadInput: an unknown one, or a value that it does not take.
    """
    words: dict[str, tuple[str, Callable[[str], str], tuple[str, ...]]] = {
        "type": ("types", str.casefold, TYPES),
        "topic": ("topics", topic_key, ()),
        "tag": ("tags", fold, ()),
        "outcome": ("outcomes", partial(arguments.outcome, "outcome"), OUTCOMES),
        "status": ("statuses", str.casefold, STATUSES),
        "agent": ("agents", fold, ()),
        "branch": ("branches", str, ()),
        "user": ("users", str, ()),
        "run": ("runs", str, ()),
    }
    values: dict[str, Any] = {}
    known = (*words, "since", "until", "metadata", "path", "live")
    for name, value in restrictions.items():
        if name not in known:
            raise BadInput(f"search has no restriction {name!r}", arguments.takes(name, known), field=name)
        if value is None:
            continue
        if name in words:
            field, read, allowed = words[name]
            listed = arguments.words if name == "tag" else arguments.lines
            given = [word for word in listed(name, value) if (name, word) != ("type", "all")]
            values[field] = tuple(read(word) for word in given)
            if wrong := [word for word in values[field] if allowed and word not in allowed]:
                raise BadInput(f"{name} must be one of {', '.join(allowed)}, not {wrong[0]!r}", field=name)
        elif name in ("since", "until"):
            values[name] = parse_moment(arguments.line(name, value), now, end=name == "until")
            if values[name] is None:
                hint = "a date such as 2025-11-20, a month such as 2025-11, a time, or an age such as 3d, 2w, 6m"
                why = unreal(str(value))
                raise BadInput(f"{name}: cannot read {value!r}" + (f": {why}" if why else ""), hint, field=name)
        elif name == "metadata":
            values[name] = _metadata(value)
        elif name == "path":
            values[name] = arguments.line(name, value)
        else:
            values[name] = arguments.flag(name, value)
    return Filter(**values)


def _metadata(value: object) -> tuple[tuple[str, ...], ...]:
    """Read `{key: value, key: [one, or another], key: ...}`, the last for a key that is there whatever its value."""
    if not isinstance(value, Mapping):
        raise BadInput(f"metadata must be a mapping, not {arguments.shown(value)}", "{key: value}", field="metadata")
    groups = []
    for key, wanted in value.items():
        options = () if wanted is ... else wanted if isinstance(wanted, list | tuple) else (wanted,)
        group = metadata_wanted(str(key), *options)
        if group is None or (wanted is not ... and not options):
            raise BadInput(
                f"metadata.{key} must be text, a number or a truth value, or a list of them", field="metadata"
            )
        groups.append(group)
    return tuple(groups)
