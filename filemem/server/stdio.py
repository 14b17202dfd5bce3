"""One connection over stdio, between the wire and the SDK.

At the end of the input, or at a signal, running requests are answered, and the process ends within
a limited time.
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
from filemem.server.line import SIGNAL_SECONDS, schedule_exit
from filemem.server.sdk import FilememServer
from filemem.server.wire import Message, Refusal, Wire, list_deadly_signals

_Item = SessionMessage | Exception
_Sink = MemoryObjectSendStream[_Item]


@dataclass
class Connection:
    """One stdio connection: passes messages between the wire and the SDK; see `serve`."""

    wire: Wire
    status: int = 0
    """Exit status of the process once `serve` has returned."""
    _pending_ids: set[str] = field(default_factory=set)  # ids of requests that will be answered
    _scope: anyio.CancelScope = field(init=False)

    async def serve(self, server: FilememServer, messages: Iterator[Message | Refusal]) -> None:
        """Serve until the messages end, the process is told to end, or the client stops reading."""
        sink, incoming = anyio.create_memory_object_stream[_Item](64)
        outgoing, source = anyio.create_memory_object_stream[SessionMessage](64)
        loop = asyncio.get_running_loop()
        for number in list_deadly_signals():
            signal.signal(number, partial(self._stop_serving, server, loop))
        threading.Thread(
            target=self._feed_messages, args=(messages, sink, loop), daemon=True
        ).start()
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_messages, source)
                await server.run(incoming, outgoing, server.create_initialization_options())

    def _stop_serving(
        self, server: FilememServer, loop: asyncio.AbstractEventLoop, number: int, _frame: object
    ) -> None:
        self.status = 128 + number
        schedule_exit(self.status, SIGNAL_SECONDS)
        asyncio.run_coroutine_threadsafe(self._finish_calls(server), loop)

    async def _finish_calls(self, server: FilememServer) -> None:
        """Answer the running call, tell waiting ones that they were not started, then stop."""
        server.calls.refuse_new_calls()
        await self._wait_for_answers(SIGNAL_SECONDS)
        # The SDK would log the calls that are cancelled now.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._scope.cancel()

    def _feed_messages(
        self,
        messages: Iterator[Message | Refusal],
        sink: _Sink,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Feed the SDK from a thread, since reading blocks; wait if the SDK cannot keep up."""
        # These errors mean that the event loop has ended.
        with suppress(
            OSError,
            RuntimeError,
            CancelledError,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            for message in messages:
                if self.status:  # a signal came: start nothing more
                    return
                asyncio.run_coroutine_threadsafe(self._pass_message(message, sink), loop).result()
            schedule_exit(0, line.INPUT_END_SECONDS)
            asyncio.run_coroutine_threadsafe(self._close_input(sink), loop).result()

    async def _pass_message(self, message: Message | Refusal, sink: _Sink) -> None:
        if isinstance(message, Refusal):
            await self._send_message(message.to_message())
            return
        kind = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
        if "id" in message:
            self._pending_ids.add(str(message["id"]))
        else:  # the only notification with a request id is a cancellation
            params: Any = message.get("params") or {}
            self._pending_ids.discard(str(params.get("requestId")))
        await sink.send(SessionMessage(kind.model_validate(message)))

    async def _close_input(self, sink: _Sink) -> None:
        """End the input after earlier requests had time to finish.

        The SDK drops running calls at once.
        """
        await self._wait_for_answers(line.INPUT_END_SECONDS)
        sink.close()

    async def _wait_for_answers(self, seconds: float) -> None:
        """Wait for a limited time until all requests are answered."""
        with anyio.move_on_after(seconds):
            while self._pending_ids:
                await anyio.sleep(0.01)

    async def _write_messages(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in source:
            await self._send_message(item.message.model_dump(by_alias=True, exclude_unset=True))
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                self._pending_ids.discard(str(item.message.id))

    async def _send_message(self, message: Message) -> None:
        with suppress(OSError):
            # In a thread: a client may write all its requests before it reads the first answer.
            return await anyio.to_thread.run_sync(self.wire.send, message, abandon_on_cancel=True)
        self._scope.cancel()  # the client no longer reads
        return None


def serve(server: FilememServer, wire: Wire, messages: Iterator[Message | Refusal]) -> int:
    """Serve one connection over stdio; return the exit status of the process."""
    connection = Connection(wire)
    asyncio.run(connection.serve(server, messages))
    return connection.status
