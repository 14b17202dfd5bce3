"""A client for MCP over stdio that costs next to nothing, so that what is timed is the server."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from types import TracebackType
from typing import Any

from bench.measure import Surroundings
from filemem.server.calls import ANSWER_KEY

PATIENCE = 300  # seconds after which a server that does not answer is ended
CHUNK = 1 << 16
PROTOCOL = "2025-06-18"


class Server:
    """A server in a process of its own, spoken to one request at a time.

    Args:
        surroundings: where it runs.
        command: what is run.
    """

    def __init__(self, surroundings: Surroundings, *command: str) -> None:
        self._number = 0
        self._unread = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the server
        self._process = subprocess.Popen(
            command,
            cwd=surroundings.folder,
            env=surroundings.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def greet(self) -> list[str]:
        """Shake hands and list the tools; return their names."""
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion=PROTOCOL, capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return [tool["name"] for tool in self.ask("tools/list")["tools"]]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the object of its answer.

        Raises:
            RuntimeError: the tool failed.
        """
        result = self.ask("tools/call", name=tool, arguments=arguments)
        if result.get("isError"):
            raise RuntimeError(f"{tool} failed: {result['content']}")
        answer: dict[str, Any] = result.get("_meta", {}).get(ANSWER_KEY, {})
        return answer

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            RuntimeError: no answer, or an error.
        """
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        message = self._receive()
        while message.get("id") != self._number:
            message = self._receive()
        if "result" not in message:
            raise RuntimeError(f"{method}: {message.get('error')}")
        result: dict[str, Any] = message["result"]
        return result

    def close(self) -> None:
        """End the input, and the server with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            ready, _, _ = select.select([source], [], [], PATIENCE)
            data = os.read(source, CHUNK) if ready else b""
            if not data:
                self._process.kill()
                self._errors.seek(0)
                raise RuntimeError(
                    f"no answer from the server:\n{self._errors.read()[-2000:].decode()}"
                )
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
