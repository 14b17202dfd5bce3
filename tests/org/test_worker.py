"""Promise: after a pass, the rows of a repository are what its HEAD holds, and what holds is what chains say."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from filemem.org import look
from filemem.org.postgres import Postgres
from filemem.org.shelf import PostgresShelf
from filemem.org.worker import SyncResult, sync_repositories
from tests.org.hub import CHANGES, Hub, expected, held
from tests.support import git, make_repo, write


class Killed(BaseException):
    """What ends a worker at some point of its transaction."""


def test_any_history_ends_as_head_says(engine: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.engine = engine
    monkeypatch.setattr(look, "CHUNK_SIZE", 2)  # records that are written at a time
    run_state_machine_as_test(machine, settings=BRIEF)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_any_long_history_ends_as_head_says(engine: Postgres) -> None:
    machine.engine = engine
    run_state_machine_as_test(
        machine, settings=settings(BRIEF, max_examples=60, stateful_step_count=30)
    )


BRIEF = settings(
    max_examples=4,
    stateful_step_count=10,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


class machine(RuleBasedStateMachine):  # noqa: N801 - a class that hypothesis makes
    """Two repositories that change, and workers that may die or meet."""

    engine: Postgres

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.folder = TemporaryDirectory()
        self.hubs = [
            Hub(Path(self.folder.name), f"r{n}", random.Random(seed + n)) for n in range(2)
        ]
        self.in_step = False
        with self.engine.transaction() as con:
            con.execute("delete from repo")
        for hub in self.hubs:
            hub.push()
        self.engine.add_repositories({str(hub.path): str(hub.path) for hub in self.hubs})

    @rule(which=st.integers(0, 1), how=st.sampled_from(CHANGES))
    def change(self, which: int, how: str) -> None:
        getattr(self.hubs[which], how)()
        self.in_step = False

    @rule(at=st.sampled_from(("put", "note_state")))
    def die(self, at: str) -> None:
        self.hubs[0].push()
        with patch.object(PostgresShelf, at, side_effect=Killed), pytest.raises(Killed):
            sync_repositories(self.engine, Path(self.folder.name), os.environ)
        self.in_step = False

    @rule()
    def bring_in(self) -> None:
        assert sync_repositories(self.engine, Path(self.folder.name), os.environ).failed == 0
        self.in_step = True

    @rule()
    def bring_in_at_once(self) -> None:
        workers = [threading.Thread(target=self.bring_in) for _ in range(2)]
        for one in workers:
            one.start()
        for one in workers:
            one.join()

    @invariant()
    def equal(self) -> None:
        if self.in_step:
            for hub in self.hubs:
                assert held(self.engine, hub.path) == expected(hub.path)

    def teardown(self) -> None:
        self.folder.cleanup()


def test_a_repository_that_fails_is_noted_and_stops_nobody(
    engine: Postgres, tmp_path: Path
) -> None:
    hubs = [Hub(tmp_path, name, random.Random(1)) for name in "abcd"]
    for hub in hubs:
        hub.push()
    (hubs[0].path / ".git/HEAD").write_bytes(b"\xff" * 40)
    write(hubs[1].path / ".filemem.toml", "store = '../../etc'\n")
    hubs[1].commit()
    engine.add_repositories(
        {str(hub.path): str(hub.path) for hub in hubs} | {"gone": "/nowhere/at/all"}
    )
    with patch.object(look, "MAX_FILES", 6):
        for _ in range(7):
            hubs[2].push()
        found = sync_repositories(engine, tmp_path, os.environ)
    assert found.failed == 4 - (not engine.list_repositories()[1].failure)
    failed = {one.name: one.failure for one in engine.list_repositories() if one.failure}
    assert "at most 6" in failed[str(hubs[2].path)]
    assert failed["gone"]
    assert str(hubs[0].path) in failed
    assert held(engine, hubs[3].path) == expected(hubs[3].path)
    assert sync_repositories(engine, tmp_path, os.environ).failed == found.failed - 1
    assert held(engine, hubs[2].path) == expected(hubs[2].path)


def test_what_is_private_oversized_or_no_record_stays_out(engine: Postgres, tmp_path: Path) -> None:
    hub = Hub(tmp_path, "one", random.Random(3))
    hub.push()
    there = expected(hub.path)
    for name in (
        "\x01.md",
        "caf\udce9.md",
        f"{'long/' * 100}e.md",
    ):  # what a listing or a database cannot hold
        write(hub.path / "memory" / name, "# Use x\n")
    for name in ("private/a.md", "b.md", "README.md", "notes.txt", ".hidden/c.md"):
        write(hub.path / "memory" / name, f"---\nvisibility: private\n---\n# {name}\n")
    write(hub.path / "memory/huge.md", b"# Huge\n" + b"x" * (2 << 20))
    (hub.path / "memory/link.md").symlink_to("/etc/passwd")
    hub.commit()
    engine.add_repositories({str(hub.path): str(hub.path)})
    assert sync_repositories(engine, tmp_path, os.environ) == SyncResult(changed=len(there))
    assert held(engine, hub.path) == there
    write(
        hub.path / "memory/topic.md",
        f"---\ntype: decision\ntopic: {'very long ' * 1000}\n---\n# Use x\n",
    )
    hub.commit()
    with patch.object(look, "MAX_BYTES", 10_000):
        assert sync_repositories(engine, tmp_path, os.environ) == SyncResult(failed=1)
    assert "10,000 bytes" in engine.list_repositories()[0].failure
    assert sync_repositories(engine, tmp_path, os.environ) == SyncResult(changed=1)


def test_records_on_a_branch_of_their_own_are_read_there(engine: Postgres, tmp_path: Path) -> None:
    hub = Hub(tmp_path, "one", random.Random(3))
    git(hub.path, "switch", "--quiet", "--orphan", "records")
    write(hub.path / "decisions/a.md", "---\ntype: decision\ntopic: x\n---\n# Use x\n")
    hub.commit()
    git(hub.path, "switch", "--quiet", "main")
    write(hub.path / ".filemem.toml", "branch = 'records'\n")
    hub.commit()
    engine.add_repositories({"one": str(hub.path)})
    assert sync_repositories(engine, tmp_path, os.environ).changed == 1
    assert sync_repositories(engine, tmp_path, os.environ) == SyncResult()


def test_a_project_s_own_words_for_a_status_count_from_the_commit_that_states_them(
    engine: Postgres, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "one")
    write(repo / "memory/0001-a.md", "# A\n\n## Status\n\nOn the shelf\n")
    write(repo / "memory/0002-b.md", "# B\n\n## Status\n\nAccepted\n")
    engine.add_repositories({"one": str(repo)})

    def settings_of(text: str) -> tuple[int, dict[str, bool]]:
        write(repo / ".filemem.toml", text)
        git(repo, "add", ".")
        git(repo, "commit", "-q", "--allow-empty", "-m", "Explain")
        done = sync_repositories(engine, tmp_path / "clones", os.environ)
        assert done.failed == 0, engine.list_repositories()
        with engine.transaction() as con:
            return done.changed, dict(con.execute("select path, live from doc").fetchall())

    unclear = {"0001-a.md": False, "0002-b.md": True}
    assert settings_of("") == (2, unclear)
    assert settings_of('[status]\n"on the shelf" = "accepted"\n')[1] == dict.fromkeys(unclear, True)
    assert settings_of('[status]\n"on the shelf" = "accepted"\n# kept\n')[0] == 0
    assert settings_of("")[1] == unclear


def test_an_address_is_cloned_bare_and_fetched_anew(
    engine: Postgres, tmp_path: Path, reached: Path
) -> None:
    hub = Hub(reached, "one", random.Random(5))
    hub.push()
    git(hub.path, "config", "uploadpack.allowFilter", "true")
    git(hub.path, "config", "uploadpack.allowAnySHA1InWant", "true")
    engine.add_repositories(
        {"git.example.org/one": "ada@git.example.org:one", "empty": "ada@git.example.org:empty"}
    )
    git(reached, "init", "--quiet", "--bare", "--initial-branch=main", "empty")
    assert sync_repositories(engine, tmp_path / "clones", os.environ).failed == 0
    git(hub.path, "push", "--quiet", str(reached / "empty"), "HEAD")
    for _ in range(2):
        assert sync_repositories(engine, tmp_path / "clones", os.environ).failed == 0
    assert [one.records for one in engine.list_repositories()] == [len(hub.files)] * 2
    engine.drop_repository("empty")
    hub.push()
    git(hub.path, "commit", "--quiet", "--amend", "-m", "Other")
    git(hub.path, "branch", "--quiet", "--move", "trunk")
    assert sync_repositories(engine, tmp_path / "clones", os.environ).failed == 0
    git(
        hub.path, "switch", "--quiet", "--create", "next"
    )  # another default branch, and the old one stays
    hub.push()
    assert sync_repositories(engine, tmp_path / "clones", os.environ).failed == 0
    with engine.transaction() as con:
        found = con.execute("select path, blob from doc").fetchall()
    assert dict(found) == {path: blob for path, (blob, _) in expected(hub.path).items()}
    assert list((tmp_path / "clones").glob("*/objects/pack/*.promisor"))
