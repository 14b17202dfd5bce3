"""Every route times hostile headers: all refused, nothing changed. And who needs the token: everybody."""

from __future__ import annotations

import hashlib
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from filemem.web.route import Route as Entry
from filemem.web.routes import ROUTES
from tests.support import git, make_repo
from tests.system.tools import cli, ok
from tests.web.support import Reply, Server, serving

JSON = {"Content-Type": "application/json"}
EVERY = [(entry, entry.path.replace("{name:path}", "viewer.css")) for entry in ROUTES]
ENDING = [
    (entry, path) for entry, path in EVERY if path != "/viewer/events"
]  # that answers as long as one listens
BODIES: dict[str, dict[str, Any]] = {
    "/api/checkpoint/save": {"summary": "Evil"},
    "/api/mama/save": {"topic": "evil", "decision": "Evil", "reasoning": "Evil"},
    "/api/save": {"title": "Evil", "text": "Evil"},
    "/graph/update": {"id": "KNOWN", "outcome": "failed"},
    "/api/update": {"id": "KNOWN", "outcome": "failed"},
    "/api/observations/batch": {"ids": ["KNOWN"]},
    "/api/code-act": {"code": "1"},
    "/api/slack/send": {"channel_id": "C1", "message": "Evil"},
    "/viewer/save": {"topic": "evil", "decision": "Evil", "reasoning": "Evil"},
    "/viewer/update": {"id": "KNOWN", "version": "0", "outcome": "failed"},
    "/viewer/forget": {"id": "KNOWN", "version": "0"},
}
HOSTILE: list[tuple[dict[str, str], int]] = [
    ({"Host": "evil.example"}, 421),
    ({"Host": "evil.example:{port}"}, 421),
    ({"Host": "127.0.0.1"}, 421),
    ({"Host": "127.0.0.1:{port}.evil.example"}, 421),
    ({"Host": "127.0.0.1:{port}0"}, 421),
    ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
    ({"Host": "0.0.0.0:{port}"}, 421),
    ({"Host": "user@127.0.0.1:{port}"}, 421),
    ({"Host": ""}, 421),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": ""}, 403),
    ({"Origin": "http://localhost:1"}, 403),
    ({"Origin": "http://127.0.0.1"}, 403),
    ({"Origin": "https://127.0.0.1:{port}"}, 403),
    ({"Origin": "http://127.0.0.1:{port}.evil.example"}, 403),
    ({"Origin": "http://127.0.0.1:{port}@evil.example"}, 403),
    ({"Origin": "http://localhost:{port}evil"}, 403),
    ({"Origin": "file://"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": ""}, 403),
]


@pytest.fixture(scope="module")
def known(server: Server) -> str:
    """The id of a decision that nobody may touch."""
    reply = server.post("/api/mama/save", topic="kept", decision="Keep it", reasoning="It is good")
    return str(reply.body["id"])


def state(server: Server) -> str:
    """What the repository and its files are."""
    digest = hashlib.sha256(git(server.folder, "rev-parse", "HEAD").encode())
    for path in sorted((server.folder / "memory").rglob("*")):
        digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def request(entry: Entry, path: str, known: str) -> tuple[str, Any]:
    body = BODIES[path] if entry.method == "POST" else None
    said = {
        name: [known] if value == ["KNOWN"] else known if value == "KNOWN" else value
        for name, value in (body or {}).items()
    }
    return path.replace("{id}", known), said if body else None


def test_hostile_callers_are_refused_everywhere(server: Server, known: str) -> None:
    before = state(server)
    bearer = {"Authorization": f"Bearer {server.token}"}
    every = [
        *product(EVERY, HOSTILE[::7]),
        *product(EVERY[::9], HOSTILE),
    ]  # one door, before all routes
    for (entry, path), (headers, status) in every:
        address, body = request(entry, path, known)
        given = {name: value.replace("{port}", str(server.port)) for name, value in headers.items()}
        others = ("OPTIONS", "HEAD", "PUT") if (headers, status) in HOSTILE[::7] else ()
        for method in (entry.method, *others):
            reply = server.ask(
                method,
                address,
                body if method == entry.method else None,
                {**JSON, **bearer, **given},
            )
            assert reply.status == status, (path, given, method)
            assert not [name for name in reply.headers if name.startswith("access-control")]
            assert method == "HEAD" or "error" in reply.body
    assert state(server) == before


@pytest.mark.requirement("mama-http-code-auth")
def test_every_route_needs_the_token_and_what_is_sent_is_json(server: Server, known: str) -> None:
    for entry, path in ENDING:
        needs_token_and_json(server, known, entry, path)


def needs_token_and_json(server: Server, known: str, entry: Entry, path: str) -> None:
    before = state(server)
    address, body = request(entry, path, known)
    bearer = {"Authorization": f"Bearer {server.token}"}
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {server.token}"},
        {"Authorization": f"Bearer {server.token}x"},
        {"Authorization": f"Bearer {server.token[:-1]}"},
        {"Cookie": f"token={server.token}"},
        {"Cookie": f"filemem_{server.port}={server.token}"},
    ]
    for headers in wrong:
        reply = server.ask(entry.method, address, body, {**JSON, **headers})
        assert reply.status == 401, path
    for query in (
        "token=",
        "token=wrong",
        f"token={server.token}&token=wrong",
        f"Token={server.token}",
    ):
        assert server.ask(entry.method, f"{address}?{query}", body, JSON).status == 401
    # A wrong header is not mended by a right address.
    both = server.ask(
        entry.method,
        f"{address}?token={server.token}",
        body,
        {**JSON, "Authorization": "Bearer x"},
    )
    assert both.status == 401
    if entry.method == "POST":
        for kind in (
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonp",
        ):
            assert server.ask("POST", address, body, {**bearer, "Content-Type": kind}).status == 415
        assert server.ask("GET", address, None, bearer).status == (405 if _only_post(path) else 200)
    assert state(server) == before


def _only_post(path: str) -> bool:
    return not [entry for entry in ROUTES if path == entry.path and entry.method == "GET"]


def test_unknown_paths_are_not_served(server: Server) -> None:
    for path in (
        *(
            "/nothing",
            "/api",
            "/api/",
            "//",
            "/viewer/",
            "/api/observation/",
            "/api/observation/a/b",
        ),
        *("/..", "/graph/"),
    ):
        assert server.get(path).status == 404, path


def test_the_token_in_the_address_will_do(server: Server) -> None:
    reply = server.ask("POST", f"/api/save?token={server.token}", {"title": "a", "text": "b"}, JSON)
    assert reply.status == 200
    own = {**JSON, "Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert (
        server.ask(
            "POST", f"/api/save?token={server.token}", {"title": "c", "text": "d"}, own
        ).status
        == 200
    )


def mcp(server: Server, tool: str, headers: dict[str, str], **arguments: Any) -> Reply:
    """Call a tool over MCP."""
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    return server.ask("POST", "/mcp", call, {**JSON, **accept, **headers})


def test_mcp_needs_the_token_as_every_route_does(server: Server) -> None:
    before = state(server)
    decided = {"topic": "evil", "decision": "Evil", "reasoning": "Evil"}
    assert mcp(server, "save", {}, **decided).status == 401
    assert mcp(server, "search", {"Authorization": "Bearer wrong"}).status == 401
    assert state(server) == before
    assert "result" in mcp(server, "search", {"Authorization": f"Bearer {server.token}"}).body


PRIVATE = {"title": "Secret okapi", "text": "private okapi", "visibility": "private", "agent": "a"}


@pytest.mark.requirement("mc-http-curl")
@pytest.mark.parametrize("how", [("--token", "none"), ()])
def test_without_a_token_the_printed_lines_work_and_private_records_stay_out(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    folder = make_repo(tmp_path / "repo")
    ok(folder, "save", "observation", *sum(((f"--{k}", v) for k, v in PRIVATE.items()), ()))
    env = {} if how else {"FILEMEM_TOKEN": "none"}
    with serving(folder, env, ("web", "--port", "0", *how), lines=3) as running:
        assert "no token is needed" in running.told
        assert "token=" not in running.told
        saved = running.ask("POST", "/api/save", {"title": "Open okapi", "text": "b"}, JSON)
        assert saved.status == 200
        for reply in (
            running.ask("GET", "/api/search?query=okapi&agent=a"),
            running.ask("GET", "/viewer/data"),
            mcp(running, "search", {}, query="okapi"),
            mcp(running, "search", {}, query="okapi", detail=True),
        ):
            assert reply.status == 200
            assert "Open okapi" in reply.text
            assert "Secret" not in reply.text
        assert (
            running.ask("GET", "/health", headers={"Origin": "http://evil.example"}).status == 403
        )
        strange = {"Sec-Fetch-Site": "cross-site"}
        assert running.ask("GET", "/viewer/read?id=a&token=", headers=strange).status == 403
    refusal = cli(folder, "web", "--host", "0.0.0.0", "--token", "none")
    assert "can be reached from other machines" in refusal.err


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository for servers that are started otherwise."""
    return make_repo(tmp_path_factory.mktemp("other") / "repo")


GIVEN = "0123456789abcdef0123"


@pytest.mark.requirement("mama-http-code-auth")
@pytest.mark.parametrize(
    ("command", "env"),
    [
        (("web", "--port", "0", "--token", GIVEN), {}),
        (("web", "--port", "0"), {"FILEMEM_TOKEN": GIVEN}),
        (("web", "--port", "0"), {"MAMA_AUTH_TOKEN": GIVEN}),
        (("web", "--port", "0", "--host", "0.0.0.0"), {"MAMA_AUTH_TOKEN": GIVEN}),
    ],
)
def test_a_token_that_was_given(
    another: Path, command: tuple[str, ...], env: dict[str, str]
) -> None:
    with serving(another, env, command) as running:
        assert GIVEN not in running.told  # who gave it knows it
        bearer = {"Authorization": f"Bearer {GIVEN}"}
        for entry, path in ENDING:
            if entry.method == "GET":
                address = path.replace("{id}", "7")
                assert running.ask("GET", address).status == 401
                assert running.ask("GET", address, None, bearer).status != 401
            else:
                assert running.ask("POST", path, {}, JSON).status == 401
        assert {running.ask("GET", path).status for path in ("/viewer", "/health")} == {401}
        assert running.get("/viewer", token=GIVEN).status == 303
        assert (
            running.ask("POST", "/api/save", {"title": "a", "text": "b"}, {**JSON, **bearer}).status
            == 200
        )


def test_the_front_door_takes_the_token_too(server: Server) -> None:
    assert server.get("/", token=server.token).headers["location"] == "/"
    assert server.get("/").headers["location"] == "/viewer"


def test_a_wrong_token_is_called_wrong(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    told = server.ask("POST", "/api/save", {}, headers).text
    assert "required" in told
    assert "FILEMEM_TOKEN" in told
    assert "--token none" in told
    wrong = server.ask("POST", "/api/save", {}, {**headers, "Authorization": "Bearer nonsense"})
    assert (wrong.status, "not the one" in wrong.text) == (401, True)
    assert "not the one" in server.ask("POST", "/api/save?token=nonsense", {}, headers).text
