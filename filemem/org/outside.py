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
from filemem.org.access import hashed
from filemem.org.engine import Principal
from filemem.org.hooks import genuine, pushed, secrets_in
from filemem.org.log import REQUEST, begin, log
from filemem.org.memory import discreet
from filemem.org.queue import METRICS, Queue
from filemem.web.site import Site

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

App = Callable[[Any, Any, Any], Awaitable[None]]  # an ASGI application
HOOK = "/org/hook"
READ = ("GET", "HEAD")
METHODS = {HOOK: ("POST",), "/ready": READ, "/metrics": READ}
QUIET = ("/health", "/ready", "/metrics")  # asked every few seconds: logged if they fail
JSON = "application/json"


class Answer(NamedTuple):
    """What one of these paths answers."""

    status: int
    body: str
    media: str = JSON


Headers = Mapping[str, str]  # by lower-case names
Whose = Callable[[str], Principal]  # of a token
Work = Callable[[Headers, bytes], Answer]  # of the headers and the body


class OrgSite(Site):
    """The routes of the service with the paths of METHODS; each answer is counted and logged."""

    def methods(self, path: str) -> tuple[str, ...]:
        """See `Site`."""
        return METHODS.get(path) or super().methods(path)

    def seen(self, method: str, path: str, status: int, milliseconds: int) -> None:
        """See `Site`. What was asked, and by whom, stays out of the log."""
        route = path if path in ("/mcp", "/health") or self.methods(path) else "other"
        metrics.count(route, status, milliseconds / 1000)
        if status >= 400 or route not in QUIET:
            level = "error" if status >= 500 else "info"
            log(level, "answered", method=method, route=route, status=status, ms=milliseconds)


class Outside:
    """Stands before an application, gives each request an id, and answers some paths itself.

    Args:
        app: what answers the others.
        works: what answers each path, in a thread.
    """

    def __init__(self, app: App, works: Mapping[str, Work]) -> None:
        self._app = app
        self._works = works

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        pairs = [(key.decode("latin-1").lower(), value) for key, value in scope["headers"]]
        headers = {key: value.decode("latin-1") for key, value in pairs}
        send = _with_id(headers.get("x-request-id", ""), send)
        work = self._works.get(scope["path"])
        if work is None:
            return await self._app(scope, receive, send)
        message = await receive()  # the door has read the whole body
        answer = await asyncio.to_thread(work, headers, message.get("body", b""))
        return await send_answer(send, answer)


async def send_answer(send: Any, answer: Answer, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer whole."""
    every = [
        (b"content-type", answer.media.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": every})
    await send({"type": "http.response.body", "body": answer.body.encode()})


def refusal(status: int, error: FilememError) -> Answer:
    """Word a failure as all routes do."""
    words = {"error": error.message} | ({"hint": error.hint} if error.hint else {})
    return Answer(status, json.dumps(words))


def _with_id(stated: str, send: Any) -> Any:
    """Give a request its id, the proxy's if that states one: for what is logged, and the answer."""
    name = stated if re.fullmatch(r"[\w.-]{1,64}", stated, re.ASCII) else secrets.token_hex(8)
    REQUEST.set(name)

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"x-request-id", name.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return sending


def works(engine: Postgres, whose: Whose, secret: str, folder: str) -> dict[str, Work]:
    """Make what answers each of `METHODS`. Raises BadInput: the secret of hooks is too short.

    Args:
        engine: the database.
        whose: tells whose a token is.
        secret: what reports of pushes are signed with.
        folder: see `metrics.text`.
    """
    begin()
    queue = Queue(engine)
    return {
        HOOK: partial(_reported, queue, secrets_in(secret)),
        "/ready": partial(_ready, engine),
        "/metrics": partial(_metrics, queue, whose, folder),
    }


def _ready(engine: Postgres, _headers: Headers, _body: bytes) -> Answer:
    try:
        with discreet(), engine.reading("") as reader:
            reader.repositories()
    except FilememError as error:
        return refusal(503, error)
    return Answer(200, json.dumps({"status": "ready"}))


def _metrics(queue: Queue, whose: Whose, folder: str, headers: Headers, _body: bytes) -> Answer:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer" or whose(token).name != METRICS:
            hint = f"filemem org token add {METRICS}"
            return refusal(401, BadInput(f"figures need a token of the name {METRICS}", hint))
        with discreet():
            rows = queue.standing(hashed(token))
        return Answer(200, metrics.text(rows, folder), metrics.MEDIA)
    except FilememError as error:
        return refusal(503, error)


def _reported(queue: Queue, keys: tuple[str, ...], headers: Headers, body: bytes) -> Answer:
    if not keys:
        hint = "set FILEMEM_ORG_HOOK_SECRET where the service runs"
        return refusal(404, BadInput("this service takes no reports of pushes", hint))
    if not genuine(headers, body, keys):
        hint = "give the hook the secret of FILEMEM_ORG_HOOK_SECRET"
        return refusal(
            401, BadInput("the report is not signed with the secret of this service", hint)
        )
    try:
        names = pushed(headers, body)
        with discreet():
            count = queue.push(names) if names else 0
    except BadInput as error:
        return refusal(400, error)
    except FilememError as error:
        return refusal(503, error)
    return Answer(202, json.dumps({"queued": count}))
