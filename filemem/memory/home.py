"""Where a project's records live: in a folder of its work tree, or in a work tree of their own.

Rule: where the store folder is itself the top of a work tree (a linked one of an orphan branch, a submodule), records
are committed there, and that repository's own settings say where in it they stand, or else what stands in it does; of
the branch that the project's settings name, all is the memory, whatever stands in it. A store that should be there and
is not is an error that says what brings it, never an empty memory.
"""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn

from filemem import config as settings
from filemem.config import Config
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, NotFound
from filemem.files import check_path, is_record
from filemem.record.identity import PRIVATE
from filemem.repo import Repo, worktrees

TOP = "."  # the store that is all of its work tree
RECORDS = frozenset(("decisions", "checkpoints", "observations"))
_OWN = frozenset((".gitattributes", ".forgotten", *RECORDS))
_PAPERS = frozenset(("README", "LICENSE", "LICENCE", "COPYING", "NOTICE"))  # of any repository; they tell no code


class Home(NamedTuple):
    """Where records live.

    Args:
        config: the settings of the project.
        code: the repository of the project's code.
        repo: the one that holds the records; the same unless they have a work tree of their own.
        store: the folder of records, from the top of `repo`.
        name: the same, as people see it: from the top of `code`.
        stated: whether somebody named the folder.
    """

    config: Config
    code: Repo
    repo: Repo
    store: str
    name: str
    stated: bool


def find(folder: Path, stated: str | None) -> Home:
    """Find the records of the project that a folder belongs to.

    Args:
        folder: any folder of the project, the store's own work tree included.
        stated: folder of records, or None for the configured one.

    Raises:
        NotFound: there is no repository.
        BadInput: settings that cannot be used.
        BrokenStore: the store has a work tree of its own, and it is not here.
    """
    code = project(folder) if stated is None else Repo.discover(folder)
    try:
        return _home(code, stated)
    except FilememError:
        code.close()
        raise


def _home(code: Repo, stated: str | None) -> Home:
    config = settings.load(code.work_tree)
    name = _checked(settings.store_path(stated) if stated else config.store)
    named = bool(stated) or config.store != Config().store
    branch = branch_of(code, config)
    place = attached(code, name, "" if stated else branch)
    if place is None and stated is None and name != TOP:
        place, held = attachment(code)
        branch = branch or held
    if place is None:
        return Home(config, code, code, name, name, named)
    repo = Repo.discover(place)
    if not repo.places.checked_out and repo.tip():
        raise BrokenStore(
            f"the work tree {place} of this project's memory is not checked out: that was interrupted, or is going on",
            "`filemem init` ends it",
        )
    if place.is_relative_to(code.work_tree) and not worktrees.holds(code.places, repo.places):
        raise BrokenStore(f"{name}/.git leads to another repository, {repo.git_dir}", "work in that one, or remove it")
    shown = os.path.relpath(place, code.work_tree)
    alone = bool(branch) and repo.common_dir == code.common_dir
    store = TOP if alone else _checked(store_in(place, shown))
    return Home(config, code, repo, store, shown if store == TOP else f"{shown}/{store}", named)


def store_in(place: Path, shown: str) -> str:
    """Where records stand in a work tree of their own.

    Args:
        place: its top.
        shown: the same, as people see it.

    Raises:
        BadInput: nothing says it: records may stand elsewhere in it, or it is a repository of code.
    """
    return _store_in(place, shown) or _refuse_unclear(place, shown)


def _store_in(place: Path, shown: str = "") -> str:
    """Where records stand in a work tree of their own: where its settings say, else where it has some; "" if unclear.

    One that holds nothing else is a memory from its top on, also before the first save.
    """
    if stated := settings.own_store(place, posixpath.join(shown, settings.REPOSITORY_FILE)):
        return stated
    names = {name for name in os.listdir(place) if not name.startswith(".")}
    inside, atop = Config().store in names, bool(RECORDS & names)
    if inside or atop:
        return "" if inside and atop else TOP if atop else Config().store
    return "" if strange(names) - {PRIVATE} else TOP


def strange(names: Iterable[str]) -> set[str]:
    """Of what stands at the top of a repository, what is nothing that a memory has there."""
    names = {*names}
    papers = {one for one in names if one.partition(".")[0].upper() in _PAPERS and not is_record(one)}
    return names - papers - _OWN


def _refuse_unclear(place: Path, shown: str) -> NoReturn:
    """Raise BadInput: nothing may be saved, or missed, where records may stand elsewhere."""
    names = ", ".join(sorted(name for name in os.listdir(place) if not name.startswith("."))[:3])
    raise BadInput(
        f"{shown} is a repository of its own, and nothing says where in it records stand, beside {names}",
        f'say it in {shown}/{settings.REPOSITORY_FILE}: `store = "{TOP}"` if at its top, else the name of a folder; '
        f"if it is no memory, name another folder in this project's {settings.REPOSITORY_FILE}",
        field="store",
    )


def _checked(name: str) -> str:
    """The name of a store folder that every file system may have."""
    try:
        if name != TOP:
            check_path(name)
    except BadInput as error:
        raise BadInput(f"store: {error.message}", "name a folder inside the work tree", field="store") from None
    return name


