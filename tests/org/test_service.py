"""The service of an organisation: whoever asks sees what they may see, over every route and tool, and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.org import access, offer, worker
from filemem.org.postgres import Postgres
from filemem.server.calls import ANSWER_KEY
from tests.org.conftest import MODEL, copied
from tests.support import git, make_repo, write
from tests.system.tools import FILEMEM, cli, ok, process, talking

Answer = dict[str, Any]
QUESTION = "how do we cache"
MARK = "Zanzibar"  # a word of every record, and of nothing else
TITLE = f"Cache in Redis, says {MARK}"
ROUTES: dict[str, Answer] = {"search": {"query": QUESTION}, "get": {"ids": [TITLE, "caching"]}}


class Running(NamedTuple):
    """A service, its database, and the repositories in it."""

    port: int
    engine: Postgres
    api: Path
    web: Path
    tokens: dict[str, str]
    dsn: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, given: Answer, token: str = "", **more: str
    ) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more
        where = f"{path}?{urlencode(given)}" if method == "GET" else path
        try:
            connection.request(
                method, where, None if method == "GET" else json.dumps(given), headers
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def as_tool(self, name: str, given: Answer, token: str = "") -> tuple[int, str]:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": given},
        }
        return self.ask("POST", "/mcp", call, token)[:2]


def made(folder: Path, **decisions: str) -> Path:
    """A repository with decisions by topic."""
    with Memory.open(make_repo(folder)) as memory:
        for topic, decision in decisions.items():
            memory.save(
                topic=topic, decision=f"{decision}, says {MARK}", reasoning="It was measured"
            )
    return folder


@pytest.fixture(scope="module")
def running(template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service: ada sees two repositories, bob one, fay that and its mirror, eve has a token and sees nothing."""
    tmp, both = tmp_path_factory.mktemp("org"), ["team/api", "team/web"]
    api = made(tmp / "api", caching="Cache in Redis", auth="Rotate tokens")
    web = made(tmp / "web", caching="Cache at the edge")
    with Memory.open(web) as memory:
        memory.save(
            title=f"Salaries, says {MARK}", text="how do we cache salaries", visibility="department"
        )
    git(tmp, "clone", "-q", "--bare", "web", "mirror.git")
    with copied(template) as dsn, closing(Postgres(dsn, MODEL)) as engine:
        engine.add_repositories(
            {"team/api": str(api), "team/web": str(web), "team/mirror": str(tmp / "mirror.git")}
        )
        worker.sync_repositories(engine, tmp / "cache", dict(os.environ))
        with engine.transaction() as database:
            tokens = {
                name: access.add_token(database, name)
                for name in ("ada", "bob", "eve", "fay", "gone")
            }
            access.replace_rights(
                database,
                access.Rights(
                    {"ada": both, "bob": both[1:], "fay": ["team/web", "team/mirror"], "gone": both}
                ),
            )
            access.revoke_tokens(database, "gone")
        with serving(dsn, "--rate", "6000", "--name", "memories.example.org") as port:
            yield Running(port, engine, api, web, tokens, dsn)


@contextmanager
def serving(dsn: str, *options: str) -> Iterator[int]:
    """Run the service; its port."""
    command = [FILEMEM, "org", "serve", "--port", "0", *options]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env={**os.environ, "FILEMEM_ORG_DSN": dsn}
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        started = next(line.decode() for line in lines if b"serves MCP" in line)
        rest = threading.Thread(target=lambda: [None for _ in lines])  # else the pipe fills up
        rest.start()
        yield int(started.rpartition(":")[2].partition("/")[0])
        process.terminate()
        assert process.wait(20) in (-15, 143)
        rest.join()


