"""The MCP server: stdio with a front that answers before the SDK is imported, and HTTP (`server.http.serve`).

Importing this package loads only the standard library. Once the tools are listed, a call is likely: the memory is
opened meanwhile. The SDK is imported for what the front does not know, as the newer protocol.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from filemem.dialects.tool import Dialect
from filemem.server.front import Front, Turn
from filemem.server.wire import Message, Refusal, Wire, claim_stdio, deadly_signals

if TYPE_CHECKING:
    from filemem.server.calls import Calls, OnCrash, OpenMemory
    from filemem.server.line import Line


def serve_stdio(
    offer: Dialect,
    open_memory: OpenMemory,
    *,
    version: str,
    on_crash: OnCrash | None = None,
    beside: Callable[[Calls], None] | None = None,
) -> None:
    """Serve MCP over standard input and output until the input ends, in the main thread; then end the process.

    `beside` starts what else serves the same memory; then nothing waits for the first request.
    """
    wire = claim_stdio()
    for number in deadly_signals():
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    connection = _Connection(wire, Front(offer, version), open_memory, on_crash)
    if beside:
        calls = connection.line().calls  # in a thread: nothing waits for what a page imports
        threading.Thread(target=beside, args=[calls], daemon=True).start()
    messages = wire.messages()
    try:
        handed_over = connection.listen(messages)
    except BrokenPipeError:
        return
    except SystemExit as told:
        for number in deadly_signals():
            signal.signal(number, signal.SIG_IGN)
        connection.end(int(str(told.code)))
        raise
    if handed_over is None:
        connection.end()
        return
    line = connection.line()
    line.wait()
    from filemem.server import sdk, stdio

    server = sdk.FilememServer(offer, line.calls, version)
    kept = connection.front.kept
    answered = [message["id"] for message in kept if "id" in message]
    status = stdio.serve(server, wire, chain(kept, [handed_over], messages), answered)
    if status:
        sys.exit(status)


class _Connection:
    """One connection until it is handed over: answers the front's, and tool calls."""

    def __init__(
        self, wire: Wire, front: Front, open_memory: OpenMemory, on_crash: OnCrash | None
    ) -> None:
        self.wire = wire
        self.front = front
        self._open_memory = open_memory
        self._on_crash = on_crash
        self._line: Line | None = None

    def line(self) -> Line:
        """The calls, made at the first need: what is only listed imports nothing."""
        if self._line is None:
            from filemem.server.line import prepared

            self._line = prepared(self.wire, self.front.offer, self._open_memory, self._on_crash)
        return self._line

    def listen(self, messages: Iterator[Message | Refusal]) -> Message | None:
        """Answer until a message needs the SDK, and return that message."""
        for message in messages:
            if isinstance(message, Refusal):
                self.wire.send(message.reply())
                continue
            turn = self.front.answer(message)
            if turn is Turn.HAND_OVER:
                return message
            if turn is Turn.CALL:
                self.line().call(message["id"], cast("dict[str, Any]", message["params"]))
            elif turn is Turn.CANCEL and self._line:
                self._line.cancel(message)
            elif not isinstance(turn, Turn):
                self.wire.send(turn)
            if message["method"] == "tools/list":  # a call is likely
                self.line()
        return None

    def end(self, status: int = 0) -> None:
        """Answer the calls under way and close the memory."""
        if self._line is not None:
            self._line.end(status)
