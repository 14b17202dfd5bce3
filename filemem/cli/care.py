"""Commands that set up and maintain: init, doctor, index, sync, status, completion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import get_completion_class

from filemem import config
from filemem.cli import show
from filemem.cli.options import COMPLETE, Fields, as_json, pass_project, tool
from filemem.cli.project import Project, emit
from filemem.cli.project import status as show_status


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--own-branch",
    metavar="[NAME]",
    is_flag=False,
    flag_value="filemem",
    help="Keep the records on a branch of their own (default name: filemem).",
)
@click.option(
    "--client",
    default="auto",
    metavar="auto|all|NAME,...",
    help="Coding agents to set up.  [default: auto]",
)
@click.option(
    "--command",
    default="filemem",
    show_default=True,
    help="How they start filemem, e.g. 'uvx filemem'.",
)
@click.option("--profile", default="", help="Whose tools the server lists: docs/migrating.md.")
@click.option(
    "--hooks",
    metavar="none|HOOK,...",
    is_flag=False,
    flag_value="start,prompt-first,edits,failures",
    help="Their hooks: start, prompt-first, prompt, edits, failures, capture, remind."
    "  [default: start,prompt-first,edits,failures]",
)
@click.option(
    "--undo", is_flag=True, help="Remove what init wrote; with --client NAME for that agent only."
)
@as_json
@pass_project
def init(
    project: Project,
    /,
    as_json: bool,
    dry_run: bool,
    own_branch: str | None,
    undo: bool,
    **wiring: Any,
) -> None:
    """Set up a project.

    Writes memory/README.md, memory/private/.gitignore, a block in AGENTS.md, which a CLAUDE.md that is there takes in,
    and an entry in .mcp.json and hooks in the files of each coding agent that the project uses; .filemem.toml if the records
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
      filemem init --client codex,cursor --hooks=none
      filemem init --undo
      filemem --store docs/adr init
      filemem init --own-branch
    """
    from filemem.agents import clients
    from filemem.agents import init as setup
    from filemem.dialects.tool import profile as offered

    if wiring["profile"]:
        offered(wiring["profile"])  # one that is unknown is refused
    wanted = clients.Wiring.of(**wiring)
    if undo:
        answer = setup.undo(project.folder, project.store, wanted, dry_run=dry_run)
    else:
        branch = "" if own_branch is None else config.branch_name(own_branch)
        answer = setup.run(project.folder, project.store, wanted, dry_run=dry_run, branch=branch)
    emit(answer, as_json, _setup_shown)


def _setup_shown(answer: show.Answer) -> str:
    """What init did, or would do, in words."""
    lines = [line for step in answer["steps"] for line in _step_lines(step, answer["dry_run"])]
    lines += _after_setup(answer)
    if answer["clients"]:
        lines.append("coding agents, and what each still asks of you:")
        lines += [f"  {line}" for line in answer["clients"]]
    return show.rows_of(*lines, *show.rows(answer, "warning hint", 2))


def _step_lines(step: show.Answer, dry_run: bool) -> Iterator[str]:
    would = "would " if dry_run and step["action"] != "keep" else ""
    note = f"  ({step['note']})" if step["note"] else ""
    yield f"{would}{step['action']} {step['path']}{note}"
    yield from step.get("diff", ())


def _after_setup(answer: show.Answer) -> Iterator[str]:
    changed = any(step["action"] != "keep" for step in answer["steps"])
    if changed and not answer["dry_run"]:
        yield "nothing was staged or committed here: look at the files, then commit them yourself"
        if answer["branch"]:
            yield (
                f"until {config.REPOSITORY_FILE} is committed and pushed,"
                " other clones do not find the memory"
            )
    if "undo" in answer:
        yield "what agents keep in their own files stays" if changed else "nothing to undo"


@click.command()
@as_json
@pass_project
@click.pass_context
def doctor(context: click.Context, project: Project, /, as_json: bool) -> None:
    """Check Git, the memory and each coding agent, and show what to do. Writes nothing.

    For each agent: whether its program is on the PATH, whether its file starts filemem, and whether
    you trusted the folder or approved the server, if your own files show that. Only `filemem serve`
    is started, as a test; any other command is shown and not run.

    Exit status: 0 all is well, 1 there is something to do.

    \b
    Example:
      filemem doctor
    """
    from filemem.agents import doctor as agents

    checks = agents.checks(project.folder, project.store)
    left = agents.todo(checks)
    rows = [check._asdict() for check in checks]
    emit({"success": True, "checks": rows, "todo": left}, as_json, _checks_shown)
    context.exit(1 if left else 0)


def _checks_shown(answer: show.Answer) -> str:
    """The result of doctor in words."""
    lines = [f"{check['name']}: {check['state']}" for check in answer["checks"]]
    steps = answer["todo"] or ["nothing"]
    return show.rows_of(*lines, *(show.styled(f"to do: {step}", "yellow") for step in steps))


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
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also the index and its model, and all that is only counted.",
)
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
