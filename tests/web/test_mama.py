"""MAMA's routes, as its page describes them, asked over a real connection."""

from __future__ import annotations

import csv
import io
import time
from typing import Any

import pytest

from tests.web.support import Server

ASKED = {
    "topic": "auth_strategy",
    "decision": "Use JWT with refresh tokens",
    "reasoning": "Need stateless auth for API scaling",
    "confidence": 0.8,
}


@pytest.fixture(scope="module")
def saved(server: Server) -> str:
    """The id of the page's decision."""
    reply = server.post("/api/mama/save", ASKED)
    assert reply.status == 200
    return str(reply.body["id"])


@pytest.mark.requirement("mama-http-checkpoint-none")
def test_no_checkpoint_is_a_404_with_its_code(server: Server) -> None:
    reply = server.get("/api/checkpoint/load")
    assert (reply.status, reply.body) == (
        404,
        {"error": True, "code": "NO_CHECKPOINT", "message": "No checkpoint found"},
    )


@pytest.mark.requirement("mama-http-checkpoint-save", "mama-http-checkpoint-load")
def test_a_checkpoint_is_saved_and_loaded(server: Server) -> None:
    asked = {
        "summary": "Implemented auth module, blocked on rate limiter design",
        "open_files": ["src/auth/jwt.js", "tests/auth.test.js"],
        "next_steps": "1. Research token bucket vs leaky bucket\n2. Check Redis compatibility",
    }
    before = time.time() * 1000
    reply = server.post("/api/checkpoint/save", asked)
    assert reply.status == 200
    assert reply.body["success"] is True
    assert isinstance(reply.body["id"], int)
    assert reply.body["message"] == "Checkpoint saved successfully"
    loaded = server.get("/api/checkpoint/load").body
    assert loaded["success"] is True
    found = loaded["checkpoint"]
    assert {name: found[name] for name in asked} == asked
    assert (found["id"], found["status"]) == (reply.body["id"], "active")
    assert before - 1 <= found["timestamp"] <= time.time() * 1000


@pytest.mark.requirement("mama-http-save", "mama-http-search")
def test_a_decision_is_saved_and_found(server: Server, saved: str) -> None:
    assert saved.startswith("decision_auth_strategy_")
    body = server.get("/api/mama/search", q="authentication with tokens").body
    assert body["query"] == "authentication with tokens"
    assert body["count"] == len(body["results"]) == 1
    found = body["results"][0]
    assert {name: found[name] for name in ASKED} == ASKED
    assert 0 < found["similarity"] <= 1
    assert found["created_at"] > 1_700_000_000_000


@pytest.mark.requirement("mama-http-search")
def test_search_takes_at_most_twenty(server: Server, saved: str) -> None:
    for number in range(22):
        server.post(
            "/api/mama/save",
            topic=f"limit {number}",
            decision=f"Bound it to {number}",
            reasoning="Bounds",
        )
    assert server.get("/api/mama/search", q="bounds").body["count"] == 10
    assert server.get("/api/mama/search", q="bounds", limit=500).body["count"] == 20
    assert server.get("/api/mama/search", q="bounds", limit=3).body["count"] == 3
    assert (
        "no argument 'topics'"
        in server.get("/api/mama/search", q="bounds", topics="auth").body["message"]
    )
    reply = server.get("/api/mama/search")
    assert (reply.status, reply.body["code"], reply.body["error"]) == (400, "MISSING_QUERY", True)


@pytest.mark.requirement("mama-http-update")
def test_an_outcome_is_recorded_and_answered_in_capitals(server: Server, saved: str) -> None:
    asked = {
        "id": saved,
        "outcome": "success",
        "reason": "JWT auth scaled to 10k users without issues",
    }
    reply = server.post("/graph/update", asked)
    assert (reply.status, reply.body) == (200, {"success": True, "id": saved, "outcome": "SUCCESS"})
    found = server.get("/api/mama/search", q="JWT refresh tokens").body["results"][0]
    assert (found["outcome"], found["outcome_reason"]) == ("success", asked["reason"])
    assert (
        server.post("/api/update", id=saved, outcome="failure", reason="Keys leaked").body[
            "outcome"
        ]
        == "FAILED"
    )
    wrong = server.post("/graph/update", id=saved, outcome="splendid")
    assert (wrong.status, wrong.body["code"]) == (400, "INVALID_REQUEST")
    unknown = server.post("/graph/update", id="decision_nowhere_1_aaaaaaaa", outcome="success")
    assert (unknown.status, unknown.body["code"]) == (404, "NOT_FOUND")


