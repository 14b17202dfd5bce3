"""Commands that set up, look after and serve: init, index, sync, status; MCP over stdio, and over HTTP with a page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem.cli.options import Fields, as_json, many, pass_project, tool
from filemem.cli.project import Project, emit
from filemem.cli.project import status as show_status

if TYPE_CHECKING:
    from filemem.memory import Memory

PATIENCE = 1.0  # seconds that the first call waits for the first look at the files, which goes on beside


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
    are in another folder or on a branch of their own. Creates a Git repository if needed. Replaces only its own block
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
    from filemem import config
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

    Exit status: 0 done, 1 not all records can be found by meaning; the answer says why.

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
    """Show how the memory stands, and what to do: forks, broken headers, what is not committed, not pushed or waits.

    \b
    Example:
      filemem status
    """
    show_status(project, as_json, verbose=verbose)


_profile = click.option(
    "--profile", default="native", show_default=True, help="Whose tools are listed: docs/migrating.md."
)
_prefix = click.option("--prefix", default="", help="Put this before every tool name, for example mama_.")


@click.command()
@_profile
@_prefix
@click.option("--config", type=click.Path(path_type=Path), help="A settings file of powermem; its user_id is taken.")
@click.option("--env", type=click.Path(path_type=Path), help="A file of variables; what FILEMEM_... it sets is taken.")
@pass_project
def serve(project: Project, profile: str, prefix: str, config: Path | None, env: Path | None) -> None:
    """Serve this project's memory over MCP on standard input and output. `filemem web` serves it over HTTP.

    Outside a Git repository it serves your personal memory, a repository in your data folder made at the first save.
    `filemem --personal serve` serves that one anywhere; `filemem -C DIR serve` serves the memory of DIR or none.

    \b
    Examples:
      filemem serve
      filemem serve --profile powermem
    """
    from filemem import VERSION, server
    from filemem import config as settings
    from filemem.cli import personal, workspace
    from filemem.dialects.tool import profile as offered

    told = [settings.environment_file(env)] if env else []
    user, further = settings.powermem_file(config) if config else ("", "")
    told += [f"{config.name}: {further} not needed here: docs/migrating.md says why"] if config and further else []
    for line in filter(None, (*told, settings.web().unneeded)):
        click.echo(f"filemem: {line}", err=True)
    if sys.stdin.isatty():
        waits = "waiting for an MCP client on standard input; docs/mcp.md says how to connect one; Ctrl-C ends"
        click.echo(f"filemem: {waits}", err=True)
    opener = personal.opener(project, _opener(project), user)
    server.serve_stdio(workspace.offered(project, offered(profile, prefix)), opener, version=VERSION, on_crash=_report)


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; off loopback a token is needed."
)
@click.option("--port", type=int, help="TCP port; 0 takes a free one.  [default: MAMA_SERVER_PORT, or 3847]")
@click.option("--token", default="", help="What every request must carry; other users see it here: see FILEMEM_TOKEN.")
@many("--name", "names", help="A further host name by which clients call this machine.")
@_profile
@_prefix
@pass_project
def web(
    project: Project, host: str, port: int | None, token: str, names: tuple[str, ...], profile: str, prefix: str
) -> None:
    """Serve this project's memory over HTTP: a page for people, the routes of MAMA and mem-claude, and MCP at /mcp.

    Only programs of this machine may ask, and requests that write need the token in the address printed at the start.
    An address that other machines reach needs a token of yours; there is no encryption, so put a proxy or a tunnel in
    front.

    \b
    Examples:
      filemem web
      filemem web --port 8080
      FILEMEM_TOKEN=$(openssl rand -hex 32) filemem web --host 0.0.0.0 --name build.lan
    """
    import secrets

    from filemem import VERSION, config
    from filemem.cli import workspace
    from filemem.dialects.tool import profile as offered
    from filemem.repo import Repo
    from filemem.server import http
    from filemem.web.site import Site

    Repo.discover(project.folder).close()  # without one it does not start
    offer, stated = workspace.offered(project, offered(profile, prefix)), config.web()
    strict = token or config.load(project.folder).token
    known = strict or stated.token
    token = known or secrets.token_urlsafe(24)
    site = Site(stated)

    def tell(port: int) -> None:
        # A token that was made is shown here and nowhere else; one that was given is known.
        page = f"http://{f'[{host}]' if ':' in host else host}:{port}/viewer{'' if known else f'?token={token}'}"
        for line in filter(None, (f"a page for people: {page}", stated.unneeded)):
            click.echo(f"filemem: {line}", err=True)
        site.note(f"started on port {port}")

    chosen = next((one for one in (port, stated.port) if one is not None), 3847)
    address = http.Address(host, chosen, remote=bool(known), token=token, names=names, lenient=not strict)
    http.serve(offer, _opener(project), VERSION, address, _report, site, tell)


def _opener(project: Project) -> Callable[[], Memory]:
    """What opens the memory and a watcher beside it at the first call."""

    def opened() -> Memory:
        from filemem.cli import workspace
        from filemem.memory import Memory
        from filemem.watch import Watcher

        memory = Memory.open(project.folder, store=project.store, serving=True)
        watcher = Watcher(memory)
        # Where the newest files answer, the others take longer than anyone waits.
        if memory.keeper.ask(lambda store: store.unread):
            watcher.start(after=PATIENCE)
        else:
            watcher.start()
            watcher.looked.wait(PATIENCE)
        memory.closing.append(watcher.stop)
        if workspace.takes_part(project):
            workspace.join(memory)
        return memory

    return opened


def _report(tool: str, error: BaseException) -> None:
    """Leave a report of a defect behind; the server goes on."""
    import traceback

    from filemem.errors import crash_report

    trace = "".join(traceback.format_exception(error))
    click.echo(f"filemem: defect in {tool}, report in {crash_report(trace, ['filemem', 'serve', tool])}", err=True)
