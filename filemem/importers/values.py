"""Convert values of other systems, as their databases have them: times, texts and lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from filemem.memory.fields import MAX_ITEMS, MAX_LINE
from filemem.record import parse_time

_MAX_SECONDS = 1e11  # a smaller number counts seconds: as milliseconds it would be before 1973
_END_OF_TIME = 253_402_300_800_000  # the year 10000 in epoch milliseconds


def to_milliseconds(value: object) -> int | None:
    """Convert a time in seconds, milliseconds or text to epoch milliseconds; None if it is none."""
    if isinstance(value, str) and not value.strip().isdigit():
        return parse_time(value[:40].replace(" ", "T", 1))
    try:
        number = float(value)  # type: ignore[arg-type]
        if number < _MAX_SECONDS:
            number *= 1000
        milliseconds = int(number)
    except (TypeError, ValueError, OverflowError):
        return None
    if not 0 < milliseconds < _END_OF_TIME:
        return None
    return milliseconds


def to_text(value: object) -> str:
    """Convert a value to a text; None to ""."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    return str(value)


def parse_json(value: object) -> Any:
    """Parse a text of JSON; return any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def to_line(value: object) -> str:
    """Convert a value to one line, cut to the length that a record takes."""
    words = to_text(value).split()
    return " ".join(words)[:MAX_LINE]


def to_items(value: object) -> tuple[str, ...]:
    """Convert a list, or JSON of one, to lines; any other value is a list of one."""
    lines = [_format_item(entry) for entry in _to_list(parse_json(value))]
    return tuple(line for line in lines if line)[:MAX_ITEMS]


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if not value:
        return []
    return [value]


def _format_item(entry: object) -> str:
    if not isinstance(entry, str):
        entry = json.dumps(entry, ensure_ascii=False)
    return to_line(entry)


def to_mapping(value: object) -> Mapping[str, Any]:
    """Convert a mapping, or JSON of one; any other value becomes an empty mapping."""
    parsed = parse_json(value)
    if not isinstance(parsed, dict):
        return {}
    return parsed


def render_sections(*sections: tuple[str, object]) -> str:
    """Render sections, each a heading or "" and a value, as Markdown; skip empty values."""
    paragraphs: list[str] = []
    for heading, value in sections:
        body = _render_body(value)
        if body and heading:
            body = f"## {heading}\n{body}"
        if body:
            paragraphs.append(body)
    return "\n\n".join(paragraphs)


def _render_body(value: object) -> str:
    parsed = parse_json(value)
    if not isinstance(parsed, list):
        return to_text(value)
    return "\n".join(f"- {item}" for item in to_items(parsed))
