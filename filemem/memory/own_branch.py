"""Where a project's records live: in a folder of its work tree, or on their own branch.

A memory on its own branch is a linked work tree of that branch, and the whole branch is the memory.
A store in another repository inside the project is refused: that one has its own memory. If the
work tree of the memory is missing, the error names the command that attaches it.
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
from filemem.record import parse_adr_number
from filemem.repo import Branch as Branch
from filemem.repo import Repo
from filemem.repo.run import LONG_LIMIT

TOP = "."  # the store that is all of its work tree
# The settings of a branch of records, so that it is a memory wherever it is checked out.
SETTINGS = f'store = "{TOP}"\n'

_OTHER_BRANCH_HINT = "name another one: filemem init --own-branch NAME"
ADR_FOLDERS = (  # where other tools keep decision records
    *(
        f"{top}/{name}"
        for top in ("docs", "doc")
        for name in ("adr", "adrs", "decisions", "architecture/decisions")
    ),
    *("docs/architecture/adr", "architecture/decisions", "adr", "adrs", "decisions"),
)


class Home(NamedTuple):
    """The place of a project's records."""

    config: Config
    code: Repo  # the repository of the project
    repo: Repo  # the repository of the records; the same unless they have their own branch
    store: str  # the folder in `repo`
    name: str  # that folder, from the top of `code`
    is_configured: bool  # whether a setting or option names it


def find_home(folder: Path, store_name: str | None) -> Home:
    """Find the records of the project that a folder belongs to.

    Raises NotFound: no repository; BadInput: invalid settings; BrokenStore: the records' work tree
    is missing.
    """
    code = open_project(folder) if store_name is None else Repo.discover(folder)
    try:
        return open_home(code, store_name)
    except FilememError:
        code.close()
        raise


def open_project(folder: Path) -> Repo:
    """Open the repository of the project of a folder.

    For a memory's own work tree, that is the repository around it.
    """
    repo = Repo.discover(folder)
    try:
        outer_repo = Repo.discover(repo.work_tree.parent)
    except (NotFound, BrokenStore):
        return repo
    is_linked = repo.git_dir != repo.common_dir
    if not is_linked or repo.common_dir.resolve() != outer_repo.common_dir.resolve():
        return repo
    config = settings.load(outer_repo.work_tree)
    store = outer_repo.work_tree / config.store
    return outer_repo if store == repo.work_tree else repo


def open_home(code: Repo, store_name: str | None) -> Home:
    """Open the records of a repository; errors as for `find_home`."""
    config = settings.load(code.work_tree)
    name = settings.validate_store_path(store_name) if store_name else config.store
    is_configured = bool(store_name) or config.store != Config().store
    branch = "" if store_name else find_branch(code, config)
    if not branch:
        _refuse_nested_store(code, name)
        return Home(config, code, code, name, name, is_configured)
    folder = _find_checkout(code, branch)
    if folder is None and os.path.lexists(code.work_tree / name / ".git"):
        folder = code.work_tree / name
    if folder is None:
        raise BrokenStore(
            f"this project's memory is on the branch {branch}, "
            f"and its work tree {name}/ is not attached here",
            "`filemem init` attaches it",
        )
    return Home(
        config=config,
        code=code,
        repo=Repo.discover(folder),
        store=TOP,
        name=os.path.relpath(folder, code.work_tree),
        is_configured=is_configured,
    )


def _refuse_nested_store(code: Repo, name: str) -> None:
    """Refuse a store in a folder that is another repository, or a submodule."""
    if name == TOP:
        return
    path = PurePosixPath(name)
    outer_paths = path.parents[:-1]
    for inner_path in (path, *outer_paths):
        folder = code.work_tree / inner_path
        if os.path.lexists(folder / ".git") or _is_submodule(code, inner_path):
            hint = f"work in that one, filemem -C {shlex.quote(str(folder))}, or set another store"
            message = f"the store {name} lies inside another repository, {inner_path}"
            raise BadInput(message, hint, field="store")


