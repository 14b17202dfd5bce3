"""Promise: a push is found as soon as the repository's hook has reported it, over the real service and worker."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from filemem.org import access
from filemem.org.postgres import Postgres
from tests.org.hub import Hub
from tests.org.test_hooks import SECRET, reports, signature
from tests.org.test_service import Answer, serving
from tests.support import environment, git
from tests.system.tools import FILEMEM

HOOK = Path(__file__).parents[2] / "deploy/post-receive"


class Site(NamedTuple):
    """A service."""

    port: int
    engine: Postgres

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Answer]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            every = {"Content-Type": "application/json", **headers}
            connection.request("POST", path, body, every)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def site(engine: Postgres, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("FILEMEM_ORG_HOOK_SECRET", SECRET)
    with serving(dsn) as port:
        yield Site(port, engine)


@contextmanager
def working(dsn: str, folder: Path) -> Iterator[None]:
    """Run a worker that never polls: it hears of pushes."""
    env = {**os.environ, "FILEMEM_ORG_DSN": dsn, "XDG_CACHE_HOME": str(folder / "cache")}
    with (folder / "work.log").open("wb") as log:
        command = [FILEMEM, "org", "work", "--every", "3600"]
        with subprocess.Popen(command, stderr=log, env=env) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0


def test_a_push_to_a_bare_repository_is_found(site: Site, dsn: str, tmp_path: Path) -> None:
    bare = tmp_path / "api.git"
    hub = Hub(tmp_path, "hub", random.Random(1))
    git(tmp_path, "clone", "--quiet", "--bare", str(hub.path), str(bare))
    (bare / "hooks").mkdir(exist_ok=True)
    (bare / "hooks/post-receive").write_bytes(HOOK.read_bytes())
    (bare / "hooks/post-receive").chmod(0o755)
    site.engine.add_repositories({str(bare): str(bare)})
    with site.engine.transaction() as database:
        token = access.add_token(database, "ada")
        access.replace_rights(database, access.Rights({"ada": [str(bare)]}))

    def found(title: str) -> bool:
        body = json.dumps({"query": title}).encode()
        status, answer = site.post("/org/search", body, {"Authorization": f"Bearer {token}"})
        assert status == 200
        return title in [hit["title"] for hit in answer["results"]]

    with working(dsn, tmp_path):
        while not site.engine.list_repositories()[0].head:
            threading.Event().wait(0.05)
        reached = {
            "FILEMEM_ORG_URL": f"http://127.0.0.1:{site.port}",
            "FILEMEM_ORG_HOOK_SECRET": SECRET,
        }
        for number in range(1, 3):
            hub.push()
            title = f"Choice {number} of hub"
            push = ("push", "--quiet", str(bare), "HEAD:main")
            subprocess.run(["git", *push], cwd=hub.path, check=True, env=environment(reached))
            while not found(title):  # the test's own limit of time ends this
                threading.Event().wait(0.05)
    with site.engine.transaction() as database:
        row = database.execute("select hooked is not null, pushed, tries from job").fetchone()
    assert row == (True, None, 0)
    lines = [json.loads(line) for line in (tmp_path / "work.log").read_text().splitlines()]
    assert {line["message"] for line in lines} == {"changed"}
    assert all(line["repository"] == str(bare) and line["records"] for line in lines)


def test_each_host_may_report(site: Site) -> None:
    site.engine.add_repositories({"git.example.org/team/api": "https://git.example.org/team/api"})
    for headers, body in reports().values():
        assert site.post("/org/hook", body, headers) == (202, {"queued": 1})
    with site.engine.transaction() as database:
        assert database.execute("select count(*) from job where due <= now()").fetchone() == (1,)


def test_nobody_else_may_report(site: Site) -> None:
    site.engine.add_repositories({"git.example.org/team/api": "https://git.example.org/team/api"})
    headers, body = reports("x" * 32)["github"]
    assert site.post("/org/hook", body, headers)[0] == 401
    assert site.post("/org/hook", body, {})[0] == 401
    large = b'{"a": "' + b"x" * 4_194_304 + b'"}'
    assert site.post("/org/hook", large, {})[0] == 413
    headers, body = reports()["git"]
    assert site.post("/org/hook", body, headers | {"Content-Type": "text/plain"})[0] == 415
    assert site.post("/org/search", body, headers)[0] == 401, "it lets nobody ask"
    signed = {"X-Hub-Signature-256": f"sha256={signature(b'[]')}"}
    assert site.post("/org/hook", b"[]", signed)[0] == 400
    other = json.dumps({"repository": "git.example.org/team/other"}).encode()
    assert site.post("/org/hook", other, headers) == (202, {"queued": 0})
    with site.engine.transaction() as database:
        assert database.execute("select count(*) from job").fetchone() == (0,)


def test_without_a_secret_nobody_may(dsn: str, engine: Postgres) -> None:
    with serving(dsn) as port:
        headers, body = reports("")["gitlab"]
        status, answer = Site(port, engine).post("/org/hook", body, headers)
    assert status == 404
    assert "FILEMEM_ORG_HOOK_SECRET" in answer["hint"]
