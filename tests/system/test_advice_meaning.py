"""What a server says by meaning of a new decision: the same is decided elsewhere, or it belongs elsewhere.

tests/system/advice holds the data: what a memory holds, replacements, pairs of decisions. The thresholds here stand a
little below what was measured: 18 of 20 near ones named, no other; 10 of 10 wrong topics warned of, no right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.index import Index
from filemem.memory import Memory
from filemem.memory.save import WriteResult

DATA = Path(__file__).parent / "advice"


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (DATA / f"{name}.tsv").read_text().splitlines()]


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """A memory that a server keeps open."""
    with Memory.open(repo, serving=True) as opened:
        opened.refresh(full=True)
        yield opened


def save(memory: Memory, topic: str, decision: str, reasoning: str, **more: object) -> WriteResult:
    return memory.save(topic=topic, decision=decision, reasoning=reasoning, **more)


def test_no_right_replacement_is_warned_of_and_most_wrong_topics_are(memory: Memory) -> None:
    for topic, decision, reasoning in rows("held"):
        save(memory, topic, decision, reasoning)
    warned = {"right": list[str](), "wrong": list[str]()}
    for kind, topic, decision, reasoning in rows("replacements"):
        done = save(memory, topic, decision, reasoning)
        assert done.superseded
        if done.warning:
            warned[kind].append(done.warning)
        memory.delete(done.id)
    assert warned["right"] == []
    assert len(warned["wrong"]) >= 9
    assert all("than to what it replaces" in warning for warning in warned["wrong"])


def test_a_warning_names_where_it_may_belong_and_how_to_put_it_there(memory: Memory) -> None:
    save(memory, "auth", "Session cookies", "A script could read the token.")
    save(memory, "rate limiting", "Allow 60 requests a minute", "A script took all the workers.")
    done = save(memory, "auth", "Limit API keys to 100 requests a minute", "One took all workers.")
    assert "'Allow 60 requests a minute' on topic 'rate limiting'" in done.warning
    assert f"delete {done.id[-8:]} and save it on that topic" in done.warning
    assert "undo" not in done.warning
    assert done.similar == ()
    stated = save(memory, "auth", "Limit to 90 requests a minute", "r", supersedes=[done.id])
    assert stated.warning == "", "who names what is replaced knows it"


def test_decisions_that_say_the_same_on_two_topics_are_named_and_no_others(memory: Memory) -> None:
    named = 0
    for kind, *texts in rows("pairs"):
        first = save(memory, *texts[:3])
        second = save(memory, *texts[3:])
        others = {other.id for other in second.similar}
        named += first.id in others
        assert others <= {first.id} if kind == "near" else others == set(), texts
    assert named >= 17


def test_the_near_decision_its_topic_and_the_way_on_are_named(memory: Memory) -> None:
    first = save(memory, "webhooks", "Sign webhooks with HMAC-SHA256", "It must be ours.")
    done = save(memory, "webhook signing", "Sign webhook bodies using HMAC SHA-256", "Verify us.")
    [near] = done.similar
    title = "Sign webhooks with HMAC-SHA256"
    assert (near.id, near.title, near.topic) == (first.id, title, "webhooks")
    assert near.hint == (
        "it is accepted on topic 'webhooks'; if both answer one question, "
        f"delete {done.id[-8:]} and save this on that topic"
    )


def test_what_says_in_other_words_what_is_replaced_is_named(memory: Memory) -> None:
    save(memory, "payments", "Retry failed payments three times", "The bank drops calls at night.")
    said = "A failed payment is retried three times"
    save(memory, "billing", said, "At night the bank drops calls.")
    done = save(memory, "payments", "Tell the customer at once", "Nobody likes to wait for news.")
    assert [near.topic for near in done.similar] == ["billing"]
    assert "it still holds" in done.similar[0].hint


def test_what_is_superseded_is_not_named(memory: Memory) -> None:
    save(memory, "webhooks", "Sign webhooks with HMAC-SHA256", "It must be ours.")
    save(memory, "webhooks", "Send webhooks over mutual TLS", "No secret to share.")
    assert save(memory, "webhook signing", "Sign webhooks with HMAC-SHA256 v2", "r").similar == ()


def test_a_command_names_the_same_title_and_does_not_load_the_model(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Index, "find_nearest", lambda *_: pytest.fail("it was compared by meaning"))
    with Memory.open(repo) as memory:
        save(memory, "webhooks", "Sign webhooks with HMAC-SHA256", "It must be ours.")
        done = save(memory, "callbacks", "Sign webhooks with HMAC-SHA256", "For receivers.")
    assert [near.topic for near in done.similar] == ["webhooks"]


def test_observations_that_say_the_same_are_named(memory: Memory) -> None:
    first = memory.save(title="The API allows 100 requests", text="More a minute answer 429.")
    done = memory.save(title="API allows 100 requests a minute", text="More than that answer 429.")
    assert [near.id for near in done.similar] == [first.id]
    assert "update it" in done.similar[0].hint
