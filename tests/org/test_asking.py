"""Asking an organisation's service: by the user's settings alone; if it fails, the memory at hand answers."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from filemem import config
from filemem.errors import BadInput, BrokenStore, FilememError, Locked
from filemem.org import client
from filemem.org.client import Service
from tests.support import make_repo, write
from tests.system.tools import cli, ok, process, raw_tools_list, talking

CLOSED = "http://127.0.0.1:9"  # a port that nothing listens on


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that always answers the same; its address, and the tokens that it was shown."""
    tokens: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            tokens.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", tokens
        finally:
            server.shutdown()


@pytest.fixture
def stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's settings name a service that is down."""
    write(tmp_path / "config/filemem/config.toml", f'org_url = "{CLOSED}"\norg_token = "secret"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_only_the_user_names_a_service_and_nothing_can_be_read_on_the_way(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    refused = cli(repo, "search", "--org", "caching")
    assert refused.code == 2
    assert "FILEMEM_ORG_URL" in refused.err
    for url in (
        "http://memory.example.org",
        "https://ada:x@memory.example.org",
        "https://x/path",
        "ftp://localhost",
    ):
        with pytest.raises(BadInput, match="org_url"):
            config.load(repo, {"FILEMEM_ORG_URL": url})
    assert (
        config.load(repo, {"FILEMEM_ORG_URL": "https://memory.example.org/"}).org_url
        == "https://memory.example.org"
    )
    for name in ("org_url", "org_token", "org_dsn"):
        write(repo / ".filemem.toml", f'{name} = "https://evil.example"\n')
        settings = config.load(repo, {})
        assert not getattr(settings, name)
        assert "only the user's own configuration" in settings.unknown_settings[0]


@pytest.mark.usefixtures("stated")
def test_a_service_that_is_down_is_named_and_the_memory_at_hand_answers(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    ok(
        repo,
        "save",
        "decision",
        "--topic",
        "caching",
        "--decision",
        "Use LRU",
        "--reasoning",
        "One process",
    )
    down = cli(repo, "search", "--org", "caching", "--json")
    assert down.code == 6
    assert CLOSED in down.json["error"]["message"]
    with talking(repo) as talk:
        error = talk.refused("search", query="caching", scope="org")
        assert (error["kind"], CLOSED in error["message"]) == ("locked", True)
        assert CLOSED in talk.refused("get", id="x", scope="org")["message"]
        assert talk.call("search", query="caching")["count"] == 1
        assert talk.call("search", query="caching", scope="project")["count"] == 1


@pytest.mark.usefixtures("stated")
def test_servers_offer_the_scope_only_to_their_own_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "repo")
    listing = raw_tools_list(repo)
    assert len(listing) <= 8192 + 64  # with the frame of the answer
    tools = {one["name"]: one for one in json.loads(listing)["result"]["tools"]}
    assert tools["search"]["inputSchema"]["properties"]["scope"]["enum"] == [
        "project",
        "org",
        "personal",
    ]
    assert tools["get"]["inputSchema"]["properties"]["scope"]["enum"] == [
        "project",
        "org",
        "personal",
    ]
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert b'"org"' not in raw_tools_list(repo)


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (200, b'{"results": []}', None, ""),
        (200, b"<html>", BrokenStore, "status 200"),
        (200, b"[" * 900, BrokenStore, "status 200"),
        (200, b'"text"', BrokenStore, "status 200"),
        (302, b"", BrokenStore, "status 302"),
        (401, b'{"error": "no"}', BadInput, "does not take your token"),
        (400, b'{"error": "limit: too large", "field": "limit"}', BadInput, "limit: too large"),
        (429, b'{"error": "this token asks too often"}', Locked, "too often"),
        (500, b'{"error": "internal error, logged"}', BrokenStore, "internal error"),
        (200, b'{"results": []}' + b" " * 2_000, None, ""),
        (200, b"{}", BrokenStore, "status 200"),
        (200, b'{"results": [{"id": 1}]}', BrokenStore, "status 200"),
        (200, b'{"results": {}, "note": ""}', BrokenStore, "status 200"),
        (200, b'{"results": [], "note": ["a"]}', BrokenStore, "status 200"),
        (200, b'{"a": "' + b"x" * 2_000 + b'"}', BrokenStore, "status 200"),  # more than is read
    ],
)
def test_whatever_a_service_answers_is_an_answer_or_a_failure_that_names_it(
    status: int,
    body: bytes,
    error: type[FilememError] | None,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "MAX_SIZE", 1_000)
    with answering(status, body, Retry_After="7", Location="http://127.0.0.1:9/stolen") as (
        url,
        tokens,
    ):
        if error is None:
            assert Service(url, "secret").ask("search", {"query": "x"}) == json.loads(body)
        else:
            with pytest.raises(error, match=told) as raised:
                Service(url, "secret").ask("search", {"query": "x"})
            assert url in raised.value.message
            assert status != 429 or "7 s" in raised.value.hint
    assert tokens == ["Bearer secret"]


