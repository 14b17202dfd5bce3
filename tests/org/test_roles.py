"""Promise: the worker and the service log in with rights of their own, which nothing that they send can widen."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from filemem.errors import BrokenStore
from filemem.org import access
from filemem.org.postgres import Postgres
from filemem.org.worker import sync_repositories
from tests.org.conftest import MODEL
from tests.org.hub import Hub, expected, held

_numbers = itertools.count()


class Cluster:
    """Databases of owners who are no superusers, on one server."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.databases = list[str]()

    def run(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(f"{self.base}{database}", autocommit=True) as con:
            for statement in statements:
                con.execute(statement)

    def owned(self) -> str:
        """A database with an owner of its own; its name, which is the owner's too."""
        name = f"own_{os.getpid()}_{next(_numbers)}"
        self.run(f"create role {name} login createrole", f"create database {name} owner {name}")
        self.run("create extension vector", database=name)
        self.databases.append(name)
        return name

    def login(self, database: str, role: str) -> str:
        """How a login that has a role connects."""
        self.run(f"create role {role}_login_{database} login in role {role}")
        return self.dsn(database, f"{role}_login_{database}")

    def dsn(self, database: str, user: str) -> str:
        return psycopg.conninfo.make_conninfo(f"{self.base}{database}", user=user)

    def close(self) -> None:
        for name in self.databases:
            self.run(f"drop database {name} with (force)")
            for kind in ("worker", "service"):
                role = f"filemem_{kind}_{name}"
                self.run(f"drop role if exists {role}_login_{name}", f"drop role if exists {role}")
            self.run(f"drop role {name}")


@pytest.fixture
def cluster(template: str) -> Iterator[Cluster]:
    cluster = Cluster(template)
    yield cluster
    cluster.close()


def test_two_owners_share_a_server_and_neither_is_a_superuser(cluster: Cluster) -> None:
    for name in (cluster.owned(), cluster.owned()):
        with closing(Postgres(cluster.dsn(name, name), MODEL)) as engine:
            assert "made ready" in engine.init_tables()
            assert engine.init_tables() == "the database is ready"


def test_an_owner_who_may_make_no_roles_is_told_so(cluster: Cluster) -> None:
    name = cluster.owned()
    cluster.run(f"alter role {name} nocreaterole")
    with closing(Postgres(cluster.dsn(name, name), MODEL)) as engine:
        with pytest.raises(BrokenStore, match="permission denied to create role") as refused:
            engine.init_tables()
        assert "owner" in refused.value.hint


def test_worker_and_service_do_their_work_and_nothing_else(
    cluster: Cluster, tmp_path: Path
) -> None:
    name = cluster.owned()
    hub = Hub(tmp_path, "hub", random.Random(2))
    hub.push()
    with closing(Postgres(cluster.dsn(name, name), MODEL)) as owner:
        owner.init_tables()
        owner.add_repositories({str(hub.path): str(hub.path), "hidden": "/nowhere"})
        with owner.transaction() as database:
            access.replace_rights(database, access.Rights({"ada": [str(hub.path)]}))
            token = access.add_token(database, "ada")
        assert owner.can_see_all()
        with closing(Postgres(cluster.login(name, f"filemem_worker_{name}"), MODEL)) as worker:
            done = sync_repositories(worker, tmp_path, os.environ)
            assert done.changed == len(hub.files), [
                one.failure for one in owner.list_repositories()
            ]
            hub.remove()
            assert sync_repositories(worker, tmp_path, os.environ).failed == 1
            assert not worker.can_see_all()
            with pytest.raises(BrokenStore, match="permission denied"), worker.transaction() as con:
                con.execute("select * from token")
        assert held(owner, hub.path) == expected(hub.path)
    with closing(Postgres(cluster.login(name, f"filemem_service_{name}"), MODEL)) as service:
        assert not service.can_see_all()
        with service.transaction(read_only=True) as con:
            assert access.find_principal(con, token) == "ada"
            assert con.execute("select count(*) from doc").fetchone() == (0,)
        with service.open_reader("ada") as reader:
            assert [one.name for one in reader.list_repositories()] == [str(hub.path)]
            reader.con.execute("select set_config('role', 'none', true)")
            assert [one.name for one in reader.list_repositories()] == [str(hub.path)]
        for statement in (
            "select * from token",
            "select * from access",
            "delete from doc",
            "update repo set source = ''",
            "call tidy()",
            f"set role {name}",
        ):
            with pytest.raises(BrokenStore), service.transaction() as con:
                con.execute(statement)


def test_a_service_that_could_read_past_row_security_says_so(
    engine: Postgres, dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    import subprocess

    from tests.system.tools import FILEMEM

    command = [FILEMEM, "org", "serve", "--port", "0"]
    environment = {**os.environ, "FILEMEM_ORG_DSN": dsn}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stderr is not None
        assert "can read past row security" in process.stderr.readline()
        process.terminate()
