"""Tool calls of one connection, answered on the wire.

The thread that owns the memory writes the answer itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from filemem.dialects.tool import Dialect
from filemem.server.calls import Called, Calls, OnCrash, OpenMemory, Result, log_crash
from filemem.server.wire import YES_OR_NO, Message, Refusal, Wire, agrees, is_text

Roots = Callable[[], list[str]]
Answer = Callable[[], Result | Refusal | None]
Follow = Callable[[Roots], bool]

# Seconds that calls get to answer after the input ended: who still reads wants to know what was
# saved.
ENDING = 10.0
GRACE = 1.0  # the same after a signal, which clients send that wait no longer
CLOSING = 0.8  # seconds after that
PATIENCE = 1.0  # seconds that a call waits for what the client is asked
ANSWERS = 50.0  # seconds that a person has to answer; clients wait for a call for a minute


class _Asking(NamedTuple):
    """A call that waits for a person, while others go on."""

    id: Any
    name: str
    arguments: Mapping[str, Any]
    called: Called
    future: Future[Called]  # of the call, by which it is known as long as it waits
    timer: threading.Timer


class Line:
    """The calls under way of one connection, and what the client is asked."""

    def __init__(self, wire: Wire, calls: Calls) -> None:
        self._wire = wire
        self.calls = calls
        # By the id as text: a client may cancel 7 as "7".
        self._waiting: dict[str, Future[Any]] = {}
        self._last: Future[Any] | None = None
        self._number = 0  # of questions
        # The id of the last one: text, which no client takes for one of its own.
        self._question = ""
        self._replies = SimpleQueue[Message | None]()
        self._asking: dict[str, _Asking] = {}  # by the id of the question
        self._ended = False  # whether replies are read no more

    def call(self, id_: Any, params: Mapping[str, Any], *, asks: bool = False) -> None:
        """Begin a call; its thread writes the answer. `asks`: the client asks its user."""
        name = params["name"]
        arguments = params.get("arguments") or {}
        future = self.calls.begin(name, arguments, asks=asks)
        self._answer(id_, future, lambda: self._called(id_, future, name, arguments))

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
        self._question = self._numbered()
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
        self._settle(str(message.get("id")), agrees(message.get("result")))

    def _numbered(self) -> str:
        self._number += 1
        return f"filemem-{self._number}"

    def _called(
        self, id_: Any, future: Future[Called], name: str, arguments: Mapping[str, Any]
    ) -> Result | None:
        """What a call answers; None where a person is asked first, and no call waits for that."""
        called = self.calls.called(future, name)
        waits = self._waiting.get(str(id_)) is future
        if called.question is None or self._ended or not waits:
            return called.result
        number = self._numbered()
        timer = threading.Timer(ANSWERS, self._settle, [number, False])
        timer.daemon = True
        self._asking[number] = _Asking(id_, name, arguments, called, future, timer)
        timer.start()
        params = {"message": called.question.text, "requestedSchema": YES_OR_NO}
        request = {"jsonrpc": "2.0", "id": number, "method": "elicitation/create"}
        self._wire.send({**request, "params": params})
        return None

    def _settle(self, number: str, agreed: bool) -> None:
        """Go on with a call whose question is answered, or never will be."""
        asking = self._asking.pop(number, None)
        if asking is None:
            return
        asking.timer.cancel()
        if self._waiting.get(str(asking.id)) is not asking.future:
            return  # cancelled meanwhile
        del self._waiting[str(asking.id)]
        question = asking.called.question
        if agreed and question:
            arguments = {**asking.arguments, **question.granted}
            self.call(asking.id, {"name": asking.name, "arguments": arguments})
        else:
            future = self.calls.submit(lambda: asking.called)
            self._answer(asking.id, future, lambda: asking.called.result)

    def follow(self, moves: Follow) -> None:
        """Let the client's roots say which memory is served, in turn with the calls.

        Who is asked now is asked about the memory of now: these calls end first, without a yes.
        """
        self._give_up_questions()
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
        self._ended = True
        self._replies.put(None)
        self._give_up_questions()
        if self._last is not None:
            wait([self._last], seconds)

    def _give_up_questions(self) -> None:
        for number in [*self._asking]:
            self._settle(number, False)

    def end(self, status: int = 0) -> None:
        """Answer what runs, close the memory: soon in any case."""
        seconds = GRACE if status else ENDING
        end_soon(status, seconds)
        if status:
            self.calls.end()
        self.wait(seconds)
        wait([self.calls.close()], CLOSING)

    def _answer(self, id_: Any, future: Future[Any], result: Answer) -> None:
        self._waiting[str(id_)] = future
        self._last = self.calls.submit(lambda: self._write(id_, future, result))

    def _write(self, id_: Any, future: Future[Any], result: Answer) -> None:
        if future.cancelled():
            return
        try:
            answer = result()
            if answer is None or self._waiting.get(str(id_)) is not future:
                return  # it comes later, or was cancelled while it ran
            del self._waiting[str(id_)]
            message = {"jsonrpc": "2.0", "id": id_, "result": answer}
            if isinstance(answer, Refusal):
                message = answer._replace(id=id_).reply()
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