@pytest.mark.parametrize("name", ROUTES)
def test_a_stranger_sees_nothing_over_every_route_and_tool(running: Running, name: str) -> None:
    assert {route.path for route in offer.ROUTES} == {f"/org/{one}" for one in ROUTES}
    for token in ("", "x" * 43, running.tokens["gone"], running.tokens["eve"]):
        told = [
            running.ask(method, f"/org/{name}", ROUTES[name], token)[:2]
            for method in ("GET", "POST")
        ]
        told.append(running.as_tool(name, ROUTES[name], token))
        for status, body in told:
            assert MARK not in body.replace(TITLE, "")
            assert (
                status == 401
                if token != running.tokens["eve"]
                else '"results":[{' not in body.replace(" ", "")
            )
    status, body = running.ask(
        "GET", f"/org/{name}", {**ROUTES[name], "token": running.tokens["ada"]}
    )[:2]
    assert (status, MARK in body) == (401, False)  # in an address it is no token
    assert running.ask("GET", f"/org/{name}", ROUTES[name], running.tokens["ada"])[1].count(MARK)


def test_everybody_sees_the_repositories_that_access_gives_them(running: Running) -> None:
    def seen(name: str) -> set[str]:
        status, body, _ = running.ask(
            "POST", "/org/search", {"query": QUESTION}, running.tokens[name]
        )
        assert status == 200
        return {hit["repository"] for hit in json.loads(body)["results"]}

    assert seen("ada") == {"team/api", "team/web"}
    assert seen("bob") == {"team/web"}
    assert seen("eve") == set()
    redis = json.loads(
        running.ask("POST", "/org/search", {"query": "Redis"}, running.tokens["ada"])[1]
    )["results"][0]
    assert running.ask("POST", "/org/get", {"id": redis["id"]}, running.tokens["bob"])[0] == 404
    with running.engine.transaction() as database:
        before = database.execute("select principal, repo from access").fetchall()
        assert access.replace_rights(
            database, access.Rights({"*": ["team/api"], "bob": ["team/web", "team/none"]})
        ) == (
            2,
            ["team/none"],
        )
    try:
        assert seen("eve") == seen("ada") == {"team/api"}
        assert seen("bob") == {"team/api", "team/web"}
    finally:
        with running.engine.transaction() as database, database.cursor() as cursor:
            database.execute("delete from access")
            cursor.executemany("insert into access values (%s, %s)", before)


def test_hits_say_where_they_are_from_are_quoted_and_show_no_statistics(running: Running) -> None:
    given = {"query": QUESTION, "detail": True, "type": "decision"}
    answer = json.loads(running.ask("POST", "/org/search", given, running.tokens["ada"])[1])
    assert "it is data" in answer["note"]
    for hit in answer["results"]:
        assert hit["repository"] in ("team/api", "team/web")
        assert hit["author"] == "Ada"
        assert len(hit["commit"]) == 40
        assert hit["seen_at"].startswith("20")
        assert hit["path"].startswith("memory/decisions/")
        assert hit["note"] == "quoted from another repository"
        assert not hit.keys() & {"scores", "keyword", "df", "counts"}


def test_what_mirrors_have_too_is_shown_once(running: Running) -> None:
    for name in ROUTES:
        given = {"id": "caching"} if name == "get" else ROUTES[name]
        (hit,) = json.loads(running.ask("POST", f"/org/{name}", given, running.tokens["fay"])[1])[
            "results"
        ]
        assert {hit["repository"], *hit["also_in"]} == {"team/web", "team/mirror"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_official_clients_ask_it_and_it_only_reads(running: Running, mode: str) -> None:
    with talking(f"{running.url}/mcp", mode, token=running.tokens["bob"]) as talk:
        tools = {tool.name: tool for tool in talk.tools()}
        assert tools.keys() == set(ROUTES)
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert [hit["repository"] for hit in talk.call("search", query=QUESTION)["results"]] == [
            "team/web"
        ]
        assert talk.refused("save", topic="x", decision="y", reasoning="z")["kind"] == "not_found"
    for path in ("/viewer", "/api/save", "/api/mama/search", "/graph", "/api/daemon/logs"):
        assert running.ask("GET", path, {}, running.tokens["ada"])[0] == 404
    assert running.ask("GET", "/health", {})[0] == 200
    for given in (
        {"query": QUESTION, "path": "x"},
        {"query": QUESTION, "offset": 10**9},
        {"query": "is:live"},
        {},
    ):
        assert running.ask("POST", "/org/search", given, running.tokens["ada"])[0] == 400


def test_people_who_ask_at_the_same_time_are_kept_apart(running: Running) -> None:
    mine = {"bob": {"team/web"}, "ada": {"team/api", "team/web"}, "eve": set()}

    def seen(name: str) -> bool:
        call = running.as_tool("search", {"query": QUESTION}, running.tokens[name])
        route = running.ask("POST", "/org/search", {"query": QUESTION}, running.tokens[name])
        answers = json.loads(call[1])["result"]["_meta"][ANSWER_KEY], json.loads(route[1])
        return all({hit["repository"] for hit in one["results"]} == mine[name] for one in answers)

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(seen, [*mine] * 16))


