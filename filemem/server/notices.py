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
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from filemem.server.wire import INVALID_PARAMS

MOST = 200  # addresses that are followed at once
STREAMS = 64  # subscriptions/listen at once
PAUSE = 0.1  # seconds between a change and the look at what it changed, so that a burst costs one look
SHARE = 5  # a look pauses this many times what it took: calls come first
STEP = 0.2  # seconds between two reports of progress
STALLED = 2.0  # seconds after which a client that does not read is passed over

_Context = ServerRequestContext[Any, Any]
Tell = Callable[[int, int], object]  # what is done, and what there is in all
_LISTING = ""  # stands for the list of resources among addresses


class Notices:
    """Who follows what, and the loop that tells them.

    Handshake clients follow an address by `resources/subscribe` and hear of the list once they asked for it;
    clients of 2026-07-28 get both on the stream of `subscriptions/listen`.

    Args:
        read: gives the text behind an address, "" where there is none yet; the address "" is the list of resources.
        grows: whether the list of resources ever changes.
    """

    def __init__(self, read: Callable[[str], Awaitable[str]], *, grows: bool) -> None:
        self._read, self._grows = read, grows
        self._known: dict[str, bytes] = {}  # address -> digest of what was last told
        self._follows: dict[object, dict[str, _Context | None]] = {}  # connection or stream -> addresses
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
            for uri in self._wanted():
                await self._look(uri)
            await asyncio.sleep(SHARE * (time.monotonic() - began))

    async def meet(self, context: _Context) -> None:
        """Remember a handshake connection that asked for the list: it hears when that changes."""
        if (
            not self._grows
            or context.method != "resources/list"
            or context.protocol_version in MODERN_PROTOCOL_VERSIONS
        ):
            return
        connection = _connection(context)
        if connection.has_standalone_channel and _LISTING not in self._follows.get(connection, {}):
            await self._follow(connection, context, _LISTING)

    async def subscribe(self, context: _Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Follow an address over the connection that asks."""
        connection = _connection(context)
        if not connection.has_standalone_channel:
            raise MCPError(INVALID_PARAMS, "notices need a session: begin with initialize, and accept event streams")
        await self._follow(connection, context, str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, context: _Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Follow an address no longer; one that is not followed is no failure."""
        if params.uri:
            self._follows.get(_connection(context), {}).pop(str(params.uri), None)
        return types.EmptyResult()

    async def on_listen(
        self, context: _Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of `subscriptions/listen`; MCPError as for `subscribe`."""
        uris = list(params.notifications.resource_subscriptions or ())
        uris += [_LISTING] if params.notifications.resources_list_changed else []
        await self._learn(uris)
        stream = object()
        self._follows[stream] = dict.fromkeys(uris)
        try:
            return await self.listen(context, params)
        finally:
            del self._follows[stream]

    async def _follow(self, connection: Connection, context: _Context, uri: str) -> None:
        await self._learn([uri])
        if connection not in self._follows:
            connection.exit_stack.callback(self._follows.pop, connection, None)
        self._follows.setdefault(connection, {})[uri] = context

    async def _learn(self, uris: Iterable[str]) -> None:
        """Read addresses that nobody followed so far, so that the first change is seen."""
        wanted = self._wanted()
        self._known = {uri: digest for uri, digest in self._known.items() if uri in wanted}
        for uri in uris:
            if uri not in wanted:
                if len(wanted) >= MOST:
                    raise MCPError(INVALID_PARAMS, f"{MOST} addresses are followed already: unsubscribe from some")
                self._known[uri] = _digest(await self._read(uri))
                wanted.add(uri)

    def _wanted(self) -> set[str]:
        return {uri for uris in self._follows.values() for uri in uris}

    async def _look(self, uri: str) -> None:
        """Read an address, and tell those that follow it if it changed."""
        try:
            digest = _digest(await self._read(uri))
        except MCPError:  # the memory cannot be asked just now
            return
        if digest == self._known.get(uri):
            return
        self._known[uri] = digest
        async with anyio.create_task_group() as tasks:
            for context in [uris[uri] for uris in self._follows.values() if uri in uris]:
                if context is not None:
                    tasks.start_soon(_tell, context, uri)
        await self._bus.publish(ResourcesListChanged() if uri == _LISTING else ResourceUpdated(uri))


async def _tell(context: _Context, uri: str) -> None:
    """Send a notice; a client that does not read in time misses it, the others do not wait for it."""
    with anyio.move_on_after(STALLED):
        if uri == _LISTING:
            await context.session.send_resource_list_changed()
        else:
            await context.session.send_resource_updated(uri)


def _connection(context: _Context) -> Connection:
    # mcp 2.3 gives handlers no public way to the connection that outlives their request; a test of ours would tell.
    return context.session._connection


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


@asynccontextmanager
async def progress(context: _Context, hears: set[Tell]) -> AsyncIterator[None]:
    """While a call that asked for it runs, tell how far the work is that it may wait for, as heard through `hears`."""
    if not (context.meta and context.meta.get("progress_token") is not None):
        yield
        return
    newest = (-1, 0)

    def hear(done: int, total: int) -> None:
        nonlocal newest
        newest = (done, total)

    async def tell() -> None:
        told = -1
        while True:
            await anyio.sleep(STEP)
            done, total = newest
            if done > told:  # the protocol wants it to rise
                await context.session.report_progress(done, total, f"indexing {done} of {total} records")
                told = done

    hears.add(hear)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            yield
            tasks.cancel_scope.cancel()
    finally:
        hears.discard(hear)


async def explain(ctx: _Context, call_next: CallNext) -> HandlerResult:
    """Answer a request, and say of one that breaks the protocol what breaks it, as MCPError."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        told = dict.fromkeys(map(_worded, error.errors(include_url=False, include_input=False)))
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: {'; '.join(list(told)[:3])}") from None


def _worded(error: Any) -> str:
    """One error as a sentence. Pydantic names the models of a union among the keys; these are not the caller's."""
    keys = [str(key) for key in error["loc"] if str(key)[:1].islower() and key != "str"]
    name = ".".join(keys[1:] or keys) or "params"
    said = error["msg"].replace("Input should", "must").replace("dictionary", "object")
    return f"{name} is missing" if error["type"] == "missing" else f"{name} {said}"
