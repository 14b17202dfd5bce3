"""The stdio server as a process: what clients, broken clients and signals see."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

SCRIPT = str(Path(__file__).with_name("server_tools.py"))
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
FOUR_MIB = 4 * 1024 * 1024


class Process:
    """A server process, spoken to in raw lines: in the `newer` protocol, or after a handshake."""

    def __init__(self, *arguments: str, newer: bool = False, **environment: str) -> None:
        self.newer = newer
        heard = partial(
            signal.signal, signal.SIGHUP, signal.SIG_DFL
        )  # whoever runs the tests may ignore it
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, *arguments],
            preexec_fn=heard,  # noqa: PLW1509 - no threads
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.held = b""

    def send(self, *messages: object) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.raw(line + b"\n")

    def raw(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.stdin.fileno(), view) :]

    def ask(self, method: str, id_: int | str = 1, **params: Any) -> None:
        if self.newer:
            params = {**params, "_meta": ENVELOPE}
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})

    def call(self, name: str, id_: int | str = 1, **arguments: Any) -> None:
        self.ask("tools/call", id_, name=name, arguments=arguments)

    def reply(self, seconds: float = 30) -> Any:
        """The next line, which must be a JSON-RPC message; None at the end."""
        until = time.monotonic() + seconds
        while b"\n" not in self.held:
            assert select.select([self.stdout], [], [], max(0, until - time.monotonic()))[0], (
                "no reply in time"
            )
            data = os.read(self.stdout.fileno(), 1 << 20)
            if not data:
                assert self.held == b""
                return None
            self.held += data
        line, _, self.held = self.held.partition(b"\n")
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def greet(self) -> None:
        self.ask("initialize", 0, **INITIALIZE)
        assert self.reply()["id"] == 0
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def load(self) -> None:
        """Begin, and have a call answered, by the SDK in the newer protocol."""
        if not self.newer:
            self.greet()
        self.call("echo", "first", text="x")
        assert self.reply()["id"] == "first"

    def end(self, seconds: float = 10) -> int:
        """Close the input and wait."""
        self.stdin.close()
        return self.wait(seconds)

    def wait(self, seconds: float = 10) -> int:
        return self.process.wait(2 * seconds)


@contextmanager
def served(*arguments: str, newer: bool = False, **environment: str) -> Iterator[Process]:
    server = Process(*arguments, newer=newer, **environment)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="module", params=[False, True], ids=["handshake", "newer"])
def loaded(request: pytest.FixtureRequest) -> Iterator[Process]:
    """A server of each era that has answered; it must still end well after all that the tests did to it."""
    with served(newer=request.param) as server:
        server.load()
        yield server
        assert server.end() == 0


def peak_kb(server: Process) -> int:
    """The most memory that the server had resident so far, in KiB."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert match is not None
    return int(match[1])


def payload(reply: Any) -> Any:
    return json.loads(reply["result"]["content"][0]["text"])


def test_the_handshake_loads_nothing_heavy() -> None:
    with served(FORBIDDEN="1") as server:
        server.greet()
        server.ask("ping", 2)
        assert server.reply() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        code = server.end()
        assert server.process.stderr is not None
        assert (code, server.process.stderr.read()) == (0, b"")


def test_calls_pings_and_cancellation_load_no_sdk() -> None:
    with served(FORBIDDEN="jsonschema_rs") as server:
        server.load()
        server.ask("tools/list", 1)
        assert server.reply()["id"] == 1
        server.call("slow", 2, seconds=0.5)
        server.call("echo", 3, text="never")
        for id_ in (2, "3"):
            server.send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": id_},
                }
            )
        server.ask("ping", 4)
        server.call("echo", 5, text="after")
        assert [server.reply()["id"] for _ in range(2)] == [4, 5], "what is cancelled is unanswered"
        for method in ("tools/call", "no/such", "logging/setLevel", "initialize"):
            server.ask(method, 6)
            assert server.reply()["error"]["code"] in (-32601, -32602)
        assert server.end() == 0


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "hi ✓ 記憶"}}),
    ("tools/list", {}),
    ("tools/call", {"name": "echo"}),
    ("tools/call", {}),
    ("tools/call", {"name": "fail"}),
    ("tools/call", {"name": "crash"}),
    ("tools/list", {"cursor": "x"}),
    ("resources/list", {}),
    ("no/such", {}),
    ("initialize", {}),
]


