"""The table of routes: what is served beside MCP, what each takes, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from filemem import VERSION
from filemem.dialects import mem_claude
from filemem.dialects.shapes import FRACTION, NUMBER_ID, SAID, TEXT, WORDS, about, arguments, one_of
from filemem.web import claude, code, graph, mama, openapi, slack, viewer
from filemem.web.entry import Answer, Arguments, Context, Entry, Refused, Told, plain, remembered
from filemem.web.entry import mama as as_mama
from filemem.web.reading import TOKEN

LINES, MOST_LINES = 100, 1_000
_COUNT = {"type": "integer", "minimum": 1}
_TOOLS = {tool.name: tool.input_schema for tool in mem_claude.TOOLS}
_READER = {name: _TOOLS["get_observations"]["properties"][name] for name in ("project", "agent", "department")}  # type: ignore[index]
_DECISION = arguments(
    "topic", "decision", "reasoning", closed=False, topic=SAID, decision=SAID, reasoning=SAID, confidence=FRACTION
)
_NOT_FOUND = {404: "there is none"}


async def _home(_: Context, arguments: Arguments) -> Told:
    """Lead to the viewer, with the token that came."""
    token = arguments.get(TOKEN)
    return Told("", 307, "text/plain", {"Location": f"/viewer?{urlencode({TOKEN: token})}" if token else "/viewer"})


async def _document(_: Context, _arguments: Arguments) -> Answer:
    """Describe all this for programs."""
    others = {CLAUDE_SAVE.path: MAMA_SAVE.schema, CLAUDE_SEARCH.path: MAMA_SEARCH.schema}
    return openapi.document(ROUTES, others, VERSION)


async def _logs(context: Context, arguments: Arguments) -> Answer:
    """Return a page of the server's log."""
    if context.log is None:
        raise Refused(404, "NO_LOG", "This server keeps no log", "it keeps one beside a repository it can write to")
    lines = min(arguments.get("lines", arguments.get("tail", LINES)), MOST_LINES)
    return {"success": True, **context.log.page(lines, arguments.get("offset", 0))}


MAMA_SAVE = Entry(
    "POST",
    "/api/mama/save",
    "Save a decision; the same topic supersedes.",
    _DECISION,
    remembered(mama.save),
    as_mama,
    writes=True,
    keys=("success", "id", "message"),
    failed="SAVE_FAILED",
)
MAMA_SEARCH = Entry(
    "GET",
    "/api/mama/search",
    "Find decisions by words and meaning.",
    arguments("q", closed=False, q=about(SAID, "what to look for"), limit=about(_COUNT, "default 10, at most 20")),
    remembered(mama.search),
    as_mama,
    keys=("query", "results", "count"),
    lacking="MISSING_QUERY",
    failed="SEARCH_FAILED",
)
CLAUDE_SAVE = Entry(
    "POST",
    "/api/save",
    "Save an observation (title, text); or, as /api/mama/save, a decision (topic, decision, reasoning).",
    _TOOLS["save"],
    remembered(claude.save),
    plain,
    writes=True,
    keys=("success", "id"),
)
CLAUDE_SEARCH = Entry(
    "GET",
    "/api/search",
    "Find what was observed (query, or none for the newest); or, as /api/mama/search, decisions (q alone).",
    _TOOLS["search"],
    remembered(claude.search),
    plain,
)

