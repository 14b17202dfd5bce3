"""What `filemem init` writes: a plan of whole files first, so that it can be shown before it is carried out."""

from __future__ import annotations

import json
import os
import posixpath
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from filemem import config
from filemem.cli import driving, owning
from filemem.cli.plan import Step, line_end, read, write
from filemem.cli.splice import with_member
from filemem.errors import BadInput, NotFound
from filemem.memory import elsewhere, home, obstacles
from filemem.record.identity import PRIVATE
from filemem.repo import Repo, create, worktrees
from filemem.repo.discovery import find

BEGIN, END = "<!-- filemem:begin -->", "<!-- filemem:end -->"
SERVER = {"command": "filemem", "args": ["serve"]}

README = """\
# Memory

What this project decided, and why: one Markdown file per decision, checkpoint or observation.
They are written by people, and by coding agents through filemem.
Read them in any editor, change them like any other file, review them in pull requests.
No tool is needed to read them, and nothing else holds the truth.

- `decisions/<topic>/`: the decisions on a topic; a newer one names the older in `supersedes`.
  Write `topic: ...` in the header of one that you add by hand: that is what joins it to the others, not the folder.
- `checkpoints/<year>/<month>/`: where the work stood at the end of a session
- `observations/<year>/<month>/<day>/`: things learned on the way

`git log {folder}decisions/<topic>` tells how a topic was decided; `filemem search "a question"` finds what holds today.
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


def run(
    folder: Path,
    store: str | None,
    *,
    dry_run: bool,
    own_branch: str = "",
    diff_driver: bool = False,
    tell: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Set a project up.

    Args:
        folder: a folder of the project; its work tree is set up, and a repository made where there is none.
        store: folder of records, or None for the configured one.
        dry_run: only say what would be done.
        own_branch: a branch that shall hold the records alone, with the store as its work tree; "" for what the
            settings say.
        diff_driver: show records in `git diff` as what they say.
        tell: told what Git says of its progress where a branch is fetched.

    Raises:
        BadInput: a file that cannot be merged with, a store that every command refuses, or another than the settings
            name. Nothing is written then.
        Conflict: records stand where the own branch should; the memory in another work tree is on no branch; or what is
            asked for, or named in the settings, is another memory than the one that is attached.
        BrokenStore: the store is a submodule that is not here.
    """
    work_tree, name, steps = _begun(folder, store, dry_run=dry_run)
    name, branch = owning.agreed(work_tree, name, store, own_branch)
    shown = name if branch else _asked(work_tree, partial(_place, name)) or name
    warnings = [] if branch else list(_warnings(work_tree, name))
    settings = _settings(work_tree, name, branch)
    steps += [settings, _mcp(work_tree), _agents(work_tree, shown, branch)]
    if branch:
        begin = _beginning(diff_driver) if own_branch else None
        announce = partial(_carry_out, work_tree, [settings])
        steps.insert(0, owning.step(work_tree, name, branch, begin, dry_run=dry_run, tell=tell, announce=announce))
    else:
        steps.insert(0, _readme(work_tree, shown))
    top, inside = _of_records(work_tree, shown, branch)
    stray = owning.stray(work_tree, name, top / inside) if branch else None
    warnings += [_asked(work_tree, lambda code: elsewhere.beside(code, name))] if branch and not stray else []
    theirs = [_private(top, inside)]  # of the records
    if diff_driver:
        theirs += driving.steps(top, inside, dry_run=dry_run, came=bool(branch) and steps[0].action == "create")
    steps += [replace(step, top=top) for step in theirs] if top != work_tree else theirs
    if not dry_run:
        _carry_out(work_tree, steps)
        if branch and diff_driver:
            warnings.append(driving.commit(top / inside, os.path.relpath(top / inside, work_tree)))
    return {
        "success": True,
        "dry_run": dry_run,
        "folder": str(work_tree),
        "branch": branch,
        "to_commit": [step.path for step in steps if _to_commit(step, name, branch)],
        **({"stray": stray._asdict()} if stray else {}),
        **({"warning": warning} if (warning := "; ".join(filter(None, (*warnings, _unreachable())))) else {}),
        "steps": [_told(work_tree, step) for step in steps if step.action != "skip"],
    }


