"""A record in words: stable order, one sentence a line, code and lists as they stand."""

from __future__ import annotations

import pytest

from filemem.record import Outcome, Record, parse, plainly
from filemem.record.wording import sentences


def test_keys_come_in_the_order_of_the_format_whatever_the_file_says() -> None:
    record = Record(
        id="decision_t_1_aaaaaaaa",
        type="decision",
        topic="t",
        topic_stated=True,
        title="Use it",
        text='Why. "Because." e.g. this one.',
        tags=("b", "a"),
        supersedes=("decision_t_0_bbbbbbbb", "decision_u_0_cccccccc"),
        rejected=("That: too slow",),
        outcomes=(Outcome(1764062043000, "failed", "slow"),),
    )
    assert plainly(record, {"decision_t_0_bbbbbbbb": "Use that"}).splitlines() == [
        "decision on t: Use it",
        "status: accepted",
        "tags: b",
        "tags: a",
        "Use that (bbbbbbbb): status accepted -> superseded by Use it",
        "decision_u_0_cccccccc: status accepted -> superseded by Use it",
        "",
        "Why.",
        '"Because." e.g. this one.',
        "",
        "rejected: That: too slow",
        "",
        "2025-11-25T09:14:03Z failed: slow",
    ]
    assert "superseded" not in plainly(record._replace(status="proposed"), {})


def test_prose_is_cut_and_nothing_else() -> None:
    text = "One. Two\nis long! Three?\n\n- a list. With two.\n\n```\nx. Y.\n```\n一。二。\nv1.2 stays"
    assert list(sentences(text)) == [
        "One.",
        "Two is long!",
        "Three?",
        "",
        "- a list. With two.",
        "",
        "```",
        "x. Y.",
        "```",
        "一。",
        "二。",
        "v1.2 stays",
    ]


FILE = """\
---
id: decision_t_1763650000123_k3f9w2ma
type: decision
topic: t
created: 2025-11-20
confidence: 0.5
outcome: pending
supersedes: []
affects: [src/a.py]
---
# Use it

Why.

## Rejected
- That: too slow

## Outcomes
- 2025-11-25T09:14:03Z pending: wait
- not an entry
"""
LOST = "".join(FILE.partition("\n## Outcomes")[:1]) + "\n"


def said(text: str, name: str = "a.md") -> str:
    record = parse(text.encode(), name).record
    assert record is not None
    return plainly(record, {}, text)


@pytest.mark.parametrize("file", [FILE, LOST, FILE.replace("type: decision", "type: observation")])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k3f9w2ma", "k3f9w2mb"),
        ("type: decision", "type: checkpoint"),
        ("topic: t", "topic: u"),
        ("topic: t", "topic: t\nmetadata: {team: core}"),
        ("topic: t", "topic: t\nmetadata:\n  team: core"),
        ("topic: t", "topic: t\nuser_id: bob"),
        ("topic: t", "topic: t\nvisibility: private"),
        ("topic: t", "topic: t\nticket: X-1"),
        ("topic: t", "topic: t\nreplaced-by: other"),
        ("topic: t", "topic: t # the word"),
        ("topic: t", "# reviewed\ntopic: t"),
        ("topic: t", "topic: t\nstatus: Draft"),
        ("topic: t", "topic: t\nsecrets: allowed"),
        ("topic: t", "topic: t\ntitle: Another"),
        ("confidence: 0.5", "confidence: high"),
        ("outcome: pending", "outcome: failed"),
        ("supersedes: []", "builds_on: []"),
        ("supersedes: []\n", ""),
        ("supersedes: []", "supersedes: [x]\nstatus: proposed"),
        ("Why.", "Why?"),
    ],
)
def test_a_reviewer_sees_every_change_that_says_something(file: str, old: str, new: str) -> None:
    edited = file.replace(old, new, 1)
    if edited != file:
        differs = said(edited) != said(file)
        assert differs or ("outcome" in old and "Outcomes" in file and "decision" in file), (old, new)


def test_what_the_log_of_outcomes_holds_besides_entries_is_shown() -> None:
    assert "- not an entry" in said(FILE).splitlines()
