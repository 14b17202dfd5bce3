"""What the wire answers is what the SDK answers, to the byte: every conversation of every dialect, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from filemem import server
from filemem.dialects.call import Reply, call
from filemem.dialects.tool import DIALECTS, Dialect, load_profile
from filemem.errors import BadInput, NotFound
from filemem.memory import Memory
from filemem.server import calls, sdk
from filemem.server.front import RequestHandler
from filemem.server.wire import Message, Wire, dump
from tests.dialects.support import Values, conversations, differs, filled
from tests.support import make_repo
from tests.surface.server_tools import OFFER, Notebook

HELLO: Message = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PARAMS: list[dict[str, Any]] = [
    {"name": "echo", "arguments": {"text": 'é \u2028 \U0001f600 \x07 \\ "', "times": 3}},
    {"name": "echo", "arguments": {"text": "\ud800"}},
    {"name": "echo", "arguments": {"text": 5}},
    {"name": "echo", "arguments": {"text": "a", "tines": 1}},
    {"name": "echo", "arguments": {"text": "a", "times": None}, "_meta": {"progressToken": 7}},
    {"name": "echo", "arguments": {"text": "a"}, "_meta": {"x/y": [1], "progressToken": "a"}},
    {"name": "echo", "arguments": None, "_meta": None},
    {"name": "echo", "arguments": {"text": "a"}, "_meta": 5},
    {"name": "echo", "arguments": {"text": "a"}, "_meta": {"progressToken": True}},
    {"name": "echo", "arguments": {"text": "a"}, "_meta": {"progressToken": 1.5}},
    {"name": "echo", "arguments": {"text": "a"}, "else": 1, "requestState": "x"},
    {"name": "echo", "arguments": {"text": "a"}, "task": {"ttl": 60000}},
    {"name": "echo", "arguments": []},
    {"name": "echo", "arguments": "text"},
    {"name": 5},
    {},
    {"name": "echo"},
    {"name": "no_such_tool", "arguments": {}},
    {"name": "fail"},
    {"name": "crash"},
    {"name": "full"},
    {"name": "odd", "arguments": {"kind": "text"}},
    {"name": "odd", "arguments": {"kind": "half"}},
    {"name": "odd", "arguments": {"kind": "nan"}},
]


PROMPTS: list[dict[str, Any]] = [
    {"name": "resume"},
    {"name": "resume", "arguments": None, "_meta": {"progressToken": 1}},
    {"name": "resume", "arguments": {"branch": " ", "else": "x"}},
    {"name": "record-decision", "arguments": {"topic": "{decision} é \u2028", "decision": "Drop"}},
    {"name": "record-decision", "arguments": {"topic": ""}},
    {"name": "record-decision"},
    {"name": "no such " * 20},
    {"name": "resume", "arguments": {"branch": 5}},
    {"name": "resume", "arguments": {"branch": None}},
    {"name": "resume", "arguments": ["branch"]},
    {"name": "resume", "cursor": "x"},
    {"arguments": {}},
]
_PROMPT = {"type": "ref/prompt", "name": "record-decision"}
_TOPIC = {"name": "topic", "value": "c"}
COMPLETIONS: list[dict[str, Any]] = [
    {"ref": _PROMPT, "argument": _TOPIC},
    {"ref": _PROMPT, "argument": {"name": "decision", "value": ""}, "_meta": {}},
    {"ref": {"type": "ref/resource", "uri": "filemem://topic/{topic}"}, "argument": _TOPIC},
    {"ref": {"type": "ref/prompt"}, "argument": _TOPIC},
    {"ref": {"type": "ref/tool", "name": "x"}, "argument": _TOPIC},
    {"ref": _PROMPT, "argument": {"name": "topic"}},
    {"ref": _PROMPT, "argument": {"name": "topic", "value": 5}},
    {"ref": _PROMPT},
    {"argument": _TOPIC},
    {},
]
ADDRESSES = [
    "filemem://checkpoint/latest",
    "filemem://topic/a%20b%2F\u2028",
    "filemem://topic/",
    "filemem://decision/missing",
    "filemem://decision/wrong",
    "filemem://decision/crash",
    "filemem://decision/full",
    "x" * 300,
    "",
]


def requests(params: list[dict[str, Any]], method: str = "tools/call") -> list[Message]:
    """The calls as messages, after the handshake."""
    asked: list[Message] = [
        {"jsonrpc": "2.0", "id": at or "first", "method": method, "params": one}
        for at, one in enumerate(params)
    ]
    return [HELLO, INITIALIZED, *asked]


def by_the_wire(offer: Dialect, memory: Any, messages: list[Message], file: Path) -> list[bytes]:
    """The lines that the wire answers."""
    target = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    wire = Wire(-1, target)
    connection = server._Connection(wire, RequestHandler(offer, "1"), lambda: memory)
    assert connection.answer_messages(iter(messages)) is None, "handed over"
    connection.open_session().wait_for_calls()
    connection.open_session().calls._executor.shutdown()
    os.close(target)
    return file.read_bytes().splitlines()


def by_the_sdk(offer: Dialect, memory: Any, messages: list[Message]) -> list[bytes]:
    """The lines that the SDK answers."""

    async def talk() -> list[bytes]:
        under = calls.CallQueue(offer, lambda: memory)
        served = sdk.FilememServer(offer, under, "1")
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, out = anyio.create_memory_object_stream[SessionMessage](0)
        lines = []
        options = served.create_initialization_options()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.run, incoming, outgoing, options)
            async with into, out:
                for message in messages:
                    kind = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
                    await into.send(SessionMessage(kind.model_validate(message)))
                    if "id" in message:
                        reply = (await out.receive()).message
                        shown = reply.model_dump(by_alias=True, exclude_unset=True)
                        lines.append(dump(shown).encode())
        return lines

    return asyncio.run(talk())


def alike(wire: list[bytes], judge: list[bytes]) -> None:
    """The same handshake, and the same bytes for each request; no call waits for what is refused."""
    assert json.loads(wire[0]) == json.loads(judge[0])
    assert by_id(wire[1:]) == by_id(judge[1:])


def by_id(lines: list[bytes]) -> dict[Any, bytes]:
    """The lines by the id that they answer."""
    return {json.loads(line)["id"]: line for line in lines}


def test_what_goes_wrong_is_answered_alike(tmp_path: Path) -> None:
    messages = requests(PARAMS)
    wire = by_the_wire(OFFER, Notebook(), messages, tmp_path / "out")
    alike(wire, by_the_sdk(OFFER, Notebook(), messages))
    assert len(wire) == len(PARAMS) + 1


@pytest.mark.parametrize("name", DIALECTS)
def test_prompts_are_answered_alike(name: str, tmp_path: Path) -> None:
    messages = requests(PROMPTS, "prompts/get")
    wire = by_the_wire(load_profile(name), Notebook(), messages, tmp_path / "out")
    alike(wire, by_the_sdk(load_profile(name), Notebook(), messages))
    assert len(wire) == len(PROMPTS) + 1


@pytest.mark.parametrize("name", DIALECTS)
def test_resources_are_answered_alike(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perform(_offer: object, _memory: object, tool: str, given: Mapping[str, object]) -> Any:
        wrong: Mapping[object, Exception] = {
            "missing": NotFound("no record", "search for it"),
            "wrong": BadInput("a wrong id"),
            "crash": RuntimeError("secret"),
            "full": OSError(28, "No space left on device", "/store/x"),
        }
        if error := wrong.get(given.get("id")):
            raise error
        return {"tool": tool, "given": dict(given), "said": "é \u2028"}

    monkeypatch.setattr(calls, "perform", perform)
    addresses = [*ADDRESSES, *(entry.uri for entry in load_profile(name).resources)]
    params: list[dict[str, Any]] = [{"uri": address} for address in addresses]
    params += [{"uri": "filemem://x", "_meta": {}, "else": 1}]
    if load_profile(
        name
    ).resources:  # else the SDK finds fault with them before it says that none are read
        params += [{"uri": 5}, {"name": "x"}, {}]
    messages = requests(params, "resources/read")
    wire = by_the_wire(load_profile(name), Notebook(), messages, tmp_path / "out")
    alike(wire, by_the_sdk(load_profile(name), Notebook(), messages))
    assert len(wire) == len(params) + 1


def really(offer: Dialect, memory: Memory, steps: Iterator[Mapping[str, Any]]) -> Iterator[Any]:
    """Call each step of a conversation; its parameters, and the answer."""
    kept: Values = {}
    for step in steps:
        arguments = filled(step.get("with", {}), kept)
        reply = call(offer, memory, step["call"], arguments)
        differs(step.get("gives", {}), reply.payload, kept)
        yield {"name": step["call"], "arguments": arguments}, reply


@pytest.mark.parametrize("name", sorted({one.profile for one in conversations()}))
def test_every_conversation_is_answered_alike(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tool is called once; both ways then hand on the same answers."""
    offer = load_profile(name)
    steps = (step for one in conversations() if one.profile == name for step in one.steps)
    with Memory.open(make_repo(tmp_path / "repo")) as memory:
        pairs = list(really(offer, memory, steps))
    messages = requests([params for params, _ in pairs])
    answers: list[Reply] = []
    monkeypatch.setattr(calls, "call", lambda *_: answers.pop(0))
    answers += [reply for _, reply in pairs]
    wire = by_the_wire(offer, Notebook(), messages, tmp_path / "out")
    answers[:] = [reply for _, reply in pairs]
    alike(wire, by_the_sdk(offer, Notebook(), messages))
    assert len(wire) == len(pairs) + 1


def test_completions_are_answered_alike(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    messages = requests(COMPLETIONS, "completion/complete")
    with Memory.open(repo) as memory:
        memory.save(topic="caching", decision="Redis", reasoning="Shared")
        wire = by_the_wire(load_profile("native"), memory, messages, tmp_path / "out")
        alike(wire, by_the_sdk(load_profile("native"), memory, messages))
    replies = by_id(wire[1:])
    assert json.loads(replies["first"])["result"]["completion"]["values"] == ["caching"]
    assert all("error" in json.loads(replies[at]) for at in range(3, len(COMPLETIONS)))
