"""Carries what the suite says over HTTP to a server on standard input and output, one message at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

LINE = [sys.executable, "-m", "tests.conformance.served", "--stdio"]


class Bridge(HTTPServer):
    """Answers each request with the next line of the server that it has started."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = subprocess.Popen(
            LINE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )

    def ask(self, message: Any) -> bytes:
        """The answer to a message; nothing for one that needs none."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(message).encode() + b"\n")
        self.server.stdin.flush()
        return self.server.stdout.readline() if {"id", "method"} <= message.keys() else b""


class _Handler(BaseHTTPRequestHandler):
    server: Bridge

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        answer = self.server.ask(json.loads(self.rfile.read(size)))
        self.send_response(200 if answer else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def bridged() -> Iterator[str]:
    """The address of a bridge."""
    with Bridge() as bridge:
        thread = threading.Thread(target=bridge.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{bridge.server_port}/mcp"
        finally:
            bridge.shutdown()
            thread.join()
            bridge.server.communicate(timeout=20)
    assert bridge.server.returncode == 0
