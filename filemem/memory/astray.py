"""Records in the code's work tree that nobody reads, since the memory of the project is on a branch of its own.

Rule: `status` and `check` always tell of them, and what the memory lacks of what they say; an answer that found nothing
says that there are some, after a look at folders alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from filemem.config import Config, own_branch
from filemem.memory import home, returning, strays, unkept
from filemem.memory.strays import Stray
from filemem.repo import Repo

if TYPE_CHECKING:
    from filemem.memory.store import Store


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


def briefly(code: Repo, memory: Repo, store: str) -> str:
    """That there are records which nobody reads, or ""; arguments as for `folder`."""
    found = folder(code, memory, store)
    return f"{found}/ has records, which are not read: filemem status says what of them is missing" if found else ""


def find(code: Repo, memory: Repo, store: str) -> Stray | None:
    """Find the records that nobody reads, if any; arguments as for `folder`."""
    if not (name := folder(code, memory, store)):
        return None
    if returning.gone_back(code):
        return returning.find(code, memory, name)
    place, found = code.work_tree / name, sorted(_records(code, name))
    which = f"{name}/{found[0]} is" if len(found) == 1 else f"{len(found)} records in {name}/ are"
    shown = os.path.relpath(memory.work_tree, code.work_tree)
    why = f"{which} not read: the memory is the branch {memory.branch() or '(none now)'}, at {shown}"
    lacking, differing = unkept.find(memory, home.TOP, place, found)
    why += strays.lost(name, lacking, differing, "the memory")
    return Stray(why, strays.compare(code, place, memory.work_tree, differing))


def of(store: Store) -> Stray | None:
    """Find the records of a work tree that nobody reads; or that are read, though the memory of the project is another.

    Args:
        store: the parts.
    """
    why = unattached(store)
    return Stray(why) if why else find(store.code, store.repo, store.config.store)


def left(store: Store) -> str:
    """That the project has left the memory that is attached here, and what to do about it, or ""."""
    if store.repo is store.code or store.config.branch:
        return ""
    name = folder(store.code, store.repo, store.config.store)
    if not name or not returning.gone_back(store.code):
        return ""
    return f"{returning.why(store.code, store.repo, name)}: filemem status says what detaches it"


def unattached(store: Store) -> str:
    """That an old branch of the code is taken for the memory, as the one of the project is not attached here, or ""."""
    if store.repo is not store.code or store.files.store != store.config.store or store.config.branch:
        return ""
    branch = own_branch(home.settings_there(store.code))
    if branch in ("", store.code.branch()) or home.attachment(store.code)[0]:  # attached: another was asked for by name
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
    yield from strays.records(place)
