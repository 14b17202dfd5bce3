"""Promise: a worker that is killed at any moment loses no row, doubles none, and leaves no wrong liveness."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from filemem.org.postgres import Postgres
from filemem.org.worker import sync_repositories
from tests.org.hub import CHANGES, Hub, expected, held

KILLS, HUBS, BETWEEN = 100, 4, 10
WORKER = """
import os, sys
from pathlib import Path
from filemem.index import open_model
from filemem.org.postgres import Postgres
from filemem.org.worker import sync_repositories
engine = Postgres(sys.argv[1], open_model())
engine.model.encode(["loaded"])
print("ready", flush=True)
while True:
    sync_repositories(engine, Path(sys.argv[2]), os.environ)
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_leave_what_git_says(engine: Postgres, dsn: str, tmp_path: Path) -> None:
    rng = random.Random(20251120)
    hubs = [Hub(tmp_path, f"r{n}", random.Random(n)) for n in range(HUBS)]
    for hub in hubs:
        for _ in range(10):
            hub.push()
    engine.add_repositories({str(hub.path): str(hub.path) for hub in hubs})
    inside = 0
    for at in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, dsn, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for hub in rng.sample(hubs, k=2):
                getattr(hub, rng.choice(CHANGES))()
            until = time.monotonic() + rng.random() * 0.2
            while time.monotonic() < until or not (open_now := _open(engine)):
                if time.monotonic() > until + 1:
                    break
            inside += open_now
            process.kill()
        if at % BETWEEN == BETWEEN - 1:
            while _open(engine):  # what the database has not yet given up holds its repository
                time.sleep(0.01)
            assert sync_repositories(engine, tmp_path, os.environ).failed == 0
            for hub in hubs:
                assert held(engine, hub.path) == expected(hub.path)
    assert inside > KILLS / 2  # they died with a transaction open


def _open(engine: Postgres) -> bool:
    """Whether another process has a transaction open on this database, that writes."""
    asked = "select count(*) from pg_stat_activity where datname = current_database() and backend_xid is not null"
    with engine.transaction() as con:
        found = con.execute(f"{asked} and pid <> pg_backend_pid()").fetchone()
    return bool(found and found[0])
