"""The site: the table of routes as Starlette serves it.

The one place where failures become statuses.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPMethod, HTTPStatus
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Served
from starlette.routing import compile_path

from filemem.config import WebSettings
from filemem.dialects.call import add_note, validate_arguments
from filemem.dialects.tool import Tool, format_error
from filemem.errors import (
    BadInput,
    BrokenStore,
    Conflict,
    FilememError,
    Locked,
    NotFound,
    to_broken_store,
)
from filemem.web.route import (
    JSON,
    Ask,
    Context,
    Reply,
    Route,
    RouteFailure,
    format_plain_failure,
    parse_body,
    parse_query,
)
from filemem.web.routes import ROUTES, resolve_route

MAX_SANDBOXES = 2  # at once
MAX_LOG_LINES = 10_000  # lines of the log that are kept, the newest
_STATUS: Mapping[type[FilememError], tuple[int, str]] = {
    BadInput: (400, "INVALID_REQUEST"),
    NotFound: (404, "NOT_FOUND"),
    Conflict: (409, "CONFLICT"),
    Locked: (503, "LOCKED"),
    BrokenStore: (500, ""),  # "": the route's own code
}
_COMMON_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_SLACK_NAMES = {
    "channelId": "channel_id",
    "filePath": "file_path",
}  # as the real programs write them


class Site:
    """What is served beside MCP."""

    def __init__(
        self,
        web: WebSettings | None = None,
        routes: Sequence[Route] = ROUTES,
        todo: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.log = deque[str](maxlen=MAX_LOG_LINES)
        self._web = web or WebSettings()
        self._routes = routes
        self._todo = todo
        self._patterns = [(compile_path(route.path)[0], route) for route in routes]

    def list_methods(self, path: str) -> tuple[str, ...]:
        """The methods that a path is served by; none where nothing is."""
        methods = {route.method for route in self._list_routes(path)}
        return (*sorted(methods), *(("HEAD",) if "GET" in methods else ()))

    def format_refusal(self, path: str, status: int, message: str) -> Mapping[str, object]:
        """Word a refusal as callers of this path expect it."""
        style = next(
            (route.format_failure for route in self._list_routes(path)), format_plain_failure
        )
        return style(RouteFailure(status, HTTPStatus(status).name, message))

    def log_request(self, method: str, path: str, status: int, milliseconds: int) -> None:
        """Note a request by its route; what was asked for stays out of the log."""
        other = path if path in ("/mcp", "/health") else "(no route)"
        where = next((route.path for route in self._list_routes(path)), other)
        verb = method if method in HTTPMethod.__members__ else "?"
        self.add_log_line(f"{verb} {where} {status} {milliseconds} ms")

    def build_routes(
        self, ask: Ask, on_crash: Callable[[str, BaseException], None]
    ) -> list[Served]:
        """The table as Starlette takes it; `ask` reaches the memory, `on_crash` gets defects."""
        context = Context(ask, self.log, self._web, asyncio.Semaphore(MAX_SANDBOXES), self._todo)

        def report_crash(route_name: str, error: BaseException) -> None:
            self.add_log_line(f"defect in {route_name}: {type(error).__name__}")
            on_crash(route_name, error)

        return [
            Served(
                route.path,
                _build_endpoint(route, context, report_crash),
                methods=[route.method],
                middleware=_build_middleware(route.path),
            )
            for route in self._routes
        ]

    def _list_routes(self, path: str) -> list[Route]:
        return [route for pattern, route in self._patterns if pattern.match(path)]

    def add_log_line(self, line: str) -> None:
        """Add to the log what we chose, never what a caller sent: it holds nothing secret."""
        self.log.append(time.strftime("[%Y-%m-%d %H:%M:%S] ", time.gmtime()) + line)


def _build_middleware(path: str) -> list[Middleware]:
    """What compresses the answers of a route: those that the page asks for are large."""
    return (
        [Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=4)]
        if path.startswith(("/viewer", "/graph"))
        else []
    )


def _build_endpoint(
    route: Route, context: Context, on_crash: Callable[[str, BaseException], None]
) -> Any:
    async def answer_request(request: Request) -> Response:
        values: dict[str, object] = {}
        row = route
        try:
            values = await _read_arguments(route, request)
            row = resolve_route(route, values)
            tool = Tool(f"{row.method} {route.path}", "", row.schema, lambda *_: {})
            arguments, note = validate_arguments(tool, values)
            result = await row.handler(context, arguments)
        except FilememError as error:
            return _answer_failure(row, values, error)
        except OSError as error:
            return _answer_failure(row, values, to_broken_store(error))
        except Exception as error:  # noqa: BLE001 - a defect is reported, and the server goes on
            on_crash(f"{row.method} {row.path}", error)
            hint = "a defect of filemem: please report it"
            return _answer_failure(row, values, FilememError("internal error, logged", hint))
        reply = result if isinstance(result, Reply) else Reply(add_note(result, note))
        mark = reply.headers.get("ETag")
        if mark and mark in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={**_COMMON_HEADERS, **reply.headers})
        return _build_response(reply)

    return answer_request


async def _read_arguments(route: Route, request: Request) -> dict[str, object]:
    """The arguments of a request, as they came."""
    if route.method == "POST":
        values = parse_body(await request.body())
    else:
        pairs = request.query_params.multi_items()
        values = parse_query(route.schema, pairs, request.path_params)
    if route.path == "/api/slack/send":
        values = {_SLACK_NAMES.get(name, name): value for name, value in values.items()}
    return values


def _answer_failure(route: Route, values: Mapping[str, Any], error: FilememError) -> Response:
    failure = error if isinstance(error, RouteFailure) else _build_failure(route, values, error)
    return _build_response(Reply(route.format_failure(failure), failure.status))


def _build_failure(route: Route, values: Mapping[str, Any], error: FilememError) -> RouteFailure:
    """A failure of ours with the status, the code and the words that callers of a route expect."""
    kinds = (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
    status, code = next(kinds, (500, ""))
    field = error.field if isinstance(error, BadInput) else ""
    message = format_error(error)
    required = route.schema.get("required", ())
    missing = [name for name in required if not str(values.get(name, "")).strip()]
    if (
        route.path == "/api/save"
        and field in ("title", "text")
        and not _has_text(values.get(field))
    ):
        message = f"{field} is required and must be a string"  # mem-claude's words for both faults
    elif isinstance(error, BadInput) and field in missing:
        code = route.missing_code
        message = f"Missing required field{'s'[: len(missing) - 1]}: {', '.join(missing)}"
    return RouteFailure(status, code or route.failure_code, message, error.hint, field)


def _has_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _build_response(reply: Reply) -> Response:
    body = reply.body
    headers = {**_COMMON_HEADERS, **reply.headers}
    if isinstance(body, AsyncIterator):  # it says that it is there, and ends with the server
        return EventSourceResponse(body, reply.status, headers)
    if reply.media_type == JSON and not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False, allow_nan=False)
    data = body if isinstance(body, bytes) else str(body).encode("utf-8", "replace")
    return Response(data, reply.status, headers, reply.media_type)
