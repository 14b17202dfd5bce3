"""A record in words: stable order, one sentence a line, code and lists as they stand."""

from __future__ import annotations

from filemem.record import Outcome, Record, plainly
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