def _is_submodule(code: Repo, path: PurePosixPath) -> bool:
    """Return whether HEAD has a submodule there, without files in the work tree."""
    folder = code.work_tree / path
    if folder.is_dir() and any(folder.iterdir()):
        return False
    item = code.find_item(str(path))
    return item is not None and item.mode == b"160000"


def find_branch(code: Repo, config: Config) -> str:
    """Find the branch that holds only records, from the settings of the work tree, or "".

    If they name none and the work tree has no records, the settings of the default branch count:
    otherwise the memory would look empty.
    """
    if config.branch:
        return config.branch
    store_folder = code.work_tree / config.store
    is_repository = os.path.lexists(store_folder / ".git")
    if os.path.lexists(store_folder) and not is_repository:
        return ""
    default = code.find_default_branch()
    return _read_settings(code, default.tip).branch if default else ""


def _read_settings(repo: Repo, commit: str) -> Config:
    item = repo.find_item(REPOSITORY_FILE, commit)
    data = repo.read_blob(item.oid) if item else None
    return settings.parse_repository_settings(data or b"")


def find_remote_branch(code: Repo, name: str) -> str:
    """Find a remote branch, as last fetched, with a folder that HEAD lacks; "" without one."""
    if code.find_item(name) is not None:
        return ""
    format_option = "--format=%(objectname) %(refname:lstrip=2)"
    output = code.git.run("for-each-ref", format_option, "refs/remotes")
    for row in output.decode().splitlines():
        tip, _, branch = row.partition(" ")
        if code.find_item(name, tip):
            return branch
    return ""


# attaching it


def attach_work_tree(
    code: Repo,
    name: str,
    branch: str,
    files: Mapping[str, bytes] | None,
    time: int,
    *,
    dry_run: bool = False,
) -> str:
    """Attach a work tree for the records, from their branch here or on the remote.

    Args:
        code: the repository of the project.
        name: the folder of the work tree.
        branch: the branch of the records.
        files: the files of a new branch; None if the branch must exist.
        time: when the branch begins, in epoch milliseconds.
        dry_run: whether to only report what would be done.

    Returns:
        What was done, in words; "" if it is already attached.

    Raises:
        NotFound: there is no such branch.
        Conflict: the folder is in use, or the branch is not a memory.
        BrokenStore: programs would run, or the remote does not answer.
    """
    if branch == code.read_branch():
        message = f"the branch {branch} is checked out already, for work on the project itself"
        raise Conflict(message, _OTHER_BRANCH_HINT)
    tip = code.resolve_revision(f"refs/heads/{branch}")
    _refuse_foreign_branch(code, branch, tip)
    if _find_checkout(code, branch):
        return ""
    _refuse_occupied_folder(code, name, is_new=bool(files))
    _refuse_programs(code, name, branch)
    outcome = f"a work tree of the branch {branch}"
    if dry_run:
        return outcome
    with code.save_lock():
        if not tip:
            outcome += _create_branch(code, branch, files, time)
        _add_work_tree(code, code.work_tree / name, branch)
    return outcome


def _refuse_programs(code: Repo, name: str, branch: str) -> None:
    """Refuse a checkout that would run programs of this repository's configuration."""
    programs = code.settings.own_programs
    if programs:
        add = f"{code.folders.command_prefix} worktree add {shlex.quote(name)} {branch}"
        raise BrokenStore(
            f"a checkout would run {programs[0]}, "
            "which only this repository's own configuration names",
            f"if you trust it: {add}",
        )


def _refuse_occupied_folder(code: Repo, name: str, *, is_new: bool) -> None:
    """Refuse a folder that has files, or has them in a commit if the memory begins in it."""
    hint = "take another folder: filemem --store NAME init --own-branch"
    folder = code.work_tree / name
    is_occupied = any(folder.iterdir()) if folder.is_dir() else folder.exists()
    if is_occupied or folder.is_symlink():
        message = f"{name}/ already exists and is not empty"
        raise Conflict(message, f"{hint}; then copy the records there")
    refs = ("--branches", "--tags", "--remotes")
    commit = code.git.run("rev-list", "-1", *refs, "--", name).decode() if is_new else ""
    if commit:
        raise Conflict(
            f"{name}/ holds files in {commit[:10]}: "
            "where that is checked out, Git would write over the memory",
            hint,
        )


