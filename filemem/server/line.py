"""Tool calls of one connection, answered on the wire.

The thread that owns the memory writes the answer itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from typing import Any

from filemem.dialects.tool import Dialect
from filemem.server.calls import Calls, OnCrash, OpenMemory, Result, log_crash
from filemem.server.wire import Message, Refusal, Wire, is_text

Roots = Callable[[], list[str]]
Follow = Callable[[Roots], bool]

# Seconds that calls get to answer after the input ended: who still reads wants to know what was
# saved.
ENDING = 10.0
GRACE = 1.0  # the same after a signal, which clients send that wait no longer
CLOSING = 0.8  # seconds after that
PATIENCE = 1.0  # seconds that a call waits for what the client is asked


class Line:
    """The calls under way of one connection, and what the client is asked."""

    def __init__(self, wire: Wire, calls: Calls) -> None:
        self._wire = wire
        self.calls = calls
        # By the id as text: a client may cancel 7 as "7".
        self._waiting: dict[str, Future[Result]] = {}
        self._last: Future[Any] | None = None
        self._number = 0  # of questions
        self._question = (
            ""  # the id of the last one: text, which no client takes for one of its own
        )
        self._replies = SimpleQueue[Message | None]()

    def call(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Begin a call; its thread writes the answer."""
        name = params["name"]
        future = self.calls.begin(name, params.get("arguments") or {})
        self._answer(id_, future, lambda: self.calls.result(future, name))

    def read(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Begin to read a resource, in turn with the calls."""
        uri = params["uri"]
        future = self.calls.read(uri)
        self._answer(id_, future, lambda: self.calls.content(future, uri))

    def complete(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Begin to complete an argument, in turn with the calls."""
        name = params["argument"]["name"]
        future = self.calls.complete(name, params["argument"]["value"])
        self._answer(id_, future, lambda: self.calls.content(future, name))

    def cancel(self, message: Message) -> None:
        """Drop a call that has not begun; one that runs ends, and is not answered."""
        params: Any = message.get("params") or {}
        future = self._waiting.pop(str(params.get("requestId")), None)
        if future is not None:
            future.cancel()

    def ask(self, method: str, seconds: float) -> Message | None:
        """Ask the client, from the calls' thread; its reply, or None if there is none in time."""
        self._number += 1
        self._question = f"filemem-{self._number}"
        self._replies = replies = SimpleQueue[Message | None]()
        try:
            self._wire.send({"jsonrpc": "2.0", "id": self._question, "method": method})
            return replies.get(timeout=seconds)
        except (Empty, OSError):
            return None

    def reply(self, message: Message) -> None:
        """Take a reply of the client; one to no question of now is dropped."""
        if message.get("id") == self._question:
            self._replies.put(message)

    def follow(self, moves: Follow) -> None:
        """Let the client's roots say which memory is served, in turn with the calls."""
        self._last = self.calls.submit(lambda: self.calls.reopen(moves(self._roots)))

    def _roots(self) -> list[str]:
        """The addresses of the client's roots; none if it does not say."""
        reply: Any = self.ask("roots/list", PATIENCE) or {}
        result = reply.get("result")
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list):
            return []
        return [
            root["uri"] for root in roots if isinstance(root, dict) and is_text(root.get("uri"))
        ]

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the calls under way; replies of the client are read no more."""
        self._replies.put(None)
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

    def _answer(
        self, id_: Any, future: Future[Result], result: Callable[[], Result | Refusal]
    ) -> None:
        self._waiting[str(id_)] = future
        self._last = self.calls.submit(lambda: self._write(id_, future, result))

    def _write(
        self, id_: Any, future: Future[Result], result: Callable[[], Result | Refusal]
    ) -> None:
        if future.cancelled():
            return
        answer = result()
        if self._waiting.get(str(id_)) is not future:
            return  # cancelled while it ran
        del self._waiting[str(id_)]
        message = {"jsonrpc": "2.0", "id": id_, "result": answer}
        if isinstance(answer, Refusal):
            message = answer._replace(id=id_).reply()
        try:
            self._wire.send(message)
        except OSError:  # the client reads no more, and nothing else would end the reader
            self.calls.ask(lambda memory: memory.close()).add_done_callback(lambda _: os._exit(0))


def begun(wire: Wire, offer: Dialect, open_memory: OpenMemory, on_crash: OnCrash | None) -> Line:
    """The calls of a connection; the memory is not opened yet."""
    return Line(wire, Calls(offer, open_memory, on_crash or log_crash))


def end_soon(status: int, seconds: float) -> None:
    """End the process even if a tool call hangs: a save survives that, a waiting client may not."""
    timer = threading.Timer(seconds + CLOSING, os._exit, [status])
    timer.daemon = True
    timer.start()
