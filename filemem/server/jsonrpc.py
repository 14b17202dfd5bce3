"""JSON-RPC 2.0 as lines of text: pure rules, no I/O, standard library only.

A line is a message, or refused with a reason, or nothing. Both phases of the stdio server read by these rules, so
garbage is answered alike whether the SDK is loaded or not.
"""

from __future__ import annotations

import json
from typing import NamedTuple, NoReturn

MAX_LINE = 4 * 1024 * 1024  # bytes; the limit that the SDK sets for HTTP bodies
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603

Message = dict[str, object]


class Refusal(NamedTuple):
    """Why a line is no message, as the reply that says so."""

    code: int
    message: str
    id: int | str | None = None

    def reply(self) -> Message:
        """The JSON-RPC error object to send."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}}


TOO_LONG = Refusal(INVALID_REQUEST, f"message longer than {MAX_LINE} bytes")


def parse(line: bytes) -> Message | Refusal | None:
    """Read one line.

    Returns:
        A request or notification whose `method` is text, whose `id`, if there is one, is an integer or text, and
        whose `params`, if there are any, are an object; a Refusal; or None for what needs no answer.
    """
    if not line.strip():
        return None
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        return Refusal(PARSE_ERROR, "message is not UTF-8")
    except ValueError as error:
        return Refusal(PARSE_ERROR, f"message is not JSON: {error}")
    except RecursionError:
        return Refusal(PARSE_ERROR, "message is nested too deeply")
    if not isinstance(value, dict):
        return Refusal(INVALID_REQUEST, "a message is one JSON object; batches are not served")
    return _checked(value)


def dump(value: object) -> str:
    """Write a value as one compact line; a character that UTF-8 cannot carry becomes `?`.

    Raises:
        ValueError: the value holds what JSON cannot, such as NaN.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can carry."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))


def _checked(value: Message) -> Message | Refusal | None:
    id_ = _id(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        return Refusal(INVALID_REQUEST, 'jsonrpc must be "2.0"', id_)
    if "method" not in value:
        # We ask nothing of the client, so an answer belongs to no question of ours.
        answers = "result" in value or "error" in value
        return None if answers else Refusal(INVALID_REQUEST, "method is missing", id_)
    if "id" in value and id_ is None:
        return Refusal(INVALID_REQUEST, "id must be an integer or text")
    if not is_text(value["method"]):
        return Refusal(INVALID_REQUEST, "method must be text", id_)
    if not isinstance(value.get("params", {}), dict | None):
        return Refusal(INVALID_PARAMS, "params must be an object", id_) if "id" in value else None
    return value


def _id(value: object) -> int | str | None:
    if isinstance(value, str) and is_text(value):
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
