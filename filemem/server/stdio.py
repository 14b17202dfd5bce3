"""One connection over stdio, between the wire and the SDK.

Messages are fed to the SDK, and its answers are written. Rule: at the end of the input, or at a
signal, requests under way are answered, and the process ends soon in any case.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from filemem.server import line
from filemem.server.line import GRACE, end_soon
from filemem.server.sdk import FilememServer
from filemem.server.wire import Message, Refusal, Wire, deadly_signals

_Item = SessionMessage | Exception
_Into = MemoryObjectSendStream[_Item]


@dataclass
class Connection:
    """One stdio connection: what goes in and out between the wire and the SDK; see `serve`."""

    wire: Wire
    status: int = 0
    """Exit status of the process once `serve` has returned."""
    _waiting: set[str] = field(default_factory=set)  # ids of requests that will be answered
    _scope: anyio.CancelScope = field(init=False)

    async def serve(self, server: FilememServer, messages: Iterator[Message | Refusal]) -> None:
        """Serve until the messages end, the process is told to end, or the client stops reading."""
        into, incoming = anyio.create_memory_object_stream[_Item](64)
        outgoing, out = anyio.create_memory_object_stream[SessionMessage](64)
        loop = asyncio.get_running_loop()
        for number in deadly_signals():
            signal.signal(number, partial(self._stop, server, loop))
        threading.Thread(target=self._read, args=(messages, into, loop), daemon=True).start()
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, out)
                await server.run(incoming, outgoing, server.create_initialization_options())

    def _stop(
        self, server: FilememServer, loop: asyncio.AbstractEventLoop, number: int, _frame: object
    ) -> None:
        self.status = 128 + number
        end_soon(self.status, GRACE)
        asyncio.run_coroutine_threadsafe(self._leave(server), loop)

    async def _leave(self, server: FilememServer) -> None:
        """Answer the running call, tell waiting ones that they were not started, then stop."""
        server.calls.end()
        await self._answers(GRACE)
        # Of what is cancelled now it tells in words of its own.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._scope.cancel()

    def _read(
        self,
        messages: Iterator[Message | Refusal],
        into: _Into,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Feed the SDK from a thread, since reading blocks; wait if the SDK cannot keep up."""
        # What is suppressed says that the loop has ended: nobody is left to feed.
        with suppress(
            OSError,
            RuntimeError,
            CancelledError,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            for message in messages:
                if self.status:  # told to end: nothing more is begun
                    return
                asyncio.run_coroutine_threadsafe(self._pass(message, into), loop).result()
            end_soon(0, line.ENDING)
            asyncio.run_coroutine_threadsafe(self._finish(into), loop).result()

    async def _pass(self, message: Message | Refusal, into: _Into) -> None:
        if isinstance(message, Refusal):
            await self._send(message.reply())
            return
        kind = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
        if "id" in message:
            self._waiting.add(str(message["id"]))
        else:  # of all notifications a cancellation alone names a request
            params: Any = message.get("params") or {}
            self._waiting.discard(str(params.get("requestId")))
        await into.send(SessionMessage(kind.model_validate(message)))

    async def _finish(self, into: _Into) -> None:
        """End the input after earlier requests had time to finish.

        The SDK drops running calls at once.
        """
        await self._answers(line.ENDING)
        into.close()

    async def _answers(self, seconds: float) -> None:
        """Wait for a limited time until all requests are answered."""
        with anyio.move_on_after(seconds):
            while self._waiting:
                await anyio.sleep(0.01)

    async def _write(self, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in out:
            await self._send(item.message.model_dump(by_alias=True, exclude_unset=True))
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                self._waiting.discard(str(item.message.id))

    async def _send(self, message: Message) -> None:
        with suppress(OSError):
            # In a thread: a client may write all its requests before it reads the first answer.
            return await anyio.to_thread.run_sync(self.wire.send, message, abandon_on_cancel=True)
        self._scope.cancel()  # the client reads no more
        return None


def serve(server: FilememServer, wire: Wire, messages: Iterator[Message | Refusal]) -> int:
    """Serve one connection over stdio; return the exit status of the process."""
    connection = Connection(wire)
    asyncio.run(connection.serve(server, messages))
    return connection.status
