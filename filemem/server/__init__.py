"""The MCP server: stdio with a front that answers before the SDK is imported, and HTTP (`server.http.serve`).

Importing this package loads only the standard library. Once the tools are listed, a call is likely: the SDK is imported
and the memory opened in a thread meanwhile.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from filemem.dialects.tool import Dialect
from filemem.server.front import Front, Turn
from filemem.server.wire import Message, Refusal, Wire, claim_stdio, deadly_signals

if TYPE_CHECKING:
    from filemem.server.sdk import Calls, OnCrash, OpenMemory


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
    front = Front(offer, version)
    messages = wire.messages()
    made: list[Calls] = []

    def prepare() -> None:
        from filemem.server import sdk

        made.append(sdk.Calls(offer, open_memory, on_crash or sdk.log_crash))
        if beside:
            beside(made[0])
        made[0].prepare()
        from filemem.server import stdio  # noqa: F401  beside the opening

    ahead = threading.Thread(target=prepare, daemon=True)
    if beside:
        ahead.start()
    try:
        handed_over = _listen(front, wire, messages, ahead.start if not beside else lambda: None)
    except BrokenPipeError:
        return
    if handed_over is None:
        return
    if ahead.ident is None:
        ahead.start()
    ahead.join()
    from filemem.server import sdk, stdio

    server = sdk.FilememServer(offer, made[0], version)
    answered = [message["id"] for message in front.kept if "id" in message]
    status = stdio.serve(server, wire, chain(front.kept, [handed_over], messages), answered)
    if status:
        sys.exit(status)


def _listen(
    front: Front, wire: Wire, messages: Iterator[Message | Refusal], listed: Callable[[], None]
) -> Message | None:
    """Answer until a message needs the SDK, and return that message; `listed` is called when the tools were listed."""
    waiting = [listed]
    for message in messages:
        turn = message.reply() if isinstance(message, Refusal) else front.answer(message)
        if turn is Turn.HAND_OVER and not isinstance(message, Refusal):
            return message
        if not isinstance(turn, Turn):
            wire.send(turn)
        if waiting and isinstance(message, dict) and message["method"] == "tools/list":
            waiting.pop()()
    return None
