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
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from filemem import config
from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.files import Files
from filemem.memory import own_branch
from filemem.record.identity import PRIVATE
from filemem.repo import Repo, worktree
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
    top: Path | None = None  # of the work tree that it stands in, if that is not the project's


def run(
    folder: Path,
    store: str | None,
    *,
    dry_run: bool,
    branch: str = "",
    report: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Set a project up, its repository included; with `dry_run` only plan it."""
    work_tree, name, steps = _begin(folder, store, dry_run=dry_run)
    stated = config.load(work_tree).branch
    if stated and branch and stated != branch:
        raise BadInput(f"{config.REPOSITORY_FILE} names the branch {stated}", "change it there first", field="branch")
    begin, branch = bool(branch), branch or stated or _known_branch(work_tree, store)
    shown, top, inside = (name, work_tree, name) if branch else _place(work_tree, name)
    settings = _settings(work_tree, name, branch)
    steps += [settings, _mcp(work_tree), _agents(work_tree, shown, branch)]
    if branch:
        announce = partial(_carry_out, work_tree, [settings])
        step, there = _attached(work_tree, name, branch, announce, report, begin=begin, dry_run=dry_run)
        top, inside = (there, own_branch.TOP) if there and there != work_tree / name else (top, inside)
        steps.insert(0, step)
    else:
        text = README.format(folder="" if inside == own_branch.TOP else f"{inside}/")
        steps.insert(0, _ours(top, f"{inside}/README.md", text))
    steps.append(_ours(top, f"{inside}/{PRIVATE}/.gitignore", "*\n", "private records are never committed"))
    steps = [step._replace(top=None if step.top == work_tree else step.top) for step in steps]
    if not dry_run:
        _carry_out(work_tree, steps)
    warnings = [_ignored(work_tree, name)] * (not branch) + [_unreachable()]
    return {
        "success": True,
        "dry_run": dry_run,
        "folder": str(work_tree),
        "branch": branch,
        "to_commit": [step.path for step in steps if _to_commit(step, name, branch)],
        **({"warning": warning} if (warning := "; ".join(filter(None, warnings))) else {}),
        "steps": [_entry(work_tree, step) for step in steps if step.action != "skip"],
    }


def _begin(folder: Path, store: str | None, *, dry_run: bool) -> tuple[Path, str, list[Step]]:
    """The work tree, the store folder that is asked for or configured, and the making of a repository if needed."""
    try:
        work_tree, steps = own_branch.project(folder).work_tree, []
    except NotFound:
        work_tree, steps = folder.resolve(), [Step(".git", "create", None, "a Git repository: memories are commits")]
    name = config.store_path(store) if store else config.load(work_tree).store
    if store and (own := config.own_store(work_tree)) not in ("", name):
        raise BadInput(f"{config.REPOSITORY_FILE} names the store {own}", "change it there first", field="store")
    if steps and os.path.lexists(work_tree / name / ".git"):
        told = f"{name}/ is a repository, and the folder around it is none"
        raise BadInput(told, "git init here first, if it shall be")
    if steps and not dry_run:
        create(work_tree)
    return work_tree, name, steps


def _known_branch(work_tree: Path, store: str | None) -> str:
    """The branch that holds the records, if no settings here name it."""
    if store or not (work_tree / ".git").exists():
        return ""
    with closing(Repo.discover(work_tree)) as code:
        return own_branch.branch_of(code, config.load(work_tree))


def _place(work_tree: Path, store: str) -> tuple[str, Path, str]:
    """Where records stand, as people see it, and by work tree and folder; refuses what is not ours to use."""
    if not (work_tree / ".git").exists():
        return store, work_tree, store
    found = own_branch.find(work_tree, store)
    with closing(found.code), closing(found.repo):
        item = found.repo.item(found.store) if found.store != own_branch.TOP else None
        if item and item.mode == b"160000":
            fill = f"{found.repo.places.by_hand} submodule update --init {found.store}"
            raise BrokenStore(f"{found.name} is a submodule that is not here", fill)
        return found.name, found.repo.work_tree, found.store


def _attached(
    work_tree: Path, name: str, branch: str, announce: Callable[[], None], report: Any, *, begin: bool, dry_run: bool
) -> tuple[Step, Path | None]:
    """Attach the branch of the records, or plan it, and where it is then; `announce` writes the settings."""
    if not (work_tree / ".git").exists():
        return Step(f"{name}/", "create", None, f"a work tree of the branch {branch}, which begins empty"), None
    files = {"README.md": README.format(folder="").encode(), config.REPOSITORY_FILE: own_branch.SETTINGS.encode()}
    with closing(Repo.discover(work_tree)) as code:
        if dry_run:
            done = own_branch.plan(code, name, branch, begin=begin)
        else:
            now = time.time_ns() // 1_000_000
            done = own_branch.attach(code, name, branch, files if begin else None, now, tell=report, announce=announce)
        there = worktree.of_branch(code, branch)
    note = done or f"the branch {branch} is attached at {there}"
    return Step(f"{name}/", "create" if done else "keep", None, note), there


def _ignored(work_tree: Path, store: str) -> str:
    """That Git is told to ignore the store, so that nothing in it is committed; "" if it is not."""
    if not (work_tree / ".git").exists():
        return ""
    with closing(Repo.discover(work_tree)) as code:
        rule = code.ignored(f"{store}/decisions/a.md")
    return f"Git ignores {store}/ ({rule}): what is saved there is not committed" if rule else ""


def _to_commit(step: Step, store: str, branch: str) -> bool:
    """Whether `git status` shows a file that was written: none that Git is told to overlook, itself included."""
    inside = step.path.startswith(f"{store}/") or store == own_branch.TOP or step.top is not None
    hidden = inside and (branch or step.path == posixpath.normpath(f"{store}/{PRIVATE}/.gitignore"))
    return step.content is not None and not hidden


def _entry(work_tree: Path, step: Step) -> dict[str, object]:
    """What is to be said of a file, and what it is a link to, if it is one."""
    file = (step.top or work_tree) / step.path
    note = "; ".join(filter(None, (f"a link to {file.readlink()}" if file.is_symlink() else "", step.note)))
    path = os.path.relpath(file, work_tree) if step.top else step.path
    return {"path": path, "action": step.action, "note": note, "content": step.content}


def _carry_out(work_tree: Path, steps: Iterable[Step]) -> None:
    for step in steps:
        if step.content is None:
            continue
        with closing(Repo.discover(step.top or work_tree)) as repo:
            target = _target_of(repo.work_tree, step.path)
            if target.endswith("/.gitignore"):  # no other file of Git's is ever written
                Files(repo.work_tree, own_branch.TOP, repo.spool).hide(posixpath.dirname(target))
                continue
            staged = Files(repo.work_tree, own_branch.TOP, repo.spool).stage(target, step.content.encode())
            try:
                with suppress(FileNotFoundError):  # who may read a file is not ours to change
                    os.fchmod(staged.fd, (repo.work_tree / target).stat().st_mode & 0o777)
                staged.finish()
            finally:
                staged.discard()


def _unreachable() -> str:
    """Why an agent that is started elsewhere would not find the command, or ""; a shared file names no one's place."""
    own = Path(sys.prefix).resolve() if sys.prefix != sys.base_prefix else None
    folders = [one for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    outside = [one for one in folders if own is None or not Path(one).resolve().is_relative_to(own)]
    if shutil.which("filemem", path=os.pathsep.join(outside)):
        return ""
    where = f" outside {own}" if own else ""
    return f"no command filemem on the PATH{where}: an agent finds it after `pipx install` or `uv tool install` of it"


def _ours(top: Path, path: str, content: str, note: str = "") -> Step:
    """A file that is written if it is not there."""
    path = posixpath.normpath(path)
    old = _read(top, path)
    if old is None:
        return Step(path, "create", content, note, top)
    open_ = path.endswith(".gitignore") and "*" not in old.split()
    told = "does not hold *: private records could be committed" if open_ else "is there already"
    return Step(path, "keep", None, told, top)


def _settings(work_tree: Path, store: str, branch: str) -> Step:
    """A store elsewhere, or on a branch of its own, must be known to the server and to other clones as well."""
    path, stated = config.REPOSITORY_FILE, config.load(work_tree)
    news = {"store": store} if store not in (stated.store, config.own_store(work_tree)) else {}
    news |= {"branch": branch} if branch != stated.branch else {}
    if not news:
        return Step(path, "skip")
    old = _read(work_tree, path) or ""
    added = "".join(f'{name} = "{value}"{line_end(old)}' for name, value in news.items())
    return Step(path, "change" if old else "create", added + old, f"names the {' and the '.join(news)}")


def _mcp(work_tree: Path) -> Step:
    """Our server as the first one; a file that a program would lay out otherwise is left to its writer."""
    path, again = ".mcp.json", "correct it, then run filemem init again"
    old = _read(work_tree, path) or ""
    try:
        value = json.loads(old.strip() or "{}")
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON that can be read: {error}", again) from None
    servers = value.get("mcpServers", {}) if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        raise BadInput(f"{path}: mcpServers is not an object", again)
    if "filemem" in servers:
        return Step(path, "keep", None, "names a filemem server already")
    layouts = [partial(json.dumps, indent=indent, ensure_ascii=False) for indent in (2, 4, "\t")]
    layout = next((one for one in layouts if one(value) == old.strip()), None if old.strip() else layouts[0])
    if layout is None:
        entry = json.dumps({"filemem": SERVER})[1:-1]
        return Step(path, "keep", None, f"laid out by hand: add to its mcpServers {entry}")
    text = layout({**value, "mcpServers": {"filemem": SERVER, **servers}}) + "\n"
    return Step(path, "change" if old else "create", text, "an entry for filemem; the others stay" if old else "")


def line_end(text: str) -> str:
    """How the lines of a text end, so that a line that is added ends like the others."""
    return "\r\n" if "\r\n" in text else "\n"


def _agents(work_tree: Path, store: str, branch: str) -> Step:
    path = "AGENTS.md"
    sync = "\n- The memory has a branch of its own: `filemem sync` shares what was saved." if branch else ""
    old, block = _read(work_tree, path), BLOCK.format(store=store, sync=sync)
    if old is None:
        return Step(path, "create", block)
    end = line_end(old)
    block = block.replace("\n", end)
    first, last = old.find(BEGIN), old.find(END)
    if first < 0 and last < 0:
        gap = "" if not old.strip() else end if old.endswith(end) else end * 2
        return Step(path, "change", f"{old}{gap}{block}", "a block is added at the end")
    if not 0 <= first < last:
        raise BadInput(f"{path}: the block between {BEGIN} and {END} is broken", "restore or remove both lines")
    new = old[:first] + block.rstrip() + old[last + len(END) :]
    if new == old:
        return Step(path, "keep", None, "is up to date")
    return Step(path, "change", new, "the block is renewed")


def _read(work_tree: Path, path: str) -> str | None:
    """The text of a file of the work tree, None if there is none."""
    target = work_tree / _target_of(work_tree, path)
    for folder in reversed(target.relative_to(work_tree).parents[:-1]):
        if os.path.lexists(work_tree / folder) and not (work_tree / folder).is_dir():
            raise BadInput(f"{folder} is no folder, so {path} cannot be in it", "move it away, then run this again")
    if target.exists() and not target.is_file():  # a FIFO would hold us up for ever
        raise BadInput(f"{path} is no regular file", "move it away, then run filemem init again")
    try:
        return target.read_bytes().decode() if target.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None


def _target_of(work_tree: Path, path: str) -> str:
    """Where the content of a file stands: at its path, or, of a link, at the file of the work tree that it leads to."""
    top = Path(os.path.realpath(work_tree))
    real = Path(os.path.realpath(top / path))
    inside = real.is_relative_to(top) and ".git" not in real.relative_to(top).parts and not real.is_symlink()
    if not inside or os.path.realpath(top / Path(path).parent) != str((top / path).parent):
        raise BadInput(
            f"{path} is a symbolic link, or lies behind one, that filemem init does not follow",
            "it follows a link of a file to another file of the project, and none of a folder",
        )
    return real.relative_to(top).as_posix()


def shown(answer: Mapping[str, Any]) -> str:
    """What init did, or would do, in words."""
    from filemem.cli.show import rows, rows_of

    would = "would " if answer["dry_run"] else ""
    verbs = {"create": f"{would}create", "change": f"{would}change", "keep": "keep"}
    said = []
    for step in answer["steps"]:
        said.append(f"{verbs[step['action']]} {step['path']}" + (f"  ({step['note']})" if step["note"] else ""))
        content = (step["content"] or "") if answer["dry_run"] else ""
        said += [f"    {row}" for row in content.splitlines()]
    if not answer["dry_run"] and answer["to_commit"]:
        here = " on this branch" if answer.get("branch") else ""
        said.append(f"nothing was staged or committed{here}: look at the files, then commit them yourself")
        if here and config.REPOSITORY_FILE in answer["to_commit"]:
            said.append(f"until {config.REPOSITORY_FILE} is committed and pushed, other clones do not find the memory")
    return rows_of(*said, *rows(answer, "warning", 2))
