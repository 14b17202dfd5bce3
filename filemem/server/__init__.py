"""The MCP server: stdio with a front that answers before the SDK is imported, and HTTP on loopback.

Importing this package costs nothing beyond the standard library; mcp, starlette and uvicorn come at first need.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from filemem import ending
from filemem.dialects.profiles import Advertised
from filemem.server.front import Front, Turn
from filemem.server.jsonrpc import Message, Refusal
from filemem.server.wire import Wire, claim_stdio

if TYPE_CHECKING:
    from filemem.server.calls import OpenMemory
    from filemem.server.door import Site
    from filemem.server.http import Access

__all__ = ["serve_http", "serve_stdio"]


def serve_stdio(
    offer: Advertised,
    open_memory: OpenMemory,
    *,
    version: str,
    on_crash: Callable[[str, BaseException], None] | None = None,
) -> None:
    """Serve MCP over standard input and output until the input ends; the process should end right after.

    Must be called in the main thread. Both streams belong to the protocol from here on.

    Args:
        offer: what is advertised and what can be called.
        open_memory: called at the first tool call, as `filemem.server.calls.Calls` says; where it raises FilememError,
            that is the answer to every call.
        version: of this program, for the handshake.
        on_crash: told the tool and the exception when a tool fails by a defect; default: the log on standard error.

    Raises:
        SystemExit: 128 plus the number of the signal, after one that tells it to end.
    """
    wire = claim_stdio()
    for number in ending.signals():
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
    from filemem.server.calls import Calls, log_crash

    server = sdk.build(offer, Calls(offer.dialect, open_memory, on_crash or log_crash), version)
    answered = [message["id"] for message in front.kept if "id" in message]
    status = stdio.serve(server, wire, chain(front.kept, [handed_over], messages), answered)
    if status:
        sys.exit(status)


def serve_http(
    offer: Advertised,
    open_memory: OpenMemory,
    *,
    version: str,
    host: str = "127.0.0.1",
    port: int = 3847,
    access: Access | None = None,
    on_crash: Callable[[str, BaseException], None] | None = None,
    site: Site | None = None,
) -> None:
    """Serve MCP over HTTP at /mcp, GET /health, and what a site has besides, until the process is told to end.

    Args:
        offer: what is advertised and what can be called.
        open_memory: as for `serve_stdio`.
        version: of this program.
        host: address to listen on; off loopback only as `access` allows.
        port: TCP port; 0 takes a free one.
        access: who else may connect; default: only programs of this machine.
        on_crash: as for `serve_stdio`.
        site: what is served beside MCP.

    Raises:
        BadInput: host or port cannot be used, or lead off loopback without permission.
        Locked: another process listens there.
    """
    from filemem.server import http

    address = http.Address(host, port, access or http.Access())
    http.serve(offer, open_memory, version, address, on_crash, site)


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
