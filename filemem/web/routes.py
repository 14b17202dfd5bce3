"""The table of routes: what is served beside MCP, what each takes, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from filemem import VERSION
from filemem.dialects import mem_claude as claude_tools
from filemem.dialects import present
from filemem.dialects.tool import arguments
from filemem.web import code, graph, mama, openapi, slack, viewer
from filemem.web.route import JSON, TOKEN, Answer, Arguments, Context, Refused, Result, Route, Told, Work, remembered
from filemem.web.route import mama as as_mama
from filemem.web.route import plain as as_plain

LINES, MOST_LINES = 100, 1_000
_TOOLS = {tool.name: tool.input_schema for tool in claude_tools.TOOLS}


async def _home(_: Context, arguments: Arguments) -> Told:
    token = arguments.get(TOKEN)
    return Told("", 307, "text/plain", {"Location": f"/viewer?{urlencode({TOKEN: token})}" if token else "/viewer"})


async def _document(_: Context, _arguments: Arguments) -> Answer:
    return openapi.document(ROUTES, {CLAUDE_SAVE.path: MAMA_SAVE, CLAUDE_SEARCH.path: MAMA_SEARCH}, VERSION)


async def _logs(context: Context, arguments: Arguments) -> Answer:
    """Return a page of the server's log."""
    if context.log is None:
        raise Refused(404, "NO_LOG", "This server keeps no log", "it keeps one beside a repository it can write to")
    lines = min(arguments.get("lines", arguments.get("tail", LINES)), MOST_LINES)
    return {"success": True, **context.log.page(lines, arguments.get("offset", 0))}


def _search(memory: Any, arguments: Arguments) -> Result:
    found = claude_tools.search(memory, arguments)
    return {"content": [{"type": "text", "text": found}]} if isinstance(found, str) else found


def _observation(memory: Any, arguments: Arguments) -> Answer:
    """Return one observation."""
    found = _batch(memory, {**arguments, "ids": [arguments["id"]]}).body
    if not isinstance(found, list) or not found:
        raise Refused(404, "NOT_FOUND", f"Observation #{arguments['id']} not found", "GET /api/search shows ids")
    return {**found[0], **present.lacking(memory)}


def _batch(memory: Any, arguments: Arguments) -> Told:
    return Told(claude_tools.get_observations(memory, arguments)["observations"])


_TABLE = """
POST /api/checkpoint/save SAVE_FAILED: Save a checkpoint. -> success id message
    summary!: said
    next_steps: text
    open_files: words
GET /api/checkpoint/load LOAD_FAILED 404: Return the latest checkpoint. -> success checkpoint
GET /api/mama/search MISSING_QUERY SEARCH_FAILED: Find decisions by words and meaning. -> query results count
    q!: said # what to look for
    limit: 1.. # default 10, at most 20
POST /api/mama/save SAVE_FAILED: Save a decision; the same topic supersedes. -> success id message
    topic! decision! reasoning!: said
    confidence: fraction
GET /graph /api/graph GRAPH_FAILED: Return decisions as nodes and edges. -> nodes edges similarityEdges meta latency
    topic: text
    cluster: flag
GET /graph/similar MISSING_ID SEARCH_FAILED 404: Find the decisions that are like a given one. -> id similar count
    id!: said
POST /graph/update /api/update INVALID_REQUEST UPDATE_FAILED 404: Record what came of a decision. -> success id outcome
    id! outcome!: said
    reason: text
POST /api/save plain: Save an observation (title, text); or, as /api/mama/save, a decision (topic, decision, \
reasoning). -> success id
GET /api/search plain: Find what was observed (query, or none for the newest); or, as /api/mama/search, decisions \
(q alone).
GET /api/observation/{id} plain 404: Return one observation. -> id type title
    id!: id
    project: text # only what is meant for this project
    agent: text # who reads, for private ones (default: legacy)
    department: text # whose department ones to show (default: default)
POST /api/observations/batch plain reads: Return whole observations by id, as a list.
GET /api/timeline plain 404: Show what was observed around an id, a time, or the best hit of a query. \
-> anchor observations
GET /api/memory/export EXPORT_FAILED text/markdown text/csv: Hand out every decision.
    format: json|markdown|csv
POST /api/code-act CODE_FAILED 503 beside: Run JavaScript that can read the memory and the files of the project. \
-> success result duration value logs metrics
    code!: code
    timeout: timeout # milliseconds: default 30000, at most 60000
POST /api/slack/send SEND_FAILED 404 502 503 beside: Send a message or a file to a Slack channel. -> success message
    channel_id!: channel
    message: message
    file_path: text # a file of the store, or one that Git tracks
GET /api/daemon/logs /api/logs/daemon LOGS_FAILED 404 beside: Return a page of the server's log. \
-> success lines total offset
    lines: 1.. # default 100, at most 1000
    offset: 0..1000000000
    tail: 1.. # another name for lines
GET /viewer plain 404 text/html: A page for people.
    q topic id: text
GET /openapi.json plain beside: This document. -> openapi info paths
GET / plain 307 beside: Leads to the viewer.
"""
"""Method, path and other paths, MAMA's codes, further statuses and types, what it is for, what every answer has."""

