"""The site: the table of routes as Starlette serves it. The one place where failures become statuses."""

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
    Route,
    Told,
    from_body,
    from_query,
    plain,
)
from filemem.web.routes import ROUTES, meant

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
        self.log, self._web, self._rows = deque[str](maxlen=LOGGED), web or Web(), rows
        self._todo = todo
        self._table = [(compile_path(route.path)[0], route) for route in rows]

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods that a path is served by; none where nothing is."""
        found = {route.method for route in self._at(path)}
        return (*sorted(found), *(("HEAD",) if "GET" in found else ()))

    def words(self, path: str, status: int, message: str) -> Mapping[str, object]:
        """Word a refusal as callers of this path expect it."""
        style = next((route.style for route in self._at(path)), plain)
        return style(Refused(status, HTTPStatus(status).name, message))

    def seen(self, method: str, path: str, status: int, milliseconds: int) -> None:
        """Note a request by its route; what was asked for stays out of the log."""
        known = [route.path for route in self._at(path)] or [
            path if path in ("/mcp", "/health") else "(no route)"
        ]
        self.note(
            f"{method if method in HTTPMethod.__members__ else '?'} {known[0]} {status} {milliseconds} ms"
        )

    def routes(self, ask: Ask, on_crash: Callable[[str, BaseException], None]) -> list[Served]:
        """The table as Starlette takes it; `ask` reaches the memory, `on_crash` gets defects."""
        context = Context(ask, self.log, self._web, asyncio.Semaphore(SANDBOXES), self._todo)

        def told(where: str, error: BaseException) -> None:
            self.note(f"defect in {where}: {type(error).__name__}")
            on_crash(where, error)

        return [
            Served(
                one.path,
                _endpoint(one, context, told),
                methods=[one.method],
                middleware=_smaller(one.path),
            )
            for one in self._rows
        ]

    def _at(self, path: str) -> list[Route]:
        return [route for pattern, route in self._table if pattern.match(path)]

    def note(self, line: str) -> None:
        """Add to the log what we chose, never what a caller sent: nothing secret can stand in it."""
        self.log.append(time.strftime("[%Y-%m-%d %H:%M:%S] ", time.gmtime()) + line)


def _smaller(path: str) -> list[Middleware]:
    """What compresses the answers of a route: those that the page asks for are large."""
    return (
        [Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=4)]
        if path.startswith("/viewer")
        else []
    )


def _endpoint(
    route: Route, context: Context, on_crash: Callable[[str, BaseException], None]
) -> Any:
    async def answer(request: Request) -> Response:
        given: dict[str, object] = {}
        row = route
        try:
            given = await _arguments(route, request)
            row = meant(route, given)
            arguments, note = checked(
                Tool(f"{row.method} {route.path}", "", row.schema, lambda *_: {}), given
            )
            result = await row.work(context, arguments)
        except FilememError as error:
            return _failed(row, given, error)
        except OSError as error:
            return _failed(row, given, refused(error))
        except Exception as error:  # noqa: BLE001  a defect becomes a report, and the server goes on
            on_crash(f"{row.method} {row.path}", error)
            return _failed(
                row,
                given,
                FilememError("internal error, logged", "a defect of filemem: please report it"),
            )
        told = result if isinstance(result, Told) else Told(noted(result, note))
        if "ETag" in told.headers and told.headers["ETag"] in request.headers.get(
            "if-none-match", ""
        ):
            return Response(status_code=304, headers={**_ALWAYS, **told.headers})
        return _response(told)

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


def _failed(route: Route, given: Mapping[str, Any], error: FilememError) -> Response:
    if not isinstance(error, Refused):
        status, code = next(
            (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), (500, "")
        )
        field = error.field if isinstance(error, BadInput) else ""
        message = sentence(error)
        missing = [
            name
            for name in route.schema.get("required", ())
            if not str(given.get(name, "")).strip()
        ]
        value = given.get(field)
        if (
            route.path == "/api/save"
            and field in ("title", "text")
            and not (isinstance(value, str) and value.strip())
        ):
            message = (
                f"{field} is required and must be a string"  # mem-claude's words, for both faults
            )
        elif isinstance(error, BadInput) and field in missing:
            code, message = (
                route.lacking,
                f"Missing required field{'s'[: len(missing) - 1]}: {', '.join(missing)}",
            )
        error = Refused(status, code or route.failed, message, error.hint, field)
    return _response(Told(route.style(error), error.status))


def _response(told: Told) -> Response:
    body, headers = told.body, {**_ALWAYS, **told.headers}
    if isinstance(body, AsyncIterator):
        return EventSourceResponse(
            body, told.status, headers
        )  # it says that it is there, and ends with the server
    if told.media == JSON and not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False, allow_nan=False)
    data = body if isinstance(body, bytes) else str(body).encode("utf-8", "replace")
    return Response(data, told.status, headers, told.media)
