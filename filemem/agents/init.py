"""Set up a project for `filemem init`, and undo that: plan the files, then write them.

A file is replaced as a whole or not at all. In a file of another program only our own part changes,
and undoing removes only that part. `agents/plan` plans the files of the project, `agents/clients`
those of coding agents.
"""

from __future__ import annotations

import difflib
import posixpath
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from filemem import config
from filemem.agents import clients
from filemem.agents.plan import (
    README,
    Step,
    build_step,
    iter_block_removals,
    plan_agent_files,
    plan_settings,
    plan_store,
    plan_store_removal,
    read_text,
    resolve_target,
)
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.files import Files
from filemem.memory import own_branch
from filemem.memory.own_branch import find_other_records
from filemem.repo import Repo
from filemem.repo.run import GitFolders, init_repository

PLUGIN = Path(__file__).with_name("opencode.js")


_REPOSITORY = Step(".git", "create", None, "a Git repository: memories are commits")


def set_up_project(
    folder: Path, store: str | None, wiring: clients.Wiring, *, dry_run: bool, branch: str = ""
) -> dict[str, Any]:
    """Set up a project, with a repository if needed; with `dry_run` only plan it."""
    try:
        code = own_branch.open_project(folder)
    except NotFound:
        top = folder.resolve()
        return _set_up_new_repository(top, store, wiring, dry_run=dry_run, branch=branch)
    return _set_up_repository(code, store, wiring, dry_run=dry_run, branch=branch)


def _set_up_new_repository(
    top: Path, store: str | None, wiring: clients.Wiring, *, dry_run: bool, branch: str
) -> dict[str, Any]:
    """Set up a folder that is not in a repository.

    It is planned with a Git directory elsewhere first, so that an error leaves no repository.
    """
    with TemporaryDirectory() as folder:
        git_dir = Path(folder) / ".git"
        init_repository(top, git_dir)
        code = Repo.discover(top, folders=GitFolders(top, git_dir, git_dir))
        answer = _set_up_repository(code, store, wiring, dry_run=True, branch=branch)
    if not dry_run:
        init_repository(top)
        code = own_branch.open_project(top)
        answer = _set_up_repository(code, store, wiring, dry_run=False, branch=branch)
    answer["steps"].insert(0, _REPOSITORY._asdict())
    return answer


def _set_up_repository(
    code: Repo, store: str | None, wiring: clients.Wiring, *, dry_run: bool, branch: str
) -> dict[str, Any]:
    with closing(code):
        top = code.work_tree
        settings = config.load(top)
        name = settings.store
        if store:
            name = config.validate_store_path(store)
            _refuse_other_value("store", name, config.read_repository_store(top))
        _refuse_other_value("branch", branch, settings.branch)
        is_new_branch = bool(branch)
        if not branch:
            branch = own_branch.find_branch(code, settings)
        if not branch:
            own_branch.open_home(code, name)  # refuses a folder that cannot be a store
            _refuse_second_memory(top, store, code)
        client_plan = _plan_clients(top, wiring)
        steps = plan_settings(top, name, branch)
        if "--profile" not in wiring.command_words:  # the block names our own tools
            steps += plan_agent_files(top, name, branch)
        if branch:  # after all steps that can raise
            store_steps = [
                _attach_branch(code, name, branch, is_new_branch=is_new_branch, dry_run=dry_run)
            ]
        else:
            store_steps = plan_store(top, name)
        steps = store_steps + steps + client_plan.steps
        if not dry_run:
            _apply_steps(code, steps)
        answer = _build_answer(top, branch, steps, dry_run=dry_run)
        answer["clients"] = client_plan.notes
        if client_plan.warning:
            answer["warning"] = client_plan.warning
        try:
            code.require_identity()
        except BadInput as error:  # saves could not be committed
            answer["hint"] = f"{error.message}: {error.hint}"
        return answer


def _refuse_other_value(key: str, value: str, stated_value: str) -> None:
    """Raise BadInput if the repository has another value for a setting."""
    if value and stated_value and value != stated_value:
        raise BadInput(
            f"{config.REPOSITORY_FILE} names the {key} {stated_value}",
            "change it there first",
            field=key,
        )


def _refuse_second_memory(top: Path, store: str | None, code: Repo) -> None:
    """Refuse a second memory beside existing records, unless its folder is named.

    Raises BadInput, Conflict.
    """
    default_store = config.Config().store
    if store or config.load(top).store != default_store:
        return
    if (top / default_store).exists():
        return
    branch = own_branch.find_remote_branch(code, default_store)
    if branch:
        command = f"merge {branch}"
        if not code.read_head():
            command = f"switch {branch.partition('/')[2]}"
        raise Conflict(
            f"this project has a memory already: {branch} holds {default_store}/,"
            " and what is checked out does not",
            f"`git {command}` brings it; `filemem --store {default_store} init` starts a new one",
        )
    records = find_other_records(top)
    if records:
        raise BadInput(*records)


def create_repository(folder: Path) -> bool:
    """Create a repository with an empty memory, unless it exists. Raises BrokenStore."""
    if (folder / ".git").exists():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{folder} cannot be made: {error.strerror}"
        raise BrokenStore(message, "check space and permissions there") from None
    init_repository(folder)
    with closing(Repo.discover(folder)) as code:
        _apply_steps(code, plan_store(folder, config.load(folder).store))
    return True