_WORK: Mapping[str, Any] = {
    "/api/checkpoint/save": mama.checkpoint_save,
    "/api/checkpoint/load": mama.checkpoint_load,
    "/api/mama/search": mama.search,
    "/api/mama/save": mama.save,
    "/graph": graph.graph,
    "/graph/similar": graph.similar,
    "/graph/update": mama.update,
    "/api/save": claude_tools.save,
    "/api/search": _search,
    "/api/observation/{id}": _observation,
    "/api/observations/batch": _batch,
    "/api/timeline": claude_tools.timeline,
    "/api/memory/export": mama.export,
    "/api/code-act": code.act,
    "/api/slack/send": slack.send,
    "/api/daemon/logs": _logs,
    "/viewer": viewer.page,
    "/openapi.json": _document,
    "/": _home,
}
_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "code": {"type": "string", "pattern": r"\S", "maxLength": code.CODE},
    "timeout": {"type": "number", "minimum": 1},
    "channel": {"type": "string", "pattern": r"\S", "maxLength": 200},
    "message": {"type": "string", "maxLength": slack.TEXT},
}
_SCHEMAS = {f"/api/{name}": _TOOLS[name] for name in ("save", "search", "timeline")}
_SCHEMAS["/api/observations/batch"] = _TOOLS["get_observations"]
_MEANINGS = {
    307: "to /viewer",
    404: "there is none",
    502: "Slack refused, or cannot be reached",
    503: "not installed, or not configured",
}


def _routes(block: str) -> Iterator[Route]:
    """A row as a route for each of its paths."""
    head, _, rows = block.partition("\n")
    form, _, rest = head.partition(": ")
    summary, _, keys = rest.partition(" -> ")
    method, path, *words = form.split()
    work: Work = _WORK[path] if "beside" in words else remembered(_WORK[path])
    medias = tuple(word for word in words if word.startswith("text/"))
    route = Route(
        method,
        path,
        summary,
        _SCHEMAS.get(path) or arguments(rows, closed=False, **_SHAPES),
        work,
        keys,
        as_plain if "plain" in words else as_mama,
        writes=method == "POST" and "reads" not in words,
        codes={int(word): _MEANINGS[int(word)] for word in words if word.isdigit()},
        lacking=next((word for word in words if re.match("MISSING_|INVALID_", word)), "MISSING_FIELDS"),
        failed=next((word for word in words if word.endswith("_FAILED")), "FAILED"),
        medias=() if path == "/" else medias if medias == ("text/html",) else (JSON, *medias),
    )
    yield from (route._replace(path=one) for one in (path, *words) if one.startswith("/"))


ROUTES = tuple(route for block in re.split(r"\n(?=\S)", _TABLE.strip()) for route in _routes(block))
_BY_PATH = {route.path: route for route in ROUTES}
MAMA_SAVE, MAMA_SEARCH = _BY_PATH["/api/mama/save"], _BY_PATH["/api/mama/search"]
CLAUDE_SAVE, CLAUDE_SEARCH = _BY_PATH["/api/save"], _BY_PATH["/api/search"]


def meant(route: Route, given: Arguments) -> Route:
    """Two systems chose the same path for two things: the arguments show which is meant."""
    if route is CLAUDE_SAVE and not given.keys() & {"title", "text"} and given.keys() & {"topic", "decision"}:
        return MAMA_SAVE
    if route is CLAUDE_SEARCH and "q" in given and "query" not in given:
        return MAMA_SEARCH
    return route


FAMILIAR: Mapping[str, Mapping[str, str]] = {"/api/slack/send": {"channelId": "channel_id", "filePath": "file_path"}}
"""Names of arguments that the real programs use, by path: what they mean here."""
