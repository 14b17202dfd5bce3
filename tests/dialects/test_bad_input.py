"""Bad input for every tool of every profile: told in the dialect's own envelope, names the field, changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filemem.dialects.call import call
from filemem.dialects.tool import DIALECTS, Tool, load_profile
from filemem.memory import Memory
from tests.dialects.support import good, opened, refused
from tests.support import git, make_repo
from tests.system.tools import snapshot

# What a tool needs to be called at all; "<number>", "<decision>" stand for records that are there.
VALID: Mapping[str, Mapping[str, Any]] = {
    "save": {"type": "decision", "topic": "t", "decision": "d", "reasoning": "r"},
    "mem-claude save": {"title": "t", "text": "x"},
    "save_checkpoint": {"summary": "s"},
    "save_decision": {"topic": "t", "decision": "d", "reasoning": "r"},
    "recall_decision": {"topic": "kettle"},
    "suggest_decision": {"userQuestion": "q"},
    "update_outcome": {"topic": "kettle", "outcome": "success"},
    "update": {"id": "<decision>", "outcome": "success"},
    "delete": {"id": "<decision>"},
    "add_memory": {"messages": "m"},
    "search_memories": {"query": "q"},
    "get_memory": {"memory_id": "<number>"},
    "update_memory": {"memory_id": "<number>", "content": "c"},
    "delete_memory": {"memory_id": "<number>"},
    "get_observations": {"ids": ["<number>"]},
    "mem-claude timeline": {"query": "kettle"},
    "timeline": {"query": "kettle"},
    "save_context": {"context_text": "c"},
    "retrieve_context": {"query": "q"},
}
NEVER = ("Traceback", "pydantic", "jsonschema", "ValidationError", "filemem/", "object at 0x")
WRONG: Mapping[str, tuple[Any, ...]] = {
    "string": (5, True, {"a": 1}),
    "integer": ("many", 1.5, [1]),
    "number": ("many", [1], {}),
    "boolean": ("yes please", 3),
    "array": (5, {"a": 1}),
    "object": (5, [1]),
}
DECIDED = {"topic": "t", "decision": "d", "reasoning": "r"}
UNKNOWN = [
    (
        "mama",
        "update",
        {"id": "decision_x_1_zzzzzzzz", "outcome": "success"},
        "decision_x_1_zzzzzzzz",
    ),
    ("mama", "update", {"id": "<decision>", "outcome": "maybe"}, "outcome"),
    (
        "mama-v1",
        "update_outcome",
        {"decisionId": "decision_none", "outcome": "success"},
        "decision_none",
    ),
    (
        "mama-v1",
        "update_outcome",
        {"topic": "no such topic", "outcome": "success"},
        "no such topic",
    ),
    ("mama-v1", "recall_decision", {"topic": "no such topic"}, "no such topic"),
    ("mama-v1", "save_decision", {"topic": "-", "decision": "d", "reasoning": "r"}, "topic"),
    (
        "mama-v1",
        "save_decision",
        {**DECIDED, "outcome": "failure", "failure_reason": "x" * 600},
        "failure_reason has",
    ),
    (
        "mama-v1",
        "update_outcome",
        {"topic": "kettle", "outcome": "x", "failure_reason": ""},
        "outcome",
    ),
    (
        "mama-v1",
        "update_outcome",
        {"topic": "kettle", "outcome": "failure", "failure_reason": "x" * 600},
        "failure_reason",
    ),
    ("powermem", "get_memory", {"memory_id": 12}, "12"),
    ("powermem", "delete_memory", {"memory_id": "nothing"}, "nothing"),
    ("powermem", "delete_memory", {"memory_id": "9" * 400}, "memory_id"),
    ("powermem", "get_memory", {"memory_id": -1}, "memory_id"),
    ("powermem", "update_memory", {"memory_id": 12, "content": "c"}, "12"),
    ("powermem", "update_memory", {"memory_id": "<decision>", "content": "c"}, "memory_id"),
    ("powermem", "add_memory", {"messages": "m", "metadata": {"key": "x" * 200_000}}, "metadata"),
    ("powermem", "add_memory", {"messages": "x" * 200_000}, "messages has"),
    ("mem-claude", "timeline", {"anchor": 12}, "anchor"),
    ("mem-claude", "timeline", {"anchor": "yesterday-ish"}, "anchor"),
    ("mem-claude", "timeline", {"anchor": 12, "query": "q"}, "anchor"),
    ("mem-claude", "search", {"dateStart": "whenever"}, "dateStart"),
    ("mem-claude", "save", {"title": "t" * 600, "text": "x"}, "title"),
    ("mem-claude", "save", {"title": "t", "text": "x", "facts": ["\x07"]}, "facts"),
    ("project-memory", "save_context", {"context_text": "x" * 200_000}, "context_text has"),
    (
        "project-memory",
        "save_context",
        {"context_text": "AWS key AKIAIOSFODNN7EXAMPLF in use"},
        "context_text, line 1",
    ),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repo(tmp_path_factory.mktemp("bad") / "repo")


@pytest.fixture(scope="module")
def full(place: Path) -> Iterator[tuple[Memory, dict[str, Any]]]:
    """A memory with a decision and a memory in it, and their ids."""
    with opened(place) as memory:
        decision = memory.save(topic="kettle", decision="Descale it", reasoning="Lime").id
        added = good(memory, "powermem", "add_memory", messages="The kettle is loud")["results"][0][
            "id"
        ]
        yield memory, {"<decision>": decision, "<number>": added}


def state(place: Path) -> tuple[str, dict[str, str], str]:
    return git(place, "rev-parse", "HEAD"), snapshot(place), git(place, "status", "--porcelain")


def put(value: Any, ids: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [put(one, ids) for one in value]
    if isinstance(value, dict):
        return {name: put(one, ids) for name, one in value.items()}
    return ids.get(value, value) if isinstance(value, str) else value


def valid(dialect: str, tool: Tool) -> Mapping[str, Any]:
    name = tool.name.removeprefix("mama_")
    return VALID.get(f"{dialect} {name}") or VALID.get(name) or {}


def wrong(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Values that a schema does not take."""
    if "enum" in schema:
        yield from ("nonsense", 5)
        return
    if "anyOf" in schema:
        yield True
        return
    if "type" not in schema:
        return
    yield from WRONG[schema["type"]]
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "exclusiveMinimum" in schema:
        yield schema["exclusiveMinimum"]
    if "maximum" in schema and schema["type"] != "integer":  # those are limited, with a note
        yield schema["maximum"] + 1
    if schema["type"] == "string":
        yield "a\0b"
    if "pattern" in schema:
        yield from ("", "  \n")
    if schema.get("items"):
        yield [next(wrong(schema["items"]))]


