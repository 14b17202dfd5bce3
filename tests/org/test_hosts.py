"""Promise: a host that is slow, silent or large holds up nothing but its own repositories."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from filemem.errors import NotFound
from filemem.org import access, hosts, worker
from filemem.org.postgres import Postgres
from filemem.org.queue import Queue
from filemem.org.worker import SyncResult, sync_repositories
from filemem.org.workers import Workers
from filemem.repo import mirror
from tests.org.hub import Hub
from tests.support import git, write
from tests.system.tools import cli, until


class Far:
    """Hosts that are reached by a program in place of ssh: `slow` ones answer when they are let."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self.gate = folder / "gate"
        program = f"""#!/bin/sh
for host; do case $host in *example.org) break;; esac; done
echo $host >> {self.calls}
case $host in *slow*) while [ ! -e {self.gate} ]; do sleep 0.05; done;; esac
cd {folder} && shift $(($# - 1)) && exec sh -c "$1"
"""
        write(folder / "ssh", program).chmod(0o755)
        write(home / ".gitconfig", f"[core]\n\tsshCommand = {folder / 'ssh'}\n")

    def hub(self, name: str) -> Hub:
        hub = Hub(self.folder, name, random.Random(name))
        hub.push()
        git(hub.path, "config", "uploadpack.allowFilter", "true")
        git(hub.path, "config", "uploadpack.allowAnySHA1InWant", "true")
        return hub

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def far(tmp_path: Path, guarded_home: Path) -> Iterator[Far]:
    folder = tmp_path / "far"
    folder.mkdir()
    yield Far(folder, guarded_home)
    (folder / "gate").touch()
    (guarded_home / ".gitconfig").unlink()


@contextmanager
def beside(job: Callable[[], object], far: Far) -> Iterator[None]:
    """Do a job in a thread; slow hosts answer at the end."""
    thread = threading.Thread(target=job)
    thread.start()
    try:
        yield
    finally:
        far.gate.touch()
        thread.join()


def test_rights_and_repositories_go_while_a_host_is_slow(
    engine: Postgres, far: Far, tmp_path: Path
) -> None:
    far.hub("one")
    engine.add_repositories({"slow.example.org/one": "ada@slow.example.org:one", "two": "/nowhere"})
    with engine.transaction() as database:
        access.replace_rights(database, access.Rights({"bob": ["slow.example.org/one", "two"]}))
    with beside(lambda: sync_repositories(engine, tmp_path / "clones", os.environ), far):
        until(far.called)
        with engine.transaction() as database:
            database.execute("set local lock_timeout = '5s'")
            access.replace_rights(database, access.Rights({"bob": ["two"]}))
        with engine.open_reader("bob") as reader:
            assert [one.name for one in reader.list_repositories()] == ["two"]
        with engine.transaction() as database:
            idle = "select count(*) from pg_stat_activity where state like 'idle in transaction%'"
            assert database.execute(idle).fetchone() == (0,)
        engine.drop_repository("slow.example.org/one")
    assert [one.name for one in engine.list_repositories()] == ["two"]


def test_silent_hosts_hold_no_other_up(engine: Postgres, far: Far, tmp_path: Path) -> None:
    far.hub("one")
    sources = {f"slow{n}.example.org/one": f"ada@slow{n}.example.org:one" for n in range(6)}
    sources |= {f"slow.example.org/{n}": f"ada@slow.example.org:{n}" for n in range(6)}
    engine.add_repositories({**sources, "quick.example.org/one": "ada@quick.example.org:one"})
    with beside(lambda: sync_repositories(engine, tmp_path / "clones", os.environ), far):
        until(lambda: [one for one in engine.list_repositories() if one.seen_at])
        (done,) = [one.name for one in engine.list_repositories() if one.seen_at]
        assert done == "quick.example.org/one"
    failed = {one.name for one in engine.list_repositories() if one.failure}
    assert failed == {f"slow.example.org/{n}" for n in range(6)}, "they are not there"


