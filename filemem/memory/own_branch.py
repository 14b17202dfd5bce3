"""Where a project's records live: in a folder of its work tree, or in a work tree of their own.

Rule: a memory on a branch of its own is a linked work tree of that branch, wherever it is attached, and all of the
branch is the memory. A store that is a submodule, or another repository inside the project, works the same; its own
settings say where in it records stand. A memory that should be there and is not is an error that says what brings it.
"""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from filemem import config as settings
from filemem.config import REPOSITORY_FILE, Config
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, NotFound
from filemem.files import check_path
from filemem.repo import Repo, worktree

__all__ = ["REPOSITORY_FILE", "TOP", "Home", "attach", "branch_at", "branch_of", "find", "plan", "project"]

TOP = "."  # the store that is all of its work tree
SETTINGS = f'store = "{TOP}"\n'  # of such a branch itself, so that it is a memory wherever it is checked out
_RECORDS = frozenset(("decisions", "checkpoints", "observations"))


class Home(NamedTuple):
    """Where records live: the settings and the repository of the project's `code`, and the `repo` that holds them (the
    same, unless they have a work tree of their own); the folder `store` in it, whose `name` people see from the top
    of `code`; and whether somebody has `stated` that."""

    config: Config
    code: Repo
    repo: Repo
    store: str
    name: str
    stated: bool


def find(folder: Path, stated: str | None) -> Home:
    """Find the records of the project that a folder belongs to.

    Raises NotFound for no repository, BadInput for settings that cannot be used, and BrokenStore where the records have
    a work tree of their own that is not here.
    """
    code = project(folder) if stated is None else Repo.discover(folder)
    try:
        return _home(code, stated)
    except FilememError:
        code.close()
        raise


def project(folder: Path) -> Repo:
    """The repository of the project that a folder belongs to; a store that is a work tree belongs to the one around it.

    Raises NotFound for no repository, and BadInput for settings that cannot be used.
    """
    found = Repo.discover(folder)
    try:
        outer = Repo.discover(found.work_tree.parent)
    except (NotFound, BrokenStore):
        return found
    return outer if outer.work_tree / settings.load(outer.work_tree).store == found.work_tree else found


def _home(code: Repo, stated: str | None) -> Home:
    config = settings.load(code.work_tree)
    name = _checked(settings.store_path(stated) if stated else config.store)
    named = bool(stated) or config.store != Config().store
    if branch := "" if stated else branch_of(code, config):
        here = code.work_tree / name
        place = worktree.of_branch(code, branch) or (here if os.path.lexists(here / ".git") else None)
        if place is None:
            told = f"the memory of this project is the branch {branch}, and its work tree {name}/ is not attached here"
            raise BrokenStore(told, "`filemem init` attaches it")
        return Home(config, code, Repo.discover(place), TOP, os.path.relpath(place, code.work_tree), named)
    place = code.work_tree / name
    _refuse_inside(code, name)
    if name == TOP or place.is_symlink() or not os.path.lexists(place / ".git"):
        return Home(config, code, code, name, name, named)
    repo = Repo.discover(place)
    own = (place.resolve(), code.common_dir.resolve())
    if not any(repo.git_dir.resolve().is_relative_to(each) for each in own):
        told = f"{name}/.git leads to another repository, {repo.git_dir}"
        raise BrokenStore(told, "work in that one, or remove it")
    store = _checked(_store_in(place, name))
    return Home(config, code, repo, store, posixpath.normpath(f"{name}/{store}"), named)


def branch_of(code: Repo, config: Config) -> str:
    """The branch that holds a project's records alone, or "".

    The settings of the work tree say so. Where these are older, and it has no records, those of the main work tree and
    of the default branch on the other side count: it must not look as if nothing had ever been saved.
    """
    if config.branch or os.path.lexists(code.work_tree / config.store):
        return config.branch
    linked = code.git_dir != code.common_dir and code.common_dir.name == ".git"
    main = settings.load(code.common_dir.parent).branch if linked else ""
    return main or branch_at(code, "refs/remotes/origin/HEAD")


def branch_at(repo: Repo, rev: str) -> str:
    """The branch that the settings of a revision name for the records, or ""."""
    return settings.stated(_settings_at(repo, rev)).branch


def _settings_at(repo: Repo, rev: str) -> bytes:
    item = repo.item_at(repo.resolve(rev) or "", REPOSITORY_FILE)
    return (repo.blob(item.oid) or b"") if item else b""


def _refuse_inside(code: Repo, name: str) -> None:
    for parent in PurePosixPath(name).parents[:-1]:
        if os.path.lexists(code.work_tree / parent / ".git"):
            inner = shlex.quote(str(PurePosixPath(name).relative_to(parent)))
            hint = f"work in that one: filemem -C {shlex.quote(str(code.work_tree / parent))} --store {inner}"
            raise BadInput(f"store: {name} lies inside another repository, {parent}", hint, field="store")


