"""Records in the code's work tree that nobody reads, since the memory of the project is on a branch of its own.

Rule: `status` and `check` always tell of them, with the commands that take them along and those that remove them; an
answer that found nothing says that there are some, after a look at folders alone.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.config import Config, own_branch
from filemem.files import is_listed, names
from filemem.memory import home, tombstones, unkept
from filemem.record import parse
from filemem.record.identity import PRIVATE
from filemem.repo import Repo

if TYPE_CHECKING:
    from filemem.memory.store import Store

_OURS = home.RECORDS | {PRIVATE}  # folders in which Markdown is a record, whatever it states


class Stray(NamedTuple):
    """Records that nobody reads.

    Args:
        told: which, and why.
        take: the command that takes along what the memory lacks; "" where it has all.
        compare: those that show what some say and the memory never had; "" where there is no such thing.
        remove: the one that removes from the code's branch then what would not be lost; "" where that is left to the
            user.
    """

    told: str
    take: str = ""
    compare: str = ""
    remove: str = ""

    def __str__(self) -> str:
        words = (
            ("to take them along", self.take),
            ("to see what is new", self.compare),
            (f"to remove {'the others' if self.compare else 'them'} here then", self.remove),
        )
        return "; ".join((self.told, *(f"{what}: {command}" for what, command in words if command)))


def folder(code: Repo, memory: Repo, store: str) -> str:
    """The folder of the code's work tree that has records beside a memory on a branch of its own, or "".

    Args:
        code: the repository of the code.
        memory: the one that the memory is committed to.
        store: the folder that the settings of the code name.
    """
    if memory.common_dir != code.common_dir or memory.git_dir == code.git_dir:
        return ""
    return standing(code, store)


def standing(code: Repo, store: str) -> str:
    """The folder of a work tree that has records: the one that settings name, or the usual one; "" for neither."""
    likely = dict.fromkeys((store, Config().store))
    return next((name for name in likely if any(True for _ in _records(code, name))), "")


def since(code: Repo, store: str) -> int:
    """When the oldest commit was written that can be taken along, in epoch milliseconds; 0 where there is none.

    A branch of the memory's own begins then: no commit of it counts as older than the first.

    Args:
        code: the repository of the code.
        store: the folder that the settings of the code name.
    """
    name = standing(code, store)
    return code.history.written([f"{name}/"]) if name and code.head() else 0


def briefly(code: Repo, memory: Repo, store: str) -> str:
    """That there are records which nobody reads, or ""; arguments as for `folder`."""
    found = folder(code, memory, store)
    return f"{found}/ has records, which are not read: filemem status says how to take them along" if found else ""


def find(code: Repo, memory: Repo, store: str) -> Stray | None:
    """Find the records that nobody reads, if any; arguments as for `folder`."""
    if not (name := folder(code, memory, store)):
        return None
    place, found = code.work_tree / name, sorted(_records(code, name))
    which = f"{name}/{found[0]} is" if len(found) == 1 else f"{len(found)} records in {name}/ are"
    shown = os.path.relpath(memory.work_tree, code.work_tree)
    why = f"{which} not read: the memory is the branch {memory.branch() or '(none now)'}, at {shown}"
    if home.strange(one for one in os.listdir(place) if not one.startswith(".")) - {PRIVATE}:
        return Stray(f"{why}; {name}/ has other files too, so move records by hand, and commit that on both sides")
    committed = {path.removeprefix(f"{name}/") for path in (code.history.listing(name) if code.head() else ())}
    lacking, differing = unkept.find(memory, place, found)
    within, kept = names.entries(committed), names.entries(differing)
    known = {path for path in names.entries(lacking) if os.path.lexists(memory.work_tree / path)} | kept
    take = []
    if moved := _parts(lacking & committed, known):
        take.append(_patches(code, memory, name, moved))
    if copied := _parts(lacking - committed, known | within):
        take.append(f"tar -C {_quoted(place)} -cf - {' '.join(copied)} | tar -C {_quoted(memory.work_tree)} -xf -")
    sure = set(found) - differing.keys()
    removed = _parts(sure & committed, names.entries(committed - sure)) if differing else [""] if committed else []
    remove = [_remove(code, memory, name, removed)] if removed else []
    if loose := _parts(sure - committed, within | kept):
        remove.append(f"rm -r {' '.join(f'{_quoted(place)}/{part}' for part in loose)}")
    if differing:
        why += f"; {_unlike(differing)}"
    elif not take:
        why += ", which has them all"
    return Stray(why, " && ".join(take), _compare(code, memory, name, differing), " && ".join(remove))


def _unlike(differing: Iterable[str]) -> str:
    """Say which records say what the memory never had, and what to do about it."""
    first, *others = sorted(differing)
    which = f"{first} says" if not others else f"{first} and {len(others)} more of them say"
    it = "it" if not others else "these"
    return (
        f"{which} what the memory never had: carry over what is new, by hand or with filemem update, then remove {it} "
        "here by hand"
    )


def _compare(code: Repo, memory: Repo, name: str, differing: Mapping[str, str]) -> str:
    """The commands that show how records differ from those that the memory has."""
    there = os.path.relpath(memory.work_tree, code.work_tree)
    pairs = ((f"{name}/{here}", f"{there}/{other}") for here, other in sorted(differing.items()))
    git = f"{code.places.by_hand} diff --no-index --"
    return "; ".join(f"{git} {shlex.quote(other)} {shlex.quote(here)}" for here, other in pairs)


def of(store: Store) -> Stray | None:
    """Find the records of a work tree that nobody reads; or that are read, though the memory of the project is another.

    Args:
        store: the parts.
    """
    why = unattached(store)
    return Stray(why) if why else find(store.code, store.repo, store.config.store)


def unattached(store: Store) -> str:
    """That an old branch of the code is taken for the memory, as the one of the project is not attached here, or ""."""
    if store.repo is not store.code or store.files.store != store.config.store or store.config.branch:
        return ""
    branch = own_branch(home.settings_there(store.code))
    if not branch or home.attachment(store.code)[0]:  # attached, and another was asked for by name
        return ""
    default = (store.code.common_dir / "refs/remotes/origin/HEAD").read_text().strip().rpartition("/origin/")[2]
    brings = f"{store.code.places.by_hand} pull" if store.code.branch() == default else "`filemem init` attaches it"
    told = (
        f"{store.name}/ is an older memory of this project, which is the branch {branch} now, as origin/{default} says"
    )
    return f"{told}: {brings}"


def _records(code: Repo, name: str) -> Iterator[str]:
    """The records in a folder of the code's work tree, by path below it; none where it is a repository of its own."""
    place = code.work_tree / name
    if name == home.TOP or place.is_symlink() or os.path.lexists(place / ".git"):
        return
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


