"""Advice: one sentence beside an answer that helps to go on, and an empty answer says why it is empty (design 2, 7)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory import Memory
from filemem.memory.advice import advise
from tests.support import git, make_repo, write


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory with a decision and a checkpoint about the same thing."""
    with Memory.open(make_repo(tmp_path / "repo")) as opened:
        opened.save(topic="database", decision="Use Postgres", reasoning="We know it well")
        opened.save(summary="Database swap half done, pending: which database driver to use")
        yield opened


def test_a_call_that_is_repeated_writes_nothing(memory: Memory) -> None:
    head = git(memory.work_tree, "rev-parse", "HEAD")
    first = memory.search("postgres", type="decision").hits[0].record.id
    again = memory.save(topic="database", decision="Use Postgres", reasoning="We know it well")
    assert (again.id, again.superseded) == (first, ())
    told = r"Decision on database holds already since 20\d\d-\d\d-\d\d in these words; nothing was written"
    assert re.fullmatch(told, again.message)
    assert (
        memory.save(topic="Database", decision="Use Postgres", reasoning="We know it well").id
        == first
    )
    assert git(memory.work_tree, "rev-parse", "HEAD") == head


def test_an_observation_that_is_saved_again_is_remembered_already(memory: Memory) -> None:
    first = memory.save(title="API limit", text="100 a minute", session="a", tags=["x"])
    head = git(memory.work_tree, "rev-parse", "HEAD")
    again = memory.save(title="API limit", text="100 a minute", session="b", tags=["x"])
    assert (again.id, again.created, again.repeated) == (first.id, first.created, True)
    assert again.message == "already remembered; nothing was written"
    assert git(memory.work_tree, "rev-parse", "HEAD") == head
    changes: list[dict[str, Any]] = [{"text": "90"}, {"user_id": "ada"}, {"tags": []}]
    for change in (*changes, {"kind": "bugfix"}):
        fields = {"title": "API limit", "text": "100 a minute", "tags": ["x"], **change}
        assert not memory.save(**fields).repeated, change


@pytest.mark.parametrize(
    "change", [{"reasoning": "It is fast"}, {"outcome": "success"}, {"rejected": ["MySQL: slow"]}]
)
def test_a_call_that_says_more_replaces_and_names_what(
    memory: Memory, change: dict[str, object]
) -> None:
    fields = {
        "topic": "database",
        "decision": "Use Postgres",
        "reasoning": "We know it well",
        **change,
    }
    saved = memory.save(**fields)
    assert len(saved.superseded) == 1
    assert (
        saved.message
        == f"Decision saved on database, replacing Use Postgres ({saved.superseded[0][-8:]})"
    )


def test_a_topic_that_is_spelt_nearly_alike_is_pointed_out(memory: Memory) -> None:
    saved = memory.save(
        topic="databases", decision="Pool the connections", reasoning="They are dear"
    )
    assert [(near.topic, "this topic is new" in near.hint) for near in saved.similar] == [
        ("database", True)
    ]
    assert (
        memory.save(topic="datagrams", decision="Send less", reasoning="They get lost").similar
        == ()
    )


@pytest.mark.parametrize("topic", ["database_engine", "Database: engine", "pg"])
def test_a_decision_under_a_longer_topic_or_with_the_same_title_is_pointed_out(
    memory: Memory, topic: str
) -> None:
    saved = memory.save(topic=topic, decision="Use Postgres", reasoning="JSON columns are fast")
    assert [near.topic for near in saved.similar] == ["database"]
    assert (
        memory.save(
            topic="database_users", decision="Hash with argon2id", reasoning="Slow to guess"
        ).similar
        == ()
    )


def test_the_first_spelling_of_a_topic_stays(memory: Memory) -> None:
    saved = memory.save(topic="DATABASE", decision="Use SQLite", reasoning="No server to run")
    assert saved.message.startswith("Decision saved on database, replacing Use Postgres")
    assert [topic.topic for topic in memory.topics().topics] == ["database"]


