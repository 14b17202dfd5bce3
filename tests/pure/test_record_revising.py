"""What an edit changed, in words."""

from __future__ import annotations

import pytest

from filemem.record import Edge, Outcome, Record, parse
from filemem.record.revising import FORM, revised
from filemem.record.saying import says_otherwise

PLAIN = """\
---
id: decision_caching_1763650000123_k3f9w2ma
type: decision
topic: caching
created: "2025-11-20T14:46:40.123Z"
confidence: 0.5
outcome: pending
supersedes: []
affects: [src/a.py, src/b.py]
---
# Use an LRU cache

One process needs no Redis.

## Why now

The Redis host goes away.

## Rejected
- Keep Redis: one more service to run
"""
MADR = "---\nstatus: {0}\n---\n# Use Kafka\n\n## Context\n\nWhat of it?\n"


def words(*edits: tuple[str, str], path: str = "decisions/a.md", text: str = PLAIN) -> tuple[str, ...]:
    """What replacing parts of a text is told as."""
    after = text
    for old, new in edits:
        assert old in after
        after = after.replace(old, new)
    was, now = (parse(one.encode(), at).record for one, at in ((text, "decisions/a.md"), (after, path)))
    assert was is not None
    assert now is not None
    return revised(was, now)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("type: decision", "type: decision\nstatus: deprecated"), "status accepted -> deprecated"),
        (("confidence: 0.5", "confidence: 0.8"), "confidence 0.5 -> 0.8"),
        (("confidence: 0.5\n", ""), "confidence 0.5 -> none"),
        (("src/b.py]", "src/c.py, src/d.py]"), "affects + src/c.py, src/d.py, - src/b.py"),
        (("topic: caching", "topic: cache"), "topic caching -> cache"),
        (("# Use an LRU", "# Use a LFU"), 'title "Use an LRU cache" -> "Use a LFU cache"'),
        (("needs no", "wants no"), "reasoning reworded"),
        (("The Redis host goes away.", "The host stays."), "reasoning reworded (Why now)"),
        (("no Redis.", "no Redis.\n\nNor two."), "reasoning extended"),
        (("\n## Why now\n\nThe Redis host goes away.\n", ""), "reasoning shortened (- Why now)"),
        (("One process needs no Redis.\n\n## Why now\n\nThe Redis host goes away.\n", ""), "reasoning removed"),
        (("- Keep Redis", "- Memcached: the same\n- Keep Redis"), "rejected + Memcached: the same"),
        (("2025-11-20T14", "2025-11-19T14"), "created 2025-11-20 -> 2025-11-19"),
        (("supersedes: []", "supersedes: []\nticket: X-1"), "ticket none -> X-1"),
        (("needs no Redis", "needs\nno   Redis"), FORM),
        (("topic: caching", "topic: 'caching' # the word"), FORM),
    ],
)
def test_one_edit(edit: tuple[str, str], told: str) -> None:
    assert words(edit) == (told,)


def test_an_outcome_is_told_once_with_its_reason() -> None:
    log = "\n## Outcomes\n- 2025-11-25T09:14:03Z failed: evicts too early\n"
    outcome = ("outcome: pending", "outcome: failed")
    end = ("- Keep Redis: one more service to run\n", "- Keep Redis: one more service to run\n" + log)
    assert words(outcome, end) == ("outcome failed: evicts too early",)
    assert words(outcome) == ("outcome pending -> failed",)
    text = PLAIN.replace(*outcome).replace(*end)
    assert words((log, ""), (outcome[1], outcome[0]), text=text) == (
        "outcome failed of 2025-11-25 taken back",
        "outcome failed -> pending",
    )


def test_statuses_of_other_makers_keep_their_words() -> None:
    assert words(("Draft", "Last Call"), text=MADR.format("Draft")) == ("status Draft -> Last Call",)
    gone = "superseded by [0002](0002-use-nats.md)"
    assert words(("accepted", gone), text=MADR.format("accepted")) == (
        "status accepted -> superseded by 0002-use-nats.md",
    )


NYGARD = "# 1. Use Postgres\n\nDate: 2025-11-20\n\n## Status\n\n{0}\n\n## Context\n\nWe need a db.\n"


