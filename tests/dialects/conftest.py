"""Fixtures of the tests of dialects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.dialects.support import opened
from tests.support import make_repo


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return make_repo(tmp_path / "repo")


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """The memory of `repo`."""
    with opened(repo) as found:
        yield found
