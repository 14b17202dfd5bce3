"""Set up a project for `filemem init`, and undo that: plan the files, then write them.

A file is replaced as a whole or not at all. In a file of another program only our own part changes,
and undoing removes only that part.
"""

from __future__ import annotations

import difflib
import os
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
from filemem.agents import clients, splice
from filemem.dialects.tool import format_count
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.files import Files, describe_unread_files
from filemem.memory import own_branch
from filemem.memory.own_branch import find_other_records, list_numbered_files
from filemem.record.identity import PRIVATE_FOLDER, is_markup
from filemem.repo import Repo
from filemem.repo.run import GitFolders, init_repository

BEGIN = "<!-- filemem:begin -->"
END = "<!-- filemem:end -->"
IMPORT = "@AGENTS.md <!-- filemem -->"
PLUGIN = Path(__file__).with_name("opencode.js")

README = """\
# Memory

What this project decided, and why: one Markdown file per decision, checkpoint or observation.
They are written by people, and by coding agents through filemem.
Read them in any editor, change them like any other file, review them in pull requests.
No tool is needed to read them, and nothing else holds the truth.

- `decisions/<year>/<month>/`: decisions, each file named after its topic; a newer one names the \
older in `supersedes`.
  Write `topic: ...` in the header of one that you add by hand: that is what joins it to the \
others, not its name.
- `checkpoints/<year>/<month>/`: where the work stood at the end of a session
- `observations/<year>/<month>/<day>/`: things learned on the way

How a topic was decided shows in any clone, without a tool: `git log --grep 'decision(TOPIC)'` \
lists the decisions on
it with what came of them, `git log -p -- '{folder}decisions/*/TOPIC--*'` every change to their \
files.
`filemem search "a question"` finds what holds today.
"""

BLOCK = f"""\
{BEGIN}
## Project memory

Decisions and their reasons live in `{{store}}/`, served by the `filemem` MCP server.
- Before you choose an approach, `search` for what was decided; follow what holds today, or \
supersede it openly.
- When you decide something that others must know, `save` it: topic, decision, reasoning, what \
you rejected.
- When you learn what came of a decision, `update` its outcome with the reason.
- At the end of a session `save` a checkpoint (summary, next_steps); at the start \
`load_checkpoint`.
- Never save secrets.{{sync}}
{END}
"""


class Step(NamedTuple):
    """A file of the plan: its new content, None if it is not written, and a note."""

    path: str
    action: str  # create, change, keep, remove
    content: str | None = None
    note: str = ""


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
        steps = _plan_settings(top, name, branch)
        if "--profile" not in wiring.command_words:  # the block names our own tools
            steps += _plan_agent_files(top, name, branch)
        if branch:  # after all steps that can raise
            store_steps = [
                _attach_branch(code, name, branch, is_new_branch=is_new_branch, dry_run=dry_run)
            ]
        else:
            store_steps = _plan_store(top, name)
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
        _apply_steps(code, _plan_store(folder, config.load(folder).store))
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
            steps += _iter_block_removals(top)
            steps += _plan_store_removal(top, name, branch)
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
        old = _read_text(top, path)
        if old is None:
            continue
        new, note = clients.remove_parts(path, old, plugin, wiring.command_words)
        if new != old or note:
            yield _build_step(path, old, new, note)


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
    if step.content is None and step.action != "remove":
        return []
    old = _read_text(folder, step.path)
    old_label = "/dev/null" if old is None else f"a/{step.path}"
    new_label = "/dev/null" if step.content is None else f"b/{step.path}"
    old_lines = (old or "").splitlines()
    new_lines = (step.content or "").splitlines()
    return list(difflib.unified_diff(old_lines, new_lines, old_label, new_label, lineterm=""))


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
        old = _read_text(work_tree, path)
        new, note = clients.add_parts(path, old, parts)
        steps.append(_build_step(path, old, new, note))
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


