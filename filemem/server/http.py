"""MCP over HTTP, the pages and the health check: one application behind `AccessMiddleware`."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
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

PORT_ATTEMPTS = 100  # ports that are tried if one is in use
OnStart = Callable[[int, Ask], None]  # called with the port, and what runs a function on the memory
SHARED_THREADS = 8  # calls at a time for a server of several people
MIN_TOKEN_LENGTH = 16  # characters of a token for an address that other machines reach
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and who may connect.

    Every request needs the token, as bearer token or as `?token=`. Without one every program and
    user of this machine is served, without private records.
    """

    host: str = "127.0.0.1"
    port: int = 3847
    is_remote_allowed: bool = False  # whether the address may be off loopback; needs a token
    token: str = ""
    extra_names: tuple[str, ...] = ()  # further host names
    is_loopback_refused: bool = False  # whether the names of loopback are refused
    # Wraps the application and identifies users, instead of one token; a proxy may then pass on
    # names of this machine without a port.
    guard: Callable[[ASGIApp], ASGIApp] | None = None

    def build_hosts(self, port: int) -> frozenset[str]:
        """Return the Host headers that are accepted when listening on `port`."""
        names = [_format_host(self.host)]
        names += [name.lower() for name in self.extra_names]
        if not self.is_loopback_refused:
            names += _LOOPBACK_NAMES
        hosts = {f"{name}:{port}" for name in names}
        if port == 80 or self.guard:
            hosts.update(names)
        return frozenset(hosts)


def _skip_start(port: int, ask: Ask) -> None:
    """Do nothing: the default of `on_start`."""


def serve(
    dialect: Dialect,
    open_memory: OpenMemory,
    version: str,
    address: Address,
    site: Site,
    on_start: OnStart = _skip_start,
    on_crash: OnCrash = log_crash,
    server_socket: socket.socket | None = None,
) -> None:
    """Serve MCP at /mcp, GET /health and a site's routes until a signal comes.

    Args:
        dialect: the tools.
        open_memory: opens the memory at the first call.
        version: of filemem.
        address: where to listen.
        site: the other routes.
        on_start: called with the port, and what runs a function on the memory.
        on_crash: reports a defect.
        server_socket: a socket that another process opened for this address.
    """
    if server_socket is None:
        server_socket = open_server_socket(address)
    thread_count = SHARED_THREADS if address.guard else 1
    calls = CallQueue(dialect, open_memory, on_crash, thread_count)
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
    """Serve the memory of another transport over HTTP, too, in a thread.

    It listens on this port or the next free one.
    """
    server_socket = open_server_socket(address, PORT_ATTEMPTS)
    server = _build_server(dialect, calls, version, address, server_socket, site)
    thread = threading.Thread(
        target=server.run, args=([server_socket],), name="filemem-page", daemon=True
    )
    thread.start()
    port = server_socket.getsockname()[1]
    on_start(port, calls.ask)


def _build_server(
    dialect: Dialect,
    calls: CallQueue,
    version: str,
    address: Address,
    server_socket: socket.socket,
    site: Site,
) -> uvicorn.Server:
    port = server_socket.getsockname()[1]
    config = uvicorn.Config(
        build_application(dialect, calls, version, address, port, site),
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
    """Build the guarded application: /mcp, /health, and the routes of the site."""

    async def answer_health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "name": "filemem", "version": version})

    def run_sessions(_: Starlette) -> AbstractAsyncContextManager[None]:
        return manager.run()

    if not address.token and not address.guard:
        calls = calls.as_public()
    manager = StreamableHTTPSessionManager(
        FilememServer(dialect, calls, version),
        json_response=True,
        stateless=True,  # the server may restart between two requests of a client
    )
    routes = [
        Route(MCP, manager.asgi_app),
        Route("/health", answer_health),
        *site.build_routes(calls.ask, calls.on_crash),
    ]
    app: ASGIApp = Starlette(routes=routes, lifespan=run_sessions)
    if address.guard:
        app = address.guard(app)
    hosts = address.build_hosts(port)
    origins = frozenset(f"http://{host}" for host in hosts)
    return AccessMiddleware(app, hosts, origins, address.token, site, cookie=f"filemem_{port}")


def open_server_socket(address: Address, extra_ports: int = 0) -> socket.socket:
    """Open the listening socket; if the port is in use, on one of the next `extra_ports`.

    Raises BadInput, and Locked: every port is in use.
    """
    _refuse_unguarded(address)
    server_socket = _open_socket(address, extra_ports)
    server_socket.setblocking(False)
    # Without it, an answer of two parts waits for 40 ms.
    server_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server_socket


def _refuse_unguarded(address: Address) -> None:
    """Refuse an address that other machines reach without a token or a guard. Raises BadInput."""
    is_local = is_loopback(address.host)
    has_guard = bool(address.token or address.guard)
    if not is_local and not (address.is_remote_allowed and has_guard):
        raise BadInput(
            f"{address.host or 'this address'} can be reached from other machines",
            "listen on 127.0.0.1, or set a token that every request must carry: "
            "FILEMEM_TOKEN or --token",
            field="host",
        )
    hint = "openssl rand -hex 32"
    if not re.fullmatch("[!-~]*", address.token):
        raise BadInput("the token must be printable ASCII without spaces", hint, field="token")
    is_short = len(address.token) < MIN_TOKEN_LENGTH
    if is_short and not is_local and not address.guard:
        message = f"off loopback the token needs {MIN_TOKEN_LENGTH} characters"
        raise BadInput(message, hint, field="token")


def _open_socket(address: Address, extra_ports: int) -> socket.socket:
    """Open the socket of an address, or of the next free port. Raises BadInput and Locked."""
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
    """Return whether only this machine can reach an address.

    Names other than localhost are not trusted to be local.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
