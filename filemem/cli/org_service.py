"""Commands of `filemem org` for its service: tokens, access, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from filemem.cli.options import as_json, many, pass_project
from filemem.cli.project import Project, emit
from filemem.errors import BadInput


@click.command()
@click.argument("action", type=click.Choice(["add", "revoke", "list"]))
@click.argument("name", default="")
@as_json
@pass_project
def token(project: Project, action: str, name: str, as_json: bool) -> None:
    """Make a token for NAME, a person or a program; delete all tokens of one; or list who has one.

    A token is shown once. `filemem org access` says what NAME may see.

    \b
    Examples:
      filemem org token add ada
      filemem org token revoke ada
    """
    from filemem.cli.org import engine
    from filemem.org import access

    with engine(project) as index, index.transaction() as database:
        if action == "add":
            answer: Any = {"name": name, "token": access.add_token(database, name)}
            told = answer["token"]
        elif action == "revoke":
            answer = {"name": name, "revoked": access.revoke(database, name)}
            told = f"tokens of {name} that are no longer taken: {answer['revoked']}"
        else:
            answer = {"tokens": [{"name": one, "made": day} for one, day in access.tokens(database)]}
            told = "\n".join(f"{one['made']}  {one['name']}" for one in answer["tokens"]) or "nobody has a token"
    emit({"success": True, **answer}, as_json, lambda _: told)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@as_json
@pass_project
def access(project: Project, file: Path, as_json: bool) -> None:
    """Say who may see which repositories. FILE replaces all that was said before: who is not in it sees nothing.

    It is TOML, or JSON if its name ends in .json, with a line `ada = ["host/team/api"]` for each name that has a token;
    `*` is everybody who has one. `filemem org status` shows the names of repositories.

    \b
    Example:
      filemem org access access.toml
    """
    from filemem.cli.org import engine
    from filemem.org import access as rights

    given = rights.read(project.here / file)
    with engine(project) as index, index.transaction() as database:
        count, unknown = rights.give(database, given)
    told = "".join(f"\nnot in the index, so nobody sees it: {one}" for one in unknown)
    emit({"success": True, "rights": count, "unknown": unknown}, as_json, lambda _: f"rights: {count}{told}")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3848, show_default=True, help="TCP port; 0 takes a free one.")
@many("--name", "names", help="A further host name by which clients call this service.")
@click.option("--behind-proxy", is_flag=True, help="A proxy with TLS is in front, so other machines may connect.")
@click.option("--rate", type=click.IntRange(1), default=120, show_default=True, help="Requests a minute of one token.")
@pass_project
def serve(project: Project, /, host: str, port: int, behind_proxy: bool, **how: Any) -> None:
    """Answer questions over all repositories, over HTTP: docs/organisation.md lists the routes. It only reads.

    There is no encryption, so it listens on this machine alone, and a proxy with TLS stands in front.

    \b
    Example:
      filemem org serve --behind-proxy --name memories.example.org
    """
    from filemem.cli.org import engine
    from filemem.cli.serve import _report
    from filemem.server.http import is_loopback

    if not (behind_proxy or is_loopback(host)):
        hint = "put a proxy with TLS in front and say --behind-proxy, or listen on 127.0.0.1"
        raise BadInput(f"{host} can be reached from other machines", hint, field="host")
    with engine(project) as index:
        from filemem.org import service

        service.serve(index, host, port, on_crash=_report, **how)