def test_command_line_and_servers_ask_it(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEMEM_ORG_URL", running.url)
    monkeypatch.setenv("FILEMEM_ORG_TOKEN", running.tokens["bob"])
    repo = make_repo(tmp_path / "repo")
    (hit,) = ok(repo, "search", "--org", QUESTION)["results"]
    assert (hit["repository"], hit["title"]) == ("team/web", f"Cache at the edge, says {MARK}")
    assert "team/web/memory/decisions" in cli(repo, "search", "--org", QUESTION).out
    assert cli(repo, "search", "--org", "--oneline", QUESTION).out.endswith("caching  team/web\n")
    for name in (hit["id"].rpartition("_")[2], hit["title"], "Caching"):
        (whole,) = ok(repo, "get", "--org", name)["results"]
        assert whole["text"] == "It was measured"
    assert cli(repo, "get", "--org", "nothing").code == 4
    assert (
        "search has no argument 'path'"
        in cli(repo, "search", "--org", "--path", "x", "caching").err
    )
    with talking(repo) as talk:
        (found,) = talk.call("search", query=QUESTION, scope="org")["results"]
        assert found["note"] == "quoted from another repository"
        assert (
            talk.call("get", id=found["id"], scope="org")["results"][0]["repository"] == "team/web"
        )


def test_a_revoked_token_and_a_forgotten_record_are_gone_at_once(
    running: Running, tmp_path: Path
) -> None:
    with running.engine.transaction() as database:
        first, second = access.add_token(database, "bob"), access.add_token(database, "bob")
    given = {"query": QUESTION}
    assert running.ask("POST", "/org/search", given, first)[0] == 200
    with Memory.open(running.web) as memory:
        memory.save(topic="fonts", decision="Use system fonts", reasoning="They load at once")
        worker.sync_repositories(running.engine, tmp_path, dict(os.environ))
        hit = json.loads(running.ask("POST", "/org/search", {"query": "fonts"}, first)[1])[
            "results"
        ][0]
        memory.delete(hit["id"])
    worker.sync_repositories(running.engine, tmp_path, dict(os.environ))
    assert running.ask("POST", "/org/get", {"id": hit["id"]}, first)[0] == 404
    with running.engine.transaction() as database:
        (spare,) = (
            one["id"]
            for one in access.list_tokens(database)
            if one["id"] == access.hash_token(second).hex()[:8]
        )
        assert access.revoke_tokens(database, spare) == 1
    assert running.ask("POST", "/org/search", given, second)[0] == 401
    assert running.ask("POST", "/org/search", given, first)[0] == 200
    with running.engine.transaction() as database:
        assert access.revoke_tokens(database, "bob") == 2
    assert running.ask("POST", "/org/search", given, first)[0] == 401
    with running.engine.transaction() as database:
        database.execute(
            "insert into token(hash, name) values (%s, 'bob')",
            (access.hash_token(running.tokens["bob"]),),
        )


def test_who_asks_too_often_is_told_when_to_ask_again(running: Running) -> None:
    with serving(running.dsn, "--rate", "1") as port:
        again = running._replace(port=port)
        told = [
            again.ask("POST", "/org/search", {"query": QUESTION}, running.tokens["ada"])
            for _ in range(3)
        ]
        status, body, headers = max(
            told, key=lambda one: one[0]
        )  # a minute may begin between two of them
        assert told[0][0] == 200
        assert (status, json.loads(body)) == (429, {"error": "this token asks too often"})
        assert 0 < int(headers["retry-after"]) <= 60
        assert (
            again.ask("POST", "/org/search", {"query": QUESTION}, running.tokens["bob"])[0] == 200
        )


def test_a_database_that_fails_is_said_without_its_address(running: Running, template: str) -> None:
    with ExitStack() as gone:
        dsn = gone.enter_context(copied(template))
        with serving(dsn) as port, closing(Postgres(dsn, MODEL)) as engine:
            with engine.transaction() as database:
                token = access.add_token(database, "ada")
                database.execute("drop function visible cascade")
            told = [
                running._replace(port=port).ask("GET", "/org/search", {"query": QUESTION}, token)[
                    :2
                ]
            ]
            engine.close()
            gone.close()
            told.append(
                running._replace(port=port).ask(
                    "GET", "/org/search", {"query": QUESTION}, "a" * 43
                )[:2]
            )
    for status, body in told:
        assert (status, json.loads(body)["error"]) == (
            503,
            "the database of this service cannot be used now",
        )
        assert "FILEMEM_ORG_DSN" not in body


def test_a_proxy_passes_its_own_name_on_and_a_page_may_not_ask(running: Running) -> None:
    def status(**headers: str) -> int:
        return running.ask(
            "GET", "/org/search", {"query": QUESTION}, running.tokens["bob"], **headers
        )[0]

    assert status(Host="memories.example.org") == 200
    assert status(Host="evil.example.org") == 421
    assert status(Origin="https://evil.example.org") == 403


def test_it_starts_with_a_database_and_on_this_machine_unless_a_proxy_is_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "FILEMEM_ORG_DSN" in cli(tmp_path, "org", "serve").err
    monkeypatch.setenv("FILEMEM_ORG_DSN", "host=/nowhere")
    refused = cli(tmp_path, "org", "serve", "--host", "0.0.0.0")
    assert refused.code == 2
    assert "--behind-proxy" in refused.err
    assert cli(tmp_path, "org", "serve", "--host", "0.0.0.0", "--behind-proxy").code == 7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ada = ['a', 'b']", ""),
        ('{"ada": ["a", "b"]}', ""),
        ("ada = 'a'", "ada must be a list"),
        ("ada = [1]", "must be text"),
        ("'a b' = ['a']", "a b"),
        ("ada = [", "cannot be read"),
        ("{", "cannot be read"),
    ],
)
def test_a_file_of_access_is_read_whole_or_refused(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path / ("access.json" if text.startswith("{") else "access.toml"), text)
    if not told:
        assert access.read_rights(path) == access.Rights({"ada": ["a", "b"]})
    else:
        with pytest.raises(BadInput, match=told):
            access.read_rights(path)


def test_the_client_of_postgresql_needs_no_library_of_the_system(tmp_path: Path) -> None:
    program = (
        "import ctypes.util; ctypes.util.find_library = lambda name: None\n"
        "import filemem.org.postgres, psycopg; print(psycopg.pq.__impl__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": ""},
    )
    assert done.stdout.strip() == "binary"


def test_without_that_client_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    write(
        tmp_path / "psycopg/__init__.py",
        "raise ModuleNotFoundError('no psycopg', name='psycopg')\n",
    )
    done = process(tmp_path, "org", "token", "list", PYTHONPATH=str(tmp_path))
    assert done.code == 7
    assert "pip install 'filemem[org]'" in done.err
