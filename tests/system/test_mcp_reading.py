"""Resources and prompts, as official clients of both eras meet them, on both wires."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from filemem.server.calls import ANSWER_KEY
from tests.support import make_repo
from tests.system.tools import serving_http

LATEST, CACHING, LOGGING = (
    "filemem://checkpoint/latest",
    "filemem://topic/caching",
    "filemem://topic/logging",
)
TEMPLATES = {"filemem://topic/{topic}", "filemem://decision/{id}"}


@asynccontextmanager
async def connected(target: Path | str, mode: Any) -> AsyncIterator[Client]:
    """A client of a server over stdio (a folder) or HTTP (an address)."""
    if isinstance(target, str):
        async with Client(target, mode=mode) as client:
            yield client
        return
    arguments = ["-m", "filemem", "-C", str(target), "serve"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    with (target.parent / "stderr").open("w") as errors:
        async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
            yield client


async def save(client: Client, **fields: Any) -> str:
    reply = await client.call_tool("save", fields)
    assert not reply.is_error, reply
    return str((reply.meta or {})[ANSWER_KEY]["id"])


async def text(client: Client, uri: str) -> Any:
    [content] = (await client.read_resource(uri, cache_mode="bypass")).contents
    assert isinstance(content, types.TextResourceContents)
    assert (content.mime_type, str(content.uri)) == ("application/json", uri)
    return json.loads(content.text)


async def refusal(asked: Awaitable[Any]) -> MCPError:
    try:
        await asked
    except MCPError as error:
        return error
    raise AssertionError("not refused")


async def reads(client: Client, modern: bool) -> None:
    """What is there by address, and what is not."""
    able = client.server_capabilities
    assert able.resources == types.ResourcesCapability(subscribe=False, list_changed=False)
    assert (able.prompts is None, able.completions is None, able.logging is None) == (
        False,
        False,
        True,
    )
    assert [str(one.uri) for one in (await client.list_resources()).resources] == [LATEST]
    assert {
        one.uri_template for one in (await client.list_resource_templates()).resource_templates
    } == TEMPLATES
    assert (await text(client, LATEST))["checkpoint"] is None
    decided = await save(
        client, topic="caching", decision="Use Redis", reasoning="Shared between workers"
    )
    await save(
        client, summary="Cache half built", next_steps="Expire entries", open_files=["src/cache.py"]
    )
    assert (await text(client, LATEST))["checkpoint"]["next_steps"] == "Expire entries"
    assert (await text(client, CACHING))["heads"] == [decided]
    assert (await text(client, f"filemem://decision/{decided}"))["results"][0][
        "text"
    ] == "Shared between workers"
    for uri in (
        "filemem://decision/nothing",
        "filemem://topic/none",
        "filemem://nowhere/1",
        "file:///etc/passwd",
    ):
        error = (await refusal(client.read_resource(uri))).error
        assert error.code == (-32602 if modern else -32002)
        assert error.data == {"uri": uri}


async def completions(client: Client) -> None:
    """What can stand in a prompt or an address: topics, and ids of what holds."""
    topic: Any = types.PromptReference(name="record-decision")
    address: Any = types.ResourceTemplateReference(uri="filemem://decision/{id}")

    async def found(ref: Any, name: str, value: str) -> list[str]:
        return (await client.complete(ref, {"name": name, "value": value})).completion.values

    assert await found(topic, "topic", "") == await found(topic, "topic", "CACH") == ["caching"]
    assert await found(topic, "topic", "nothing") == await found(topic, "decision", "") == []
    [decided] = await found(address, "id", "decision_cach")
    assert (await text(client, f"filemem://decision/{decided}"))["results"][0]["topic"] == "caching"


async def prompts(client: Client) -> None:
    """What a user can choose to ask."""
    listed = {one.name: one for one in (await client.list_prompts()).prompts}
    assert set(listed) == {"resume", "record-decision"}
    asked = {one.name: one.required for one in listed["record-decision"].arguments or ()}
    assert asked == {"topic": True, "decision": False}
    [message] = (await client.get_prompt("resume")).messages
    assert isinstance(message.content, types.TextContent)
    assert "Load the latest checkpoint of the branch that is checked out" in message.content.text
    [message] = (
        await client.get_prompt("record-decision", {"topic": "caching", "decision": "Drop Redis"})
    ).messages
    assert isinstance(message.content, types.TextContent)
    assert "on the topic caching" in message.content.text
    assert "The decision: Drop Redis" in message.content.text
    for name in ("record-decision", "resumee"):
        assert (await refusal(client.get_prompt(name, {}))).error.code == -32602


@pytest.mark.parametrize(
    ("wire", "mode"),
    [("stdio", "auto"), ("stdio", "legacy"), ("http", "legacy")],
)
def test_reading_over_each_wire_in_each_era(tmp_path: Path, wire: str, mode: str) -> None:
    repo = make_repo(tmp_path / "repo")

    async def talk(target: Path | str) -> None:
        async with connected(target, mode) as client:
            modern = client.protocol_version == "2026-07-28"
            assert modern == (mode == "auto")
            await reads(client, modern)
            await prompts(client)
            await completions(client)

    if wire == "stdio":
        asyncio.run(talk(repo))
        return
    with serving_http(repo) as address:
        asyncio.run(talk(address))