def test_the_whole_conversation_is_that_of_the_sdk_alone() -> None:
    """Byte for byte as JSON, hand-over included, and one reply per request."""

    def talk(server: Process) -> list[Any]:
        replies = []
        server.ask("initialize", 0, **INITIALIZE)
        replies.append(server.reply())
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for step, (method, params) in enumerate(STEPS):
            server.ask(method, step, **params)
            replies.append(server.reply())
        assert server.end() == 0
        assert server.reply() is None
        return replies

    with served() as ours, served("--plain") as plain:
        assert talk(ours) == talk(plain)


def test_the_answer_is_one_compact_text_and_nothing_besides(loaded: Process) -> None:
    loaded.call("echo", 1, text="é")
    result = loaded.reply()["result"]
    assert result["content"] == [
        {"type": "text", "text": '{"success":true,"said":"é","none":null,"times":1}'}
    ]
    assert "structuredContent" not in result
    loaded.call("fail", 3)
    result = loaded.reply()["result"]
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"])["error"]["heads"] == ["a", "b"]


def test_odd_payloads_neither_break_the_wire_nor_the_server(loaded: Process) -> None:
    loaded.call("odd", 1, kind="text")
    assert loaded.reply()["result"]["content"][0]["text"] == "plain | text ?"
    loaded.call("odd", 2, kind="half")
    assert payload(loaded.reply()) == {"said": "?"}
    for id_, name, arguments in ((3, "odd", {"kind": "nan"}), (4, "crash", {})):
        loaded.call(name, id_, **arguments)
        reply = loaded.reply()
        assert reply["result"]["isError"] is True
        assert payload(reply)["error"]["kind"] == "internal"
        assert "secret" not in json.dumps(reply)
    assert loaded.process.stderr is not None
    assert b"secret detail" in os.read(loaded.process.stderr.fileno(), 1 << 20)


def test_what_the_system_refuses_is_told_with_what_to_do_and_what_stands(loaded: Process) -> None:
    loaded.call("full", 1)
    reply = loaded.reply()
    assert reply["result"]["isError"] is True
    assert payload(reply)["error"] == {
        "kind": "broken_store",
        "message": "/store/x: No space left on device",
        "hint": "free some space; `filemem status` and `git log -1` show what stands",
    }


def test_a_store_that_cannot_be_opened_is_the_answer_to_every_call() -> None:
    with served(BROKEN="1") as server:
        server.greet()
        server.ask("tools/list", 1)
        assert server.reply()["result"]["tools"]
        for id_ in (2, 3):
            server.call("echo", id_, text="x")
            reply = server.reply()
            assert reply["result"]["isError"] is True
            assert payload(reply)["error"] == {
                "kind": "broken_store",
                "message": "no repository here",
                "hint": "run git init",
            }
        assert server.end() == 0


GARBAGE = [
    b"\x00\xff\xfe binary \x80",
    b"[]",
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
    b"x" * (FOUR_MIB + 1),
]


def test_garbage_is_refused_by_the_front() -> None:
    with served() as server:
        server.greet()
        refuse_garbage(server)
        assert server.end() == 0


def test_garbage_between_calls_is_refused(loaded: Process) -> None:
    for line in GARBAGE:
        loaded.send(line)
        assert loaded.reply()["error"]["code"] in (-32700, -32600, -32602)
        loaded.call("echo", "after", text="x")
        assert loaded.reply()["id"] == "after"


def refuse_garbage(server: Process) -> None:
    """Send each piece of garbage; see it refused, and the next request answered."""
    for step, line in enumerate(GARBAGE):
        server.send(b"", b'{"jsonrpc":"2.0","id":77,"result":{}}', line)
        error = server.reply()["error"]
        assert error["code"] in (-32700, -32600, -32602)
        assert len(error["message"]) < 200
        server.ask("ping", step)
        assert server.reply() == {"jsonrpc": "2.0", "id": step, "result": {}}


