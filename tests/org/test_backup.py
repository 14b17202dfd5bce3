"""Promise: a backup comes back as it was, and what it does not hold is brought in again from Git."""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from filemem.org import access
from filemem.org.postgres import Postgres
from filemem.org.worker import SyncResult, sync_repositories
from tests.org import server
from tests.org.conftest import MODEL, copied
from tests.org.hub import Hub, expected, held

KEPT = ("repo", "access", "member", "token", "audit")


@pytest.fixture
def hub(engine: Postgres, tmp_path: Path) -> Hub:
    """A repository in the index; ada may see it, by a token."""
    hub = Hub(tmp_path, "hub", random.Random(4))
    hub.push()
    engine.add_repositories({str(hub.path): str(hub.path)})
    sync_repositories(engine, tmp_path, os.environ)
    with engine.transaction() as database:
        access.replace_rights(database, access.Rights({"ada": [str(hub.path)]}))
        database.execute(
            "insert into token(hash, name) values (%s, 'ada')", (access.hash_token("t" * 43),)
        )
    return hub


@pytest.fixture
def other(another: Path) -> str:
    """Another server, without our roles: how to connect to an empty database."""
    base = f"host={another} user=filemem dbname="
    with psycopg.connect(f"{base}postgres", autocommit=True) as con:
        con.execute("create database restored")
    return f"{base}restored"


def asks(engine: Postgres, hub: Hub) -> None:
    """Ada's token still works, and she sees what the repository holds."""
    with engine.transaction(read_only=True) as database:
        assert access.find_principal(database, "t" * 43) == "ada"
    with engine.open_reader("ada") as reader:
        (repository,) = reader.list_repositories()
        assert repository.records == len(expected(hub.path))
        assert len(
            reader.read_rows("path", [f"{repository.number} {path}" for path in expected(hub.path)])
        )
    with engine.open_reader("bob") as reader:
        assert reader.list_repositories() == []


def test_the_kept_tables_alone_come_back_and_records_are_brought_in_again(
    dsn: str, hub: Hub, template: str, tmp_path: Path
) -> None:
    tables = [f"--table={name}" for name in KEPT]
    dump = server.client("pg_dump", "--data-only", *tables, dsn)
    assert dump.returncode == 0, dump.stderr
    with copied(template) as fresh, closing(Postgres(fresh, MODEL)) as engine:
        back = server.client("psql", "-qv", "ON_ERROR_STOP=1", fresh, text=dump.stdout)
        assert back.returncode == 0, back.stderr
        assert sync_repositories(engine, tmp_path, os.environ) == SyncResult(
            changed=len(expected(hub.path))
        )
        assert held(engine, hub.path) == expected(hub.path)
        asks(engine, hub)
        assert engine.add_repositories({"another": "/srv/another"}) == 1, (
            "numbers go on where they were"
        )


def test_a_whole_dump_works_on_a_new_server_after_init(
    dsn: str, hub: Hub, other: str, tmp_path: Path
) -> None:
    dump = server.client("pg_dump", dsn)
    assert dump.returncode == 0, dump.stderr
    server.client("psql", "-q", other, text=dump.stdout)  # without the roles some statements fail
    with closing(Postgres(other, MODEL)) as engine:
        assert engine.init_tables() == "the database is ready"
        assert held(engine, hub.path) == expected(hub.path)
        asks(engine, hub)
        assert sync_repositories(engine, tmp_path, os.environ) == SyncResult()


def test_rows_that_are_lost_are_brought_in_again(
    engine: Postgres, hub: Hub, tmp_path: Path
) -> None:
    with engine.transaction() as con:
        con.execute("truncate doc, state cascade")
    assert sync_repositories(engine, tmp_path, os.environ) == SyncResult(
        changed=len(expected(hub.path))
    )
    assert held(engine, hub.path) == expected(hub.path)
