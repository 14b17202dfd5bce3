"""mem-claude's tools: numbers for ids, and above all who may see what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from tests.dialects.support import good, refused
from tests.support import git


def save(memory: Memory, title: str, **more: Any) -> Any:
    return good(memory, "mem-claude", "save", title=title, text=f"About {title}", **more)


def seen(memory: Memory, saved: Any, **reader: Any) -> dict[str, bool]:
    """On which ways of reading a reader meets an observation."""
    found = good(memory, "mem-claude", "search", **reader)
    asked = good(memory, "mem-claude", "search", query="the plan", **reader)
    around = good(memory, "mem-claude", "timeline", anchor="2100-01-01", **reader)
    fetched = good(
        memory, "mem-claude", "get_observations", ids=[saved["id"], saved["record"]], **reader
    )
    text = good(memory, "mem-claude", "timeline", query="the plan", **reader)
    return {
        "listing": saved["id"] in [one["id"] for one in found["observations"]],
        "search": saved["id"] in [one["id"] for one in asked["observations"]],
        "timeline": saved["id"] in [one["id"] for one in around["observations"]],
        "timeline by query": saved["id"] in [one["id"] for one in text["observations"]],
        "fetch": fetched["count"] == 2,
    }


@pytest.mark.requirement("mc-visibility-honoured")
@pytest.mark.parametrize(
    ("visibility", "reader", "shown"),
    [
        ("private", {}, False),
        ("private", {"agent": "ann"}, True),
        ("private", {"agent": "Bob"}, False),
        ("department", {}, False),
        ("department", {"department": "Engineering"}, True),
        ("department", {"agent": "ann"}, False),
        ("project", {}, True),
        ("project", {"project": "shop"}, True),
        ("project", {"project": "other"}, False),
        ("public", {"project": "other"}, True),
        ("public", {}, True),
    ],
)
def test_visibility_on_every_way_of_reading(
    memory: Memory, visibility: str, reader: dict[str, str], shown: bool
) -> None:
    save(memory, "something for all", visibility="public")
    saved = save(
        memory,
        "the plan",
        visibility=visibility,
        agent="ann",
        department="engineering",
        project="shop",
    )
    ways = seen(memory, saved, **reader)
    assert ways == dict.fromkeys(ways, shown)
    if not shown:
        told = refused(memory, "mem-claude", "timeline", anchor=saved["id"], **reader)
        assert told["error"] == f"anchor: no observation {saved['id']}"


@pytest.mark.requirement("mc-visibility-honoured")
def test_other_dialects_do_not_show_what_is_private_to_another_agent(memory: Memory) -> None:
    saved = save(memory, "the plan", visibility="private", agent="ann")
    assert good(memory, "mama", "search", query="the plan")["results"] == []
    assert good(memory, "project-memory", "retrieve_context", query="the plan")["results"] == []
    assert good(memory, "powermem", "search_memories", query="the plan")["results"] == []
    assert good(memory, "powermem", "list_memories")["results"] == []
    assert good(memory, "powermem", "list_memories", agent_id="eve")["results"] == []
    refused(memory, "powermem", "get_memory", memory_id=saved["id"])
    assert (
        good(memory, "native", "get", id=saved["record"])["count"] == 1
    )  # the owner of the clone reads all


@pytest.mark.requirement("mc-private-uncommitted", "mc-readable-by")
def test_private_ones_are_never_committed_and_the_answer_says_who_can_read(
    memory: Memory, repo: Path
) -> None:
    before = git(repo, "rev-parse", "HEAD")
    saved = save(memory, "a private thought", visibility="private", agent="ann")
    assert (
        saved["readable_by"]
        == "agent ann, and whoever uses this clone; the file is never committed"
    )
    assert git(repo, "rev-parse", "HEAD") == before
    assert git(repo, "status", "--porcelain") == ""
    assert list((repo / "memory" / "private").rglob("*a-private-thought*"))
    told = save(memory, "shared", visibility="department", department="engineering")["readable_by"]
    assert told == "agents of department engineering; whoever has the repository can open the file"
    assert "agents on project manual" in save(memory, "more")["readable_by"]
    assert "every agent" in save(memory, "all", visibility="public")["readable_by"]


@pytest.mark.requirement("mc-id-number", "mc-created-epoch")
def test_ids_are_numbers_and_are_taken_in_every_form(memory: Memory) -> None:
    before = memory.get_time()
    saved = save(memory, "numbered")
    assert 0 < saved["id"] < 2**53
    assert before <= saved["created_at_epoch"] <= memory.get_time()
    forms = [saved["id"], str(saved["id"]), f"#{saved['id']}", saved["record"]]
    assert good(memory, "mem-claude", "get_observations", ids=forms)["count"] == 4
    assert good(memory, "mem-claude", "timeline", anchor=str(saved["id"]))["anchor"] == saved["id"]


@pytest.mark.requirement("mc-session-generated")
def test_a_session_is_made_up_where_none_is_given(memory: Memory) -> None:
    one, two = (save(memory, name)["memory_session_id"] for name in ("one", "two"))
    assert one.startswith("mcp-")
    assert one != two


@pytest.mark.requirement("mc-session-grouping", "mc-search-filters")
def test_a_session_can_be_asked_for_and_an_unknown_filter_is_refused(memory: Memory) -> None:
    save(memory, "one", memory_session_id="s-1")
    save(memory, "two", memory_session_id="s-2")
    found = good(memory, "mem-claude", "search", memory_session_id="s-1")["observations"]
    assert [row["title"] for row in found] == ["one"]
    for asked in ({"session": "S-1"}, {"memory_session_id": "s-1"}, {"query": "session:s-1"}):
        assert [one["title"] for one in good(memory, "native", "search", **asked)["results"]] == [
            "one"
        ]
    assert good(memory, "native", "search", query="project:manual", session="s-2")["count"] == 1
    assert (
        good(memory, "native", "search", project="shop")["note"] == "no record has project 'shop'"
    )
    assert (
        "no argument 'session_id'"
        in refused(memory, "mem-claude", "search", session_id="s-1")["error"]
    )
    assert save(memory, "three", mood="good")["ignored"] == ["mood"]


@pytest.mark.requirement("mc-visibility-honoured")
def test_a_private_one_without_an_agent_is_private_everywhere(memory: Memory) -> None:
    memory.save(title="the plan", text="Nobody's", visibility="private")
    assert good(memory, "mem-claude", "search", query="the plan")["observations"] == []
    assert good(memory, "powermem", "list_memories")["results"] == []


@pytest.mark.requirement("mc-lists")
def test_a_single_word_is_a_list_of_one(memory: Memory) -> None:
    saved = save(memory, "listed", facts="Only one", concepts="caching")
    [found] = good(memory, "mem-claude", "get_observations", ids=[saved["id"]])["observations"]
    assert (found["facts"], found["concepts"]) == (["Only one"], ["caching"])
    assert "facts" in refused(memory, "mem-claude", "save", title="t", text="x", facts=5)["error"]


@pytest.mark.requirement("mc-search-filters")
def test_search_filters(memory: Memory) -> None:
    save(memory, "a bug", type="bugfix", concepts=["caching"], files_modified=["src/cache.py"])
    save(memory, "a feature", type="feature", project="shop")
    memory.save(summary="Stopped here")

    def titles(**arguments: Any) -> list[str]:
        told = good(memory, "mem-claude", "search", **arguments)
        return [one["title"] for one in (*told["observations"], *told["sessions"])]

    assert titles() == ["a feature", "a bug", "Stopped here"]
    assert titles(type="sessions") == ["Stopped here"]
    assert titles(type="observations", limit=1) == ["a feature"]
    assert titles(type="observations", offset=1) == ["a bug"]
    assert titles(orderBy="date_asc", type="observations") == ["a bug", "a feature"]
    assert titles(orderBy="date_asc", limit=1) == ["a bug"]
    assert titles(orderBy="date_asc", limit=1, offset=1, type="observations") == ["a feature"]
    assert titles(obs_type="bugfix,refactor") == titles(type="bugfix") == ["a bug"]
    assert titles(concepts=["caching"]) == titles(files="src") == ["a bug"]
    assert titles(dateStart="2100-01-01") == titles(type="prompts") == []
    assert titles(project="shop") == ["a feature", "Stopped here"]


@pytest.mark.requirement("mc-tools", "mc-important", "mc-schema")
def test_what_is_listed() -> None:
    tools = {tool.name: tool for tool in load_profile("mem-claude").listed_tools}
    assert set(tools) == {"important", "search", "timeline", "get_observations", "save"}
    schema: Any = tools["save"].input_schema
    assert schema["required"] == ["title", "text"]
    documented = {
        *("title", "text", "type", "project", "memory_session_id", "facts", "concepts"),
        *("agent", "department", "visibility"),
    }
    assert documented <= schema["properties"].keys()
    assert schema["properties"]["type"]["enum"] == [
        *("decision", "bugfix", "feature", "refactor", "discovery", "change")
    ]
    assert schema["properties"]["visibility"]["enum"] == [
        "private",
        "department",
        "project",
        "public",
    ]
    assert schema.get("additionalProperties", True) is True


@pytest.mark.requirement("mc-search", "mc-search-filters")
def test_an_empty_answer_says_why_it_is(memory: Memory) -> None:
    save(memory, "one")
    save(memory, "two")
    save(memory, "three")
    past = good(memory, "mem-claude", "search", offset=50)
    assert (past["totalResults"], past["note"]) == (0, "nothing from offset 50 on")
    asked = good(
        memory, "mem-claude", "search", query="one", type="observations", offset=9, limit=1
    )
    assert "offset" in asked["note"]
    prompts = good(memory, "mem-claude", "search", type="prompts")
    assert (prompts["prompts"], "never kept" in prompts["note"]) == ([], True)
    listed = good(memory, "powermem", "list_memories", offset=50)
    assert (listed["count"], "offset" in listed["note"]) == (0, True)


@pytest.mark.requirement("mc-visibility-honoured")
def test_an_answer_does_not_speak_of_what_the_reader_may_not_see(memory: Memory) -> None:
    for at in range(60):
        save(memory, f"zymurgy {at}", visibility="private", agent="ann")
    closed = {
        "mama": good(memory, "mama", "search", query="zymurgy"),
        "mem-claude": good(memory, "mem-claude", "search", query="zymurgy"),
        "kind": good(memory, "mem-claude", "search", query="zymurgy", obs_type="discovery"),
        "powermem": good(memory, "powermem", "search_memories", query="zymurgy"),
    }
    nothing = "nothing is saved yet"
    assert {name: told["note"] for name, told in closed.items()} == dict.fromkeys(closed, nothing)
    assert good(memory, "mem-claude", "search")["note"] == "nothing is saved yet"
    save(memory, "zymurgy for all", visibility="public")
    assert good(memory, "mama", "search", query="zymurgy")["count"] == 1
    other = good(memory, "mem-claude", "search", query="zymurgy", obs_type="bugfix")
    assert (other["totalResults"], other["note"]) == (0, "what was found does not pass the filters")


@pytest.mark.requirement("mc-save")
def test_what_is_saved_again_is_remembered_already(memory: Memory) -> None:
    fields = {"title": "API limit", "text": "100 a minute"}
    first = good(memory, "mem-claude", "save", **fields)
    again = good(memory, "mem-claude", "save", **fields)
    assert (again["id"], again["created_at_epoch"]) == (first["id"], first["created_at_epoch"])
    assert again["note"] == "already remembered; nothing was written"
    text = {"context_text": "The API allows 100 requests a minute."}
    first = good(memory, "project-memory", "save_context", **text)
    again = good(memory, "project-memory", "save_context", **text)
    assert (again["id"], again["note"]) == (
        first["id"],
        "already remembered; nothing was written",
    )
