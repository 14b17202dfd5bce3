"""Commands of `filemem org` for the service: tokens, access, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from filemem.cli.options import as_json, many, pass_project
from filemem.cli.project import Project, emit
from filemem.errors import BadInput

PORT = 3848


@click.command()
@click.argument("action", type=click.Choice(["add", "revoke", "list"]))
@click.argument("name", default="")
@as_json
def token(action: str, name: str, as_json: bool) -> None:
    """Make a token for a person or a program, delete all tokens of one, or list who has one.

    A token is shown once. NAME is whom `filemem org access` gives repositories.

    \b
    Examples:
      filemem org token add ada
      filemem org token revoke ada
    """
    from filemem.org import access

    with database() as open_:
        if action == "add":
            made = access.add_token(open_, name)
            emit({"success": True, "name": name, "token": made}, as_json, lambda answer: str(answer["token"]))
        elif action == "revoke":
            gone = access.revoke(open_, name)
            emit({"success": True, "name": name, "revoked": gone}, as_json, lambda _: f"revoked: {gone} of {name}")
        else:
            found = [{"name": one, "made": day} for one, day in access.tokens(open_)]
            told = "\n".join(f"{one['made']}  {one['name']}" for one in found) or "nobody has a token"
            emit({"success": True, "tokens": found}, as_json, lambda _: told)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@as_json
@pass_project
def access(project: Project, file: Path, as_json: bool) -> None:
    """Say who may see which repositories. FILE replaces all that was said before; who is not in it sees nothing.

    It is TOML, or JSON if its name ends in .json: a line `ada = ["team/api", "team/web"]` for each name that has a
    token; `*` is everybody who has one. Repositories go by the names that `filemem org status` shows.

    \b
    Example:
      filemem org access access.toml
    """
    from filemem.org import access as rights

    given = rights.read(project.here / file)
    with database() as open_:
        count, unknown = rights.give(open_, given)
    told = f"{len(given)} names may see what is theirs: {count} rights"
    missing = "".join(f"\nnot there, so nobody sees it: {one}" for one in unknown)
    emit({"success": True, "rights": count, "unknown": unknown}, as_json, lambda _: told + missing)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=PORT, show_default=True, help="TCP port; 0 takes a free one.")
@many("--name", "names", help="A further host name by which clients call this service.")
@click.option("--behind-proxy", is_flag=True, help="A proxy with TLS is in front: other machines may be answered.")
@click.option("--rate", type=click.IntRange(1), default=120, show_default=True, help="Requests a minute of one token.")
def serve(host: str, port: int, behind_proxy: bool, **how: Any) -> None:
    """Answer questions over all repositories, over HTTP: docs/organisation.md has the routes. It only reads.

    There is no encryption, so it listens on this machine alone. Put a proxy with TLS in front.

    \b
    Example:
      filemem org serve --behind-proxy --name memories.example.org
    """
    from filemem.server.http import is_loopback

    if not (behind_proxy or is_loopback(host)):
        hint = "put a proxy with TLS in front and say --behind-proxy, or listen on 127.0.0.1"
        raise BadInput(f"{host} can be reached from other machines", hint, field="host")
    from filemem.cli.serve import _report
    from filemem.org import service

    service.serve(engine(), host, port, on_crash=_report, **how)
