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
from filemem.server.calls import CallQueue, OnCrash, OpenMemory, log_crash
from filemem.server.door import MCP, AccessMiddleware, Ask, Site
from filemem.server.sdk import FilememServer

PORT_ATTEMPTS = 100  # ports that are tried where one is taken
OnStart = Callable[[int, Ask], None]  # called with the port, and what runs a function on the memory
SHARED_THREADS = 8  # calls at a time, where several people ask
MIN_TOKEN_LENGTH = 16  # characters of a token that guards an address other machines reach


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
    is_remote_allowed: bool = False
    token: str = ""
    extra_names: tuple[str, ...] = ()
    is_loopback_refused: bool = False
    guard: Callable[[ASGIApp], ASGIApp] | None = None

    def build_hosts(self, port: int) -> frozenset[str]:
        """The Host headers that we accept when listening on `port`."""
        local_names = () if self.is_loopback_refused else ("127.0.0.1", "localhost", "[::1]")
        names = {*local_names, _format_host(self.host), *map(str.lower, self.extra_names)}
        portless_names = frozenset(names) if port == 80 or self.guard else frozenset()
        return frozenset(f"{name}:{port}" for name in names) | portless_names


def serve(
    dialect: Dialect,
    open_memory: OpenMemory,
    version: str,
    address: Address,
    site: Site,
    on_start: OnStart = lambda *_: None,
    on_crash: OnCrash = log_crash,
    server_socket: socket.socket | None = None,
) -> None:
    """Serve MCP at /mcp, GET /health and a site's routes until a signal comes.

    `on_start` gets the port and what runs a function on the memory.
    `listening`: a socket that another process opened for this address.
    """
    server_socket = server_socket or open_server_socket(address)
    calls = CallQueue(dialect, open_memory, on_crash, SHARED_THREADS if address.guard else 1)
    server = _build_server(dialect, calls, version, address, server_socket, site)
    port = server_socket.getsockname()[1]
    sys.stderr.write(f"filemem serves MCP at http://{_format_host(address.host)}:{port}/mcp\n")
    sys.stderr.flush()
    on_start(port, calls.ask)
    server.run(sockets=[server_socket])


def serve_beside(
    dialect: Dialect,
    calls: CallQueue,
    version: str,
    address: Address,
    site: Site,
    on_start: OnStart,
) -> None:
    """Serve the same, and the same memory, in a thread beside another transport.

    It listens on this port or the next free one.
    """
    server_socket = open_server_socket(address, PORT_ATTEMPTS)
    server = _build_server(dialect, calls, version, address, server_socket, site)
    threading.Thread(
        target=server.run, args=([server_socket],), name="filemem-page", daemon=True
    ).start()
    on_start(server_socket.getsockname()[1], calls.ask)


def _build_server(
    dialect: Dialect,
    calls: CallQueue,
    version: str,
    address: Address,
    server_socket: socket.socket,
    site: Site,
) -> uvicorn.Server:
    config = uvicorn.Config(
        build_application(dialect, calls, version, address, server_socket.getsockname()[1], site),
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


def build_application(
    dialect: Dialect, calls: CallQueue, version: str, address: Address, port: int, site: Site
) -> ASGIApp:
    """Make the guarded application: /mcp, /health, and what the site serves."""

    async def answer_health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "name": "filemem", "version": version})

    calls = calls if address.token or address.guard else calls.as_public()
    hosts = address.build_hosts(port)
    origins = frozenset(f"http://{host}" for host in hosts)
    manager = StreamableHTTPSessionManager(
        FilememServer(dialect, calls, version),
        json_response=True,
        stateless=True,  # nothing is kept of a client, and the server may restart under it
    )
    routes = [
        Route(MCP, manager.asgi_app),
        Route("/health", answer_health),
        *site.build_routes(calls.ask, calls.on_crash),
    ]
    inner_app = Starlette(routes=routes, lifespan=lambda _: manager.run())
    app = address.guard(inner_app) if address.guard else inner_app
    return AccessMiddleware(app, hosts, origins, address.token, site, cookie=f"filemem_{port}")


def open_server_socket(address: Address, extra_ports: int = 0) -> socket.socket:
    """Open the listening socket; where the port is taken, on one of so many `further` ones.

    Raises BadInput, and Locked: every port is taken.
    """
    _refuse_unguarded(address)
    server_socket = _open_socket(address, extra_ports)
    server_socket.setblocking(False)
    # Else an answer of two parts waits for 40 ms.
    server_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server_socket


def _refuse_unguarded(address: Address) -> None:
    """Refuse to be reached by others without a good token or a guard. Raises BadInput."""
    is_local = is_loopback(address.host)
    if not (is_local or (address.is_remote_allowed and (address.token or address.guard))):
        raise BadInput(
            f"{address.host or 'this address'} can be reached from other machines",
            "listen on 127.0.0.1, or set a token that every request must carry: "
            "FILEMEM_TOKEN or --token",
            field="host",
        )
    hint = "openssl rand -hex 32"
    if not re.fullmatch("[!-~]*", address.token):
        raise BadInput("the token must be printable ASCII without spaces", hint, field="token")
    if len(address.token) < MIN_TOKEN_LENGTH and not (is_local or address.guard):
        raise BadInput(
            f"off loopback the token needs {MIN_TOKEN_LENGTH} characters", hint, field="token"
        )


def _open_socket(address: Address, extra_ports: int) -> socket.socket:
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
        if not extra_ports:
            hint = "end the other program or choose another port"
            raise Locked(f"port {port} of {host} is in use", hint) from error
    return _open_socket(replace(address, port=port + 1), extra_ports - 1)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    Names other than localhost are not trusted to be local.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
