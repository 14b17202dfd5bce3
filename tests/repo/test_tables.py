"""Beside real commands in loops, and killed at random moments, saves lose nothing and leave nothing in the way.

One row of each is short; `python -m tests.repo.race_table` and `tests.repo.kill_table` print the whole tables.
"""

from __future__ import annotations

import pytest

from tests.repo.kill_table import WAYS, kill
from tests.repo.race_table import SCENARIOS, race


@pytest.mark.parametrize(
    ("scenario", "rounds"),
    [("switch", 8), *(pytest.param(name, 60, marks=pytest.mark.long) for name in SCENARIOS)],
)
def test_races(scenario: str, rounds: int) -> None:
    row = race(scenario, rounds, 100)
    assert row.acknowledged, row
    assert (row.lost, row.stuck, row.whole) == ((), 0, True), row


@pytest.mark.parametrize(
    ("way", "ends"),
    [("kill the group", 4), *(pytest.param(w, 50, marks=pytest.mark.long) for w in WAYS)],
)
def test_ends_at_random_moments(way: str, ends: int) -> None:
    row = kill(way, ends)
    assert row.acknowledged >= ends, row
    assert (row.lost, row.locks, row.deletions, row.refused, row.whole) == ((), 0, 0, 0, True), row
