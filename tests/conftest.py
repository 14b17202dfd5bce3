"""Guards for the whole session: no test sees or writes the home folder or Git configuration of whoever runs it.

And none fails for the time that it took.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from filemem.index import model
from filemem.memory import Memory
from tests.support import make_repo

settings.register_profile("filemem", deadline=None)  # a busy machine fails no test
settings.load_profile("filemem")

# The bundled model is the same for every memory of a process, and more than half of the work of opening one.
model.load_bundled = functools.cache(model.load_bundled)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker that links a test to entries of tests/requirements."""
    config.addinivalue_line(
        "markers", "requirement(*ids): the requirements of tests/requirements that a test shows"
    )


def pytest_collection_finish() -> None:
    """Keep the tests themselves out of every garbage collection: they stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def guarded_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """HOME and its relatives point to an empty folder; what Git or filemem read from the environment is gone."""
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    for name in [n for n in os.environ if n.startswith(("GIT_", "FILEMEM_", "XDG_"))]:
        patch.delenv(name)
    patch.delenv("EMAIL", raising=False)
    for name, folder in {
        "HOME": "",
        "USERPROFILE": "",
        "XDG_CONFIG_HOME": ".config",
        "XDG_CACHE_HOME": ".cache",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
    }.items():
        patch.setenv(name, str(home / folder))
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    patch.setenv("GIT_CEILING_DIRECTORIES", str(home.parent))
    patch.setattr("filemem.memory.advice.HINT_SECONDS", 60.0)
    yield home
    patch.undo()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return make_repo(tmp_path / "repo")


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """The memory of `repo`."""
    with Memory.open(repo) as opened:
        yield opened
