"""Fixtures of the index tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.index import Embedder, Index, embedder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture(scope="session")
def model() -> Embedder:
    """The bundled model, loaded once."""
    return embedder()


@pytest.fixture
def index(root: Path, model: Embedder) -> Iterator[Index]:
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
