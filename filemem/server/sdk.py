"""The MCP server proper, on the official SDK: one `Server` for every transport, and its stdio loop.

Only this package imports mcp. Importing this module costs what the SDK costs; the front does without.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.message import SessionMessage

from filemem import ending
from filemem.dialects import Advertised
from filemem.server import entries
from filemem.server.calls import Answer, Calls
from filemem.server.jsonrpc import Message, Refusal
from filemem.server.notices import Notices
from filemem.server.reading import Reading, refuse_cursor
from filemem.server.refusals import explain
from filemem.server.wire import Wire, encode

GRACE = 1.0  # seconds that calls still running get to answer after the input ended, or the process was told to end
CLOSING = 0.5  # seconds for closing the memory
STEP = 0.2  # seconds between two reports of progress
LAST = 1.8  # seconds after the end of input or a signal

_Context = ServerRequestContext[Any, Any]
_Item = SessionMessage | Exception
_Into = MemoryObjectSendStream[_Item]
_Back = MemoryObjectSendStream[SessionMessage]


class FilememServer(Server[Any]):
    """The SDK's server, told what it cannot derive from its handlers."""

    def __init__(self, offer: Advertised, calls: Calls, version: str) -> None:
        dialect, lists = offer.dialect, entries.lists(offer.tools, offer.dialect)
        self._able = entries.capabilities(dialect)
        self.calls = calls
        self._tools = types.ListToolsResult.model_validate(lists["tools/list"])
        reading = Reading(dialect, calls)
        grows = any(one.listed for one in dialect.resources)
        self.notices = Notices(lambda uri: reading.text(uri) if uri else reading.listing(), grows=grows)
        calls.changed = self.notices.stir
        super().__init__(
            dialect.server,
            version=version,
            title=None if dialect.server == entries.NAME else entries.NAME,
            instructions=dialect.instructions or None,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            **(self._of_resources(lists["resources/templates/list"], reading) if dialect.resources else {}),
            **(self._of_prompts(lists["prompts/list"], reading) if dialect.prompts else {}),
            on_completion=reading.complete if entries.completes(dialect) else None,
        )
        self.middleware.append(explain)
        if dialect.resources:
            self.middleware.append(self._meet)
        self._running = False

    def get_capabilities(
        self, notification_options: NotificationOptions | None = None, *others: Any, **more: Any
    ) -> types.ServerCapabilities:
        """What the server can do; the list of resources changes where the dialect says so."""
        resources: Any = self._able.get("resources", {})
        options = notification_options or NotificationOptions()
        # The transports ask with options of their own, by which nothing ever changes.
        options.resources_changed = options.resources_changed or resources.get("listChanged", False)
        return super().get_capabilities(options, *others, **more)

    async def _list_tools(self, _: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        refuse_cursor(params)
        return self._tools

    async def _call_tool(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with _progress(context, self.calls):
            return _result(await self.calls.run(params.name, params.arguments or {}))

    def _of_resources(self, listed: entries.Entry, reading: Reading) -> dict[str, Any]:
        templates = types.ListResourceTemplatesResult.model_validate(listed)

        async def list_templates(
            _: _Context, params: types.PaginatedRequestParams | None
        ) -> types.ListResourceTemplatesResult:
            refuse_cursor(params)
            return templates

        async def subscribe(context: _Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
            await self.notices.subscribe(context, str(params.uri))
            return types.EmptyResult()

        async def unsubscribe(context: _Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
            await self.notices.unsubscribe(context, str(params.uri))
            return types.EmptyResult()

        return {
            "on_list_resources": reading.list_resources,
            "on_list_resource_templates": list_templates,
            "on_read_resource": reading.read_resource,
            "on_subscribe_resource": subscribe,
            "on_unsubscribe_resource": unsubscribe,
            "on_subscriptions_listen": self.notices.on_listen,
        }

    def _of_prompts(self, listed: entries.Entry, reading: Reading) -> dict[str, Any]:
        prompts = types.ListPromptsResult.model_validate(listed)

        async def list_prompts(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
            refuse_cursor(params)
            return prompts

        return {"on_list_prompts": list_prompts, "on_get_prompt": reading.get_prompt}

    async def _meet(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        await self.notices.meet(ctx)
        return await call_next(ctx)

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Run what tells of changes; at the end close the memory. Several transports share what the first began."""
        if self._running:
            yield
            return
        self._running = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.notices.run)
                yield
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.calls.close(CLOSING)


def build(offer: Advertised, calls: Calls, version: str) -> FilememServer:
    """Make the SDK server of what is offered; it calls through `calls`, which it closes at its end."""
    return FilememServer(offer, calls, version)


@asynccontextmanager
async def _progress(context: _Context, calls: Calls) -> AsyncIterator[None]:
    """While a call runs that asked for it, tell how far the work is that it may wait for."""
    if not (context.meta and context.meta.get("progress_token") is not None):
        yield
        return
    newest: list[tuple[int, int]] = []

    def hear(done: int, total: int) -> None:
        newest[:] = [(done, total)]

    async def tell() -> None:
        told = -1
        while True:
            await anyio.sleep(STEP)
            for done, total in tuple(newest):
                if done > told:  # the protocol wants it to rise
                    await context.session.report_progress(done, total, f"indexing {done} of {total} records")
                    told = done

    calls.progress.add(hear)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            yield
            tasks.cancel_scope.cancel()
    finally:
        calls.progress.discard(hear)


def _result(answer: Answer) -> types.CallToolResult:
    """Word an answer for MCP.

    Failures go as text alone: clients check whatever structure they get against the schema of success.
    """
    result = types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.is_error)
    if answer.structure is not None:
        result.structured_content = answer.structure
    return result


@dataclass
class Connection:
    """One stdio connection: what goes in and out between the wire and the SDK; see `serve`."""

    wire: Wire
    answered: list[object]
    status: int = 0
    """Exit status of the process once `serve` has returned."""
    _waiting: int = 0  # requests without an answer so far
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _ending: Callable[[], None] = field(default=lambda: None)

    async def serve(self, server: FilememServer, messages: Iterator[Message | Refusal]) -> None:
        """Serve until the messages or the process are ended, or nobody reads the answers."""
        into, incoming = anyio.create_memory_object_stream[_Item](64)
        outgoing, out = anyio.create_memory_object_stream[SessionMessage](64)
        loop = asyncio.get_running_loop()
        for number in ending.signals():
            signal.signal(number, partial(self._stop, server, loop))
        feeding = (messages, into, outgoing.clone(), loop)
        threading.Thread(target=self._read, args=feeding, daemon=True).start()
        self._ending = server.notices.listen.close
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, out)
                await server.run(incoming, outgoing, server.create_initialization_options())

    def _stop(self, server: FilememServer, loop: asyncio.AbstractEventLoop, number: int, _frame: object) -> None:
        self.status = 128 + number
        _end_soon(self.status)
        asyncio.run_coroutine_threadsafe(self._leave(server), loop)

    async def _leave(self, server: FilememServer) -> None:
        """Let the call under way be answered, and those that wait be told that nothing was done; then stop."""
        server.calls.end()
        await self._answers()
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # of what is cancelled now it tells in words of its own
        self._scope.cancel()

    def _read(
        self, messages: Iterator[Message | Refusal], into: _Into, back: _Back, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Feed the SDK from a thread, since reading blocks; wait where the SDK cannot keep up."""
        # What is suppressed says that the loop has ended: nobody is left to feed.
        with suppress(OSError, RuntimeError, CancelledError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            for message in messages:
                if self.status:  # told to end: nothing more is begun
                    return
                asyncio.run_coroutine_threadsafe(self._pass(message, into, back), loop).result()
            _end_soon(0)
            asyncio.run_coroutine_threadsafe(self._finish(into, back), loop).result()

    async def _pass(self, message: Message | Refusal, into: _Into, back: _Back) -> None:
        if isinstance(message, Refusal):
            self._waiting += 1
            await back.send(SessionMessage(types.JSONRPCError.model_validate(message.reply())))
            return
        kind = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
        self._waiting += "id" in message
        await into.send(SessionMessage(kind.model_validate(message)))

    async def _finish(self, into: _Into, back: _Back) -> None:
        """End the input, after what was asked before had its chance: the SDK drops running calls at once."""
        await self._answers()
        into.close()
        back.close()

    async def _answers(self) -> None:
        """Wait, not for long, until all that was asked is answered."""
        self._ending()  # what listens waits for ever
        with anyio.move_on_after(GRACE):
            while self._waiting > 0:
                await anyio.sleep(0.01)

    async def _write(self, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in out:
            message = item.message
            if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                await self._send(encode(_plain(message)))
                continue
            if message.id in self.answered:
                self.answered.remove(message.id)
            else:
                await self._send(encode(_plain(message)))
            self._waiting -= 1

    async def _send(self, data: memoryview) -> None:
        try:
            # The rest in a thread: a client may write all its requests before it reads the first answer.
            if rest := self.wire.write_now(data):
                await anyio.to_thread.run_sync(self.wire.write, rest, abandon_on_cancel=True)
        except OSError:  # the client reads no more
            self._scope.cancel()


def _plain(message: types.JSONRPCMessage) -> Message:
    """A message as what JSON can hold. The SDK gives results as such already, and walking a large one takes long."""
    if isinstance(message, types.JSONRPCResponse):
        return {"jsonrpc": message.jsonrpc, "id": message.id, "result": message.result}
    return message.model_dump(by_alias=True, exclude_unset=True)


def serve(server: FilememServer, wire: Wire, messages: Iterator[Message | Refusal], answered: list[object]) -> int:
    """Serve one connection over stdio; return the exit status for the process, which should end right after.

    Args:
        server: to be served.
        wire: of the process.
        messages: all that came and all that comes.
        answered: ids of the first requests that need no second answer.
    """

    async def connected() -> int:
        connection = Connection(wire, answered)
        await connection.serve(server, messages)
        return connection.status

    return asyncio.run(connected())


def _end_soon(status: int) -> None:
    """End the process even if a tool call does not: a save survives that, a client that waits may not."""
    timer = threading.Timer(LAST, os._exit, [status])
    timer.daemon = True
    timer.start()
