"""Add an entry to a JSON or text file of another program, and remove it; no other byte changes.

An addition is one line after the opening bracket, or after the last element of a list. An object
that was empty keeps a space, which distinguishes it from an object that was added.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

Path = tuple[str | None, ...]
"""The names that lead to a member; a last None is an element of a list."""
EMPTY_OBJECT = "{\n}\n"  # a new file

_SPACE = re.compile(r"\s*")
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_DECODER = json.JSONDecoder(parse_int=str)  # of any length


class _Item(NamedTuple):
    """A member or an element: where it starts, and where its value starts and ends."""

    name: str | None
    start: int
    value_start: int
    value_end: int


def strip_comments(text: str) -> str:
    """Return JSON with comments as plain JSON of equal length.

    Spaces replace comments, trailing commas and a byte order mark.
    """
    text = _COMMENT.sub(_blank_out, text)
    text = _LAST_COMMA.sub(_blank_out, text)
    return re.sub("^\ufeff", " ", text)


def _blank_out(match: re.Match[str]) -> str:
    """Return spaces for a comment or comma; a string stays as it is."""
    if match[0].startswith('"'):
        return match[0]
    return re.sub(r"[^\r\n]", " ", match[0])


def add_item(text: str, path: Path, value: Any) -> str:
    """Return the text of a JSON object with one more item.

    Raises ValueError if the path leads through another kind of value.
    """
    plain_text = strip_comments(text)
    holder = _find_holder(plain_text, path)
    items = _parse_items(plain_text, holder.offset)
    space = _get_indent(text, holder.offset, items)
    item = space + _format_item(holder.missing_names, value, space)
    position = holder.offset + 1
    if items:
        if holder.missing_names[0] is None:
            position = items[-1].value_end  # the place of an element may matter: ours is the last
            item = f",{item}"
        else:
            item = f"{item},"
    return text[:position] + item + text[position:]


class _Holder(NamedTuple):
    """The innermost existing object or list on a path, and the rest of the path."""

    offset: int
    missing_names: Path


def _find_holder(plain_text: str, path: Path) -> _Holder:
    offset = _skip_space(plain_text, 0)
    for depth, name in enumerate(path[:-1]):
        item = _find_item(_parse_items(plain_text, offset), name)
        if item is None:
            return _Holder(offset, path[depth:])
        offset = item.value_start
        if path[depth + 1] is None:
            if plain_text[offset] != "[":
                raise ValueError(f"{name} is not a list")
        elif plain_text[offset] != "{":
            raise ValueError(f"{name} is not an object")
    return _Holder(offset, path[-1:])


def _find_item(items: list[_Item], name: str | None) -> _Item | None:
    """Return the last item of a name, which counts in JSON."""
    for item in reversed(items):
        if item.name == name:
            return item
    return None


def _get_indent(text: str, offset: int, items: list[_Item]) -> str:
    """Return the text before a new item: line break and indent of the last one, or a space."""
    if items:
        text_before = text[offset : items[-1].start]
        row = re.search(r"(\r?\n[ \t]*)[^\n]*\Z", text_before)
        if row:
            return row[1]
    if text == EMPTY_OBJECT:
        return "\n  "
    return " "


def _format_item(names: Path, value: Any, space: str) -> str:
    """Return a value under the first of these names, within new objects and lists for the rest."""
    inner_indent = ""
    outer_indent = ""
    if "\n" in space:
        inner_indent = space + space.lstrip("\r\n")
        outer_indent = space
    text = json.dumps(value, ensure_ascii=False)
    for name in reversed(names[1:]):
        if name is None:
            text = f"[{text}]"
        else:
            member = f"{json.dumps(name)}: {text}"
            text = "{" + inner_indent + member + outer_indent + "}"
    if names[0] is None:
        return text
    return f"{json.dumps(names[0])}: {text}"


class _PathStep(NamedTuple):
    """A step to an item: the bracket of its object or list, all items there, and the item."""

    offset: int
    items: list[_Item]
    item: _Item

    def is_own_object(self, text: str) -> bool:
        """Whether the object was added with its only item: one that was empty keeps a space."""
        if len(self.items) != 1:
            return False
        return text[self.offset + 1 : self.item.start] != " "


def remove_item(text: str, path: Path, value: Any) -> str:
    """Return the text without the item of this value and the objects that were added with it."""
    plain_text = strip_comments(text)
    steps = _list_steps(plain_text, path, value)
    while len(steps) > 1 and steps[-1].is_own_object(text):
        steps.pop()
    step = steps[-1]
    comma = _find_comma(plain_text, step)
    end = step.item.value_end
    text_above = text[: step.item.start].rstrip()
    if 0 <= comma < len(text_above):
        text_above = text_above[:comma] + text_above[comma + 1 :]
    text_below = text[end:]
    if comma >= end:
        text_below = text[end:comma] + text[comma + 1 :]
    return text_above + text_below


def _list_steps(plain_text: str, path: Path, value: Any) -> list[_PathStep]:
    """Return the steps to the item of this value."""
    offset = _skip_space(plain_text, 0)
    steps: list[_PathStep] = []
    for name in path:
        items = _parse_items(plain_text, offset)
        candidates = []
        for item in items:
            if item.name != name:
                continue
            item_text = plain_text[item.value_start : item.value_end]
            if name is not None or json.loads(item_text) == value:
                candidates.append(item)
        last_item = candidates[-1]
        steps.append(_PathStep(offset, items, last_item))
        offset = last_item.value_start
    return steps


def _find_comma(plain_text: str, step: _PathStep) -> int:
    """Return the position of the comma to remove with an item; -1 for the only item."""
    if len(step.items) == 1:
        return -1
    if step.item == step.items[0]:
        return plain_text.index(",", step.item.value_end)
    return plain_text.rindex(",", 0, step.item.start)


def add_block(text: str, block: str) -> str:
    """Return the text with a block of lines at its end; it ends in a line break if the text did."""
    end = find_line_end(text)
    block = re.sub(r"\r?\n", end, block)
    if not text or text.endswith("\n"):
        return f"{text}{end}{block}{end}"
    return f"{text}{end}{end}{block}"


def remove_block(text: str, block: str) -> str:
    """Return the text without a block and the line breaks that were added with it."""
    line_end = find_line_end(text)
    end = re.escape(line_end)
    block = re.escape(re.sub(r"\r?\n", line_end, block))
    for pattern in (rf"(\A|(?<=\n)){end}{block}{end}", rf"{end}{end}{block}\Z", rf"{block}{end}"):
        match = re.search(pattern, text)
        if match:
            return text[: match.start()] + text[match.end() :]
    return text


def find_line_end(text: str) -> str:
    """Return the line end of a text, for added lines."""
    return "\r\n" if "\r\n" in text else "\n"


def _parse_items(plain_text: str, offset: int) -> list[_Item]:
    """Return the items of the object or list with its bracket at `offset`."""
    is_object = plain_text[offset] == "{"
    items: list[_Item] = []
    offset = _skip_space(plain_text, offset + 1)
    while plain_text[offset] not in "}]":
        name = None
        start = offset
        if is_object:
            name, name_end = _DECODER.raw_decode(plain_text, offset)
            colon = _skip_space(plain_text, name_end)
            offset = _skip_space(plain_text, colon + 1)
        _, end = _DECODER.raw_decode(plain_text, offset)
        items.append(_Item(name, start, value_start=offset, value_end=end))
        offset = _skip_space(plain_text, end)
        if plain_text[offset] == ",":
            offset = _skip_space(plain_text, offset + 1)
    return items


def _skip_space(text: str, offset: int) -> int:
    space = _SPACE.match(text, offset)
    return space.end() if space else offset