def _begun(folder: Path, store: str | None, *, dry_run: bool) -> tuple[Path, str, list[Step]]:
    """The work tree, the store folder, and the making of a repository where there is none."""
    with suppress(NotFound):
        work_tree = Path(home.project(folder).work_tree)
        return work_tree, _named(work_tree, store), []
    work_tree = folder.resolve()
    name = _named(work_tree, store)
    if os.path.lexists(work_tree / name / ".git"):
        home.store_in(work_tree / name, name)
    if not dry_run:
        create(work_tree)
    return work_tree, name, [Step(".git", "create", None, "a Git repository: memories are commits")]


def _named(work_tree: Path, store: str | None) -> str:
    """The store folder that is asked for, else the configured one."""
    if not store:
        return config.load(work_tree).store
    name, own = config.store_path(store), config.own_store(work_tree)
    if own not in ("", name):
        raise BadInput(f"{config.REPOSITORY_FILE} names the store {own}", "change it there first", field="store")
    return name


def _asked(work_tree: Path, question: Callable[[Repo], str]) -> str:
    """What the repository of a work tree answers; "" where there is none yet."""
    if not (work_tree / ".git").exists():
        return ""
    with closing(Repo.discover(work_tree)) as code:
        return question(code)


def _of_records(work_tree: Path, store: str, branch: str) -> tuple[Path, str]:
    """The work tree that the files of the records are written in, and the folder of the records there.

    Another one than where they are asked for where the branch of the records is attached there.
    """

    def attached(code: Repo) -> str:
        here = os.path.lexists(work_tree / store / ".git")
        return "" if here else str(worktrees.of_branch(code.places, branch) or "")

    other = _asked(work_tree, attached) if branch else ""
    return (Path(other), home.TOP) if other else (work_tree, store)


def _place(store: str, code: Repo) -> str:
    """Where records stand, as people see it; refuses, as every command does, what is not this repository's to use."""
    found = home.find(code.work_tree, store)
    with closing(found.code), closing(found.repo):
        obstacles.refuse_unfilled(obstacles.unfilled_in(found.repo, found.store, found.name))
        return found.name


def _beginning(diff_driver: bool) -> dict[str, bytes]:
    """The files that a branch of records alone begins with."""
    files = {"README.md": _readme_text(), config.REPOSITORY_FILE: owning.SETTINGS}
    if diff_driver:
        files[driving.FILE] = driving.naming()
    return {name: text.encode() for name, text in files.items()}


def _warnings(work_tree: Path, store: str) -> Iterator[str]:
    """What is to be known of a store in the code's branches: a memory elsewhere, and that Git is told to ignore it."""
    if not (work_tree / store).exists():
        yield _asked(work_tree, lambda code: elsewhere.told(code, store))
    yield _asked(work_tree, lambda code: obstacles.ignored(code, store))


def _to_commit(step: Step, store: str, branch: str) -> bool:
    """Whether `git status` shows a file that was written: none that Git is told to overlook, itself included."""
    inside = step.path.startswith(f"{store}/") or store == home.TOP or step.top is not None
    hidden = inside and (branch or step.path == posixpath.normpath(f"{store}/{PRIVATE}/.gitignore"))
    return step.content is not None and not hidden


def _told(work_tree: Path, step: Step) -> dict[str, object]:
    """What is to be said of a file, and where its content stands where the file is a link."""
    file = (step.top or work_tree) / step.path
    link = f"a link to {file.readlink()}" if file.is_symlink() else ""
    note = "; ".join(filter(None, (link, step.note)))
    path = os.path.relpath(file, work_tree) if step.top else step.path
    return {"path": path, "action": step.action, "note": note, "content": step.content}


def _carry_out(work_tree: Path, steps: Iterable[Step]) -> None:
    for step in steps:
        if step.content is not None:
            places = find(step.top or work_tree)
            write(places.work_tree, step.path, step.content, places.spool)