def _refuse_foreign_branch(code: Repo, branch: str, tip: str | None) -> None:
    if tip and _read_settings(code, tip).store != TOP:
        missing_setting = f"its {REPOSITORY_FILE} does not say {SETTINGS.strip()}"
        raise Conflict(f"the branch {branch} is no memory: {missing_setting}", _OTHER_BRANCH_HINT)


def _create_branch(code: Repo, branch: str, files: Mapping[str, bytes] | None, time: int) -> str:
    """Create the branch, from the remote or empty; return which, in words."""
    from filemem.repo import remote  # noqa: PLC0415 - every command imports this module

    upstream = remote.find_default_remote(code, branch)
    tip = remote.fetch_branch(code, upstream, ()) if upstream else None
    ref = f"refs/heads/{branch}"
    if upstream and tip:
        _refuse_foreign_branch(code, branch, tip)
        code.git.run("update-ref", upstream.tracking_ref, tip)
        code.git.run("update-ref", ref, tip, "")
        remote.set_upstream(code, branch, upstream)
        return f", from {upstream.label}"
    if files is None:
        sides = f"here or on {upstream.name}" if upstream else "here"
        message = f"there is no branch {branch} {sides}"
        raise NotFound(message, "`filemem init --own-branch` creates one")
    commit = remote.commit_files(code, "", files, (), "memory: begin\n", time)
    code.git.run("update-ref", ref, commit, "")
    return ", which begins empty"


def _find_checkout(repo: Repo, branch: str) -> Path | None:
    """Find the work tree in which a branch is checked out; None without one."""
    output = repo.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
    for block in output.split("\n\n"):
        rows: dict[str, str] = {}
        for row in block.splitlines():
            key, _, value = row.partition(" ")
            rows[key] = value
        if rows.get("branch") == f"refs/heads/{branch}":
            folder = Path(rows["worktree"])
            if os.path.lexists(folder / ".git"):
                return folder
    return None


def _add_work_tree(repo: Repo, folder: Path, branch: str) -> None:
    """Check a branch out into a new work tree, which `git status` of the project ignores."""
    _exclude_folder(repo, folder)
    repo.git.run("worktree", "prune")
    arguments = ("--force", "--force", "--quiet", str(folder), branch)
    repo.git.run("worktree", "add", *arguments, limit=LONG_LIMIT)
    # Only filemem uses its index; a split index is not rewritten whole at every save.
    with closing(Repo.discover(folder)) as new_repo:
        new_repo.git.run("update-index", "--split-index")


def _exclude_folder(repo: Repo, folder: Path) -> None:
    """Add a folder to the files that Git ignores in this clone."""
    exclude = repo.common_dir / "info" / "exclude"
    line = os.fsencode(f"/{folder.relative_to(repo.work_tree).as_posix()}/")
    old_data = exclude.read_bytes() if exclude.is_file() else b""
    if line in old_data.splitlines():
        return
    exclude.parent.mkdir(exist_ok=True)
    separator = b""
    if old_data and not old_data.endswith(b"\n"):
        separator = b"\n"
    # Appended: a full disk must not cost the user the other lines.
    with exclude.open("ab") as file:
        file.write(separator + line + b"\n")


def list_numbered_files(folder: Path) -> list[str]:
    """List the files of a folder, and of numbered folders in it, named like decision records."""
    if not folder.is_dir():
        return []
    paths = [*folder.iterdir(), *folder.glob("[0-9]*/*")]
    names = [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
    return [name for name in names if _is_numbered(name)]


def _is_numbered(name: str) -> bool:
    return is_record(name) and parse_adr_number(name) is not None


def find_other_records(top: Path) -> tuple[str, ...]:
    """Return a hint that a project has records of another tool, and the command to use them."""
    for folder in ADR_FOLDERS:
        count = len(list_numbered_files(top / folder))
        if count:
            return (
                f"{folder}/ holds decision records ({count}): use them, or begin a second memory?",
                f"`filemem --store {folder} init` uses them; "
                "`filemem --store memory init` begins another",
            )
    return ()
