"""Slack, played by a server of our own that keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.support import git, make_repo, write
from tests.web.support import Server, serving

TOKEN = "xoxb-not-a-real-one"


class StandIn(ThreadingHTTPServer):
    """What a test sees of Slack: paths, authorization and bodies, in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heard: list[tuple[str, str, bytes]] = []

    @property
    def url(self) -> str:
        """Where its methods are."""
        return f"http://127.0.0.1:{self.server_port}/api/"


class Handler(BaseHTTPRequestHandler):
    """Answers as Slack's documentation says."""

    server: StandIn

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append((self.path, self.headers.get("Authorization", ""), body))
        answer: dict[str, Any] = {"ok": True}
        if self.path == "/api/files.getUploadURLExternal":
            answer |= {
                "upload_url": f"http://127.0.0.1:{self.server.server_port}/upload",
                "file_id": "F1",
            }
        elif self.path == "/api/files.completeUploadExternal":
            answer |= {"files": [{"id": "F1", "title": "chart.png"}]}
        if b"C0NOWHERE" in body:
            answer = {"ok": False, "error": "channel_not_found"}
        data = b"OK" if self.path == "/upload" else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture(scope="module")
def slack() -> Iterator[StandIn]:
    """A stand-in of Slack's API."""
    pytest.importorskip("slack_sdk", reason="the extra `slack` is not installed")
    with StandIn() as standing:
        threading.Thread(target=standing.serve_forever, daemon=True).start()
        yield standing
        standing.shutdown()


@pytest.fixture(scope="module")
def connected(slack: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a bot's token."""
    folder: Path = make_repo(tmp_path_factory.mktemp("slack") / "repo")
    write(folder / "chart.png", b"\x89PNG\r\n\x1a\n\0\xff")
    write(folder / "config.txt", "aws = AKIA" + "ABCDEFGHIJKLMNOP\n")
    write(folder / "server.key", "key")
    git(folder, "add", "-f", ".")
    write(folder / "untracked.txt", "untracked")
    with serving(folder, {"SLACK_BOT_TOKEN": TOKEN, "FILEMEM_SLACK_URL": slack.url}) as running:
        yield running


@pytest.mark.requirement("mama-http-slack")
def test_a_message_is_sent(connected: Server, slack: StandIn) -> None:
    slack.heard.clear()
    reply = connected.post(
        "/api/slack/send", channel_id="C01234567", message="Hello from filemem! é <b>"
    )
    assert (reply.status, reply.body) == (
        200,
        {"success": True, "message": "Message sent to Slack channel C01234567"},
    )
    ((path, authorization, body),) = slack.heard
    assert (path, authorization) == ("/api/chat.postMessage", f"Bearer {TOKEN}")
    sent = (
        json.loads(body)
        if body.startswith(b"{")
        else {k: v[0] for k, v in parse_qs(body.decode()).items()}
    )
    assert (sent["channel"], sent["text"]) == ("C01234567", "Hello from filemem! é <b>")


@pytest.mark.requirement("mama-http-slack")
@pytest.mark.parametrize("words", [("channel_id", "file_path"), ("channelId", "filePath")])
def test_a_file_is_sent(connected: Server, slack: StandIn, words: tuple[str, str]) -> None:
    slack.heard.clear()
    path = str(connected.folder / "chart.png") if words[0] == "channelId" else "chart.png"
    reply = connected.post(
        "/api/slack/send", {words[0]: "C01234567", "message": "See", words[1]: path}
    )
    assert reply.status == 200, reply.text
    assert [one[0] for one in slack.heard] == [
        "/api/files.getUploadURLExternal",
        "/upload",
        "/api/files.completeUploadExternal",
    ]
    assert b"\x89PNG\r\n\x1a\n\0\xff" in slack.heard[1][2]
    assert b"chart.png" in slack.heard[0][2]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../outside.txt", 400),
        ("/etc/passwd", 400),
        (".git/config", 400),
        ("server.key", 400),
        ("config.txt", 400),
        ("untracked.txt", 404),
        ("nothing.txt", 404),
    ],
)
def test_what_is_no_file_of_the_project_or_secret_is_not_sent(
    connected: Server, slack: StandIn, path: str, status: int
) -> None:
    slack.heard.clear()
    reply = connected.post("/api/slack/send", channel_id="C01234567", message="See", file_path=path)
    assert (reply.status, reply.body["error"]) == (status, True)
    assert "AKIA" not in reply.text
    assert not slack.heard


def test_what_slack_refuses_is_told_without_the_token(connected: Server) -> None:
    reply = connected.post("/api/slack/send", channel_id="C0NOWHERE", message="Hello")
    assert (reply.status, reply.body["code"]) == (502, "SLACK_FAILED")
    assert "channel_not_found" in reply.body["message"]
    assert TOKEN not in reply.text
    assert TOKEN not in connected.get("/api/daemon/logs", lines=1000).text


def test_channel_and_something_to_send_are_required(connected: Server) -> None:
    for body in ({"message": "Hello"}, {"channel_id": "C1", "message": " "}, {"channel_id": ""}):
        reply = connected.post("/api/slack/send", body)
        assert (reply.status, reply.body["code"]) == (400, "MISSING_FIELDS")


def test_without_a_bot_it_says_so(server: Server) -> None:
    reply = server.post("/api/slack/send", channel_id="C1", message="Hello")
    assert (reply.status, reply.body["code"]) == (503, "NOT_CONFIGURED")
    assert "SLACK_BOT_TOKEN" in reply.body["hint"]