@pytest.mark.parametrize(
    ("edits", "told", "otherwise"),
    [
        ([("Accepted", "Deprecated")], ("status accepted -> deprecated",), False),
        ([("Accepted", "Superseded")], ("status accepted -> deprecated",), False),
        ([("Accepted", "Superseded by ADR-2")], ("status accepted -> superseded by ADR-2",), False),
        ([("Accepted", "Accepted\n\nSupersedes [0](0000-x.md)")], ("supersedes + 0000-x.md",), False),
        ([("Accepted", "Accepted, by the board")], ("status reworded",), False),
        ([("2025-11-20", "2025-11-21")], ("created 2025-11-20 -> 2025-11-21",), False),
        (
            [("We need", "We want"), ("Accepted", "Draft")],
            ("status accepted -> proposed", "reasoning reworded (Context)"),
            True,
        ),
        ([("a db.", "a db.\n\nDate: 2025-11-21")], ("reasoning extended (Context)",), True),
    ],
)
def test_a_status_that_stands_in_the_text_is_told_once(
    edits: list[tuple[str, str]], told: tuple[str, ...], otherwise: bool
) -> None:
    """A status, a date or a link that the body states is no reasoning: it is told as what it says."""
    text = after = NYGARD.format("Accepted")
    for old, new in edits:
        assert old in after
        after = after.replace(old, new)
    was, now = (parse(one.encode(), "0001-p.md").record for one in (text, after))
    assert was is not None
    assert now is not None
    assert (revised(was, now), says_otherwise(was, now)) == (told, otherwise)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Superseded by [2](2-go.md)", "Accepted", "superseded by 2-go.md -> accepted"),
        ("Superseded by [2](2-go.md)", "Deprecated", "superseded by 2-go.md -> deprecated"),
        ("Deprecated", "Superseded by [2](2-go.md)", "deprecated -> superseded by 2-go.md"),
        ("Superseded by [2](2-go.md)", "Superseded by [3](3-c.md)", "superseded by 2-go.md -> superseded by 3-c.md"),
    ],
)
def test_a_status_is_told_from_and_to_what_its_line_said(old: str, new: str, told: str) -> None:
    was, now = (parse(NYGARD.format(each).encode(), "0001-p.md").record for each in (old, new))
    assert was is not None
    assert now is not None
    assert revised(was, now) == (f"status {told}",)


def test_a_move_and_several_edits_at_once() -> None:
    told = words(("confidence: 0.5", "confidence: 1"), ("needs no", "wants no"), path="decisions/b.md")
    assert told == ("renamed from decisions/a.md", "confidence 0.5 -> 1.0", "reasoning reworded")


def test_a_text_that_keeps_little_is_rewritten_and_long_lists_are_counted() -> None:
    body = "".join(f"Reason {n}.\n\n" for n in range(9))
    other = "".join(f"Grounds {n}.\n\n" for n in range(9))
    assert words(("One process needs no Redis.", body)) == ("reasoning reworded",)
    text = PLAIN.replace("One process needs no Redis.", body)
    assert words((body, other), text=text) == ("reasoning rewritten",)
    assert words(("src/b.py]", "b, c, d, e, f]")) == ("affects + b, c, d and 2 more, - src/b.py",)


def test_what_looks_like_a_heading_in_code_is_none() -> None:
    fence = "no Redis.\n\n```\n# not a heading\nx = 1\n```\n"
    text = PLAIN.replace("no Redis.", fence)
    assert words(("x = 1", "x = 2"), text=text) == ("reasoning reworded",)


OTHER: dict[str, object] = {
    "type": "observation",
    "status": "deprecated",
    "confidence": 0.1,
    "created": 1,
    "outcome": "failed",
    "outcomes": (Outcome(1, "failed"),),
    "mentions": (Edge("builds_on", "decision_x"),),
    "metadata": {"team": "core"},
    "extra": {"ticket": "X-1"},
    "supersedes": (),
    "secrets_allowed": True,
}
SAID_BY_OTHERS = ("topic_stated", "id_stated", "path", "number")  # by topic, id and key; a path is told as a move


@pytest.mark.parametrize("field", [field for field in Record._fields if field not in SAID_BY_OTHERS])
def test_no_field_of_a_record_changes_unseen(field: str) -> None:
    """Whatever a record may come to hold is told by default."""
    before = Record(id="a", type="decision", title="t", topic="x", topic_stated=True, decision="t")
    shape = getattr(before, field)
    other = OTHER.get(field, ("new",) if isinstance(shape, tuple) else "new")
    after = Record(**{**before._asdict(), field: other})
    for was, now in ((before, after), (after, before)):
        told = revised(was, now)
        assert FORM not in told, field


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("type: decision", "type: observation"), "type decision -> observation"),
        (("topic: caching", "topic: caching\nsecrets: allowed"), "secrets none -> allowed"),
        (("2025-11-20T14:46:40.123Z", "2025-28-28"), "created 2025-11-20 -> 2025-28-28"),
        (("confidence: 0.5", "confidence: high"), "confidence 0.5 -> high"),
        (("supersedes: []", "supersedes: []\nteam: {a: b}"), "team none -> {a: b}"),
        (("supersedes: []", "supersedes: []\nteams: [a, b]"), "teams + a, b"),
        (("topic: caching", "topic: caching\nsession: s-1"), "session none -> s-1"),
        (("topic: caching", "topic: caching\nuser_id: bob"), "user_id none -> bob"),
        (("topic: caching", "topic: caching\nmetadata: {team: core}"), "metadata team none -> core"),
        (("supersedes: []\n", ""), "supersedes nothing -> not stated"),
        (("src/a.py, src/b.py", "src/b.py, src/a.py"), "affects in another order"),
        (("T14:46:40.123Z", "T15:46:40.123Z"), "created 2025-11-20T14:46:40.123Z -> 2025-11-20T15:46:40.123Z"),
    ],
)
def test_fields_that_are_seldom_edited(edit: tuple[str, str], told: str) -> None:
    assert told in words(edit)