def _build_step(path: str, old: str | None, new: str | None, note: str = "") -> Step:
    if new == old:
        return Step(path, "keep", None, note or "is up to date")
    if new is None:
        return Step(path, "remove", None, note)
    return Step(path, "create" if old is None else "change", new, note)


def _plan_store(work_tree: Path, store: str) -> list[Step]:
    """Return the files for the folder of records; records of other tools are not changed."""
    steps = []
    unread_reason = describe_unread_files(work_tree / store)
    if unread_reason:
        steps.append(Step(f"{store}/", "keep", None, f"not read: {unread_reason}"))
    steps += _plan_store_files(work_tree, store)
    return steps


def _plan_store_files(work_tree: Path, store: str) -> list[Step]:
    records = list_numbered_files(work_tree / store)
    if records:
        return [Step(f"{store}/", "keep", None, _describe_records(records))]
    folder = "" if store == own_branch.TOP else f"{store}/"
    note = "private records are never committed"
    readme = Step(f"{folder}README.md", "create", README.format(folder=folder))
    gitignore = Step(f"{folder}{PRIVATE_FOLDER}/.gitignore", "create", "*\n", note)
    steps = []
    for step in (readme, gitignore):
        if _read_text(work_tree, step.path) is None:
            steps.append(step)
        else:
            steps.append(Step(step.path, "keep", None, "already exists"))
    return steps


def _describe_records(records: Sequence[str]) -> str:
    note = f"{format_count(len(records), 'decision record')}, read where they are"
    suffixes = {path.rpartition(".")[2] for path in records if is_markup(path)}
    if suffixes:
        forms = [f".{suffix}" for suffix in sorted(suffixes)]
        note += f"; those in {', '.join(forms)} are never changed"
    return note


