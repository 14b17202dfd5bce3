"""The documents' examples as data: each is run directly, and one of two dialects by an official client, over stdio and
over HTTP: what a tool does is the same whatever the transport. At length one of every dialect.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from filemem.server.calls import ANSWER_KEY
from tests.dialects.support import Conversation, Values, ask, conversations, differs, filled, opened
from tests.support import make_repo
from tests.system.tools import serving_http

Ask = Callable[[str, Mapping[str, Any]], tuple[bool, Any]]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Ask]]:
    """Ways to ask, by profile and way; each has its own repository and is opened at the first need."""
    with ExitStack() as stack:
        made: dict[tuple[str, str], Ask] = {}

        def get(profile: str, way: str) -> Ask:
            if (profile, way) not in made:
                folder = make_repo(tmp_path_factory.mktemp(f"{profile}-{way}") / "repo")
                made[profile, way] = _MAKERS[way](stack, folder, profile)
            return made[profile, way]

        yield get


def _direct(stack: ExitStack, folder: Path, profile: str) -> Ask:
    memory = stack.enter_context(opened(folder))

    def put(tool: str, arguments: Mapping[str, Any]) -> tuple[bool, Any]:
        reply = ask(memory, profile, tool, **arguments)
        return reply.is_error, reply.payload

    return put


def _over_stdio(stack: ExitStack, folder: Path, profile: str) -> Ask:
    arguments = ["-m", "filemem", "-C", str(folder), "serve", "--profile", profile]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    errors = stack.enter_context((folder.parent / "stderr").open("w"))
    return _by_client(stack, stdio_client(server, errlog=errors))


def _over_http(stack: ExitStack, folder: Path, profile: str) -> Ask:
    return _by_client(stack, stack.enter_context(serving_http(folder, "--profile", profile)))


def _by_client(stack: ExitStack, server: Any) -> Ask:
    portal = stack.enter_context(start_blocking_portal())
    client = stack.enter_context(portal.wrap_async_context_manager(Client(server)))

    def put(tool: str, given: Mapping[str, Any]) -> tuple[bool, Any]:
        result = portal.call(client.call_tool, tool, dict(given))
        [part] = result.content
        text = part.text
        said = json.loads(text) if text.startswith("{") else text
        return bool(result.is_error), (result.meta or {}).get(ANSWER_KEY, said)

    return put


_MAKERS = {"direct": _direct, "stdio": _over_stdio, "http": _over_http}


WIRES = ("stdio", "http")
SHORT = ("mama-v1", "native")  # one over each wire
FIRST = {told.profile: told for told in reversed(conversations())}
RUNS = [
    *(
        pytest.param(told, "direct", id=f"{told.profile}: {told.name}-direct")
        for told in conversations()
    ),
    *(
        pytest.param(told, way, id=f"{name}-{way}", marks=() if name in SHORT else pytest.mark.long)
        for (name, told), way in zip(FIRST.items(), cycle(WIRES), strict=False)
    ),
]


@pytest.mark.parametrize(("told", "way"), RUNS)
def test_a_conversation(asking: Callable[[str, str], Ask], told: Conversation, way: str) -> None:
    put, kept = asking(told.profile, way), Values()
    for step in told.steps:
        failed, answer = put(step["call"], filled(step.get("with", {}), kept))
        expected = step["fails"] if "fails" in step else step["gives"]
        assert failed is ("fails" in step), answer
        assert differs(expected, answer, kept) == "", answer
