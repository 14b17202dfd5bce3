"""A server that works for days, and a swarm of servers: what they hold stays bounded, and nobody is turned away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.support import environment, git, make_repo, sound

CALLS, BLOCK = 10_000, 500
SWARM = 30
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc")


class Raw:
    """A server over stdio, asked line by line: a client library would hide what it costs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self._number = process, 0
        self.ask("initialize", HELLO)
        self._send({"method": "notifications/initialized"})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.begin(method, params)
        return self.answer()

    def begin(self, method: str, params: dict[str, Any]) -> None:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})

    def answer(self) -> Any:
        assert self.process.stdout is not None
        message = json.loads(self.process.stdout.readline())
        assert message["id"] == self._number
        return message["result"]

    def call(self, tool: str, **arguments: Any) -> None:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def files(self) -> int:
        """Open files."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        """Megabytes that are the server's own."""
        rows = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(row for row in rows if row.startswith("RssAnon")).split()[1]) // 1024

    def processor(self) -> int:
        """Ticks of the processor, its own and its children's."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))


@contextmanager
def serving(folder: Path) -> Iterator[Raw]:
    """A server of a folder, until the end of its input."""
    command = [sys.executable, "-m", "filemem", "-C", str(folder), "serve"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        yield Raw(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def step(server: Raw, number: int) -> None:
    """One of the calls of a working day."""
    if number % 50 == 0:
        server.call("save", type="observation", text=f"soak {number} okapi")
    elif number % 7 == 0:
        server.call("timeline", query="soak")
    elif number % 5 == 0:
        server.call("load_checkpoint")
    else:
        server.call("search", query=f"soak {number % 100} okapi")


@LINUX
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_server_holds_no_more_after_ten_thousand_calls(tmp_path: Path) -> None:
    files: list[int] = []
    memory: list[int] = []
    ticks: list[int] = []
    with serving(make_repo(tmp_path / "repo")) as server:
        for block in range(CALLS // BLOCK):
            before = server.processor()
            for number in range(BLOCK):
                step(server, block * BLOCK + number)
            files.append(server.files())
            memory.append(server.memory())
            ticks.append(server.processor() - before)
    quarter = len(files) // 4
    assert max(files) < 48, files
    assert median(files[-quarter:]) <= median(files[:quarter]) + 6, files
    assert median(memory[-quarter:]) <= median(memory[:quarter]) + 24, memory
    assert median(ticks[-quarter:]) <= 2 * median(ticks[:quarter]), ticks


@pytest.mark.long
@pytest.mark.timeout(900)
def test_thirty_servers_that_save_at_one_moment_are_all_served(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(repo)) for _ in range(SWARM)]
        for number, server in enumerate(servers):
            fields = {"type": "observation", "text": f"server {number} okapi"}
            server.begin("tools/call", {"name": "save", "arguments": fields})
        answers = [server.answer() for server in servers]
    assert [answer for answer in answers if answer.get("isError")] == []
    names = git(repo, "ls-tree", "-r", "--name-only", "HEAD", "memory/observations").splitlines()
    assert len(names) == SWARM
    assert sound(repo)
