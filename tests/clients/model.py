"""A model on loopback: it keeps what clients send, by the first part of the path, and may answer.

Where it has no script for a client it refuses each request, so that the client ends.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

ERROR = {
    "error": {
        "type": "invalid_request_error",
        "message": "recorded",
        "code": 400,
        "status": "INVALID_ARGUMENT",
    }
}
Script = Callable[[Any], str]
"""What is answered to a request, as a stream of events."""
Call = tuple[str, Mapping[str, object]]
"""A tool and its arguments."""


class Model:
    """A server on loopback, for as long as it is open."""

    def __init__(self) -> None:
        self.sent: dict[str, list[Any]] = defaultdict(list)  # by client, what was posted
        self.scripts: dict[str, Script] = {}  # by client
        sent = self.sent
        scripts = self.scripts

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                client = self.path.split("/")[1]
                try:
                    request = json.loads(body)
                except ValueError:
                    return self.answer(400, ERROR)
                sent[client].append(request)
                script = scripts.get(client)
                if script and isinstance(request, dict) and request.get("tools"):
                    return self.send(200, "text/event-stream", script(request))
                return self.answer(400, ERROR)

            def do_GET(self) -> None:
                self.answer(200, {"data": [], "models": []})

            def answer(self, status: int, value: object) -> None:
                self.send(status, "application/json", json.dumps(value))

            def send(self, status: int, kind: str, text: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()


def messages(calls: list[Call]) -> Script:
    """Anthropic's Messages: one call a turn, then an end."""

    def script(request: Any) -> str:
        done = json.dumps(request["messages"]).count('"type": "tool_result"')
        usage = {"input_tokens": 1, "output_tokens": 1}
        text = {"type": "text", "text": ""}
        block: Mapping[str, object] = text
        change: Mapping[str, object] = {"type": "text_delta", "text": "Done."}
        if done < len(calls):
            name, arguments = calls[done]
            block = {"type": "tool_use", "id": f"toolu_{done}", "name": name, "input": {}}
            change = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        why = "tool_use" if done < len(calls) else "end_turn"
        message: Mapping[str, object] = {
            "id": f"msg_{done}",
            "type": "message",
            "role": "assistant",
            "model": "fake",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        stop = {"stop_reason": why, "stop_sequence": None}
        return _events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": change},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"},
        )

    return script


def responses(calls: list[Call]) -> Script:
    """OpenAI's Responses: one call a turn, then an end."""

    def script(request: Any) -> str:
        kinds = [str(item.get("type")) for item in request["input"]]
        done = sum(kind.endswith("_call_output") for kind in kinds)
        words = {"type": "output_text", "text": "Done."}
        item: dict[str, object] = {"type": "message", "role": "assistant", "content": [words]}
        if done < len(calls):
            name, arguments = calls[done]
            space, _, name = name.rpartition("/")
            item = {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
            item |= {"namespace": space} if space else {}
            if "input" in arguments:  # a tool that takes text
                item = {"type": "custom_tool_call", "name": name, "input": arguments["input"]}
            item["call_id"] = f"call_{done}"
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": f"resp_{done}", "usage": usage}
        return _events(
            {"type": "response.created", "response": response},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        )

    return script


def contents(calls: list[Call]) -> Script:
    """Gemini's contents: one call a turn, then an end."""

    def script(request: Any) -> str:
        done = json.dumps(request["contents"]).count('"functionResponse"')
        part: Mapping[str, object] = {"text": "Done."}
        if done < len(calls):
            name, arguments = calls[done]
            part = {"functionCall": {"name": name, "args": arguments}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': usage})}\n\n"

    return script


def _events(*events: Mapping[str, object]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
