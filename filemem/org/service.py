"""The service of an organisation: one process that answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from socket import socket
from typing import Any, NamedTuple

from filemem import VERSION
from filemem.org.guard import App, Guard, TokenLookup, look_up_principal
from filemem.org.log import log
from filemem.org.memory import OrgMemory
from filemem.org.offer import DIALECT, ROUTES
from filemem.org.oidc import People, Provider
from filemem.org.outside import OrgSite, PathMiddleware, build_handlers
from filemem.org.postgres import Postgres
from filemem.server import http

SEES_ALL_WARNING = (
    "this login can read past row security; log in as a member of the role of the service:"
    " docs/organisation.md"
)


class ServiceOptions(NamedTuple):
    """How the service answers."""

    host: str
    port: int
    names: Sequence[str]  # further host names
    rate: int  # requests a minute of one token
    hook_secret: str = ""  # what reports of pushes are signed with
    provider: Provider | None = None  # who says who people are, besides tokens
    audit_days: int = 0  # how long it is kept who was shown what; 0 notes nothing
    folder: str = ""  # where several processes keep their figures


def serve(
    engine: Postgres, options: ServiceOptions, on_crash: Any, listener: socket | None = None
) -> None:
    """Serve until a signal comes.

    `listener`: the socket of several processes. Raises BrokenStore: the database is not usable.
    """
    if engine.can_see_all():
        log("warning", SEES_ALL_WARNING)

    people = People(options.provider) if options.provider else None
    tokens = TokenLookup(partial(look_up_principal, engine, people))
    handlers = build_handlers(engine, tokens, options.hook_secret, options.folder)

    def wrap_app(app: App) -> App:
        return PathMiddleware(Guard(app, tokens, options.rate), handlers)

    address = http.Address(
        options.host,
        options.port,
        is_remote_allowed=True,
        extra_names=tuple(options.names),
        guard=wrap_app,
    )
    memory: Any = OrgMemory(engine, options.audit_days)
    site = OrgSite(routes=ROUTES)
    http.serve(
        DIALECT, lambda: memory, VERSION, address, site, on_crash=on_crash, server_socket=listener
    )