ROUTES: tuple[Entry, ...] = (
    Entry(
        "POST",
        "/api/checkpoint/save",
        "Save a checkpoint.",
        arguments("summary", closed=False, summary=SAID, next_steps=TEXT, open_files=WORDS),
        remembered(mama.checkpoint_save),
        as_mama,
        writes=True,
        keys=("success", "id", "message"),
        failed="SAVE_FAILED",
    ),
    Entry(
        "GET",
        "/api/checkpoint/load",
        "Return the latest checkpoint.",
        arguments(closed=False),
        remembered(mama.checkpoint_load),
        as_mama,
        keys=("success", "checkpoint"),
        codes=_NOT_FOUND,
        failed="LOAD_FAILED",
    ),
    MAMA_SEARCH,
    MAMA_SAVE,
    Entry(
        "GET",
        "/graph",
        "Return decisions as nodes and edges.",
        arguments(topic=TEXT, cluster={"type": "boolean"}, closed=False),
        remembered(graph.graph),
        as_mama,
        keys=("nodes", "edges", "similarityEdges", "meta", "latency"),
        failed="GRAPH_FAILED",
        aliases=("/api/graph",),
    ),
    Entry(
        "GET",
        "/graph/similar",
        "Find the decisions that are like a given one.",
        arguments("id", closed=False, id=SAID),
        remembered(graph.similar),
        as_mama,
        keys=("id", "similar", "count"),
        codes=_NOT_FOUND,
        lacking="MISSING_ID",
        failed="SEARCH_FAILED",
    ),
    Entry(
        "POST",
        "/graph/update",
        "Record what came of a decision.",
        arguments("id", "outcome", closed=False, id=SAID, outcome=SAID, reason=TEXT),
        remembered(mama.update),
        as_mama,
        writes=True,
        keys=("success", "id", "outcome"),
        codes=_NOT_FOUND,
        lacking="INVALID_REQUEST",
        failed="UPDATE_FAILED",
        aliases=("/api/update",),
    ),
    CLAUDE_SAVE,
    CLAUDE_SEARCH,
    Entry(
        "GET",
        "/api/observation/{id}",
        "Return one observation.",
        arguments("id", closed=False, id=NUMBER_ID, **_READER),
        remembered(claude.observation),
        plain,
        keys=("id", "type", "title"),
        codes=_NOT_FOUND,
    ),
    Entry(
        "POST",
        "/api/observations/batch",
        "Return whole observations by id, as a list.",
        _TOOLS["get_observations"],
        remembered(claude.batch),
        plain,
    ),
    Entry(
        "GET",
        "/api/timeline",
        "Tell what was observed around an id, a time, or the best hit of a query.",
        _TOOLS["timeline"],
        remembered(claude.timeline),
        plain,
        keys=("anchor", "observations"),
        codes=_NOT_FOUND,
    ),
    Entry(
        "GET",
        "/api/memory/export",
        "Hand out every decision.",
        arguments(format=one_of("json", "markdown", "csv"), closed=False),
        remembered(mama.export),
        as_mama,
        failed="EXPORT_FAILED",
        medias=("application/json", "text/markdown", "text/csv"),
    ),
    Entry(
        "POST",
        "/api/code-act",
        "Run JavaScript that can read the memory and the files of the project.",
        arguments(
            "code",
            closed=False,
            code={**SAID, "maxLength": code.CODE},
            timeout={"type": "number", "minimum": 1, "description": "milliseconds: default 30000, at most 60000"},
        ),
        code.act,
        as_mama,
        writes=True,
        keys=("success", "result", "duration", "value", "logs", "metrics"),
        codes={503: "no JavaScript engine is installed"},
        failed="CODE_FAILED",
    ),
    Entry(
        "POST",
        "/api/slack/send",
        "Send a message or a file to a Slack channel.",
        arguments(
            "channel_id",
            closed=False,
            channel_id={**SAID, "maxLength": 200},
            message={**TEXT, "maxLength": slack.TEXT},
            file_path=about(TEXT, "a file of the store, or one that Git tracks"),
        ),
        slack.send,
        as_mama,
        writes=True,
        keys=("success", "message"),
        codes={404: "no such file", 502: "Slack refused, or cannot be reached", 503: "no Slack bot is configured"},
        failed="SEND_FAILED",
    ),
    Entry(
        "GET",
        "/api/daemon/logs",
        "Return a page of the server's log.",
        arguments(
            lines=about(_COUNT, "default 100, at most 1000"),
            offset={"type": "integer", "minimum": 0},
            tail=about(_COUNT, "another name for lines"),
            closed=False,
        ),
        _logs,
        as_mama,
        keys=("success", "lines", "total", "offset"),
        codes={404: "this server keeps no log"},
        failed="LOGS_FAILED",
        aliases=("/api/logs/daemon",),
    ),
    Entry(
        "GET",
        "/viewer",
        "A page for people.",
        arguments(q=TEXT, topic=TEXT, id=TEXT, closed=False),
        remembered(viewer.page),
        plain,
        codes=_NOT_FOUND,
        medias=("text/html",),
    ),
    Entry(
        "GET",
        "/openapi.json",
        "This document.",
        arguments(closed=False),
        _document,
        plain,
        keys=("openapi", "info", "paths"),
    ),
    Entry(
        "GET",
        "/",
        "Leads to the viewer.",
        arguments(closed=False),
        _home,
        plain,
        codes={307: "to /viewer"},
        medias=(),
    ),
)


def meant(entry: Entry, given: Mapping[str, Any]) -> Entry:
    """Two systems chose the same path for two things: tell by the arguments which is meant."""
    if entry is CLAUDE_SAVE and not given.keys() & {"title", "text"} and given.keys() & {"topic", "decision"}:
        return MAMA_SAVE
    if entry is CLAUDE_SEARCH and "q" in given and "query" not in given:
        return MAMA_SEARCH
    return entry


FAMILIAR: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "/api/slack/send": {"channelId": "channel_id", "filePath": "file_path"},
    }
)
"""Names of arguments that the real programs use, by path: what they mean here."""
