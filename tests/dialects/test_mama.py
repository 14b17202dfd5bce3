"""MAMA's four tools, beyond what a conversation can say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.call import call
from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from filemem.record import compute_number
from tests.dialects.support import good, refused
from tests.support import git, head_file


def decide(
    memory: Memory, topic: str, decision: str, reasoning: str = "Because it works", **more: Any
) -> Any:
    fields = {
        "type": "decision",
        "topic": topic,
        "decision": decision,
        "reasoning": reasoning,
        **more,
    }
    return good(memory, "mama", "save", **fields)


def results(memory: Memory, **arguments: Any) -> list[Any]:
    found: list[Any] = good(memory, "mama", "search", **arguments)["results"]
    return found


@pytest.mark.requirement("mama-save-confidence")
def test_the_confidence_is_a_half_unless_stated(memory: Memory) -> None:
    decide(memory, "a", "One")
    decide(memory, "b", "Two", confidence=0.9)
    assert {hit["topic"]: hit["confidence"] for hit in results(memory)} == {"a": 0.5, "b": 0.9}


@pytest.mark.requirement("mama-save-topic", "mama-id-form")
def test_a_decision_is_a_file_in_a_commit(memory: Memory, repo: Path) -> None:
    saved = decide(memory, "auth_strategy", "Use JWT")
    assert saved["id"].startswith("decision_auth_strategy_")
    path = memory.get(saved["id"])[0].path
    assert "Use JWT" in (head_file(repo, path) or "")
    assert git(repo, "log", "-1", "--format=%s") == "decision(auth_strategy): Use JWT"


@pytest.mark.requirement("mama-save-optional")
def test_optional_fields_may_be_empty_and_further_ones_are_kept(memory: Memory) -> None:
    saved = decide(
        memory, "extra", "Keep it", summary="", open_files=[], affects=["src/x.py"], tags=["t"]
    )
    record = memory.get(saved["id"])[0].record
    assert (record.affects, record.tags) == (("src/x.py",), ("t",))
    assert "has no field 'topicc'" in refused(
        memory, "mama", "save", type="checkpoint", summary="x", topicc="y"
    )


@pytest.mark.requirement("mama-fork")
def test_a_save_on_a_forked_topic_supersedes_all_that_hold_and_says_so(memory: Memory) -> None:
    first = decide(memory, "fork", "Tabs")
    second = memory.save(topic="fork", decision="Spaces", reasoning="Taste", supersedes=[])
    assert len(memory.history("fork").heads) == 2
    third = decide(memory, "fork", "What the editor says")
    assert "it supersedes 2 decisions that held at once" in third["message"]
    assert first["id"] in third["message"]
    assert second.id in third["message"]
    assert memory.history("fork").heads == (third["id"],)


@pytest.mark.requirement(
    "mama-edge-debates", "mama-edge-synthesizes", "mama-edge-in-search", "mama-edge-builds-on"
)
@pytest.mark.parametrize(
    ("words", "edges"),
    [
        ("builds_on: {0}. More.", [("builds_on", 0)]),
        ("debates: {0}", [("debates", 0)]),
        ("synthesizes: [{0}, {1}]", [("synthesizes", 0), ("synthesizes", 1)]),
        ("synthesizes: {0}, {1} and no more", [("synthesizes", 0), ("synthesizes", 1)]),
        ("**Builds_on**: {0} and debates: {1}", [("builds_on", 0), ("debates", 1)]),
        ("builds on {0}", []),
        ("builds_on: something", []),
    ],
)
def test_edges_are_read_from_the_reasoning(
    memory: Memory, words: str, edges: list[tuple[str, int]]
) -> None:
    others = [decide(memory, f"base{n}", f"Base number {n}")["id"] for n in range(2)]
    reasoning = words.format(*others)
    saved = decide(memory, "edge", "Go on from there", reasoning)
    [found] = [hit for hit in results(memory, query="go on from there") if hit["id"] == saved["id"]]
    expected = [{"id": others[n], "edge": kind, "edge_reason": reasoning} for kind, n in edges]
    assert found.get("related", []) == expected
    assert found.get("related_to") == (expected[0]["id"] if expected else None)
    [base] = [hit for hit in results(memory, query="base number 0") if hit["id"] == others[0]]
    assert (base.get("related_to") == saved["id"]) is bool(edges)


@pytest.mark.requirement("mama-update-reason")
def test_earlier_reasons_are_kept(memory: Memory) -> None:
    saved = decide(memory, "log", "Log it")
    good(memory, "mama", "update", id=saved["id"], outcome="failed", reason="Too loud")
    good(memory, "mama", "update", id=saved["id"], outcome="success", reason="Quiet now")
    [found] = results(memory)
    assert [(entry["outcome"], entry["reason"]) for entry in found["outcomes"]] == [
        ("failed", "Too loud"),
        ("success", "Quiet now"),
    ]
    assert found["outcome"] == "success"


@pytest.mark.requirement("mama-search-limit", "mama-search-recent")
def test_ten_are_shown_unless_more_are_asked_for(memory: Memory) -> None:
    ids = [decide(memory, f"topic{n}", f"Decision number {n}")["id"] for n in range(12)]
    assert [hit["id"] for hit in results(memory)] == ids[:1:-1]
    assert len(results(memory, limit=12)) == 12
    assert len(results(memory, query="decision number", limit=3)) == 3


@pytest.mark.requirement("mama-load-checkpoint")
def test_the_number_of_a_checkpoint_is_made_from_its_id(memory: Memory) -> None:
    saved = good(memory, "mama", "save", type="checkpoint", summary="Half done")
    loaded = good(memory, "mama", "load_checkpoint")["checkpoint"]
    assert loaded["id"] == compute_number(saved["id"]) < 2**53


@pytest.mark.requirement("mama-migration")
@pytest.mark.parametrize("name", ["mama", "mama-v1", "native", "powermem", "all"])
def test_every_old_name_is_callable_in_every_profile(memory: Memory, name: str) -> None:
    removed = ("propose_link", "approve_link", "reject_link", "get_pending_links")
    old = (
        "save_decision",
        "save_checkpoint",
        "recall_decision",
        "suggest_decision",
        "list_decisions",
    )
    offer = load_profile(name)
    for tool in (*old, "update_outcome", "load_checkpoint", *removed):
        answer = call(offer, memory, tool, {})
        assert "no tool named" not in str(answer.payload), tool
        if tool in removed:
            assert f"{tool} was removed" in str(answer.payload)
            assert tool not in {one.name for one in offer.listed_tools}


@pytest.mark.requirement("mama-server")
def test_the_four_tools_are_what_is_listed() -> None:
    assert [tool.name for tool in load_profile("mama").listed_tools] == [
        "save",
        "search",
        "update",
        "load_checkpoint",
    ]
    assert [tool.name for tool in load_profile("openclaw").listed_tools] == [
        "mama_save",
        "mama_search",
        "mama_update",
        "mama_load_checkpoint",
    ]


@pytest.mark.requirement("mama-search")
def test_a_topic_that_is_asked_for_by_name_is_similar(memory: Memory) -> None:
    for topic, decision in (
        ("mesh_detail", "Sixteen segments"),
        ("db", "Postgres"),
        ("api_limits", "Hundred a minute"),
    ):
        memory.save(topic=topic, decision=decision, reasoning="It looks right")

    def best(query: str) -> tuple[str, float]:
        found = good(memory, "mama", "search", query=query)["results"][0]
        return found["topic"], found["similarity"]

    assert best("mesh_detail") == best("Mesh detail?") == ("mesh_detail", 1.0)
    assert best("which api limits do we have") == ("api_limits", 1.0)
    assert best("what is the mesh")[1] > 0.66
    [asked] = [
        one
        for one in good(
            memory, "mama-v1", "suggest_decision", userQuestion="mesh detail", recencyWeight=0
        )["suggestions"]
        if one["topic"] == "mesh_detail"
    ]
    assert asked["similarity"] == 1.0
    assert (
        good(memory, "mama", "search", query="how do penguins swim")["results"] == []
        or best("penguins")[1] < 0.2
    )


@pytest.mark.requirement("mama-save-supersedes")
def test_a_save_says_why_what_it_replaces_was_decided(memory: Memory) -> None:
    fields = {"type": "decision", "topic": "cache"}
    good(memory, "mama", "save", **fields, decision="Use Redis", reasoning="Shared by all")
    why = "Use Redis (less than a minute old): Shared by all"
    done = good(memory, "mama", "save", **fields, decision="Use a dict", reasoning="One process")
    assert f"replaced: {why}" in done["message"]
    memory.delete(done["id"])
    first = {"topic": "cache", "decision": "Use an LRU", "reasoning": "One process"}
    done = good(memory, "mama-v1", "save_decision", type="user_decision", **first)
    assert f"replaced: {why}" in done["message"]
    memory.delete(done["decision_id"])
    assert good(memory, "native", "save", **first)["replaced"] == [why]


@pytest.mark.requirement("mama-edge-builds-on")
def test_an_edge_by_a_short_id_or_a_topic_is_made_and_one_to_nothing_is_noted(
    memory: Memory,
) -> None:
    base = good(memory, "mama", "save", type="decision", topic="base", decision="A", reasoning="r")
    for name in (base["id"][-8:], "base"):
        done = good(
            memory,
            "mama",
            "save",
            type="decision",
            topic=f"on {name}",
            decision="B",
            reasoning=f"builds_on: {name}. As in A.",
        )
        found = good(memory, "mama", "search", query=f"on {name}")["results"][0]
        assert (found["id"], found["related_to"]) == (done["id"], base["id"])
    done = good(
        memory, "mama", "save", type="decision", topic="c", decision="C", reasoning="debates: bse"
    )
    assert "no edge: debates: no record 'bse'" in done["message"]
