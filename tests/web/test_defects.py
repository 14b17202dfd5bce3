"""What happens when a part of filemem fails: the caller learns that it did, and nothing of how."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from filemem.errors import BrokenStore, Conflict, FilememError, Locked
from filemem.web.site import Site

Crash = tuple[str, str]


def ask_site(
    site: Site, method: str, path: str, error: BaseException
) -> tuple[int, Any, list[Crash]]:
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
        route = next(one for one in site.build_routes(failing, told) if one.path == path)
        asked = b"id=a" if path == "/graph/similar" else b"q=a"
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [],
            "query_string": asked,
        }
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


def test_what_the_system_refuses_is_no_defect() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/store/x")
    for path in ("/api/mama/search", "/api/search"):
        status, body, crashes = ask_site(Site(), "GET", path, full)
        assert (status, crashes) == (500, [])
        assert "/store/x: No space left on device" in str(body)
        assert "defect" not in str(body)


def test_a_defect_is_reported_and_not_told() -> None:
    site = Site()
    for path in ("/api/mama/search", "/graph/similar", "/api/search", "/viewer/data"):
        status, body, crashes = ask_site(site, "GET", path, ZeroDivisionError("secret detail"))
        assert status == 500
        assert "secret" not in str(body)
        assert [one[1] for one in crashes] == ["secret detail"]
    assert site.log[0].endswith("defect in GET /api/mama/search: ZeroDivisionError")
    assert "secret" not in str(site.log)
