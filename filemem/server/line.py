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
from filemem.server.calls import CallOutcome, CallQueue, OnCrash, OpenMemory, Result, log_crash
from filemem.server.wire import YES_OR_NO, Message, Refusal, Wire, has_agreed, is_text

ReadRoots = Callable[[], list[str]]
BuildAnswer = Callable[[], Result | Refusal | None]
HandleRoots = Callable[[ReadRoots], bool]

# Seconds that calls get to answer after the input ended: who still reads wants to know what was
# saved.
INPUT_END_SECONDS = 10.0
SIGNAL_SECONDS = 1.0  # the same after a signal, which clients send that wait no longer
CLOSE_SECONDS = 0.8  # seconds after that
REPLY_SECONDS = 1.0  # seconds that a call waits for what the client is asked
ANSWERS = 50.0  # seconds that a person has to answer; clients wait for a call for a minute


class _PendingQuestion(NamedTuple):
    """A call that waits for a person, while others go on."""

    id: Any
    name: str
    arguments: Mapping[str, Any]
    outcome: CallOutcome
    future: Future[CallOutcome]  # of the call, by which it is known as long as it waits
    timer: threading.Timer


class CallSession:
    """The calls under way of one connection, and what the client is asked."""

    def __init__(self, wire: Wire, calls: CallQueue) -> None:
        self._wire = wire
        self.calls = calls
        # By the id as text: a client may cancel 7 as "7".
        self._futures: dict[str, Future[Any]] = {}
        self._last_future: Future[Any] | None = None
        self._question_count = 0  # of questions
        # The id of the last one: text, which no client takes for one of its own.
        self._question_id = ""
        self._replies = SimpleQueue[Message | None]()
        self._pending_questions: dict[str, _PendingQuestion] = {}  # by the id of the question
        self._is_closed = False  # whether replies are read no more

    def start_call(self, id_: Any, params: Mapping[str, Any], *, can_ask: bool = False) -> None:
        """Begin a call; its thread writes the answer. `asks`: the client asks its user."""
        name = params["name"]
        arguments = params.get("arguments") or {}
        future = self.calls.submit_call(name, arguments, can_ask=can_ask)
        self._submit_answer(
            id_, future, lambda: self._get_result_or_ask(id_, future, name, arguments)
        )

    def start_read(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Begin to read a resource, in turn with the calls."""
        uri = params["uri"]
        future = self.calls.submit_read(uri)
        self._submit_answer(id_, future, lambda: self.calls.build_content(future, uri))

    def start_completion(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Begin to complete an argument, in turn with the calls."""
        name = params["argument"]["name"]
        future = self.calls.submit_completion(name, params["argument"]["value"])
        self._submit_answer(id_, future, lambda: self.calls.build_content(future, name))

    def cancel_call(self, message: Message) -> None:
        """Drop a call that has not begun; one that runs ends, and is not answered."""
        params: Any = message.get("params") or {}
        future = self._futures.pop(str(params.get("requestId")), None)
        if future is not None:
            future.cancel()

    def ask_client(self, method: str, seconds: float) -> Message | None:
        """Ask the client, from the calls' thread; its reply, or None if there is none in time."""
        self._question_id = self._add_question_id()
        self._replies = replies = SimpleQueue[Message | None]()
        try:
            self._wire.send({"jsonrpc": "2.0", "id": self._question_id, "method": method})
            return replies.get(timeout=seconds)
        except (Empty, OSError):
            return None

    def handle_reply(self, message: Message) -> None:
        """Take a reply of the client; one to no question of now is dropped."""
        if message.get("id") == self._question_id:
            self._replies.put(message)
        self._settle_question(str(message.get("id")), has_agreed(message.get("result")))

    def _add_question_id(self) -> str:
        self._question_count += 1
        return f"filemem-{self._question_count}"

    def _get_result_or_ask(
        self, id_: Any, future: Future[CallOutcome], name: str, arguments: Mapping[str, Any]
    ) -> Result | None:
        """What a call answers; None where a person is asked first, and no call waits for that."""
        outcome = self.calls.build_outcome(future, name)
        is_waiting = self._futures.get(str(id_)) is future
        if outcome.question is None or self._is_closed or not is_waiting:
            return outcome.result
        question_id = self._add_question_id()
        timer = threading.Timer(ANSWERS, self._settle_question, [question_id, False])
        timer.daemon = True
        self._pending_questions[question_id] = _PendingQuestion(
            id_, name, arguments, outcome, future, timer
        )
        timer.start()
        params = {"message": outcome.question.text, "requestedSchema": YES_OR_NO}
        request = {"jsonrpc": "2.0", "id": question_id, "method": "elicitation/create"}
        self._wire.send({**request, "params": params})
        return None

    def _settle_question(self, question_id: str, has_agreed: bool) -> None:
        """Go on with a call whose question is answered, or never will be."""
        pending = self._pending_questions.pop(question_id, None)
        if pending is None:
            return
        pending.timer.cancel()
        if self._futures.get(str(pending.id)) is not pending.future:
            return  # cancelled meanwhile
        del self._futures[str(pending.id)]
        question = pending.outcome.question
        if has_agreed and question:
            arguments = {**pending.arguments, **question.added_arguments}
            self.start_call(pending.id, {"name": pending.name, "arguments": arguments})
        else:
            future = self.calls.submit(lambda: pending.outcome)
            self._submit_answer(pending.id, future, lambda: pending.outcome.result)

    def follow_roots(self, handle_roots: HandleRoots) -> None:
        """Let the client's roots say which memory is served, in turn with the calls.

        Who is asked now is asked about the memory of now: these calls end first, without a yes.
        """
        self._cancel_questions()
        self._last_future = self.calls.submit(
            lambda: self.calls.close_if_moved(handle_roots(self._ask_roots))
        )

    def _ask_roots(self) -> list[str]:
        """The addresses of the client's roots; none if it does not say."""
        reply: Any = self.ask_client("roots/list", REPLY_SECONDS) or {}
        result = reply.get("result")
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list):
            return []
        return [
            root["uri"] for root in roots if isinstance(root, dict) and is_text(root.get("uri"))
        ]

    def wait_for_calls(self, seconds: float | None = None) -> None:
        """Wait for the calls under way; replies of the client are read no more."""
        self._is_closed = True
        self._replies.put(None)
        self._cancel_questions()
        if self._last_future is not None:
            wait([self._last_future], seconds)

    def _cancel_questions(self) -> None:
        for question_id in [*self._pending_questions]:
            self._settle_question(question_id, False)

    def close(self, status: int = 0) -> None:
        """Answer what runs, close the memory: soon in any case."""
        seconds = SIGNAL_SECONDS if status else INPUT_END_SECONDS
        schedule_exit(status, seconds)
        if status:
            self.calls.refuse_new_calls()
        self.wait_for_calls(seconds)
        wait([self.calls.close()], CLOSE_SECONDS)

    def _submit_answer(self, id_: Any, future: Future[Any], build_answer: BuildAnswer) -> None:
        self._futures[str(id_)] = future
        self._last_future = self.calls.submit(lambda: self._write_answer(id_, future, build_answer))

    def _write_answer(self, id_: Any, future: Future[Any], build_answer: BuildAnswer) -> None:
        if future.cancelled():
            return
        try:
            answer = build_answer()
            if answer is None or self._futures.get(str(id_)) is not future:
                return  # it comes later, or was cancelled while it ran
            del self._futures[str(id_)]
            message = {"jsonrpc": "2.0", "id": id_, "result": answer}
            if isinstance(answer, Refusal):
                message = answer._replace(id=id_).to_message()
            self._wire.send(message)
        except OSError:  # the client reads no more, and nothing else would end the reader
            self.calls.ask(lambda memory: memory.close()).add_done_callback(lambda _: os._exit(0))


def build_session(
    wire: Wire, dialect: Dialect, open_memory: OpenMemory, on_crash: OnCrash | None
) -> CallSession:
    """The calls of a connection; the memory is not opened yet."""
    return CallSession(wire, CallQueue(dialect, open_memory, on_crash or log_crash))


def schedule_exit(status: int, seconds: float) -> None:
    """End the process even if a tool call hangs: a save survives that, a waiting client may not."""
    timer = threading.Timer(seconds + CLOSE_SECONDS, os._exit, [status])
    timer.daemon = True
    timer.start()
