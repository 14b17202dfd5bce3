"""Killed at random moments, saves lose nothing and leave nothing in the way.

Each step of a save, with each command of the user's beside it, has a test of its own in test_steps.py.
`python -m tests.repo.kill_table` prints the whole table.
"""

from __future__ import annotations

import pytest

from tests.repo.kill_table import WAYS, kill


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_ends_at_random_moments(way: str) -> None:
    row = kill(way, 50)
    assert row.acknowledged >= 50, row
    assert (row.lost, row.locks, row.deletions, row.refused, row.whole) == ((), 0, 0, 0, True), row