def test_an_endless_line_is_not_kept() -> None:
    with served() as server:
        server.greet()
        for _ in range(64):
            server.raw(b"x" * (1 << 20))
        assert peak_kb(server) < 60_000
        server.raw(b"\n")
        assert server.reply()["error"]["code"] == -32600
        server.ask("ping", 1)
        assert server.reply()["id"] == 1


def test_a_line_of_almost_four_mib_is_served(loaded: Process) -> None:
    loaded.call("echo", 1, text="x" * (FOUR_MIB - 1000))
    assert len(payload(loaded.reply())["said"]) == FOUR_MIB - 1000


def test_an_input_that_ends_early_ends_the_server() -> None:
    with served() as server:
        server.raw(b'{"jsonrpc":"2.0","id":1,')
        assert server.end() == 0


@pytest.mark.parametrize("newer", [False, True])
def test_calls_still_running_at_the_end_of_input_are_answered(tmp_path: Path, newer: bool) -> None:
    with served(newer=newer, CLOSED_FILE=str(tmp_path / "closed")) as server:
        server.load()
        server.call("slow", 1, seconds=1.5)
        server.stdin.close()
        assert payload(server.reply()) == {"success": True}
        assert server.wait() == 0
        assert (tmp_path / "closed").exists()


@pytest.mark.parametrize("newer", [False, True])
def test_a_call_that_does_not_end_holds_up_no_end(newer: bool) -> None:
    with served(newer=newer, ENDING="1") as server:
        server.load()
        server.call("slow", 1, seconds=30)
        assert server.end() == 0


@pytest.mark.parametrize(
    ("number", "code", "state"),
    [
        (signal.SIGTERM, 143, "busy"),
        (signal.SIGHUP, 129, "idle"),
        (signal.SIGINT, 130, "front"),
        (signal.SIGTERM, 143, "newer"),
    ],
)
def test_signals_end_the_server(
    number: signal.Signals, code: int, state: str, tmp_path: Path
) -> None:
    with served(newer=state == "newer", CLOSED_FILE=str(tmp_path / "closed")) as server:
        server.greet() if state == "front" else server.load()
        if state == "busy":
            server.call("slow", 1, seconds=30)
            time.sleep(0.1)
        server.process.send_signal(number)
        assert server.wait() == code
        assert (tmp_path / "closed").exists() == (state in ("idle", "newer"))


@pytest.mark.parametrize("newer", [False, True])
def test_a_signal_lets_the_call_under_way_be_answered_and_begins_no_other(
    tmp_path: Path, newer: bool
) -> None:
    begun = tmp_path / "begun"
    with served(newer=newer, BEGUN_FILE=str(begun)) as server:
        server.load()
        server.call("slow", 1, seconds=0.5)
        for id_ in (2, 3):
            server.call("echo", id_, text="waits")
        server.ask("ping", "ping")
        assert server.reply()["id"] == "ping"
        while not begun.exists():
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        first, *others = (server.reply() for _ in range(3))
        assert (first["id"], payload(first)) == (1, {"success": True})
        assert [other["id"] for other in others] == [2, 3]
        for other in others:
            assert other["result"]["isError"]
            assert (
                "is stopping, so this call was not started" in other["result"]["content"][0]["text"]
            )
        assert server.wait() == 143
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b"a stray print\n"  # of the tools of these tests


def test_a_slow_call_holds_up_no_ping(loaded: Process) -> None:
    loaded.call("slow", "slow", seconds=0.8)
    loaded.ask("ping", "ping")
    assert loaded.reply()["id"] == "ping"
    assert loaded.reply()["id"] == "slow"


def test_a_cancelled_call_that_waits_never_runs(loaded: Process) -> None:
    loaded.call("slow", 1, seconds=0.3)
    loaded.call("slow", 2, seconds=30)
    loaded.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    loaded.call("echo", 3, text="after")
    assert [loaded.reply(5)["id"] for _ in range(2)] == [1, 3]


@pytest.mark.parametrize("newer", [False, True])
def test_a_client_that_reads_no_more_ends_the_server(newer: bool) -> None:
    with served(newer=newer) as server:
        server.load()
        server.stdout.close()
        server.call("echo", 1, text="x" * 100_000)
        assert server.wait() == 0