@pytest.mark.requirement("mama-http-graph", "mama-http-graph-cluster")
def test_the_graph_has_nodes_edges_and_what_is_alike(server: Server, saved: str) -> None:
    builds = f"builds_on: {saved}. Need social login for user growth while keeping API auth."
    newer = server.post(
        "/api/mama/save", topic="auth_v2", decision="Add OAuth2 beside JWT", reasoning=builds
    ).body["id"]
    after = server.post(
        "/api/mama/save", topic="auth_v2", decision="Use OAuth2 alone", reasoning="One way"
    ).body["id"]
    body = server.get("/graph").body
    assert body.keys() == {"nodes", "edges", "similarityEdges", "meta", "latency"}
    assert {"from": newer, "to": saved, "relationship": "builds_on"}.items() <= _edge(
        body, newer, saved
    ).items()
    assert _edge(body, after, newer)["relationship"] == "supersedes"
    assert (body["meta"]["total_nodes"], body["meta"]["total_edges"]) == (
        len(body["nodes"]),
        len(body["edges"]),
    )
    assert {"auth_strategy", "auth_v2"} <= set(body["meta"]["topics"])
    assert body["similarityEdges"] == []
    assert isinstance(body["latency"], int)
    one = server.get("/graph", topic="auth_strategy").body
    assert [node["id"] for node in one["nodes"]] == [saved]
    assert len(one["edges"]) == 1  # edges that touch it stay
    alike = server.get("/api/graph", cluster="true").body["similarityEdges"]
    assert alike
    for edge in alike:
        assert edge["relationship"] == "similar"
        assert 0.7 <= edge["similarity"] <= 1
        assert edge["from"] != edge["to"]
    pairs = [frozenset((edge["from"], edge["to"])) for edge in alike]
    assert len(pairs) == len(set(pairs))
    assert server.get("/graph", cluster="perhaps").status == 400


def _edge(body: Any, start: str, end: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        edge for edge in body["edges"] if (edge["from"], edge["to"]) == (start, end)
    )
    return found


@pytest.mark.requirement("mama-http-similar")
def test_similar_decisions(server: Server, saved: str) -> None:
    near = server.post(
        "/api/mama/save",
        topic="auth_tokens",
        decision="Rotate JWT refresh tokens daily",
        reasoning="They leak",
    ).body["id"]
    body = server.get("/graph/similar", id=saved).body
    assert (body["id"], body["count"]) == (saved, len(body["similar"]))
    assert saved not in [one["id"] for one in body["similar"]]
    assert near in [one["id"] for one in body["similar"]]
    assert all({"id", "topic", "decision", "similarity"} <= one.keys() for one in body["similar"])
    lacking, unknown = (
        server.get("/graph/similar"),
        server.get("/graph/similar", id="decision_no_1_aaaaaaaa"),
    )
    assert (lacking.status, lacking.body["code"]) == (400, "MISSING_ID")
    assert (unknown.status, unknown.body["code"]) == (404, "NOT_FOUND")


def test_export_in_three_forms(server: Server, saved: str) -> None:
    as_json = server.get("/api/memory/export").body
    assert saved in [one["id"] for one in as_json["decisions"]]
    assert as_json["exported_at"]
    server.post(
        "/api/mama/save",
        topic="sums",
        decision='=HYPERLINK("http://evil.example")',
        reasoning="a, b\n| c |",
    )
    table = server.get("/api/memory/export", format="csv")
    assert table.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert {row["id"]: row["decision"] for row in rows}[saved] == ASKED["decision"]
    assert [row["decision"][:2] for row in rows if row["topic"] == "sums"] == ["'="]
    text = server.get("/api/memory/export", format="markdown")
    assert text.headers["content-type"].startswith("text/markdown")
    assert "## auth_strategy" in text.text
    assert server.get("/api/memory/export", format="xml").status == 400


@pytest.mark.requirement("mama-http-logs")
def test_the_log_is_paged_from_its_end(server: Server) -> None:
    path = "/api/daemon/logs"
    assert server.get("/api/logs/daemon").status == 200
    for _ in range(5):
        server.get("/api/observation/ghp_0123456789abcdefghijklmnopqrstuvwxyz", agent="a-secret")
    body = server.get(path, lines=2, offset=1).body
    assert (body["success"], body["offset"], len(body["lines"])) == (True, 1, 2)
    assert body["total"] > 5
    assert "GET /api/observation/{id} 404" in body["lines"][0]
    everything = server.get(path, lines=1000).text
    assert "started on port" in everything
    for hidden in ("ghp_", "a-secret", server.token, str(server.folder), "/tmp"):
        assert hidden not in everything
    for wrong in ({"lines": "many"}, {"offset": 2**63 - 1}):
        assert server.get(path, **wrong).status == 400
    assert server.get(path, lines=1, offset=10**9).body["lines"] == []
    assert len(server.get(path, tail=3).body["lines"]) == 3
