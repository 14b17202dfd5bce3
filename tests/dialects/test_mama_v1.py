"""MAMA's five older tools, beyond what a conversation can say."""

from __future__ import annotations

import math
from typing import Any

import pytest

from filemem.dialects.mama_v1 import compute_freshness
from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from filemem.record import parse_time
from tests.dialects.support import good, refused

DAY = 86_400_000


def decide(memory: Memory, topic: str, decision: str, **more: Any) -> Any:
    fields = {"topic": topic, "decision": decision, "reasoning": "Because", **more}
    return good(memory, "mama-v1", "save_decision", **fields)


@pytest.mark.requirement("v1-tools")
def test_the_five_tools_are_what_is_listed() -> None:
    names = [
        "save_decision",
        "recall_decision",
        "suggest_decision",
        "list_decisions",
        "update_outcome",
    ]
    assert [tool.name for tool in load_profile("mama-v1").listed_tools] == names


@pytest.mark.requirement("v1-recency")
@pytest.mark.parametrize("decay", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("scale", [0.5, 7, 30])
def test_the_value_at_the_scale_point_is_the_decay(decay: float, scale: float) -> None:
    assert compute_freshness(0, scale, decay) == 1
    assert math.isclose(compute_freshness(scale, scale, decay), decay)
    assert math.isclose(compute_freshness(2 * scale, scale, decay), decay**4)
    assert compute_freshness(1e9, scale, decay) < 1e-6


@pytest.mark.requirement("v1-recency", "v1-recency-weight")
def test_age_counts_as_much_as_the_weight_says(memory: Memory) -> None:
    decide(memory, "cache_a", "Cache pages in memory")
    now = memory.get_time()
    memory._store.clock = lambda: now + 7 * DAY
    decide(memory, "cache_b", "Write logs to a file")

    def ask(**how: Any) -> Any:
        told = good(
            memory, "mama-v1", "suggest_decision", userQuestion="cache pages in memory", **how
        )
        return told["suggestions"]

    alone = ask(recencyWeight=0)
    assert [one["topic"] for one in alone] == ["cache_a", "cache_b"]
    assert all(one["final_score"] == one["similarity"] for one in alone)
    only_age = ask(recencyWeight=1)
    assert [(one["topic"], one["final_score"]) for one in only_age] == [
        ("cache_b", 1.0),
        ("cache_a", 0.5),
    ]
    assert [one["recency_days"] for one in only_age] == [0.0, pytest.approx(7, abs=0.01)]
    assert {one["topic"]: one["final_score"] for one in ask(recencyWeight=1, recencyDecay=0.2)}[
        "cache_a"
    ] == 0.2
    [default] = [one for one in ask() if one["topic"] == "cache_a"]
    assert default["final_score"] == pytest.approx(
        0.7 * default["similarity"] + 0.3 * 0.5, abs=1e-3
    )


@pytest.mark.requirement("v1-recency", "v1-suggest")
def test_what_is_new_and_unlike_does_not_hide_what_is_old_and_meant(memory: Memory) -> None:
    decide(memory, "session_tokens", "Sign session tokens with rotating keys")
    now = memory.get_time()
    memory._store.clock = lambda: now + 114 * DAY
    for n, said in enumerate(
        ("Bake bread on Sundays", "Paint the shed green", "Plant tulips", "Feed the cat twice")
    ):
        decide(memory, f"home{n}", said)
    told = good(
        memory, "mama-v1", "suggest_decision", userQuestion="how are session tokens signed?"
    )
    assert told["suggestions"][0]["topic"] == "session_tokens"


@pytest.mark.requirement("v1-suggest")
def test_the_decision_that_holds_comes_before_the_one_it_replaced(memory: Memory) -> None:
    decide(memory, "db", "Use SQLite as the database")
    decide(memory, "db", "Use Postgres as the database")
    told = good(
        memory, "mama-v1", "suggest_decision", userQuestion="SQLite database", recencyWeight=0
    )
    assert [one["decision"] for one in told["suggestions"]] == [
        "Use Postgres as the database",
        "Use SQLite as the database",
    ]
    assert told["suggestions"][1]["outcome"] == "superseded"
    empty = good(memory, "mama-v1", "suggest_decision", userQuestion="zzzz", limit=1)
    assert empty["success"] is True


@pytest.mark.requirement("v1-list", "v1-list-offset", "v1-list-markdown", "v1-outcome-words")
def test_listing_has_pages(memory: Memory) -> None:
    for n in range(12):
        decide(memory, f"topic{n}", f"Decision {n}", outcome="success" if n == 11 else "pending")
    first = good(memory, "mama-v1", "list_decisions")
    assert [one["topic"] for one in first["decisions"]] == [f"topic{n}" for n in range(11, 1, -1)]
    second = good(memory, "mama-v1", "list_decisions", limit=10, offset=10)
    assert [one["topic"] for one in second["decisions"]] == ["topic1", "topic0"]
    assert first["list"].startswith("1. **topic11**: Decision 11 (success, ")
    assert second["list"].startswith("11. **topic1**: Decision 1 (pending, ")
    assert good(memory, "mama-v1", "list_decisions", offset=50)["decisions"] == []


@pytest.mark.requirement("v1-recall-timestamp", "v1-recall-supersedes")
def test_history_tells_when_and_what_was_superseded(memory: Memory) -> None:
    one = decide(memory, "x", "First")["decision_id"]
    two = decide(memory, "x", "Second")["decision_id"]
    history = good(memory, "mama-v1", "recall_decision", topic="X")["history"]
    assert [step["decision_id"] for step in history] == [one, two]
    assert [step.get("supersedes") for step in history] == [None, [one]]
    assert [step["outcome"] for step in history] == ["superseded", "pending"]
    assert all(parse_time(step["timestamp"]) for step in history)


@pytest.mark.requirement("v1-update-topic")
def test_a_forked_topic_needs_an_id(memory: Memory) -> None:
    one = decide(memory, "fork", "Tabs")["decision_id"]
    two = memory.save(topic="fork", decision="Spaces", reasoning="Taste", supersedes=[]).id
    told = refused(memory, "mama-v1", "update_outcome", topic="fork", outcome="success")
    assert "2 decisions hold at once" in told["message"]
    assert one in told["hint"]
    assert two in told["hint"]
    assert (
        good(memory, "mama-v1", "update_outcome", decision_id=two, outcome="partial")["outcome"]
        == "partial"
    )


@pytest.mark.requirement("v1-save-outcome", "v1-save-type")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("pending", "pending"),
        ("SUCCESS", "success"),
        ("failure", "failed"),
        ("superseded", "pending"),
    ],
)
def test_outcome_and_decider_are_kept_in_our_words(memory: Memory, given: str, kept: str) -> None:
    saved = decide(memory, "t", "D", outcome=given, type="user_decision")
    record = memory.get(saved["decision_id"])[0].record
    assert (record.outcome, record.decided_by, record.confidence) == (kept, "user", 0.5)


@pytest.mark.requirement("v1-save-outcome", "v1-outcome-words")
def test_a_decision_saved_as_superseded_is_shown_so_and_does_not_hold(memory: Memory) -> None:
    saved = decide(memory, "t", "D", outcome="Superseded")
    assert "deprecated" in saved["message"]
    [step] = good(memory, "mama-v1", "recall_decision", topic="t")["history"]
    assert step["outcome"] == "superseded"
    assert memory.search("", live=True).hits == ()
    told = refused(
        memory, "mama-v1", "save_decision", topic="t", decision="D", reasoning="R", outcome="meh"
    )
    assert "pending, success, partial, failure, superseded, not" in told["message"]