def test_a_search_without_it_imports_nothing_of_it(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    done = process(repo, "search", "caching", PYTHONPROFILEIMPORTTIME="1")
    assert "filemem.memory" in done.err
    assert not [
        row
        for row in done.err.splitlines()
        if "filemem.org" in row or "psycopg" in row or "http.client" in row
    ]


RECORD: dict[str, object] = {
    "id": "decision_a_1_abcdefgh",
    "title": "Use \x1b[2JRedis",
    "path": "a.md",
}
RECORD |= {"repository": "team/api", "type": "decision", "topic": "cache", "score": 0.5}


def test_what_a_service_says_of_itself_does_not_unmark_it(tmp_path: Path) -> None:
    rows = [RECORD, {**RECORD, "note": "trust me"}, {**RECORD, "note": f"{client.MARK}; old"}]
    with answering(200, json.dumps({"results": rows}).encode()) as (url, _):
        results = Service(url, "secret").ask("search", {"query": "x"})["results"]
    assert all(result["note"].startswith(client.MARK) for result in results)
    assert results[1]["note"] == f"{client.MARK}; trust me"


def test_a_service_that_answers_drop_by_drop_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.5)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not ended.wait(0.05):
                    connection.sendall(b"X: y\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(Locked, match="does not answer"):
            Service(f"http://127.0.0.1:{server.getsockname()[1]}", "secret").ask("get", {})
        ended.set()
        thread.join()


def test_where_there_is_no_memory_the_answer_lacks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(200, json.dumps({"results": [RECORD]}).encode()) as (url, _):
        monkeypatch.setenv("FILEMEM_ORG_URL", url)
        monkeypatch.setenv("FILEMEM_ORG_TOKEN", "secret")
        answer = ok(tmp_path, "search", "--org", "redis")
    assert [row["id"] for row in answer["results"]] == [RECORD["id"]]
    assert "degraded" not in answer


def test_what_is_here_comes_beside_what_others_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "repo")
    ours = ("--topic", "caching", "--decision", "Use Redis", "--reasoning", "It was measured")
    ok(repo, "save", "decision", *ours)
    (own,) = ok(repo, "search", "redis")["results"]
    body = json.dumps({"results": [RECORD, {**RECORD, "id": own["id"]}]}).encode()
    with answering(200, body) as (url, tokens):
        monkeypatch.setenv("FILEMEM_ORG_URL", url)
        monkeypatch.setenv("FILEMEM_ORG_TOKEN", "secret")
        results = ok(repo, "search", "--org", "redis")["results"]
        assert [(row["id"], row.get("repository", "")) for row in results] == [
            (own["id"], ""),
            (RECORD["id"], "team/api"),
        ]
        text = cli(repo, "search", "--org", "redis").out
        assert "\x1b[2J" not in text
        assert text.count(client.MARK) == 1
        before = len(tokens)
        assert ok(repo, "get", str(RECORD["id"]))["results"][0]["repository"] == "team/api"
        assert len(tokens) == before + 1
        assert cli(repo, "get", "a word of mine").code == 4
        assert len(tokens) == before + 1, "only whole ids leave this machine"
        assert f"organisation: {url} answers" in cli(repo, "doctor").out
    assert f"organisation: the service {url} does not answer" in cli(repo, "doctor").out
