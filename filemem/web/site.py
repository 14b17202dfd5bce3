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

from filemem.config import Web
from filemem.dialects.call import checked, noted
from filemem.dialects.tool import Tool, sentence
from filemem.errors import (
    BadInput,
    BrokenStore,
    Conflict,
    FilememError,
    Locked,
    NotFound,
    refused,
)
from filemem.web.route import (
    JSON,
    Ask,
    Context,
    Refused,
    Reply,
    Route,
    from_body,
    from_query,
    plain,
)
from filemem.web.routes import ROUTES, for_arguments

SANDBOXES = 2  # at once
LOGGED = 10_000  # lines of the log that are kept, the newest
_STATUS: Mapping[type[FilememError], tuple[int, str]] = {
    BadInput: (400, "INVALID_REQUEST"),
    NotFound: (404, "NOT_FOUND"),
    Conflict: (409, "CONFLICT"),
    Locked: (503, "LOCKED"),
    BrokenStore: (500, ""),  # "": the route's own code
}
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_SLACK = {"channelId": "channel_id", "filePath": "file_path"}  # as the real programs write them


class Site:
    """What is served beside MCP."""

    def __init__(
        self,
        web: Web | None = None,
        rows: Sequence[Route] = ROUTES,
        todo: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.log = deque[str](maxlen=LOGGED)
        self._web = web or Web()
        self._rows = rows
        self._todo = todo
        self._table = [(compile_path(route.path)[0], route) for route in rows]

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods that a path is served by; none where nothing is."""
        methods = {route.method for route in self._at(path)}
        return (*sorted(methods), *(("HEAD",) if "GET" in methods else ()))

    def words(self, path: str, status: int, message: str) -> Mapping[str, object]:
        """Word a refusal as callers of this path expect it."""
        style = next((route.style for route in self._at(path)), plain)
        return style(Refused(status, HTTPStatus(status).name, message))

    def seen(self, method: str, path: str, status: int, milliseconds: int) -> None:
        """Note a request by its route; what was asked for stays out of the log."""
        other = path if path in ("/mcp", "/health") else "(no route)"
        where = next((route.path for route in self._at(path)), other)
        verb = method if method in HTTPMethod.__members__ else "?"
        self.note(f"{verb} {where} {status} {milliseconds} ms")

    def routes(self, ask: Ask, on_crash: Callable[[str, BaseException], None]) -> list[Served]:
        """The table as Starlette takes it; `ask` reaches the memory, `on_crash` gets defects."""
        context = Context(ask, self.log, self._web, asyncio.Semaphore(SANDBOXES), self._todo)

        def crashed(where: str, error: BaseException) -> None:
            self.note(f"defect in {where}: {type(error).__name__}")
            on_crash(where, error)

        return [
            Served(
                route.path,
                _endpoint(route, context, crashed),
                methods=[route.method],
                middleware=_smaller(route.path),
            )
            for route in self._rows
        ]

    def _at(self, path: str) -> list[Route]:
        return [route for pattern, route in self._table if pattern.match(path)]

    def note(self, line: str) -> None:
        """Add to the log what we chose, never what a caller sent: it holds nothing secret."""
        self.log.append(time.strftime("[%Y-%m-%d %H:%M:%S] ", time.gmtime()) + line)


def _smaller(path: str) -> list[Middleware]:
    """What compresses the answers of a route: those that the page asks for are large."""
    return (
        [Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=4)]
        if path.startswith(("/viewer", "/graph"))
        else []
    )


def _endpoint(
    route: Route, context: Context, on_crash: Callable[[str, BaseException], None]
) -> Any:
    async def answer(request: Request) -> Response:
        values: dict[str, object] = {}
        row = route
        try:
            values = await _arguments(route, request)
            row = for_arguments(route, values)
            tool = Tool(f"{row.method} {route.path}", "", row.schema, lambda *_: {})
            arguments, note = checked(tool, values)
            result = await row.work(context, arguments)
        except FilememError as error:
            return _failed(row, values, error)
        except OSError as error:
            return _failed(row, values, refused(error))
        except Exception as error:  # noqa: BLE001 - a defect is reported, and the server goes on
            on_crash(f"{row.method} {row.path}", error)
            hint = "a defect of filemem: please report it"
            return _failed(row, values, FilememError("internal error, logged", hint))
        reply = result if isinstance(result, Reply) else Reply(noted(result, note))
        mark = reply.headers.get("ETag")
        if mark and mark in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={**_ALWAYS, **reply.headers})
        return _response(reply)

    return answer


async def _arguments(route: Route, request: Request) -> dict[str, object]:
    """The arguments of a request, as they came."""
    if route.method == "POST":
        values = from_body(await request.body())
    else:
        pairs = request.query_params.multi_items()
        values = from_query(route.schema, pairs, request.path_params)
    if route.path == "/api/slack/send":
        values = {_SLACK.get(name, name): value for name, value in values.items()}
    return values


def _failed(route: Route, values: Mapping[str, Any], error: FilememError) -> Response:
    failure = error if isinstance(error, Refused) else _worded(route, values, error)
    return _response(Reply(route.style(failure), failure.status))


def _worded(route: Route, values: Mapping[str, Any], error: FilememError) -> Refused:
    """A failure of ours with the status, the code and the words that callers of a route expect."""
    kinds = (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
    status, code = next(kinds, (500, ""))
    field = error.field if isinstance(error, BadInput) else ""
    message = sentence(error)
    required = route.schema.get("required", ())
    missing = [name for name in required if not str(values.get(name, "")).strip()]
    if route.path == "/api/save" and field in ("title", "text") and not _is_said(values.get(field)):
        message = f"{field} is required and must be a string"  # mem-claude's words for both faults
    elif isinstance(error, BadInput) and field in missing:
        code = route.lacking
        message = f"Missing required field{'s'[: len(missing) - 1]}: {', '.join(missing)}"
    return Refused(status, code or route.failed, message, error.hint, field)


def _is_said(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _response(reply: Reply) -> Response:
    body = reply.body
    headers = {**_ALWAYS, **reply.headers}
    if isinstance(body, AsyncIterator):  # it says that it is there, and ends with the server
        return EventSourceResponse(body, reply.status, headers)
    if reply.media == JSON and not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False, allow_nan=False)
    data = body if isinstance(body, bytes) else str(body).encode("utf-8", "replace")
    return Response(data, reply.status, headers, reply.media)
