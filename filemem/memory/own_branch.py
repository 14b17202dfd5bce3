"""Where a project's records live: in a folder of its work tree, or in a work tree of their own.

Rule: a memory on its own branch is a linked work tree of that branch, and the whole branch is the memory. A store in
another repository inside the project is refused: that one has its own memory. If the memory's work tree is missing, the
error names the command that attaches it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from filemem import config as settings
from filemem.config import REPOSITORY_FILE, Config
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, NotFound
from filemem.files import is_record
from filemem.record import adr_number
from filemem.repo import Branch as Branch
from filemem.repo import Repo
from filemem.repo.run import LONG

TOP = "."  # the store that is all of its work tree
SETTINGS = f'store = "{TOP}"\n'  # of such a branch itself, so that it is a memory wherever it is checked out

ADRS = (  # where other tools keep decision records
    *(
        f"{top}/{name}"
        for top in ("docs", "doc")
        for name in ("adr", "adrs", "decisions", "architecture/decisions")
    ),
    *("docs/architecture/adr", "architecture/decisions", "adr", "adrs", "decisions"),
)


class Home(NamedTuple):
    """Where records live: in the folder `store` of `repo`.

    `name`: the folder as seen from the top of the project's repository, `code`, which is `repo` itself unless the
    records have their own work tree; `stated`: whether the folder was named by a setting or option."""

    config: Config
    code: Repo
    repo: Repo
    store: str
    name: str
    stated: bool


def find(folder: Path, stated: str | None) -> Home:
    """Find the records of the project that a folder belongs to.

    Raises NotFound: no repository; BadInput: invalid settings; BrokenStore: the records' work tree is missing.
    """
    code = project(folder) if stated is None else Repo.discover(folder)
    try:
        return home(code, stated)
    except FilememError:
        code.close()
        raise


def project(folder: Path) -> Repo:
    """The repository of the project of a folder; for a memory's own work tree, the repository around it."""
    found = Repo.discover(folder)
    try:
        outer = Repo.discover(found.work_tree.parent)
    except (NotFound, BrokenStore):
        return found
    own = (
        found.git_dir != found.common_dir
        and found.common_dir.resolve() == outer.common_dir.resolve()
    )
    return (
        outer
        if own and outer.work_tree / settings.load(outer.work_tree).store == found.work_tree
        else found
    )


def home(code: Repo, stated: str | None) -> Home:
    """The records of a repository; errors as for `find`."""
    config = settings.load(code.work_tree)
    name = settings.store_path(stated) if stated else config.store
    named = bool(stated) or config.store != Config().store
    place = code.work_tree / name
    if branch := "" if stated else branch_of(code, config):
        found = _checked_out(code, branch) or (place if os.path.lexists(place / ".git") else None)
        if found is None:
            told = f"this project's memory is on the branch {branch}, and its work tree {name}/ is not attached here"
            raise BrokenStore(told, "`filemem init` attaches it")
        return Home(
            config, code, Repo.discover(found), TOP, os.path.relpath(found, code.work_tree), named
        )
    path = PurePosixPath(name)
    for inner in (path, *path.parents[:-1]) if name != TOP else ():
        there = code.work_tree / inner
        item = None if there.is_dir() and any(there.iterdir()) else code.item(str(inner))
        if os.path.lexists(there / ".git") or (item and item.mode == b"160000"):  # a submodule
            hint = f"work in that one, filemem -C {shlex.quote(str(there))}, or set another store"
            raise BadInput(
                f"the store {name} lies inside another repository, {inner}", hint, field="store"
            )
    return Home(config, code, code, name, name, named)


def branch_of(code: Repo, config: Config) -> str:
    """The branch that holds only records, from the settings of the work tree, or "".

    If they name none and the work tree has no records, the settings of the default branch count: else it would look as
    if nothing had ever been saved.
    """
    place = code.work_tree / config.store
    if config.branch or (os.path.lexists(place) and not os.path.lexists(place / ".git")):
        return config.branch
    default = code.default_branch()
    return _settings_at(code, default.tip).branch if default else ""


def _settings_at(repo: Repo, commit: str) -> Config:
    item = repo.item(REPOSITORY_FILE, commit)
    return settings.stated((repo.blob(item.oid) or b"") if item else b"")


def elsewhere(code: Repo, name: str) -> str:
    """A remote branch, as last seen, with records in a folder that HEAD lacks; "" if there is none."""
    if code.item(name) is not None:
        return ""
    told = code.git.run(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/remotes"
    ).decode()
    rows = (row.partition(" ") for row in told.splitlines())
    return next((ref for tip, _, ref in rows if code.item(name, tip)), "")


# attaching it


