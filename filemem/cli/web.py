"""Servers: `serve` speaks MCP over stdio or HTTP; `web` adds the routes of other systems and a page for people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem.cli import Project, many, pass_project
from filemem.errors import BadInput, BrokenStore, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.dialects.tool import Advertised
    from filemem.memory import Memory
    from filemem.web.log import Log

HOST, PORT = "127.0.0.1", 3847


def serve_http(
    project: Project, offer: Advertised, host: str, port: int, token: str, names: tuple[str, ...], user: str = ""
) -> None:
    """Serve the application until the process is told to end.

    Where no token is given one is made that guards only what writes; a given one every request must carry.
    """
    import secrets

    from filemem import VERSION, config
    from filemem.server import http
    from filemem.web.route import Slack
    from filemem.web.site import Site

    stated = config.web()
    strict = token or config.load(project.folder).token
    known = strict or stated.token
    token = known or secrets.token_urlsafe(24)
    log, unusable = _log(project)

    def tell(port: int) -> None:
        # A token that was made is told here and nowhere else; one that was given is known.
        page = f"http://{f'[{host}]' if ':' in host else host}:{port}/viewer{'' if known else f'?token={token}'}"
        for line in (f"a page for people: {page}", *unusable, *stated.unneeded):
            click.echo(f"filemem: {line}", err=True)

    opening = opener(project, user)

    def opened(tell: Callable[[int, int], object], patience: float) -> Memory:
        try:
            return opening(tell, patience)
        except NotFound as error:  # that there is no repository is no record that was not found
            raise BrokenStore(error.message, error.hint) from None

    site = Site(log, Slack(stated.slack_token, stated.slack_url), tell)
    access = http.Access(remote=bool(known), token=token, names=names, lenient=not strict)
    http.serve(offer, opened, VERSION, http.Address(host, port, access), report, site)


def _log(project: Project) -> tuple[Log | None, list[str]]:
    """The log beside the repository, if it can be kept; and why nothing can be remembered here, if nothing can."""
    from filemem.repo import Repo
    from filemem.web.log import Log

    try:
        return Log(Repo.discover(project.folder).private / "log"), []
    except FilememError as error:
        return None, [f"no memory can be used here, every call will fail: {error.message}; {error.hint}".rstrip("; ")]
    except OSError:
        return None, []


@click.command()
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Serve HTTP as filemem web does, not stdio.",
)
@click.option(
    "--token", help="With --http: what every request must carry as bearer token. Others see it here; set FILEMEM_TOKEN."
)
@many("--name", "names", help="With --http: a further host name by which clients call this machine.")
@click.option("--profile", default="native", show_default=True, help="Whose tools are listed: docs/migrating.md.")
@click.option("--prefix", default="", help="Put this before every tool name, for example mama_.")
@click.option("--config", type=click.Path(path_type=Path), help="A settings file of powermem; its user_id is taken.")
@click.option("--env", type=click.Path(path_type=Path), help="A file of variables; what FILEMEM_... it sets is taken.")
@pass_project
def serve(
    project: Project,
    address: str | None,
    token: str | None,
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
    from filemem.dialects import tool

    advertised = tool.profile(profile, prefix)
    user = _named_files(config, env)
    if address is None:
        server.serve_stdio(advertised, opener(project, user), version=VERSION, on_crash=report)
        return
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not host:
        raise BadInput(f"--http takes HOST:PORT, not {address!r}", "for example 127.0.0.1:3847")
    serve_http(project, advertised, host.strip("[]"), int(port), token or "", names, user)


def _named_files(config: Path | None, env: Path | None) -> str:
    """Read the files that powermem's server takes; return whose memories are meant, and report what is not needed."""
    from filemem import config as others

    told = list(others.environment_file(env)) if env else []
    user = ""
    if config:
        user, further = others.powermem_file(config)
        told += [f"{config.name}: {', '.join(further)} not needed here: docs/migrating.md says why"] if further else []
    elif trouble := others.powermem_user()[1]:
        told.append(trouble)
    click.echo("".join(f"filemem: {line}\n" for line in told), err=True, nl=False)
    return user


def report(tool: str, error: BaseException) -> None:
    """Leave a report of a defect behind; the server goes on."""
    import traceback

    from filemem.errors import crash_report

    trace = "".join(traceback.format_exception(error))
    click.echo(f"filemem: defect in {tool}, report in {crash_report(trace, ['filemem', 'serve', tool])}", err=True)


UNBUILT = 10.0  # seconds that the first call waits where there is no index yet: before that, nothing would be found


def opener(project: Project, user: str) -> Callable[[Callable[[int, int], object], float], Memory]:
    """What opens the memory at the first call, with a watcher beside it that keeps its index in step.

    It takes whom to tell how far long work is, and the seconds to wait for the first look at the files, which may build
    the index; that goes on beside. Closing the memory ends both. `user` is meant where a call names none.
    """

    def opened(tell: Callable[[int, int], object], patience: float) -> Memory:
        from filemem.memory import Memory
        from filemem.watch import Watcher

        memory = Memory.open(project.folder, store=project.store, serving=True, progress=tell)
        memory.stated_user = user
        watcher = Watcher(memory)
        watcher.start()
        watcher.looked.wait(patience if memory.indexed else max(patience, UNBUILT))
        memory.on_close(watcher.stop)
        return memory

    return opened


@click.command()
@click.option("--host", default=HOST, show_default=True, help="Address to listen on; off loopback a token is needed.")
@click.option("--port", type=int, help="TCP port; 0 takes a free one.  [default: MAMA_SERVER_PORT, or 3847]")
@click.option("--token", default="", help="What every request must carry. Others see it here; set FILEMEM_TOKEN.")
@many("--name", "names", help="A further host name by which clients call this machine.")
@click.option("--profile", default="native", show_default=True, help="Which tools MCP advertises.")
@click.option("--prefix", default="", help="Put this before every tool name, for example mama_.")
@pass_project
def web(
    project: Project, host: str, port: int | None, token: str, names: tuple[str, ...], profile: str, prefix: str
) -> None:
    """Serve this project's memory over HTTP: a page for people, the routes of MAMA and mem-claude, and MCP.

    What writes needs the token that the address printed at the start holds.

    \b
    Examples:
      filemem web
      filemem web --port 8080
    """
    from filemem import config as others
    from filemem.dialects import tool

    stated = others.web().port
    chosen = port if port is not None else PORT if stated is None else stated
    serve_http(project, tool.profile(profile, prefix), host, chosen, token, names)
