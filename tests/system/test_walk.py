"""How far a call walks: a save, a search, a history and a catch-up pass few modules (design 4).

`python -m tools.walk` prints them.

Lower a limit when a walk became shorter; nothing else lets one rise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.walk import Walk, journeys

LIMITS = {
    "save": 49,
    "save that replaces": 51,
    "search": 33,
    "history": 24,
    "get": 23,
    "update": 49,
    "why": 38,
    "check": 17,
    "catch-up": 27,
    "delete": 39,
}  # modules; record/status, record/links and record/visibility are in all of them, and
# repo/disk, which was a part of repo/journal, in those that save


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    return journeys(tmp_path_factory.mktemp("walk"))


@pytest.mark.parametrize("journey", LIMITS)
def test_a_call_passes_few_modules(walks: dict[str, Walk], journey: str) -> None:
    passed = walks[journey].modules
    assert len(passed) <= LIMITS[journey], sorted(passed)


def test_every_journey_has_a_limit(tmp_path: Path, walks: dict[str, Walk]) -> None:
    assert walks.keys() == LIMITS.keys()
