"""Where a text breaks a guard. Pure: one file's text in, lines out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from filemem.record.guards import Guard
from filemem.record.manifest import dependencies, same

MOST = 100  # breaks of one guard in one file


class Break(NamedTuple):
    """A place that breaks a guard: the line, and what stands there; "" if a text is missing."""

    guard: Guard
    line: int
    text: str


def breaks(guard: Guard, path: str, text: str) -> list[Break]:
    """Return where the text of a file breaks a guard that covers it, the first MOST places."""
    if guard.dependency:
        listed = dependencies(path, text)
        places: Iterator[Break] = (
            Break(guard, line, name) for name, line in listed if same(guard.dependency, name)
        )
    elif guard.forbid:
        places = _forbidden(guard, text)
    else:
        missing = next(_places(guard.require, text), None) is None
        places = iter([Break(guard, 1, "")] if missing else [])
    return list(islice(places, MOST))


def _forbidden(guard: Guard, text: str) -> Iterator[Break]:
    """Yield each line that holds a forbidden text, once."""
    line = 1
    counted = 0
    end = -1
    for at in _places(guard.forbid, text):
        if at <= end:
            continue  # on the same line
        line += text.count("\n", counted, at)
        counted = at
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield Break(guard, line, text[text.rfind("\n", 0, at) + 1 : end].strip())


def _places(literal: str, text: str) -> Iterator[int]:
    """Yield where a literal stands as whole words."""
    if literal not in text:  # much quicker than the pattern, and true of most files
        return
    before = r"(?<!\w)" if re.match(r"\w", literal) else ""
    after = r"(?!\w)" if re.match(r"\w", literal[-1]) else ""
    for place in re.finditer(before + re.escape(literal) + after, text):
        yield place.start()
