"""The service of an organisation: what one process does that answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from socket import socket
from typing import Any, NamedTuple

from filemem import VERSION
from filemem.org.guard import App, Guard, Tokens, looked_up
from filemem.org.log import log
from filemem.org.memory import Everything
from filemem.org.offer import DIALECT, ROUTES
from filemem.org.oidc import People, Provider
from filemem.org.outside import OrgSite, Outside, works
from filemem.org.postgres import Postgres
from filemem.server import http

SEES_ALL = (
    "this login can read past row security; log in as a member of the role of the service:"
    " docs/organisation.md"
)


class Serving(NamedTuple):
    """How the service answers."""

    host: str
    port: int
    names: Sequence[str]  # further host names
    rate: int  # requests a minute of one token
    hook_secret: str = ""  # what reports of pushes are signed with
    provider: Provider | None = None  # who says who people are, besides tokens
    audit_days: int = 0  # how long it is kept who was shown what; 0 notes nothing
    folder: str = ""  # where several processes keep their figures


def serve(engine: Postgres, how: Serving, on_crash: Any, listening: socket | None = None) -> None:
    """Serve until a signal comes.

    `listening`: the socket of several processes. Raises BrokenStore: the database is not usable.
    """
    if engine.sees_all():
        log("warning", SEES_ALL)

    people = People(how.provider) if how.provider else None
    whose = Tokens(partial(looked_up, engine, people))
    outside = works(engine, whose, how.hook_secret, how.folder)

    def guard(app: App) -> App:
        return Outside(Guard(app, whose, how.rate), outside)

    address = http.Address(how.host, how.port, remote=True, names=tuple(how.names), guard=guard)
    memory: Any = Everything(engine, how.audit_days)
    site = OrgSite(rows=ROUTES)
    http.serve(
        DIALECT, lambda: memory, VERSION, address, site, on_crash=on_crash, listening=listening
    )
