"""MCP over HTTP: the SDK's application behind our own door, which guards every path alike.

A browser page of any origin can reach a port of this machine, so exact Host and Origin decide, port included; the
SDK's own check covers only its endpoint, and its `:*` pattern is a prefix match.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import ipaddress
import socket
import sys
from dataclasses import dataclass

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from filemem.dialects import Advertised
from filemem.errors import BadInput, Locked
from filemem.server import sdk
from filemem.server.calls import Calls, OnCrash, OpenMemory, log_crash
from filemem.server.jsonrpc import MAX_LINE

HEAD_SECONDS = 10.0  # the head of a request must have arrived by then, counted from its start
BODY_SECONDS = 20.0  # a request body must have arrived by then
SHORTEST = 16  # characters of a token that guards an address other machines reach
_METHODS = {"/mcp": ("POST",), "/health": ("GET", "HEAD")}  # no streams: every call has one answer


@dataclass(frozen=True, slots=True)
class Access:
    """Who may connect besides the programs of this machine.

    Args:
        remote: whether an address off loopback may be listened on.
        token: every request must carry it as a bearer token; required with `remote`.
        names: further names, without port, by which this machine may be called.
    """

    remote: bool = False
    token: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and who may connect there."""

    host: str = "127.0.0.1"
    port: int = 3847
    access: Access = Access()

    def hosts(self, port: int) -> frozenset[str]:
        """The Host headers that are meant for us, when we listen on `port`."""
        names = {"127.0.0.1", "localhost", "[::1]", _bracketed(self.host), *map(str.lower, self.access.names)}
        return frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())


def serve(
    offer: Advertised, open_memory: OpenMemory, version: str, address: Address, on_crash: OnCrash | None = None
) -> None:
    """Listen and serve until the process is told to end; see `filemem.server.serve_http`."""
    listening = listen(address)
    port = listening.getsockname()[1]
    calls = Calls(offer.dialect, open_memory, on_crash or log_crash)
    config = uvicorn.Config(
        application(offer, calls, version, address, port),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=Prompt,
        ws="none",
        lifespan="on",
        limit_concurrency=1024,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    sys.stderr.write(f"filemem serves MCP at http://{_bracketed(address.host)}:{port}/mcp\n")
    sys.stderr.flush()
    uvicorn.Server(config).run(sockets=[listening])


class Prompt(H11Protocol):
    """Closes a connection that does not get a request head across in HEAD_SECONDS: uvicorn would wait for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait(True)

    def data_received(self, data: bytes) -> None:
        """Wait on, unless this was the end of a head; between two requests the shorter keep-alive time counts."""
        super().data_received(data)
        self._wait(self.cycle is None or self.cycle.response_complete)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait(False)
        super().connection_lost(exc)

    def _wait(self, waiting: bool) -> None:
        if waiting and self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        elif not waiting and self._late is not None:
            self._late.cancel()
            self._late = None


def application(offer: Advertised, calls: Calls, version: str, address: Address, port: int) -> ASGIApp:
    """Make the guarded application: /mcp and /health."""

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "name": "filemem", "version": version})

    hosts = address.hosts(port)
    origins = frozenset(f"http://{host}" for host in hosts)
    inner: Starlette = sdk.build(offer, calls, version).streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_LINE,
        transport_security=TransportSecuritySettings(allowed_hosts=sorted(hosts), allowed_origins=sorted(origins)),
        custom_starlette_routes=[Route("/health", health)],
    )
    return Door(inner, hosts, origins, address.access.token)


def listen(address: Address) -> socket.socket:
    """Open the listening socket.

    Raises:
        BadInput: host or port cannot be used, or lead off loopback without permission.
        Locked: another process listens there.
    """
    host, port = address.host, address.port
    if not is_loopback(host) and not (address.access.remote and address.access.token):
        hint = "listen on 127.0.0.1, or set a token that every request must carry: FILEMEM_TOKEN or --token"
        raise BadInput(f"{host or 'this address'} can be reached from other machines", hint, field="host")
    _check_token(address.access.token, remote=not is_loopback(host))
    if not 0 <= port <= 65535:
        raise BadInput(f"{port} is no port", "choose one from 1024 to 65535, or 0 for a free one", field="port")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Locked(f"port {port} of {host} is in use", "end the other program or choose another port") from error
        raise BadInput(f"cannot listen on {host}, port {port}: {error.strerror}", field="host") from error
    listening.setblocking(False)
    return listening


def _check_token(token: str, *, remote: bool) -> None:
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise BadInput("the token must be printable ASCII without spaces", "openssl rand -hex 32", field="token")
    if remote and len(token) < SHORTEST:
        raise BadInput(f"off loopback the token needs {SHORTEST} characters", "openssl rand -hex 32", field="token")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; names other than localhost are not trusted to be local."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Door:
    """Lets through what is meant for us, comes from us, and is small and whole; says why to the rest."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], origins: frozenset[str], token: str) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        headers = _Headers(scope)
        refusal = self._caller(headers) or _request(scope, headers)
        if refusal is not None:
            return await refusal(scope, receive, send)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(receive)
        except ClientDisconnect:
            return None
        except TimeoutError:
            return await _no(408, "the request body did not arrive in time")(scope, receive, send)
        if body is None:
            return await _too_large()(scope, receive, send)
        return await self._app(scope, _replay(body, receive), send)

    def _caller(self, headers: _Headers) -> JSONResponse | None:
        if headers.one("host") not in self._hosts:
            return _no(421, "this Host is not served here")
        if "origin" in headers and headers.one("origin") not in self._origins:
            return _no(403, "pages of this Origin may not ask here")
        if "sec-fetch-site" in headers and headers.one("sec-fetch-site") not in ("same-origin", "none"):
            return _no(403, "other sites may not ask here")
        if self._token and not self._knows_token(headers.one("authorization")):
            return _no(401, "a bearer token is required", {"WWW-Authenticate": "Bearer"})
        return None

    def _knows_token(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._token)


class _Headers:
    """The headers of a request; one that is repeated counts as wrong, since readers differ in which they take."""

    def __init__(self, scope: Scope) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def one(self, name: str) -> str:
        """The value, or "" where there is none or more than one."""
        values = self._values.get(name, [])
        return values[0] if len(values) == 1 else ""


def _request(scope: Scope, headers: _Headers) -> JSONResponse | None:
    allowed = _METHODS.get(scope["path"])
    if allowed is None:
        return _no(404, "nothing is served here; MCP is at /mcp")
    if scope["method"] not in allowed:
        return _no(405, f"use {allowed[0]}", {"Allow": ", ".join(allowed)})
    if scope["method"] == "POST" and headers.one("content-type").split(";")[0].strip().lower() != "application/json":
        return _no(415, "Content-Type must be application/json")
    length = headers.one("content-length")
    return _too_large() if length.isdecimal() and int(length[:20]) > MAX_LINE else None


async def _body(receive: Receive) -> bytes | None:
    """Collect a request body; None if it is too large.

    Raises:
        ClientDisconnect: the rest will not come.
    """
    held = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        held += message.get("body", b"")
        if len(held) > MAX_LINE:
            return None
        if not message.get("more_body", False):
            return bytes(held)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _too_large() -> JSONResponse:
    return _no(413, f"the request body is larger than {MAX_LINE} bytes")


def _no(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers={"X-Content-Type-Options": "nosniff", **(headers or {})})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
