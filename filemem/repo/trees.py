"""Folder trees as bytes: change a few paths, get the trees that differ. Pure.

A tree is a sorted row of `mode name NUL id`; a folder sorts as if its name ended in `/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from filemem.errors import Conflict

FILE, FOLDER = b"100644", b"40000"
_FILES = (FILE, b"100755", b"100664")


class Item(NamedTuple):
    """One row of a tree: octal mode and object id."""

    mode: bytes
    oid: str


Row = tuple[bytes, bytes]  # mode, raw id
Tree = Mapping[bytes, Row]  # by name
Read = Callable[[str], Tree]  # tree id -> the tree
Keep = Callable[[bytes, Tree], str]  # bytes of a new tree, and the tree -> its id
_ROWS = {width: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % width, re.DOTALL) for width in (20, 32)}


def parse(data: bytes, width: int) -> Tree:
    """Read a tree; `width` is the size of an id in bytes (20 or 32)."""
    return {name: (mode, oid) for mode, name, oid in _ROWS[width].findall(data)}


def render(tree: Tree) -> bytes:
    """Write a tree."""
    rows = sorted((name + b"/" if row[0] == FOLDER else name, name, row) for name, row in tree.items())
    return b"".join([b"%b %b\0%b" % (mode, name, oid) for _, name, (mode, oid) in rows])


def find(read: Read, root: str, path: str) -> Item | None:
    """What stands at a path below the tree `root`, or None."""
    item = Item(FOLDER, root)
    for part in os.fsencode(path).split(b"/"):
        if item.mode != FOLDER:
            return None
        found = read(item.oid).get(part)
        if found is None:
            return None
        item = Item(found[0], found[1].hex())
    return item


def splice(read: Read, keep: Keep, root: str | None, changes: Mapping[str, str | None]) -> tuple[str, list[bytes]]:
    """Build the tree that differs from `root` in some files only.

    Args:
        read: gives a tree by its id.
        keep: takes a new tree, gives its id.
        root: the tree to start from; None for nothing.
        changes: blob id by path; None removes the file. Modes of files that exist are kept.

    Returns:
        The new tree's id, and the trees that are new, deepest first.

    Raises:
        Conflict: something other than a file or folder stands in the way.
    """
    made: list[bytes] = []
    rows = {tuple(os.fsencode(path).split(b"/")): blob for path, blob in changes.items()}

    def build(oid: str | None, below: Mapping[tuple[bytes, ...], str | None]) -> Tree:
        tree = dict(read(oid)) if oid is not None else {}
        for first in sorted({parts[0] for parts in below}):
            here = tree.get(first)
            deeper = {parts[1:]: blob for parts, blob in below.items() if parts[0] == first}
            item = _file(here, deeper[()], first) if () in deeper else folder(here, deeper, first)
            if item is None:
                tree.pop(first, None)
            else:
                tree[first] = item
        return tree

    def folder(here: Row | None, deeper: Mapping[tuple[bytes, ...], str | None], part: bytes) -> Row | None:
        _refuse_no_folder(here, part)
        below = build(here[1].hex() if here else None, deeper)
        return (FOLDER, bytes.fromhex(add(below))) if below else None

    def add(tree: Tree) -> str:
        data = render(tree)
        made.append(data)
        return keep(data, tree)

    return add(build(root, rows)), made


def refuse_obstacle(read: Read, root: str, path: str) -> None:
    """Refuse a path for which a tree has no room, as `splice` would.

    Args:
        read: gives a tree by its id.
        root: the tree.
        path: of a file.

    Raises:
        Conflict: something other than a file or folder stands in the way.
    """
    *folders, name = os.fsencode(path).split(b"/")
    for part in folders:
        here = read(root).get(part)
        if here is None:
            return
        _refuse_no_folder(here, part)
        root = here[1].hex()
    _file(read(root).get(name), None, name)


def _refuse_no_folder(here: Row | None, part: bytes) -> None:
    if here is not None and here[0] != FOLDER:
        raise Conflict(f"{os.fsdecode(part)} is a file or link in HEAD, not a folder", "move it away first")


def _file(here: Row | None, blob: str | None, part: bytes) -> Row | None:
    if here is not None and here[0] not in _FILES:
        raise Conflict(f"{os.fsdecode(part)} is not a regular file in HEAD", "move it away first")
    return None if blob is None else (here[0] if here else FILE, bytes.fromhex(blob))
