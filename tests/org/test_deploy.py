"""Promise: what deploy/ holds runs: files name commands and options that there are, and logins may do their part."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
import yaml

from filemem.cli.org import org
from filemem.org import access
from filemem.org.postgres import Postgres
from filemem.org.queue import Queue
from filemem.org.workers import Workers
from tests.org import server
from tests.org.conftest import MODEL
from tests.org.test_service import Running, made, serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs/organisation.md"
COMPOSE: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
FILES = sorted(path for path in DEPLOY.iterdir() if path.suffix in (".service", ".yaml"))


def commands() -> list[list[str]]:
    """Every command of filemem in the files, without the name of the program."""
    text = "".join((DEPLOY / name).read_text() for name in os.listdir(DEPLOY) if "service" in name)
    lines = re.findall(r"^ExecStart=\S+/filemem (.*)", text, re.MULTILINE)
    services = COMPOSE["services"].values()
    words = [row["command"] for row in services if row["image"] == "filemem" and "command" in row]
    return [*map(shlex.split, lines), *words]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_in_files_are_understood(words: list[str]) -> None:
    group, name, *rest = words
    assert group == "org"
    command = org.commands[name]
    given = ["1" if word.startswith("${WORKERS") else word for word in rest]
    assert isinstance(command, click.Command)
    assert command.make_context(name, given)


def test_every_setting_of_the_composition_is_in_the_example() -> None:
    needed = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    example = (DEPLOY / "example.env").read_text()
    assert needed == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def test_mounted_files_are_there() -> None:
    mounted = re.findall(r"- \./([\w.]+):/\S+:ro", (DEPLOY / "compose.yaml").read_text())
    assert [name for name in mounted if name != "ssh" and not (DEPLOY / name).exists()] == []
    assert {name for name in os.listdir(DEPLOY) if name not in PAGE.read_text()} <= {
        "logins.sh",
        "example.env",
        "Caddyfile",
        "Containerfile",
    }


def test_the_image_has_what_the_package_is_built_from(tmp_path: Path) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    names = [line.removeprefix("!") for line in lines if line.startswith("!")]
    context = tmp_path / "src"
    context.mkdir()
    for name in names:
        (context / name).symlink_to(ROOT / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=context, check=True, capture_output=True)
    assert list(tmp_path.glob("filemem-*.whl"))


def test_each_login_may_do_its_part_and_no_more(template: str, tmp_path: Path) -> None:
    binaries = server.binaries()
    if binaries is None:
        pytest.skip("psql comes with the wheel of PostgreSQL")
    host = psycopg.conninfo.conninfo_to_dict(template)["host"]
    with psycopg.connect(f"{template}postgres", autocommit=True) as con:
        con.execute("create database memories")
    env = {
        **{name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ},
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PGHOST": str(host),
        "POSTGRES_USER": "filemem",
        "POSTGRES_DB": "memories",
        "WORKER_PASSWORD": "it's",
        "SERVICE_PASSWORD": "$x",
    }
    subprocess.run(["sh", str(DEPLOY / "logins.sh")], env=env, check=True, capture_output=True)
    api = made(tmp_path / "api", caching="Cache in Redis")
    dsn = f"{template}memories"
    with closing(Postgres(dsn, MODEL)) as owner:
        owner.init_tables()
        owner.add_repositories({"team/api": str(api)})
        with owner.transaction() as database:
            token = access.add_token(database, "ada")
            metrics = access.add_token(database, "metrics")
            access.replace_rights(database, access.Rights({"ada": ["team/api"]}))
    with closing(Postgres(dsn.replace("user=filemem", "user=fm_worker"), MODEL)) as worker:
        assert Workers(worker, tmp_path, os.environ, 60).run_once().failed == 0
        queue = Queue(worker)
        queue.add_missing_and_renew(())
        job = queue.take_job()
        assert job is not None
        queue.finish_job(job, 60, has_failed=False)
        assert [row.name for row in queue.list_statuses()] == ["team/api"]
        with pytest.raises(Exception, match="permission denied"), worker.transaction() as database:
            database.execute("select * from token")
    with closing(Postgres(dsn.replace("user=filemem", "user=fm_service"), MODEL)) as service:
        assert Queue(service).report_pushes(["team/api"]) == 1
        assert not service.can_see_all()
        with serving(dsn.replace("user=filemem", "user=fm_service")) as port:
            running = Running(port, service, api, api, {}, dsn)
            asked = {"query": "cache"}
            assert "Redis" in running.ask("GET", "/org/search", asked, token)[1]
            assert "team/api" in running.ask("GET", "/metrics", {}, metrics)[1]
            assert running.ask("GET", "/ready", {})[0] == 200
    with psycopg.connect(f"{template}postgres", autocommit=True) as con:
        con.execute("drop database memories with (force)")
        for name in ("fm_worker", "fm_service"):
            con.execute(f"drop role {name}")


@pytest.mark.long
def test_the_demo_shows_what_it_promises() -> None:
    demo = [sys.executable, "-m", "bench.org_demo"]
    done = subprocess.run(demo, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ada, bob = done.stdout.split("# Bob asks the same")
    assert "Cache in Redis, for ten minutes" in ada
    assert "Cache in Redis" not in bob
    assert "Use system fonts" in bob.split("which fonts?")[1]
    assert "does not take your token" in bob