def test_a_save_shows_what_it_replaces_with_its_age_and_reason(memory: Memory) -> None:
    memory.save(topic="api", decision="Use REST", reasoning="Everybody\nknows it. " + "x" * 200)
    store = memory._store
    now = store.clock()
    store.clock = lambda: now + 3 * 3_600_000
    saved = memory.save(topic="api", decision="Use GraphQL", reasoning="Six calls for a screen")
    [line] = saved.replaced
    assert line.startswith("Use REST (3 hours old): Everybody knows it. xxx")
    assert (line[-1], len(line)) == ("…", len("Use REST (3 hours old): ") + 160)
    assert saved.undo == f"delete {saved.id[-8:]}"
    proposed = memory.save(topic="api", decision="Use gRPC", reasoning="r", status="proposed")
    assert (proposed.replaced, proposed.would_supersede) == ((), (saved.id,))


def test_a_save_that_forks_its_topic_names_what_holds_beside_it(memory: Memory) -> None:
    old = memory.save(topic="api", decision="Use REST", reasoning="r")
    other = memory.save(topic="storage", decision="Use files", reasoning="r")
    saved = memory.save(topic="api", decision="Use RPC", reasoning="r", supersedes=[other.id])
    assert f"on this topic holds too: Use REST ({old.id[-8:]})" in saved.note
    both = [old.id, saved.id]
    assert not memory.save(topic="api", decision="Use SQL", reasoning="r", supersedes=both).note


def test_replacing_one_of_several_that_say_the_same_names_those_that_still_hold(
    memory: Memory,
) -> None:
    same = {"decision": "Retry failed payments three times", "reasoning": "The bank is slow"}
    for topic in ("payments", "retries", "bank", "orders"):
        memory.save(topic=topic, **same)
    memory.save(topic="orders", decision="Ask the bank", reasoning="It knows")
    memory.save(topic="idea", **same, status="proposed")
    saved = memory.save(topic="payments", decision="Queue what failed", reasoning="No storms")
    assert {near.topic for near in saved.similar} == {"retries", "bank"}
    assert all(
        "it says what this replaces, and it still holds" in near.hint for near in saved.similar
    )
    for near in saved.similar:
        memory.update(near.id, status="deprecated")
    assert memory.save(topic="payments", decision="Do not retry", reasoning="r").similar == ()
    proposed = memory.save(topic="database", decision="Use files", reasoning="r", status="proposed")
    assert proposed.similar == (), "what is proposed replaces nothing"


def test_what_a_topic_rejected_before_is_pointed_out(memory: Memory) -> None:
    fields = {"topic": "backups", "decision": "Keep the backups for five years"}
    rejected = memory.save(**fields, reasoning="The auditors ask", status="rejected")
    again = memory.save(**fields, reasoning="They ask again")
    assert [(near.id, near.hint) for near in again.similar] == [
        (rejected.id, "it is rejected on this topic")
    ]


def test_a_save_names_characters_that_nobody_sees(memory: Memory) -> None:
    saved = memory.save(title="A note", text="One\ntw\u200bo")
    lines = (memory.work_tree / saved.path).read_text().splitlines()
    at = 1 + lines.index("tw\u200bo")
    assert f"line {at} of the file holds U+200B" in saved.note


def test_affects_are_carried_over_unless_it_says_otherwise(memory: Memory) -> None:
    memory.save(topic="cache", decision="Use Redis", reasoning="r", affects=["code.py", "src/a.py"])
    kept = memory.save(topic="cache", decision="Use Valkey", reasoning="r")
    assert memory.get(kept.id)[0].record.affects == ("code.py", "src/a.py")
    assert kept.note == "still governs code.py, src/a.py, as what it replaces did"
    left = memory.save(topic="cache", decision="Use a dict", reasoning="r", affects=["code.py"])
    assert (memory.get(left.id)[0].record.affects, left.note) == (("code.py",), "")
    for nothing in (["none"], []):
        dropped = memory.save(
            topic="cache", decision=f"Use no cache {nothing}", reasoning="r", affects=nothing
        )
        assert memory.get(dropped.id)[0].record.affects == ()


