"""Promise: each repository is looked at when it is due, by one worker at a time, and a push is never lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from filemem.errors import BrokenStore
from filemem.org import workers
from filemem.org.postgres import Postgres
from filemem.org.queue import CHANNEL, Job, Queue
from filemem.org.workers import Workers
from tests.org.hub import Hub, expected, held

NAMES = [f"host/{number}" for number in range(8)]


@pytest.fixture
def filled(engine: Postgres) -> Postgres:
    engine.add_repositories({name: f"/srv/{name}" for name in NAMES})
    Queue(engine).add_missing_and_renew(())
    return engine


def take(queue: Queue) -> Job:
    job = queue.take_job()
    assert job is not None
    return job


def due(engine: Postgres, name: str) -> float:
    """Seconds until a repository is due."""
    query = (
        """select extract(epoch from due - now()) from job join repo on id = repo where name = %s"""
    )
    with engine.transaction() as con:
        row = con.execute(query, (name,)).fetchone()
    assert row is not None
    return float(row[0])


def test_workers_share_the_queue(filled: Postgres) -> None:
    queues = [Queue(filled) for _ in range(4)]

    def empty(queue: Queue) -> list[str]:
        jobs = iter(queue.take_job, None)
        return [job.name for job in jobs if job]

    with ThreadPoolExecutor(4) as threads:
        names = [name for part in threads.map(empty, queues) for name in part]
    assert sorted(names) == NAMES


def test_a_push_comes_first_and_makes_polls_rare(filled: Postgres) -> None:
    queue = Queue(filled)
    assert queue.report_pushes([NAMES[5].upper(), "host/none"]) == 1
    job = take(queue)
    assert job.name == NAMES[5]
    queue.finish_job(job, 60, has_failed=False)
    assert 3200 < due(filled, NAMES[5]) < 4000
    other = take(queue)
    queue.finish_job(other, 60, has_failed=False)
    assert 50 < due(filled, other.name) < 70


def test_a_push_during_a_look_asks_for_another(filled: Postgres) -> None:
    queue = Queue(filled)
    job = take(queue)
    queue.report_pushes([job.name])
    assert job.name not in [take(queue).name for _ in NAMES[1:]], "one worker at a time"
    queue.finish_job(job, 60, has_failed=False)
    assert take(queue).name == job.name
    assert queue.take_job() is None


def test_failures_wait_longer_each_time_and_a_push_ends_that(filled: Postgres) -> None:
    queue = Queue(filled)
    waits = []
    for _ in range(8):
        queue.report_pushes(NAMES[:1])
        job = take(queue)
        queue.finish_job(job, 60, has_failed=True)
        waits.append(round(due(filled, NAMES[0]), -1))
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    queue.report_pushes(NAMES[:1])
    queue.finish_job(take(queue), 60, has_failed=False)
    queue.report_pushes(NAMES[:1])
    queue.finish_job(take(queue), 60, has_failed=True)
    assert due(filled, NAMES[0]) < 70


def test_what_a_killed_worker_held_comes_back(filled: Postgres) -> None:
    queue = Queue(filled)
    lost = [take(queue) for _ in NAMES]
    other = Queue(filled)
    assert other.take_job() is None
    with filled.transaction() as con:
        con.execute("update job set held = now() - interval '1 second'")
    queue.add_missing_and_renew([lost[0].repository])  # it lives, and still reads this one
    assert sorted(take(other).name for _ in NAMES[1:]) == sorted(job.name for job in lost[1:])
    assert other.take_job() is None
    queue.finish_job(lost[1], 60, has_failed=False)  # too late: it is another's now
    with filled.transaction() as con:
        con.execute("update job set held = now() - interval '1 second'")
    assert len([take(queue) for _ in NAMES]) == len(NAMES)
    queue.release_jobs()
    assert take(other)


def test_a_removed_repository_leaves_the_queue(filled: Postgres) -> None:
    for name in NAMES[1:]:
        filled.drop_repository(name)
    queue = Queue(filled)
    job = take(queue)
    filled.drop_repository(job.name)
    queue.finish_job(job, 60, has_failed=False)
    assert queue.take_job() is None


def test_a_push_is_heard(filled: Postgres) -> None:
    with filled.listen(CHANNEL) as wait:
        Queue(filled).report_pushes(NAMES[:1])
        assert wait(30.0)
        assert not wait(0.01)


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    made = Hub(tmp_path, "hub", Random(3))
    made.push()
    return made


@pytest.fixture
def running(engine: Postgres, hub: Hub, tmp_path: Path) -> Iterator[Workers]:
    engine.add_repositories({str(hub.path): str(hub.path)})
    made = Workers(engine, tmp_path / "clones", os.environ, 3600)
    thread = threading.Thread(target=made.run, args=(2,))
    thread.start()
    yield made
    made.stop()
    thread.join()


def settled(engine: Postgres, hub: Hub) -> None:
    """Wait until the index holds what HEAD holds."""
    from tests.support import git

    for _ in range(600):
        if engine.list_repositories()[0].head == git(hub.path, "rev-parse", "HEAD"):
            break
        threading.Event().wait(0.05)
    assert held(engine, hub.path) == expected(hub.path)


def test_workers_bring_in_what_is_there_and_what_is_pushed(
    engine: Postgres, running: Workers, hub: Hub
) -> None:
    settled(engine, hub)
    for _ in range(3):
        hub.push()
        Queue(engine).report_pushes([str(hub.path)])
        settled(engine, hub)


def test_a_worker_outlives_a_database_that_is_away(
    engine: Postgres, hub: Hub, running: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    settled(engine, hub)
    with (
        patch.object(Queue, "take_job", side_effect=BrokenStore("gone")),
        patch.object(workers, "IDLE_SECONDS", 0.01),
    ):
        Queue(engine).report_pushes([str(hub.path)])
        while "gone" not in capsys.readouterr().err:
            threading.Event().wait(0.05)
    hub.push()
    Queue(engine).report_pushes([str(hub.path)])
    settled(engine, hub)
