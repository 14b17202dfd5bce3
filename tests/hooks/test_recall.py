"""Which prompts are told of a decision: measured on memories of several subjects and sizes, in `recall.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from filemem.agents import handlers
from filemem.agents.events import PROMPT, Event
from filemem.memory import Memory
from filemem.memory.store import Store
from filemem.repo import served
from tests.support import git, make_repo, write

*MEMORIES, OTHER = (
    json.loads(row) for row in (Path(__file__).parent / "recall.jsonl").read_text().splitlines()
)


def recalled(store: Store, prompt: str) -> str:
    """What a new session is told beside a prompt."""
    event = Event(PROMPT, "UserPromptSubmit", "claude", "1", "", store.folder, prompt)
    return handlers.answer_prompt(store, event, {}, "prompt-first")


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, int]]:
    """For each memory how many direct prompts are told of their decision, and how many others of any."""
    return [_counted(each, tmp_path_factory.mktemp(each["memory"])) for each in MEMORIES]


def _counted(each: dict[str, Any], folder: Path) -> tuple[int, int]:
    path = make_repo(folder / "repo")
    for at, (topic, decision, reasoning) in enumerate(each["decisions"]):
        text = f"---\ntopic: {topic}\n---\n# {decision}\n\n{reasoning}\n"
        write(path / f"memory/decisions/{at:04}.md", text)
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "Decide")
    with Memory.open(path) as memory:
        memory.rebuild()
    titles = {topic: decision for topic, decision, _ in each["decisions"]}
    store = Store(path)
    right = sum(titles[topic] in recalled(store, prompt) for topic, prompt in each["direct"])
    wrong = sum(bool(recalled(store, prompt)) for prompt in OTHER["unrelated"])
    store.close()
    return right, wrong


def test_a_prompt_about_a_decision_is_told_of_it(counts: list[tuple[int, int]]) -> None:
    asked = sum(len(each["direct"]) for each in MEMORIES)
    assert asked >= 60
    assert sum(right for right, _ in counts) >= 0.93 * asked, counts


def test_a_prompt_about_something_else_is_told_nothing(counts: list[tuple[int, int]]) -> None:
    assert len(OTHER["unrelated"]) >= 30
    assert sum(wrong for _, wrong in counts) <= 0.03 * len(OTHER["unrelated"]) * len(MEMORIES)


def test_recalls_that_were_given_up_are_counted_and_never_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served.read_abandoned_count(tmp_path) == 0
    monkeypatch.setattr(served, "_MAX_COUNT", 3)
    for _ in range(5):
        served.add_abandoned_search(tmp_path)
    assert served.read_abandoned_count(tmp_path) == 3
    served.add_abandoned_search(tmp_path / "not there")
    assert served.read_abandoned_count(tmp_path / "not there") == 0
