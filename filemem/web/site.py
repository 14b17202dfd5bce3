"""Serve the table of routes with Starlette; the only place where failures get an HTTP status."""

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
from starlette.routing import Route as StarletteRoute
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

MAX_SANDBOXES = 2  # scripts that run at the same time
MAX_LOG_LINES = 10_000  # newest lines of the log that are kept
_STATUS: Mapping[type[FilememError], tuple[int, str]] = {
    BadInput: (400, "INVALID_REQUEST"),
    NotFound: (404, "NOT_FOUND"),
    Conflict: (409, "CONFLICT"),
    Locked: (503, "LOCKED"),
    BrokenStore: (500, ""),  # "": each route has another code
}
_COMMON_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_SLACK_NAMES = {"channelId": "channel_id", "filePath": "file_path"}  # other names that clients use


class Site:
    """The routes that are served beside MCP, and the log of their requests."""

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
        """List the HTTP methods of a path; none if the path has no route."""
        methods = sorted({route.method for route in self._list_routes(path)})
        if "GET" in methods:
            methods.append("HEAD")
        return tuple(methods)

    def format_refusal(self, path: str, status: int, message: str) -> Mapping[str, object]:
        """Format a refusal as callers of this path expect it."""
        failure = RouteFailure(status, HTTPStatus(status).name, message)
        routes = self._list_routes(path)
        if routes:
            return routes[0].format_failure(failure)
        return format_plain_failure(failure)

    def log_request(self, method: str, path: str, status: int, milliseconds: int) -> None:
        """Log a request by its route only: its path and arguments may hold secrets."""
        routes = self._list_routes(path)
        if routes:
            location = routes[0].path
        elif path in ("/mcp", "/health"):
            location = path
        else:
            location = "(no route)"
        verb = method if method in HTTPMethod.__members__ else "?"
        self.add_log_line(f"{verb} {location} {status} {milliseconds} ms")

    def build_routes(
        self, ask: Ask, on_crash: Callable[[str, BaseException], None]
    ) -> list[StarletteRoute]:
        """Build Starlette's routes; `ask` reaches the memory, `on_crash` gets defects."""
        context = Context(
            ask=ask,
            log=self.log,
            web=self._web,
            sandbox_slots=asyncio.Semaphore(MAX_SANDBOXES),
            todo=self._todo,
        )

        def report_crash(route_name: str, error: BaseException) -> None:
            self.add_log_line(f"defect in {route_name}: {type(error).__name__}")
            on_crash(route_name, error)

        return [_build_starlette_route(route, context, report_crash) for route in self._routes]

    def _list_routes(self, path: str) -> list[Route]:
        return [route for pattern, route in self._patterns if pattern.match(path)]

    def add_log_line(self, line: str) -> None:
        """Add a line to the log; it must not quote a request, which may hold secrets."""
        timestamp = time.strftime("[%Y-%m-%d %H:%M:%S]", time.gmtime())
        self.log.append(f"{timestamp} {line}")


def _build_starlette_route(
    route: Route, context: Context, on_crash: Callable[[str, BaseException], None]
) -> StarletteRoute:
    middleware: list[Middleware] = []
    if route.path.startswith(("/viewer", "/graph")):  # their answers are large
        middleware.append(Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=4))
    endpoint = _build_endpoint(route, context, on_crash)
    return StarletteRoute(route.path, endpoint, methods=[route.method], middleware=middleware)


def _build_endpoint(
    route: Route, context: Context, on_crash: Callable[[str, BaseException], None]
) -> Any:
    async def answer_request(request: Request) -> Response:
        values: dict[str, object] = {}
        served_route = route
        try:
            values = await _read_arguments(route, request)
            served_route = resolve_route(route, values)
            name = f"{served_route.method} {route.path}"
            tool = Tool(name, "", served_route.schema, lambda *_: {})
            arguments, note = validate_arguments(tool, values)
            result = await served_route.handler(context, arguments)
        except FilememError as error:
            return _answer_failure(served_route, values, error)
        except OSError as error:
            return _answer_failure(served_route, values, to_broken_store(error))
        except Exception as error:  # noqa: BLE001 - a defect is reported, and the server goes on
            on_crash(f"{served_route.method} {served_route.path}", error)
            hint = "a defect of filemem: please report it"
            failure = FilememError("internal error, logged", hint)
            return _answer_failure(served_route, values, failure)
        reply = result if isinstance(result, Reply) else Reply(add_note(result, note))
        tag = reply.headers.get("ETag")
        if tag and tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=_build_headers(reply))
        return _build_response(reply)

    return answer_request


async def _read_arguments(route: Route, request: Request) -> dict[str, object]:
    """Read the arguments of a request, before they are validated."""
    if route.method == "POST":
        values = parse_body(await request.body())
    else:
        pairs = request.query_params.multi_items()
        values = parse_query(route.schema, pairs, request.path_params)
    if route.path == "/api/slack/send":
        return {_SLACK_NAMES.get(name, name): value for name, value in values.items()}
    return values


def _answer_failure(route: Route, values: Mapping[str, Any], error: FilememError) -> Response:
    failure = error if isinstance(error, RouteFailure) else _build_failure(route, values, error)
    return _build_response(Reply(route.format_failure(failure), failure.status))


def _build_failure(route: Route, values: Mapping[str, Any], error: FilememError) -> RouteFailure:
    """Build a failure with the status, code and message that callers of the route expect."""
    status, code = _find_status(error)
    field = ""
    message = format_error(error)
    if isinstance(error, BadInput):
        field = error.field
        missing_fields = _list_missing(route, values)
        is_text_of_save = route.path == "/api/save" and field in ("title", "text")
        if is_text_of_save and not _has_text(values.get(field)):
            # mem-claude uses these words for a missing text and for one of a wrong type.
            message = f"{field} is required and must be a string"
        elif field in missing_fields:
            code = route.missing_code
            noun = "field" if len(missing_fields) == 1 else "fields"
            message = f"Missing required {noun}: {', '.join(missing_fields)}"
    return RouteFailure(status, code or route.failure_code, message, error.hint, field)


def _find_status(error: FilememError) -> tuple[int, str]:
    """Find the status and the code of the nearest class of an error; 500 and "" if none has one."""
    for error_class in type(error).__mro__:
        if error_class in _STATUS:
            return _STATUS[error_class]
    return 500, ""


def _list_missing(route: Route, values: Mapping[str, Any]) -> list[str]:
    """List the required arguments that are missing or blank."""
    required = route.schema.get("required", ())
    return [name for name in required if not str(values.get(name, "")).strip()]


def _has_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _build_headers(reply: Reply) -> dict[str, str]:
    return _COMMON_HEADERS | dict(reply.headers)


def _build_response(reply: Reply) -> Response:
    headers = _build_headers(reply)
    body = reply.body
    if isinstance(body, AsyncIterator):  # sends pings while it is silent, and ends with the server
        return EventSourceResponse(body, reply.status, headers)
    if isinstance(body, bytes):
        data = body
    elif reply.media_type == JSON:
        data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    else:
        data = str(body).encode("utf-8", "replace")
    return Response(data, reply.status, headers, reply.media_type)
