"""Promise: who runs the index sees from outside how it stands, and nobody else does."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from filemem.errors import Locked
from filemem.org import access, metrics
from filemem.org.postgres import Postgres
from filemem.org.queue import Queue
from filemem.org.worker import sync_repositories
from tests.org.test_service import made
from tests.system.tools import FILEMEM, cli

DASHBOARD = Path(__file__).parents[2] / "deploy/grafana.json"
Headers = dict[str, str]


class Outside(NamedTuple):
    """A service, and what it logs."""

    port: int
    pid: int
    engine: Postgres
    log: Path
    token: str  # of the name metrics
    ada: str

    def get(self, path: str, **headers: str) -> tuple[int, str, Headers]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET", path, headers=names)
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read().decode(), fields
        finally:
            connection.close()

    def figures(self) -> dict[str, float]:
        """What /metrics says: name with labels -> value."""
        status, text, fields = self.get("/metrics", Authorization=f"Bearer {self.token}")
        assert status == 200
        assert fields["content-type"].startswith("text/plain; version=")
        families = text_string_to_metric_families(text)
        samples = [sample for family in families for sample in family.samples]
        return {" ".join([one.name, *one.labels.values()]): one.value for one in samples}

    def lines(self) -> list[dict[str, object]]:
        """What the service has logged since it began."""
        text = self.log.read_text().partition("serves MCP")[2]
        return [json.loads(line) for line in text.splitlines()[1:]]


@pytest.fixture
def outside(
    engine: Postgres, dsn: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Outside]:
    api = made(tmp_path / "api", caching="Cache in Redis", auth="Rotate tokens")
    engine.add_repositories({"team/api": str(api), "team/gone": str(tmp_path / "gone")})
    sync_repositories(engine, tmp_path / "clones", os.environ)
    with engine.transaction() as database:
        tokens = [access.add_token(database, name) for name in ("metrics", "ada")]
        access.replace_rights(database, access.Rights({"ada": ["team/api"]}))
    env = {**os.environ, "FILEMEM_ORG_DSN": dsn}
    with (tmp_path / "log").open("w") as log:
        command = [FILEMEM, "org", "serve", "--port", "0", *getattr(request, "param", ())]
        with subprocess.Popen(command, stderr=log, env=env) as process:
            while not (begun := re.search(r":(\d+)/mcp\n", (tmp_path / "log").read_text())):
                assert process.poll() is None
            yield Outside(int(begun[1]), process.pid, engine, tmp_path / "log", *tokens)
            process.terminate()
            assert process.wait(30) in (-15, 143)


def test_figures_say_what_was_asked_and_how_the_index_stands(outside: Outside) -> None:
    asked = "/org/search?query=cache"
    assert outside.get(asked, Authorization=f"Bearer {outside.ada}")[0] == 200
    assert outside.get(asked)[0] == 401
    assert outside.get("/none/of/ours", Authorization=f"Bearer {outside.ada}")[0] == 404
    Queue(outside.engine).add_missing_and_renew(())
    with outside.engine.transaction() as database:
        database.execute("update job set due = now() - interval '1 hour'")
    seen = outside.figures()
    assert seen["filemem_org_requests_total /org/search 200"] == 1
    assert seen["filemem_org_requests_total /org/search 401"] == 1
    assert seen["filemem_org_requests_total other 404"] == 1
    assert seen["filemem_org_request_seconds_count /org/search"] == 2
    assert seen["filemem_org_repositories"] == 2
    assert seen["filemem_org_records"] == 2
    assert seen["filemem_org_passages"] >= 2
    assert 0 <= seen["filemem_org_repository_age_seconds team/api"] < 600
    assert "filemem_org_repository_age_seconds team/gone" not in seen, "never looked at"
    assert seen["filemem_org_repository_failed team/api"] == 0
    assert seen["filemem_org_repository_failed team/gone"] == 1
    assert (seen["filemem_org_queue_due"], seen["filemem_org_queue_held"]) == (2, 0)
    assert 3600 <= seen["filemem_org_queue_late_seconds"] < 4200


def test_figures_name_repositories_so_nobody_else_reads_them(outside: Outside) -> None:
    for headers in ({}, {"Authorization": f"Bearer {outside.ada}"}, {"Authorization": "Bearer x"}):
        status, text, _ = outside.get("/metrics", **headers)
        assert (status, "team/" in text) == (401, False)
    bearer = f"Bearer {outside.token}"
    answer = outside.get("/org/search?query=cache", Authorization=bearer)[1]
    assert json.loads(answer)["results"] == [], "its token sees no repository"


def test_it_is_ready_while_the_database_answers(outside: Outside) -> None:
    assert outside.get("/ready")[0] == 200
    with outside.engine.transaction() as database:
        name = database.execute("select current_database()").fetchone()
        assert name is not None
        base = psycopg.conninfo.make_conninfo(database.info.dsn, dbname="postgres")
    outside.engine.close()
    with psycopg.connect(base, autocommit=True) as con:
        con.execute(f"alter database {name[0]} with allow_connections false")
        con.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name
        )
        try:
            status, text, _ = outside.get("/ready")
            assert (status, "cannot be used" in text, name[0] in text) == (503, True, False)
            assert outside.get("/health")[0] == 200, "the process lives: a restart helps nobody"
        finally:
            con.execute(f"alter database {name[0]} with allow_connections true")
    reasons = [line["level"] for line in outside.lines() if line["message"] != "answered"]
    assert set(reasons) == {"error", "warning"}
    while outside.get("/ready")[0] != 200:  # a connection that was ended is noticed once
        pass
    assert outside.get("/ready")[0] == 200


def test_a_line_says_what_was_answered_and_not_what_was_asked(outside: Outside) -> None:
    bearer = f"Bearer {outside.ada}"
    asked = "/org/search?query=secret-plan"
    _, _, fields = outside.get(asked, Authorization=bearer, X_Request_Id="from.proxy-1")
    assert fields["x-request-id"] == "from.proxy-1"
    _, _, own = outside.get(asked, Authorization=bearer, X_Request_Id="two words\x7f")
    assert re.fullmatch("[0-9a-f]{16}", own["x-request-id"])
    outside.get("/health")
    lines = outside.lines()
    assert [line["request"] for line in lines] == ["from.proxy-1", own["x-request-id"]]
    assert {line["route"] for line in lines} == {"/org/search"}
    assert all(line["status"] == 200 and str(line["time"]).endswith("Z") for line in lines)
    assert "secret-plan" not in outside.log.read_text()
    assert "ada" not in outside.log.read_text()


def test_status_names_what_is_late(
    engine: Postgres, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEMEM_ORG_DSN", dsn)
    engine.add_repositories(
        {name: f"/srv/{name}" for name in ("new", "fresh", "pushed", "old", "held")}
    )
    queue = Queue(engine)
    queue.add_missing_and_renew(())
    queue.report_pushes(["pushed"])
    past = (
        "update job set due = now() - interval '10 minutes' from repo where id = repo and name = %s"
    )
    with engine.transaction() as database:
        database.execute("delete from job using repo where id = repo and name = 'new'")
        for name in ("pushed", "old", "held"):
            database.execute(past, (name,))
        database.execute(
            """update job set held = now() + interval '1 minute'
            from repo where id = repo and name = 'held'"""
        )
    out = cli(tmp_path, "org", "status").out
    late = [line for line in out.splitlines() if line.startswith("late: ")]
    assert late == [
        "late: old: it has been due for 10 min; does a worker run?",
        "late: pushed: a push has waited for 10 min; does a worker run?",
    ]
    rows = cli(tmp_path, "org", "status", "--json").json["repositories"]
    seconds = {row["repository"]: row["late"] for row in rows}
    assert seconds["old"] >= 600
    assert seconds["new"] == seconds["held"] == 0


def test_the_dashboard_asks_for_figures_that_there_are(outside: Outside) -> None:
    names = set(re.findall(r"filemem_org_\w+", DASHBOARD.read_text()))
    outside.get("/health")
    there = {name.split()[0] for name in outside.figures()}
    assert names <= there
    assert len(names) >= 8
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(target["expr"] for panel in panels for target in panel["targets"])


def children(pid: int) -> set[int]:
    """The processes that answer: Python's own helper beside them has another program."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    lines = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in text.split()}
    return {child for child, line in lines.items() if "spawn_main" in line}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux's list of processes")
@pytest.mark.parametrize("outside", [("--workers", "3")], indirect=True)
def test_several_processes_answer_as_one(outside: Outside) -> None:
    asked = "/org/search?query=cache"
    bearer = f"Bearer {outside.ada}"
    first = children(outside.pid)
    assert len(first) == 3
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: outside.get(asked, Authorization=bearer), range(24)))
    assert {status for status, _, _ in answers} == {200}
    assert len({text for _, text, _ in answers}) == 1
    for _ in range(4):  # whichever answers knows what all of them have answered
        assert outside.figures()["filemem_org_requests_total /org/search 200"] == 24
    os.kill(min(first), signal.SIGKILL)
    while len(children(outside.pid) - first) < 1:
        assert outside.get(asked, Authorization=bearer)[0] == 200
    assert outside.figures()["filemem_org_requests_total /org/search 200"] > 24


def test_a_file_that_another_process_just_begins_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counter_1.db").touch()
    monkeypatch.setattr(metrics, "_PAUSE", 0)
    with pytest.raises(Locked, match="being written"):
        metrics.render_metrics([], str(tmp_path))
    (tmp_path / "counter_1.db").unlink()
    assert "filemem_org_repositories 0.0" in metrics.render_metrics([], str(tmp_path))
