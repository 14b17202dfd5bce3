"""The command serve: MCP over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem import VERSION
from filemem.cli import roots, start
from filemem.cli.offer import add_org_scope, build_dialect
from filemem.cli.options import pass_project, prefix_option, profile_option
from filemem.cli.project import Project
from filemem.errors import write_crash_report
from filemem.server import serve_stdio

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.server.calls import CallQueue


@click.command()
@profile_option
@prefix_option
@click.option(
    "--web",
    "page",
    is_flag=True,
    help="Serve the page for people too, on port 3847 or the next free one.",
)
@click.option(
    "--config",
    "powermem_file",
    type=click.Path(path_type=Path),
    help="A settings file of powermem; its user_id is taken.",
)
@click.option(
    "--env",
    "variables",
    type=click.Path(path_type=Path),
    help="A file of variables; what FILEMEM_... it sets is taken.",
)
@pass_project
def serve(
    project: Project,
    profile: str,
    prefix: str,
    page: bool,
    powermem_file: Path | None,
    variables: Path | None,
) -> None:
    """Serve this project's memory over MCP on standard input and output.

    `filemem web` serves it over HTTP. With --web this command also serves a page for people;
    `filemem status` shows the address.

    Outside a Git repository it serves your personal memory, a repository in your data folder that
    the first save creates. `filemem --personal serve` serves that one anywhere; `filemem -C DIR
    serve` serves the memory of DIR or none. A client whose root lies in another work tree of the
    same repository is served that one.

    \b
    Examples:
      filemem serve
      filemem serve --web
      filemem serve --profile powermem
    """
    note = start.apply_settings(profile, variables)
    user, unneeded_note = start.read_powermem_user(powermem_file)
    notes = [note, unneeded_note]
    notes += start.iter_hints(project, profile)
    for line in notes:
        if line:
            click.echo(f"filemem: {line}", err=True)
    tools = build_dialect(project, profile, prefix)
    if not page:  # who can reach a page must not ask an organisation in this user's name
        tools = add_org_scope(project, tools)

    def open_memory() -> Memory:
        from filemem.cli.opener import open_with_personal

        return open_with_personal(project, user)

    def serve_page(calls: CallQueue) -> None:
        from filemem.cli.page import serve_beside_stdio

        serve_beside_stdio(project, tools, calls)

    handle_roots = None
    if not page and not project.personal:  # a page keeps its memory
        handle_roots = roots.build_root_follower(project)
    serve_stdio(
        tools,
        open_memory,
        version=VERSION,
        on_crash=report_crash,
        start_service=serve_page if page else None,
        handle_roots=handle_roots,
    )


def report_crash(tool: str, error: BaseException) -> None:
    """Write a report of a defect in a tool, and name its file; the server goes on."""
    import traceback

    lines = traceback.format_exception(error)
    path = write_crash_report("".join(lines), ["filemem", "serve", tool])
    click.echo(f"filemem: defect in {tool}, report in {path}", err=True)
