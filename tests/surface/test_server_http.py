"""MCP over HTTP: the door guards every path, and official clients get through it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from filemem.errors import BadInput, Locked
from filemem.server.door import AccessMiddleware
from filemem.server.http import Address, is_loopback, open_server_socket
from tests.surface.server_tools import TOOLS, VERSION, NoSite

SCRIPT = str(Path(__file__).with_name("server_tools.py"))
PORT = 8765
GOOD = {"host": f"127.0.0.1:{PORT}", "content-type": "application/json"}
CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}},
    }
).encode()
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a running server."""
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "--http", "0"], stderr=subprocess.PIPE, env={**os.environ}
    )
    assert process.stderr is not None
    try:
        told = process.stderr.readline().decode()
        number = int(told.rpartition(":")[2].partition("/")[0])
        _await(number)
        yield number
    finally:
        process.terminate()
        assert process.wait(20) in (-15, 143)
        process.stderr.close()


def _await(number: int) -> None:
    for _ in range(200):
        try:
            if send(number, "GET", "/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the server did not start")


def send(
    number: int, method: str, path: str, body: bytes | None = None, /, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=20)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_over_http(port: int, mode: str) -> None:
    async def talk() -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                tool.name for tool in TOOLS
            ]
            replies = await asyncio.gather(
                *(client.call_tool("echo", {"text": str(n)}) for n in range(50))
            )
            texts: list[Any] = [reply.content[0] for reply in replies]
            said = [json.loads(text.text)["said"] for text in texts]
            assert said == [str(n) for n in range(50)]
            assert (await client.call_tool("crash", {})).is_error
            half: Any = (await client.call_tool("odd", {"kind": "half"})).content[0]
            assert json.loads(half.text) == {"said": "?"}

    asyncio.run(talk())


def test_health_answers_without_a_memory(port: int) -> None:
    status, headers, body = send(port, "GET", "/health")
    assert (status, json.loads(body)) == (
        200,
        {"status": "ok", "name": "filemem", "version": VERSION},
    )
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_a_plain_request_is_answered_as_json(port: int) -> None:
    status, headers, body = send(port, "POST", "/mcp", CALL, **ACCEPT)
    assert status == 200
    assert headers["content-type"].startswith("application/json")
    assert json.loads(json.loads(body)["result"]["content"][0]["text"])["said"] == "hi"


def test_own_callers_are_served(port: int) -> None:
    for headers in (
        {"Host": f"localhost:{port}"},
        {"Host": f"[::1]:{port}"},
        {"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
    ):
        assert send(port, "POST", "/mcp", CALL, **{**ACCEPT, **headers})[0] == 200


def test_large_bodies_are_refused_declared_or_not(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(_head(port, f"Content-Length: {5 << 20}"))
        assert raw.recv(1000).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(_head(port, "Transfer-Encoding: chunked"))
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(80):
                raw.sendall(chunk)
        except OSError:
            pass  # refused before all was sent
        assert raw.recv(1000).startswith(b"HTTP/1.1 413")
    assert send(port, "GET", "/health")[0] == 200


def test_a_huge_header_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(_head(port, "X-Long: " + "x" * 100_000))
        assert raw.recv(1000).startswith(b"HTTP/1.1 4")


def _head(port: int, *headers: str) -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode()


def through(
    door: AccessMiddleware,
    headers: dict[str, str] | list[tuple[str, str]],
    path: str = "/mcp",
    arrives: bool = True,
) -> int:
    """The status that a door answers to a request, 200 if it lets it in."""
    given = headers.items() if isinstance(headers, dict) else headers
    sent: list[Any] = []

    async def receive() -> Any:
        if not arrives:
            await asyncio.sleep(10)
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given],
    }
    asyncio.run(door(scope, receive, send))
    return int(sent[0]["status"])


async def inside(scope: Any, receive: Any, send: Any) -> None:
    """An application that says that it was reached."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def door(address: Address = Address(port=PORT)) -> AccessMiddleware:  # noqa: B008  frozen
    hosts = address.build_hosts(address.port)
    return AccessMiddleware(
        inside, hosts, frozenset(f"http://{host}" for host in hosts), address.token, NoSite()
    )


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filemem.server.door.BODY_SECONDS", 0.05)
    assert through(door(), GOOD, arrives=False) == 408


def test_without_a_host_nothing_is_served() -> None:
    assert through(door(), {"content-type": "application/json"}) == 421


def test_a_token_is_required_where_one_is_set() -> None:
    guarded = door(
        Address("192.0.2.1", PORT, is_remote_allowed=True, token="s3cret", extra_names=("Box.lan",))
    )
    told = {
        "Bearer s3cret": 200,
        "bearer s3cret": 200,
        "Bearer wrong": 401,
        "s3cret": 401,
        "Bearer é": 401,
        "": 401,
    }
    for host, (authorization, status) in product(
        (f"192.0.2.1:{PORT}", f"box.lan:{PORT}"), told.items()
    ):
        given = {**GOOD, "host": host, "authorization": authorization}
        assert through(guarded, given) == status, authorization
        assert through(guarded, given, "/nothing") == (404 if status == 200 else status)


def test_off_loopback_needs_permission_and_a_token() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", "", "localhost.evil.example"):
        assert not is_loopback(host)
        for address in (
            Address(host, 0),
            Address(host, 0, is_remote_allowed=True),
            Address(host, 0, token="t"),
        ):
            with pytest.raises(BadInput, match="can be reached from other machines") as caught:
                open_server_socket(address)
            assert (caught.value.field, "FILEMEM_TOKEN" in caught.value.hint) == ("host", True)


def test_a_token_that_guards_little_is_refused() -> None:
    for token in ("short", "with spaces in it, long", "né" * 20):
        with pytest.raises(BadInput, match="token") as caught:
            open_server_socket(Address("0.0.0.0", 0, is_remote_allowed=True, token=token))
        assert caught.value.field == "token"


def test_a_port_in_use_is_said_plainly() -> None:
    with open_server_socket(Address(port=0)) as first:
        number = first.getsockname()[1]
        with pytest.raises(Locked, match=f"port {number} .* in use"):
            open_server_socket(Address(port=number))


def test_an_address_that_cannot_be_used_is_bad_input() -> None:
    for number in (70_000, -1):
        with pytest.raises(BadInput, match="is not a port"):
            open_server_socket(Address("127.0.0.1", number))
