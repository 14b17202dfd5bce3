"""What `filemem init` writes: a plan of whole files first, so that it can be shown before it is carried out.

Rule: a file is replaced as a whole, or stays what it was; of a file that others write too only our own part changes.
"""

from __future__ import annotations

import json
import os
import posixpath
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from filemem import config
from filemem.cli.show import counted, rows, rows_of
from filemem.errors import BadInput, Conflict, NotFound
from filemem.files import Files
from filemem.memory import own_branch
from filemem.memory.store import numbered_files, others
from filemem.record.identity import PRIVATE
from filemem.repo import Repo
from filemem.repo.run import create

BEGIN, END = "<!-- filemem:begin -->", "<!-- filemem:end -->"
SERVER = {"command": "filemem", "args": ["serve"]}

README = """\
# Memory

What this project decided, and why: one Markdown file per decision, checkpoint or observation.
They are written by people, and by coding agents through filemem.
Read them in any editor, change them like any other file, review them in pull requests.
No tool is needed to read them, and nothing else holds the truth.

- `decisions/<year>/<month>/`: decisions, each file named after its topic; a newer one names the older in `supersedes`.
  Write `topic: ...` in the header of one that you add by hand: that is what joins it to the others, not its name.
- `checkpoints/<year>/<month>/`: where the work stood at the end of a session
- `observations/<year>/<month>/<day>/`: things learned on the way

How a topic was decided shows in any clone, without a tool: `git log --grep 'decision(TOPIC)'` lists the decisions on
it with what came of them, `git log -p -- '{folder}decisions/*/TOPIC--*'` every change to their files.
`filemem search "a question"` finds what holds today.
"""

BLOCK = f"""\
{BEGIN}
## Project memory

Decisions and their reasons live in `{{store}}/`, served by the `filemem` MCP server.
- Before you choose an approach, `search` for what was decided; follow what holds today, or supersede it openly.
- When you decide something that others must know, `save` it: topic, decision, reasoning, what you rejected.
- When you learn what came of a decision, `update` its outcome with the reason.
- At the end of a session `save` a checkpoint (summary, next_steps); at the start `load_checkpoint`.
- Never save secrets.{{sync}}
{END}
"""


class Step(NamedTuple):
    """One file of the plan: its new content, or None if it stays as it is, and why."""

    path: str
    action: str  # create, change, keep
    content: str | None = None
    note: str = ""


def run(folder: Path, store: str | None, *, dry_run: bool, branch: str = "") -> dict[str, Any]:
    """Set a project up, its repository included; with `dry_run` only plan it."""
    try:
        code = own_branch.project(folder)
    except NotFound:
        if dry_run:
            made = Step(".git", "create", None, "a Git repository: memories are commits")
            return _answer(folder, branch, [made], dry_run=True)
        create(folder.resolve())
        code = own_branch.project(folder)
    with closing(code):
        top, settings = code.work_tree, config.load(code.work_tree)
        name = config.store_path(store) if store else settings.store
        asked = {"store": (name if store else "", config.own_store(top)), "branch": (branch, settings.branch)}
        for key, (wanted, stated) in asked.items():
            if wanted and stated and wanted != stated:
                raise BadInput(f"{config.REPOSITORY_FILE} names the {key} {stated}", "change it there first", field=key)
        begin, branch = bool(branch), branch or own_branch.branch_of(code, settings)
        if not branch:
            own_branch.find(top, name).code.close()  # what cannot be a store is refused
            _refuse_second(top, store, code)
        steps = [*_settings(top, name, branch), _mcp(top), *_agents(top, name, branch)]
        ours = [_attached(code, name, branch, begin=begin, dry_run=dry_run)] if branch else _store(top, name)
        if not dry_run:
            _carry_out(code, [*ours, *steps])
        answer = _answer(top, branch, [*ours, *steps], dry_run=dry_run)
        try:
            code.identity()
        except BadInput as error:  # nothing that is saved could be committed
            answer["hint"] = f"{error.message}: {error.hint}"
        return answer


