"""The front of a stdio server: answers the handshake and the lists from data, before the SDK is imported.

It answers only what it can answer exactly as the SDK would, and tells who begins without the handshake; everything
else is handed over, together with what the SDK must see again.
No mcp, pydantic, asyncio or numpy here: most servers are started, listed, and never called.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from filemem.dialects.profiles import Advertised
from filemem.server import entries
from filemem.server.jsonrpc import INVALID_PARAMS, Message, is_text

# As in mcp_types.version; a test compares them.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_CALLS = ("tools/call", "resources/read", "prompts/get")
_KEPT = 16  # messages to repeat; a client that sends more handshakes than this meets the SDK


class Turn(Enum):
    """What to do where there is no reply to send."""

    NOTHING = "nothing"
    HAND_OVER = "hand over"


class Front:
    """The state of one connection until it is handed over.

    Args:
        offer: what is advertised.
        version: of this program.
    """

    def __init__(self, offer: Advertised, version: str) -> None:
        self.offer, self.version = offer, version
        self._lists = dict(entries.lists(offer.tools, offer.dialect))
        if offer.dialect.resources:  # nobody has opened the memory yet, so nothing that is stored is listed
            self._lists["resources/list"] = {"resources": entries.resources(offer.dialect)}
        self.kept: list[Message] = []
        """The handshake so far; whoever takes over must see it first. Its requests are answered already."""

    def answer(self, message: Message) -> Message | Turn:
        """Take one message; return the reply, or what else to do."""
        method = message["method"]
        if "id" not in message:
            if method == "notifications/initialized" and len(self.kept) < _KEPT:
                self.kept.append(message)
            return Turn.NOTHING
        params = message.get("params") or {}
        if not isinstance(params, dict) or not _is_plain_meta(params):
            return Turn.HAND_OVER
        if not self._greeted and (method in self._lists or method in _CALLS):
            # The SDK answers "Invalid request parameters", which tells nobody what to do.
            told = {"code": INVALID_PARAMS, "message": f"{method} came before initialize: send initialize first"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": told}
        answers = {"initialize": self._initialize, "ping": self._ping}
        if method in self._lists:
            result = self._list(str(method), params)
        else:
            result = answers[str(method)](params) if method in answers else None
        if result is None:
            return Turn.HAND_OVER
        if method == "initialize":
            self.kept.append(message)
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    @property
    def _greeted(self) -> bool:
        return any(message["method"] == "initialize" for message in self.kept)

    def _initialize(self, params: Mapping[str, object]) -> dict[str, object] | None:
        if len(self.kept) >= _KEPT or "_meta" in params or not _is_plain_client(params):
            return None
        wanted = params["protocolVersion"]
        result: dict[str, object] = {
            "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "capabilities": entries.capabilities(self.offer.dialect),
            "serverInfo": entries.server(self.offer.dialect, self.version),
        }
        if self.offer.dialect.instructions:
            result["instructions"] = self.offer.dialect.instructions
        return result

    def _ping(self, _params: Mapping[str, object]) -> dict[str, object]:
        return {}

    def _list(self, method: str, params: Mapping[str, object]) -> dict[str, object] | None:
        return None if params.get("cursor") is not None else self._lists[method]


def _is_plain_client(params: Mapping[str, object]) -> bool:
    """Whether the three required parameters of `initialize` are there, in forms that need no model to judge."""
    client, capabilities = params.get("clientInfo"), params.get("capabilities")
    return (
        is_text(params.get("protocolVersion"))
        and isinstance(capabilities, dict)
        and all(isinstance(value, dict) for value in capabilities.values())
        and isinstance(client, dict)
        and {"name", "version"} <= client.keys()
        and all(is_text(value) for value in client.values())
    )


def _is_plain_meta(params: Mapping[str, object]) -> bool:
    """Whether `_meta` is absent or only a progress token; the form of 2026-07-28 carries its version there."""
    meta = params.get("_meta", {})
    return isinstance(meta, dict) and all(
        key == "progressToken" and isinstance(value, str | int) and not isinstance(value, bool)
        for key, value in meta.items()
    )
