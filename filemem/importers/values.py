"""Values of other systems, in ours: times, texts and lists as they are found in databases. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from filemem.memory.fields import MAX_ITEMS, MAX_LINE
from filemem.record import parse_time

_MAX_SECONDS = 1e11  # a number below this is of seconds: as milliseconds it would be before 1973


def to_milliseconds(value: object) -> int | None:
    """Epoch milliseconds of a time in seconds, milliseconds or text; None for none."""
    if isinstance(value, str) and not value.strip().isdigit():
        return parse_time(value[:40].replace(" ", "T", 1))
    try:
        number = float(value)  # type: ignore[arg-type]
        milliseconds = int(number * 1000 if number < _MAX_SECONDS else number)
    except (TypeError, ValueError, OverflowError):
        return None
    return milliseconds if 0 < milliseconds < 253_402_300_800_000 else None


def to_text(value: object) -> str:
    """A text; "" for nothing."""
    return "" if value is None else value.strip() if isinstance(value, str) else str(value)


def parse_json(value: object) -> Any:
    """What a text of JSON holds; a text that is none as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def to_line(value: object) -> str:
    """A text as one line, of as many characters as a record takes."""
    return " ".join(to_text(value).split())[:MAX_LINE]


def to_items(value: object) -> tuple[str, ...]:
    """The lines of a list, or of a text of JSON that holds one; a text alone is a list of one."""
    return tuple(filter(None, map(_format_item, _to_list(parse_json(value)))))[:MAX_ITEMS]


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value] if value else []


def _format_item(entry: object) -> str:
    return to_line(entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False))


def to_mapping(value: object) -> Mapping[str, Any]:
    """A mapping, or that of a text of JSON; empty where it is none."""
    parsed = parse_json(value)
    return parsed if isinstance(parsed, dict) else {}


def render_sections(*parts: tuple[str, object]) -> str:
    """A text of paragraphs: those with a name below a heading of theirs, lists as lists."""
    paragraphs: list[str] = []
    for name, value in parts:
        body = _render_body(value)
        if body:
            paragraphs.append(f"## {name}\n{body}" if name else body)
    return "\n\n".join(paragraphs)


def _render_body(value: object) -> str:
    parsed = parse_json(value)
    if isinstance(parsed, list):
        return "\n".join(f"- {item}" for item in to_items(parsed))
    return to_text(value)
