"""mem-claude's conversations, asked of its routes: the same answers as its tools give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.dialects.support import Conversation, Values, conversations, differs, filled
from tests.web.support import Reply, Server

ROUTES = {
    "save": ("POST", "/api/save"),
    "search": ("GET", "/api/search"),
    "timeline": ("GET", "/api/timeline"),
    "get_observations": ("POST", "/api/observations/batch"),
}
TOLD = [told for told in conversations() if told.profile == "mem-claude"]


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.name)
def test_a_conversation(server: Server, told: Conversation) -> None:
    kept = Values()
    for step in told.steps:
        if step["call"] not in ROUTES:
            continue
        reply = _asked(server, step["call"], filled(step.get("with", {}), kept))
        expected = step["fails"] if "fails" in step else step["gives"]
        assert (reply.status >= 400) is ("fails" in step), reply.text
        answer = reply.body
        if step["call"] == "get_observations":  # the route answers with the list itself
            missing = {"missing": expected["missing"]} if "missing" in expected else {}
            answer = {"count": len(answer), "observations": answer, **missing}
        if "fails" in step and isinstance(answer, dict):
            answer.pop("field", None)  # for programs, which tools do not have
        assert differs(expected, answer, kept) == "", answer


def _asked(server: Server, tool: str, arguments: Mapping[str, Any]) -> Reply:
    method, path = ROUTES[tool]
    return server.post(path, dict(arguments)) if method == "POST" else server.get(path, **arguments)
