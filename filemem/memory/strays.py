"""Records that nobody reads, as values, and the commands that bring them where they are read.

Rule: commands are printed, never run; they work wherever they are pasted, and none of them loses what only it removes.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from filemem.files import is_listed
from filemem.memory import home, tombstones
from filemem.record import parse
from filemem.record.identity import PRIVATE
from filemem.repo import Repo

_OURS = home.RECORDS | {PRIVATE}  # folders in which Markdown is a record, whatever it states
_READ = "-c diff.noprefix=false format-patch --stdout --root --topo-order --no-cover-letter -k"
_KEEP = "-c merge.default=union am -q -3 -k --keep-cr --committer-date-is-author-date"


class Stray(NamedTuple):
    """Records that nobody reads.

    Args:
        told: which, and why.
        take: the command that takes along what the memory lacks; "" where it has all.
        compare: those that show what some say and the memory never had; "" where there is no such thing.
        remove: the one that removes from the code's branch then what would not be lost; "" where that is left to the
            user.
        detach: the one that detaches a memory which the project has left.
    """

    told: str
    take: str = ""
    compare: str = ""
    remove: str = ""
    detach: str = ""

    def __str__(self) -> str:
        return "; ".join((self.told, *(f"{what}: {command}" for what, command in self.commands)))

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """What each command is for, and the command; those that there are, in the order in which they are used."""
        words = (
            ("to take them along", self.take),
            ("to see what is new", self.compare),
            (f"to remove {'the others' if self.compare else 'them'} here then", self.remove),
            ("to detach it", self.detach),
        )
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


def unlike(differing: Iterable[str], whose: str) -> str:
    """Say which records say what those that stay never did.

    Args:
        differing: their paths.
        whose: what the others belong to, as people see it.
    """
    first, *others = sorted(differing)
    which = f"{first} says" if not others else f"{first} and {len(others)} more of them say"
    carry = "carry over what is new, by hand or with filemem update"
    return f"{which} what {whose} never had: {carry}, then remove {'these' if others else 'it'} by hand"


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


def parts(paths: Iterable[str], others: Container[str]) -> list[str]:
    """What names some paths for a shell and none of the others: of each the first folder that has none, or itself."""
    ways = (accumulate(path.split("/"), "{}/{}".format) for path in paths)
    return sorted({shlex.quote(next(part for part in way if part not in others)) for way in ways})


def copy(here: Path, there: Path, named: Sequence[str]) -> str:
    """The command that copies what no commit has."""
    return f"tar -C {_quoted(here)} -cf - {' '.join(named)} | tar -C {_quoted(there)} -xf -"


def patches(code: Repo, memory: Repo, name: str, named: Sequence[str]) -> str:
    """The command that takes committed records along, commit by commit: so it stays known who decided what, and when.

    Nothing that the memory has is touched: a merge would take the removal there for one here. What merges made of files
    that both sides had edited no patch says, so those are put right at the end.
    """
    folder, here, there = shlex.quote(name), code.places.by_hand, memory.places.by_hand
    whole = (one for one in (*home.RECORDS, tombstones.FOLDER) if not os.path.lexists(memory.work_tree / one))
    paths = " ".join(f"{folder}/{part}" for part in sorted({*named, *whole}))  # what was forgotten in these, too
    tree, message = shlex.quote(f"HEAD:{name}"), shlex.quote(f"{name}/ as it was merged")
    return (
        f"{here} {_READ} --relative={folder} HEAD -- {paths} | {there} {_KEEP} && "
        f"{there} checkout -q $({here} rev-parse {tree}) -- {' '.join(named)} && "
        f"{{ {there} diff --cached --quiet || {there} commit -qm {message}; }}"
    )


def patches_back(code: Repo, memory: Repo, name: str, named: Sequence[str]) -> str:
    """The command that takes committed records of a branch of their own into a folder of the code's branch."""
    here, there = memory.places.by_hand, code.places.by_hand
    return f"{here} {_READ} HEAD -- {' '.join(named)} | {there} {_KEEP} --directory={shlex.quote(name)}"


def remove(code: Repo, memory: Repo, name: str, named: Sequence[str]) -> str:
    """The command that removes committed records from the branch of the code; a part of "" is all of the folder."""
    git, path = code.places.by_hand, " ".join("/".join(filter(None, (shlex.quote(name), part))) for part in named)
    message = shlex.quote(f"{name}/ is on the branch {memory.branch() or 'of the memory'} now")
    return f"{git} rm -rq {path} && {git} commit -m {message} -- {path}"


def remove_loose(place: Path, named: Sequence[str]) -> str:
    """The command that removes what no commit has."""
    return f"rm -r {' '.join(f'{_quoted(place)}/{part}' for part in named)}"


def _quoted(place: Path) -> str:
    return shlex.quote(str(place))
