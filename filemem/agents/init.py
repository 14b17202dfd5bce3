"""What `filemem init` writes: first a plan of whole files, which can be shown, then the files.

Rule: a file is replaced as a whole or not at all. In a file that others write too, only our own
part changes, and `undo` removes just that.
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
from filemem.dialects.tool import counted
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.files import Files, not_read
from filemem.memory import own_branch
from filemem.memory.own_branch import numbered_files, others
from filemem.record.identity import PRIVATE, is_markup
from filemem.repo import Repo
from filemem.repo.run import Places, create

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
    """One file of the plan: its new content, or None if it stays as it is, and why."""

    path: str
    action: str  # create, change, keep, remove
    content: str | None = None
    note: str = ""


_REPOSITORY = Step(".git", "create", None, "a Git repository: memories are commits")


def run(
    folder: Path, store: str | None, wiring: clients.Wiring, *, dry_run: bool, branch: str = ""
) -> dict[str, Any]:
    """Set up a project, with a repository if needed; with `dry_run` only plan it."""
    try:
        code = own_branch.project(folder)
    except NotFound:
        return _begin(folder.resolve(), store, wiring, dry_run=dry_run, branch=branch)
    return _set_up(code, store, wiring, dry_run=dry_run, branch=branch)


def _begin(
    top: Path, store: str | None, wiring: clients.Wiring, *, dry_run: bool, branch: str
) -> dict[str, Any]:
    """Set up a folder that is in no repository yet.

    It is planned with a Git directory elsewhere first: what is refused leaves no repository behind.
    """
    with TemporaryDirectory() as folder:
        git_dir = Path(folder) / ".git"
        create(top, git_dir)
        code = Repo.discover(top, places=Places(top, git_dir, git_dir))
        answer = _set_up(code, store, wiring, dry_run=True, branch=branch)
    if not dry_run:
        create(top)
        answer = _set_up(own_branch.project(top), store, wiring, dry_run=False, branch=branch)
    return {**answer, "steps": [_REPOSITORY._asdict(), *answer["steps"]]}


def _set_up(
    code: Repo, store: str | None, wiring: clients.Wiring, *, dry_run: bool, branch: str
) -> dict[str, Any]:
    with closing(code):
        top = code.work_tree
        settings = config.load(top)
        name = config.store_path(store) if store else settings.store
        _refuse_other("store", name if store else "", config.own_store(top))
        _refuse_other("branch", branch, settings.branch)
        begins = bool(branch)
        branch = branch or own_branch.branch_of(code, settings)
        if not branch:
            own_branch.home(code, name)  # what cannot be a store is refused
            _refuse_second(top, store, code)
        wired, details = _wire(top, wiring)
        steps = _settings(top, name, branch)
        if "--profile" not in wiring.words:  # the block names our own tools
            steps += _agents(top, name, branch)
        if branch:  # all that can be refused has been by now
            first = [_attached(code, name, branch, begins=begins, dry_run=dry_run)]
        else:
            first = _store(top, name)
        steps = [*first, *steps, *wired]
        if not dry_run:
            _carry_out(code, steps)
        answer = _answer(top, branch, steps, dry_run=dry_run) | details
        try:
            code.identity()
        except BadInput as error:  # nothing that is saved could be committed
            answer["hint"] = f"{error.message}: {error.hint}"
        return answer


def _refuse_other(key: str, wanted: str, stated: str) -> None:
    """Raise BadInput for a setting that the repository states otherwise."""
    if wanted and stated and wanted != stated:
        raise BadInput(
            f"{config.REPOSITORY_FILE} names the {key} {stated}",
            "change it there first",
            field=key,
        )


def _refuse_second(top: Path, store: str | None, code: Repo) -> None:
    """Refuse a second memory beside existing records, unless its folder is named.

    Raises BadInput, Conflict.
    """
    usual = config.Config().store
    if store or config.load(top).store != usual or (top / usual).exists():
        return
    branch = own_branch.elsewhere(code, usual)
    if branch:
        command = f"merge {branch}" if code.head() else f"switch {branch.partition('/')[2]}"
        raise Conflict(
            f"this project has a memory already: {branch} holds {usual}/,"
            " and what is checked out does not",
            f"`git {command}` brings it; `filemem --store {usual} init` starts a new one",
        )
    records = others(top)
    if records:
        raise BadInput(*records)


def begin(folder: Path) -> bool:
    """Create a repository with an empty memory, unless it exists. Raises BrokenStore."""
    if (folder / ".git").exists():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{folder} cannot be made: {error.strerror}"
        raise BrokenStore(message, "check space and permissions there") from None
    create(folder)
    with closing(Repo.discover(folder)) as code:
        _carry_out(code, _store(folder, config.load(folder).store))
    return True


def undo(
    folder: Path, store: str | None, wiring: clients.Wiring, *, dry_run: bool
) -> dict[str, Any]:
    """Remove what `run` wrote, for one client or for all; records and changes of others stay."""
    with closing(own_branch.project(folder)) as code:
        top = code.work_tree
        every = wiring.client == "auto"
        names = clients.chosen("all" if every else wiring.client, top)
        steps = list(_without_clients(top, names, wiring))
        if every:
            settings = config.load(top)
            name = config.store_path(store) if store else settings.store
            branch = own_branch.branch_of(code, settings)
            steps += [*_without_block(top), *_without_store(top, name, branch)]
        if not dry_run:
            _carry_out(code, steps)
    return _answer(top, "", steps, dry_run=dry_run) | {"undo": True, "clients": []}


def _without_clients(top: Path, names: Sequence[str], wiring: clients.Wiring) -> Iterator[Step]:
    """Remove our entries from the files of these clients; report those that are left."""
    for path in clients.files(names):
        old = _read(top, path)
        if old is not None:
            new, note = clients.unwired(path, old, PLUGIN.read_text(), wiring.words)
            if new != old or note:
                yield _step(path, old, new, note)


def _answer(folder: Path, branch: str, steps: Iterable[Step], *, dry_run: bool) -> dict[str, Any]:
    rows = [step._asdict() for step in steps]
    if dry_run:
        rows = [row | {"diff": _diff(folder, Step(**row))} for row in rows]
    return {
        "success": True,
        "dry_run": dry_run,
        "folder": str(folder),
        "branch": branch,
        "steps": rows,
    }


def _diff(folder: Path, step: Step) -> list[str]:
    """The change of a file as a unified diff."""
    if step.content is None and step.action != "remove":
        return []
    old = _read(folder, step.path)
    new = step.content
    before = "/dev/null" if old is None else f"a/{step.path}"
    after = "/dev/null" if new is None else f"b/{step.path}"
    lines = difflib.unified_diff(
        (old or "").splitlines(), (new or "").splitlines(), before, after, lineterm=""
    )
    return list(lines)


def _wire(work_tree: Path, wiring: clients.Wiring) -> tuple[list[Step], dict[str, Any]]:
    """The files of the clients, and notes about them for the answer."""
    names = clients.chosen(wiring.client, work_tree)
    plan = clients.plan(names, work_tree, wiring, PLUGIN.read_text())
    steps: list[Step] = []
    for path, parts in plan.files.items():
        old = _read(work_tree, path)
        steps.append(_step(path, old, *clients.wired(path, old, parts)))
    more = [name for name in clients.CLIENTS if name not in names and shutil.which(name)]
    if more and wiring.client == "auto":
        command = f"filemem init --client {','.join(more)}"
        plan.notes.append(f"installed, but not connected: `{command}` connects them")
    warning = _warning(wiring.words[0])
    return steps, {"clients": plan.notes} | ({"warning": warning} if warning else {})


def _warning(program: str) -> str:
    """Why agents would not find the program; "" if they do. They know no virtual environment."""
    path = shutil.which(program)
    in_environment = (
        sys.prefix != sys.base_prefix and path and Path(path).is_relative_to(sys.prefix)
    )
    if path and not in_environment:
        return ""
    where = f" outside {sys.prefix}" if path else ""
    other = ", or `filemem init --command 'uvx filemem'`" if program == "filemem" else ""
    return (
        f"no command {program} on the PATH{where}, so agents cannot start it:"
        f" use `pipx install` or `uv tool install`{other}"
    )


def _step(path: str, old: str | None, new: str | None, note: str = "") -> Step:
    if new == old:
        return Step(path, "keep", None, note or "is up to date")
    if new is None:
        return Step(path, "remove", None, note)
    return Step(path, "create" if old is None else "change", new, note)


def _store(work_tree: Path, store: str) -> list[Step]:
    """The files for the folder of records; records of other tools are not touched."""
    unread = not_read(work_tree / store)
    notes = [Step(f"{store}/", "keep", None, f"not read: {unread}")] if unread else []
    return [*notes, *_files_of_store(work_tree, store)]


def _files_of_store(work_tree: Path, store: str) -> list[Step]:
    records = numbered_files(work_tree / store)
    if records:
        forms = {f".{path.rpartition('.')[2]}" for path in records if is_markup(path)}
        note = f"{counted(len(records), 'decision record')}, read where they are"
        if forms:
            note += f"; those in {', '.join(sorted(forms))} are never changed"
        return [Step(f"{store}/", "keep", None, note)]
    folder = "" if store == own_branch.TOP else f"{store}/"
    note = "private records are never committed"
    steps = (
        Step(f"{folder}README.md", "create", README.format(folder=folder)),
        Step(f"{folder}{PRIVATE}/.gitignore", "create", "*\n", note),
    )
    return [
        step
        if _read(work_tree, step.path) is None
        else Step(step.path, "keep", None, "already exists")
        for step in steps
    ]


def _without_store(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Remove a folder without records and the setting that names it; report what is left."""
    ours = {step.path: step.content for step in _store(work_tree / "nowhere", store)}
    paths = _files_below(work_tree, store)
    more = [path for path in paths if path not in ours or _read(work_tree, path) != ours[path]]
    if branch or store == own_branch.TOP or more:
        return [Step(f"{store}/", "keep", None, _what_stays(store, branch, len(more)))]
    return [*(Step(path, "remove") for path in paths), *_without_setting(work_tree, store)]