def undo_set_up(
    folder: Path, store: str | None, wiring: clients.Wiring, *, dry_run: bool
) -> dict[str, Any]:
    """Remove what `set_up_project` wrote, for one client or for all.

    Records and the changes of others stay.
    """
    with closing(own_branch.open_project(folder)) as code:
        top = code.work_tree
        is_for_all = wiring.client == "auto"
        names = clients.resolve_clients("all" if is_for_all else wiring.client, top)
        steps = list(_iter_client_removals(top, names, wiring))
        if is_for_all:
            settings = config.load(top)
            name = config.validate_store_path(store) if store else settings.store
            branch = own_branch.find_branch(code, settings)
            steps += iter_block_removals(top)
            steps += plan_store_removal(top, name, branch)
        if not dry_run:
            _apply_steps(code, steps)
    answer = _build_answer(top, "", steps, dry_run=dry_run)
    answer["undo"] = True
    answer["clients"] = []
    return answer


def _iter_client_removals(
    top: Path, names: Sequence[str], wiring: clients.Wiring
) -> Iterator[Step]:
    """Remove our entries from the files of these clients; report those that are left."""
    plugin = PLUGIN.read_text()
    for path in clients.list_files(names):
        old = read_text(top, path)
        if old is None:
            continue
        new, note = clients.remove_parts(path, old, plugin, wiring.command_words)
        if new != old or note:
            yield build_step(path, old, new, note)


def _build_answer(
    folder: Path, branch: str, steps: Iterable[Step], *, dry_run: bool
) -> dict[str, Any]:
    rows = []
    for step in steps:
        row: dict[str, Any] = step._asdict()
        if dry_run:
            row["diff"] = _build_diff(folder, step)
        rows.append(row)
    return {
        "success": True,
        "dry_run": dry_run,
        "folder": str(folder),
        "branch": branch,
        "steps": rows,
    }


def _build_diff(folder: Path, step: Step) -> list[str]:
    """Return the change of a file as a unified diff."""
    new = step.content
    if new is None and step.action != "remove":
        return []
    old = read_text(folder, step.path)
    old_label = "/dev/null" if old is None else f"a/{step.path}"
    new_label = "/dev/null" if new is None else f"b/{step.path}"
    old_lines = (old or "").splitlines()
    new_lines = (new or "").splitlines()
    lines = difflib.unified_diff(old_lines, new_lines, old_label, new_label, lineterm="")
    return list(lines)


class _ClientPlan(NamedTuple):
    """The files of the clients, and the notes and the warning for the answer."""

    steps: list[Step]
    notes: list[str]
    warning: str


def _plan_clients(work_tree: Path, wiring: clients.Wiring) -> _ClientPlan:
    names = clients.resolve_clients(wiring.client, work_tree)
    plan = clients.build_plan(names, work_tree, wiring, PLUGIN.read_text())
    steps: list[Step] = []
    for path, parts in plan.files.items():
        old = read_text(work_tree, path)
        new, note = clients.add_parts(path, old, parts)
        steps.append(build_step(path, old, new, note))
    if wiring.client == "auto":
        other_names = [name for name in clients.CLIENTS if name not in names]
        installed_names = [name for name in other_names if shutil.which(name)]
        if installed_names:
            command = f"filemem init --client {','.join(installed_names)}"
            plan.notes.append(f"installed, but not connected: `{command}` connects them")
    return _ClientPlan(steps, plan.notes, _find_warning(wiring.command_words[0]))


def _find_warning(program: str) -> str:
    """Return why agents, which use no virtual environment, cannot find the program, or ""."""
    path = shutil.which(program)
    place_note = ""
    if path:
        in_environment = sys.prefix != sys.base_prefix and Path(path).is_relative_to(sys.prefix)
        if not in_environment:
            return ""
        place_note = f" outside {sys.prefix}"
    alternative_note = ""
    if program == "filemem":
        alternative_note = ", or `filemem init --command 'uvx filemem'`"
    return (
        f"no command {program} on the PATH{place_note}, so agents cannot start it:"
        f" use `pipx install` or `uv tool install`{alternative_note}"
    )


def _attach_branch(
    code: Repo, name: str, branch: str, *, is_new_branch: bool, dry_run: bool
) -> Step:
    """Attach the branch of the records, or plan it; a new one is created if it is missing."""
    files = None
    if is_new_branch:
        files = {
            "README.md": README.format(folder="").encode(),
            config.REPOSITORY_FILE: own_branch.SETTINGS.encode(),
        }
    now = time.time_ns() // 10**6
    note = own_branch.attach_work_tree(code, name, branch, files, now, dry_run=dry_run)
    if note:
        return Step(f"{name}/", "create", None, note)
    return Step(f"{name}/", "keep", None, f"the branch {branch} is attached")


def _apply_steps(code: Repo, steps: Iterable[Step]) -> None:
    files = Files(code.work_tree, own_branch.TOP, code.spool)
    for step in steps:
        if step.action == "remove":
            _remove_file(code.work_tree, step.path)
        elif step.content is None:
            continue
        elif step.path.endswith("/.gitignore"):  # no other file of Git's is ever written
            files.hide_folder(posixpath.dirname(step.path))
        else:
            target = resolve_target(code.work_tree, step.path)
            staged_file = files.stage(target, step.content.encode())
            with suppress(FileNotFoundError):  # an existing file keeps its permissions
                mode = (code.work_tree / target).stat().st_mode
                Path(staged_file.source).chmod(mode & 0o777)
            staged_file.finish()


def _remove_file(work_tree: Path, path: str) -> None:
    """Remove a file and the folders that are empty then."""
    target = resolve_target(work_tree, path)
    (work_tree / target).unlink()
    with suppress(OSError):  # a folder that is not empty stays
        for folder in Path(target).parents[:-1]:
            (work_tree / folder).rmdir()
