"""A person is asked before a secret is saved, a fork is ended or a record is removed, where the client asks."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from filemem.server import line
from filemem.server.calls import ANSWER_KEY
from filemem.server.line import build_session
from filemem.server.wire import Wire
from tests.support import make_repo

SECRET = "AKIA" + "IOSFODNN7EXAMPL3"
LEAKED = {"title": "Access", "text": f"The key is {SECRET}."}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A memory with a fork and an observation."""
    repo = make_repo(tmp_path / "repo")
    with Memory.open(repo) as memory:
        for decision in ("Use an LRU cache", "Use no cache"):
            memory.save(topic="cache", decision=decision, reasoning="So.", supersedes=[])
        memory.save(title="Old news", text="Nobody reads this.")
    return repo


class Person:
    """Answers questions, and keeps them."""

    def __init__(self, action: Any = "accept") -> None:
        self.action = action
        self.content: Any = {"yes": True}
        self.questions: list[str] = []
        self.hold: asyncio.Event | None = None

    async def answer(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.questions.append(params.message)
        if self.hold:
            await self.hold.wait()
        return types.ElicitResult(action=self.action, content=self.content)


@asynccontextmanager
async def client(repo: Path, person: Person | None, mode: Any) -> AsyncIterator[Client]:
    words = ["-m", "filemem", "serve"]
    parameters = StdioServerParameters(
        command=sys.executable, args=words, env=dict(os.environ), cwd=repo
    )
    answer = person.answer if person else None
    with (repo.parent / "stderr").open("w") as errors:
        stream = stdio_client(parameters, errlog=errors)
        async with Client(stream, mode=mode, elicitation_callback=answer) as opened:
            yield opened


def called(repo: Path, person: Person | None, mode: str, tool: str, **arguments: Any) -> Any:
    """The result of a call."""

    async def run() -> Any:
        async with client(repo, person, mode) as opened:
            return await opened.call_tool(tool, arguments)

    return asyncio.run(run())


YES = {"action": "accept", "content": {"yes": True}}
MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@MODES
def test_a_secret_that_a_person_lets_pass_is_saved(repo: Path, mode: str) -> None:
    person = Person()
    result = called(repo, person, mode, "save", **LEAKED)
    assert not result.is_error, result
    assert len(person.questions) == 1
    assert "text, line 1: this looks like a secret" in person.questions[0]
    assert SECRET not in person.questions[0]


@MODES
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_secret_is_refused_as_ever_where_nobody_agrees(
    repo: Path, mode: str, action: str
) -> None:
    refused = called(repo, Person(action), mode, "save", **LEAKED)
    plain = called(repo, None, mode, "save", **LEAKED)
    assert refused.is_error
    assert refused.content == plain.content


@MODES
@pytest.mark.parametrize("content", [{}, {"yes": False}])
def test_a_form_that_is_accepted_without_a_yes_is_no(repo: Path, mode: str, content: Any) -> None:
    person = Person()
    person.content = content
    assert called(repo, person, mode, "save", **LEAKED).is_error


@MODES
def test_a_fork_is_ended_where_a_person_agrees(repo: Path, mode: str) -> None:
    person = Person()
    fields = {"topic": "cache", "decision": "Use Redis", "reasoning": "Several processes."}
    result = called(repo, person, mode, "save", **fields)
    assert not result.is_error, result
    assert len((result.meta or {})[ANSWER_KEY]["superseded"]) == 2
    (question,) = person.questions
    assert "Use an LRU cache" in question
    assert "Use no cache" in question


@MODES
def test_a_record_is_removed_only_where_a_person_agrees(repo: Path, mode: str) -> None:
    person = Person("decline")
    refused = called(repo, person, mode, "delete", id="Old news")
    assert refused.is_error
    assert person.questions == ["Remove “Old news” from the memory? Git's history keeps it."]
    with Memory.open(repo) as memory:
        assert "Old news" in [hit.record.title for hit in memory.search("Old news").hits]
    assert not called(repo, Person(), mode, "delete", id="Old news").is_error
    with Memory.open(repo) as memory:
        assert "Old news" not in [hit.record.title for hit in memory.search("Old news").hits]


@MODES
def test_a_client_that_asks_nobody_removes_as_ever(repo: Path, mode: str) -> None:
    assert not called(repo, None, mode, "delete", id="Old news").is_error


def test_other_calls_go_on_while_a_person_thinks(repo: Path) -> None:
    async def run() -> None:
        person = Person()
        person.hold = asyncio.Event()
        async with client(repo, person, "legacy") as opened:
            save = asyncio.create_task(opened.call_tool("save", LEAKED))
            while not person.questions:
                await asyncio.sleep(0.01)
            assert not (await opened.call_tool("search", {"query": "cache"})).is_error
            assert not save.done()
            person.hold.set()
            assert not (await save).is_error

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch, repo: Path) -> Any:
    """A line whose person has no time, and the messages that it sends."""
    monkeypatch.setattr(line, "ANSWERS", 0.05)
    sent: list[Any] = []
    arrived = threading.Semaphore(0)

    class Recorded(Wire):
        def send(self, message: object) -> None:
            sent.append(message)
            arrived.release()

    opened = build_session(Recorded(0, 1), load_profile("native"), lambda: Memory.open(repo), None)
    yield opened, sent, arrived
    opened.wait_for_calls(5)
    opened.calls.close().result(5)


