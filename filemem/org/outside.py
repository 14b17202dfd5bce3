"""The paths of the service that need no token of a person: each checks for itself who asks."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BadInput, FilememError
from filemem.org import metrics
from filemem.org.access import hash_token
from filemem.org.engine import Principal
from filemem.org.hooks import is_genuine, parse_push, parse_secrets
from filemem.org.log import REQUEST, log, set_up_logging
from filemem.org.memory import translate_database_errors
from filemem.org.queue import METRICS, Queue
from filemem.web.site import Site

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

App = Callable[[Any, Any, Any], Awaitable[None]]  # an ASGI application
HOOK = "/org/hook"
READ_METHODS = ("GET", "HEAD")
METHODS = {HOOK: ("POST",), "/ready": READ_METHODS, "/metrics": READ_METHODS}
QUIET_PATHS = ("/health", "/ready", "/metrics")  # asked every few seconds: logged if they fail
JSON = "application/json"


class Answer(NamedTuple):
    """What one of these paths answers."""

    status: int
    body: str
    media_type: str = JSON


Headers = Mapping[str, str]  # by lower-case names
PrincipalLookup = Callable[[str], Principal]  # of a token
PathHandler = Callable[[Headers, bytes], Answer]  # of the headers and the body


class OrgSite(Site):
    """The routes of the service with the paths of METHODS; each answer is counted and logged."""

    def list_methods(self, path: str) -> tuple[str, ...]:
        """See `Site`."""
        return METHODS.get(path) or super().list_methods(path)

    def log_request(self, method: str, path: str, status: int, milliseconds: int) -> None:
        """See `Site`. What was asked, and by whom, stays out of the log."""
        route = "other"
        if path in ("/mcp", "/health") or self.list_methods(path):
            route = path
        metrics.count_request(route, status, milliseconds / 1000)
        level = "error" if status >= 500 else "info"
        if status >= 400 or route not in QUIET_PATHS:
            log(level, "answered", method=method, route=route, status=status, ms=milliseconds)


class PathMiddleware:
    """Stands before an application, gives each request an id, and answers some paths itself.

    Args:
        app: what answers the others.
        handlers: what answers each path, in a thread.
    """

    def __init__(self, app: App, handlers: Mapping[str, PathHandler]) -> None:
        self._app = app
        self._handlers = handlers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {}
        for key, value in scope["headers"]:
            headers[key.decode("latin-1").lower()] = value.decode("latin-1")
        send = _add_request_id(headers.get("x-request-id", ""), send)
        handler = self._handlers.get(scope["path"])
        if handler is None:
            return await self._app(scope, receive, send)
        message = await receive()  # the door has read the whole body
        answer = await asyncio.to_thread(handler, headers, message.get("body", b""))
        return await send_answer(send, answer)


async def send_answer(send: Any, answer: Answer, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer whole."""
    all_headers = [
        (b"content-type", answer.media_type.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": all_headers})
    await send({"type": "http.response.body", "body": answer.body.encode()})


def build_refusal(status: int, error: FilememError) -> Answer:
    """Word a failure as all routes do."""
    content = {"error": error.message}
    if error.hint:
        content["hint"] = error.hint
    return Answer(status, json.dumps(content))


def _add_request_id(stated_id: str, send: Any) -> Any:
    """Give a request its id, the proxy's if that states one: for what is logged, and the answer."""
    request_id = stated_id
    if not re.fullmatch(r"[\w.-]{1,64}", stated_id, re.ASCII):
        request_id = secrets.token_hex(8)
    REQUEST.set(request_id)

    async def send_with_id(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"x-request-id", request_id.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_id


def build_handlers(
    engine: Postgres, look_up: PrincipalLookup, secret: str, folder: str
) -> dict[str, PathHandler]:
    """Make what answers each of `METHODS`. Raises BadInput: the secret of hooks is too short.

    Args:
        engine: the database.
        look_up: finds whose a token is.
        secret: what reports of pushes are signed with.
        folder: see `metrics.render_metrics`.
    """
    set_up_logging()
    queue = Queue(engine)
    return {
        HOOK: partial(_answer_hook, queue, parse_secrets(secret)),
        "/ready": partial(_answer_ready, engine),
        "/metrics": partial(_answer_metrics, queue, look_up, folder),
    }


def _answer_ready(engine: Postgres, _headers: Headers, _body: bytes) -> Answer:
    try:
        with translate_database_errors(), engine.open_reader("") as reader:
            reader.list_repositories()
    except FilememError as error:
        return build_refusal(503, error)
    return Answer(200, json.dumps({"status": "ready"}))


def _answer_metrics(
    queue: Queue, look_up: PrincipalLookup, folder: str, headers: Headers, _body: bytes
) -> Answer:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer" or look_up(token).name != METRICS:
            hint = f"filemem org token add {METRICS}"
            return build_refusal(401, BadInput(f"figures need a token of the name {METRICS}", hint))
        with translate_database_errors():
            rows = queue.list_statuses(hash_token(token))
        return Answer(200, metrics.render_metrics(rows, folder), metrics.MEDIA_TYPE)
    except FilememError as error:
        return build_refusal(503, error)


def _answer_hook(queue: Queue, keys: tuple[str, ...], headers: Headers, body: bytes) -> Answer:
    if not keys:
        hint = "set FILEMEM_ORG_HOOK_SECRET where the service runs"
        return build_refusal(404, BadInput("this service takes no reports of pushes", hint))
    if not is_genuine(headers, body, keys):
        hint = "give the hook the secret of FILEMEM_ORG_HOOK_SECRET"
        message = "the report is not signed with the secret of this service"
        return build_refusal(401, BadInput(message, hint))
    try:
        names = parse_push(headers, body)
        with translate_database_errors():
            count = queue.report_pushes(names) if names else 0
    except BadInput as error:
        return build_refusal(400, error)
    except FilememError as error:
        return build_refusal(503, error)
    return Answer(202, json.dumps({"queued": count}))
