"""Code that callers send: what it can do, and how it ends when it does too much."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from filemem import web
from tests.support import git, write
from tests.web.support import Server

pytest.importorskip("quickjs", reason="the extra `code` is not installed")


def run(server: Server, code: str, **more: Any) -> dict[str, Any]:
    """Run code; its answer."""
    reply = server.post("/api/code-act", code=code, **more)
    assert reply.status == 200, reply.text
    body: dict[str, Any] = reply.body
    assert body["success"] == ("error" not in body)
    return body


@pytest.fixture(scope="module", autouse=True)
def decided(server: Server) -> str:
    """The id of a decision that code can find."""
    server.post("/api/mama/save", topic="caching", decision="Use Redis", reasoning="Fast")
    reply = server.post(
        "/api/mama/save", topic="caching", decision="Use an LRU cache", reasoning="No server to run"
    )
    server.post("/api/checkpoint/save", summary="Half done")
    return str(reply.body["id"])


@pytest.mark.requirement("mama-http-code")
def test_code_is_the_body_of_an_async_function(server: Server) -> None:
    for code, value in (
        ("return 1 + 1;", 2),
        ("const r = await 5; return r * 2;", 10),
        ("return await Promise.all([search('a'), 1]).then(r => r.length)", 2),
        ("1 + 1", None),
        ("return '\\ud800'.length // the end", 1),
    ):
        assert run(server, code)["result"] == value, code


def test_the_memory_can_be_read(server: Server, decided: str) -> None:
    found = run(server, "return search('cache', {limit: 1}).results[0]")["result"]
    assert found["id"] == decided
    assert run(server, f"return get('{decided}').results[0].title")["result"] == "Use an LRU cache"
    chain = run(server, "return history('caching').chain.map(step => step.title)")["result"]
    assert chain == ["Use Redis", "Use an LRU cache"]
    assert run(server, f"return timeline({{anchor: '{decided}'}}).count")["result"] >= 2
    assert (
        run(server, "const c = await load_checkpoint(); return c.checkpoint.title")["result"]
        == "Half done"
    )
    path = run(server, f"return get('{decided}').results[0].path")["result"]
    assert "No server to run" in run(server, f"return Read('{path}').content")["result"]
    assert run(server, "console.log('one', {two: 2})")["logs"] == ['one {"two":2}']


WRONG = [
    ("throw new Error('no luck')", "Error: no luck"),
    ("return await Promise.reject(new TypeError('later'))", "TypeError: later"),
    ("nonsense nonsense", "SyntaxError"),
    ("search({limit: 0})", "limit"),
    ("get('decision_none_1_aaaaaaaa')", "decision_none_1_aaaaaaaa"),
    ("await new Promise(() => {})", "nobody keeps"),
    ("const a = {}; a.a = a; return a", "circular"),
    ("(function f() { f() })()", "stack"),
    ("throw {toString() { throw 1 }}", "cannot be told"),
    ("return 'x'.repeat(2000000)", "larger than"),
]


def test_what_goes_wrong_is_told(server: Server) -> None:
    for code, told in WRONG:
        body = run(server, code)
        assert not body["success"], code
        assert told.lower() in body["error"].lower()
        assert body["result"] is None


def test_no_path_of_the_machine_is_told(server: Server) -> None:
    caught = (
        "null.x",
        "x.y.z",
        "Read('/etc/passwd')",
        "Read('../../x')",
        "Read('nothing.txt')",
        "search({limit: 0})",
    )
    codes = [
        "(",
        "}",
        "import('fs')",
        "throw new Error().stack",
        "await 1; return (",
        "return 'x'.repeat(2000000)",
    ]
    codes += [
        *caught,
        *(
            f"try {{ {code} }} catch (one) {{ return `${{one}} ${{one.stack}}` }}"
            for code in caught
        ),
    ]
    machine = (
        str(server.folder.parent),
        sys.prefix,
        sys.base_prefix,
        str(Path(web.__file__).parent),
    )
    for code in codes:
        told = server.post("/api/code-act", code=code).text
        assert not [path for path in machine if path in told], told


@pytest.mark.requirement("mama-http-code-tools")
def test_there_is_no_way_out(server: Server) -> None:
    names = "require process module fetch XMLHttpRequest std os WebAssembly __host setTimeout"
    found = run(server, f"return [{', '.join(f'typeof {name}' for name in names.split())}]")[
        "result"
    ]
    assert set(found) == {"undefined"}


@pytest.mark.requirement("mama-http-code-tools")
def test_nothing_is_loaded_or_written(server: Server) -> None:
    for code in (
        "return await import('fs')",
        "import fs from 'fs'",
        "save({})",
        "update({})",
        "delete_({})",
    ):
        assert not run(server, code)["success"], code


@pytest.mark.requirement("mama-http-code-tools")
def test_read_stays_inside(server: Server) -> None:
    outside = write(server.folder.parent / "outside.txt", "outside")
    write(server.folder / ".env", "KEY=1")
    write(server.folder / "untracked.txt", "untracked")
    (server.folder / "link").symlink_to(outside)
    write(server.folder / "deep" / "server.pem", "pem")
    git(server.folder, "add", "-f", ".env", "link", "deep")
    paths = [
        "../outside.txt",
        str(outside),
        "/etc/passwd",
        ".git/config",
        ".GIT/config",
        "memory/../.git/HEAD",
        ".env",
    ]
    paths += [
        "untracked.txt",
        "link",
        "deep/server.pem",
        "",
        ".",
        "deep",
        "nothing.txt",
        "memory/../../outside.txt",
    ]
    for path in (*paths, "memory/private/.gitignore", "code.py\\0", "*.py", ":(top)code.py"):
        body = run(
            server,
            f"try {{ return Read('{path}').content }} catch (one) {{ return 'refused: ' + one.message }}",
        )
        assert str(body["result"]).startswith("refused: "), path
    assert run(server, "try { Read(7) } catch (error) { return 'refused' }")["result"] == "refused"


@pytest.mark.requirement("mama-http-code-tools")
def test_nothing_private_is_seen(server: Server) -> None:
    private = server.post(
        "/api/save",
        title="Pangolin wages",
        text="Pangolins are paid late",
        visibility="private",
        agent="alice",
    ).body
    found = server.get("/api/timeline", anchor=private["id"], agent="alice").body
    assert "Pangolin" in str(found)
    path = "memory/private/decisions/pay/20250101-pay-pangolins-aaaaaaaa.md"
    decided = "decision_pay_1735689600000_aaaaaaaa"
    write(server.folder / path, f"---\nid: {decided}\ntopic: pay\n---\n# Pangolins get more\n")
    title, mine = "Pangolin wages", private.get("record", "Pangolin wages")
    for code in (
        "search('pangolin wages')",
        "search({agent: 'alice'})",
        "search({query: 'pangolin', type: 'observation', limit: 1})",
        "timeline({query: 'pangolin wages'})",
        "timeline({})",
        "timeline(new Date().toISOString())",
        *(
            f"{ask}('{name}')"
            for ask in ("get", "timeline", "history")
            for name in (title, mine, decided, "pay")
        ),
        "load_checkpoint()",
    ):
        told = run(
            server, f"try {{ return JSON.stringify({code}) }} catch (one) {{ return one.message }}"
        )["result"]
        assert "paid late" not in told, code
        assert "get more" not in told, code
        assert "Pangolin" not in told.replace(f"'{title}'", ""), code


@pytest.mark.requirement("mama-http-code-tools")
def test_files_that_hold_secrets_are_not_read(server: Server) -> None:
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        + "MIIEpAIBAAKCAQEA1c7+9z5Pad7OejecsQ0bu3aumskcfcNWHPlxPM\n" * 4
    )
    write(server.folder / "key.txt", key + "-----END RSA PRIVATE KEY-----\n")
    git(server.folder, "add", "key.txt")
    body = run(server, "Read('key.txt')")
    assert not body["success"]
    assert "looks like a secret" in body["error"]
    assert "MIIE" not in str(body)


@pytest.mark.requirement("mama-http-code-tools")
def test_a_name_that_promises_secrets_is_enough(server: Server) -> None:
    secret = (
        "deploy/app.secrets.enc.yaml",
        "db-credentials.json",
        "Prod_Passwords.txt",
        "token.json",
        "prod.tfvars",
    )
    plain = ("secretary.json", "design-tokens.json", "docs/secret-management.md", "secrets.py")
    for name in (*secret, *plain):
        write(server.folder / name, "user: someone\n")
    git(server.folder, "add", "-f", *secret, *plain)
    for name in (*secret, *plain):
        body = run(server, f"return Read('{name}').content")
        assert (body["result"] == "user: someone\n") == (name in plain), body
        assert name in plain or "may hold secrets" in body["error"]


BOMBS = [
    ("an endless loop", "while (true) {}", "ended after 100 ms"),
    ("a regex bomb", "/^(a+)+$/.test('a'.repeat(40) + '!')", "ended after 100 ms"),
    ("endless promises", "while (true) await 0", "ended after 100 ms"),
    ("a chain of promises", "const f = () => Promise.resolve().then(f); await f()", ""),
    ("a memory bomb", "const a = []; while (true) a.push(new Array(100000).fill(1))", "memory"),
    ("a text bomb", "let s = 'x'; while (true) s += s", ""),
    (
        "a callback flood",
        "while (true) { try { load_checkpoint() } catch {} }",
        "more than 100 calls",
    ),
    ("a log flood", "while (true) console.log('x'.repeat(10000))", "ended after 100 ms"),
]


@pytest.mark.requirement("mama-http-code")
@pytest.mark.parametrize(
    ("code", "told"), [bomb[1:] for bomb in BOMBS], ids=[bomb[0] for bomb in BOMBS]
)
def test_bombs_are_ended(server: Server, code: str, told: str) -> None:
    body = run(server, code, timeout=100)  # left alone they go on
    assert not body["success"]
    assert any(one in body["error"] for one in (told, "ended after 100 ms")), (
        "whichever comes first"
    )
    assert len(body["logs"]) <= 200
    assert run(server, "return 1")["result"] == 1


def test_bad_requests(server: Server) -> None:
    for body in ({}, {"code": " "}):
        assert server.post("/api/code-act", body).body["code"] == "MISSING_FIELDS"
    wrong: tuple[dict[str, Any], ...] = (
        {"code": 1},
        {"code": "1", "timeout": "soon"},
        {"code": "1", "timeout": -1},
        {"code": "x" * 70_000},
    )
    for given in wrong:
        reply = server.post("/api/code-act", given)
        assert (reply.status, reply.body["code"]) == (400, "INVALID_REQUEST")


def test_a_long_time_limit_is_cut(server: Server) -> None:
    assert run(server, "1", timeout=10**9)["success"]
