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
from filemem.org.access import find_principal, hash_token
from filemem.org.engine import NOBODY, Principal
from filemem.org.memory import CURRENT_PRINCIPAL, translate_database_errors
from filemem.org.oidc import People
from filemem.org.outside import build_refusal, send_answer

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

App = Callable[[Any, Any, Any], Awaitable[None]]  # an ASGI application
PrincipalLookup = Callable[[str], Principal]  # of a token, NOBODY for an unknown one
MAX_UNKNOWN = 60  # unknown tokens a minute that the database is asked about
MAX_KNOWN = 10_000  # tokens that are remembered as good


class RateLimitError(Locked):
    """A client asks too often."""


def look_up_principal(engine: Postgres, people: People | None, token: str) -> Principal:
    """Return whose a token is. Raises Locked: the database, or the provider, does not answer.

    `people`: those of an identity provider, who come with its tokens.
    """
    if people and people.is_provider_token(token):
        return people.find_principal(token)
    with translate_database_errors(), engine.transaction(read_only=True) as con:
        return Principal(find_principal(con, token))


class MinuteCounter:
    """How often something happened in this minute."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._minute = 0
        self._counts = Counter[bytes]()

    def add(self, key: bytes = b"") -> None:
        """Count once more."""
        self._counts[key] += 1

    def is_full(self, key: bytes = b"") -> bool:
        """Whether that was as often as it may be."""
        current_minute = int(time.monotonic() // 60)
        if current_minute != self._minute:
            self._minute = current_minute
            self._counts.clear()
        return self._counts[key] >= self._limit


class TokenLookup:
    """Whose tokens are. After so many unknown ones in a minute only good ones are looked up."""

    def __init__(self, look_up: PrincipalLookup) -> None:
        self._look_up = look_up
        self._unknown_counter = MinuteCounter(MAX_UNKNOWN)
        self._known_keys = dict[bytes, None]()

    def __call__(self, token: str) -> Principal:
        """Return whose a token is. Raises RateLimitError, Locked."""
        key = hash_token(token)
        if key not in self._known_keys and self._unknown_counter.is_full():
            raise RateLimitError("too many unknown tokens", "ask again in a minute")
        asker = self._look_up(token)
        self._known_keys.pop(key, None)
        if not asker.name:
            self._unknown_counter.add()
        elif len(self._known_keys) < MAX_KNOWN:
            self._known_keys[key] = None
        return asker


class Guard:
    """Stands before an application: passes on requests of known tokens, each so often a minute."""

    def __init__(self, app: App, look_up: PrincipalLookup, rate: int) -> None:
        self._app = app
        self._look_up = look_up
        self._requests = MinuteCounter(rate)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] == "/health":
            return await self._app(scope, receive, send)
        token = _parse_bearer(scope["headers"])
        asker = NOBODY
        try:
            if token:
                asker = await asyncio.to_thread(self._look_up, token)
        except RateLimitError as error:
            return await send_refusal(send, 429, error, _build_retry_header())
        except Locked as error:
            return await send_refusal(send, 503, error)
        if not asker.name:
            refusal = BadInput(
                "a token of this service is required: send Authorization: Bearer TOKEN"
            )
            return await send_refusal(send, 401, refusal, (b"www-authenticate", b"Bearer"))
        key = hash_token(token)
        if self._requests.is_full(key):
            refusal = BadInput("this token asks too often")
            return await send_refusal(send, 429, refusal, _build_retry_header())
        self._requests.add(key)
        CURRENT_PRINCIPAL.set(asker)
        return await self._app(scope, receive, send)


def _parse_bearer(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the token of a request; "" if it has none, or several."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        return ""
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        return ""
    return token.strip()


def _build_retry_header() -> tuple[bytes, bytes]:
    """Build the header that says when to ask again: in the next minute."""
    seconds = 60 - int(time.monotonic()) % 60
    return b"retry-after", b"%d" % seconds


async def send_refusal(
    send: Any, status: int, error: FilememError, *headers: tuple[bytes, bytes]
) -> None:
    """Answer with a failure."""
    await send_answer(send, build_refusal(status, error), *headers)
