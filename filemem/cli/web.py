"""Servers: `serve` speaks MCP over stdio or HTTP; `web` adds the routes of other systems and a page for people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem.cli.options import many, pass_project
from filemem.cli.project import Project
from filemem.errors import BadInput, BrokenStore, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.dialects.tool import Advertised
    from filemem.memory import Memory
    from filemem.web.log import Log

HOST, PORT = "127.0.0.1", 3847
UNBUILT = 10.0  # seconds that the first call waits if there is no index yet: before that, nothing would be found
_names = many("--name", "names", help="Over HTTP: a further host name by which clients call this machine.")
_profile = click.option("--profile", default="native", show_default=True, help="Whose tools are listed: docs/mcp.md.")
_prefix = click.option("--prefix", default="", help="Put this before every tool name, for example mama_.")
_token = click.option(
    "--token",
    default="",
    help="Over HTTP: what every request must carry. Other users see it here; set FILEMEM_TOKEN instead.",
)


@click.command()
@click.option("--http", "address", metavar="HOST:PORT", help="Serve HTTP as filemem web does, not stdio.")
@_token
@_names
@_profile
@_prefix
@click.option("--config", type=click.Path(path_type=Path), help="A settings file of powermem; its user_id is taken.")
@click.option("--env", type=click.Path(path_type=Path), help="A file of variables; what FILEMEM_... it sets is taken.")
@pass_project
def serve(
    project: Project,
    address: str | None,
    token: str,
    names: tuple[str, ...],
    profile: str,
    prefix: str,
    config: Path | None,
    env: Path | None,
) -> None:
    """Serve this project's memory over MCP: stdio by default.

    Over HTTP only programs of this machine may ask. An address that other machines reach needs a token; there is no
    encryption, so put a proxy or a tunnel in front.

    \b
    Examples:
      filemem serve
      filemem serve --http 127.0.0.1:3847
      FILEMEM_TOKEN=$(openssl rand -hex 32) filemem serve --http 0.0.0.0:3847 --name build.lan
    """
    from filemem import VERSION, server
    from filemem import config as settings
    from filemem.dialects import tool

    advertised = tool.profile(profile, prefix)
    user = _user(config, env)
    if address is None:
        if unneeded := settings.web().unneeded:
            click.echo(f"filemem: {unneeded}", err=True)
        server.serve_stdio(advertised, opener(project, user), version=VERSION, on_crash=report)
        return
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not host:
        raise BadInput(f"--http takes HOST:PORT, not {address!r}", "for example 127.0.0.1:3847")
    serve_http(project, advertised, host.strip("[]"), int(port), token, names, user)


@click.command()
@click.option("--host", default=HOST, show_default=True, help="Address to listen on; off loopback a token is needed.")
@click.option("--port", type=int, help="TCP port; 0 takes a free one.  [default: MAMA_SERVER_PORT, or 3847]")
@_token
@_names
@_profile
@_prefix
@pass_project
def web(
    project: Project, host: str, port: int | None, token: str, names: tuple[str, ...], profile: str, prefix: str
) -> None:
    """Serve this project's memory over HTTP: a page for people, the routes of MAMA and mem-claude, and MCP.

    Requests that write need the token in the address printed at the start.

    \b
    Examples:
      filemem web
      filemem web --port 8080
    """
    from filemem import config
    from filemem.dialects import tool

    usual = config.web().port
    chosen = port if port is not None else PORT if usual is None else usual
    serve_http(project, tool.profile(profile, prefix), host, chosen, token, names)


def _user(config: Path | None, env: Path | None) -> str:
    """Read the files that powermem's server takes; return whose memories are meant, and report what is not needed."""
    from filemem import config as settings

    if env and (unneeded := settings.environment_file(env)):
        click.echo(f"filemem: {unneeded}", err=True)
    user, further = settings.powermem_file(config) if config else ("", "")
    if config and further:
        click.echo(f"filemem: {config.name}: {further} not needed here: docs/migrating.md says why", err=True)
    return user


def serve_http(
    project: Project, offer: Advertised, host: str, port: int, token: str, names: tuple[str, ...], user: str = ""
) -> None:
    """Serve the application until the process is told to end.

    If no token is given one is made that guards only what writes; a given one every request must carry.
    """
    import secrets

    from filemem import VERSION, config
    from filemem.server import http
    from filemem.web.site import Site

    stated = config.web()
    strict = token or config.load(project.folder).token
    known = strict or stated.token
    token = known or secrets.token_urlsafe(24)
    log, trouble = _log(project)

    def tell(port: int) -> None:
        # A token that was made is shown here and nowhere else; one that was given is known.
        page = f"http://{f'[{host}]' if ':' in host else host}:{port}/viewer{'' if known else f'?token={token}'}"
        for line in filter(None, (f"a page for people: {page}", trouble, stated.unneeded)):
            click.echo(f"filemem: {line}", err=True)
        if log is not None:
            log.add(f"started on port {port}")

    site = Site(log, stated)
    address = http.Address(host, port, remote=bool(known), token=token, names=names, lenient=not strict)
    http.serve(offer, opener(project, user, broken=True), VERSION, address, report, site, tell)


def _log(project: Project) -> tuple[Log | None, str]:
    """The log beside the repository, if it can be kept; and why nothing can be remembered here, if nothing can."""
    from filemem.repo import Repo
    from filemem.web.log import Log

    try:
        return Log(Repo.discover(project.folder).private / "log"), ""
    except FilememError as error:
        return None, f"no memory can be used here, every call will fail: {error.told}"
    except OSError:
        return None, ""


def opener(
    project: Project, user: str, *, broken: bool = False
) -> Callable[[Callable[[int, int], object], float], Memory]:
    """What opens the memory at the first call, with a watcher beside it that keeps its index in step.

    It takes whom to tell how far long work is, and the seconds to wait for the first look at the files, which may build
    the index; that goes on beside. Closing the memory ends both.

    Args:
        project: where.
        user: who is meant if a call names no user.
        broken: a missing repository is a fault of the server, and not of the request.
    """

    def opened(tell: Callable[[int, int], object], patience: float) -> Memory:
        from filemem.memory import Memory
        from filemem.watch import Watcher

        try:
            memory = Memory.open(project.folder, store=project.store, serving=True, progress=tell)
        except NotFound as error:
            raise (BrokenStore(error.message, error.hint) if broken else error) from None
        memory.stated_user = user
        watcher = Watcher(memory)
        watcher.start()
        watcher.looked.wait(patience if memory.indexed else max(patience, UNBUILT))
        memory.on_close(watcher.stop)
        return memory

    return opened


def report(tool: str, error: BaseException) -> None:
    """Leave a report of a defect behind; the server goes on."""
    import traceback

    from filemem.errors import crash_report

    trace = "".join(traceback.format_exception(error))
    click.echo(f"filemem: defect in {tool}, report in {crash_report(trace, ['filemem', 'serve', tool])}", err=True)
