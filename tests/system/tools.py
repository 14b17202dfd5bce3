"""What the tests of the whole share: the command line, servers with official clients, and waiting with a deadline."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from filemem.cli import main
from filemem.memory import Memory
from filemem.server.calls import ANSWER_KEY
from filemem.watch import Watcher
from tests.web.support import serving

FILEMEM = str(Path(sys.executable).with_name("filemem"))
SEED = 20251120
Answer = dict[str, Any]
T = TypeVar("T")


def until(found: Callable[[], T], seconds: float = 30, pause: float = 0.05) -> T:
    """Ask again and again until the answer is true; fail with the last answer when the time is over."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {answer!r}"
        time.sleep(pause)
    return answer


def snapshot(folder: Path, *, skip: tuple[str, ...] = (".git",)) -> dict[str, str]:
    """Every file below a folder with the hash of its bytes, so that two looks can be compared."""
    found = {}
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skip]
        for name in names:
            path = Path(at, name)
            regular = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = (
                hashlib.sha256(path.read_bytes()).hexdigest() if regular else "odd"
            )
    return found


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def cli(folder: Path, *arguments: str) -> Done:
    """Run a command in this process: all of the command line but the start of an interpreter."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["filemem", "-C", str(folder), *arguments]
    with (
        patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Done(code, out.getvalue(), err.getvalue())


def ok(folder: Path, *arguments: str) -> Any:
    """Run a command that must succeed, with --json, and return its answer."""
    done = cli(folder, *arguments, "--json")
    assert done.code == 0, done
    return done.json


def process(folder: Path, *arguments: str, **environment: str) -> Done:
    """Run a command as its own process in a folder."""
    done = subprocess.run(
        [FILEMEM, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class Talk:
    """An official MCP client, spoken to from ordinary functions."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self._client = portal, client

    def call(self, name: str, /, **arguments: Any) -> Answer:
        """Call a tool that must succeed."""
        failed, answer = self.ask(name, arguments)
        assert not failed, answer
        return answer

    def refused(self, name: str, /, **arguments: Any) -> Answer:
        """Call a tool that must refuse; returns the error."""
        failed, answer = self.ask(name, arguments)
        assert failed, answer
        assert answer["success"] is False
        error: Answer = answer["error"]
        return error

    def ask(self, name: str, arguments: Mapping[str, Any]) -> tuple[bool, Answer]:
        """Call a tool; whether it failed, and the answer. The text must name each record of its object."""
        result = self._portal.call(self._client.call_tool, name, dict(arguments))
        text: str = result.content[0].text
        if result.is_error:
            return True, json.loads(text)
        answer: Answer = result.meta[ANSWER_KEY]
        assert result.structured_content is None, "some clients show it instead of the text"
        assert all(one["id"] in text and one["title"] in text for one in answer.get("results", ()))
        return False, answer

    def tools(self) -> Any:
        return self._portal.call(self._client.list_tools).tools


@contextmanager
def talking(
    where: Path | str, mode: str = "auto", *, named: bool = True, token: str = ""
) -> Iterator[Talk]:
    """Serve a folder over stdio, or reach a URL, and talk to it by the official client.

    Args:
        where: the folder to serve, or the address of a server.
        mode: legacy for the handshake of 2025, auto for what the client prefers.
        named: whether -C names the folder, or the server is only started there.
        token: what requests to a URL carry.
    """
    failure: BaseException | None = None
    with start_blocking_portal() as portal, contextlib.ExitStack() as stack:
        server: Any = where
        if isinstance(where, Path):
            stderr = stack.enter_context((where.parent / f"{where.name}.stderr").open("w"))
            words = ["-m", "filemem", *(["-C", str(where)] if named else []), "serve"]
            parameters = StdioServerParameters(
                command=sys.executable, args=words, env=dict(os.environ), cwd=where
            )
            server = stdio_client(parameters, errlog=stderr)
        if token:
            known = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
            http_client = stack.enter_context(portal.wrap_async_context_manager(known))
            server = streamable_http_client(str(where), http_client=http_client)
        client = stack.enter_context(portal.wrap_async_context_manager(Client(server, mode=mode)))
        try:
            yield Talk(portal, client)
        except BaseException as error:  # noqa: BLE001  raised again below: the client's task group would wrap it
            failure = error
    if failure is not None:
        raise failure


@contextmanager
def serving_http(folder: Path, *options: str) -> Iterator[str]:
    """Serve a folder over HTTP; the address of its MCP endpoint, with the token."""
    with serving(folder, command=("web", "--port", "0", *options)) as server:
        yield f"http://127.0.0.1:{server.port}/mcp?token={server.token}"


def raw_tools_list(folder: Path) -> bytes:
    """The bytes that a server on stdio answers to tools/list."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    ]
    done = subprocess.run(
        [FILEMEM, "-C", str(folder), "serve"],
        input=b"".join(json.dumps(line).encode() + b"\n" for line in lines),
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()[1]


@contextmanager
def following(memory: Memory) -> Iterator[Watcher]:
    """A watcher of a memory, for a while."""
    watcher = Watcher(memory)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop()
