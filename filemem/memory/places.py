"""What is meant by a place in the project's code that somebody names: a file or folder of it, and some lines.

Rule: a file that has such a name goes first, so that `notes:3` can be one.
"""

from __future__ import annotations

import os
import re
from itertools import accumulate
from pathlib import Path

from filemem.errors import BadInput
from filemem.memory.store import Store

_PLACE = re.compile(r"(?s)(?P<path>.+?)(?::|#L)(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9})|:\d+)?")  # :LINE:COLUMN too
_SUBMODULE = b"160000"  # the mode of its row in a tree


def named(store: Store, asked: str) -> tuple[str, tuple[int, int] | None]:
    """The path from the top of the code's work tree, and the first and the last of the lines that are named, if any.

    Raises:
        BadInput: it lies outside the work tree, or names lines of a file in no known way.
    """
    path, top = store.of_code(asked), store.code.work_tree
    if os.path.lexists(top / path):
        return path, None
    if found := _PLACE.fullmatch(asked):
        first, last = int(found["first"]), int(found["last"] or found["first"])
        if first <= last:
            return store.of_code(found["path"]), (first, last)
    file, _, rest = path.rpartition("#" if "#" in path else ":")
    if file and os.path.isfile(top / file):  # noqa: PTH113 - which takes names of any length
        raise BadInput(f"{rest!r} names no lines of {file}", f"{file}:40 is a line, {file}:40-60 are several", "path")
    return path, None


def led(store: Store, path: str) -> tuple[str, str]:
    """Where a path leads through the symbolic links of the code's work tree, and what is to be said of that, or "".

    A link that leads out of the work tree stays what it is: a file of the project that says where to.

    Raises:
        BadInput: the path passes through a folder that leads out of it.
    """
    top = store.code.work_tree
    folder, _, name = path.rpartition("/")
    at = _from_top(top, Path(os.path.realpath(top / folder), name))
    end = _from_top(top, os.path.realpath(top / at))
    if at.startswith("../"):
        raise BadInput(f"{path} lies outside the work tree: it is {at}", "name a file of the project", "path")
    if end == ".." or end.startswith("../"):
        return at, f"{path} is a link that leads out of the work tree, to {end}"
    return end, f"{path} leads to {end}" if end != path else ""


def _from_top(top: Path, place: str | Path) -> str:
    return Path(os.path.relpath(place, os.path.realpath(top))).as_posix()


def submodule(store: Store, path: str) -> str:
    """That a path is, or lies in, a submodule of the code, or "": its lines and commits are another repository's."""
    for at in accumulate(path.split("/"), lambda above, name: f"{above}/{name}"):
        item = store.code.item(at)
        if item is None or item.mode == _SUBMODULE:
            return f"{at} is a submodule: what its own memory and history say is asked in there" if item else ""
    return ""