def _plan_store_removal(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Remove a folder without records and the setting that names it; report any other files."""
    own_files = {step.path: step.content for step in _plan_store(work_tree / "nowhere", store)}
    paths = _list_files(work_tree, store)
    other_count = 0
    for path in paths:
        if path not in own_files or _read_text(work_tree, path) != own_files[path]:
            other_count += 1
    if branch or store == own_branch.TOP or other_count:
        return [Step(f"{store}/", "keep", None, _format_kept_note(store, branch, other_count))]
    steps = [Step(path, "remove") for path in paths]
    return steps + _plan_setting_removal(work_tree, store)


def _format_kept_note(store: str, branch: str, count: int) -> str:
    if branch:
        note = f"holds the branch {branch}"
    else:
        note = f"holds {format_count(count, 'file')} that init did not write"
    if branch or store != config.Config().store:
        note += f"; {config.REPOSITORY_FILE} names it"
    return note


def _list_files(work_tree: Path, store: str) -> list[str]:
    files = [path for path in (work_tree / store).rglob("*") if not path.is_dir()]
    return [path.relative_to(work_tree).as_posix() for path in files]


def _plan_setting_removal(work_tree: Path, store: str) -> list[Step]:
    """Remove the line of the settings that names the store, if init wrote it."""
    old = _read_text(work_tree, config.REPOSITORY_FILE) or ""
    line = f'store = "{store}"{splice.find_line_end(old)}'
    if not old.startswith(line):
        return []
    new = old.removeprefix(line)
    return [_build_step(config.REPOSITORY_FILE, old, new or None)]


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
            target = _resolve_target(code.work_tree, step.path)
            staged_file = files.stage(target, step.content.encode())
            with suppress(FileNotFoundError):  # an existing file keeps its permissions
                mode = (code.work_tree / target).stat().st_mode
                Path(staged_file.source).chmod(mode & 0o777)
            staged_file.finish()


def _remove_file(work_tree: Path, path: str) -> None:
    """Remove a file and the folders that are empty then."""
    target = _resolve_target(work_tree, path)
    (work_tree / target).unlink()
    with suppress(OSError):  # a folder that is not empty stays
        for folder in Path(target).parents[:-1]:
            (work_tree / folder).rmdir()


def _plan_settings(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Name a store in another folder or on its own branch, for the server and for other clones."""
    path = config.REPOSITORY_FILE
    current_config = config.load(work_tree)
    settings: dict[str, str] = {}
    if store not in (current_config.store, config.read_repository_store(work_tree)):
        settings["store"] = store
    if branch != current_config.branch:
        settings["branch"] = branch
    if not settings:
        return []
    old = _read_text(work_tree, path) or ""
    end = splice.find_line_end(old)
    lines = [f'{name} = "{value}"{end}' for name, value in settings.items()]
    note = "names the " + " and the ".join(settings)
    return [Step(path, "change" if old else "create", "".join(lines) + old, note)]


def _plan_agent_files(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Add the block for agents to AGENTS.md, and import it in an existing CLAUDE.md.

    Claude Code reads only that file.
    """
    block = _plan_block(work_tree, store, branch)
    path = "CLAUDE.md"
    old = _read_text(work_tree, path)
    if old is None or "@AGENTS.md" in old or BEGIN in old:
        return [block]
    if _resolve_target(work_tree, path) == _resolve_target(work_tree, block.path):
        return [block]  # one file, linked
    note = "Claude Code reads AGENTS.md by this line"
    return [block, Step(path, "change", splice.add_block(old, IMPORT), note)]


def _plan_block(work_tree: Path, store: str, branch: str) -> Step:
    path = "AGENTS.md"
    sync_note = ""
    if branch:
        sync_note = "\n- The memory has a branch of its own: `filemem sync` shares what was saved."
    text = BLOCK.format(store=store, sync=sync_note)
    old = _read_text(work_tree, path)
    if old is None:
        return Step(path, "create", text)
    block = text.rstrip()
    start = old.find(BEGIN)
    end = old.find(END)
    if start < 0 and end < 0:
        new = splice.add_block(old, block)
        return Step(path, "change", new, "a block is added at the end")
    if start < 0 or end <= start:
        message = f"{path}: the block between {BEGIN} and {END} is broken"
        raise BadInput(message, "restore or remove both lines")
    block = block.replace("\n", splice.find_line_end(old))
    after_block = old[end + len(END) :]
    return _build_step(path, old, old[:start] + block + after_block)


def _iter_block_removals(work_tree: Path) -> Iterator[Step]:
    """Remove the parts that `_plan_agent_files` adds; CLAUDE.md and AGENTS.md may be one file."""
    targets = {_resolve_target(work_tree, path): path for path in ("CLAUDE.md", "AGENTS.md")}
    for path in targets.values():
        old = _read_text(work_tree, path) or ""
        start = old.find(BEGIN)
        end = old.find(END)
        block = IMPORT
        if 0 <= start < end:
            block = old[start : end + len(END)]
        new = splice.remove_block(old, block)
        if new == old:
            continue
        is_rest_empty = start == 0 and not old[end + len(END) :].strip()
        yield _build_step(path, old, None if is_rest_empty else new)


def _read_text(work_tree: Path, path: str) -> str | None:
    """Return the text of a file of the work tree; None if it is missing."""
    target = work_tree / _resolve_target(work_tree, path)
    try:
        return target.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None


def _resolve_target(work_tree: Path, path: str) -> str:
    """Return the path of a file or, for a link, of the file that it leads to.

    Raises BadInput if that is not a file of the work tree.
    """
    top = os.path.realpath(work_tree)
    real = Path(os.path.realpath(work_tree / path))
    is_inside = real.is_relative_to(top) and ".git" not in real.relative_to(top).parts
    if not is_inside or real.is_symlink():
        raise BadInput(
            f"{path} is a symbolic link to no file of the project", "replace or remove it"
        )
    if real.exists() and not real.is_file():  # reading a FIFO would block
        raise BadInput(f"{path} is not a regular file", "move it away, then run filemem init again")
    return real.relative_to(top).as_posix()
