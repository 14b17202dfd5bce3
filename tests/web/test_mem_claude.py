"""mem-claude's routes: the lines of its plan, with the port changed and the token added."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.support import Server

FULL = {
    "title": "API rate limit discovered",
    "text": "External API limits requests to 100/min. Implemented exponential backoff.",
    "type": "discovery",
    "project": "my-project",
    "memory_session_id": "research-session-001",
    "facts": ["API limit is 100 req/min", "Backoff delay starts at 1s"],
    "concepts": ["rate-limiting", "exponential-backoff"],
    "agent": "research-agent",
    "department": "engineering",
    "visibility": "project",
}


@pytest.mark.requirement("mc-http-save", "mc-http-curl")
def test_the_short_line_of_the_plan(server: Server) -> None:
    reply = server.post("/api/save", {"title": "Test observation", "text": "This is a test"})
    assert reply.status == 200
    assert reply.body["success"] is True
    assert isinstance(reply.body["id"], int)
    assert reply.body["memory_session_id"].startswith("mcp-")
    assert reply.body["created_at_epoch"] > 1_700_000_000_000
    found = server.get(f"/api/observation/{reply.body['id']}").body
    assert (found["type"], found["project"], found["narrative"]) == (
        "discovery",
        "manual",
        "This is a test",
    )


@pytest.mark.requirement("mc-http-curl", "mc-http-search")
def test_the_long_line_of_the_plan(server: Server) -> None:
    reply = server.post("/api/save", FULL).body
    assert reply["memory_session_id"] == "research-session-001"
    found = server.get(f"/api/observation/{reply['id']}").body
    assert {name: found[name] for name in FULL if name != "text"} == {
        n: v for n, v in FULL.items() if n != "text"
    }
    assert found["narrative"] == FULL["text"]
    listed = server.get("/api/search", query="rate limit").body
    assert reply["id"] in [row["id"] for row in listed["observations"]]
    assert server.post("/api/observations/batch", ids=[reply["id"], 1]).body == [found]
    around = server.get("/api/timeline", anchor=reply["id"], depth_before=1, depth_after=0).body
    assert [row["id"] for row in around["observations"]][-1] == reply["id"]


def test_colliding_paths_are_told_apart_by_their_arguments(server: Server) -> None:
    asked = {"topic": "limits", "decision": "Back off twice", "reasoning": "It is asked for"}
    decided = server.post("/api/save", asked).body
    assert decided["id"].startswith("decision_limits_")
    assert server.get("/api/search", q="back off").body["results"][0]["id"] == decided["id"]
    assert "observations" in server.get("/api/search", query="back off").body
    assert (
        "no argument 'q'" in server.get("/api/search", q="back off", query="back off").body["error"]
    )
    lacking = server.post("/api/save", topic="limits")
    assert (lacking.status, lacking.body["code"]) == (400, "MISSING_FIELDS")


@pytest.mark.requirement("mc-http-400")
def test_title_and_text_are_required(server: Server) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"text": "b"}, "title"),
        ({"title": 7, "text": "b"}, "title"),
        ({"title": "a", "text": ""}, "text"),
    )
    for body, name in wrong:
        reply = server.post("/api/save", body)
        assert (reply.status, reply.body["error"]) == (
            400,
            f"{name} is required and must be a string",
        )


def test_what_is_not_there_is_a_404(server: Server) -> None:
    reply = server.get("/api/observation/12345")
    assert (reply.status, reply.body["error"]) == (404, "Observation #12345 not found")
    assert server.post("/api/observations/batch", ids={"a": 7}).status == 400


def test_private_ones_are_seen_by_their_agent_alone(server: Server) -> None:
    asked = {
        "title": "A quiet word",
        "text": "quietly whispered",
        "visibility": "private",
        "agent": "owl",
    }
    saved = server.post("/api/save", asked).body["id"]
    for path in (
        f"/api/observation/{saved}",
        "/api/search?query=whispered",
        f"/api/timeline?anchor={saved}",
        "/viewer",
    ):
        assert "quiet word" not in server.get(path).text
    assert server.get("/viewer", q="whispered").text.count("quiet word") == 0
    assert server.get(f"/api/observation/{saved}", agent="owl").status == 200
