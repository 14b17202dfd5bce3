"""A model that answers nothing: what clients send to it is kept, by the name that is the first part of the path."""

from __future__ import annotations

import http.server
import json
import threading
from collections import defaultdict
from typing import Any

ERROR = {
    "error": {
        "type": "invalid_request_error",
        "message": "recorded",
        "code": 400,
        "status": "INVALID_ARGUMENT",
    }
}


class Model:
    """A server on loopback, for as long as it is open."""

    def __init__(self) -> None:
        self.sent: dict[str, list[Any]] = defaultdict(list)  # by client, what was posted
        sent = self.sent

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    sent[self.path.split("/")[1]].append(json.loads(body))
                except ValueError:
                    pass
                self.answer(400, ERROR)

            def do_GET(self) -> None:
                self.answer(200, {"data": [], "models": []})

            def answer(self, status: int, value: object) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
