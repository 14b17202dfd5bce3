"""`filemem init` for records on a branch of their own: the store becomes a work tree of that branch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from filemem import config
from filemem.cli.plan import Step
from filemem.errors import BadInput, BrokenStore, Conflict
from filemem.memory import astray, home, returning, strays
from filemem.repo import Repo, worktrees

SETTINGS = f'store = "{home.TOP}"\n'  # of the branch itself, so that it is a memory wherever it is checked out


def step(
    work_tree: Path,
    name: str,
    branch: str,
    files: Mapping[str, bytes] | None,
    *,
    dry_run: bool,
    tell: Callable[[str], object] | None,
    announce: Callable[[], None],
) -> Step:
    """Attach the branch, or say what would be done.

    Args:
        work_tree: top of the project.
        name: the store folder.
        branch: the branch.
        files: what the branch begins with where there is none; None for not to begin one.
        dry_run: only say it.
        tell: told what Git says of its progress.
        announce: writes the settings that name the branch, before its work tree is made.

    Raises:
        Conflict: the folder holds something else, or is a repository of its own, or the branch holds something else.
        BadInput: the folder is a repository of its own, and nothing says that it holds records.
        NotFound: there is no such branch, and none is to be made.
    """
    path, stated = f"{name}/", config.load(work_tree).branch
    if stated and stated != branch:
        raise BadInput(f"{config.REPOSITORY_FILE} names the branch {stated}", "change it there first", field="branch")
    if not (work_tree / ".git").exists():
        return Step(path, "create", None, f"a work tree of the branch {branch}, which begins empty")
    code = Repo.discover(work_tree)
    try:
        place = work_tree / name
        home.refuse_other(code, branch, code.attaching.tip(branch))
        if not stated:
            _refuse_nested(code, place, name)
        if os.path.lexists(place / ".git") and (told := _found(place, branch, name)):
            return Step(path, "keep", None, told)
        if not os.path.lexists(place / ".git") and (elsewhere := worktrees.of_branch(code.places, branch)):
            return Step(path, "keep", None, f"the branch {branch} is attached at {elsewhere}")
        beneath = _beneath(code, name, begun=bool(stated) or files is None)
        if dry_run:
            return Step(path, "create", None, f"a work tree of the branch {branch}{beneath}")
        from filemem.memory import attaching

        done = attaching.attach(code, name, branch, files, time.time_ns() // 1_000_000, tell, announce)
        return Step(path, "create", None, done + beneath)
    finally:
        code.close()


def agreed(work_tree: Path, name: str, store: str | None, own_branch: str) -> tuple[str, str]:
    """The store folder and the branch of the records ("" for none): as attached, else as asked for or as stated.

    Args:
        work_tree: top of the project.
        name: the store folder as asked for, or as the settings have it.
        store: the same, where it was asked for.
        own_branch: the branch that was asked for, if any.

    Raises:
        Conflict: what was asked for, or what the settings name, is another memory than the one that a work tree of the
            project has attached; or that is on no branch now.
    """
    if not (work_tree / ".git").exists():
        return name, own_branch
    with closing(Repo.discover(work_tree)) as code:
        place, branch = home.attachment(code)
        here = (work_tree / name).resolve()
        if place is None or (os.path.lexists(here / ".git") and (here != place.resolve() or not branch)):
            there = home.settings_there(code)
            stated = own_branch or home.branch_of(code, config.load(work_tree)) or config.own_branch(there)
            taken = stated and stated == config.own_branch(there) and not (store or config.own_store(work_tree))
            return (taken and config.stated_store(there)) or name, stated
        if not branch:
            hint = "end what is going on there"
            raise Conflict(f"the memory of this project is at {place}, and on no branch now", hint)
        _refuse_left(code, place, name)
        folder = home.folder_of(code, place)
        _refuse_another(work_tree, config.store_path(store) if store else "", own_branch, place, (folder, branch))
        return folder or name, branch


def _refuse_left(code: Repo, place: Path, name: str) -> None:
    """Raise Conflict where the project has left the memory that is attached: settings would name it again."""
    with closing(Repo.discover(place)) as memory:
        if (left := astray.folder(code, memory, name)) and returning.gone_back(code):
            raise Conflict(returning.why(code, memory, left), "filemem status says what detaches it, then init again")


def _refuse_another(work_tree: Path, store: str, own_branch: str, place: Path, known: tuple[str, str]) -> None:
    """Raise Conflict where another memory is asked for, or named in the settings, than the one that is attached."""
    file, (folder, branch) = config.REPOSITORY_FILE, known
    for where, named, held in (
        ("--store", store, folder),
        ("--own-branch", own_branch, branch),
        (f"{file}: store", config.own_store(work_tree), folder),
        (f"{file}: branch", config.load(work_tree).branch, branch),
    ):
        if named and held and named != held:
            told = (
                f"the memory of this repository is the branch {branch}, attached at {place}, and {where} names {named}"
            )
            hint = f"let it name {held}, or leave it out: filemem init sets this work tree up for that memory"
            raise Conflict(told, hint)


def stray(work_tree: Path, name: str, place: Path) -> strays.Stray | None:
    """The records that nobody reads when the memory is at a place.

    Args:
        work_tree: top of the project.
        name: the store folder.
        place: the work tree of the memory.
    """
    if not (work_tree / ".git").exists():
        return None
    with closing(Repo.discover(work_tree)) as code:
        if not os.path.lexists(place / ".git"):
            found = astray.standing(code, name)
            told = f"{found}/ has records, which are not read then: copy them into the new one and commit that there"
            return strays.Stray(told) if found else None
        with closing(Repo.discover(place)) as memory:
            return astray.find(code, memory, name)


def _beneath(code: Repo, name: str, *, begun: bool) -> str:
    """What to beware of where commits of the code have files in the folder; "" where none has.

    The folder is hidden from the code's branches, and what is hidden Git takes for expendable: a checkout of such a
    commit writes over the memory's work tree without a word.

    Args:
        code: the code's repository.
        name: the folder.
        begun: the project has such a memory already, in this folder.

    Raises:
        Conflict: another folder can be taken still; or the commit that is checked out has files there.
    """
    there = code.item(name) is not None
    found = (code.head() or "") if there else code.history.first([f"{name}/"], "--branches", "--tags", "--remotes")
    if not found:
        return ""
    told = f"{name}/ holds files of {'this branch' if there else f'the code in its commit {found[:10]}'}"
    if there or not begun:
        why = "where such a commit is checked out, Git would write over the memory without a word"
        raise Conflict(
            f"{told}: {why}",
            "take another folder: filemem --store NAME init --own-branch; then copy the records there, and commit them",
        )
    restore = f"{code.places._replace(work_tree=code.work_tree / name).by_hand} restore ."
    return f"; {told}: commit what you edit in it before you check such a commit out, and {restore} after"


def _refuse_nested(code: Repo, place: Path, name: str) -> None:
    """Raise Conflict where the store is another repository: what it holds is the memory, and no branch of this one."""
    if not os.path.lexists(place / ".git"):
        return
    with suppress(BrokenStore), closing(Repo.discover(place)) as inner:
        if inner.common_dir != code.common_dir:
            home.store_in(place, name)
            raise Conflict(
                f"{name}/ is a repository of its own, which holds the records already",
                "leave --own-branch out, and filemem init sets it up as it is; or move it away first",
            )


def _found(place: Path, branch: str, name: str) -> str:
    """Say what is attached; "" where it was never whole, or its link leads nowhere: the project was moved."""
    try:
        inner = Repo.discover(place)
    except BrokenStore:
        return ""
    found = inner.branch() or "a detached HEAD"
    whole = inner.git_dir == inner.common_dir or inner.places.checked_out
    inner.close()
    if not whole:
        return ""
    if found == branch:
        return f"a work tree of {found}"
    if name == home.TOP:
        why = f"the top of the work tree has {found} checked out, and a branch of its own needs a folder of its own"
        raise Conflict(why, "name one: filemem --store FOLDER init --own-branch")
    home.store_in(place, name)
    return f"a work tree of {found}, not of {branch}"
