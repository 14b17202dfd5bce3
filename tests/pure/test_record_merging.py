"""Two versions of a record become one: what either changed, and the outcomes of both."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem.errors import Conflict
from filemem.record import (
    OUTCOMES,
    Outcome,
    Record,
    amend_record,
    merge_versions,
    parse_record,
    render_record,
)
from tests.pure.test_record_amend import GOOD, ODD, REFUSED

WHEN = 1764062043000
PATH = "decisions/x.md"
BASE = render_record(
    Record(
        id="d",
        type="decision",
        topic="t",
        title="Use it",
        text="One reason.\n\nAnother one.",
        tags=("a",),
    )
)

outcomes = st.builds(
    Outcome,
    st.integers(0, 50).map(lambda minutes: WHEN + minutes * 60_000),
    st.sampled_from(OUTCOMES),
    st.text("abc é", max_size=12).map(str.strip),
)


def read(data: bytes, path: str = PATH) -> Record:
    record = parse_record(data, path).record
    assert record is not None
    return record


def logged(data: bytes, log: list[Outcome], path: str = PATH) -> bytes:
    for entry in log:
        data = amend_record(data, path, outcome=entry)
    return data


@settings(deadline=None, max_examples=40)
@given(
    st.lists(outcomes, max_size=3), st.lists(outcomes, max_size=4), st.lists(outcomes, max_size=4)
)
def test_outcomes_of_both_sides_are_kept_and_the_newest_holds(
    before: list[Outcome], one: list[Outcome], other: list[Outcome]
) -> None:
    base = logged(BASE, before)
    ours, theirs = logged(base, one), logged(base, other)
    merged, back = (
        read(merge_versions(base, ours, theirs, PATH)),
        read(merge_versions(base, theirs, ours, PATH)),
    )
    every = {*read(ours).outcomes, *read(theirs).outcomes}
    assert set(merged.outcomes) == set(back.outcomes) == every
    assert [entry.at for entry in merged.outcomes] == sorted(entry.at for entry in every)
    if every:
        assert merged.outcome == merged.outcomes[-1].outcome
    assert merged._replace(outcome="", outcomes=()) == read(BASE)._replace(outcome="", outcomes=())


def test_a_side_that_changed_nothing_takes_what_the_other_made() -> None:
    changed = logged(BASE, [Outcome(WHEN, "failed", "slow")])
    assert (
        merge_versions(BASE, BASE, changed, PATH)
        == merge_versions(BASE, changed, BASE, PATH)
        == changed
    )
    assert merge_versions(BASE, changed, changed, PATH) == changed


@pytest.mark.parametrize("name", [name for name in GOOD if name not in REFUSED])
def test_outcomes_merge_in_files_of_every_kind(name: str) -> None:
    base, path = (ODD / name).read_bytes(), f"decisions/{name}"
    ours = logged(base, [Outcome(WHEN + 60_000, "failed", "slow")], path)
    theirs = logged(base, [Outcome(WHEN, "success", "at first")], path)
    merged = merge_versions(base, ours, theirs, path)
    found = read(merged, path)
    assert {"slow", "at first"} <= {entry.reason for entry in found.outcomes}
    assert found.outcome == found.outcomes[-1].outcome
    assert len(merged) >= max(len(ours), len(theirs))


def test_an_outcome_joins_whatever_the_other_side_changed() -> None:
    ours = BASE.replace(b"One reason.", b"A better reason.").replace(b"outcome: pending\n", b"")
    theirs = logged(BASE, [Outcome(WHEN, "failed", "slow")])
    for merged in (
        merge_versions(BASE, ours, theirs, PATH),
        merge_versions(BASE, theirs, ours, PATH),
    ):
        found = read(merged)
        assert found.text == "A better reason.\n\nAnother one."
        assert (found.outcome, found.outcomes) == ("failed", (Outcome(WHEN, "failed", "slow"),))


def test_a_conflict_names_the_line() -> None:
    line = BASE.splitlines().index(b"One reason.") + 1
    ours, theirs = BASE.replace(b"One reason.", b"Ours."), BASE.replace(b"One reason.", b"Theirs.")
    with pytest.raises(Conflict, match=f"^{PATH}:{line}: both sides changed this"):
        merge_versions(BASE, ours, theirs, PATH)
    with pytest.raises(Conflict, match=f"^{PATH}:"):
        merge_versions(b"", BASE, ours, PATH)
    taken_back = logged(BASE, [Outcome(WHEN, "failed", "slow")])
    with pytest.raises(Conflict):
        merge_versions(
            taken_back,
            BASE,
            logged(taken_back, [Outcome(WHEN, "success")]).replace(b"One", b"A"),
            PATH,
        )
