"""A running `filemem web`, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode


class Reply(NamedTuple):
    """What came back; `body` as JSON where it is JSON."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        """The body as a JSON value."""
        return json.loads(self.text)


class Server(NamedTuple):
    """A running server."""

    port: int
    token: str
    folder: Path
    told: str
    host: str = "127.0.0.1"

    @property
    def bearer(self) -> dict[str, str]:
        """The header that shows the token."""
        return {"Authorization": f"Bearer {self.token}"}

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send a request as it is."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            text = response.read().decode("utf-8")
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, text)
        finally:
            connection.close()

    def get(self, path: str, **query: Any) -> Reply:
        """GET with a query string, with the token."""
        headers = {} if "token" in query else self.bearer
        address = f"{path}?{urlencode(query, doseq=True)}" if query else path
        return self.ask("GET", address, headers=headers)

    def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        """POST a JSON object, with the token."""
        given = body if body is not None else more
        headers = {"Content-Type": "application/json", **self.bearer}
        return self.ask("POST", path, given, headers)


@contextmanager
def serving(
    folder: Path,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = ("web", "--port", "0"),
    lines: int = 2,
) -> Iterator[Server]:
    """Serve a folder's memory over HTTP.

    Args:
        folder: of the repository.
        env: further variables.
        command: what is run.
        lines: how many the server says at its start.
    """
    line = [sys.executable, "-m", "filemem", "-C", str(folder), *command]
    process = subprocess.Popen(
        line, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, text=True
    )
    assert process.stderr is not None
    try:
        told = "".join(process.stderr.readline() for _ in range(lines))
        port = re.search(r":(\d+)/mcp", told)
        assert port, told + process.stderr.read()
        token = re.search(r"token=([^\s#]+)", told)
        host = re.search(r"http://([0-9.]+):", told)
        assert host
        server = Server(
            int(port[1]),
            token[1] if token else "",
            folder,
            told,
            host[1].replace("0.0.0.0", "127.0.0.1"),
        )
        _wait(server)
        yield server
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def _wait(server: Server) -> None:
    for _ in range(200):
        try:
            if server.get("/health").status in (200, 401):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server did not start")
