"""Answers that are cut: no result is lost and no fact, and what budget there is goes to texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from filemem.dialects.call import cut_to_budget
from filemem.memory import Memory
from tests.dialects.support import ask, good

BUDGET = 8_000
FACTS = (
    "id",
    "type",
    "topic",
    "title",
    "path",
    "created",
    "status",
    "outcome",
    "holds",
    "superseded_by",
    "by",
)


def result(number: int, **texts: Any) -> dict[str, Any]:
    """A result with the facts of a usual one, some 600 characters."""
    return {
        "id": f"decision_gateway_timeouts_17600000000{number:02}_ab12tz5r",
        "type": "decision",
        "topic": "gateway timeouts",
        "title": f"{number}. Give every call of the gateway a deadline of its own",
        "path": f"memory/decisions/gateway/timeouts/20251009-give-every-call-of-the-gateway-a-deadline-{number:08}.md",
        "created": "2025-10-09T08:53:20.000Z",
        "score": 0.5,
        "holds": False,
        "superseded_by": ["decision_gateway_timeouts_1760000000099_ab12tz5r"],
        "status": "accepted",
        "outcome": "failed",
        "by": {
            "author": "Ada",
            "commit": "4cf6b96aa0d6ec8a952397c1c4239f0079ea499d",
            "branch": "main",
            "merged": True,
        },
        **texts,
    }


def size(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))


def reasons(*said: str) -> list[dict[str, str]]:
    return [{"at": "2025-11-09T08:53:20.000Z", "outcome": "failed", "reason": one} for one in said]


def test_facts_stay_and_every_result_says_something_of_its_text() -> None:
    results = [
        result(n, snippet="s" * 240, decision="d" * 400, text="t" * 3_000) for n in range(10)
    ]
    answer = cut_to_budget({"success": True, "results": results}, BUDGET)
    assert size(answer) <= BUDGET
    for whole, shown in zip(results, answer["results"], strict=True):
        assert {name: shown[name] for name in FACTS} == {name: whole[name] for name in FACTS}
        assert shown["snippet"].startswith("s" * 25)
        assert shown["truncated"]
    assert len(answer["results"][0]["snippet"]) > len(answer["results"][1]["snippet"]), (
        "the best is told most fully"
    )


def test_the_newest_reason_is_the_one_that_stays() -> None:
    results = [
        result(n, text="t" * 3_000, reasons=reasons("first", "second", "last " * 40))
        for n in range(5)
    ]
    shown = cut_to_budget({"results": results}, 5_000)["results"]
    assert all(one["reasons"][-1]["reason"].startswith("last last") for one in shown)


def test_a_snippet_is_cut_around_what_was_found() -> None:
    said = f"{'so it goes on ' * 8}until Redis and its replica end {'so it goes on ' * 6}".strip()
    found = [[said.index(word), said.index(word) + len(word)] for word in ("Redis", "replica")]
    results = [result(n, snippet=said, highlight=found, text="t" * 3_000) for n in range(10)]
    results.append(result(10, snippet="Redis first, " + said, highlight=[[0, 5]]))
    shown = [one["snippet"] for one in cut_to_budget({"results": results}, BUDGET)["results"]]
    assert all("until Redis and its replica end" in one for one in shown[:-1])
    assert shown[-2].startswith("…so it goes on until")
    assert shown[-1].startswith("Redis first, so it goes on")


def test_the_text_says_what_the_object_says_and_notes_come_first(memory: Memory) -> None:
    old = good(
        memory,
        "native",
        "save",
        topic="cache",
        decision="Use Redis",
        reasoning="Shared\n2. between workers",
    )
    new = good(
        memory, "native", "save", topic="cache", decision="Use an LRU", reasoning="One process"
    )
    reply = ask(memory, "native", "search", query="zzz redis qqq", mode="keyword")
    lines = reply.text.splitlines()
    assert lines[0].startswith("1. Use an LRU · holds · decision · cache · ")
    assert f"   superseded_by: Use an LRU ({new['id']})" in lines
    assert f"   id: {old['id']}" in lines
    assert "   > 2. between workers" in lines, "no line of a record begins as ours do"
    noted = ask(memory, "native", "get", id="cache").text
    assert noted.startswith("note: 'cache' is a topic")


def test_ten_small_results_are_shown_whole(memory: Memory) -> None:
    for at in range(10):
        decision = f"Cache orders in level {at} for {at} minutes"
        good(
            memory,
            "native",
            "save",
            topic=f"cache level {at}",
            decision=decision,
            reasoning="Prices change rarely.",
        )
    answer = good(memory, "native", "search", query="how do we cache orders?", limit=10)
    assert size(answer) <= 4_000
    assert len(answer["results"]) == 10
    assert all(
        one["path"] and one["created"] and "truncated" not in one for one in answer["results"]
    )


LISTS: list[tuple[str, str, dict[str, Any], int]] = [
    ("native", "search", {"query": "gateway"}, 4_000),
    ("native", "search", {"query": "gateway", "detail": True}, 8_000),
    ("native", "timeline", {"query": "gateway"}, 4_000),
    ("mama", "search", {"query": "gateway"}, 8_000),
    ("openclaw", "mama_search", {}, 8_000),
    ("mama-v1", "suggest_decision", {"userQuestion": "gateway"}, 8_000),
    ("mama-v1", "list_decisions", {}, 8_000),
    ("powermem", "search_memories", {"query": "gateway"}, 8_000),
    ("powermem", "list_memories", {}, 8_000),
    ("mem-claude", "search", {"query": "gateway"}, 8_000),
    ("mem-claude", "timeline", {"query": "gateway"}, 8_000),
    ("project-memory", "retrieve_context", {"query": "gateway"}, 8_000),
]


@pytest.mark.requirement("profiles")
def test_the_budget_holds_in_every_profile_and_no_result_is_left_out(memory: Memory) -> None:
    for at in range(10):
        decision = f"Give call number {at} of the gateway a deadline of its own"
        memory.save(
            topic=f"gateway timeouts {at}",
            decision=decision,
            reasoning="The gateway waits too long. " * 75,
        )
    for name, tool, arguments, budget in LISTS:
        answer = good(memory, name, tool, **arguments)
        assert size(answer) <= budget, (name, tool, size(answer))
        results = next(
            answer[key]
            for key in ("results", "suggestions", "decisions", "observations")
            if key in answer
        )
        usual = 5 if name in ("project-memory", "mama-v1") or tool == "timeline" else 10
        assert len(results) >= min(usual, answer.get("count", usual))


@pytest.mark.requirement("profiles")
def test_what_is_cut_says_so_in_every_profile_and_how_to_read_it(memory: Memory) -> None:
    for at in range(10):
        memory.save(
            topic=f"gateway timeouts {at}",
            decision=f"Give call number {at} of the gateway a deadline of its own",
            reasoning="The gateway waits too long. " * 75,
        )
    ways = {
        "native": "get shows",
        "powermem": "get_memory shows",
        "mem-claude": "get_observations shows",
    }
    for name, tool, arguments, _ in LISTS:
        answer = good(memory, name, tool, **arguments)
        rows = answer.get("results") or answer.get("suggestions") or answer.get("decisions") or []
        cut = answer.get("truncated") or [
            row["id"] if "id" in row else row["decision_id"]
            for row in rows
            if isinstance(row, dict) and "truncated" in row
        ]
        if name == "project-memory":
            assert cut
            assert set(cut) <= set(answer["ids"])
        if cut and (name, arguments) != ("native", {"query": "gateway"}):
            assert ways.get(name, "limit 1 shows") in answer["note"], (name, tool)


@pytest.mark.requirement("profiles")
def test_one_result_alone_is_never_cut(memory: Memory) -> None:
    text = "The gateway waits too long. " * 600
    memory.save(text=f"Zymurgy.\n\n{text}", kind="context")
    for name, tool, arguments, _ in LISTS:
        words = {key: "zymurgy" for key in arguments if key != "detail"}
        if name == "mama-v1":
            continue
        for more in ({}, {"limit": 1}):
            if tool == "timeline" and more:
                continue
            answer = good(memory, name, tool, **words, **more)
            assert "truncated" not in str(answer), (name, tool)
            if name != "mem-claude":
                assert text.strip() in str(answer.get("results")).replace("\\n", "\n"), (name, tool)


@pytest.mark.requirement("profiles")
def test_the_newest_three_of_a_chain_are_shown_and_the_others_counted(memory: Memory) -> None:
    ids = [
        memory.save(topic="evolve", decision=f"Step {at} of the zebra plan", reasoning="x").id
        for at in range(5)
    ]
    newest = ids[:1:-1]
    for name, tool, arguments in (
        ("native", "search", {"query": "zebra plan"}),
        ("native", "search", {"query": "zebra plan", "detail": True}),
        ("mama", "search", {"query": "zebra plan"}),
        ("openclaw", "mama_search", {"query": "zebra plan"}),
        ("powermem", "search_memories", {"query": "zebra plan"}),
        ("mem-claude", "search", {"query": "zebra plan"}),
    ):
        answer = good(memory, name, tool, **arguments)
        rows = answer.get("results") or answer["observations"]
        assert [row.get("record", row["id"]) for row in rows] == newest, name
        assert [row.get("earlier") for row in rows] == [2, None, None], name
    asked = good(memory, "project-memory", "retrieve_context", query="zebra plan")
    assert (asked["ids"], asked["earlier"]) == (newest, 2)
    asked = good(memory, "mama-v1", "suggest_decision", userQuestion="zebra plan")
    rows = {row["decision_id"]: row.get("earlier") for row in asked["suggestions"]}
    assert rows == {newest[0]: 2, newest[1]: None, newest[2]: None}


def test_five_results_are_shown_and_far_ones_only_counted(memory: Memory) -> None:
    for at in range(8):
        good(
            memory,
            "native",
            "save",
            topic=f"cache level {at}",
            decision=f"Cache orders in level {at} for {at} minutes",
            reasoning="Prices change rarely.",
        )
    assert good(memory, "native", "search", query="cache orders")["count"] == 5
    far = ask(memory, "native", "search", query="zzz qqq xyzzy")
    structure: Any = far.payload
    assert far.text.startswith("note: nothing is close")
    assert len(far.text) < 240, "sixty tokens"
    assert not structure["results"]