def _store_in(place: Path, shown: str) -> str:
    """Where records stand in a repository of their own: where its settings say, else where it has some. Raises
    BadInput.
    """
    if stated := settings.own_store(place, f"{shown}/{REPOSITORY_FILE}"):
        return stated
    names = {name for name in os.listdir(place) if not name.startswith(".")}
    if Config().store in names:
        return Config().store
    if not names or _RECORDS & names:
        return TOP
    told = f"{shown} is a repository of its own, and nothing says where in it records stand"
    raise BadInput(told, f'say it in {shown}/{REPOSITORY_FILE}: store = "{TOP}" for its top', field="store")


def _checked(name: str) -> str:
    """The name of a store folder that every file system may have."""
    try:
        if name != TOP:
            check_path(name)
    except BadInput as error:
        raise BadInput(f"store: {error.message}", "name a folder inside the work tree", field="store") from None
    return name


# attaching it


def plan(code: Repo, name: str, branch: str, *, begin: bool) -> str:
    """Say what `attach` would do; refuse what it cannot.

    Returns what is to be done, or "" where the branch is attached already; `begin`: where there is no branch, make it.

    Raises:
        Conflict: something stands in the way, or the branch holds more than a memory.
        BrokenStore: the repository names programs that a checkout would run.
    """
    hint, place = "name another one: filemem init --own-branch NAME", code.work_tree / name
    if branch in (code.branch(), worktree.trees(code)[0].branch):
        raise Conflict(f"the branch {branch} is checked out already, for work on the project itself", hint)
    tip = code.resolve(f"refs/heads/{branch}")
    if tip and settings.stated(_settings_at(code, tip)).store != TOP:
        told = f"the branch {branch} is no memory: its {REPOSITORY_FILE} does not say {SETTINGS.strip()}"
        raise Conflict(told, hint)
    if worktree.of_branch(code, branch):
        return ""
    if os.path.lexists(place / ".git"):
        raise Conflict(f"{name}/ is a repository or work tree of its own already", "move it away first")
    if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
        move = "take another folder: filemem --store NAME init --own-branch; then copy the records there"
        raise Conflict(f"{name}/ is there already, and not empty", move)
    if begin and (held := code.git.run("rev-list", "-1", "--branches", "--tags", "--remotes", "--", name).decode()):
        told = f"{name}/ holds files in {held[:10]}: where that is checked out, Git would write over the memory"
        raise Conflict(told, "take another folder: filemem --store NAME init --own-branch")
    if programs := code.settings.own_programs:
        told = f"a checkout would run {programs[0]}, which only this repository's own configuration names"
        raise BrokenStore(told, f"if you trust it: {code.places.by_hand} worktree add {shlex.quote(name)} {branch}")
    return f"a work tree of the branch {branch}"


def attach(
    code: Repo,
    name: str,
    branch: str,
    files: Mapping[str, bytes] | None,
    at: int,
    *,
    tell: Callable[[str], object] | None = None,
) -> str:
    """Attach a work tree of its own for the records, from the branch that holds them here or on the other side.

    Args:
        code: the repository of the project.
        name, branch: the folder, from the top of its work tree, and the branch.
        files, at: what a new branch begins with, and when (epoch ms); None where there must be one already.
        tell: told what Git says of its progress.

    Returns what was done, in words; "" where it is attached already.

    Raises:
        NotFound: there is no such branch, and none is to be made.
        Conflict, BrokenStore: as for `plan`, or the other side cannot be reached.
    """
    done = plan(code, name, branch, begin=files is not None)
    if not done:
        return ""
    with code.saving():
        done += "" if code.resolve(f"refs/heads/{branch}") else _branch(code, branch, files, at, tell)
        plan(code, name, branch, begin=False)  # what came from the other side may be no memory
        worktree.add(code, code.work_tree / name, branch)
    return done


def _branch(
    code: Repo, branch: str, files: Mapping[str, bytes] | None, at: int, tell: Callable[[str], object] | None
) -> str:
    """Make the branch, from the other side or anew; says which."""
    from filemem.repo import merge, remote  # noqa: PLC0415 - every command imports this module

    where = remote.usual(code, branch)
    tip = remote.fetch(code, where, (), tell) if where else None
    if where and tip:
        code.git.run("update-ref", where.tracking, tip)
        code.git.run("update-ref", f"refs/heads/{branch}", tip, "")
        remote.follow(code, branch, where)
        return f", from {where.label}"
    if files is None:
        sides = f"neither here nor on {where.name}" if where else "not here, and there is no other side"
        raise NotFound(f"there is no branch {branch}: {sides}", "`filemem init --own-branch` begins one")
    tree = merge.settled_tree(code, "", dict(files))
    code.git.run("update-ref", f"refs/heads/{branch}", merge.merge_commit(code, tree, (), "memory: begin\n", at), "")
    return ", which begins empty"
