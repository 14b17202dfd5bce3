"""MCP over HTTP, and what is served besides it.

All of it is one application behind our own door, which guards every path alike.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from filemem.dialects.tool import Dialect
from filemem.errors import BadInput, Locked
from filemem.server.calls import Calls, OnCrash, OpenMemory, log_crash
from filemem.server.door import MCP, Ask, Door, Site
from filemem.server.sdk import FilememServer

NEXT = 100  # ports that are tried where one is taken
OnStart = Callable[[int, Ask], None]  # called with the port, and what runs a function on the memory
MANY = 8  # calls at a time, where several people ask
SHORTEST = 16  # characters of a token that guards an address other machines reach


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and who may connect; `names`: further host names.

    Every request needs the token, as bearer token or as `?token=`. Without one any program and user
    of this machine is served, without private records; `remote` allows an address off loopback,
    where it must be set. With `alone` the names of loopback are refused. A `guard` stands before
    the application and says who asks, in place of one token; a proxy may pass on names of this
    machine without a port then.
    """

    host: str = "127.0.0.1"
    port: int = 3847
    remote: bool = False
    token: str = ""
    names: tuple[str, ...] = ()
    alone: bool = False
    guard: Callable[[ASGIApp], ASGIApp] | None = None

    def hosts(self, port: int) -> frozenset[str]:
        """The Host headers that we accept when listening on `port`."""
        local = () if self.alone else ("127.0.0.1", "localhost", "[::1]")
        names = {*local, _bracketed(self.host), *map(str.lower, self.names)}
        bare = frozenset(names) if port == 80 or self.guard else frozenset()
        return frozenset(f"{name}:{port}" for name in names) | bare


def serve(
    offer: Dialect,
    open_memory: OpenMemory,
    version: str,
    address: Address,
    site: Site,
    on_start: OnStart = lambda *_: None,
    on_crash: OnCrash = log_crash,
    listening: socket.socket | None = None,
) -> None:
    """Serve MCP at /mcp, GET /health and a site's routes until a signal comes.

    `on_start` gets the port and what runs a function on the memory.
    `listening`: a socket that another process opened for this address.
    """
    listening = listening or listen(address)
    calls = Calls(offer, open_memory, on_crash, MANY if address.guard else 1)
    server = _made(offer, calls, version, address, listening, site)
    port = listening.getsockname()[1]
    sys.stderr.write(f"filemem serves MCP at http://{_bracketed(address.host)}:{port}/mcp\n")
    sys.stderr.flush()
    on_start(port, calls.ask)
    server.run(sockets=[listening])


def serve_beside(
    offer: Dialect, calls: Calls, version: str, address: Address, site: Site, on_start: OnStart
) -> None:
    """Serve the same, and the same memory, in a thread beside another transport.

    It listens on this port or the next free one.
    """
    listening = listen(address, NEXT)
    server = _made(offer, calls, version, address, listening, site)
    threading.Thread(
        target=server.run, args=([listening],), name="filemem-page", daemon=True
    ).start()
    on_start(listening.getsockname()[1], calls.ask)


def _made(
    offer: Dialect,
    calls: Calls,
    version: str,
    address: Address,
    listening: socket.socket,
    site: Site,
) -> uvicorn.Server:
    config = uvicorn.Config(
        application(offer, calls, version, address, listening.getsockname()[1], site),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http="h11",
        ws="none",
        lifespan="on",
        limit_concurrency=1024,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def application(
    offer: Dialect, calls: Calls, version: str, address: Address, port: int, site: Site
) -> ASGIApp:
    """Make the guarded application: /mcp, /health, and what the site serves."""

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "name": "filemem", "version": version})

    calls = calls if address.token or address.guard else calls.without_private()
    hosts = address.hosts(port)
    origins = frozenset(f"http://{host}" for host in hosts)
    manager = StreamableHTTPSessionManager(
        FilememServer(offer, calls, version),
        json_response=True,
        stateless=True,  # nothing is kept of a client, and the server may restart under it
    )
    routes = [
        Route(MCP, manager.asgi_app),
        Route("/health", health),
        *site.routes(calls.ask, calls.on_crash),
    ]
    inner = Starlette(routes=routes, lifespan=lambda _: manager.run())
    app = address.guard(inner) if address.guard else inner
    return Door(app, hosts, origins, address.token, site, cookie=f"filemem_{port}")


def listen(address: Address, further: int = 0) -> socket.socket:
    """Open the listening socket; where the port is taken, on one of so many `further` ones.

    Raises BadInput, and Locked: every port is taken.
    """
    _refuse_unguarded(address)
    listening = _opened(address, further)
    listening.setblocking(False)
    # Else an answer of two parts waits for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _refuse_unguarded(address: Address) -> None:
    """Refuse to be reached by others without a good token or a guard. Raises BadInput."""
    local = is_loopback(address.host)
    if not (local or (address.remote and (address.token or address.guard))):
        raise BadInput(
            f"{address.host or 'this address'} can be reached from other machines",
            "listen on 127.0.0.1, or set a token that every request must carry: "
            "FILEMEM_TOKEN or --token",
            field="host",
        )
    hint = "openssl rand -hex 32"
    if not re.fullmatch("[!-~]*", address.token):
        raise BadInput("the token must be printable ASCII without spaces", hint, field="token")
    if len(address.token) < SHORTEST and not (local or address.guard):
        raise BadInput(f"off loopback the token needs {SHORTEST} characters", hint, field="token")


def _opened(address: Address, further: int) -> socket.socket:
    """The socket of an address, or of the next port that is free. Raises BadInput and Locked."""
    host = address.host
    port = address.port
    if not 0 <= port <= 65535:
        hint = "choose one from 1024 to 65535, or 0 for a free one"
        raise BadInput(f"{port} is not a port", hint, field="port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            message = f"cannot listen on {host}, port {port}: {error.strerror}"
            raise BadInput(message, field="host") from error
        if not further:
            hint = "end the other program or choose another port"
            raise Locked(f"port {port} of {host} is in use", hint) from error
    return _opened(replace(address, port=port + 1), further - 1)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    Names other than localhost are not trusted to be local.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