def attached(code: Repo, name: str, branch: str) -> Path | None:
    """The work tree that a store folder is the top of, wherever it stands; None where it is a folder like any other.

    Args:
        code: the repository of the project's code.
        name: the folder.
        branch: the branch that the project's settings name for its records, if any.

    Raises:
        BadInput: the folder lies inside another repository.
        BrokenStore: the settings name a branch, and no work tree has it.
    """
    place = code.work_tree / name
    for parent in PurePosixPath(name).parents[:-1]:
        if os.path.lexists(code.work_tree / parent / ".git"):
            inner = shlex.quote(str(PurePosixPath(name).relative_to(parent)))
            hint = f"work in that one: filemem -C {shlex.quote(str(code.work_tree / parent))} --store {inner}"
            raise BadInput(f"store: {name} lies inside another repository, {parent}", hint, field="store")
    if name != TOP and not place.is_symlink() and os.path.lexists(place / ".git"):
        return place
    if not branch:
        return None
    if (elsewhere := worktrees.of_branch(code.places, branch)) is not None:
        return elsewhere
    other, found = attachment(code)
    if found:
        told = f"{settings.REPOSITORY_FILE} names the branch {branch} for the memory, and {other} is one of {found}"
        raise BrokenStore(told, f"let it name {found}; or remove that work tree, and filemem init attaches {branch}")
    raise BrokenStore(
        f"the memory of this project is the branch {branch}, and its work tree {name}/ is not attached here",
        "`filemem init` attaches it",
    )


def attachment(code: Repo) -> tuple[Path | None, str]:
    """The memory of a project that any of its work trees has attached, and so is the memory of all of them.

    Returns:
        Its place and its branch ("" where it is on none); None and "" where there is none.
    """
    trees = tuple(worktrees.linked(code.places))
    found = next((each for each in trees if settings.stated_store(_settings_at(each[0])) == TOP), None)
    if found is None and trees:  # its own settings may be lost
        named = branches_named(code)
        found = next((each for each in trees if each[1] in named), None)
    return found or (None, "")


def branches_named(code: Repo) -> frozenset[str]:
    """The branches that the settings of the project's work trees name for its records."""
    trees = (*worktrees.main(code.places), *worktrees.linked(code.places))
    return frozenset(filter(None, (settings.own_branch(_settings_at(place)) for place, _ in trees)))


def _settings_at(place: Path) -> bytes:
    """What the settings file of a work tree holds; nothing where it is none."""
    file = place / settings.REPOSITORY_FILE
    try:
        return b"" if file.is_symlink() or file.stat().st_size > settings.MAX_FILE else file.read_bytes()
    except OSError:
        return b""


def folder_of(code: Repo, place: Path) -> str:
    """The store folder that a memory is attached as, from the top of the work tree around it; "" outside of all."""
    inner = place.resolve()
    tops = [top.resolve() for top, _ in (*worktrees.main(code.places), *worktrees.linked(code.places))]
    around = [top for top in tops if top in inner.parents]
    return inner.relative_to(max(around, key=lambda top: len(top.parts))).as_posix() if around else ""


def is_memory(repo: Repo, commit: str) -> bool:
    """Whether a commit holds a memory alone: its settings say so, or all in it is what `filemem` writes there."""
    stated = settings.stated_store(repo.show(settings.REPOSITORY_FILE, commit) or b"")
    return stated == TOP or not _foreign(repo, commit)


def _foreign(repo: Repo, commit: str) -> set[str]:
    """What stands at the top of a commit and is nothing that `filemem` writes into a memory."""
    names = set(repo.sharing.names_at(commit))
    return strange(names) - ({settings.REPOSITORY_FILE} if RECORDS & names else set())


def refuse_other(code: Repo, branch: str, tip: str) -> None:
    """Refuse a branch that cannot hold records alone: one that is worked on, or that holds anything else.

    Args:
        code: the repository of the project.
        branch: the branch.
        tip: its last commit, here or on the other side; "" where there is no such branch yet.

    Raises:
        Conflict: says which of the two it is.
    """
    hint = f"name another one: filemem init --own-branch NAME; {settings.REPOSITORY_FILE} names the present one, if any"
    if branch == code.branch() or branch == worktrees.main_branch(code.places):
        raise Conflict(f"the branch {branch} is checked out already, for work on the project itself", hint)
    if tip and not is_memory(code, tip):
        names = ", ".join(sorted(_foreign(code, tip))[:3])
        raise Conflict(f"the branch {branch} holds more than a memory: {names}", hint)


def branch_of(code: Repo, config: Config) -> str:
    """The branch that holds a project's records alone, or "".

    Settings say so, those of the default branch too: a branch that is older than they are must not look as if nothing
    had ever been saved.
    """
    if config.branch or os.path.lexists(code.work_tree / config.store):
        return config.branch
    return settings.own_branch(settings_there(code))


def settings_there(code: Repo) -> bytes:
    """The settings file of the default branch on the other side; nothing where that is not known."""
    known = os.path.lexists(code.common_dir / "refs/remotes/origin/HEAD")
    return (code.show(settings.REPOSITORY_FILE, "origin/HEAD") or b"") if known else b""


def project(folder: Path) -> Repo:
    """The repository of the project that a folder belongs to; a store that is a work tree belongs to the one around it.

    Raises:
        NotFound: there is no repository.
        BadInput: settings that cannot be used.
    """
    found = Repo.discover(folder)
    linked = found.git_dir != found.common_dir
    if not linked and _store_in(found.work_tree) != TOP:
        return found
    try:
        outer = Repo.discover(found.work_tree.parent)
    except (NotFound, BrokenStore):
        return found
    around = settings.load(outer.work_tree)
    if outer.work_tree / around.store != found.work_tree:
        # An old branch of the code may not name it.
        place = attachment(outer)[0] if linked and outer.common_dir == found.common_dir else None
        return outer if place and place.resolve() == found.work_tree.resolve() else found
    alone = (linked and bool(branch_of(outer, around))) or _store_in(found.work_tree) == TOP
    return outer if alone else found