def cases(dialect: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Tool, arguments and the field that is wrong in them."""
    for tool in load_profile(dialect).listed_tools:
        base = dict(valid(dialect, tool))
        schema: Any = tool.input_schema
        for field in schema.get("required", ()):
            yield tool.name, {name: value for name, value in base.items() if name != field}, field
        for field, part in schema["properties"].items():
            for value in wrong(part):
                yield tool.name, {**base, field: value}, field
        yield tool.name, {**base, "x\0": "y"}, "arguments"


def checked(answer: Any, dialect: str, field: str) -> None:
    envelopes: Mapping[str, Any] = {
        "native": lambda: answer["success"] is False and answer["error"]["message"],
        "mama": lambda: answer.startswith("Error: ") and "\n" not in answer,
        "mama-v1": lambda: answer["success"] is False and answer["message"],
        "powermem": lambda: answer["success"] is False and answer["error"],
        "mem-claude": lambda: answer["error"] and "success" not in answer,
        "project-memory": lambda: answer["status"] == "error" and answer["error"],
    }
    told = str(answer)
    assert envelopes[{"openclaw": "mama"}.get(dialect, dialect)](), answer
    assert field in told, (field, told)
    assert not any(word in told for word in NEVER), told
    assert len(told) < 1_000, told


@pytest.mark.requirement("bad-input")
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "all"])
def test_what_a_schema_refuses(
    full: tuple[Memory, dict[str, Any]], place: Path, dialect: str
) -> None:
    memory, ids = full
    before, count = state(place), 0
    for tool, arguments, field in cases(dialect):
        reply = call(load_profile(dialect), memory, tool, put(arguments, ids))
        assert reply.is_error, (tool, arguments, reply.payload)
        checked(reply.payload, dialect, field)
        count += 1
    assert count >= 5
    assert state(place) == before


@pytest.mark.requirement("bad-input")
def test_what_only_the_tool_can_refuse(full: tuple[Memory, dict[str, Any]], place: Path) -> None:
    memory, ids = full
    before = state(place)
    for dialect, tool, arguments, word in UNKNOWN:
        reply = call(load_profile(dialect), memory, tool, put(arguments, ids))
        assert reply.is_error, (dialect, tool, reply.payload)
        checked(reply.payload, dialect, put(word, ids))
    assert state(place) == before


@pytest.mark.requirement("bad-input")
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in ("all", "openclaw")])
def test_null_counts_as_absent(memory: Memory, dialect: str) -> None:
    ids = {
        "<decision>": memory.save(topic="kettle", decision="Descale it", reasoning="Lime").id,
        "<number>": good(memory, "powermem", "add_memory", messages="The kettle is loud")[
            "results"
        ][0]["id"],
    }
    for tool in load_profile(dialect).listed_tools:
        given = put(dict(valid(dialect, tool)), ids)
        nulls = dict.fromkeys(tool.input_schema["properties"].keys() - given.keys())
        told = str(call(load_profile(dialect), memory, tool.name, {**given, **nulls}).payload)
        assert "not null" not in told, tool.name


@pytest.mark.requirement("bad-input")
def test_messages_say_what_is_meant_in_words(memory: Memory) -> None:
    told = refused(memory, "mama", "update", id=5, outcome="success")
    assert "id must be text that is not blank, not 5" in told
    told = refused(memory, "powermem", "add_memory", messages=5)["error"]
    assert "\\" not in told
    assert "text that is not blank or an object or a list that is not empty" in told


@pytest.mark.requirement("bad-input")
def test_hostile_text_is_kept_as_text(memory: Memory) -> None:
    text = "<script>alert(1)</script>\n---\nid: stolen\n---\n## Outcomes\n- 2025-01-01 failed: no\n| a | b |"
    saved = good(memory, "mem-claude", "save", title="<script>|`x`</script>", text=text)
    [found] = good(memory, "mem-claude", "get_observations", ids=[saved["id"]])["observations"]
    assert found["title"] == "<script>|`x`</script>"
    assert found["narrative"] == text


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=20),
    st.sampled_from(
        [
            "kettle",
            "all",
            "decision",
            "success",
            "2025-11-20",
            "2w",
            "1e999",
            "-1",
            "0",
            "id:",
            '"',
            "-x",
            "#1",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
CALLABLE = [
    (name, tool)
    for name in DIALECTS
    if name not in ("all", "openclaw")
    for tool in (*load_profile(name).listed_tools, *load_profile(name).hidden_tools)
]


@pytest.mark.requirement("bad-input")
@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_whatever_is_sent_an_answer_comes_back(
    full: tuple[Memory, dict[str, Any]], data: st.DataObject
) -> None:
    memory, ids = full
    dialect, tool = data.draw(st.sampled_from(CALLABLE))
    known: Any = tool.input_schema["properties"]
    base = dict(put(dict(valid(dialect, tool)), ids)) if data.draw(st.booleans()) else {}
    more = data.draw(st.dictionaries(st.sampled_from([*known, "other"]), VALUES, max_size=4))
    reply = call(load_profile(dialect), memory, tool.name, {**base, **more})
    told = json.dumps(reply.payload, ensure_ascii=False, allow_nan=False)
    assert not any(word in told for word in NEVER if reply.is_error), told
