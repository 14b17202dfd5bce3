"""The MCP server proper, on the official SDK: one `Server` for every transport, and its stdio loop.

Only this package imports mcp. Importing this module costs what the SDK costs; the front does without.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from filemem.dialects import Advertised
from filemem.server.calls import Answer, Calls
from filemem.server.front import NAME, tool_entry
from filemem.server.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Message, Refusal
from filemem.server.wire import Wire, encode

GRACE = 1.0  # seconds that calls still running get to answer after the input ended
CLOSING = 0.5  # seconds for closing the memory
LAST = 1.8  # seconds after the end of input or a signal

_Context = ServerRequestContext[Any, Any]
_Item = SessionMessage | Exception
_Into = MemoryObjectSendStream[_Item]
_Back = MemoryObjectSendStream[SessionMessage]


def build(offer: Advertised, calls: Calls, version: str) -> Server[Any]:
    """Make the SDK server that lists `offer.tools`, and calls through `calls`, which it closes at its end."""
    listed = types.ListToolsResult.model_validate({"tools": [tool_entry(tool) for tool in offer.tools]})

    async def on_list_tools(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")
        return listed

    async def on_call_tool(_: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return _result(await calls.run(params.name, params.arguments or {}))

    addresses = {resource.uri: resource for resource in offer.dialect.resources}
    known = types.ListResourcesResult(
        resources=[
            types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type=one.mime)
            for one in addresses.values()
        ]
    )

    async def on_list_resources(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")
        return known

    async def on_read_resource(_: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        one = addresses.get(str(params.uri))
        if one is None:
            raise MCPError(INVALID_PARAMS, f"no resource {params.uri}; resources/list shows what there is")
        answer = await calls.run(one.tool, {})
        if answer.is_error:
            raise MCPError(INTERNAL_ERROR, answer.text)
        content = types.TextResourceContents(uri=one.uri, mime_type=one.mime, text=answer.text)
        return types.ReadResourceResult(contents=[content])

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await calls.close(CLOSING)

    return Server(
        NAME,
        version=version,
        instructions=offer.dialect.instructions or None,
        lifespan=lifespan,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
        on_list_resources=on_list_resources if addresses else None,
        on_read_resource=on_read_resource if addresses else None,
    )


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

    async def serve(self, server: Server[Any], messages: Iterator[Message | Refusal]) -> None:
        """Serve until the messages or the process are ended, or nobody reads the answers."""
        into, incoming = anyio.create_memory_object_stream[_Item](64)
        outgoing, out = anyio.create_memory_object_stream[SessionMessage](64)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, partial(self._stop, loop))
        feeding = (messages, into, outgoing.clone(), loop)
        threading.Thread(target=self._read, args=feeding, daemon=True).start()
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, out)
                await server.run(incoming, outgoing, server.create_initialization_options())

    def _stop(self, loop: asyncio.AbstractEventLoop, number: int, _frame: object) -> None:
        self.status = 128 + number
        _end_soon(self.status)
        loop.call_soon_threadsafe(self._scope.cancel)

    def _read(
        self, messages: Iterator[Message | Refusal], into: _Into, back: _Back, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Feed the SDK from a thread, since reading blocks; wait where the SDK cannot keep up."""
        # What is suppressed says that the loop has ended: nobody is left to feed.
        with suppress(OSError, RuntimeError, CancelledError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            for message in messages:
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
        with anyio.move_on_after(GRACE):
            while self._waiting > 0:
                await anyio.sleep(0.01)
        into.close()
        back.close()

    async def _write(self, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in out:
            message = item.message
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                self._waiting -= 1
                if message.id in self.answered:
                    self.answered.remove(message.id)
                    continue
            data = encode(_plain(message))
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


def serve(server: Server[Any], wire: Wire, messages: Iterator[Message | Refusal], answered: list[object]) -> int:
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
