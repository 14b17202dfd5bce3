"""The tool calls of one connection; the thread that owns the memory writes the answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.dialects.tool import Dialect
from filemem.server.calls import CallOutcome, CallQueue, OnCrash, OpenMemory, Result, log_crash
from filemem.server.wire import YES_OR_NO, Message, Refusal, Wire, has_agreed, is_text

if TYPE_CHECKING:
    from filemem.memory import Memory

ReadRoots = Callable[[], list[str]]
BuildAnswer = Callable[[], Result | Refusal | None]
HandleRoots = Callable[[ReadRoots], bool]

# Seconds for answers after the input ended: the client may still read them.
INPUT_END_SECONDS = 10.0
SIGNAL_SECONDS = 1.0  # seconds for answers after a signal
CLOSE_SECONDS = 0.8  # seconds for closing after the answers
REPLY_SECONDS = 1.0  # seconds that a call waits for a reply of the client
ANSWERS = 50.0  # seconds that a person has to answer; clients wait for a call for a minute


class _PendingQuestion(NamedTuple):
    """A call that waits for a person, while others go on."""

    id: Any
    name: str
    arguments: Mapping[str, Any]
    outcome: CallOutcome
    future: Future[CallOutcome]  # of the call, which identifies it while it waits
    timer: threading.Timer


class CallSession:
    """The running calls of one connection, and the questions to its client."""

    def __init__(self, wire: Wire, calls: CallQueue) -> None:
        self._wire = wire
        self.calls = calls
        # By the id as text: a client may cancel 7 as "7".
        self._futures: dict[str, Future[Any]] = {}
        self._last_future: Future[Any] | None = None
        self._question_count = 0
        # The id of the last question: text that differs from the ids of clients.
        self._question_id = ""
        self._replies = SimpleQueue[Message | None]()
        self._pending_questions: dict[str, _PendingQuestion] = {}  # by the id of the question
        self._is_closed = False  # whether further replies are dropped

    def start_call(self, id_: Any, params: Mapping[str, Any], *, can_ask: bool = False) -> None:
        """Start a call; its thread writes the answer. `can_ask`: the client can ask its user."""
        name = params["name"]
        arguments = params.get("arguments") or {}
        future = self.calls.submit_call(name, arguments, can_ask=can_ask)

        def build_answer() -> Result | None:
            return self._get_result_or_ask(id_, future, name, arguments)

        self._submit_answer(id_, future, build_answer)

    def start_read(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Start reading a resource, in the order of the calls."""
        uri = params["uri"]
        future = self.calls.submit_read(uri)
        self._submit_content(id_, future, uri)

    def start_completion(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Start completing an argument, in the order of the calls."""
        argument = params["argument"]
        name = argument["name"]
        future = self.calls.submit_completion(name, argument["value"])
        self._submit_content(id_, future, name)

    def _submit_content(self, id_: Any, future: Future[Result], label: str) -> None:
        def build_answer() -> Result | Refusal:
            return self.calls.build_content(future, label)

        self._submit_answer(id_, future, build_answer)

    def cancel_call(self, message: Message) -> None:
        """Cancel a call that has not begun; a running one ends, and is not answered."""
        params: Any = message.get("params") or {}
        future = self._futures.pop(str(params.get("requestId")), None)
        if future is not None:
            future.cancel()

    def ask_client(self, method: str, seconds: float) -> Message | None:
        """Ask the client, from the calls' thread; None without a reply in time."""
        self._question_id = self._add_question_id()
        replies = SimpleQueue[Message | None]()
        self._replies = replies
        try:
            self._wire.send({"jsonrpc": "2.0", "id": self._question_id, "method": method})
            return replies.get(timeout=seconds)
        except (Empty, OSError):
            return None

    def handle_reply(self, message: Message) -> None:
        """Handle a reply of the client; one to an earlier question is dropped."""
        if message.get("id") == self._question_id:
            self._replies.put(message)
        self._settle_question(str(message.get("id")), has_agreed(message.get("result")))

    def _add_question_id(self) -> str:
        self._question_count += 1
        return f"filemem-{self._question_count}"

    def _get_result_or_ask(
        self, id_: Any, future: Future[CallOutcome], name: str, arguments: Mapping[str, Any]
    ) -> Result | None:
        """Return the result of a call; None if a person is asked first, without blocking calls."""
        outcome = self.calls.build_outcome(future, name)
        is_waiting = self._futures.get(str(id_)) is future
        if outcome.question is None or self._is_closed or not is_waiting:
            return outcome.result
        question_id = self._add_question_id()
        timer = threading.Timer(ANSWERS, self._settle_question, [question_id, False])
        timer.daemon = True
        self._pending_questions[question_id] = _PendingQuestion(
            id=id_,
            name=name,
            arguments=arguments,
            outcome=outcome,
            future=future,
            timer=timer,
        )
        timer.start()
        params = {"message": outcome.question.text, "requestedSchema": YES_OR_NO}
        request: Message = {"jsonrpc": "2.0", "id": question_id, "method": "elicitation/create"}
        request["params"] = params
        self._wire.send(request)
        return None

    def _settle_question(self, question_id: str, has_agreed: bool) -> None:
        """Continue a call whose question is answered, or never will be."""
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
            return

        def get_outcome() -> CallOutcome:
            return pending.outcome

        def get_result() -> Result:
            return pending.outcome.result

        self._submit_answer(pending.id, self.calls.submit(get_outcome), get_result)

    def follow_roots(self, handle_roots: HandleRoots) -> None:
        """Let the client's roots decide which memory is served, in the order of the calls.

        Calls that wait for a person belong to the current memory: they end first, without a yes.
        """

        def update_memory() -> None:
            has_moved = handle_roots(self._ask_roots)
            self.calls.close_if_moved(has_moved)

        self._cancel_questions()
        self._last_future = self.calls.submit(update_memory)

    def _ask_roots(self) -> list[str]:
        """Ask the client for the addresses of its roots; none without an answer."""
        reply: Any = self.ask_client("roots/list", REPLY_SECONDS) or {}
        result = reply.get("result")
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list):
            return []
        entries = [root for root in roots if isinstance(root, dict)]
        return [entry["uri"] for entry in entries if is_text(entry.get("uri"))]

    def wait_for_calls(self, seconds: float | None = None) -> None:
        """Wait for the calls under way; further replies of the client are dropped."""
        self._is_closed = True
        self._replies.put(None)
        self._cancel_questions()
        if self._last_future is not None:
            wait([self._last_future], seconds)

    def _cancel_questions(self) -> None:
        for question_id in list(self._pending_questions):
            self._settle_question(question_id, False)

    def close(self, status: int = 0) -> None:
        """Answer running calls and close the memory, within a limited time."""
        seconds = SIGNAL_SECONDS if status else INPUT_END_SECONDS
        schedule_exit(status, seconds)
        if status:
            self.calls.refuse_new_calls()
        self.wait_for_calls(seconds)
        wait([self.calls.close()], CLOSE_SECONDS)

    def _submit_answer(self, id_: Any, future: Future[Any], build_answer: BuildAnswer) -> None:
        def write_answer() -> None:
            self._write_answer(id_, future, build_answer)

        self._futures[str(id_)] = future
        self._last_future = self.calls.submit(write_answer)

    def _write_answer(self, id_: Any, future: Future[Any], build_answer: BuildAnswer) -> None:
        if future.cancelled():
            return
        try:
            answer = build_answer()
            if answer is None or self._futures.get(str(id_)) is not future:
                return  # the answer comes later, or the call was cancelled
            del self._futures[str(id_)]
            message = {"jsonrpc": "2.0", "id": id_, "result": answer}
            if isinstance(answer, Refusal):
                message = answer._replace(id=id_).to_message()
            self._wire.send(message)
        except OSError:  # the client no longer reads, and nothing else would end the reader
            self.calls.ask(_close_memory).add_done_callback(_exit_process)


def _close_memory(memory: Memory) -> None:
    memory.close()


def _exit_process(_: Future[None]) -> None:
    os._exit(0)


def build_session(
    wire: Wire, dialect: Dialect, open_memory: OpenMemory, on_crash: OnCrash | None
) -> CallSession:
    """Build the calls of a connection; the memory is opened later."""
    if on_crash is None:
        on_crash = log_crash
    calls = CallQueue(dialect, open_memory, on_crash)
    return CallSession(wire, calls)


def schedule_exit(status: int, seconds: float) -> None:
    """End the process after a while even if a tool call hangs: a save survives that."""
    timer = threading.Timer(seconds + CLOSE_SECONDS, os._exit, [status])
    timer.daemon = True
    timer.start()
