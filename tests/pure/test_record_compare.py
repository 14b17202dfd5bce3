"""What an edit changed, in words: every field by its name, every section by its heading, nothing for a new form."""

from __future__ import annotations

import pytest

from filemem.record import Edge, Outcome, Record, parse_record
from filemem.record.compare import FORM_CHANGED, describe_changes, describe_damage

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
NYGARD = (
    "# 1. Use Postgres\n\nDate: 2025-11-20\n\n## Status\n\n{0}\n\n## Context\n\nWe need a db.\n"
)


def versions(
    *edits: tuple[str, str], path: str = "decisions/a.md", text: str = PLAIN
) -> tuple[Record, Record]:
    """A record before and after parts of its text are replaced."""
    after = text
    for old, new in edits:
        assert old in after
        after = after.replace(old, new)
    was, now = (
        parse_record(one.encode(), at).record
        for one, at in ((text, "decisions/a.md"), (after, path))
    )
    assert was is not None
    assert now is not None
    return was, now


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("type: decision", "type: decision\nstatus: deprecated"), "status accepted -> deprecated"),
        (("confidence: 0.5", "confidence: 0.8"), "confidence 0.5 -> 0.8"),
        (("confidence: 0.5\n", ""), "confidence 0.5 -> none"),
        (("src/b.py]", "src/c.py, src/d.py]"), "affects changed"),
        (("topic: caching", "topic: cache"), "topic caching -> cache"),
        (("topic: caching", "topic: caching\nsecrets: allowed"), "secrets none -> allowed"),
        (("supersedes: []\n", ""), "supersedes changed"),
        (("supersedes: []", "supersedes: []\nticket: X-1"), "ticket none -> X-1"),
        (("# Use an LRU", "# Use a LFU"), 'title "Use an LRU cache" -> "Use a LFU cache"'),
        (("needs no", "wants no"), "reasoning changed"),
        (("The Redis host goes away.", "The host stays."), "reasoning changed"),
        (("\n## Why now\n\nThe Redis host goes away.\n", ""), "reasoning changed"),
        (
            ("One process needs no Redis.\n\n## Why now\n\nThe Redis host goes away.\n", ""),
            "reasoning removed",
        ),
        (("- Keep Redis", "- Memcached: the same\n- Keep Redis"), "rejected changed"),
        (
            ("2025-11-20T14", "2025-11-19T14"),
            "created 2025-11-20T14:46:40.123Z -> 2025-11-19T14:46:40.123Z",
        ),
        (("needs no Redis", "needs\nno   Redis"), FORM_CHANGED),
        (("topic: caching", "topic: 'caching' # the word"), FORM_CHANGED),
    ],
)
def test_one_edit(edit: tuple[str, str], told: str) -> None:
    assert describe_changes(*versions(edit)) == (told,)


def test_a_move_and_several_edits_at_once() -> None:
    told = describe_changes(
        *versions(
            ("confidence: 0.5", "confidence: 1"), ("needs no", "wants no"), path="decisions/b.md"
        )
    )
    assert told == ("renamed from decisions/a.md", "reasoning changed", "confidence 0.5 -> 1.0")


def test_an_outcome_is_told_once_with_its_reason() -> None:
    log = "\n## Outcomes\n- 2025-11-25T09:14:03Z failed: evicts too early\n"
    outcome = ("outcome: pending", "outcome: failed")
    end = (
        "- Keep Redis: one more service to run\n",
        "- Keep Redis: one more service to run\n" + log,
    )
    assert describe_changes(*versions(outcome, end)) == ("outcome failed: evicts too early",)
    text = PLAIN.replace(*outcome).replace(*end)
    told = describe_changes(*versions((log, ""), (outcome[1], outcome[0]), text=text))
    assert told == ("outcome failed of 2025-11-25 taken back", "outcome failed -> pending")


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("Deprecated", ("status accepted -> deprecated", "reasoning changed")),
        (
            "Superseded by ADR-2",
            ("status accepted -> deprecated", "reasoning changed", "superseded_by changed"),
        ),
        ("Accepted\n\nSupersedes [0](0000-x.md)", ("reasoning changed", "supersedes changed")),
    ],
)
def test_a_status_that_stands_in_the_text_is_told(new: str, told: tuple[str, ...]) -> None:
    assert describe_changes(*versions(("Accepted", new), text=NYGARD.format("Accepted"))) == told


def test_an_unresolved_merge_is_damage_until_it_is_resolved() -> None:
    whole = parse_record(PLAIN.encode(), "decisions/a.md")
    broken = parse_record(
        PLAIN.replace("One", "<<<<<<< ours\nOne\n=======\nA\n>>>>>>> b\n").encode(),
        "decisions/a.md",
    )
    (told,) = describe_damage(whole.problems, broken.problems)
    assert told.startswith(broken.problems[0].code)
    assert describe_damage(broken.problems, whole.problems) == (
        f"{broken.problems[0].code} resolved",
    )


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
SAID_BY_OTHERS = (
    "topic_stated",
    "id_stated",
    "path",
)  # by topic, id and key; a path is told as a move


def test_no_field_of_a_record_changes_unseen() -> None:
    """Whatever a record may come to hold is told by default."""
    before = Record(id="a", type="decision", title="t", topic="x", topic_stated=True, decision="t")
    for field in set(Record._fields).difference(SAID_BY_OTHERS):
        other = OTHER.get(field, ("new",) if isinstance(getattr(before, field), tuple) else "new")
        after = Record(**{**before._asdict(), field: other})
        for was, now in ((before, after), (after, before)):
            assert FORM_CHANGED not in describe_changes(was, now), field