def test_a_resolved_fork_governs_what_both_sides_did(memory: Memory) -> None:
    memory.save(
        topic="queue", decision="Use Kafka", reasoning="r", affects=["src/a.py", "src/b.py"]
    )
    memory.save(
        topic="queue",
        decision="Use NATS",
        reasoning="r",
        affects=["src/b.py", "src/c.py"],
        supersedes=[],
    )
    ended = memory.resolve("queue", decision="Use NATS for now", reasoning="r")
    assert memory.get(ended.id)[0].record.affects == ("src/a.py", "src/b.py", "src/c.py")


def test_an_update_says_what_a_decision_governs_from_now_on(memory: Memory) -> None:
    saved = memory.save(topic="cache", decision="Use Redis", reasoning="r", affects=["code.py"])
    before = (memory.work_tree / saved.path).read_text()
    told = memory.update(saved.id, affects=["code.py", str(memory.work_tree / "src/a.py")])
    assert told.message.endswith(": affects code.py, src/a.py")
    after = (memory.work_tree / saved.path).read_text()
    assert after == before.replace("affects: [code.py]", "affects: [code.py, src/a.py]")
    memory.update(saved.id, affects=[])
    assert (memory.work_tree / saved.path).read_text() == before.replace("affects: [code.py]\n", "")
    with pytest.raises(BadInput, match="an observation has no affects"):
        memory.update(memory.save(title="t", text="x").id, affects=["code.py"])


def test_a_failure_without_a_reason_is_asked_for_one(memory: Memory) -> None:
    assert "say why" in memory.update("Use Postgres", outcome="failed").warning
    assert (
        memory.update("Use Postgres", outcome="failed", reason="It filled the disk").warning == ""
    )


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_holds_stands_first_where_a_path_is_asked_for(memory: Memory, by_hand: bool) -> None:
    memory.save(topic="cache", decision="Use Redis", reasoning="r", affects=["src/a.py"])
    memory.save(topic="style", decision="Format all code", reasoning="r", affects=["src/**"])
    if by_hand:
        write(memory.folder / "decisions/by-hand.md", "---\ntopic: cache\n---\n# Use a dict\n")
        memory.refresh(full=True)
    else:
        memory.save(topic="cache", decision="Use a dict", reasoning="r", affects=[])
    for query in ("", "cache"):
        found = [
            (hit.title, bool(hit.superseded_by))
            for hit in memory.search(query, path="src/a.py").hits
        ]
        assert ("Use a dict", False) in found[:2]
        assert found.index(("Use a dict", False)) < found.index(("Use Redis", True))
        assert "Use Redis" not in {
            hit.title for hit in memory.search(query, path="src/a.py", live=True).hits
        }
    assert {hit.title for hit in memory.search(path="src/a.py", live=True).hits} == {
        "Use a dict",
        "Format all code",
    }


def test_an_edge_that_leads_nowhere_is_refused(memory: Memory) -> None:
    gone = "decision_auth_strategy_1763650000123_zzzzzzzz"
    with pytest.raises(NotFound, match="builds_on: no record"):
        memory.save(topic="tokens", decision="Rotate again", reasoning="r", builds_on=[gone])


