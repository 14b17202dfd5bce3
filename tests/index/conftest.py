"""Fixtures of the index tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.index import Index, Model


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture(scope="session")
def model() -> Model:
    """The bundled model, loaded once."""
    return Model()


@pytest.fixture
def index(root: Path, model: Model) -> Iterator[Index]:
    """An empty index with the bundled model."""
    opened = Index(root, model)
    yield opened
    opened.close()


@pytest.fixture
def words_only(root: Path) -> Iterator[Index]:
    """An empty index without vectors."""
    opened = Index(root)
    yield opened
    opened.close()