def test_nobody_answers_in_time_and_the_call_is_refused(asking: Any) -> None:
    opened, sent, arrived = asking
    opened.start_call(7, {"name": "save", "arguments": LEAKED}, can_ask=True)
    assert arrived.acquire(timeout=30)
    assert arrived.acquire(timeout=30)
    question, answer = sent
    assert question["method"] == "elicitation/create"
    assert answer["id"] == 7
    assert answer["result"]["isError"]
    opened.handle_reply({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    opened.wait_for_calls(5)
    assert len(sent) == 2, "an answer that comes too late counts for nothing"


def test_the_end_of_the_input_answers_for_the_person(asking: Any, monkeypatch: Any) -> None:
    opened, sent, arrived = asking
    monkeypatch.setattr(line, "ANSWERS", 3600)
    opened.start_call(7, {"name": "save", "arguments": LEAKED}, can_ask=True)
    assert arrived.acquire(timeout=30)
    opened.wait_for_calls(10)
    assert sent[-1]["id"] == 7
    assert sent[-1]["result"]["isError"]


def test_a_yes_counts_for_no_other_memory(asking: Any, monkeypatch: Any) -> None:
    opened, sent, arrived = asking
    monkeypatch.setattr(line, "ANSWERS", 3600)
    opened.start_call(7, {"name": "save", "arguments": LEAKED}, can_ask=True)
    assert arrived.acquire(timeout=30)
    opened.follow_roots(lambda _: False)
    opened.handle_reply({"jsonrpc": "2.0", "id": sent[0]["id"], "result": YES})
    opened.wait_for_calls(10)
    assert sent[-1]["id"] == 7
    assert sent[-1]["result"]["isError"]


def test_a_yes_to_a_cancelled_call_is_not_taken_for_another(asking: Any, monkeypatch: Any) -> None:
    opened, sent, arrived = asking
    monkeypatch.setattr(line, "ANSWERS", 3600)
    opened.start_call(7, {"name": "save", "arguments": LEAKED}, can_ask=True)
    assert arrived.acquire(timeout=30)
    opened.cancel_call({"params": {"requestId": 7}})
    opened.start_call("7", {"name": "search", "arguments": {"query": "access key"}})
    opened.handle_reply({"jsonrpc": "2.0", "id": sent[0]["id"], "result": YES})
    opened.wait_for_calls(10)
    (answer,) = [message for message in sent if message.get("id") == "7"]
    assert not answer["result"]["isError"]
    assert len(sent) == 2, "the cancelled call did not run"
