"""Who asks the service: a request without a known token gets no further than `Guard`.

Rule: `Guard` alone sets for whom the rest answers. A token stands in a header, never in an address:
those are logged on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from filemem.errors import BadInput, FilememError, Locked
from filemem.org.access import hashed, principal
from filemem.org.engine import NOBODY, Principal
from filemem.org.memory import ASKING, discreet
from filemem.org.oidc import People
from filemem.org.outside import refusal, send_answer

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

App = Callable[[Any, Any, Any], Awaitable[None]]  # an ASGI application
Whose = Callable[[str], Principal]  # of a token, NOBODY for an unknown one
WRONG = 60  # unknown tokens a minute that the database is asked about
KNOWN = 10_000  # tokens that are remembered as good


class TooOften(Locked):
    """Somebody asks too often."""


def looked_up(engine: Postgres, people: People | None, token: str) -> Principal:
    """Return whose a token is. Raises Locked: the database, or the provider, does not answer.

    `people`: those of an identity provider, who come with its tokens.
    """
    if people and people.takes(token):
        return people.principal(token)
    with discreet(), engine.transaction(reading=True) as con:
        return Principal(principal(con, token))


class Minute:
    """How often something happened in this minute."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._minute = 0
        self._counts = Counter[bytes]()

    def count(self, key: bytes = b"") -> None:
        """Count once more."""
        self._counts[key] += 1

    def full(self, key: bytes = b"") -> bool:
        """Whether that was as often as it may be."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        return self._counts[key] >= self._most


class Tokens:
    """Whose tokens are. After so many unknown ones in a minute only good ones are looked up."""

    def __init__(self, whose: Whose) -> None:
        self._whose = whose
        self._wrong = Minute(WRONG)
        self._good = dict[bytes, None]()

    def __call__(self, token: str) -> Principal:
        """Return whose a token is. Raises TooOften, Locked."""
        key = hashed(token)
        if key not in self._good and self._wrong.full():
            raise TooOften("too many unknown tokens", "ask again in a minute")
        asker = self._whose(token)
        self._good.pop(key, None)
        if not asker.name:
            self._wrong.count()
        elif len(self._good) < KNOWN:
            self._good[key] = None
        return asker


class Guard:
    """Stands before an application: passes on requests of known tokens, each so often a minute."""

    def __init__(self, app: App, whose: Whose, rate: int) -> None:
        self._app = app
        self._whose = whose
        self._requests = Minute(rate)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] == "/health":
            return await self._app(scope, receive, send)
        token = _bearer(scope["headers"])
        try:
            asker = await asyncio.to_thread(self._whose, token) if token else NOBODY
        except TooOften as error:
            return await refuse(send, 429, error, _wait())
        except Locked as error:
            return await refuse(send, 503, error)
        if not asker.name:
            message = "a token of this service is required: send Authorization: Bearer TOKEN"
            return await refuse(send, 401, BadInput(message), (b"www-authenticate", b"Bearer"))
        key = hashed(token)
        if self._requests.full(key):
            return await refuse(send, 429, BadInput("this token asks too often"), _wait())
        self._requests.count(key)
        ASKING.set(asker)
        return await self._app(scope, receive, send)


def _bearer(headers: list[tuple[bytes, bytes]]) -> str:
    """The token of a request, "" if it has none, or several."""
    stated = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
    scheme, _, token = stated[0].partition(" ") if len(stated) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def _wait() -> tuple[bytes, bytes]:
    """When to ask again: in the next minute."""
    return b"retry-after", b"%d" % (60 - int(time.monotonic()) % 60)


async def refuse(
    send: Any, status: int, error: FilememError, *headers: tuple[bytes, bytes]
) -> None:
    """Answer with a failure."""
    await send_answer(send, refusal(status, error), *headers)
