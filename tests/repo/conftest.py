"""Real repositories for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo.saver import Saver
from tests.support import make_repo


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return make_repo(tmp_path / "repo")


@pytest.fixture
def saver(repo: Path) -> Iterator[Saver]:
    """A saver on it."""
    made = Saver(repo)
    yield made
    made.close()
