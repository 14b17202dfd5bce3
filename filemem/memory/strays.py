"""Records that nobody reads, as values.

Rule: what is done about them is the user's: no command that moves or removes a record is printed, as only people know
which of two versions is to be kept, and who is to be named for it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filemem.files import is_listed
from filemem.memory import home
from filemem.record import parse
from filemem.record.identity import PRIVATE
from filemem.repo import Repo

_OURS = home.RECORDS | {PRIVATE}  # folders in which Markdown is a record, whatever it states


class Stray(NamedTuple):
    """Records that nobody reads.

    Args:
        told: which, and why, and what those that stay lack of them.
        compare: the commands that show what some say and those that stay never did; "" where there is no such thing.
        detach: the one that detaches a memory which the project has left; "" where something would be lost.
    """

    told: str
    compare: str = ""
    detach: str = ""

    def __str__(self) -> str:
        return "; ".join((self.told, *(f"{what}: {command}" for what, command in self.commands)))

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """What each command is for, and the command; those that there are."""
        words = ("to see what is new", self.compare), ("to detach it", self.detach)
        return tuple(one for one in words if one[1])


def records(place: Path) -> Iterator[str]:
    """The records in a folder, by path below it, as far as its files tell."""
    for one in place.rglob("*.md"):
        path = one.relative_to(place).as_posix()
        if is_listed(path) and (path.partition("/")[0] in _OURS or _states(one)):
            yield path


def _states(file: Path) -> bool:
    """Whether a file states what only records do: other Markdown may stand in a folder of that name."""
    with suppress(OSError):
        record = parse(file.read_bytes(), file.name).record
        return record is not None and (record.id_stated or record.topic_stated)
    return False


def lost(folder: str, lacking: Collection[str], differing: Collection[str], whose: str) -> str:
    """Say what would be lost with some records, and what to do about it.

    Args:
        folder: theirs.
        lacking: the paths of those that are not there at all.
        differing: the paths of those that say what those that stay never did.
        whose: what these belong to, as people see it.
    """
    if not lacking and not differing:
        return f", and {whose} has all that they say"
    told = ""
    if lacking:
        told += f"; {whose} has not {_some(folder, lacking)}: copy what is to be kept, and commit it there"
    if differing:
        told += f"; {whose} never had what {_some(folder, differing)} says: carry over what is new there"
    return told


def _some(folder: str, paths: Collection[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{folder}/{min(paths)}{more}"


def compare(code: Repo, here: Path, there: Path, differing: Mapping[str, str]) -> str:
    """The commands that show how records differ from those that stay.

    Args:
        code: the repository of the code.
        here: the folder of these.
        there: the folder of those.
        differing: the paths of those by the paths of these.
    """
    one, other = (os.path.relpath(place, code.work_tree) for place in (here, there))
    pairs = ((f"{other}/{stays}", f"{one}/{path}") for path, stays in sorted(differing.items()))
    git = f"{code.places.by_hand} diff --no-index --"
    return "; ".join(f"{git} {shlex.quote(old)} {shlex.quote(new)}" for old, new in pairs)
