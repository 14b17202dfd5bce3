"""How far a call walks: a save, a search, a history and a catch-up pass few modules (design 4).

`python -m tools.walk` prints them.

Lower a limit when a walk became shorter; nothing else lets one rise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.walk import Walk, journeys

LIMITS = {
    "save": 41,
    "save that replaces": 41,
    "search": 30,
    "history": 23,
    "get": 24,
    "update": 37,
    "why": 35,
    "check": 28,
    "catch-up": 36,
    "delete": 32,
}  # modules


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    return journeys(tmp_path_factory.mktemp("walk"))


@pytest.mark.parametrize("journey", LIMITS)
def test_a_call_passes_few_modules(walks: dict[str, Walk], journey: str) -> None:
    passed = walks[journey].modules
    assert len(passed) <= LIMITS[journey], sorted(passed)


def test_every_journey_has_a_limit(tmp_path: Path, walks: dict[str, Walk]) -> None:
    assert walks.keys() == LIMITS.keys()
