"""Commands that set up and maintain: init, index, sync, status; and completion, with what it completes.

Nobody waits for a completion, so neither index nor Git is asked: topics and ids are those in the names of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from filemem import config
from filemem.cli.options import COMPLETE, Fields, as_json, pass_project, tool
from filemem.cli.project import Project, emit
from filemem.cli.project import status as show_status

_IDS = frozenset(("id", "ids", "other", "supersedes", "builds_on", "debates", "synthesizes"))
_FILES = frozenset(("affects", "file", "files", "files_modified", "files_read", "open_files", "path", "paths", "was"))
_TOPICS = frozenset(("topic", "word"))
_PLAIN = re.compile(r"(?!-)[\w./@+\-\u0300-\U0010ffff]+")  # what no shell takes for more than a word
_OURS = re.compile(r"\d{8}-([^/]*)-([0-9a-z]{8})\.md$")  # how a file of ours ends: day, title, short id
_CUT = 20  # bytes from which on the topic in a file's name may be cut
_HEAD = 4096  # bytes of a file in which its topic stands
_MOST = 200  # words that are shown


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--own-branch",
    metavar="[NAME]",
    is_flag=False,
    flag_value="filemem",
    help="Keep the records on a branch of their own (default name: filemem).",
)
@click.option("--client", default="auto", metavar="auto|all|NAME,...", help="Coding agents to set up.  [default: auto]")
@click.option("--command", default="filemem", show_default=True, help="How they start filemem, e.g. 'uvx filemem'.")
@click.option("--profile", default="", help="Whose tools the server lists: docs/migrating.md.")
@click.option(
    "--hooks",
    metavar="[HOOK,...]",
    is_flag=False,
    flag_value="start,prompt-first",
    help="Add hooks: start, prompt-first, prompt, edits, capture, remind (default: the first two).",
)
@click.option("--undo", is_flag=True, help="Remove what init wrote; with --client NAME for that agent only.")
@as_json
@pass_project
def init(project: Project, /, as_json: bool, dry_run: bool, own_branch: str | None, undo: bool, **wiring: Any) -> None:
    """Set up a project.

    Writes memory/README.md, memory/private/.gitignore, a block in AGENTS.md, which a CLAUDE.md that is there takes in,
    and an entry in .mcp.json and in the file of each coding agent that the project uses; .filemem.toml if the records
    are in another folder or on their own branch. Creates a Git repository if needed. Replaces only its own block
    and entries; may be run again. Nothing is staged or committed on this branch. docs/agents.md has the agents.

    Beside a folder of decision records such as docs/adr it asks which of the two you want: filemem --store docs/adr
    init works in that folder, and every later command and the MCP server find it.

    Records travel with the code and its pull requests. With --own-branch they are on a branch that has nothing else,
    and memory/ is a work tree of it: every branch and every clone sees one memory, and `filemem sync` shares it. In a
    clone of such a project, plain `filemem init` attaches it.

    \b
    Examples:
      filemem init --dry-run
      filemem init --client codex,cursor --hooks
      filemem init --undo
      filemem --store docs/adr init
      filemem init --own-branch
    """
    from filemem.cli import clients, setup
    from filemem.dialects.tool import profile as offered

    if wiring["profile"]:
        offered(wiring["profile"])  # one that is unknown is refused
    wanted = clients.Wiring.of(**wiring)
    if undo:
        answer = setup.undo(project.folder, project.store, wanted, dry_run=dry_run)
    else:
        branch = "" if own_branch is None else config.branch_name(own_branch)
        answer = setup.run(project.folder, project.store, wanted, dry_run=dry_run, branch=branch)
    emit(answer, as_json, setup.shown)


@tool(
    click.option("--rebuild", is_flag=True, help="Build it anew from the files."),
    left=lambda answer: answer.get("degraded"),
)
def index(**options: Any) -> Fields:
    """Update the search index, or rebuild it.

    Exit status: 0 done, 1 not all records can be found by meaning; the output says why.

    \b
    Example:
      filemem index --rebuild
    """
    return options


@tool(left=lambda answer: answer["left"])
def sync() -> Fields:
    """Sync the memory with its remote: fetch, merge record by record, push.

    Made for a memory on a branch of its own. On a branch that has code too it fetches and merges, but pushes only if
    every commit to push changes the store alone; otherwise it names the first other commit and leaves the push to you.
    Never rewrites a commit, never stashes, never forces: what stands in the way is reported, with the command that
    helps.

    Exit status: 0 shared, 1 something is left to you, 5 both sides changed the same lines.

    \b
    Example:
      filemem sync
    """
    return {}


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Also the index and its model, and all that is only counted.")
@as_json
@pass_project
def status(project: Project, as_json: bool, verbose: bool) -> None:
    """Show the state of the memory and what to do: forks, broken headers, uncommitted or unpushed records.

    \b
    Example:
      filemem status
    """
    show_status(project, as_json, verbose=verbose)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the script that completes commands, options, topics, ids and files in your shell.

    \b
    Examples:
      filemem completion bash > ~/.local/share/bash-completion/completions/filemem
      filemem completion zsh > ~/.zfunc/_filemem
      filemem completion fish > ~/.config/fish/completions/filemem.fish
    """
    if made := get_completion_class(shell):
        click.echo(made(context.find_root().command, {}, "filemem", COMPLETE).source(), nl=False)