def _unreachable() -> str:
    """Why an agent that is started elsewhere would not find the command, or "".

    The file that names the command is shared by all who clone the project, so it cannot name a place on one machine.
    """
    own = Path(sys.prefix) if sys.prefix != sys.base_prefix else None
    folders = [one for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    outside = [one for one in folders if own is None or not Path(one).resolve().is_relative_to(own.resolve())]
    if shutil.which("filemem", path=os.pathsep.join(outside)):
        return ""
    where = f" outside {own}" if own else ""
    return (
        f"no command filemem on the PATH{where}: an agent finds it after `pipx install` or `uv tool install` of filemem"
    )


def _readme_text(store: str = home.TOP) -> str:
    return README.format(folder="" if store == home.TOP else f"{store}/")


def _readme(work_tree: Path, store: str) -> Step:
    path = posixpath.normpath(f"{store}/README.md")
    if read(work_tree, path) is not None:
        return Step(path, "keep", None, "is there already")
    return Step(path, "create", _readme_text(store))


def _private(work_tree: Path, store: str) -> Step:
    """Private records are for no commit, those that a person writes by hand before any save included."""
    path = posixpath.normpath(f"{store}/{PRIVATE}/.gitignore")
    old = read(work_tree, path)
    if old is None:
        return Step(path, "create", "*\n", "private records are never committed")
    hides = "*" in old.split()
    return Step(
        path, "keep", None, "is there already" if hides else "does not hold *: private records could be committed"
    )


def _settings(work_tree: Path, store: str, branch: str) -> Step:
    """A store elsewhere, or on a branch of its own, must be known to the server and to other clones as well."""
    path = config.REPOSITORY_FILE
    stated = config.load(work_tree)
    news = {"store": store} if store not in (stated.store, config.own_store(work_tree)) else {}
    news |= {"branch": branch} if branch != stated.branch else {}
    if not news:
        return Step(path, "skip", None)
    old = read(work_tree, path) or ""
    added = "".join(f'{name} = "{value}"{line_end(old)}' for name, value in news.items())
    return Step(path, "change" if old else "create", added + old, f"names the {' and the '.join(news)}")


def _mcp(work_tree: Path) -> Step:
    path = ".mcp.json"
    old = read(work_tree, path)
    try:
        value = json.loads(old.removeprefix("\ufeff"), parse_int=str) if old and old.strip() else {}
    except RecursionError:
        raise BadInput(f"{path} is nested too deep", "correct it, then run filemem init again") from None
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{path}:{error.lineno}: not JSON: {error.msg}", "correct it, then run filemem init again"
        ) from None
    servers = value.get("mcpServers", {}) if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        raise BadInput(f"{path}: mcpServers is not an object", "correct it, then run filemem init again")
    if "filemem" in servers:
        return Step(path, "keep", None, "names a filemem server already")
    entry = ("mcpServers", "filemem")
    if not old or not old.strip():
        return Step(path, "create", with_member("{}\n", entry, SERVER))
    return Step(path, "change", with_member(old, entry, SERVER), "an entry for filemem; the others stay")


def _agents(work_tree: Path, store: str, branch: str) -> Step:
    path = "AGENTS.md"
    sync = "\n- The memory has a branch of its own: `filemem sync` shares what was saved." if branch else ""
    old, block = read(work_tree, path), BLOCK.format(store=store, sync=sync)
    if old is None:
        return Step(path, "create", block)
    end_of_line = line_end(old)
    block = block.replace("\n", end_of_line)
    begin, end = old.find(BEGIN), old.find(END)
    if begin < 0 and end < 0:
        gap = "" if not old.strip() else end_of_line if old.endswith(end_of_line) else end_of_line * 2
        return Step(path, "change", f"{old}{gap}{block}", "a block is added at the end")
    if not 0 <= begin < end:
        raise BadInput(f"{path}: the block between {BEGIN} and {END} is broken", "restore or remove both lines")
    new = old[:begin] + block.rstrip() + old[end + len(END) :]
    return (
        Step(path, "keep", None, "is up to date") if new == old else Step(path, "change", new, "the block is renewed")
    )
