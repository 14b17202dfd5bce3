"""The OpenAPI document is true: every route is in it, takes what it says, and answers as it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from filemem.record import schema
from filemem.web.routes import ROUTES
from filemem.web.site import Site
from tests.web.support import Server

SCHEMATHESIS = Path(sys.executable).with_name("st")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.fixture(scope="module")
def document(server: Server) -> dict[str, Any]:
    """What the server says of itself."""
    found: dict[str, Any] = server.get("/openapi.json").body
    return found


def test_every_route_is_described(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    told = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert told == {(entry.method, entry.path) for entry in ROUTES}
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(names) == len(set(names))
    site = Site()
    for method, path in told:
        assert method in site.methods(path.replace("{id}", "7"))
        operation = document["paths"][path][method.lower()]
        assert ({} not in operation["security"]) == site.writes(method, path)


def test_no_two_routes_are_one() -> None:
    every = [(entry.method, entry.path) for entry in ROUTES]
    assert len(every) == len(set(every))
    for entry in ROUTES:
        assert entry.summary.endswith((".", ")."))
        assert set(entry.schema.get("required", ())) <= set(entry.schema["properties"])


def test_answers_are_as_described(server: Server, document: dict[str, Any]) -> None:
    saved = server.post("/api/mama/save", topic="a", decision="b", reasoning="c").body
    seen = server.post("/api/save", title="a", text="b").body
    server.post("/api/checkpoint/save", summary="a")
    asked: dict[str, dict[str, Any]] = {
        "/api/mama/search": {"q": "a"},
        "/graph/similar": {"id": saved["id"]},
        "/api/timeline": {"query": "a"},
        "/api/observation/{id}": {},
    }
    for path, operations in document["paths"].items():
        if "get" not in operations or path == "/":
            continue
        reply = server.get(path.replace("{id}", str(seen["id"])), **asked.get(path, {}))
        said = operations["get"]["responses"]["200"]["content"]
        kind = reply.headers["content-type"].split(";")[0]
        assert reply.status == 200, path
        assert kind in said, path
        if kind == "application/json":
            assert not schema.errors(said[kind]["schema"], reply.body), path


def test_failures_are_as_described(server: Server, document: dict[str, Any]) -> None:
    components = document["components"]["schemas"]
    for entry in ROUTES:
        said = document["paths"][entry.path][entry.method.lower()]["responses"]
        replies = [server.ask("GET", entry.path, None, {"Host": "evil.example"})]
        if entry.method == "POST":
            replies += [server.post(entry.path, body) for body in (b"nonsense", {}, {"title": 1})]
        for reply in replies:
            if reply.status == 200:
                continue
            shape = said[str(reply.status)]["content"]["application/json"]["schema"]
            names = [one["$ref"].rpartition("/")[2] for one in shape.get("anyOf", [shape])]
            assert any(not schema.errors(components[name], reply.body) for name in names), (entry.path, reply)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="schemathesis is not installed")
def test_schemathesis_finds_nothing(server: Server, tmp_path: Path) -> None:
    command = [str(SCHEMATHESIS), "run", f"http://127.0.0.1:{server.port}/openapi.json", "--checks", CHECKS]
    command += ["--header", f"Authorization: Bearer {server.token}", "--max-examples", "15", "--seed", "1"]
    command += ["--no-color", "--exclude-path", "/api/code-act", "--exclude-path", "/api/slack/send"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=390, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
