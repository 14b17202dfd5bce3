"""Asks the service of an organisation: one request over HTTP, with a time limit.

Rule: the user's own settings name the service, nobody else, and the token goes to that address alone: a redirection is
not followed. The standard library is enough.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from filemem.errors import BadInput, BrokenStore, FilememError, Locked, NotFound
from filemem.tuples import NamedTuple

SECONDS = 10.0  # without a byte from the service, and for all of its answer
MOST = 8 * 1024 * 1024  # bytes of an answer
_KINDS: Mapping[int, type[FilememError]] = {400: BadInput, 404: NotFound, 429: Locked, 503: Locked}


class Service(NamedTuple):
    """An organisation's service: its address, as `config` accepts one, and the token that says who asks."""

    url: str
    token: str

    def ask(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of one of its tools. Raises what the service raised, or BadInput, Locked, BrokenStore.

        Every failure names the service.
        """
        given = {name: one for name, one in arguments.items() if name != "scope"}
        status, wait, body = self._sent(f"/org/{verb}", json.dumps(given).encode())
        try:
            answer: Any = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if status in (401, 403):
            told = f"the service {self.url} does not take your token"
            raise BadInput(
                told, "ask who runs it for a new one, and set FILEMEM_ORG_TOKEN", field="scope"
            )
        if isinstance(answer, dict) and status == 200:
            return answer
        if isinstance(answer, dict) and status in (*_KINDS, 421, 500):
            hint = answer.get("hint") or (f"ask again in {wait} s" if wait else "")
            told, hint = (
                str(text).replace(f"POST /org/{verb}", verb) for text in (answer.get("error"), hint)
            )
            raise _KINDS.get(status, BrokenStore)(f"the service {self.url}: {told}", hint)
        told = f"{self.url} answered with status {status}, not as `filemem org serve` does"
        raise BrokenStore(told, "see that FILEMEM_ORG_URL names it")

    def _sent(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, Retry-After and body of the answer to a POST. Raises Locked: there is none."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415 - 15 ms, with ssl

        address = urlsplit(self.url)
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=SECONDS)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, body, headers)
            with connection.getresponse() as found:
                ends, body = time.monotonic() + SECONDS, b""
                while (part := found.read1(MOST)) and len(body) < MOST:
                    body += part
                    if time.monotonic() > ends:
                        raise TimeoutError("it answers too slowly")
                return found.status, found.getheader("Retry-After") or "", body
        except (OSError, HTTPException, UnicodeError) as error:
            told = f"the service {self.url} does not answer: {error or type(error).__name__}"
            raise Locked(told, "your own memory answers as before: ask without it") from None
        finally:
            connection.close()
