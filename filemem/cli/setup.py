"""The commands init and doctor: they set up a project and check that it is ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from filemem import config
from filemem.agents import init as agents
from filemem.agents.clients import Wiring
from filemem.agents.doctor import Check, list_todos, run_checks
from filemem.cli.options import json_option, pass_project
from filemem.cli.project import Project, print_answer
from filemem.cli.text import HINT, WARNING, Answer, format_fields, join_lines, style_text
from filemem.dialects.tool import load_profile


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
    help="Command that starts filemem, such as 'uvx filemem'.",
)
@click.option(
    "--profile", default="", help="Set of tools that the server lists: docs/migrating.md."
)
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
@json_option
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

    Writes memory/README.md, memory/private/.gitignore, a block in AGENTS.md, which an existing
    CLAUDE.md imports, and entries in .mcp.json and in the files of each coding agent that the
    project uses, with hooks; .filemem.toml if the records are in another folder or on their own
    branch. Creates a Git repository if needed. Replaces only its own block and entries; may be run
    again. Nothing is staged or committed on this branch. docs/agents.md has the agents.

    In a project with a folder of decision records such as docs/adr, init asks which of the two you
    want. filemem --store docs/adr init uses that folder; every later command and the MCP server
    find it.

    Records travel with the code and its pull requests. With --own-branch they are on a branch that
    has nothing else, and memory/ is a work tree of it: every branch and every clone sees one
    memory, and `filemem sync` shares it. In a clone of such a project, plain `filemem init`
    attaches it.

    \b
    Examples:
      filemem init --dry-run
      filemem init --client codex,cursor --hooks=none
      filemem init --undo
      filemem --store docs/adr init
      filemem init --own-branch
    """
    if wiring["profile"]:
        load_profile(wiring["profile"])  # raises for an unknown profile
    chosen_wiring = Wiring.from_options(**wiring)
    if undo:
        answer = agents.undo_set_up(project.folder, project.store, chosen_wiring, dry_run=dry_run)
    else:
        branch = ""
        if own_branch is not None:
            branch = config.validate_branch_name(own_branch)
        answer = agents.set_up_project(
            project.folder, project.store, chosen_wiring, dry_run=dry_run, branch=branch
        )
    print_answer(answer, as_json, _render_init)


def _render_init(answer: Answer) -> str:
    """Render what init did, or would do."""
    rows: list[str] = []
    for step in answer["steps"]:
        rows.append(_format_step(step, dry_run=answer["dry_run"]))
        rows += step.get("diff", ())
    rows += _iter_next_steps(answer)
    if answer["clients"]:
        rows.append("coding agents, and what each still asks of you:")
        rows += [f"  {client}" for client in answer["clients"]]
    rows += format_fields(answer, [WARNING, HINT], indent=2)
    return join_lines(rows)


def _format_step(step: Answer, *, dry_run: bool) -> str:
    row = f"{step['action']} {step['path']}"
    if dry_run and step["action"] != "keep":
        row = f"would {row}"
    if step["note"]:
        row += f"  ({step['note']})"
    return row


def _iter_next_steps(answer: Answer) -> Iterator[str]:
    """Yield what the user should do after init."""
    has_changes = any(step["action"] != "keep" for step in answer["steps"])
    if has_changes and not answer["dry_run"]:
        yield "nothing was staged or committed here: look at the files, then commit them yourself"
        if answer["branch"]:
            committed_file = f"until {config.REPOSITORY_FILE} is committed and pushed,"
            yield f"{committed_file} other clones do not find the memory"
    if "undo" in answer:
        yield "what agents keep in their own files stays" if has_changes else "nothing to undo"


@click.command()
@json_option
@pass_project
@click.pass_context
def doctor(context: click.Context, project: Project, /, as_json: bool) -> None:
    """Check Git, the memory and each coding agent, and show what to do. Writes nothing.

    An organisation's service that your settings name is asked one question.

    For each agent: whether its program is on the PATH, whether its file starts filemem, and whether
    you trusted the folder or approved the server, if your own files show that. Only `filemem serve`
    is started, as a test; any other command is shown and not run.

    Exit status: 0 all is well, 1 there is something to do.

    \b
    Example:
      filemem doctor
    """
    from filemem.org.together import check_service

    checks = run_checks(project.folder, project.store)
    service = check_service(project.working_folder)
    if service:
        state, todo = service
        checks.append(Check("organisation", state=state, todo=todo))
    todos = list_todos(checks)
    rows = [check._asdict() for check in checks]
    print_answer({"success": True, "checks": rows, "todo": todos}, as_json, _render_checks)
    if todos:
        context.exit(1)


def _render_checks(answer: Answer) -> str:
    """Render the result of each check, and what to do."""
    checks = answer["checks"]
    rows = [f"{check['name']}: {check['state']}" for check in checks]
    todos = answer["todo"] or ["nothing"]
    for todo in todos:
        row = f"to do: {todo}"
        rows.append(style_text(row, "yellow"))
    return join_lines(rows)
