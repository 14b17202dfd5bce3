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
EMPTY_OBJECT = "{\n}\n"  # a file that holds nothing yet

_SPACE = re.compile(r"\s*")
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_DECODER = json.JSONDecoder(parse_int=str)  # of any length


class _Item(NamedTuple):
    """A member or an element: where it starts, and where its value begins and ends."""

    name: str | None
    start: int
    value_start: int
    value_end: int


def strip_comments(text: str) -> str:
    """JSON with comments as plain JSON of the same length.

    Spaces replace comments, trailing commas and a BOM.
    """

    def blank_out(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\r\n]", " ", match[0])

    return re.sub("^\ufeff", " ", _LAST_COMMA.sub(blank_out, _COMMENT.sub(blank_out, text)))


def add_item(text: str, path: Path, value: Any) -> str:
    """The text of a JSON object with one more item.

    Raises ValueError if the path leads through something else.
    """
    plain_text = strip_comments(text)
    offset, missing_names = _find_holder(plain_text, path)
    items = _parse_items(plain_text, offset)
    space = _get_indent(text, offset, items)
    item = space + _format_item(missing_names, value, space)
    if items and missing_names[0] is None:  # the place of an element may count: ours is the last
        end = items[-1].value_end
        return text[:end] + "," + item + text[end:]
    comma = "," if items else ""
    return text[: offset + 1] + item + comma + text[offset + 1 :]


def _find_holder(plain_text: str, path: Path) -> tuple[int, Path]:
    """Where the innermost object or list begins that is there, and the rest of the path."""
    offset = _skip_space(plain_text, 0)
    for depth, name in enumerate(path[:-1]):
        same_named = [item for item in _parse_items(plain_text, offset) if item.name == name]
        if not same_named:
            return offset, path[depth:]
        offset = same_named[-1].value_start  # the last of a name counts
        bracket, kind = ("[", "a list") if path[depth + 1] is None else ("{", "an object")
        if plain_text[offset] != bracket:
            raise ValueError(f"{name} is not {kind}")
    return offset, path[-1:]


def _get_indent(text: str, offset: int, items: list[_Item]) -> str:
    """What stands before a new item: the line break and indent of the last one, or a space."""
    row = re.search(r"(\r?\n[ \t]*)[^\n]*\Z", text[offset : items[-1].start]) if items else None
    if row:
        return row[1]
    return "\n  " if text == EMPTY_OBJECT else " "


def _format_item(names: Path, value: Any, space: str) -> str:
    """A value under the first of these names, within new objects and lists of the others."""
    inner_indent = outer_indent = ""
    if "\n" in space:
        inner_indent = space + space.lstrip("\r\n")
        outer_indent = space
    text = json.dumps(value, ensure_ascii=False)
    for name in reversed(names[1:]):
        text = (
            f"[{text}]"
            if name is None
            else f"{{{inner_indent}{json.dumps(name)}: {text}{outer_indent}}}"
        )
    return text if names[0] is None else f"{json.dumps(names[0])}: {text}"


class _PathStep(NamedTuple):
    """A step on the way to an item: the bracket of what holds it, all items there, and it."""

    offset: int
    items: list[_Item]
    item: _Item

    def is_own_object(self, text: str) -> bool:
        """Whether the object was added with its only item: one that was empty keeps a space."""
        return len(self.items) == 1 and text[self.offset + 1 : self.item.start] != " "


def remove_item(text: str, path: Path, value: Any) -> str:
    """The text without the item of this value, and without the objects that were added with it."""
    plain_text = strip_comments(text)
    steps = _list_steps(plain_text, path, value)
    while len(steps) > 1 and steps[-1].is_own_object(text):
        steps.pop()
    item = steps[-1].item
    start = len(text[: item.start].rstrip())
    removed_offsets = {_find_comma(plain_text, steps[-1]), *range(start, item.value_end)}
    return "".join(char for offset, char in enumerate(text) if offset not in removed_offsets)


def _list_steps(plain_text: str, path: Path, value: Any) -> list[_PathStep]:
    """The way to the item of this value."""
    offset = _skip_space(plain_text, 0)
    steps: list[_PathStep] = []
    for name in path:
        items = _parse_items(plain_text, offset)
        same_named = [item for item in items if item.name == name]
        if name is None:
            same_named = [
                item
                for item in same_named
                if json.loads(plain_text[item.value_start : item.value_end]) == value
            ]
        steps.append(_PathStep(offset, items, same_named[-1]))
        offset = same_named[-1].value_start
    return steps


def _find_comma(plain_text: str, step: _PathStep) -> int:
    """Where the comma is that goes with an item; -1 if it is the only one."""
    if len(step.items) == 1:
        return -1
    if step.item == step.items[0]:
        return plain_text.index(",", step.item.value_end)
    return plain_text.rindex(",", 0, step.item.start)


def add_block(text: str, block: str) -> str:
    """The text with a block of lines appended; it ends with a line break if the text did."""
    end = find_line_end(text)
    block = re.sub(r"\r?\n", end, block)
    if not text or text.endswith("\n"):
        return f"{text}{end}{block}{end}"
    return f"{text}{end}{end}{block}"


def remove_block(text: str, block: str) -> str:
    """The text without a block that was added, and without the line breaks added with it."""
    end = re.escape(find_line_end(text))
    block = re.escape(re.sub(r"\r?\n", find_line_end(text), block))
    for pattern in (rf"(\A|(?<=\n)){end}{block}{end}", rf"{end}{end}{block}\Z", rf"{block}{end}"):
        match = re.search(pattern, text)
        if match:
            return text[: match.start()] + text[match.end() :]
    return text


def find_line_end(text: str) -> str:
    """The line ending of a text, for lines that are added."""
    return "\r\n" if "\r\n" in text else "\n"


def _parse_items(plain_text: str, offset: int) -> list[_Item]:
    """The items of the object or list whose bracket is at `at`."""
    is_object = plain_text[offset] == "{"
    items: list[_Item] = []
    offset = _skip_space(plain_text, offset + 1)
    while plain_text[offset] not in "}]":
        name = None
        start = offset
        if is_object:
            name, name_end = _DECODER.raw_decode(plain_text, offset)
            offset = _skip_space(plain_text, _skip_space(plain_text, name_end) + 1)
        end = _DECODER.raw_decode(plain_text, offset)[1]
        items.append(_Item(name, start, offset, end))
        offset = _skip_space(plain_text, end)
        if plain_text[offset] == ",":
            offset = _skip_space(plain_text, offset + 1)
    return items


def _skip_space(text: str, offset: int) -> int:
    space = _SPACE.match(text, offset)
    return space.end() if space else offset
