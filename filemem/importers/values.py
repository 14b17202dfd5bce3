"""Values of other systems, in ours: times, texts and lists as they are found in databases. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from filemem.memory.fields import ITEMS, LINE
from filemem.record import parse_time

_SECONDS = 1e11  # a number below this is of seconds: as milliseconds it would be before 1973


def moment(value: object) -> int | None:
    """Epoch milliseconds of a time in seconds, milliseconds or text; None for none."""
    if isinstance(value, str) and not value.strip().isdigit():
        return parse_time(value[:40].replace(" ", "T", 1))
    try:
        number = float(value)  # type: ignore[arg-type]
        found = int(number * 1000 if number < _SECONDS else number)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if 0 < found < 253_402_300_800_000 else None


def text(value: object) -> str:
    """A text; "" for nothing."""
    return "" if value is None else value.strip() if isinstance(value, str) else str(value)


def data(value: object) -> Any:
    """What a text of JSON holds; a text that is none as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def line(value: object) -> str:
    """A text as one line, of as many characters as a record takes."""
    return " ".join(text(value).split())[:LINE]


def items(value: object) -> tuple[str, ...]:
    """The lines of a list, or of a text of JSON that holds one; a text alone is a list of one."""
    found = data(value)
    found = found if isinstance(found, list) else [found] if found else []
    lines = (
        line(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)) for one in found
    )
    return tuple(filter(None, lines))[:ITEMS]


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping, or that of a text of JSON; empty where it is none."""
    found = data(value)
    return found if isinstance(found, dict) else {}


def sections(*parts: tuple[str, object]) -> str:
    """A text of paragraphs: those with a name below a heading of theirs, lists as lists."""
    said = []
    for name, value in parts:
        found = data(value)
        body = (
            "\n".join(f"- {one}" for one in items(found))
            if isinstance(found, list)
            else text(value)
        )
        said += [f"## {name}\n{body}" if name else body] if body else []
    return "\n\n".join(said)