def _refuse_second(top: Path, store: str | None, code: Repo) -> None:
    """Refuse a second memory beside records that are there, unless its folder is named. Raises BadInput, Conflict."""
    usual = config.Config().store
    if store or config.load(top).store != usual or (top / usual).exists():
        return
    anew = f"filemem --store {usual} init"
    if there := own_branch.elsewhere(code, usual):
        told = f"this project has a memory already: {there} holds {usual}/, and what is checked out does not"
        way = f"git merge {there}" if code.head() else f"git switch {there.partition('/')[2]}"
        raise Conflict(told, f"`{way}` brings it; `{anew}` begins another one")
    if beside := others(top):
        raise BadInput(*beside)


def _answer(folder: Path, branch: str, steps: Iterable[Step], *, dry_run: bool) -> dict[str, Any]:
    answer = {"success": True, "dry_run": dry_run, "folder": str(folder), "branch": branch}
    found = shutil.which("filemem")
    if not found or (sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)):
        where = f" outside {sys.prefix}" if found else ""
        told = f"no command filemem on the PATH{where}: an agent finds it after `pipx install` or `uv tool install`"
        answer["warning"] = f"{told} of it"
    return {**answer, "steps": [step._asdict() for step in steps]}


def _store(work_tree: Path, store: str) -> list[Step]:
    """The files for the folder of records; other makers' records are left to themselves."""
    if found := numbered_files(work_tree / store):
        return [Step(f"{store}/", "keep", None, f"{counted(len(found), 'decision record')}, read where they are")]
    folder = "" if store == own_branch.TOP else f"{store}/"
    wanted = {
        f"{folder}README.md": (README.format(folder=folder), ""),
        f"{folder}{PRIVATE}/.gitignore": ("*\n", "private records are never committed"),
    }
    kept = "is there already"
    return [
        Step(path, "create", content, note) if _read(work_tree, path) is None else Step(path, "keep", None, kept)
        for path, (content, note) in wanted.items()
    ]


