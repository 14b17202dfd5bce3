"""Asks the service of an organisation: one request over HTTP, with a time limit.

Rule: the user's own settings name the service, and the token goes to that address alone: a
redirection is not followed. What comes back is foreign: it is limited in size and time, has the
types that we expect, and each record is marked as quoted, whatever the service says.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from filemem.errors import BadInput, BrokenStore, FilememError, Locked, NotFound
from filemem.record import schema

if TYPE_CHECKING:
    from http.client import HTTPConnection

TIMEOUT = 10.0  # for all of an answer
MAX_SIZE = 8 * 1024 * 1024  # bytes of an answer
MARK = "quoted from another repository"
_MAX_MESSAGE = 500  # characters of a message
_ERROR_TYPES: Mapping[int, type[FilememError]] = {
    400: BadInput,
    404: NotFound,
    429: Locked,
    503: Locked,
}
_FAILED_STATUSES = (*_ERROR_TYPES, 421, 500)
_REFUSED_STATUSES = (401, 403)
_TEXT = {"type": "string"}
_TEXTS = (
    *("author", "commit", "created", "decision", "drift", "id", "kind", "link", "note", "outcome"),
    *("path", "repository", "seen_at", "snippet", "status", "text", "title", "topic", "type"),
)
_LISTS = (
    *("affects", "also_in", "facts", "heads", "next_steps", "open_files", "proposed", "tags"),
    "superseded_by",
)
_ROWS = ("reasons", "related", "revisions", "successors")
_RESULT = {
    "type": "object",
    "required": ["id", "title", "path", "repository"],
    "properties": {
        **dict.fromkeys(_TEXTS, _TEXT),
        **{name: {"type": ["array", "string"], "items": _TEXT} for name in _LISTS},
        **{name: {"type": "array", "items": {"type": "object"}} for name in _ROWS},
        "score": {"type": "number"},
        "by": {"type": "object"},
    },
}
_ANSWER = {
    "type": "object",
    "required": ["results"],
    "properties": {
        "results": {"type": "array", "maxItems": 100, "items": _RESULT},
        **dict.fromkeys(("note", "degraded", "weaker"), _TEXT),
    },
}


class Service(NamedTuple):
    """An organisation's service: its address, as `config` accepts one, and the asker's token."""

    url: str
    token: str

    def ask(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of one of its tools, each record marked as quoted.

        Raises what the service raised, or BadInput, Locked, BrokenStore; each names the service.
        """
        payload = {name: value for name, value in arguments.items() if name != "scope"}
        data = json.dumps(payload).encode()
        status, retry_after, body = self._post_request(f"/org/{verb}", data)
        answer = _parse_object(body)
        if status in _REFUSED_STATUSES:
            hint = "ask who runs it for a new one, and set FILEMEM_ORG_TOKEN"
            raise BadInput(f"the service {self.url} does not take your token", hint, field="scope")
        if status in _FAILED_STATUSES and answer is not None:
            service_hint = answer.get("hint")
            if not service_hint and retry_after:
                service_hint = f"ask again in {retry_after} s"
            message = f"the service {self.url}: {_format_message(answer.get('error'), verb)}"
            error_type = _ERROR_TYPES.get(status, BrokenStore)
            raise error_type(message, _format_message(service_hint, verb))
        if status != 200 or answer is None or schema.check_value(_ANSWER, answer):
            message = f"{self.url} answered with status {status}, not as `filemem org serve` does"
            raise BrokenStore(message, "see that FILEMEM_ORG_URL names it")
        return _mark_results(answer)

    def _post_request(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Send a POST; return status, Retry-After and body. Raises Locked if there is no answer."""
        from http.client import (  # noqa: PLC0415 - 15 ms, with ssl
            HTTPConnection,
            HTTPException,
            HTTPSConnection,
        )

        address = urlsplit(self.url)
        connection_type = HTTPSConnection if address.scheme == "https" else HTTPConnection
        connection = connection_type(address.hostname or "", address.port, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        deadline = time.monotonic() + TIMEOUT
        timer = threading.Timer(TIMEOUT, _close_socket, (connection,))
        timer.start()
        try:
            connection.request("POST", path, body, headers)
            with connection.getresponse() as response:
                data = response.read(MAX_SIZE)
                if time.monotonic() >= deadline:  # what came until then may be cut
                    raise TimeoutError("it answers too slowly")
                retry_after = response.getheader("Retry-After") or ""
                return response.status, retry_after[:9], data
        except (OSError, HTTPException, UnicodeError) as error:
            reason = str(error or type(error).__name__)[:_MAX_MESSAGE]
            message = f"the service {self.url} does not answer: {reason}"
            raise Locked(message, "your own memory answers as before: ask without it") from None
        finally:
            timer.cancel()
            connection.close()


def _close_socket(connection: HTTPConnection) -> None:
    """End a connection that takes too long, wherever it is."""
    with suppress(OSError, AttributeError):  # it may be closed, or not yet open
        connection.sock.shutdown(socket.SHUT_RDWR)


def _parse_object(body: bytes) -> dict[str, Any] | None:
    """Parse an answer as a JSON object; None if it is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _format_message(value: object, verb: str) -> str:
    """Word a message of the service like one of a local command."""
    return str(value or "").replace(f"POST /org/{verb}", verb)[:_MAX_MESSAGE]


def _mark_results(answer: dict[str, Any]) -> dict[str, Any]:
    """Mark each record of an answer as quoted, and return the answer."""
    for result in answer["results"]:
        note = result.get("note", "")
        if not note:
            result["note"] = MARK
        elif not note.startswith(MARK):
            result["note"] = f"{MARK}; {note}"
    return answer
