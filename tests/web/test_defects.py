"""What happens when a part of filemem fails: the caller learns that it did, and nothing of how."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from filemem.errors import BrokenStore, Conflict, FilememError, Locked
from filemem.server.door import Door
from filemem.web.site import Site

Crash = tuple[str, str]


def ask_site(site: Site, method: str, path: str, error: BaseException) -> tuple[int, Any, list[Crash]]:
    """Ask a route of a site whose memory always fails; status, body, and what was reported."""
    crashes: list[Crash] = []

    def failing(_: Callable[[Any], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(error)
        return future

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    def told(where: str, failure: BaseException) -> None:
        crashes.append((where, str(failure)))

    async def run() -> None:
        route = next(one for one in site.routes(failing, told) if one.path == path)
        scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"q=a&id=a"}
        await route.handle(scope, receive, send)

    asyncio.run(run())
    return sent[0]["status"], json.loads(sent[1]["body"]), crashes


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Conflict("two heads"), 409, "CONFLICT"),
        (Locked("busy"), 503, "LOCKED"),
        (BrokenStore("no disk"), 500, "SEARCH_FAILED"),
        (FilememError("odd"), 500, "SEARCH_FAILED"),
    ],
)
def test_failures_have_their_statuses(error: FilememError, status: int, code: str) -> None:
    got, body, crashes = ask_site(Site(), "GET", "/api/mama/search", error)
    assert (got, body) == (status, {"error": True, "code": code, "message": error.message})
    assert not crashes


def test_a_defect_is_reported_and_not_told() -> None:
    site = Site()
    for path in ("/api/mama/search", "/graph/similar", "/api/search", "/viewer/data"):
        status, body, crashes = ask_site(site, "GET", path, ZeroDivisionError("secret detail"))
        assert status == 500
        assert "secret" not in str(body)
        assert [one[1] for one in crashes] == ["secret detail"]
    assert site.log[0].endswith("defect in GET /api/mama/search: ZeroDivisionError")
    assert "secret" not in str(site.log)


def test_without_a_token_nothing_can_be_written() -> None:
    reached: list[Any] = []

    async def inside(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append(scope["path"])

    async def ask(path: str, **more: Any) -> int:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1:1"), (b"content-type", b"application/json"), (b"authorization", b"Bearer ")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, **more}
        await Door(inside, frozenset({"127.0.0.1:1"}), frozenset(), "", Site())(scope, receive, send)
        return int(sent[0]["status"]) if sent else 200

    assert asyncio.run(ask("/api/save")) == 401
    assert asyncio.run(ask("/api/save", query_string=b"token=")) == 401
    assert asyncio.run(ask("/mcp")) == 200
    assert reached == ["/mcp"]
