"""How far a call walks: a save, a search, a history and a catch-up pass few modules (design 4).

`python -m tools.walk` prints them.

Lower a limit when a walk became shorter. It rises only where a module that grew over 500 lines
became two: index/storage, memory/draft, memory/labels, memory/opened, repo/commits, repo/draft,
repo/locks, record/amend_keys.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.walk import Walk, journeys

LIMITS = {
    "save": 53,
    "save that replaces": 56,
    "search": 35,
    "history": 27,
    "get": 24,
    "update": 53,
    "why": 39,
    "check": 17,
    "catch-up": 27,
    "delete": 43,
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
