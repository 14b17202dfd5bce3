"""Find the places where a text breaks a guard. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from filemem.record.guards import Guard
from filemem.record.manifest import is_same_dependency, parse_dependencies

MAX_BREAKS = 100  # breaks of one guard in one file


class Break(NamedTuple):
    """A place that breaks a guard: its line and text; "" if a required text is missing."""

    guard: Guard
    line: int
    text: str


def list_breaks(guard: Guard, path: str, text: str) -> list[Break]:
    """Return where the text of a file breaks a guard that covers it, the first MAX_BREAKS."""
    if guard.dependency:
        breaks = _iter_forbidden_dependencies(guard, path, text)
    elif guard.forbid:
        breaks = _iter_forbidden_lines(guard, text)
    else:
        return _check_required_text(guard, text)
    return list(islice(breaks, MAX_BREAKS))


def _check_required_text(guard: Guard, text: str) -> list[Break]:
    for _ in _iter_positions(guard.require, text):
        return []
    return [Break(guard, 1, "")]


def _iter_forbidden_dependencies(guard: Guard, path: str, text: str) -> Iterator[Break]:
    for name, line in parse_dependencies(path, text):
        if is_same_dependency(guard.dependency, name):
            yield Break(guard, line, name)


def _iter_forbidden_lines(guard: Guard, text: str) -> Iterator[Break]:
    """Yield each line with a forbidden text, once."""
    line = 1
    counted_end = 0
    end = -1
    for position in _iter_positions(guard.forbid, text):
        if position <= end:
            continue  # on the same line
        line += text.count("\n", counted_end, position)
        counted_end = position
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        if end < 0:
            end = len(text)
        yield Break(guard, line, text[start:end].strip())


def _iter_positions(literal: str, text: str) -> Iterator[int]:
    """Yield the positions of a literal text as whole words."""
    if literal not in text:  # much quicker than the pattern, and true of most files
        return
    left_boundary = r"(?<!\w)" if re.match(r"\w", literal) else ""
    right_boundary = r"(?!\w)" if re.match(r"\w", literal[-1]) else ""
    pattern = left_boundary + re.escape(literal) + right_boundary
    for match in re.finditer(pattern, text):
        yield match.start()
