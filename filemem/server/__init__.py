"""The MCP server: over HTTP (`server.http.serve`), and over stdio.

Over stdio a front answers before the SDK is imported. Importing this package loads only the
standard library. Once the tools are listed, a call is likely: the memory is opened meanwhile. The
SDK is imported for the newer protocol.
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
    from filemem.server.line import Follow, Line


def serve_stdio(
    offer: Dialect,
    open_memory: OpenMemory,
    *,
    version: str,
    on_crash: OnCrash | None = None,
    beside: Callable[[Calls], None] | None = None,
    follow: Follow | None = None,
) -> None:
    """Serve MCP over standard input and output, in the main thread, until the input ends.

    Then the process ends.
    `beside` starts what else serves the same memory; then nothing waits for the first request.
    `follow` is told the roots of a client that has some, before the memory is opened and when they
    change: whether another memory must be opened.
    """
    wire = claim_stdio()
    for number in deadly_signals():
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    connection = _Connection(wire, Front(offer, version), open_memory, on_crash, follow)
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
    from filemem.server import sdk, stdio

    server = sdk.FilememServer(offer, connection.line().calls, version)
    further = (
        message for message in messages if isinstance(message, Refusal) or "method" in message
    )
    status = stdio.serve(server, wire, chain([handed_over], further))
    if status:
        sys.exit(status)


class _Connection:
    """One connection until it is handed over: answers the front's, and tool calls."""

    def __init__(
        self,
        wire: Wire,
        front: Front,
        open_memory: OpenMemory,
        on_crash: OnCrash | None = None,
        follow: Follow | None = None,
    ) -> None:
        self.wire = wire
        self.front = front
        self._open_memory = open_memory
        self._on_crash = on_crash
        self._follow = follow
        self._line: Line | None = None

    def line(self) -> Line:
        """The calls, made at the first need: what is only listed imports nothing."""
        if self._line is None:
            from filemem.server.line import begun

            self._line = begun(self.wire, self.front.offer, self._open_memory, self._on_crash)
            self._prepare(self._line)
        return self._line

    def _prepare(self, line: Line) -> None:
        """Open the memory where the client's roots are, in turn with the calls."""
        if self._follow and self.front.roots:
            line.follow(self._follow)
        line.calls.prepare()

    def listen(self, messages: Iterator[Message | Refusal]) -> Message | None:
        """Answer until a message opens the newer protocol, and return that message."""
        for message in messages:
            if isinstance(message, Refusal):
                self.wire.send(message.reply())
                continue
            turn = self.front.answer(message)
            if turn is Turn.HAND_OVER:
                return message
            if isinstance(turn, Turn):
                self._take(turn, message)
            else:
                self.wire.send(turn)
            if message.get("method") == "tools/list":  # a call is likely
                self.line()
        return None

    def _take(self, turn: Turn, message: Message) -> None:
        params = cast("dict[str, Any]", message.get("params"))
        if turn is Turn.CALL:
            self.line().call(message["id"], params, asks=self.front.asks)
        elif turn is Turn.READ:
            self.line().read(message["id"], params)
        elif turn is Turn.COMPLETE:
            self.line().complete(message["id"], params)
        elif self._line and turn is Turn.CANCEL:
            self._line.cancel(message)
        elif self._line and turn is Turn.REPLY:
            self._line.reply(message)
        elif self._line and turn is Turn.ROOTS:
            self._prepare(self._line)

    def end(self, status: int = 0) -> None:
        """Answer the calls under way and close the memory."""
        if self._line is not None:
            self._line.end(status)
