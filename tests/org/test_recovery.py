"""Promise: restarts of the database and kills of workers lose nothing, and no question is answered wrongly."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from filemem.org import access
from filemem.org.postgres import Postgres
from filemem.org.queue import Queue
from tests.org import server
from tests.org.conftest import MODEL
from tests.org.hub import CHANGES, Hub, expected, held
from tests.org.test_service import serving
from tests.system.tools import FILEMEM, until

RESTARTS, KILLS, HUBS, ASKERS = 20, 100, 4, 8
WORKER = """
import os, sys
from pathlib import Path
from filemem.index import open_model
from filemem.org.postgres import Postgres
from filemem.org.workers import Workers
engine = Postgres(sys.argv[1], open_model())
engine.model.encode(["loaded"])
print("ready", flush=True)
Workers(engine, Path(sys.argv[2]), os.environ, 1).run(2)
"""


class Asker:
    """Asks a service again and again, and counts what it is answered."""

    def __init__(self, port: int, token: str) -> None:
        self.ended = threading.Event()
        self.right = 0
        self.away = 0
        self.wrong = list[str]()
        self.longest = 0.0  # seconds without an answer
        self._port = port
        self._token = token
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self.ended.set()
        self._thread.join()

    def _run(self) -> None:
        since = time.monotonic()
        while not self.ended.is_set():
            status, text = self._asked()
            if status == 200 and "Choice 1 of hub0" in text:
                self.right += 1
                self.longest = max(self.longest, time.monotonic() - since)
                since = time.monotonic()
            elif status == 503 and "cannot be used now" in text:
                self.away += 1
            else:
                self.wrong.append(f"{status} {text[:300]}")

    def _asked(self) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            body = json.dumps({"query": "choice 1 of hub0", "limit": 50})
            connection.request("POST", "/org/search", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def working(dsn: str, folder: Path) -> Iterator[None]:
    """Run the real worker."""
    env = {**os.environ, "FILEMEM_ORG_DSN": dsn, "XDG_CACHE_HOME": str(folder / "cache")}
    with (folder / "work.log").open("wb") as log:
        command = [FILEMEM, "org", "work", "--every", "1"]
        with subprocess.Popen(command, stderr=log, env=env) as process:
            try:
                yield
                assert process.poll() is None, "it lived"
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) in (0, -15)  # the second if it had hardly begun


def in_step(engine: Postgres, hubs: list[Hub]) -> bool:
    """Whether the index holds what each repository holds; pushes are reported once more."""
    Queue(engine).report_pushes([str(hub.path) for hub in hubs])
    try:
        return all(held(engine, hub.path) == expected(hub.path) for hub in hubs)
    except AssertionError:
        return False


def answered(askers: list[Asker]) -> None:
    """Wait until each was answered once more."""
    before = [asker.right for asker in askers]
    until(lambda: all(a.right > n for a, n in zip(askers, before, strict=True)), 60)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_database_that_restarts_twenty_times_under_load(another: Path, tmp_path: Path) -> None:
    dsn = f"host={another} user=filemem dbname=postgres"
    hubs = [Hub(tmp_path, f"hub{n}", random.Random(n)) for n in range(HUBS)]
    for hub in hubs:
        hub.push()
    names = [str(hub.path) for hub in hubs]
    with closing(Postgres(dsn, MODEL)) as engine:
        engine.init_tables()
        engine.add_repositories({name: name for name in names})
        with engine.transaction() as con:
            access.replace_rights(con, access.Rights({"ada": names}))
            token = access.add_token(con, "ada")
        with working(dsn, tmp_path), serving(dsn, "--rate", "1000000") as port:
            until(lambda: in_step(engine, hubs), 60)
            askers = [Asker(port, token) for _ in range(ASKERS)]
            for _ in range(RESTARTS):
                for hub in hubs[1:]:
                    hub.push()
                server.restart(another)
                answered(askers)
            until(lambda: in_step(engine, hubs), 120)
            for asker in askers:
                asker.end()
    assert [asker.wrong for asker in askers] == [[]] * ASKERS
    right = sum(asker.right for asker in askers)
    away = sum(asker.away for asker in askers)
    longest = max(asker.longest for asker in askers)
    print(f"{RESTARTS} restarts: {right} answers, {away} refusals, {longest:.1f} s without one")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_workers_that_are_killed_a_hundred_times(
    engine: Postgres, dsn: str, tmp_path: Path
) -> None:
    rng = random.Random(20261128)
    hubs = [Hub(tmp_path, f"hub{n}", random.Random(n)) for n in range(HUBS)]
    for hub in hubs:
        hub.push()
    engine.add_repositories({str(hub.path): str(hub.path) for hub in hubs})
    inside = 0
    for at in range(KILLS):
        command = [sys.executable, "-c", WORKER, dsn, str(tmp_path)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for hub in rng.sample(hubs, k=2):
                getattr(hub, rng.choice(CHANGES))()
                Queue(engine).report_pushes([str(hub.path)])
            time.sleep(rng.random() * 0.3)
            process.kill()
        with engine.transaction() as con:  # two minutes later
            row = con.execute("select count(*) from job where held > now()").fetchone()
            assert row is not None
            inside += row[0] > 0
            con.execute("update job set held = now() - interval '1 second' where held is not null")
        if at % 10 == 9:
            with working(dsn, tmp_path):
                until(lambda: in_step(engine, hubs), 60)
    assert inside > KILLS / 10, "they died with a repository in hand"
