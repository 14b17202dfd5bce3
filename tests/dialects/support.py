"""Calling the tools of a profile as a test does it, and matching answers against what a conversation says.

In an expected value `<int>`, `<number>`, `<text>`, `<any>` stand for a value of that type, `<int=name>` keeps it under
a name and `<name>` means the kept value, also inside a longer text. The key `...` in an object allows further keys,
the entry `...` in a list any entries at its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filemem.dialects.call import Reply, call
from filemem.dialects.tool import load_profile
from filemem.memory import Memory

FOLDER = Path(__file__).with_name("conversations")
_SLOT = re.compile(r"<(\w+)(?:=(\w+))?>")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "number": (int, float),
    "text": (str,),
    "any": (object,),
}

Values = dict[str, Any]


class Conversation(NamedTuple):
    """A named list of calls with what they answer, and the requirements that it shows."""

    profile: str
    name: str
    requirements: tuple[str, ...]
    steps: tuple[Mapping[str, Any], ...]


def conversations() -> list[Conversation]:
    """Every conversation of every file."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        for one in json.loads(path.read_text(encoding="utf-8")):
            known = (path.stem, one["name"], tuple(one["requirements"]), tuple(one["steps"]))
            found.append(Conversation(*known))
    return found


def ask(memory: Memory, dialect: str, tool: str, /, **arguments: Any) -> Reply:
    """Call a tool of a profile, directly."""
    return call(load_profile(dialect), memory, tool, arguments)


def good(memory: Memory, dialect: str, tool: str, /, **arguments: Any) -> Any:
    """Call a tool that must succeed; its answer."""
    reply = ask(memory, dialect, tool, **arguments)
    assert not reply.is_error, reply.payload
    return reply.payload


def refused(memory: Memory, dialect: str, tool: str, /, **arguments: Any) -> Any:
    """Call a tool that must refuse; what it says."""
    reply = ask(memory, dialect, tool, **arguments)
    assert reply.is_error, reply.payload
    return reply.payload


@contextmanager
def opened(folder: Path) -> Iterator[Memory]:
    """The memory of a repository, as a server has it."""
    with Memory.open(folder) as memory:
        yield memory


def filled(value: Any, kept: Values) -> Any:
    """Put kept values where they are named."""
    if isinstance(value, str):
        whole = _SLOT.fullmatch(value)
        if whole and whole[1] in kept:
            return kept[whole[1]]
        return _SLOT.sub(lambda slot: str(kept[slot[1]]) if slot[1] in kept else slot[0], value)
    if isinstance(value, list):
        return [filled(one, kept) for one in value]
    if isinstance(value, dict):
        return {name: filled(one, kept) for name, one in value.items()}
    return value


def differs(expected: Any, found: Any, kept: Values, where: str = "") -> str:
    """What the answer has otherwise than expected, or ""; keeps what is to be kept."""
    expected = filled(expected, kept)
    if isinstance(expected, str) and (slot := _SLOT.fullmatch(expected)):
        wanted = _TYPES[slot[1]]
        if not isinstance(found, wanted) or (isinstance(found, bool) and object not in wanted):
            return f"{where}: {found!r} is no {slot[1]}"
        if slot[2]:
            kept[slot[2]] = found
        return ""
    if isinstance(expected, dict) and isinstance(found, dict):
        more = "" if "..." in expected else ", ".join(found.keys() - expected.keys())
        lacking = ", ".join(expected.keys() - found.keys() - {"..."})
        if more or lacking:
            return f"{where}: lacks [{lacking}], has besides [{more}]"
        told = (
            differs(one, found[name], kept, f"{where}.{name}")
            for name, one in expected.items()
            if name != "..."
        )
        return next((difference for difference in told if difference), "")
    if isinstance(expected, list) and isinstance(found, list):
        return _differs_list(expected, found, kept, where)
    return (
        ""
        if expected == found and type(expected) is type(found)
        else f"{where}: {found!r} is not {expected!r}"
    )


def _differs_list(expected: list[Any], found: list[Any], kept: Values, where: str) -> str:
    at, skipping = 0, False
    for one in expected:
        if one == "...":
            skipping = True
            continue
        rest = range(at, len(found)) if skipping else range(at, min(at + 1, len(found)))
        told = [differs(one, found[place], dict(kept), f"{where}[{place}]") for place in rest]
        if "" not in told:
            return next(iter(told), f"{where}: nothing at {at}")
        at = rest[told.index("")]
        differs(one, found[at], kept)
        at, skipping = at + 1, False
    return "" if skipping or at == len(found) else f"{where}: {len(found) - at} entries too many"
