"""While the index has not heard of a HEAD that others moved, every answer says that it may lack something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.dialects import (
    mama_calls,
    mama_v1_calls,
    mem_claude_calls,
    native_calls,
    native_reading_calls,
    powermem_calls,
)
from filemem.memory import Memory
from filemem.record import number
from filemem.web import claude, graph, mama, viewer
from filemem.web.public import PublicMemory
from tests.support import git, make_repo
from tests.system.tools import cli, ok

WHY = "HEAD was moved a moment ago"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, str, Path]]:
    """A memory whose HEAD another branch was merged into, a decision on its topic, and its folder.

    Another process is to bring the index in step, and is not at it.
    """
    repo = make_repo(tmp_path_factory.mktemp("behind") / "repo")
    ok(repo, "save", "checkpoint", "--summary", "Half of it is done")
    git(repo, "checkout", "-q", "-b", "beta")
    ok(repo, "save", "decision", "--topic", "z", "--decision", "Beta does z", "--reasoning", "r")
    git(repo, "checkout", "-q", "main")
    (repo / "z.py").write_text("z = 1\n")
    saved = ok(repo, "save", "decision", "--topic", "z", "--decision", "Main does z", "--reasoning", "r")
    with Memory.open(repo, serving=True) as busy, Memory.open(repo, serving=True) as memory:
        assert busy._store.index.writable  # and no other process's from now on
        git(repo, "merge", "-q", "--no-edit", "beta")
        yield memory, saved["id"], repo


Ask = Callable[[Memory, str], Any]
QUESTIONS: dict[str, Ask] = {
    "search": lambda memory, _: native_calls.search(memory, {"query": "z"}),
    "get": lambda memory, one: native_calls.get(memory, {"id": one, "history": True}),
    "timeline": lambda memory, one: native_calls.timeline(memory, {"anchor": one}),
    "history": lambda memory, _: native_calls.timeline(memory, {"topic": "z"}),
    "topics": lambda memory, _: native_calls.topics(memory, {}),
    "why": lambda memory, _: native_calls.why(memory, {"path": "z.py"}),
    "load_checkpoint": lambda memory, _: native_calls.load_checkpoint(memory, {}),
    "filemem://decision": lambda memory, one: native_reading_calls.decision(memory, {"id": one}),
    "resume": lambda memory, _: native_reading_calls.resume(memory, {}),
    "record-decision": lambda memory, _: native_reading_calls.record_decision(memory, {"topic": "z"}),
    "MAMA checkpoint": lambda memory, _: mama_calls.load_checkpoint(memory, {}),
    "MAMA 1 recall": lambda memory, _: mama_v1_calls.recall_decision(memory, {"topic": "z"}),
    "mem-claude timeline": lambda memory, one: mem_claude_calls.timeline(memory, {"anchor": one}),
    "mem-claude get": lambda memory, one: mem_claude_calls.get_observations(memory, {"ids": [one]}),
    "powermem get": lambda memory, one: powermem_calls.get_memory(memory, {"memory_id": one}),
    "GET /checkpoint/load": lambda memory, _: mama.checkpoint_load(memory, {}),
    "GET /export": lambda memory, _: mama.export(memory, {}),
    "GET /graph": lambda memory, _: graph.graph(memory, {}),
    "GET /graph/similar": lambda memory, one: graph.similar(memory, {"id": one}),
    "GET /api/observation": lambda memory, one: claude.observation(memory, {"id": number(one)}),
    "GET /viewer": lambda memory, _: viewer.page(memory, {}).body,
    "GET /viewer?topic": lambda memory, _: viewer.page(memory, {"topic": "z"}).body,
    "GET /viewer?id": lambda memory, one: viewer.page(memory, {"id": one}).body,
    "public get": lambda memory, one: native_calls.get(PublicMemory(memory), {"id": one}),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_says_that_it_may_lack_something(question: str, behind: tuple[Memory, str, Path]) -> None:
    memory, saved, _ = behind
    answer = QUESTIONS[question](memory, saved)
    assert WHY in (answer if isinstance(answer, str) else answer["degraded"])


@pytest.mark.parametrize("command", [("history", "z"), ("get", "Main does z"), ("why", "z.py"), ("topics",)])
def test_the_command_line_says_so_too(command: tuple[str, ...], behind: tuple[Memory, str, Path]) -> None:
    assert WHY in cli(behind[2], *command).out


def test_of_an_answer_that_lacks_nothing_nothing_is_said(tmp_path: Path) -> None:
    with Memory.open(make_repo(tmp_path / "repo")) as memory:
        saved = memory.save(topic="z", decision="Do z", reasoning="r")
        for ask in (native_calls.get, native_calls.history, native_reading_calls.decision):
            assert "degraded" not in ask(memory, {"id": saved.id, "topic": "z"})