class Value(click.types.StringParamType):
    """What can be completed of a parameter by its name."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Files, which the shell knows itself; topics or ids, of the newest records first."""
        if param.name in _FILES:
            return [CompletionItem(incomplete, type="file")]
        words = _topics if param.name in _TOPICS else _ids if param.name in _IDS else None
        named = words(_store(ctx.find_root().params), incomplete) if words else ()
        found = (one for one in named if all(part.isprintable() and _PLAIN.fullmatch(part or "_") for part in one))
        return [CompletionItem(word, help=title) for word, title in islice(found, _MOST)]


def _store(given: Mapping[str, Any]) -> str:
    """The folder of records that a command line means, as far as names of folders show it."""
    here = config.personal_folder() if given["personal"] else Path(given["folder"] or ".").absolute()
    top = next((one for one in (here, *here.parents) if (one / ".git").exists()), here)
    return f"{top}/{given['store'] or config.load(top).store}"


def _records(store: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder below the store, and the records in it: the newest first, as folders and files are named by day."""
    for at, folders, names in os.walk(store):
        folders[:] = sorted((name for name in folders if name[0] != "."), reverse=True)
        yield at[len(store) + 1 :], [name for name in names if name.endswith(".md") and name != "README.md"]


def _ids(store: str, start: str) -> Iterator[tuple[str, str]]:
    """What names a record on the command line, its short id or else the name of its file; and its title."""
    for _, names in _records(store):
        for name in names:
            ours = _OURS.search(name)
            word = ours[2] if ours else name
            if word.startswith(start):
                yield word, ours[1] if ours else ""


def _topics(store: str, start: str) -> Iterator[tuple[str, str]]:
    """The topics of decisions, in the form in which no shell needs quotes; and the title of a decision."""
    told = set()
    for folder, names in _records(store):
        for name in names:
            topic = name.rpartition("--")[0]
            if topic and topic not in told and topic.startswith(start) and (ours := _OURS.search(name)):
                told.add(topic)
                yield _whole(f"{store}/{folder}/{name}", topic), ours[1]


def _whole(path: str, topic: str) -> str:
    """A topic as the file states it, if it may be cut in the name of the file."""
    if len(os.fsencode(topic)) < _CUT:
        return topic
    with open(path, "rb") as file:  # noqa: PTH123 - the name of a file may be any bytes
        stated = re.search(rb"(?m)^topic: *[\"']?([^\"'\n]+)", file.read(_HEAD))
    return re.sub(r"[\s_\-/.:]+", "-", stated[1].decode(errors="replace").casefold()).strip("-") if stated else topic