def test_a_forked_topic_asks_which_and_is_resolved(memory: Memory) -> None:
    first = memory.save(topic="queue", decision="Use Kafka", reasoning="r")
    other = memory.save(topic="queue", decision="Use NATS", reasoning="r", supersedes=[])
    with pytest.raises(Conflict, match="queue is forked") as forked:
        memory.save(topic="queue", decision="Use Rabbit", reasoning="r")
    assert set(forked.value.heads) == {first.id, other.id}
    ended = memory.resolve("queue", decision="Use NATS for now", reasoning="r")
    assert set(ended.superseded) == {first.id, other.id}
    with pytest.raises(BadInput, match="is not forked"):
        memory.resolve("queue", decision="Again", reasoning="r")
    with pytest.raises(NotFound) as unknown:
        memory.resolve("queues", decision="Again", reasoning="r")
    assert "did you mean queue" in unknown.value.hint
    memory.delete(ended.id)
    assert set(memory.history("queue").heads) == {first.id, other.id}, (
        "what it replaced holds again"
    )


@pytest.mark.parametrize(
    "query", ["since:lately postgres", "outcome:broken postgres", "is:dead postgres"]
)
def test_what_is_no_restriction_is_said(memory: Memory, query: str) -> None:
    found = memory.search(query)
    assert f"{query.split()[0]} is not a filter" in found.note
    assert found.hits


def test_an_answer_that_is_far_off_says_so(memory: Memory) -> None:
    assert (
        "nothing is close" in memory.search("unicorn shampoo").note
        or not memory.search("unicorn shampoo").hits
    )
    assert memory.search("postgres").note == ""


def test_a_name_that_leads_nowhere_brings_the_nearest(memory: Memory) -> None:
    for name, hint in (
        ("Use Postgers", "did you mean Use Postgres"),
        ("database", "database is a topic, on which holds Use Postgres"),
    ):
        with pytest.raises(NotFound) as unknown:
            memory.get(name)
        assert hint in unknown.value.hint


def test_an_empty_memory_says_so_where_a_record_is_named(tmp_path: Path) -> None:
    with Memory.open(make_repo(tmp_path / "empty")) as empty, pytest.raises(NotFound) as unknown:
        empty.get("payments")
    assert unknown.value.hint == "nothing is saved yet"


EMPTY: list[tuple[dict[str, Any], str]] = [
    ({"tag": "performnce"}, "no record has tag 'performnce': did you mean performance?"),
    ({"type": "checkpoint"}, "no record has type 'checkpoint'"),
    ({"since": "2099-01-01"}, "no record passes these filters"),
    ({"path": "docs/none.md"}, "no record passes these filters"),
    ({"topic": "cachng"}, "no record has topic 'cachng': did you mean caching?"),
    ({"tag": "performance", "topic": "caching"}, "no record passes these filters"),
    ({"offset": 50}, "nothing from offset 50 on"),
]


def test_an_empty_answer_says_why(repo: Path) -> None:
    with Memory.open(repo) as memory:
        memory.save(
            topic="caching",
            decision="Use Redis for the cache",
            reasoning="Speed",
            affects=["code.py"],
        )
        memory.save(title="Tests are slow", text="On two cores", tags=["performance"])
        for asked, told in EMPTY:
            found = memory.search("", **asked)
            assert (found.hits, told in found.note) == ((), True), found.note


def test_a_memory_whose_files_are_gone_is_not_said_to_be_empty(memory: Memory) -> None:
    repo = memory.work_tree
    (repo / "memory").rename(repo / "aside")
    memory.refresh(full=True)
    assert "git restore memory" in memory.search("postgres").degraded
    assert len(memory.status()["gone"]) == 2
    (repo / "aside").rename(repo / "memory")
    memory.refresh(full=True)
    assert memory.search("postgres").hits


def test_a_save_waits_for_no_hint_for_which_there_is_no_time(memory: Memory) -> None:
    memory.save(topic="cache key", decision="Hash the path", reasoning="Paths are long")
    store = memory._store
    new = memory.save(topic="cache keys", decision="Hash the path and size", reasoning="Paths grow")
    [record] = store.read_records([store.require_node(new.id).path]).values()
    record = record._replace(supersedes=())
    assert advise(store, record, is_implied=False, has_time=lambda: True).similar
    assert not advise(store, record, is_implied=False, has_time=lambda: False).similar
