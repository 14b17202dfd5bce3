"""A repository with a server, one for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import make_repo
from tests.web.support import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over a repository of its own."""
    folder: Path = make_repo(tmp_path_factory.mktemp("web") / "repo")
    with serving(folder) as running:
        yield running
