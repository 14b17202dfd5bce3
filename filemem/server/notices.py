"""Tells clients what changed. A resource has changed when reading it gives another text than when it was last told.

The memory says only that something may have changed, whoever did it: a save, an editor, a checkout, another process.
So nothing has to know which resources a change touches; what it costs is bounded by the addresses that are followed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from filemem.server.jsonrpc import INVALID_PARAMS

MOST = 200  # addresses that are followed at once
STREAMS = 64  # subscriptions/listen at once
PAUSE = 0.1  # seconds between a change and the look at what it changed, so that a burst costs one look
SHARE = 5  # a look pauses this many times what it took: calls come first

STALLED = 2.0  # seconds after which a client that does not read is passed over

_Context = ServerRequestContext[Any, Any]
_LISTING = ""  # stands for the list of resources among addresses


class Notices:
    """Who follows what, and the loop that tells them.

    Handshake clients follow an address by `resources/subscribe` and hear of the list unasked; clients of 2026-07-28
    get both on the stream of `subscriptions/listen`.

    Args:
        read: gives the text behind an address, "" where there is none yet; the address "" is the list of resources.
        grows: whether the list of resources ever changes.
    """

    def __init__(self, read: Callable[[str], Awaitable[str]], *, grows: bool) -> None:
        self._read = read
        self._grows = grows
        self._known: dict[str, bytes] = {}  # address -> digest of what was last told
        self._followed: dict[str, int] = {}  # address -> streams that follow it
        self._subscribed: dict[Connection, dict[str, _Context]] = {}
        self._met: dict[Connection, _Context] = {}
        self._bus = InMemorySubscriptionBus()
        self._stirred = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.listen = ListenHandler(self._bus, max_subscriptions=STREAMS)

    def stir(self) -> None:
        """Look soon whether something changed. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._stirred.set)

    async def run(self) -> None:
        """Tell of changes until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._stirred.wait()
            await asyncio.sleep(PAUSE)
            self._stirred.clear()
            began = time.monotonic()
            await self._look()
            await asyncio.sleep(SHARE * (time.monotonic() - began))

    async def meet(self, context: _Context) -> None:
        """Remember a handshake connection, which hears of the list without asking."""
        if not self._grows or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        connection = _connection(context)
        if not connection.has_standalone_channel or connection in self._met:
            return
        await self._learn([_LISTING])
        self._met[connection] = context
        connection.exit_stack.callback(self._met.pop, connection, None)

    async def subscribe(self, context: _Context, uri: str) -> None:
        """Follow an address over the connection that asks.

        Raises:
            MCPError: as reading it for the first time does, or too many are followed.
        """
        connection = _connection(context)
        if not connection.has_standalone_channel:
            raise MCPError(INVALID_PARAMS, "notices need a session: begin with initialize, and accept event streams")
        await self._learn([uri])
        if connection not in self._subscribed:
            self._subscribed[connection] = {}
            connection.exit_stack.callback(self._subscribed.pop, connection, None)
        self._subscribed[connection][uri] = context

    async def unsubscribe(self, context: _Context, uri: str) -> None:
        """Follow an address no longer; one that is not followed is no failure."""
        self._subscribed.get(_connection(context), {}).pop(uri, None)

    async def on_listen(self, context: _Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serve one stream of `subscriptions/listen`.

        Raises:
            MCPError: as for `subscribe`.
        """
        uris = list(params.notifications.resource_subscriptions or ())
        if params.notifications.resources_list_changed:
            uris.append(_LISTING)
        async with self._following(uris):
            return await self.listen(context, params)

    @asynccontextmanager
    async def _following(self, uris: Iterable[str]) -> AsyncIterator[None]:
        listed = tuple(dict.fromkeys(uris))
        await self._learn(listed)
        for uri in listed:
            self._followed[uri] = self._followed.get(uri, 0) + 1
        try:
            yield
        finally:
            for uri in listed:
                self._followed[uri] -= 1
                if not self._followed[uri]:
                    del self._followed[uri]

    async def _learn(self, uris: Iterable[str]) -> None:
        """Read addresses that nobody followed so far, so that the first change is seen."""
        wanted = self._wanted()
        self._known = {uri: digest for uri, digest in self._known.items() if uri in wanted}
        for uri in uris:
            if uri in wanted:
                continue
            if len(wanted) >= MOST:
                raise MCPError(INVALID_PARAMS, f"{MOST} addresses are followed already: unsubscribe from some")
            self._known[uri] = _digest(await self._read(uri))
            wanted.add(uri)

    def _wanted(self) -> set[str]:
        listing = {_LISTING} if self._met else set()
        return listing | self._followed.keys() | {uri for uris in self._subscribed.values() for uri in uris}

    async def _look(self) -> None:
        for uri in self._wanted():
            try:
                digest = _digest(await self._read(uri))
            except MCPError:  # the memory cannot be asked just now
                continue
            if digest == self._known.get(uri):
                continue
            self._known[uri] = digest
            await (self._tell(uri) if uri != _LISTING else self._tell_list())

    async def _tell(self, uri: str) -> None:
        followers = [uris[uri] for uris in self._subscribed.values() if uri in uris]
        await _send([partial(one.session.send_resource_updated, uri) for one in followers])
        await self._bus.publish(ResourceUpdated(uri))

    async def _tell_list(self) -> None:
        await _send([one.session.send_resource_list_changed for one in self._met.values()])
        await self._bus.publish(ResourcesListChanged())


async def _send(notices: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Send to all at once; a client that does not read in time misses the notice, the others do not wait for it."""

    async def send(notice: Callable[[], Awaitable[None]]) -> None:
        with anyio.move_on_after(STALLED):
            await notice()

    async with anyio.create_task_group() as tasks:
        for notice in notices:
            tasks.start_soon(send, notice)


def _connection(context: _Context) -> Connection:
    # mcp 2.3 gives handlers no public way to the connection that outlives their request; a test of ours would tell.
    return context.session._connection


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
