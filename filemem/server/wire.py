"""JSON-RPC 2.0 as lines over two file descriptors.

A line is a message, or refused with a reason, or ignored. Standard input then reads as empty and
standard output goes to standard error, so that a stray print, ours or a child's, cannot break the
protocol. Standard library only: both phases of the stdio server use this module.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, NoReturn

MAX_LINE = 4 * 1024 * 1024  # bytes; the limit that the SDK sets for HTTP bodies
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Message = dict[str, object]
# The form of a question to a person. Accepting is not enough: some clients accept an empty form
# without asking anybody.
YES_OR_NO: Message = {
    "type": "object",
    "properties": {"yes": {"type": "boolean", "title": "Yes"}},
    "required": ["yes"],
}


class Refusal(NamedTuple):
    """Why a line is not a message, or a request cannot be done; `reply` is the error to send."""

    code: int
    message: str
    id: int | str | None = None
    data: object = None

    def to_message(self) -> Message:
        """The JSON-RPC error object to send."""
        error: Message = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


TOO_LONG = Refusal(INVALID_REQUEST, f"message longer than {MAX_LINE} bytes")
# The id of such a message, whose sender waits for an answer: clients write it first or last.
_ID = rb'"id"\s*:\s*(\d{1,15}|"[ !#-\[\]-~]{0,100}")\s*'
_LEADING_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_TRAILING_ID = re.compile(_ID + rb"\}\s*$")
_TAIL_SIZE = 200  # bytes at the end of a message that are searched for its id


def parse_line(line: bytes) -> Message | Refusal | None:
    """Parse one line: a well-formed message, a Refusal, or None for a line that needs no answer.

    A message without `method` is a reply of the client.
    """
    if not line.strip():
        return None
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        return Refusal(PARSE_ERROR, "message is not UTF-8")
    except ValueError as error:
        return Refusal(PARSE_ERROR, f"message is not JSON: {error}")
    except RecursionError:
        return Refusal(PARSE_ERROR, "message is nested too deeply")
    if not isinstance(value, dict):
        return Refusal(INVALID_REQUEST, "a message is one JSON object; batches are not served")
    return _validate_message(value)


def dump(value: object) -> str:
    """Format a value as one compact line of JSON; characters that UTF-8 lacks become `?`."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def has_agreed(reply: object) -> bool:
    """Return whether a person has answered YES_OR_NO with yes."""
    if not isinstance(reply, dict) or reply.get("action") != "accept":
        return False
    content = reply.get("content")
    return isinstance(content, dict) and content.get("yes") is True


def is_text(value: object) -> bool:
    """Return whether a value is text that UTF-8 can encode."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _validate_message(value: Message) -> Message | Refusal | None:
    id_ = _parse_id(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        return Refusal(INVALID_REQUEST, 'jsonrpc must be "2.0"', id_)
    if "method" not in value:
        is_reply = "result" in value or "error" in value
        if is_reply:
            return value
        return Refusal(INVALID_REQUEST, "method is missing", id_)
    if "id" in value and id_ is None:
        return Refusal(INVALID_REQUEST, "id must be an integer or text")
    if not is_text(value["method"]):
        return Refusal(INVALID_REQUEST, "method must be text", id_)
    if not isinstance(value.get("params", {}), dict | None):
        if "id" not in value:
            return None
        return Refusal(INVALID_PARAMS, "params must be an object", id_)
    return value


def _parse_id(value: object) -> int | str | None:
    if isinstance(value, str) and is_text(value):
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def _skip_long_line(start: bytes, source: BinaryIO) -> Refusal:
    """Read and drop the rest of a line that is too long; return the refusal."""
    end = chunk = start
    while chunk and not chunk.endswith(b"\n"):
        chunk = source.readline(MAX_LINE)
        end = (end + chunk)[-_TAIL_SIZE:]
    match = _LEADING_ID.match(start) or _TRAILING_ID.search(end)
    return TOO_LONG._replace(id=json.loads(match[1])) if match else TOO_LONG


class Wire:
    """Messages over two file descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._lock = threading.Lock()  # the reader and the calls' thread both write

    def iter_messages(self) -> Iterator[Message | Refusal]:
        """Yield messages, and refusals of invalid lines, until the input ends."""
        with open(self._source, "rb", closefd=False) as source:
            while line := source.readline(MAX_LINE + 1):
                is_complete = len(line) <= MAX_LINE or line.endswith(b"\n")
                message = parse_line(line) if is_complete else _skip_long_line(line, source)
                if message is not None:
                    yield message

    def send(self, message: object) -> None:
        """Write one message as a line, waiting for the reader if needed.

        Raises OSError: the reader has gone.
        """
        data = memoryview(dump(message).encode() + b"\n")
        with self._lock:
            while data:
                data = data[os.write(self._target, data) :]


def claim_stdio() -> Wire:
    """Take standard input and output for the protocol, for the rest of the process."""
    try:
        os.fstat(2)
    except OSError:  # without standard error the copies below would land on its number
        os.open(os.devnull, os.O_WRONLY)
    source = os.dup(0)
    target = os.dup(1)
    os.set_blocking(source, True)
    os.set_blocking(target, True)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return Wire(source, target)


def list_deadly_signals() -> tuple[int, ...]:
    """List the signals that end a server; SIGHUP only if it is not ignored, as under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGTERM, signal.SIGINT
    return signal.SIGTERM, signal.SIGINT, signal.SIGHUP