def _what_stays(store: str, branch: str, count: int) -> str:
    files = f"{counted(count, 'file')} that init did not write"
    note = f"holds {f'the branch {branch}' if branch else files}"
    if branch or store != config.Config().store:
        note += f"; {config.REPOSITORY_FILE} names it"
    return note


def _files_below(work_tree: Path, store: str) -> list[str]:
    files = (path for path in (work_tree / store).rglob("*") if not path.is_dir())
    return [path.relative_to(work_tree).as_posix() for path in files]


def _without_setting(work_tree: Path, store: str) -> list[Step]:
    """Remove the line of the settings that names the store, if init wrote it."""
    old = _read(work_tree, config.REPOSITORY_FILE) or ""
    new = old.removeprefix(f'store = "{store}"{splice.line_end(old)}')
    return [] if new == old else [_step(config.REPOSITORY_FILE, old, new or None)]


def _attached(code: Repo, name: str, branch: str, *, begins: bool, dry_run: bool) -> Step:
    """Attach the branch of the records, or plan it; `begins`: it may be a new branch."""
    files = {
        "README.md": README.format(folder="").encode(),
        config.REPOSITORY_FILE: own_branch.SETTINGS.encode(),
    }
    now = time.time_ns() // 10**6
    done = own_branch.attach(code, name, branch, files if begins else None, now, dry_run=dry_run)
    if done:
        return Step(f"{name}/", "create", None, done)
    return Step(f"{name}/", "keep", None, f"the branch {branch} is attached")