def _attached(code: Repo, name: str, branch: str, *, begin: bool, dry_run: bool) -> Step:
    """Attach the branch of the records, or plan it."""
    files = {"README.md": README.format(folder="").encode(), config.REPOSITORY_FILE: own_branch.SETTINGS.encode()}
    done = own_branch.attach(code, name, branch, files if begin else None, time.time_ns() // 10**6, dry_run=dry_run)
    return Step(f"{name}/", "create" if done else "keep", None, done or f"the branch {branch} is attached")


def _carry_out(code: Repo, steps: Iterable[Step]) -> None:
    files = Files(code.work_tree, own_branch.TOP, code.spool)
    for step in steps:
        if step.content is None:
            continue
        if step.path.endswith("/.gitignore"):  # no other file of Git's is ever written
            files.hide(posixpath.dirname(step.path))
            continue
        target = _target_of(code.work_tree, step.path)
        staged = files.stage(target, step.content.encode())
        with suppress(FileNotFoundError):  # who may read a file is not ours to change
            os.fchmod(staged.fd, (code.work_tree / target).stat().st_mode & 0o777)
        staged.finish()


def _settings(work_tree: Path, store: str, branch: str) -> list[Step]:
    """A store elsewhere, or on a branch of its own, must be known to the server and to other clones as well."""
    path, stated = config.REPOSITORY_FILE, config.load(work_tree)
    news = {"store": store} if store not in (stated.store, config.own_store(work_tree)) else {}
    news |= {"branch": branch} if branch != stated.branch else {}
    if not news:
        return []
    old = _read(work_tree, path) or ""
    added = "".join(f'{name} = "{value}"\n' for name, value in news.items())
    return [Step(path, "change" if old else "create", added + old, f"names the {' and the '.join(news)}")]


def _mcp(work_tree: Path) -> Step:
    """Our server as the first one; a file that a program would lay out otherwise is left to its writer."""
    path, layouts = ".mcp.json", [partial(json.dumps, indent=indent, ensure_ascii=False) for indent in (2, 4, "\t")]
    old = (_read(work_tree, path) or "").strip()
    try:
        value = json.loads(old or "{}")
        servers = {**value.get("mcpServers", {})}
    except (json.JSONDecodeError, RecursionError, AttributeError, TypeError) as error:
        told = f"{path} is no JSON object of MCP servers: {error}"
        raise BadInput(told, "correct it, then run filemem init again") from None
    if "filemem" in servers:
        return Step(path, "keep", None, "names a filemem server already")
    layout = next((one for one in layouts if one(value) == old), None) if old else layouts[0]
    if layout is None:
        entry = json.dumps({"filemem": SERVER})[1:-1]
        return Step(path, "keep", None, f"laid out by hand: add to its mcpServers {entry}")
    text = layout({**value, "mcpServers": {"filemem": SERVER, **servers}}) + "\n"
    return Step(path, "change" if old else "create", text, "an entry for filemem; the others stay" if old else "")


def _agents(work_tree: Path, store: str, branch: str) -> list[Step]:
    """What agents are told; Claude Code reads CLAUDE.md alone, so one that is there takes the other in."""
    told, path = _block(work_tree, store, branch), "CLAUDE.md"
    old = _read(work_tree, path)
    linked = _target_of(work_tree, path) == _target_of(work_tree, told.path)
    if old is None or "@AGENTS.md" in old or BEGIN in old or linked:
        return [told]
    new = f"{old.rstrip()}\n\n@AGENTS.md\n".lstrip()
    return [told, Step(path, "change", new, "Claude Code reads AGENTS.md by this line")]


def _block(work_tree: Path, store: str, branch: str) -> Step:
    path = "AGENTS.md"
    sync = "\n- The memory has a branch of its own: `filemem sync` shares what was saved." if branch else ""
    old, block = _read(work_tree, path), BLOCK.format(store=store, sync=sync)
    if old is None:
        return Step(path, "create", block)
    first, last = old.find(BEGIN), old.find(END)
    if first < 0 and last < 0:
        gap = "" if not old.strip() else "\n" if old.endswith("\n") else "\n\n"
        return Step(path, "change", f"{old}{gap}{block}", "a block is added at the end")
    if not 0 <= first < last:
        raise BadInput(f"{path}: the block between {BEGIN} and {END} is broken", "restore or remove both lines")
    new = old[:first] + block.rstrip() + old[last + len(END) :]
    kept = new == old
    return Step(path, "keep", None, "is up to date") if kept else Step(path, "change", new, "the block is renewed")


def _read(work_tree: Path, path: str) -> str | None:
    """The text of a file of the work tree, None if there is none."""
    try:
        return (work_tree / _target_of(work_tree, path)).read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None


def _target_of(work_tree: Path, path: str) -> str:
    """Where the content of a file stands: at its path, or, of a link, at the file of the work tree that it leads to."""
    top, real = os.path.realpath(work_tree), Path(os.path.realpath(work_tree / path))
    if not real.is_relative_to(top) or ".git" in real.relative_to(top).parts or real.is_symlink():
        raise BadInput(f"{path} is a symbolic link that leads to no file of the project", "make it one, or remove it")
    if real.exists() and not real.is_file():  # a FIFO would hold us up for ever
        raise BadInput(f"{path} is no regular file", "move it away, then run filemem init again")
    return real.relative_to(top).as_posix()


def shown(answer: Mapping[str, Any]) -> str:
    """What init did, or would do, in words."""
    would = "would " if answer["dry_run"] else ""
    verbs = {"create": f"{would}create", "change": f"{would}change", "keep": "keep"}
    said = []
    for step in answer["steps"]:
        said.append(f"{verbs[step['action']]} {step['path']}" + (f"  ({step['note']})" if step["note"] else ""))
        said += [f"    {row}" for row in (step["content"] or "").splitlines() if answer["dry_run"]]
    if not answer["dry_run"] and any(step["content"] for step in answer["steps"]):
        said.append("nothing was staged or committed here: look at the files, then commit them yourself")
        if answer["branch"]:
            said.append(f"until {config.REPOSITORY_FILE} is committed and pushed, other clones do not find the memory")
    return rows_of(*said, *rows(answer, "warning hint", 2))
