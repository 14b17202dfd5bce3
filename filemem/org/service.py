"""The service of an organisation: whose a token is, how often it may ask, and what is served.

Rule: a request without a known token gets no further than `Guard`, and what answers takes whose it is from `ASKING`, which
is nobody unless `Guard` set it. A token stands in a header alone: addresses are logged on the way.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from filemem.errors import FilememError

ASKING: ContextVar[str] = ContextVar("asking", default="")  # the principal of a request; "" for nobody
A_MINUTE = 120  # requests of one token, if nothing else is said; a client's greeting takes three

App = Callable[[Any, Any, Any], Awaitable[None]]  # an ASGI application
_UNKNOWN = "a token of this service is required: send Authorization: Bearer TOKEN"


class Rate:
    """Lets each token ask so many times a minute: at once, or spread."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._left: dict[str, tuple[float, float]] = {}  # by token: requests that it has left, and since when

    def wait(self, token: str) -> int:
        """Count a request; return the seconds after which to ask again, 0 if it may be answered now."""
        now, a_second = self._clock(), self._most / 60
        left, since = self._left.get(token, (self._most, now))
        left = min(self._most, left + (now - since) * a_second)
        self._left[token] = (left - 1 if left >= 1 else left), now
        return 0 if left >= 1 else math.ceil((1 - left) / a_second)


class Guard:
    """Stands before an application: passes on the requests of known tokens that do not ask too often."""

    def __init__(self, app: App, who: Callable[[str], str], rate: Rate) -> None:
        self._app, self._who, self._rate = app, who, rate

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] == "/health":
            return await self._app(scope, receive, send)
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = named[0].partition(" ") if len(named) == 1 else ("", "", "")
        try:
            known = token and scheme.lower() == "bearer"
            name = await asyncio.to_thread(self._who, token.strip()) if known else ""
        except FilememError as error:
            return await _refuse(send, 503, error.message)
        if not name:
            return await _refuse(send, 401, _UNKNOWN, ("WWW-Authenticate", "Bearer"))
        if wait := self._rate.wait(token):
            return await _refuse(send, 429, "this token asks too often", ("Retry-After", str(wait)))
        ASKING.set(name)
        return await self._app(scope, receive, send)


async def _refuse(send: Any, status: int, message: str, *headers: tuple[str, str]) -> None:
    told = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *headers]
    raw = [(name.lower().encode(), value.encode()) for name, value in told]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": json.dumps({"error": message}).encode()})
