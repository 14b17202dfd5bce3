"""The door of the HTTP application: who may send which requests, and how large.

Every path is guarded alike. A browser page of any origin can reach a port of this machine, so exact
Host and Origin decide, port included; the SDK's own check covers only its endpoint, and its `:*`
pattern is a prefix match.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from html import escape
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, parse_qsl, urlencode

from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from filemem.server.wire import MAX_LINE

if TYPE_CHECKING:
    from filemem.memory import Memory

BODY_SECONDS = 20.0  # a request body must have arrived by then
MCP = "/mcp"
# What people open: there a token in the address becomes a cookie.
PAGES = ("/", "/viewer", "/viewer/read", "/viewer/log")
_JSON = "application/json"
_NO_STORE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_AUTHORIZATION_HINT = (
    "send Authorization: Bearer TOKEN, the token of FILEMEM_TOKEN, or the one that the server "
    "printed at its start; a server started with `--token none` asks for none"
)
_TOKEN_MISSING = f"a token is required: {_AUTHORIZATION_HINT}"
_TOKEN_WRONG = f"this token is not the one of this server: {_AUTHORIZATION_HINT}"
_BODY_TOO_LARGE = f"the request body is larger than {MAX_LINE} bytes"
_OWN_SITES = ("same-origin", "none")  # what a browser says where no other site leads to a request
_OWN_METHODS = {MCP: ("POST",), "/health": ("GET", "HEAD")}

_Headers = dict[str, str]
# Runs a function on the memory, one at a time.
Ask = Callable[[Callable[["Memory"], Any]], "Future[Any]"]


class Site(Protocol):
    """What is served besides MCP, which the command line passes: see `filemem.web.site.Site`."""

    def list_methods(self, path: str) -> tuple[str, ...]: ...
    def format_refusal(self, path: str, status: int, message: str) -> Mapping[str, object]: ...
    def log_request(self, method: str, path: str, status: int, milliseconds: int) -> None: ...
    def build_routes(
        self, ask: Ask, on_crash: Callable[[str, BaseException], None]
    ) -> Sequence[Route]: ...


class AccessMiddleware:
    """Passes on small, complete requests with our Host (`hosts`) and Origin (`origins`).

    It refuses others. Every request needs the token, whatever it asks for; if the token is "",
    none does.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: frozenset[str],
        origins: frozenset[str],
        token: str,
        site: Site,
        *,
        cookie: str = "filemem",
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._token = token.encode()
        # Browsers do not tell ports apart, so each server has a name of its own.
        self._cookie = cookie
        self._secret = hmac.new(self._token, b"cookie of the page", "sha256").hexdigest()
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse one request, or pass it on."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        start = time.monotonic()
        status = 0

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._handle_request(scope, receive, send_and_note_status)
        finally:
            duration = round((time.monotonic() - start) * 1000)
            self._site.log_request(scope["method"], scope["path"], status, duration)
        return None

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _parse_headers(scope)
        refusal = (
            self._check_origin(scope, headers)
            or self._check_token(scope, headers)
            or self._check_request(scope, headers)
            or self._build_login_redirect(scope)
        )
        if refusal is not None:
            return await refusal(scope, receive, send)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(receive)
        except ClientDisconnect:
            return None
        except TimeoutError:
            return await self._build_refusal(scope, 408, "the request body did not arrive in time")(
                scope, receive, send
            )
        if body is None:
            return await self._build_refusal(scope, 413, _BODY_TOO_LARGE)(scope, receive, send)
        return await self._app(scope, replay_body(body, receive), send)

    def _check_origin(self, scope: Scope, headers: _Headers) -> JSONResponse | None:
        if headers.get("host", "") not in self._hosts:
            return self._build_refusal(scope, 421, "this Host is not served here")
        if "origin" in headers and headers.get("origin", "") not in self._origins:
            return self._build_refusal(scope, 403, "pages of this Origin may not ask here")
        # A file of the user's own may lead to a page, with the token in the address.
        tokens = () if "authorization" in headers else _list_tokens(scope, headers)
        is_login = bool(self._token) and scope["path"] in PAGES and self._has_valid_token(tokens)
        if not (is_login or headers.get("sec-fetch-site", "none") in _OWN_SITES):
            return self._build_refusal(scope, 403, "other sites may not ask here")
        return None

    def _check_token(self, scope: Scope, headers: _Headers) -> JSONResponse | None:
        tokens = _list_tokens(scope, headers)
        is_known = (
            self._has_valid_token(tokens) if tokens else self._has_valid_cookie(scope, headers)
        )
        if is_known or not self._token:
            return None
        message = _TOKEN_WRONG if tokens else _TOKEN_MISSING
        return self._build_refusal(scope, 401, message, {"WWW-Authenticate": "Bearer"})

    def _has_valid_token(self, tokens: Sequence[str]) -> bool:
        """Whether the token is what a request names; only one may be given."""
        matches = [
            hmac.compare_digest(name.encode("utf-8", "replace"), self._token) for name in tokens
        ]
        return matches == [True]

    def _has_valid_cookie(self, scope: Scope, headers: _Headers) -> bool:
        """Whether a page of ours asks: by our cookie and, to write, from our own Origin.

        The browser states the Origin.
        """
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        is_valid = hmac.compare_digest(cookie.encode("utf-8", "replace"), self._secret.encode())
        is_read = scope["method"] in ("GET", "HEAD")
        return is_valid and (is_read or "origin" in headers)

    def _build_login_redirect(self, scope: Scope) -> Response | None:
        """A page that is opened by its token goes on at the clean address.

        It gets a cookie that no script can read.
        """
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), encoding="utf-8")
        if not (self._token and scope["path"] in PAGES and "token" in dict(query)):
            return None
        remaining_query = urlencode([pair for pair in query if pair[0] != "token"])
        address = f"{scope['path']}{'?' if remaining_query else ''}{remaining_query}"
        cookie = f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        headers = {"Set-Cookie": cookie, **_NO_STORE}
        if _parse_headers(scope).get("sec-fetch-site", "none") in _OWN_SITES:
            return Response(status_code=303, headers={"Location": address, **headers})
        # A browser that a file leads here would not send such a cookie along; this page leads on.
        body = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">'
        return HTMLResponse(body, headers=headers)

    def _check_request(self, scope: Scope, headers: _Headers) -> JSONResponse | None:
        methods = _OWN_METHODS.get(scope["path"]) or self._site.list_methods(scope["path"])
        if not methods:
            return self._build_refusal(scope, 404, "nothing is served here; MCP is at /mcp")
        if scope["method"] not in methods:
            return self._build_refusal(
                scope, 405, f"use {methods[0]}", {"Allow": ", ".join(methods)}
            )
        if (
            scope["method"] == "POST"
            and headers.get("content-type", "").split(";")[0].strip().lower() != _JSON
        ):
            return self._build_refusal(scope, 415, f"Content-Type must be {_JSON}")
        length = headers.get("content-length", "")
        is_too_large = length.isdecimal() and int(length[:20]) > MAX_LINE
        return self._build_refusal(scope, 413, _BODY_TOO_LARGE) if is_too_large else None

    def _build_refusal(
        self, scope: Scope, status: int, message: str, headers: dict[str, str] | None = None
    ) -> JSONResponse:
        body = self._site.format_refusal(scope["path"], status, message)
        return JSONResponse(
            body, status, headers={"X-Content-Type-Options": "nosniff", **(headers or {})}
        )


def _list_tokens(scope: Scope, headers: _Headers) -> list[str]:
    """The tokens that a request names: in the header or, where there is none, in the address."""
    if "authorization" in headers:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return [token.strip() if scheme.lower() == "bearer" else ""]
    query = scope.get("query_string", b"").decode("latin-1")
    return parse_qs(query, keep_blank_values=True, encoding="latin-1").get("token", [])


def _parse_headers(scope: Scope) -> _Headers:
    """The headers of a request by name; "" for a repeated one: programs disagree on it."""
    headers: _Headers = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        headers[key] = "" if key in headers else value.decode("latin-1")
    return headers


async def _read_body(receive: Receive) -> bytes | None:
    """Collect a request body; None if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MAX_LINE:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """A body that was already read, to be read again."""
    pending_messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return pending_messages.pop() if pending_messages else await receive()

    return receive_next
