"""Fixtures of the tests of the whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import make_repo


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone far from UTC, so that a local time cannot pass for one in UTC."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return make_repo(tmp_path / "repo")


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """The memory of `repo`."""
    with Memory.open(repo) as opened:
        yield opened
