"""Real repositories for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo.saver import Saver


@pytest.fixture
def saver(repo: Path) -> Iterator[Saver]:
    """A saver on it."""
    made = Saver(repo)
    yield made
    made.close()
