"""Where a text breaks a guard. Pure: one file's text in, lines out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from filemem.record.guards import Guard
from filemem.record.manifest import is_same_dependency, parse_dependencies

MAX_BREAKS = 100  # breaks of one guard in one file


class Break(NamedTuple):
    """A place that breaks a guard: the line, and what stands there; "" if a text is missing."""

    guard: Guard
    line: int
    text: str


def list_breaks(guard: Guard, path: str, text: str) -> list[Break]:
    """Return where the text of a file breaks a guard that covers it, the first MOST places."""
    if guard.dependency:
        entries = parse_dependencies(path, text)
        places: Iterator[Break] = (
            Break(guard, line, name)
            for name, line in entries
            if is_same_dependency(guard.dependency, name)
        )
    elif guard.forbid:
        places = _iter_forbidden_lines(guard, text)
    else:
        is_missing = next(_iter_positions(guard.require, text), None) is None
        places = iter([Break(guard, 1, "")] if is_missing else [])
    return list(islice(places, MAX_BREAKS))


def _iter_forbidden_lines(guard: Guard, text: str) -> Iterator[Break]:
    """Yield each line that holds a forbidden text, once."""
    line = 1
    counted_end = 0
    end = -1
    for position in _iter_positions(guard.forbid, text):
        if position <= end:
            continue  # on the same line
        line += text.count("\n", counted_end, position)
        counted_end = position
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        yield Break(guard, line, text[text.rfind("\n", 0, position) + 1 : end].strip())


def _iter_positions(literal: str, text: str) -> Iterator[int]:
    """Yield where a literal stands as whole words."""
    if literal not in text:  # much quicker than the pattern, and true of most files
        return
    left_boundary = r"(?<!\w)" if re.match(r"\w", literal) else ""
    right_boundary = r"(?!\w)" if re.match(r"\w", literal[-1]) else ""
    for match in re.finditer(left_boundary + re.escape(literal) + right_boundary, text):
        yield match.start()
