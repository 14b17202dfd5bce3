"""Serving HTTP: one application with MCP, the routes of other systems, and a page for people. And the command `web`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from filemem.cli import Project, many, pass_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from filemem.cli.care import Serving
    from filemem.dialects.profiles import Advertised
    from filemem.memory import Memory
    from filemem.web.log import Log

HOST, PORT = "127.0.0.1", 3847


class Served(NamedTuple):
    """Where and to whom is served.

    Args:
        host: address to listen on.
        port: TCP port, or 0 for a free one.
        token: what every request must carry; where it is empty, one is made that guards only what writes.
        names: further names by which clients call this machine.
    """

    host: str
    port: int
    token: str = ""
    names: tuple[str, ...] = ()


def serve(project: Project, offer: Advertised, served: Served, user: str = "") -> None:
    """Serve the application until the process is told to end; `user` as for `Serving`.

    Raises:
        BadInput, Locked: as `filemem.server.serve_http` says.
    """
    import secrets

    from filemem import VERSION, config, server
    from filemem.cli.care import Serving, report
    from filemem.config import others
    from filemem.server.http import Access
    from filemem.web.entry import Slack
    from filemem.web.site import Site

    stated = others.web()
    strict = served.token or config.load(project.folder).token
    known = strict or stated.token
    token = known or secrets.token_urlsafe(24)
    access = Access(remote=bool(known), token=token, names=served.names, lenient=not strict)

    unusable = _unusable(project)

    def tell(port: int) -> None:
        # A token that was made is told here and nowhere else; one that was given is known.
        host = f"[{served.host}]" if ":" in served.host else served.host
        end = "" if known else f"?token={token}"
        told = [f"a page for people: http://{host}:{port}/viewer{end}", *unusable, *stated.unneeded]
        sys.stderr.write("".join(f"filemem: {line}\n" for line in told))
        sys.stderr.flush()

    site = Site(_log(project), Slack(stated.slack_token, stated.slack_url), tell)
    server.serve_http(
        offer,
        _opening(Serving(project, user)),
        version=VERSION,
        host=served.host,
        port=served.port,
        access=access,
        on_crash=report,
        site=site,
    )


def _unusable(project: Project) -> list[str]:
    """Why nothing can be remembered here, said at the start; empty where all is well."""
    from filemem.errors import FilememError
    from filemem.repo import Repo

    try:
        Repo.discover(project.folder)
    except FilememError as error:
        return [f"no memory can be used here, every call will fail: {error.message}; {error.hint}".rstrip("; ")]
    return []


def _opening(serving: Serving) -> Callable[[Callable[[int, int], object], float], Memory]:
    """Open the memory; where there is no repository, that is no record that was not found."""
    from filemem.errors import BrokenStore, NotFound

    def opened(tell: Callable[[int, int], object], patience: float) -> Memory:
        try:
            return serving.open(tell, patience)
        except NotFound as error:
            raise BrokenStore(error.message, error.hint) from None

    return opened


def _log(project: Project) -> Log | None:
    """The log beside the repository; none where there is no repository, or it cannot be written."""
    from filemem.errors import FilememError
    from filemem.repo import Repo
    from filemem.web.log import Log

    try:
        return Log(Repo.discover(project.folder).private / "log")
    except (FilememError, OSError):
        return None


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
    from filemem.config import others
    from filemem.dialects import profiles

    stated = others.web().port
    chosen = port if port is not None else PORT if stated is None else stated
    serve(project, profiles.profile(profile, prefix), Served(host, chosen, token, names))
