"""The manifest of requirements names the lines of the documents, and every part of them has a promise."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.support import conversations
from tests.requirements.manifest import promises

SEEDS = Path(__file__).parents[2].parent / "shared" / "seeds"
# Parts without a promise of their own: what others say in detail, advice, and how the authors' own code was made.
WITHOUT = {
    *(
        "Overview",
        "Response Format",
        "Tool Catalog (4 Core Tools)",
        "Input Schema",
        "Example",
        "Usage Patterns",
    ),
    *(
        "Example: Save Decision",
        "Example: Save Checkpoint",
        "Example: Semantic Search",
        "Example: List Recent Items",
    ),
    *(
        "HTTP API Endpoints (v1.5)",
        "Checkpoint API",
        "MAMA Search API",
        "Graph API",
        "Code-Act API",
        "Slack API",
    ),
    *(
        "Daemon Logs API",
        "Example: Decision with Edge",
        "What is MCP?",
        "Installation",
        "Running the Server",
    ),
    *(
        "Direct Python Script",
        "Client Configuration",
        "Cursor / VS Code",
        "Using Configuration File",
        "Usage Examples",
    ),
    *(
        "Adding a Memory via MCP",
        "Searching Memories via MCP",
        "Getting a Memory via MCP",
        "Troubleshooting",
    ),
    *(
        "Server Not Starting",
        "Tools Not Available",
        "Connection Issues",
        "User ID Issues",
        "Logging",
        "Summary",
    ),
    *(
        "Available Resources",
        "Architecture",
        "Files to Modify",
        "API Design",
        "Request",
        "Design Notes",
    ),
    *(
        "MCP Tools Overview",
        "Request Format",
        "Parameters",
        "Response Fields",
        "MAMA MCP API Reference",
    ),
    *("MCP Tool API Reference", "MCP (Model Context Protocol) API Reference", "API Reference"),
    "Plan: Add save/create_observation Tool to MCP Server",
}

pytestmark = pytest.mark.skipif(not SEEDS.is_dir(), reason="the five documents are not here")


def headings(document: str) -> dict[int, str]:
    """Line -> heading; what looks like one inside a code block is none."""
    lines = (SEEDS / document).read_text(encoding="utf-8").split("\n")
    inside = list(
        accumulate(
            (line.strip().startswith("```") for line in lines), lambda a, b: a != b, initial=False
        )
    )
    found = {
        n: re.match(r"#{1,4} (.*)", line) for n, line in enumerate(lines, 1) if not inside[n - 1]
    }
    return {n: match[1].strip().strip("`") for n, match in found.items() if match}


def test_every_part_of_every_document_has_a_promise() -> None:
    for document in {one.document for one in promises()} - {"together"}:
        parts = headings(document)
        told = {
            max(line for line in parts if line <= one.line)
            for one in promises()
            if one.document == document
        }
        named = {parts[line].replace("`", "") for line in told}
        assert {part.replace("`", "") for part in parts.values()} - named - WITHOUT == set(), (
            document
        )


def calls(document: str) -> list[dict[str, Any]]:
    """The arguments of every call that a document shows as JSON; answers, settings and HTTP bodies are none."""
    text = (SEEDS / document).read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^## HTTP API Endpoints.*?^## Edge Types", "", text)
    found = []
    for block in re.findall(r"(?ms)^```json\n(.*?)^```", text):
        try:
            value = json.loads(block.partition("POST /api/save")[2] or block)
        except ValueError:  # cut short with `...`, as only answers are
            continue
        value = value.get("params", value).get("arguments", value.get("arguments", value))
        answer = value.keys() & {"success", "status", "mcpServers", "error"} or isinstance(
            value.get("content"), list
        )
        if not answer:
            found.append(value)
    return found


def same(given: dict[str, Any], shown: dict[str, Any]) -> bool:
    """Whether two calls are the same but for ids, which are made up anew."""
    free = {"id", "memory_id"}
    return given.keys() == shown.keys() and all(
        name in free or "decision_" in str(value) or shown[name] == value
        for name, value in given.items()
    )


@pytest.mark.parametrize(
    ("document", "profiles", "count"),
    [
        ("000_45b1d41a0ea74563.txt", {"mama"}, 8),
        ("002_8eca692ec5110275.txt", {"powermem"}, 10),
        ("003_68305c49c63561b6.txt", {"mem-claude"}, 1),
        ("004_181245f914f26c7b.txt", {"project-memory"}, 2),
    ],
)
def test_every_call_that_a_document_shows_is_in_a_conversation(
    document: str, profiles: set[str], count: int
) -> None:
    steps = [
        step.get("with", {})
        for told in conversations()
        if told.profile in profiles
        for step in told.steps
    ]
    asked = [
        call
        for call in calls(document)
        if not str(next(iter(call.values()), "")).startswith("The ")
    ]
    assert len(asked) == count
    assert [call for call in asked if not any(same(call, step) for step in steps)] == []


# How programs and shells call a tool: its name, and what is given to it. Go names the tool after the map.
