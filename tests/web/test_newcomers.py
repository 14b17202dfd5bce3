"""What a newcomer meets: no repository, the first page, a wrong token, half of the arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.tools import cli
from tests.web.support import Server


def test_without_a_repository_it_says_so_at_once_and_does_not_start(tmp_path: Path) -> None:
    done = cli(tmp_path, "web", "--port", "0")
    assert (done.code, "filemem init" in done.err) == (4, True), done


def test_the_front_door_takes_the_token_too(server: Server) -> None:
    assert server.get("/", token=server.token).headers["location"] == "/"
    assert server.get("/").headers["location"] == "/viewer"


def test_a_wrong_token_is_called_wrong(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    told = server.ask("POST", "/api/save", {}, headers).text
    assert "required" in told
    assert "FILEMEM_TOKEN" in told
    wrong = server.ask("POST", "/api/save", {}, {**headers, "Authorization": "Bearer nonsense"})
    assert (wrong.status, "not the one" in wrong.text) == (401, True)
    assert "not the one" in server.ask("POST", "/api/save?token=nonsense", {}, headers).text


def test_only_what_is_missing_is_called_missing(server: Server) -> None:
    reply = server.post("/api/save", topic="t1").body
    assert reply["message"] == "Missing required fields: decision, reasoning"
    assert "POST /api/save again" in reply["hint"]


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    """The server, with a chain, a checkpoint and an observation."""
    for decision in ("Use Redis", "Use an LRU cache"):
        server.post("/api/mama/save", topic="caching", decision=decision, reasoning="Speed")
    server.post("/api/checkpoint/save", summary="Half done", next_steps="The other half")
    return server


def test_a_search_of_the_page_says_that_nothing_is_close(filled: Server) -> None:
    note = filled.get("/viewer/search", q="zzzzqqq").body["note"]
    assert "nothing is close" in note or "no record" in note
