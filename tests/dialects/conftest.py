"""Fixtures of the tests of dialects."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.dialects.support import opened
from tests.support import make_repo


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, made once."""
    return make_repo(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Path:
    """A repository with one commit."""
    return Path(shutil.copytree(template, tmp_path / "repo", symlinks=True))


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """The memory of `repo`."""
    with opened(repo) as found:
        yield found