def test_a_host_that_was_silent_is_not_asked_again_in_the_same_round(
    engine: Postgres, far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LONG_LIMIT", 0.5)
    engine.add_repositories(
        {f"slow.example.org/{n}": f"ada@slow.example.org:{n}" for n in range(30)}
    )
    assert sync_repositories(engine, tmp_path / "clones", os.environ) == SyncResult(failed=30)
    assert len(far.called()) <= 2 * hosts.MAX_PER_HOST
    assert any("did not answer before" in one.failure for one in engine.list_repositories())


def test_what_takes_too_long_has_more_time_at_each_attempt(
    engine: Postgres, far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = list[float]()
    opened = mirror.open_mirror

    def recorded(source: str, cache: Path, environment: object, limit: float) -> object:
        limits.append(limit)
        return opened(source, cache, os.environ, limit)

    monkeypatch.setattr(worker, "open_mirror", recorded)
    monkeypatch.setattr(worker, "LONG_LIMIT", 0.5)
    hub = far.hub("one")
    engine.add_repositories({"slow.example.org/one": "ada@slow.example.org:one"})
    for _ in range(3):
        assert sync_repositories(engine, tmp_path / "clones", os.environ) == SyncResult(failed=1)
    assert limits == [0.5, 1, 2]
    assert "no answer in 2 seconds" in engine.list_repositories()[0].failure
    far.gate.touch()
    monkeypatch.setattr(worker, "LONG_LIMIT", 30)
    assert sync_repositories(engine, tmp_path / "clones", os.environ) == SyncResult(
        changed=len(hub.files)
    )
    assert engine.list_repositories()[0].failure_count == 0


def test_a_hook_looks_at_the_repositories_that_it_names(
    engine: Postgres, dsn: str, far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEMEM_ORG_DSN", dsn)
    hubs = [far.hub(name) for name in ("one", "two")]
    engine.add_repositories(
        {f"git.example.org/{n}": f"ada@git{n}.example.org:{n}" for n in ("one", "two")}
    )
    done = cli(tmp_path, "org", "work", "git.example.org/two")
    assert done.out.startswith(f"{len(hubs[1].files)} record")
    assert set(far.called()) == {"ada@gittwo.example.org"}
    assert cli(tmp_path, "org", "work", "git.example.org/none").code == 4
    with pytest.raises(NotFound):
        sync_repositories(engine, tmp_path, os.environ, ["none"])


def test_secrets_that_were_committed_by_hand_stay_out(
    engine: Postgres, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEMEM_ORG_DSN", dsn)
    hub = Hub(tmp_path, "hub", random.Random(3))
    hub.push()
    count = len(hub.files)
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    write(hub.path / "memory/deploy.md", f"# Deploy\n\nThe key is {secret}\n")
    allowed = "---\nsecrets: allowed\n---\n# Example\n\nAn example is "
    write(hub.path / "memory/example.md", f"{allowed}{secret}\n")
    hub.commit()
    engine.add_repositories({"one": str(hub.path)})
    assert sync_repositories(engine, tmp_path, os.environ).changed == count + 1
    with engine.transaction() as con:
        paths = {path for (path,) in con.execute("select path from doc")}
    assert "example.md" in paths
    assert "deploy.md" not in paths
    status = cli(tmp_path, "org", "status").out
    assert "left out, as they look like they hold secrets: deploy.md:3 (github-token)" in status
    assert secret not in status
    hub.push()
    sync_repositories(engine, tmp_path, os.environ)
    assert "deploy.md:3" in engine.list_repositories()[0].left_out, "it still is"
    write(hub.path / "memory/deploy.md", "# Deploy\n\nThe key is in the vault\n")
    hub.commit()
    sync_repositories(engine, tmp_path, os.environ)
    assert engine.list_repositories()[0].left_out == ""


def test_a_worker_goes_on_while_its_threads_wait(
    engine: Postgres, far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "STUCK_SECONDS", 0.2)
    far.hub("one")
    engine.add_repositories(
        {f"slow{n}.example.org/one": f"ada@slow{n}.example.org:one" for n in range(3)}
    )
    workers = Workers(engine, tmp_path / "clones", os.environ, 3600)
    thread = threading.Thread(target=workers.run, args=(2,))
    thread.start()
    try:
        until(lambda: len(far.called()) == 3)
        engine.add_repositories({"quick.example.org/one": "ada@quick.example.org:one"})
        Queue(engine).add_missing_and_renew(())
        Queue(engine).report_pushes(["quick.example.org/one"])
        until(lambda: [one.name for one in engine.list_repositories() if one.seen_at])
        assert not far.gate.exists()
    finally:
        far.gate.touch()
        workers.stop()
        thread.join()


def test_a_silent_host_is_left_alone_for_twice_as_long_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    looks = hosts.Hosts(2)

    def silent() -> float:
        """Seconds for which a host is avoided after it was silent."""
        looks.begin_look(1, "host")
        looks.end_look(1, is_silent=True)
        began = now[0]
        while looks.list_avoided_hosts():
            now[0] += 10
        return now[0] - began

    assert [silent() for _ in range(4)] == [60, 120, 240, 480]
    assert max(silent() for _ in range(9)) == hosts.MAX_PAUSE
    looks.begin_look(1, "host")
    looks.end_look(1, is_silent=False)
    assert silent() == 60
    looks.begin_look(1, "a")
    looks.begin_look(2, "b")
    assert looks.is_full()
    now[0] += hosts.STUCK_SECONDS + 1
    assert (looks.is_full(), looks.count_stuck()) == (False, 2)
    for number in range(3, 6):
        looks.begin_look(number, "a")
    assert looks.list_avoided_hosts() == ["a"]


def test_a_clone_that_grows_too_large_ends_and_stops_nobody(
    engine: Postgres, far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "MAX_FILE_SIZE", 50_000)
    large = far.hub("large")
    write(large.path / "memory/large.md", b"# Large\n" + random.Random(1).randbytes(200_000))
    large.commit()
    small = far.hub("small")
    engine.add_repositories(
        {f"git.example.org/{n}": f"ada@git.example.org:{n}" for n in ("large", "small")}
    )
    assert sync_repositories(engine, tmp_path / "clones", os.environ) == SyncResult(
        len(small.files), 1
    )
    assert [one.name for one in engine.list_repositories() if one.failure] == [
        "git.example.org/large"
    ]