def _carry_out(code: Repo, steps: Iterable[Step]) -> None:
    files = Files(code.work_tree, own_branch.TOP, code.spool)
    for step in steps:
        if step.action == "remove":
            target = _target_of(code.work_tree, step.path)
            (code.work_tree / target).unlink()
            with suppress(OSError):  # a folder that is not empty stays
                for folder in Path(target).parents[:-1]:
                    (code.work_tree / folder).rmdir()
        elif step.content is None:
            continue
        elif step.path.endswith("/.gitignore"):  # no other file of Git's is ever written
            files.hide(posixpath.dirname(step.path))
        else:
            target = _target_of(code.work_tree, step.path)
            staged = files.stage(target, step.content.encode())
            with suppress(FileNotFoundError):  # who may read a file is not ours to change
                Path(staged.source).chmod((code.work_tree / target).stat().st_mode & 0o777)
            staged.finish()


def _settings(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Name a store in another folder or on its own branch, for the server and for other clones."""
    path = config.REPOSITORY_FILE
    stated = config.load(work_tree)
    settings: dict[str, str] = {}
    if store not in (stated.store, config.own_store(work_tree)):
        settings["store"] = store
    if branch != stated.branch:
        settings["branch"] = branch
    if not settings:
        return []
    old = _read(work_tree, path) or ""
    end = splice.line_end(old)
    lines = "".join(f'{name} = "{value}"{end}' for name, value in settings.items())
    note = f"names the {' and the '.join(settings)}"
    return [Step(path, "change" if old else "create", lines + old, note)]


def _agents(work_tree: Path, store: str, branch: str) -> list[Step]:
    """The block for agents in AGENTS.md; an existing CLAUDE.md imports it.

    Claude Code reads only that.
    """
    block = _block(work_tree, store, branch)
    path = "CLAUDE.md"
    old = _read(work_tree, path)
    linked = _target_of(work_tree, path) == _target_of(work_tree, block.path)
    if old is None or "@AGENTS.md" in old or BEGIN in old or linked:
        return [block]
    note = "Claude Code reads AGENTS.md by this line"
    return [block, Step(path, "change", splice.with_block(old, IMPORT), note)]


def _block(work_tree: Path, store: str, branch: str) -> Step:
    path = "AGENTS.md"
    share = "\n- The memory has a branch of its own: `filemem sync` shares what was saved."
    block = BLOCK.format(store=store, sync=share if branch else "")
    old = _read(work_tree, path)
    if old is None:
        return Step(path, "create", block)
    first = old.find(BEGIN)
    last = old.find(END)
    if first < 0 and last < 0:
        new = splice.with_block(old, block.rstrip())
        return Step(path, "change", new, "a block is added at the end")
    if not 0 <= first < last:
        message = f"{path}: the block between {BEGIN} and {END} is broken"
        raise BadInput(message, "restore or remove both lines")
    block = block.rstrip().replace("\n", splice.line_end(old))
    return _step(path, old, old[:first] + block + old[last + len(END) :])


def _without_block(work_tree: Path) -> Iterator[Step]:
    """Remove what `_agents` adds; CLAUDE.md and AGENTS.md may be one file."""
    targets = {_target_of(work_tree, path): path for path in ("CLAUDE.md", "AGENTS.md")}
    for path in targets.values():
        old = _read(work_tree, path) or ""
        first = old.find(BEGIN)
        last = old.find(END) + len(END)
        block = old[first:last] if 0 <= first < last - len(END) else IMPORT
        new = splice.without_block(old, block)
        if new != old:
            yield _step(path, old, new if first or old[last:].strip() else None)


def _read(work_tree: Path, path: str) -> str | None:
    """The text of a file of the work tree, None if there is none."""
    try:
        return (work_tree / _target_of(work_tree, path)).read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None


def _target_of(work_tree: Path, path: str) -> str:
    """The file with the content: the path itself or, for a link, the file that it leads to.

    Raises BadInput if that is no file of the work tree.
    """
    top = os.path.realpath(work_tree)
    real = Path(os.path.realpath(work_tree / path))
    if not real.is_relative_to(top) or ".git" in real.relative_to(top).parts or real.is_symlink():
        raise BadInput(
            f"{path} is a symbolic link to no file of the project", "replace or remove it"
        )
    if real.exists() and not real.is_file():  # a FIFO would hold us up for ever
        raise BadInput(f"{path} is not a regular file", "move it away, then run filemem init again")
    return real.relative_to(top).as_posix()
