"""The front answers as the SDK would, or hands over; the rules of the wire are pure."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from filemem.server import sdk
from filemem.server.calls import CallQueue
from filemem.server.front import HANDSHAKE_VERSIONS, Action, RequestHandler
from filemem.server.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_LINE,
    PARSE_ERROR,
    Message,
    Refusal,
    Wire,
    dump,
    parse_line,
)
from tests.surface.server_tools import DIALECT, OFFER, VERSION, open_notebook

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT = {"name": "client", "version": "0"}


def request(method: str, id_: int | str = 1, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id_, "method": method, **({"params": params} if params else {})}


def initialize(version: str = "2025-06-18", **more: Any) -> Message:
    return request(
        "initialize",
        0,
        **{"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT, **more},
    )


INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def from_sdk(messages: list[Message]) -> list[Any]:
    """What the SDK alone replies to the messages, sorted by nothing: one at a time."""

    async def talk() -> list[Any]:
        server = sdk.FilememServer(OFFER, CallQueue(DIALECT, open_notebook), VERSION)
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, out = anyio.create_memory_object_stream[SessionMessage](0)
        replies: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
            async with into, out:
                for message in messages:
                    kind = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
                    await into.send(SessionMessage(kind.model_validate(message)))
                    if "id" in message:
                        reply = (await out.receive()).message
                        replies.append(
                            json.loads(reply.model_dump_json(by_alias=True, exclude_unset=True))
                        )
        return replies

    return asyncio.run(talk())


def from_front(messages: list[Message]) -> list[Any]:
    front = RequestHandler(OFFER, VERSION)
    turns = [front.answer_message(message) for message in messages]
    assert Action.HAND_OVER not in turns
    return [json.loads(dump(turn)) for turn in turns if not isinstance(turn, Action)]


@pytest.mark.parametrize(
    "version", [*HANDSHAKE_VERSIONS, "2026-07-28", "1999-01-01", "", "nonsense"]
)
def test_the_front_says_what_the_sdk_says(version: str) -> None:
    rich = {
        "roots": {"listChanged": True},
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "experimental": {},
    }
    messages = [
        request("ping", "before"),
        initialize(
            version,
            capabilities=rich,
            clientInfo={**CLIENT, "title": "Client", "websiteUrl": "https://x.y"},
        ),
        request("tools/list", "early"),
        INITIALIZED,
        request("ping", -5),
        request("tools/list", 2),
        {**request("tools/list", 3), "params": None},
        request("tools/list", 4, cursor=None),
    ]
    assert from_front(messages) == from_sdk(messages)


def test_the_versions_are_those_of_the_sdk() -> None:
    assert HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


ENVELOPE: dict[str, Any] = {"_meta": {VERSION_KEY: "2026-07-28"}}


def test_what_opens_the_newer_protocol_is_handed_over() -> None:
    for method in ("server/discover", "ping", "tools/list", "tools/call", "resources/read"):
        message = {**request(method), "params": ENVELOPE}
        assert RequestHandler(OFFER, VERSION).answer_message(message) is Action.HAND_OVER
    assert isinstance(RequestHandler(OFFER, VERSION).answer_message(initialize(**ENVELOPE)), dict)


@pytest.mark.parametrize(
    "messages",
    [
        [request("initialize", 0)],
        [initialize(capabilities=None)],
        [initialize(clientInfo={"name": "x"})],
        [initialize(protocolVersion=3)],
        [initialize(**ENVELOPE), request("tools/list", 1)],
        [initialize(), INITIALIZED, request("ping", 1, **ENVELOPE)],
        [initialize(), request("tools/call", 1, name="echo", **ENVELOPE)],
        [initialize(), initialize("2025-11-25"), request("initialize", 5)],
        [request("resources/list", 1)],
        [request("no/such", 1)],
        [request("tools/call", 1, name="echo")],
        [request("prompts/get", 1, name="x"), request("resources/read", 2, uri="x:y")],
    ],
)
def test_what_comes_out_of_turn_is_answered_as_the_sdk_does(messages: list[Message]) -> None:
    assert from_front(messages) == from_sdk(messages)


UNNEEDED: list[dict[str, Any]] = [
    {"_meta": {"progressToken": 0}},  # Codex sends this with its first list
    {"_meta": {}},
    {"_meta": None},
    {"_meta": {"com.example/trace": "x"}, "unknown": [1]},
    {"cursor": "x", "_meta": {"progressToken": "a"}},
]


@pytest.mark.parametrize("more", UNNEEDED)
def test_what_an_answer_does_not_need_is_passed_over(more: dict[str, Any]) -> None:
    messages = [
        initialize(**more),
        {**INITIALIZED, "params": more},
        request("ping", 1, **more),
        request("tools/list", 2, **more),
    ]
    assert from_front(messages) == from_sdk(messages)


@pytest.mark.parametrize(
    "more",
    [
        {"clientInfo": {**CLIENT, "icons": [{"src": "x"}], "title": "\ud800"}},
        {"_meta": 5, "capabilities": {"roots": 5, "tasks": {"list": {}}}},
    ],
)
def test_what_the_sdk_would_stumble_over_is_passed_over(more: dict[str, Any]) -> None:
    front = RequestHandler(OFFER, VERSION)
    assert isinstance(front.answer_message(initialize(**more)), dict)
    assert not front.has_roots


NO_MESSAGES = [
    (b"garbage", PARSE_ERROR),
    (b"\x00\x01\x02", PARSE_ERROR),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE_ERROR),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', PARSE_ERROR),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', PARSE_ERROR),
    (b"[" * 100_000, PARSE_ERROR),
    (b'{"a":' * 100_000, PARSE_ERROR),
    (b'{"jsonrpc":"2.0","id":1,"method":"pi', PARSE_ERROR),
    (b"[]", INVALID_REQUEST),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST),
    (b"5", INVALID_REQUEST),
    (b"null", INVALID_REQUEST),
    (b"{}", INVALID_REQUEST),
    (b'{"id":1,"method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_PARAMS),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', INVALID_PARAMS),
]


def test_what_is_no_message_is_refused() -> None:
    for line, code in NO_MESSAGES:
        refusal = parse_line(line)
        assert isinstance(refusal, Refusal), line[:80]
        assert (refusal.code, refusal.to_message()["jsonrpc"]) == (code, "2.0"), line[:80]


def test_what_needs_no_answer_gets_none() -> None:
    for line in (b"", b"  \r"):
        assert parse_line(line) is None


def test_a_reply_of_the_client_is_no_request() -> None:
    for line in (b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":1,"error":{}}'):
        message = parse_line(line)
        assert isinstance(message, dict)
        assert RequestHandler(OFFER, VERSION).answer_message(message) is Action.REPLY


def test_a_method_that_nobody_serves_is_refused_as_the_sdk_does() -> None:
    methods = ("no/such", "resources/read", "resources/list", "roots/list", "server/discover")
    messages = [initialize(), INITIALIZED, request("logging/setLevel", "log", level="info")]
    messages += [request(method, at) for at, method in enumerate(methods, 1)]
    messages[-4]["params"] = {"uri": "x:y"}
    assert from_front(messages) == from_sdk(messages)


def test_a_refusal_carries_the_id_where_there_is_one() -> None:
    refusal = parse_line(b'{"jsonrpc":"2.0","id":"a","method":5}')
    assert isinstance(refusal, Refusal)
    assert refusal.id == "a"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("start", "end", "id_"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"', b'"}}', 7),
        (b'{"id": "a1", "jsonrpc": "2.0", "params": {"x": "', b'"}}', "a1"),
        (b'{"method":"ping","params":{"id":3,"x":"', b'"},"jsonrpc":"2.0","id":8}', 8),
        (b'{"params":{"id":3,"x":"', b'"},"jsonrpc":"2.0","id":"b2" }', "b2"),
        (b'{"params":{"id":3,"x":"', b'","id":4}}', None),
        (b'{"id":true,"x":"', b'"}', None),
    ],
)
@pytest.mark.parametrize("last", [b"", b"\n", b'\n{"jsonrpc":"2.0","id":9,"method":"ping"}\n'])
def test_a_message_that_is_too_long_is_refused_by_its_id(
    tmp_path: Path, start: bytes, end: bytes, id_: int | str | None, last: bytes
) -> None:
    file = tmp_path / "messages"
    file.write_bytes(start + b"y" * MAX_LINE + end + last)
    with file.open("rb") as source:
        refusal, *others = Wire(source.fileno(), -1).iter_messages()
    assert isinstance(refusal, Refusal)
    assert (refusal.id, refusal.code) == (id_, INVALID_REQUEST)
    assert str(MAX_LINE) in refusal.message
    assert [message["id"] for message in others if isinstance(message, dict)] == [9] * (
        b"ping" in last
    )


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "x"]),
        json_values | st.sampled_from(["2.0", "ping", "initialize"]),
    )
    | json_values
)
def test_any_json_is_read_without_a_crash(value: object) -> None:
    message = parse_line(json.dumps(value).encode())
    if message is not None and not isinstance(message, Refusal):
        RequestHandler(OFFER, VERSION).answer_message(message)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_a_crash(line: bytes) -> None:
    parse_line(line)
