"""Where a project's records live: in a folder of its work tree, or in a work tree of their own.

Rule: a memory on its own branch is a linked work tree of that branch, and the whole branch is the
memory. A store in another repository inside the project is refused: that one has its own memory. If
the memory's work tree is missing, the error names the command that attaches it.
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
# The settings of such a branch itself, so that it is a memory wherever it is checked out.
SETTINGS = f'store = "{TOP}"\n'

ADR_FOLDERS = (  # where other tools keep decision records
    *(
        f"{top}/{name}"
        for top in ("docs", "doc")
        for name in ("adr", "adrs", "decisions", "architecture/decisions")
    ),
    *("docs/architecture/adr", "architecture/decisions", "adr", "adrs", "decisions"),
)


class Home(NamedTuple):
    """Where the records of a project live."""

    config: Config
    code: Repo  # the repository of the project
    repo: Repo  # that of the records: the same, unless they have their own work tree
    store: str  # the folder in `repo`
    name: str  # the same folder, from the top of `code`
    is_configured: bool  # a setting or option names it


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
    """The repository of the project of a folder.

    For a memory's own work tree, that is the repository around it.
    """
    repo = Repo.discover(folder)
    try:
        outer_repo = Repo.discover(repo.work_tree.parent)
    except (NotFound, BrokenStore):
        return repo
    if (
        repo.git_dir == repo.common_dir
        or repo.common_dir.resolve() != outer_repo.common_dir.resolve()
    ):
        return repo
    store = outer_repo.work_tree / settings.load(outer_repo.work_tree).store
    return outer_repo if store == repo.work_tree else repo


def open_home(code: Repo, store_name: str | None) -> Home:
    """The records of a repository; errors as for `find`."""
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
    from_top = os.path.relpath(folder, code.work_tree)
    return Home(config, code, Repo.discover(folder), TOP, from_top, is_configured)


def _refuse_nested_store(code: Repo, name: str) -> None:
    """Refuse a store in a folder that is another repository, or a submodule."""
    path = PurePosixPath(name)
    for inner_path in (path, *path.parents[:-1]) if name != TOP else ():
        folder = code.work_tree / inner_path
        if os.path.lexists(folder / ".git") or _is_submodule(code, inner_path):
            hint = f"work in that one, filemem -C {shlex.quote(str(folder))}, or set another store"
            message = f"the store {name} lies inside another repository, {inner_path}"
            raise BadInput(message, hint, field="store")


def _is_submodule(code: Repo, path: PurePosixPath) -> bool:
    """True if HEAD has a submodule there, and the work tree has no files of it."""
    folder = code.work_tree / path
    if folder.is_dir() and any(folder.iterdir()):
        return False
    item = code.find_item(str(path))
    return item is not None and item.mode == b"160000"


def find_branch(code: Repo, config: Config) -> str:
    """The branch that holds only records, from the settings of the work tree, or "".

    If they name none and the work tree has no records, the settings of the default branch count:
    else it would look as if nothing had ever been saved.
    """
    store_folder = code.work_tree / config.store
    if config.branch or (
        os.path.lexists(store_folder) and not os.path.lexists(store_folder / ".git")
    ):
        return config.branch
    default = code.find_default_branch()
    return _read_settings(code, default.tip).branch if default else ""


def _read_settings(repo: Repo, commit: str) -> Config:
    item = repo.find_item(REPOSITORY_FILE, commit)
    return settings.parse_repository_settings((repo.read_blob(item.oid) or b"") if item else b"")


def find_remote_branch(code: Repo, name: str) -> str:
    """A remote branch, as last seen, with records in a folder that HEAD lacks; or ""."""
    if code.find_item(name) is not None:
        return ""
    format_option = "--format=%(objectname) %(refname:lstrip=2)"
    rows = code.git.run("for-each-ref", format_option, "refs/remotes").decode().splitlines()
    branches = (row.partition(" ") for row in rows)
    return next((ref for tip, _, ref in branches if code.find_item(name, tip)), "")


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

    A new branch starts with `files`; None if the branch must exist. `dry_run`: only report what
    would be done. Returns what was done, in words; "" if it is already attached. Raises NotFound:
    no such branch; Conflict: something is in the way, or the branch is not a memory; BrokenStore:
    programs would run, or the remote does not answer.
    """
    if branch == code.read_branch():
        message = f"the branch {branch} is checked out already, for work on the project itself"
        raise Conflict(message, _OTHER_BRANCH_HINT)
    tip = code.resolve_revision(f"refs/heads/{branch}")
    _refuse_foreign_branch(code, branch, tip)
    if _find_checkout(code, branch):
        return ""
    _refuse_occupied_folder(code, name, is_new=bool(files))
    programs = code.settings.own_programs
    if programs:
        add = f"{code.folders.command_prefix} worktree add {shlex.quote(name)} {branch}"
        raise BrokenStore(
            f"a checkout would run {programs[0]}, "
            "which only this repository's own configuration names",
            f"if you trust it: {add}",
        )
    outcome = f"a work tree of the branch {branch}"
    if not dry_run:
        with code.save_lock():
            outcome += "" if tip else _create_branch(code, branch, files, time)
            _add_work_tree(code, code.work_tree / name, branch)
    return outcome


_OTHER_BRANCH_HINT = "name another one: filemem init --own-branch NAME"


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


_OTHER_BRANCH_HINT = "name another one: filemem init --own-branch NAME"


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
    """The work tree in which a branch is checked out, or None."""
    output = repo.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
    for block in output.split("\n\n"):
        rows = dict(row.partition(" ")[::2] for row in block.splitlines())
        if rows.get("branch") == f"refs/heads/{branch}":
            folder = Path(rows["worktree"])
            if os.path.lexists(folder / ".git"):
                return folder
    return None


def _add_work_tree(repo: Repo, folder: Path, branch: str) -> None:
    """Check a branch out into a new work tree, which `git status` of the project ignores."""
    exclude = repo.common_dir / "info" / "exclude"
    line = os.fsencode(f"/{folder.relative_to(repo.work_tree).as_posix()}/")
    old_data = exclude.read_bytes() if exclude.is_file() else b""
    if line not in old_data.splitlines():
        exclude.parent.mkdir(exist_ok=True)
        # Added to: a full disk must not cost the user what stands there.
        with exclude.open("ab") as file:
            file.write((b"" if not old_data or old_data.endswith(b"\n") else b"\n") + line + b"\n")
    repo.git.run("worktree", "prune")
    repo.git.run(
        "worktree", "add", "--force", "--force", "--quiet", str(folder), branch, limit=LONG_LIMIT
    )
    # Its index is ours, and split it is not written whole at every save.
    with closing(Repo.discover(folder)) as new_repo:
        new_repo.git.run("update-index", "--split-index")


def list_numbered_files(folder: Path) -> list[str]:
    """The files of a folder with names like those of decision records, in numbered folders too."""
    if not folder.is_dir():
        return []
    paths = [*folder.iterdir(), *folder.glob("[0-9]*/*")]
    names = [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
    return [name for name in names if is_record(name) and parse_adr_number(name) is not None]


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
