"""What each profile lists, that all names stay callable, and that what one dialect writes the others can read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.call import call
from filemem.dialects.tool import DIALECTS, load_profile
from filemem.memory import Memory
from filemem.record import compute_number
from filemem.server import front as entries
from tests.dialects.support import good, refused

MOST_BYTES = {
    "native": 7_296,
    "mama": 2_048,
    "mama-v1": 3_072,
    "openclaw": 2_048,
    "powermem": 4_096,
    "mem-claude": 4_608,
    "project-memory": 1_024,
    "all": 20_000,
}


@pytest.mark.requirement("profiles")
@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_listed_is_small_and_has_names_that_hosts_take(name: str) -> None:
    offer = load_profile(name)
    listed = json.dumps(
        {"tools": [entries.build_tool_entry(tool) for tool in offer.listed_tools]},
        separators=(",", ":"),
    )
    assert len(listed.encode()) <= MOST_BYTES[name]
    assert all(
        re.fullmatch(r"(?!.*__)[A-Za-z][A-Za-z0-9_-]{0,63}", tool.name)
        for tool in offer.listed_tools
    )
    assert all(
        tool.annotations and "readOnlyHint" in tool.annotations for tool in offer.listed_tools
    )
    assert len({tool.name for tool in offer.listed_tools}) == len(offer.listed_tools)
    told = re.findall(r"`([a-z_]+)`", offer.instructions)
    assert set(told) <= {tool.name for tool in offer.listed_tools}


@pytest.mark.requirement("profiles")
def test_a_tool_that_the_profile_does_not_list_reaches_no_private_record(memory: Memory) -> None:
    kept = good(
        memory,
        "native",
        "save",
        title="Salaries",
        text="What we pay",
        visibility="private",
        agent="ann",
    )
    for name, tool, arguments in (
        ("native", "get_observations", {"ids": [kept["id"]], "agent": "ann"}),
        ("native", "search_memories", {"query": "salaries"}),
        ("powermem", "get", {"id": kept["id"]}),
        ("mama", "timeline", {"query": "salaries"}),
        ("powermem", "delete", {"id": kept["id"]}),
    ):
        assert "What we pay" not in json.dumps(
            call(load_profile(name), memory, tool, arguments).payload
        ), tool
    assert "What we pay" in json.dumps(
        good(memory, "mem-claude", "get_observations", ids=[kept["id"]], agent="ann")
    )
    assert good(memory, "native", "search", query="salaries")["results"]
    told = [refused(memory, "mama", "get", id=one) for one in ("Salaries", "Salarie", "Nothing")]
    assert [one["error"]["message"] for one in told] == [
        f"no record '{n}'" for n in ("Salaries", "Salarie", "Nothing")
    ]
    assert len({one["error"]["hint"] for one in told}) == 1


@pytest.mark.requirement("profiles")
@pytest.mark.parametrize("name", DIALECTS)
def test_every_name_of_every_profile_is_callable(memory: Memory, name: str) -> None:
    for other in DIALECTS:
        for tool in (*load_profile(other).listed_tools, *load_profile(other).hidden_tools):
            reply = call(load_profile(name), memory, tool.name, {"nonsense": "\0"})
            assert reply.is_error
            assert "no tool named" not in str(reply.payload), (name, tool.name)
    assert "no tool named" in str(call(load_profile(name), memory, "forget_everything", {}).payload)


@pytest.mark.requirement("profiles")
@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "all"])
def test_a_name_that_no_tool_has_is_answered_with_those_that_are_listed(
    memory: Memory, name: str
) -> None:
    offer = load_profile(name)
    told = str(call(offer, memory, "qqqq", {}).payload)
    listed = ", ".join(sorted(tool.name for tool in offer.listed_tools))
    assert f"choose one of {listed}" in told
    assert f"did you mean '{offer.listed_tools[0].name}'?" in str(
        call(offer, memory, offer.listed_tools[0].name + "x", {})
    )


@pytest.mark.requirement("profiles")
def test_all_lists_each_name_once_and_the_first_profile_counts() -> None:
    listed = {tool.name: tool for tool in load_profile("all").listed_tools}
    assert listed["save"] == load_profile("native").listed_tools[0]
    for name in DIALECTS:
        assert {tool.name for tool in load_profile(name).listed_tools} <= listed.keys()


@pytest.mark.requirement("profiles")
def test_a_foreign_tool_answers_in_its_own_words(memory: Memory) -> None:
    dialect = load_profile("native")
    assert str(call(dialect, memory, "mama_save", {}).payload).startswith("Error: ")
    assert call(dialect, memory, "add_memory", {}).payload == {
        "success": False,
        "error": "messages is required",
        "hint": "correct it and call add_memory again",
    }
    assert "status" in call(dialect, memory, "save_context", {}).payload


def test_a_profile_is_light() -> None:
    probe = (
        f"import sys; from filemem.dialects.tool import load_profile; [load_profile(one) for one in {[*DIALECTS]!r}]; "
        "print(sorted({'mcp', 'numpy', 'pydantic', 'git', 'asyncio'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- crossing -----------------------------------------------------------------------------------------------

DECISION = {
    "topic": "kettle",
    "decision": "Descale the kettle with vinegar",
    "reasoning": "Citric acid was out",
}
STOPPED = {
    "type": "checkpoint",
    "summary": "The kettle is half descaled",
    "next_steps": "Rinse it with water",
}
# profile, tool, arguments; what of it must be found again
WRITERS: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "native decision": ("native", "save", DECISION, ("vinegar", "Citric acid")),
    "native checkpoint": ("native", "save", STOPPED, ("half descaled", "Rinse it")),
    "native observation": (
        "native",
        "save",
        {"title": "Kettle", "text": "It is copper"},
        ("Kettle", "copper"),
    ),
    "mama decision": ("mama", "save", {"type": "decision", **DECISION}, ("vinegar", "Citric acid")),
    "mama checkpoint": ("mama", "save", STOPPED, ("half descaled", "Rinse it")),
    "openclaw decision": (
        "openclaw",
        "mama_save",
        {"type": "decision", **DECISION},
        ("vinegar", "Citric acid"),
    ),
    "mama-v1 decision": ("mama-v1", "save_decision", DECISION, ("vinegar", "Citric acid")),
    "powermem memory": (
        "powermem",
        "add_memory",
        {"messages": "The kettle is loud"},
        ("kettle is loud",),
    ),
    "mem-claude observation": (
        *("mem-claude", "save"),
        {"title": "Kettle leaks", "text": "At the lid", "facts": ["Since May"], "type": "bugfix"},
        ("Kettle leaks", "At the lid"),
    ),
    "project-memory context": (
        *("project-memory", "save_context"),
        {"context_text": "The kettle holds two litres"},
        ("two litres",),
    ),
}


def _mem_claude(memory: Memory, record: str) -> Any:
    [row] = (
        good(memory, "mem-claude", "search", query="kettle", type="observations")["observations"]
        or good(memory, "mem-claude", "search", query="kettle", type="sessions")["sessions"]
    )
    assert row["id"] == compute_number(record)
    return good(memory, "mem-claude", "get_observations", ids=[row["id"]])


def _powermem(memory: Memory, record: str) -> Any:
    [row] = good(memory, "powermem", "search_memories", query="kettle")["results"]
    assert row["id"] == compute_number(record)
    return good(memory, "powermem", "get_memory", memory_id=row["id"])


def _found(name: str, tool: str) -> Callable[[Memory, str], Any]:
    def read(memory: Memory, record: str) -> Any:
        [row] = good(memory, name, tool, query="kettle")["results"]
        assert row["id"] == record
        return row

    return read


def _project_memory(memory: Memory, record: str) -> Any:
    told = good(memory, "project-memory", "retrieve_context", query="kettle")
    assert told["ids"] == [record]
    return told


def _mama_v1(memory: Memory, record: str) -> Any:
    told = good(memory, "mama-v1", "suggest_decision", userQuestion="kettle")["suggestions"]
    if not record.startswith("decision_"):
        assert told == []  # these five tools know decisions alone
        return good(memory, "mama", "search", query="kettle")
    assert [one["decision_id"] for one in told] == [record]
    return good(memory, "mama-v1", "recall_decision", topic=told[0]["topic"])


READERS: dict[str, Callable[[Memory, str], Any]] = {
    "native": lambda memory, record: good(memory, "native", "get", id=record),
    "mama": _found("mama", "search"),
    "openclaw": _found("openclaw", "mama_search"),
    "mama-v1": _mama_v1,
    "powermem": _powermem,
    "mem-claude": _mem_claude,
    "project-memory": _project_memory,
}


@pytest.mark.requirement("crossing")
@pytest.mark.parametrize("writer", WRITERS)
def test_what_one_dialect_writes_every_other_reads(memory: Memory, writer: str) -> None:
    name, tool, arguments, needles = WRITERS[writer]
    good(memory, name, tool, **arguments)
    [hit] = memory.search("")
    for reader, read in READERS.items():
        told = json.dumps(read(memory, hit.id), ensure_ascii=False)
        assert all(needle in told for needle in needles), (reader, told)


PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"


@pytest.mark.requirement("profiles")
def test_the_page_for_newcomers_lists_what_is_listed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| `([a-z0-9-]+)` \| .*? \| (.*) \|$", text))
    assert rows.keys() >= DIALECTS.keys()
    for name in ("native", "mama", "mama-v1", "powermem", "mem-claude", "project-memory"):
        assert set(re.findall(r"`(\w+)`", rows[name])) == {
            tool.name for tool in load_profile(name).listed_tools
        }, name
    for configuration in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        [server] = json.loads(configuration)["mcpServers"].values()
        assert server["args"][:2] == ["serve", "--profile"]
        assert server["args"][2] in DIALECTS


@pytest.mark.requirement("prj-library")
def test_the_program_of_the_page_runs(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(repo)
    exec(program, {})
    told = capsys.readouterr().out
    assert "Context saved with ID: observation_" in told
    assert "1. This is important information to remember." in told.splitlines()
