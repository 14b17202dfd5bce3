"""The MCP server: stdio with a front that answers before the SDK is imported, and HTTP (`server.http.serve`).

Importing this package costs nothing beyond the standard library; mcp comes at first need.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from filemem.dialects.tool import Advertised
from filemem.server.front import Front, Turn
from filemem.server.wire import Message, Refusal, Wire, claim_stdio, deadly_signals

if TYPE_CHECKING:
    from filemem.server.sdk import OnCrash, OpenMemory


def serve_stdio(offer: Advertised, open_memory: OpenMemory, *, version: str, on_crash: OnCrash | None = None) -> None:
    """Serve MCP over standard input and output until the input ends; the process should end right after.

    Must be called in the main thread. Both streams belong to the protocol from here on.
    """
    wire = claim_stdio()
    for number in deadly_signals():
        signal.signal(number, _leave)
    front = Front(offer, version)
    messages = wire.messages()
    try:
        handed_over = _listen(front, wire, messages)
    except BrokenPipeError:
        return
    if handed_over is None:
        return
    from filemem.server import sdk, stdio

    server = sdk.FilememServer(offer, sdk.Calls(offer.dialect, open_memory, on_crash or sdk.log_crash), version)
    answered = [message["id"] for message in front.kept if "id" in message]
    status = stdio.serve(server, wire, chain(front.kept, [handed_over], messages), answered)
    if status:
        sys.exit(status)


def _listen(front: Front, wire: Wire, messages: Iterator[Message | Refusal]) -> Message | None:
    """Answer until a message must be handed over; return it, or None when the input ended."""
    for message in messages:
        turn = message.reply() if isinstance(message, Refusal) else front.answer(message)
        if turn is Turn.HAND_OVER and not isinstance(message, Refusal):
            return message
        if not isinstance(turn, Turn):
            wire.send(turn)
    return None


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)
