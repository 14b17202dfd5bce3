"""Plan the files that `filemem init` writes to the project, and their removal.

A plan is a list of steps with the whole new text of each file, which can be shown before it is
written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from filemem import config
from filemem.agents import splice
from filemem.dialects.tool import format_count
from filemem.errors import BadInput
from filemem.files import describe_unread_files
from filemem.memory import own_branch
from filemem.memory.own_branch import list_numbered_files
from filemem.record.identity import PRIVATE_FOLDER, is_markup

BEGIN = "<!-- filemem:begin -->"
END = "<!-- filemem:end -->"
IMPORT = "@AGENTS.md <!-- filemem -->"

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


def build_step(path: str, old: str | None, new: str | None, note: str = "") -> Step:
    """Return the step from the old text of a file to the new; None if it does not exist."""
    if new == old:
        return Step(path, "keep", None, note or "is up to date")
    if new is None:
        return Step(path, "remove", None, note)
    return Step(path, "create" if old is None else "change", new, note)


def plan_settings(work_tree: Path, store: str, branch: str) -> list[Step]:
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
    old = read_text(work_tree, path) or ""
    end = splice.find_line_end(old)
    lines = [f'{name} = "{value}"{end}' for name, value in settings.items()]
    note = "names the " + " and the ".join(settings)
    return [Step(path, "change" if old else "create", "".join(lines) + old, note)]


def plan_store(work_tree: Path, store: str) -> list[Step]:
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
        if read_text(work_tree, step.path) is None:
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


def plan_store_removal(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Remove a folder without records and the setting that names it; report any other files."""
    own_texts: dict[str, str | None] = {}
    for step in plan_store(work_tree / "nowhere", store):
        own_texts[step.path] = step.content
    paths = _list_files(work_tree, store)
    other_count = 0
    for path in paths:
        if path not in own_texts or read_text(work_tree, path) != own_texts[path]:
            other_count += 1
    if branch or store == own_branch.TOP or other_count:
        note = _format_kept_note(store, branch, other_count)
        return [Step(f"{store}/", "keep", None, note)]
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
    old = read_text(work_tree, config.REPOSITORY_FILE) or ""
    line = f'store = "{store}"{splice.find_line_end(old)}'
    if not old.startswith(line):
        return []
    new = old.removeprefix(line)
    return [build_step(config.REPOSITORY_FILE, old, new or None)]


def plan_agent_files(work_tree: Path, store: str, branch: str) -> list[Step]:
    """Add the block for agents to AGENTS.md, and import it in an existing CLAUDE.md.

    Claude Code reads only that file.
    """
    block = _plan_block(work_tree, store, branch)
    path = "CLAUDE.md"
    old = read_text(work_tree, path)
    if old is None or "@AGENTS.md" in old or BEGIN in old:
        return [block]
    if resolve_target(work_tree, path) == resolve_target(work_tree, block.path):
        return [block]  # one file, linked
    note = "Claude Code reads AGENTS.md by this line"
    return [block, Step(path, "change", splice.add_block(old, IMPORT), note)]


def _plan_block(work_tree: Path, store: str, branch: str) -> Step:
    path = "AGENTS.md"
    sync_note = ""
    if branch:
        sync_note = "\n- The memory has a branch of its own: `filemem sync` shares what was saved."
    text = BLOCK.format(store=store, sync=sync_note)
    old = read_text(work_tree, path)
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
    return build_step(path, old, old[:start] + block + after_block)


def iter_block_removals(work_tree: Path) -> Iterator[Step]:
    """Remove the parts that `plan_agent_files` adds; CLAUDE.md and AGENTS.md may be one file."""
    targets = {resolve_target(work_tree, path): path for path in ("CLAUDE.md", "AGENTS.md")}
    for path in targets.values():
        old = read_text(work_tree, path) or ""
        start = old.find(BEGIN)
        end = old.find(END)
        block = IMPORT
        if 0 <= start < end:
            block = old[start : end + len(END)]
        new = splice.remove_block(old, block)
        if new == old:
            continue
        is_rest_empty = start == 0 and not old[end + len(END) :].strip()
        yield build_step(path, old, None if is_rest_empty else new)


def read_text(work_tree: Path, path: str) -> str | None:
    """Return the text of a file of the work tree; None if it is missing."""
    try:
        target = resolve_target(work_tree, path)
        return (work_tree / target).read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None


def resolve_target(work_tree: Path, path: str) -> str:
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
