"""What a server says to arguments that are wrong: in words of its own, with the field, and it goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.call import call
from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from tests.support import git, make_repo
from tests.system.tools import snapshot, talking

DECISION = {"topic": "t", "decision": "d", "reasoning": "r"}
FOREIGN = re.compile(
    r"pydantic|jsonschema|validation error|Traceback|is not of type|\$\.|site-packages|\bNone\b"
)

WRONG: list[
    tuple[str, dict[str, Any], str, str]
] = [  # tool, arguments, field, what the message or hint must say
    ("save", {}, "type", "a decision has topic, decision and reasoning"),
    ("save", {**DECISION, "reasonning": "x"}, "reasonning", "did you mean 'reasoning'"),
    ("save", {"summary": "s", "next": "x"}, "next", "did you mean 'next_steps'"),
    ("save", {**DECISION, "Topic": "x"}, "Topic", "did you mean 'topic'"),
    ("save", {"topic": "t", "decision": "d"}, "reasoning", "needs reasoning"),
    ("save", {**DECISION, "reasoning": " \n "}, "reasoning", "needs reasoning"),
    ("save", {**DECISION, "topic": "-_ /."}, "topic", "no letters or digits"),
    ("save", {**DECISION, "decision": "a\0b"}, "decision", "NUL"),
    ("save", {**DECISION, "reasoning": "\x1b[31m"}, "reasoning", "control character"),
    ("save", {**DECISION, "reasoning": "x" * 100_001}, "reasoning", "100,001 characters"),
    ("save", {**DECISION, "topic": "x" * 501}, "topic", "characters"),
    ("save", {**DECISION, "reasoning": "\x9b31m"}, "reasoning", "control character"),
    ("save", {**DECISION, "tags": ["x"] * 201}, "tags", "201 entries"),
    (
        "save",
        {**DECISION, "affects": [f"{n:0400}" for n in range(170)]},
        "affects",
        "larger than 64 KiB; the largest field is affects",
    ),
    (
        "save",
        {**DECISION, "tags": [f"{n} {'x' * 480}" for n in range(190)]},
        "tags",
        "larger than 64 KiB",
    ),
    ("save", {"text": "t", "concepts": ["y" * 490] * 199}, "concepts", "larger than 64 KiB"),
    (
        "save",
        {"text": "t", "metadata": {f"k{n}": "v" * 900 for n in range(90)}},
        "metadata",
        "larger than 64 KiB",
    ),
    ("save", {"text": "t", "metadata": {f"k{n}": "v" for n in range(6000)}}, "metadata", "5,000"),
    ("save", {**DECISION, "confidence": 10**30}, "confidence", "too large"),
    ("save", {**DECISION, "status": "maybe"}, "status", "proposed"),
    ("save", {**DECISION, "outcome": "great"}, "outcome", "success"),
    ("save", {**DECISION, "type": "decison"}, "type", "decision, checkpoint, observation"),
    (
        "save",
        {**DECISION, "open_files": ["a"]},
        "open_files",
        "a decision has no field 'open_files'",
    ),
    ("save", {"summary": "s", "supersedes": ["x"]}, "supersedes", "a checkpoint has no field"),
    ("save", {"text": "t", "kind": "gossip"}, "kind", "discovery"),
    ("search", {"quary": "x"}, "quary", "did you mean 'query'"),
    ("search", {"type": "decisions"}, "type", "decision, checkpoint, observation"),
    ("search", {"outcome": ["good"]}, "outcome", "success"),
    ("search", {"status": "done"}, "status", "accepted"),
    ("search", {"since": "lately"}, "since", "2025-11-20"),
    ("search", {"mode": "fuzzy"}, "mode", "hybrid"),
    ("get", {}, "ids", "no id given"),
    ("get", {"ids": []}, "ids", "no id given"),
    ("get", {"ids": "x", "verbose": True}, "verbose", "has no argument"),
    ("timeline", {"anchor": "2025-11-20", "query": "x"}, "anchor", "not both"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repo(tmp_path_factory.mktemp("errors") / "repo")


@pytest.fixture(scope="module")
def memory(place: Path) -> Iterator[Memory]:
    """The memory that the tools are called on, in process: the wire has tests of its own."""
    with Memory.open(place) as opened:
        yield opened
        assert not ask(opened, "save", DECISION)[0], "it goes on after all that"


def ask(memory: Memory, tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
    reply = call(load_profile("native"), memory, tool, arguments)
    return reply.is_error, reply.payload


def refused(memory: Memory, tool: str, arguments: dict[str, Any]) -> Any:
    failed, answer = ask(memory, tool, arguments)
    assert failed, (tool, answer)
    return answer["error"]


def test_a_wrong_argument_is_named(memory: Memory, place: Path) -> None:
    for tool, arguments, field, words in WRONG:
        error = refused(memory, tool, arguments)
        told = f"{error['message']}\n{error['hint']}"
        assert (error["kind"], error["field"]) == ("bad_input", field), told
        assert words in told
        assert not FOREIGN.search(told), told
        assert len(told) < 1_000
    assert git(place, "rev-list", "--count", "HEAD") == "1"


def test_what_does_not_exist_is_said_so(memory: Memory, place: Path) -> None:
    before = snapshot(place)
    for tool, arguments in (
        ("get", {"id": "decision_x_1_abcdefgh"}),
        ("get", {"id": "../../etc/passwd"}),
        ("get", {"id": "--output=x"}),
        ("get", {"id": "x" * 400}),
        ("update", {"id": "nothing", "outcome": "success"}),
        ("delete", {"id": ".git/config"}),
        ("delete", {"id": ""}),
        ("timeline", {"topic": "never decided"}),
        ("timeline", {"anchor": "nothing"}),
        ("save", {**DECISION, "supersedes": ["nothing"]}),
        ("save", {**DECISION, "builds_on": "../../etc/passwd"}),
        ("no_such_tool", {}),
    ):
        error = refused(memory, tool, arguments)
        assert error["kind"] == "not_found"
        assert error["hint"]
    assert snapshot(place) == before


def test_answers_to_nothing_are_empty_not_errors(tmp_path: Path) -> None:
    with talking(make_repo(tmp_path / "repo")) as client:
        note = "there is no memory here yet: run `filemem init`, or save something"
        assert client.call("search", query="anything") == {
            "success": True,
            "count": 0,
            "results": [],
            "note": note,
        }
        assert client.call("search")["count"] == 0
        assert client.call("load_checkpoint")["checkpoint"] is None
        assert client.call("timeline")["count"] == 0


def test_outside_a_repository_every_call_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    with talking(folder) as client:
        assert len(client.tools()) == 7
        for _ in range(2):
            error = client.refused("search", query="x")
            assert error["kind"] == "not_found"
            assert "filemem init" in error["hint"]
