"""Promise: whatever happens to the database, the worker and the service go on when it is back."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from filemem.errors import Locked
from filemem.org import access
from filemem.org.engine import Principal
from filemem.org.memory import CURRENT_PRINCIPAL, OrgMemory
from filemem.org.postgres import Postgres
from filemem.org.queue import Queue
from filemem.org.workers import Workers
from tests.org import server
from tests.org.conftest import MODEL
from tests.org.hub import Hub, expected, held
from tests.system.tools import until

RESTARTS = 3


@pytest.fixture
def alone(another: Path) -> Iterator[Postgres]:
    """An engine on a server of its own."""
    with closing(Postgres(f"host={another} user=filemem dbname=postgres", MODEL)) as engine:
        engine.init_tables()
        yield engine


def test_a_database_that_restarts_under_them_stops_neither_worker_nor_service(
    alone: Postgres, another: Path, tmp_path: Path
) -> None:
    hub = Hub(tmp_path, "hub", random.Random(8))
    hub.push()
    name = str(hub.path)
    alone.add_repositories({name: name})
    with alone.transaction() as con:
        access.replace_rights(con, access.Rights({"ada": [name]}))
    workers = Workers(alone, tmp_path, os.environ, 1)
    running = threading.Thread(target=workers.run, args=(2,))
    running.start()
    ended = threading.Event()
    counts = {"answered": 0, "away": 0, "wrong": 0}

    def ask() -> None:
        CURRENT_PRINCIPAL.set(Principal("ada"))
        memory = OrgMemory(alone)
        while not ended.is_set():
            try:
                hits = memory.search("choice").hits
                counts["answered" if hits else "wrong"] += 1
            except Locked:
                counts["away"] += 1

    until(lambda: alone.list_repositories()[0].records)
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        for _ in range(RESTARTS):
            hub.push()
            server.restart(another)
            counts["answered"] = 0
            until(lambda: counts["answered"] > 3)
        hub.push()
        head = expected(hub.path)

        def in_step() -> bool:
            Queue(alone).report_pushes([name])
            try:
                return held(alone, hub.path) == head
            except AssertionError:
                return False

        until(in_step)
    finally:
        ended.set()
        workers.stop()
        asker.join()
        running.join()
    assert counts["wrong"] == 0


def test_questions_go_to_a_replica(alone: Postgres, another: Path, tmp_path: Path) -> None:
    copy = server.replica(another.parent / "copy", f"host={another} user=filemem dbname=postgres")
    try:
        dsn = f"host={another} user=filemem dbname=postgres"
        with closing(Postgres(dsn, MODEL, f"{copy}postgres")) as engine:
            engine.add_repositories({"one": "/srv/one"})
            with engine.transaction() as con:
                access.replace_rights(con, access.Rights({"ada": ["one"]}))

            def seen() -> list[str]:
                with engine.open_reader("ada") as reader:
                    row = reader.con.execute("select pg_is_in_recovery()").fetchone()
                    assert row == (True,)
                    return [repository.name for repository in reader.list_repositories()]

            assert until(seen) == ["one"]
    finally:
        server.stop(another.parent / "copy")