def attach(
    code: Repo,
    name: str,
    branch: str,
    files: Mapping[str, bytes] | None,
    at: int,
    *,
    dry_run: bool = False,
) -> str:
    """Attach a work tree for the records, from their branch here or on the remote.

    A new branch starts with `files`; None if the branch must exist. `dry_run`: only report what would be done.
    Returns what was done, in words; "" if it is already attached. Raises NotFound: no such branch; Conflict: something
    is in the way, or the branch is not a memory; BrokenStore: programs would run, or the remote does not answer.
    """
    place = code.work_tree / name
    if branch == code.branch():
        raise Conflict(
            f"the branch {branch} is checked out already, for work on the project itself", _OTHER
        )
    tip = code.resolve(f"refs/heads/{branch}")
    _check_memory(code, branch, tip)
    if _checked_out(code, branch):
        return ""
    folder = "take another folder: filemem --store NAME init --own-branch"
    if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
        raise Conflict(
            f"{name}/ already exists and is not empty", f"{folder}; then copy the records there"
        )
    if files and (
        held := code.git.run(
            "rev-list", "-1", "--branches", "--tags", "--remotes", "--", name
        ).decode()
    ):
        told = f"{name}/ holds files in {held[:10]}: where that is checked out, Git would write over the memory"
        raise Conflict(told, folder)
    if programs := code.settings.own_programs:
        told = f"a checkout would run {programs[0]}, which only this repository's own configuration names"
        raise BrokenStore(
            told,
            f"if you trust it: {code.places.by_hand} worktree add {shlex.quote(name)} {branch}",
        )
    done = f"a work tree of the branch {branch}"
    if not dry_run:
        with code.saving():
            done += "" if tip else _branch(code, branch, files, at)
            _add_work_tree(code, place, branch)
    return done


_OTHER = "name another one: filemem init --own-branch NAME"


def _check_memory(code: Repo, branch: str, tip: str | None) -> None:
    if tip and _settings_at(code, tip).store != TOP:
        told = f"the branch {branch} is no memory: its {REPOSITORY_FILE} does not say {SETTINGS.strip()}"
        raise Conflict(told, _OTHER)


def _branch(code: Repo, branch: str, files: Mapping[str, bytes] | None, at: int) -> str:
    """Create the branch, from the remote or empty; return which, in words."""
    from filemem.repo import remote  # noqa: PLC0415 - every command imports this module

    where = remote.usual(code, branch)
    if where and (tip := remote.fetch(code, where, ())):
        _check_memory(code, branch, tip)
        code.git.run("update-ref", where.tracking, tip)
        code.git.run("update-ref", f"refs/heads/{branch}", tip, "")
        remote.follow(code, branch, where)
        return f", from {where.label}"
    if files is None:
        sides = f"here or on {where.name}" if where else "here"
        raise NotFound(
            f"there is no branch {branch} {sides}", "`filemem init --own-branch` creates one"
        )
    made = remote.commit_files(code, "", files, (), "memory: begin\n", at)
    code.git.run("update-ref", f"refs/heads/{branch}", made, "")
    return ", which begins empty"


def _checked_out(repo: Repo, branch: str) -> Path | None:
    """The work tree in which a branch is checked out, or None."""
    told = repo.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
    blocks = (
        dict(row.partition(" ")[::2] for row in block.splitlines()) for block in told.split("\n\n")
    )
    places = (
        Path(each["worktree"]) for each in blocks if each.get("branch") == f"refs/heads/{branch}"
    )
    return next((place for place in places if os.path.lexists(place / ".git")), None)


def _add_work_tree(repo: Repo, place: Path, branch: str) -> None:
    """Check a branch out into a new work tree, which `git status` of the project ignores."""
    file, line = (
        repo.common_dir / "info" / "exclude",
        os.fsencode(f"/{place.relative_to(repo.work_tree).as_posix()}/"),
    )
    held = file.read_bytes() if file.is_file() else b""
    if line not in held.splitlines():
        file.parent.mkdir(exist_ok=True)
        with file.open(
            "ab"
        ) as end:  # added to: a full disk must not cost the user what stands there
            end.write((b"" if not held or held.endswith(b"\n") else b"\n") + line + b"\n")
    repo.git.run("worktree", "prune")
    repo.git.run("worktree", "add", "--force", "--force", "--quiet", str(place), branch, limit=LONG)
    with closing(
        Repo.discover(place)
    ) as own:  # its index is ours, and split it is not written whole at every save
        own.git.run("update-index", "--split-index")


def numbered_files(folder: Path) -> list[str]:
    """The files of a folder with names like those of decision records, in numbered folders too."""
    if not folder.is_dir():
        return []
    paths = [*folder.iterdir(), *folder.glob("[0-9]*/*")]
    names = [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
    return [name for name in names if is_record(name) and adr_number(name) is not None]


def others(top: Path) -> tuple[str, ...]:
    """Return a hint that a project has records of another tool, and the command to use them."""
    for folder in ADRS:
        count = len(numbered_files(top / folder))
        if count:
            return (
                f"{folder}/ holds decision records ({count}): use them, or begin a second memory?",
                f"`filemem --store {folder} init` uses them; "
                "`filemem --store memory init` begins another",
            )
    return ()
