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
from typing import TYPE_CHECKING, Any, cast

from filemem.dialects.tool import Dialect
from filemem.server.front import Action, RequestHandler
from filemem.server.wire import Message, Refusal, Wire, claim_stdio, list_deadly_signals

if TYPE_CHECKING:
    from filemem.server.calls import CallQueue, OnCrash, OpenMemory
    from filemem.server.line import CallSession, HandleRoots


def serve_stdio(
    dialect: Dialect,
    open_memory: OpenMemory,
    *,
    version: str,
    on_crash: OnCrash | None = None,
    start_service: Callable[[CallQueue], None] | None = None,
    handle_roots: HandleRoots | None = None,
) -> None:
    """Serve MCP over standard input and output, in the main thread, until the input ends.

    Args:
        dialect: the tools.
        open_memory: opens the memory at the first call.
        version: of filemem.
        on_crash: reports a defect.
        start_service: starts another server of the memory at once, in a thread.
        handle_roots: called with the roots of a client, before the memory is opened and when they
            change; returns whether another memory must be opened.
    """
    wire = claim_stdio()
    for number in list_deadly_signals():
        signal.signal(number, _exit_by_signal)
    handler = RequestHandler(dialect, version)
    connection = _Connection(wire, handler, open_memory, on_crash, handle_roots)
    if start_service:
        calls = connection.open_session().calls
        # In a thread: the first answer does not wait for the imports of a page.
        threading.Thread(target=start_service, args=[calls], daemon=True).start()
    messages = wire.iter_messages()
    try:
        first_message = connection.answer_messages(messages)
    except BrokenPipeError:
        return
    except SystemExit as exit_request:
        for number in list_deadly_signals():
            signal.signal(number, signal.SIG_IGN)
        connection.close(int(str(exit_request.code)))
        raise
    if first_message is None:
        connection.close()
        return
    from filemem.server import sdk, stdio

    server = sdk.FilememServer(dialect, connection.open_session().calls, version)
    status = stdio.serve(server, wire, _iter_requests(first_message, messages))
    if status:
        sys.exit(status)


def _exit_by_signal(number: int, _: object) -> None:
    sys.exit(128 + number)


def _iter_requests(
    first_message: Message, messages: Iterator[Message | Refusal]
) -> Iterator[Message | Refusal]:
    """Yield the messages from the first one on, without replies of the client."""
    yield first_message
    for message in messages:
        if isinstance(message, Refusal) or "method" in message:
            yield message


class _Connection:
    """One connection until it is handed over: answers requests and runs tool calls."""

    def __init__(
        self,
        wire: Wire,
        handler: RequestHandler,
        open_memory: OpenMemory,
        on_crash: OnCrash | None = None,
        handle_roots: HandleRoots | None = None,
    ) -> None:
        self.wire = wire
        self.handler = handler
        self._open_memory = open_memory
        self._on_crash = on_crash
        self._handle_roots = handle_roots
        self._session: CallSession | None = None

    def open_session(self) -> CallSession:
        """Return the calls, made on first use: lists need no further imports."""
        if self._session is None:
            from filemem.server.line import build_session

            self._session = build_session(
                self.wire, self.handler.dialect, self._open_memory, self._on_crash
            )
            self._prepare_memory(self._session)
        return self._session

    def _prepare_memory(self, session: CallSession) -> None:
        """Open the memory of the client's roots, in the order of the calls."""
        if self._handle_roots and self.handler.has_roots:
            session.follow_roots(self._handle_roots)
        session.calls.prepare_memory()

    def answer_messages(self, messages: Iterator[Message | Refusal]) -> Message | None:
        """Answer until a message opens the newer protocol, and return that message."""
        for message in messages:
            if isinstance(message, Refusal):
                self.wire.send(message.to_message())
                continue
            reply = self.handler.answer_message(message)
            if reply is Action.HAND_OVER:
                return message
            if isinstance(reply, Action):
                self._run_action(reply, message)
            else:
                self.wire.send(reply)
            if message.get("method") == "tools/list":  # a call is likely
                self.open_session()
        return None

    def _run_action(self, action: Action, message: Message) -> None:
        params = cast("dict[str, Any]", message.get("params"))
        if action is Action.CALL:
            self.open_session().start_call(message["id"], params, can_ask=self.handler.can_ask)
        elif action is Action.READ:
            self.open_session().start_read(message["id"], params)
        elif action is Action.COMPLETE:
            self.open_session().start_completion(message["id"], params)
        elif self._session and action is Action.CANCEL:
            self._session.cancel_call(message)
        elif self._session and action is Action.REPLY:
            self._session.handle_reply(message)
        elif self._session and action is Action.ROOTS:
            self._prepare_memory(self._session)

    def close(self, status: int = 0) -> None:
        """Answer the calls under way and close the memory."""
        if self._session is not None:
            self._session.close(status)
