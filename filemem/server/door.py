"""Access to the HTTP application: who may send which requests, and how large.

A browser page of any origin can reach a port of this machine, so Host and Origin must match
exactly, with the port, for every path. The check of the SDK covers only its endpoint, and its `:*`
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
# Pages for browsers: there a token in the address becomes a cookie.
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
_OWN_SITES = ("same-origin", "none")  # values of Sec-Fetch-Site for requests of no other site
_OWN_METHODS = {MCP: ("POST",), "/health": ("GET", "HEAD")}

_Headers = dict[str, str]
# Runs a function on the memory, one at a time.
Ask = Callable[[Callable[["Memory"], Any]], "Future[Any]"]


class Site(Protocol):
    """The routes besides MCP, from the command line: see `filemem.web.site.Site`."""

    def list_methods(self, path: str) -> tuple[str, ...]: ...
    def format_refusal(self, path: str, status: int, message: str) -> Mapping[str, object]: ...
    def log_request(self, method: str, path: str, status: int, milliseconds: int) -> None: ...
    def build_routes(
        self, ask: Ask, on_crash: Callable[[str, BaseException], None]
    ) -> Sequence[Route]: ...


class AccessMiddleware:
    """Passes on small, complete requests with an allowed Host and Origin, and the token.

    It refuses others. If the token is "", no request needs one.
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
        # Cookies are shared by all ports, so each server has a different name.
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
        refusal = self._find_refusal(scope, headers)
        if refusal is not None:
            return await refusal(scope, receive, send)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(receive)
        except ClientDisconnect:
            return None
        except TimeoutError:
            refusal = self._build_refusal(scope, 408, "the request body did not arrive in time")
            return await refusal(scope, receive, send)
        if body is None:
            refusal = self._build_refusal(scope, 413, _BODY_TOO_LARGE)
            return await refusal(scope, receive, send)
        return await self._app(scope, replay_body(body, receive), send)

    def _find_refusal(self, scope: Scope, headers: _Headers) -> Response | None:
        """Return the response to a request that is not passed on; None for any other."""
        for check in (self._check_origin, self._check_token, self._check_request):
            refusal = check(scope, headers)
            if refusal is not None:
                return refusal
        return self._build_login_redirect(scope, headers)

    def _check_origin(self, scope: Scope, headers: _Headers) -> JSONResponse | None:
        if headers.get("host", "") not in self._hosts:
            return self._build_refusal(scope, 421, "this Host is not served here")
        if "origin" in headers and headers["origin"] not in self._origins:
            return self._build_refusal(scope, 403, "pages of this Origin may not ask here")
        if _is_own_site(headers) or self._is_login(scope, headers):
            return None
        return self._build_refusal(scope, 403, "other sites may not ask here")

    def _is_login(self, scope: Scope, headers: _Headers) -> bool:
        """Return whether a page is opened by its token, as from a link in a file of the user."""
        if not self._token or scope["path"] not in PAGES or "authorization" in headers:
            return False
        return self._has_valid_token(_list_tokens(scope, headers))

    def _check_token(self, scope: Scope, headers: _Headers) -> JSONResponse | None:
        if not self._token:
            return None
        tokens = _list_tokens(scope, headers)
        if tokens:
            is_known = self._has_valid_token(tokens)
            message = _TOKEN_WRONG
        else:
            is_known = self._has_valid_cookie(scope, headers)
            message = _TOKEN_MISSING
        if is_known:
            return None
        return self._build_refusal(scope, 401, message, {"WWW-Authenticate": "Bearer"})

    def _has_valid_token(self, tokens: Sequence[str]) -> bool:
        """Return whether a request names the token, and no other one."""
        if len(tokens) != 1:
            return False
        return hmac.compare_digest(tokens[0].encode("utf-8", "replace"), self._token)

    def _has_valid_cookie(self, scope: Scope, headers: _Headers) -> bool:
        """Return whether a request has our cookie and, to write, an Origin.

        The browser states the Origin, which was compared before.
        """
        is_read = scope["method"] in ("GET", "HEAD")
        if not is_read and "origin" not in headers:
            return False
        cookies = cookie_parser(headers.get("cookie", ""))
        cookie = cookies.get(self._cookie, "")
        return hmac.compare_digest(cookie.encode("utf-8", "replace"), self._secret.encode())

    def _build_login_redirect(self, scope: Scope, headers: _Headers) -> Response | None:
        """Redirect a page that is opened by its token to the address without it.

        It gets a cookie that no script can read.
        """
        query_text = scope.get("query_string", b"").decode("latin-1")
        query = parse_qsl(query_text, encoding="utf-8")
        has_token = any(name == "token" for name, _ in query)
        if not self._token or scope["path"] not in PAGES or not has_token:
            return None
        address = scope["path"]
        remaining_query = urlencode([(name, value) for name, value in query if name != "token"])
        if remaining_query:
            address = f"{address}?{remaining_query}"
        cookie = f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        reply_headers = {"Set-Cookie": cookie, **_NO_STORE}
        if _is_own_site(headers):
            reply_headers["Location"] = address
            return Response(status_code=303, headers=reply_headers)
        # After a link from a file, a browser would not send such a cookie; this page redirects.
        body = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">'
        return HTMLResponse(body, headers=reply_headers)

    def _check_request(self, scope: Scope, headers: _Headers) -> JSONResponse | None:
        path = scope["path"]
        method = scope["method"]
        methods = _OWN_METHODS.get(path) or self._site.list_methods(path)
        if not methods:
            return self._build_refusal(scope, 404, "nothing is served here; MCP is at /mcp")
        if method not in methods:
            allow = {"Allow": ", ".join(methods)}
            return self._build_refusal(scope, 405, f"use {methods[0]}", allow)
        content_type = headers.get("content-type", "").partition(";")[0]
        if method == "POST" and content_type.strip().lower() != _JSON:
            return self._build_refusal(scope, 415, f"Content-Type must be {_JSON}")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > MAX_LINE:
            return self._build_refusal(scope, 413, _BODY_TOO_LARGE)
        return None

    def _build_refusal(
        self, scope: Scope, status: int, message: str, headers: dict[str, str] | None = None
    ) -> JSONResponse:
        body = self._site.format_refusal(scope["path"], status, message)
        all_headers = {"X-Content-Type-Options": "nosniff"}
        if headers:
            all_headers.update(headers)
        return JSONResponse(body, status, headers=all_headers)


def _is_own_site(headers: _Headers) -> bool:
    """Return whether no other site leads to a request, as the browser states."""
    return headers.get("sec-fetch-site", "none") in _OWN_SITES


def _list_tokens(scope: Scope, headers: _Headers) -> list[str]:
    """List the tokens that a request names: in the header, else in the address."""
    if "authorization" in headers:
        scheme, _, token = headers["authorization"].partition(" ")
        return [token.strip() if scheme.lower() == "bearer" else ""]
    query_text = scope.get("query_string", b"").decode("latin-1")
    query = parse_qs(query_text, keep_blank_values=True, encoding="latin-1")
    return query.get("token", [])


def _parse_headers(scope: Scope) -> _Headers:
    """Return the headers of a request; "" for a repeated one, which programs read differently."""
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
    """Let the application read a body that was already read."""
    pending_messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        if pending_messages:
            return pending_messages.pop()
        return await receive()

    return receive_next
