"""The page where people look for it: beside MCP over stdio, in `status`, and on a phone."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from filemem.cli.page import find_local_address
from filemem.errors import BadInput
from tests.support import make_repo
from tests.system.tools import cli, ok, until
from tests.web.support import Server, serving


@contextmanager
def beside(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], Server]]:
    """MCP over stdio with the page beside it."""
    command = [sys.executable, "-m", "filemem", "-C", str(folder), "serve", "--web"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**os.environ, "MAMA_SERVER_PORT": str(port)}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/viewer\?token=(\S+)", told)
        assert found, told
        yield process, Server(int(found[1]), found[2], folder, told)
        process.stdin.close()
        process.wait(20)


@pytest.mark.requirement("mama-http-beside")
def test_the_page_beside_mcp(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "repo")
    ok(folder, "save", "decision", "--topic", "b", "--decision", "Before", "--reasoning", "x")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.listen()  # so that the first server already has to go on to another one
        with ExitStack() as stack:
            (one, first), (_, second) = (
                stack.enter_context(beside(folder, port)) for _ in range(2)
            )
            assert len({port, first.port, second.port}) == 3
            pages = {
                f"http://127.0.0.1:{server.port}/viewer?token={server.token}"
                for server in (first, second)
            }
            until(lambda: {*ok(folder, "status").get("pages", ())} == pages)
            assert all(f"page: {page}" in cli(folder, "status").out for page in pages)
            assert first.get("/viewer").status == 200
            assert (
                first.post("/viewer/save", topic="a", decision="Both", reasoning="x").status == 200
            )
            assert "Both" in second.get("/viewer/data").text
            assert one.stdin is not None
            assert one.stdout is not None
            hello = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            one.stdin.write(
                json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
                + "\n"
            )
            one.stdin.flush()
            assert json.loads(one.stdout.readline())["result"]["serverInfo"]["name"] == "filemem"
            call = {"name": "search", "arguments": {"query": "both"}}
            for line in (
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/call", "params": call},
            ):
                one.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
            one.stdin.flush()
            assert "Both" in one.stdout.readline()
    assert "pages" not in ok(folder, "status")


def test_a_server_without_the_option_opens_no_port(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "repo")
    command = [sys.executable, "-m", "filemem", "-C", str(folder), "serve"]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""


@pytest.mark.requirement("mama-http-chat")
def test_a_phone_has_an_address_and_a_token_of_its_own(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "repo")
    command = ("web", "--port", "0", "--phone", "--host", "127.0.0.2")
    with serving(folder, {"FILEMEM_TOKEN": "0123456789abcdef0123"}, command, lines=4) as server:
        assert "no encryption" in server.told
        assert "█" in server.told or "▀" in server.told
        assert server.token not in ("", "0123456789abcdef0123")
        assert {server.ask("GET", path).status for path in ("/viewer", "/viewer/data")} == {401}
        cookie = server.get("/viewer", token=server.token).headers["set-cookie"].partition(";")[0]
        own = {
            "Cookie": cookie,
            "Content-Type": "application/json",
            "Origin": f"http://127.0.0.2:{server.port}",
        }
        assert server.ask("GET", "/viewer", headers=own).status == 200
        given = {"topic": "a", "decision": "From the sofa", "reasoning": "x"}
        assert server.ask("POST", "/viewer/save", given, own).status == 200
        for name in ("localhost", "127.0.0.1", "phone.example"):
            assert (
                server.ask(
                    "GET", "/viewer", headers={**own, "Host": f"{name}:{server.port}"}
                ).status
                == 421
            )
    assert cli(folder, "web", "--phone", "--token", "0123456789abcdef0123").code == 2


def test_the_address_in_the_local_network(monkeypatch: pytest.MonkeyPatch) -> None:
    class Probe:
        found = ""

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Probe:
            return self

        def __exit__(self, *_: object) -> None: ...

        def connect(self, _: object) -> None: ...

        def getsockname(self) -> tuple[str, int]:
            return self.found, 1

    monkeypatch.setattr(socket, "socket", Probe)
    for Probe.found in ("192.168.1.20", "10.0.0.7"):
        assert find_local_address() == Probe.found
    for Probe.found in ("127.0.0.1", "8.8.8.8"):
        with pytest.raises(BadInput):
            find_local_address()


def test_the_address_of_the_page_at_a_record(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "repo")
    saved = ok(folder, "save", "decision", "--topic", "b", "--decision", "B", "--reasoning", "x")
    hidden = cli(folder, "get", "--web", "b")
    assert (hidden.code, "filemem web b" in hidden.err) == (4, True)
    with serving(folder, command=("web", "b", "--port", "0")) as server:
        page = f"http://127.0.0.1:{server.port}/viewer?token={server.token}"
        record = page.replace("?", f"/read?id={saved['id']}&")
        assert server.told.rstrip().endswith(record)
        until(lambda: ok(folder, "status").get("pages") == [page])
        short = saved["id"].rpartition("_")[2]
        for words in (("web", short), ("get", "--web", "b")):
            assert cli(folder, *words).out == f"{record}\n", words
        assert cli(folder, "get", "--web", "b", short).code == 2
        assert cli(folder, "web", "nothing").code == 4
