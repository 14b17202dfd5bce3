"""Add a member to a JSON file that other programs and people write too: nothing else in it changes, not a space.

Parsing such a file and writing it again would give numbers another form, and lines another end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from filemem.cli.plan import line_end

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_int=str)  # of any length


class _Member(NamedTuple):
    """One member of an object: its name, and where the name begins and the value begins and ends."""

    name: str
    at: int
    begin: int
    end: int


def with_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with one member more, after the last one of its object.

    Args:
        text: valid JSON, an object; so is what `path` leads through, as far as it is there.
        path: the names that lead to the member; the last is its own.
        value: what it shall hold.
    """
    unit, at = _unit(text), _skip(text, text.startswith("\ufeff"))
    there = _values(text, at, path[:-1])
    depth = len(there)
    for missing in reversed(path[depth + 1 :]):
        value = {missing: value}
    return _insert(text, there[-1] if there else at, path[depth], value, unit * (depth + 1), unit)


def _values(text: str, at: int, path: tuple[str, ...]) -> list[int]:
    """Where the values that a path leads through begin, as far as they are there; of one name the last one counts."""
    inner = [member.begin for member in _members(text, at) if path and member.name == path[0]]
    return [inner[-1], *_values(text, inner[-1], path[1:])] if inner else []


def _insert(text: str, at: int, name: str, value: Any, indent: str, unit: str) -> str:
    """Put a member into the object that begins at `at`, laid out as the members before it are."""
    end, members = line_end(text), list(_members(text, at))
    if members:
        before = re.search(r"\n([ \t]*)\Z", text[at : members[0].at])
        where, lead, tail = members[-1].end, ",", ""
        if before is None:
            return f"{text[:where]}, {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}{text[where:]}"
        indent = before[1]
    else:
        where, lead, tail = at + 1, "", end + indent.removesuffix(unit)
    rows = f"{json.dumps(name)}: {json.dumps(value, indent=unit, ensure_ascii=False)}".splitlines()
    added = lead + "".join(f"{end}{indent}{row}" for row in rows) + tail
    return text[:where] + added + text[where if members else text.index("}", at) :]


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of the object whose brace stands at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, after = _DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, after) + 1)
        end = _DECODER.raw_decode(text, begin)[1]
        yield _Member(name, at, begin, end)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _unit(text: str) -> str:
    """The indentation that a JSON file uses."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "
