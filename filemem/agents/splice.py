"""Add an entry to a file that people and other programs write too, and remove it again; no other byte changes.

Rule: an addition is one line after the opening bracket, or after the last element of a list. An object that was empty
keeps a space, which distinguishes it from one of ours.
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
    """A member of an object, or an element of a list: where it starts, where its value begins and ends."""

    name: str | None
    start: int
    begin: int
    end: int


def plain(text: str) -> str:
    """JSON with comments as plain JSON of the same length: spaces replace comments, trailing commas and a BOM."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\r\n]", " ", found[0])

    return re.sub("^\ufeff", " ", _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text)))


def with_item(text: str, path: Path, value: Any) -> str:
    """The text of a JSON object with one more item. Raises ValueError if the path leads through something else."""
    bare = plain(text)
    at, depth = _skip(bare, 0), 0
    while found := [one for one in _items(bare, at) if path[depth] and one.name == path[depth]]:
        at, depth = found[-1].begin, depth + 1  # the last of a name counts
        if bare[at] != ("[" if path[depth] is None else "{"):
            raise ValueError(
                f"{path[depth - 1]} is no {'list' if path[depth] is None else 'object'}"
            )
    items = _items(bare, at)
    row = re.search(r"(\r?\n[ \t]*)[^\n]*\Z", text[at : items[-1].start]) if items else None
    space = row[1] if row else "\n  " if text == NEW else " "
    inner, outer = (space + space.lstrip("\r\n"), space) if "\n" in space else ("", "")
    told = json.dumps(value, ensure_ascii=False)
    for missing in reversed(path[depth + 1 :]):
        told = (
            f"[{told}]" if missing is None else f"{{{inner}{json.dumps(missing)}: {told}{outer}}}"
        )
    told = told if path[depth] is None else f"{json.dumps(path[depth])}: {told}"
    if (
        items and path[depth] is None
    ):  # the place of an element in a list may count: ours is the last
        return text[: items[-1].end] + "," + space + told + text[items[-1].end :]
    return text[: at + 1] + space + told + "," * bool(items) + text[at + 1 :]


def without_item(text: str, path: Path, value: Any) -> str:
    """The text without the item of this value, and without the objects that were added with it."""
    bare = plain(text)
    at, way = _skip(bare, 0), []
    for name in path:
        items = _items(bare, at)
        fits = [
            one
            for one in items
            if one.name == name and (name or json.loads(bare[one.begin : one.end]) == value)
        ]
        way.append((at, items, fits[-1]))
        at = fits[-1].begin
    while len(way) > 1 and len(way[-1][1]) == 1 and text[way[-1][0] + 1 : way[-1][2].start] != " ":
        way.pop()  # added with what holds it
    _, items, item = way[-1]
    first, start = item == items[0], len(text[: item.start].rstrip())
    comma = (
        -1
        if len(items) == 1
        else bare.index(",", item.end)
        if first
        else bare.rindex(",", 0, item.start)
    )
    gone = {comma, *range(start, item.end)}
    return "".join(one for at, one in enumerate(text) if at not in gone)


def with_block(text: str, block: str) -> str:
    """The text with a block of lines appended; it ends with a line break if the text did."""
    end = line_end(text)
    block = re.sub(r"\r?\n", end, block)
    return (
        f"{text}{end}{block}{end}"
        if not text or text.endswith("\n")
        else f"{text}{end}{end}{block}"
    )


def without_block(text: str, block: str) -> str:
    """The text without the block that was added, and without the line breaks that were added with it."""
    end = re.escape(line_end(text))
    block = re.escape(re.sub(r"\r?\n", line_end(text), block))
    for added in (rf"(\A|(?<=\n)){end}{block}{end}", rf"{end}{end}{block}\Z", rf"{block}{end}"):
        if found := re.search(added, text):
            return text[: found.start()] + text[found.end() :]
    return text


def line_end(text: str) -> str:
    """The line ending of a text, for lines that are added."""
    return "\r\n" if "\r\n" in text else "\n"


def _items(bare: str, at: int) -> list[_Item]:
    """The items of the object or list whose bracket is at `at`."""
    members, found, at = bare[at] == "{", [], _skip(bare, at + 1)
    while bare[at] not in "}]":
        name, start = None, at
        if members:
            name, after = _DECODER.raw_decode(bare, at)
            at = _skip(bare, _skip(bare, after) + 1)
        found.append(_Item(name, start, at, _DECODER.raw_decode(bare, at)[1]))
        at = _skip(bare, found[-1].end)
        at = _skip(bare, at + 1) if bare[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