def _parts(paths: Iterable[str], others: Container[str]) -> list[str]:
    """What names some paths for a shell and none of the others: of each the first folder that has none, or itself."""
    ways = (accumulate(path.split("/"), "{}/{}".format) for path in paths)
    return sorted({shlex.quote(next(part for part in way if part not in others)) for way in ways})


def _quoted(place: Path) -> str:
    return shlex.quote(str(place))


def _patches(code: Repo, memory: Repo, name: str, parts: Sequence[str]) -> str:
    """The command that takes committed records along, commit by commit: so it stays known who decided what, and when.

    Nothing that the memory has is touched: a merge would take the removal there for one here. What merges made of files
    that both sides had edited no patch says, so those are put right at the end.
    """
    named, here, there = shlex.quote(name), code.places.by_hand, memory.places.by_hand
    whole = (one for one in (*home.RECORDS, tombstones.FOLDER) if not os.path.lexists(memory.work_tree / one))
    paths = " ".join(f"{named}/{part}" for part in sorted({*parts, *whole}))  # what was forgotten in these, too
    read = "-c diff.noprefix=false format-patch --stdout --root --topo-order --no-cover-letter -k"
    keep = "-c merge.default=union am -q -3 -k --keep-cr --committer-date-is-author-date"
    tree, message = shlex.quote(f"HEAD:{name}"), shlex.quote(f"{name}/ as it was merged")
    return (
        f"{here} {read} --relative={named} HEAD -- {paths} | {there} {keep} && "
        f"{there} checkout -q $({here} rev-parse {tree}) -- {' '.join(parts)} && "
        f"{{ {there} diff --cached --quiet || {there} commit -qm {message}; }}"
    )


def _remove(code: Repo, memory: Repo, name: str, parts: Sequence[str]) -> str:
    """The command that removes committed records from the branch of the code; a part of "" is all of the folder."""
    git, path = code.places.by_hand, " ".join("/".join(filter(None, (shlex.quote(name), part))) for part in parts)
    message = shlex.quote(f"{name}/ is on the branch {memory.branch() or 'of the memory'} now")
    return f"{git} rm -rq {path} && {git} commit -m {message} -- {path}"
