"""The paths of the service that need no token of a person: each checks for itself who asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BadInput, FilememError
from filemem.org.hooks import genuine, pushed, secrets_in
from filemem.org.memory import discreet
from filemem.org.queue import Queue

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

App = Callable[[Any, Any, Any], Awaitable[None]]  # an ASGI application
HOOK = "/org/hook"
METHODS = {HOOK: ("POST",)}  # of each path
JSON = "application/json"


class Answer(NamedTuple):
    """What one of these paths answers."""

    status: int
    body: str
    media: str = JSON


Work = Callable[
    [Mapping[str, str], bytes], Answer
]  # of the headers, by lower-case name, and the body


class Outside:
    """Stands before an application and answers some paths itself.

    Args:
        app: what answers the others.
        works: what answers each path, in a thread.
    """

    def __init__(self, app: App, works: Mapping[str, Work]) -> None:
        self._app = app
        self._works = works

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        work = self._works.get(scope["path"]) if scope["type"] == "http" else None
        if work is None:
            return await self._app(scope, receive, send)
        pairs = [(key.decode("latin-1").lower(), value) for key, value in scope["headers"]]
        headers = {key: value.decode("latin-1") for key, value in pairs}
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


def works(engine: Postgres, secret: str) -> dict[str, Work]:
    """Make what answers each of `METHODS`. Raises BadInput: the secret of hooks is too short."""
    return {HOOK: partial(_reported, Queue(engine), secrets_in(secret))}


def _reported(
    queue: Queue, secrets: tuple[str, ...], headers: Mapping[str, str], body: bytes
) -> Answer:
    if not secrets:
        hint = "set FILEMEM_ORG_HOOK_SECRET where the service runs"
        return refusal(404, BadInput("this service takes no reports of pushes", hint))
    if not genuine(headers, body, secrets):
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
