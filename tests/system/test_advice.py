"""What an answer adds so that nobody is misled: repeated saves, near topics, restrictions that are none, far hits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.dialects.calling import call
from filemem.dialects.profiles import profile
from filemem.memory import Memory
from tests.support import git, make_repo


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
    assert "nothing was written" in again.message
    assert git(memory.work_tree, "rev-parse", "HEAD") == head


@pytest.mark.parametrize("change", [{"reasoning": "It is fast"}, {"outcome": "success"}, {"rejected": ["MySQL: slow"]}])
def test_a_call_that_says_more_replaces(memory: Memory, change: dict[str, object]) -> None:
    fields = {"topic": "database", "decision": "Use Postgres", "reasoning": "We know it well", **change}
    assert len(memory.save(**fields).superseded) == 1


def test_a_topic_that_is_spelt_nearly_alike_is_pointed_out(memory: Memory) -> None:
    saved = memory.save(topic="databases", decision="Keep backups for a year", reasoning="The auditors ask for it")
    assert [(near.topic, "supersedes" in near.hint) for near in saved.similar] == [("database", True)]
    assert memory.save(topic="datagrams", decision="Send less", reasoning="They get lost").similar == ()


def test_what_is_on_the_topic_already_is_told_by_how_it_stands(memory: Memory) -> None:
    def save(years: int, **more: object) -> list[tuple[str, str]]:
        text = f"Keep the backups of the production database for {years} years"
        saved = memory.save(topic="backups", decision=text, reasoning="The auditors ask for it", **more)
        return [(near.title, near.hint.partition(";")[0]) for near in saved.similar]

    assert [save(years) for years in (1, 2, 3, 4)] == [[]] * 4, "what was replaced is nothing to reuse"
    title = "Keep the backups of the production database for {} years"
    assert save(5, status="rejected", supersedes=[]) == [(title.format(4), "it holds on this topic too")]
    assert save(6) == [(title.format(5), "it was rejected on this topic")]
    assert save(7, status="proposed", supersedes=[])[0] == (title.format(6), "it holds on this topic too")
    told = save(8)
    assert (title.format(7), "it is proposed on this topic") in told
    assert title.format(6) not in dict(told)


def test_the_decision_comes_before_the_checkpoint_that_speaks_of_it(memory: Memory) -> None:
    assert [hit.record.type for hit in memory.search("which database do we use").hits] == ["decision", "checkpoint"]


@pytest.mark.parametrize("query", ["since:lately postgres", "outcome:broken postgres", "is:dead postgres"])
def test_what_is_no_restriction_is_told(memory: Memory, query: str) -> None:
    found = memory.search(query)
    assert f"{query.split()[0]} is no restriction" in found.note
    assert found.hits


def test_a_topic_that_is_not_there_brings_the_nearest(memory: Memory) -> None:
    for query in ("topic:databse postgres", "topic:databse"):
        assert "did you mean database" in memory.search(query).note


def test_a_decision_just_written_by_hand_replaces_what_held(memory: Memory) -> None:
    path = memory.folder / "decisions/database/by-hand.md"
    path.write_text("---\ntopic: database\n---\n# Use SQLite\n")
    memory.refresh(full=True)
    held = {hit.record.title: bool(hit.superseded_by) for hit in memory.search("topic:database").hits}
    assert held == {"Use SQLite": False, "Use Postgres": True}


def test_deleting_a_decision_tells_what_holds_again(memory: Memory) -> None:
    newer = memory.save(topic="database", decision="Use SQLite", reasoning="One process, one file")
    told = memory.delete(newer.id).message
    assert all(part in told for part in ("'Use Postgres'", newer.superseded[0], "holds again"))
    assert "again" not in memory.delete(newer.superseded[0]).message


def test_an_answer_that_is_far_off_says_so(memory: Memory) -> None:
    assert "nothing is close" in memory.search("unicorn shampoo").note or not memory.search("unicorn shampoo").hits
    assert memory.search("postgres").note == ""


def test_an_edge_that_leads_nowhere_is_told_by_the_save(memory: Memory) -> None:
    gone = "decision_auth_strategy_1763650000123_zzzzzzzz"
    first = memory.save(topic="auth", decision="Use JWT", reasoning="Stateless")
    saved = memory.save(topic="tokens", decision="Rotate", reasoning=f"builds_on: {first.id}\nbuilds_on: {gone}")
    assert (first.note, saved.note.partition(":")[0]) == ("", f"no record {gone}")
    fields = {"type": "decision", "topic": "a", "decision": "b", "reasoning": f"debates: {gone}"}
    for dialect in ("native", "mama"):
        assert f"no record {gone}" in str(call(profile(dialect).dialect, memory, "save", fields).payload)


def test_deleting_what_ended_a_fork_says_that_the_topic_is_forked_again(memory: Memory) -> None:
    first = memory.save(topic="queue", decision="Use Kafka", reasoning="r")
    other = memory.save(topic="queue", decision="Use NATS", reasoning="r", supersedes=[])
    ended = memory.resolve("queue", decision="Use NATS for now", reasoning="r")
    done = memory.delete(ended.id)
    assert all(part in done.message for part in ("'Use Kafka'", "'Use NATS'", "hold again"))
    assert all(part in done.note for part in ("topic queue is forked: 2 decisions", "filemem resolve queue"))
    assert memory.delete(other.id).note == "", "it ends the fork"
    assert memory.search("topic:queue is:live").hits[0].id == first.id
