"""Add an entry to a file that others write too, and remove it again; no other byte changes.

Rule: an addition is one line after the opening bracket, or after the last element of a list. An
object that was empty keeps a space, which distinguishes it from one of ours.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

Path = tuple[str | None, ...]
"""The names that lead to a member; None, the last, stands for an element of a list."""
NEW = "{\n}\n"  # a file that holds nothing yet

_SPACE = re.compile(r"\s*")
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_DECODER = json.JSONDecoder(parse_int=str)  # of any length


class _Item(NamedTuple):
    """A member or an element: where it starts, and where its value begins and ends."""

    name: str | None
    start: int
    begin: int
    end: int


def plain(text: str) -> str:
    """JSON with comments as plain JSON of the same length.

    Spaces replace comments, trailing commas and a BOM.
    """

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\r\n]", " ", match[0])

    return re.sub("^\ufeff", " ", _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text)))


def with_item(text: str, path: Path, value: Any) -> str:
    """The text of a JSON object with one more item.

    Raises ValueError if the path leads through something else.
    """
    bare = plain(text)
    at, missing = _holder(bare, path)
    items = _items(bare, at)
    space = _space(text, at, items)
    item = space + _new_item(missing, value, space)
    if items and missing[0] is None:  # the place of an element may count: ours is the last
        end = items[-1].end
        return text[:end] + "," + item + text[end:]
    comma = "," if items else ""
    return text[: at + 1] + item + comma + text[at + 1 :]


def _holder(bare: str, path: Path) -> tuple[int, Path]:
    """Where the innermost object or list begins that is there, and the rest of the path."""
    at = _skip(bare, 0)
    for depth, name in enumerate(path[:-1]):
        same = [item for item in _items(bare, at) if item.name == name]
        if not same:
            return at, path[depth:]
        at = same[-1].begin  # the last of a name counts
        bracket, kind = ("[", "a list") if path[depth + 1] is None else ("{", "an object")
        if bare[at] != bracket:
            raise ValueError(f"{name} is not {kind}")
    return at, path[-1:]


def _space(text: str, at: int, items: list[_Item]) -> str:
    """What stands before a new item: the line break and indent of the last one, or a space."""
    row = re.search(r"(\r?\n[ \t]*)[^\n]*\Z", text[at : items[-1].start]) if items else None
    if row:
        return row[1]
    return "\n  " if text == NEW else " "


def _new_item(names: Path, value: Any, space: str) -> str:
    """A value under the first of these names, within new objects and lists of the others."""
    inner = outer = ""
    if "\n" in space:
        inner = space + space.lstrip("\r\n")
        outer = space
    text = json.dumps(value, ensure_ascii=False)
    for name in reversed(names[1:]):
        text = f"[{text}]" if name is None else f"{{{inner}{json.dumps(name)}: {text}{outer}}}"
    return text if names[0] is None else f"{json.dumps(names[0])}: {text}"


class _Step(NamedTuple):
    """A step on the way to an item: the bracket of what holds it, all items there, and it."""

    at: int
    items: list[_Item]
    item: _Item

    def begun_by_us(self, text: str) -> bool:
        """Whether the object was added with its only item: one that was empty keeps a space."""
        return len(self.items) == 1 and text[self.at + 1 : self.item.start] != " "


def without_item(text: str, path: Path, value: Any) -> str:
    """The text without the item of this value, and without the objects that were added with it."""
    bare = plain(text)
    steps = _steps(bare, path, value)
    while len(steps) > 1 and steps[-1].begun_by_us(text):
        steps.pop()
    item = steps[-1].item
    start = len(text[: item.start].rstrip())
    removed = {_comma(bare, steps[-1]), *range(start, item.end)}
    return "".join(char for at, char in enumerate(text) if at not in removed)


def _steps(bare: str, path: Path, value: Any) -> list[_Step]:
    """The way to the item of this value."""
    at = _skip(bare, 0)
    steps: list[_Step] = []
    for name in path:
        items = _items(bare, at)
        same = [item for item in items if item.name == name]
        if name is None:
            same = [item for item in same if json.loads(bare[item.begin : item.end]) == value]
        steps.append(_Step(at, items, same[-1]))
        at = same[-1].begin
    return steps


def _comma(bare: str, step: _Step) -> int:
    """Where the comma is that goes with an item; -1 if it is the only one."""
    if len(step.items) == 1:
        return -1
    if step.item == step.items[0]:
        return bare.index(",", step.item.end)
    return bare.rindex(",", 0, step.item.start)


def with_block(text: str, block: str) -> str:
    """The text with a block of lines appended; it ends with a line break if the text did."""
    end = line_end(text)
    block = re.sub(r"\r?\n", end, block)
    if not text or text.endswith("\n"):
        return f"{text}{end}{block}{end}"
    return f"{text}{end}{end}{block}"


def without_block(text: str, block: str) -> str:
    """The text without a block that was added, and without the line breaks added with it."""
    end = re.escape(line_end(text))
    block = re.escape(re.sub(r"\r?\n", line_end(text), block))
    for added in (rf"(\A|(?<=\n)){end}{block}{end}", rf"{end}{end}{block}\Z", rf"{block}{end}"):
        match = re.search(added, text)
        if match:
            return text[: match.start()] + text[match.end() :]
    return text


def line_end(text: str) -> str:
    """The line ending of a text, for lines that are added."""
    return "\r\n" if "\r\n" in text else "\n"


def _items(bare: str, at: int) -> list[_Item]:
    """The items of the object or list whose bracket is at `at`."""
    members = bare[at] == "{"
    items: list[_Item] = []
    at = _skip(bare, at + 1)
    while bare[at] not in "}]":
        name = None
        start = at
        if members:
            name, after = _DECODER.raw_decode(bare, at)
            at = _skip(bare, _skip(bare, after) + 1)
        end = _DECODER.raw_decode(bare, at)[1]
        items.append(_Item(name, start, at, end))
        at = _skip(bare, end)
        if bare[at] == ",":
            at = _skip(bare, at + 1)
    return items


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
