"""Tool calls of one connection, answered on the wire.

The thread that owns the memory writes the answer itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any

from filemem.dialects.tool import Dialect
from filemem.server.calls import Calls, OnCrash, OpenMemory, Result, log_crash
from filemem.server.wire import Message, Wire

# Seconds that calls get to answer after the input ended: who still reads wants to know what was
# saved.
ENDING = 10.0
GRACE = 1.0  # the same after a signal, which clients send that wait no longer
CLOSING = 0.8  # seconds after that


class Line:
    """The calls under way of one connection."""

    def __init__(self, wire: Wire, calls: Calls) -> None:
        self._wire = wire
        self.calls = calls
        self._waiting: dict[object, Future[Result]] = {}
        self._last: Future[None] | None = None

    def call(self, id_: object, params: Mapping[str, Any]) -> None:
        """Begin a call; its thread writes the answer."""
        name = params["name"]
        future = self.calls.begin(name, params.get("arguments") or {})
        self._waiting[id_] = future
        self._last = self.calls.submit(lambda: self._write(id_, name, future))

    def cancel(self, message: Message) -> None:
        """Drop a call that has not begun; one that runs ends, and is not answered."""
        params: Any = message.get("params") or {}
        id_ = params.get("requestId")
        future = self._waiting.pop(id_, None) if isinstance(id_, int | str) else None
        if future is not None:
            future.cancel()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the calls under way."""
        if self._last is not None:
            wait([self._last], seconds)

    def end(self, status: int = 0) -> None:
        """Answer what runs, close the memory: soon in any case."""
        seconds = GRACE if status else ENDING
        end_soon(status, seconds)
        if status:
            self.calls.end()
        self.wait(seconds)
        wait([self.calls.close()], CLOSING)

    def _write(self, id_: object, name: str, future: Future[Result]) -> None:
        if future.cancelled():
            return
        result = self.calls.result(future, name)
        if self._waiting.get(id_) is not future:
            return  # cancelled while it ran
        del self._waiting[id_]
        try:
            self._wire.send({"jsonrpc": "2.0", "id": id_, "result": result})
        except OSError:  # the client reads no more, and nothing else would end the reader
            self.calls.ask(lambda memory: memory.close()).add_done_callback(lambda _: os._exit(0))


def prepared(wire: Wire, offer: Dialect, open_memory: OpenMemory, on_crash: OnCrash | None) -> Line:
    """The calls of a connection, with the memory being opened."""
    calls = Calls(offer, open_memory, on_crash or log_crash)
    calls.prepare()
    return Line(wire, calls)


def end_soon(status: int, seconds: float) -> None:
    """End the process even if a tool call hangs: a save survives that, a waiting client may not."""
    timer = threading.Timer(seconds + CLOSING, os._exit, [status])
    timer.daemon = True
    timer.start()
