"""The routes: what is served beside MCP, what each takes, and what answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

from filemem.dialects import mem_claude, parameter, present
from filemem.dialects.parameter import Parameter, schema_of
from filemem.memory.catch_up import SHORT
from filemem.record import TYPES
from filemem.web import code, graph, mama, read, slack, viewer
from filemem.web.route import (
    Answer,
    Arguments,
    Context,
    Refused,
    Reply,
    Route,
    Work,
    as_mama,
    chosen,
    plain,
    remembered,
)

LINES = 100  # of the log, where no number is asked for
MOST_LINES = 1_000
PAUSE = 2.0  # seconds between two looks at another repository, while a page shows it
_TOOLS = {tool.name: tool.input_schema for tool in mem_claude.TOOLS}


async def home(*_: object) -> Reply:
    """Lead to the page."""
    return Reply("", 303, "text/plain", {"Location": "/viewer"})


async def asset(_: Context, arguments: Arguments) -> Reply:
    """A file of the page."""
    return await asyncio.to_thread(viewer.asset, arguments.get("name", "viewer.html"))


async def todo(context: Context, _: Arguments) -> Answer:
    """What is still to be set up, as `filemem doctor` says it."""
    return {"todo": await asyncio.to_thread(context.todo)}


async def events(context: Context, arguments: Arguments) -> Reply:
    """Tell a page of every change, for as long as it listens."""
    if arguments.get("repository"):
        return Reply(_changes_elsewhere(context, arguments))
    keeper = await asyncio.wrap_future(context.ask(lambda memory: memory.keeper))
    return Reply(_changes(keeper))


async def _changes(keeper: Any) -> AsyncIterator[Answer]:
    """The states of the memory at hand, which a watcher announces."""
    loop = asyncio.get_running_loop()
    states = asyncio.Queue[str]()

    def changed(state: str) -> None:  # called in the watcher's thread
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(states.put_nowait, state)

    keeper.listeners.append(changed)
    try:
        state = keeper.state
        while True:
            yield _event(state)
            state = await states.get()
    finally:
        keeper.listeners.remove(changed)


async def _changes_elsewhere(context: Context, arguments: Arguments) -> AsyncIterator[Answer]:
    """The states of another repository's memory. Nobody watches its files: they are looked at."""

    def state_of(memory: Any) -> str:
        other = chosen(memory, arguments)
        other.keeper.in_step(SHORT, looks=True)
        return str(other.keeper.state)

    last = ""
    while True:
        state = await asyncio.wrap_future(context.ask(state_of))
        if state != last:
            yield _event(state)
        last = state
        await asyncio.sleep(PAUSE)


def _event(state: str) -> Answer:
    return {"event": "change", "data": json.dumps({"version": state})}


async def logs(context: Context, arguments: Arguments) -> Answer:
    """Lines of the log, by offset from its end."""
    lines = min(arguments.get("lines", arguments.get("tail", LINES)), MOST_LINES)
    offset = arguments.get("offset", 0)
    every = list(context.log)
    end = max(0, len(every) - offset)
    return {
        "success": True,
        "lines": every[max(0, end - lines) : end],
        "total": len(every),
        "offset": offset,
    }


def observation(memory: Any, arguments: Arguments) -> Answer:
    """One of mem-claude's observations."""
    answer = mem_claude.get_observations(memory, {**arguments, "ids": [arguments["id"]]})
    if not answer["observations"]:
        raise Refused(
            404,
            "NOT_FOUND",
            f"Observation #{arguments['id']} not found",
            "GET /api/search shows ids",
        )
    return {**answer["observations"][0], **present.lacking(memory)}


def observations(memory: Any, arguments: Arguments) -> Reply:
    """Several of them, as a list."""
    return Reply(mem_claude.get_observations(memory, arguments)["observations"])


def _plain(method: str, path: str, work: Any, *parameters: Parameter) -> Route:
    """A route of ours or of mem-claude's."""
    schema = schema_of(parameters, closed=False)
    return Route(method, path, schema, _work(work), plain, "MISSING_FIELDS", "FAILED")


def _of_tool(method: str, path: str, work: Any, name: str) -> Route:
    """A route that takes what one of mem-claude's tools takes."""
    return _plain(method, path, work)._replace(schema=_TOOLS[name])


def _mama(
    path: str,
    work: Any,
    failed: str,
    *parameters: Parameter,
    method: str = "POST",
    lacking: str = "MISSING_FIELDS",
    closed: bool = False,
) -> Route:
    """A route of MAMA's.

    Args:
        path: as its page has it.
        work: what answers.
        failed: its code for what went wrong on our side.
        parameters: what it takes.
        method: of HTTP.
        lacking: its code for a required parameter that is not there.
        closed: whether others are refused: a filter that is ignored answers another question.
    """
    schema = schema_of(parameters, closed=closed)
    return Route(method, path, schema, _work(work), as_mama, lacking, failed)


def _work(work: Any) -> Work:
    return work if iscoroutinefunction(work) else remembered(work)


_REPOSITORY = parameter.text("repository")  # another project of the workspace
_TEXT = parameter.TEXT
_CODE = {**_TEXT, "pattern": r"\S", "maxLength": code.CODE}
_CHANNEL = {**_TEXT, "pattern": r"\S", "maxLength": 200}
_MESSAGE = {**_TEXT, "maxLength": slack.TEXT}
_UPDATE = (parameter.filled("id"), parameter.filled("outcome"), parameter.text("reason"))
_VERSION = (parameter.filled("id"), parameter.filled("version"))
_GRAPH = (
    parameter.text("topic"),
    parameter.flag("cluster"),
    parameter.flag("edges"),
    _REPOSITORY,
)
_LOGS = (
    parameter.integer("lines", least=1),
    parameter.integer("tail", least=1),
    parameter.integer("offset", least=0, most=1_000_000_000),
)
ROUTES = (
    _mama(
        "/api/checkpoint/save",
        mama.checkpoint_save,
        "SAVE_FAILED",
        parameter.filled("summary"),
        parameter.text("next_steps"),
        parameter.words("open_files"),
    ),
    _mama("/api/checkpoint/load", mama.checkpoint_load, "LOAD_FAILED", method="GET"),
    _mama(
        "/api/mama/search",
        mama.search,
        "SEARCH_FAILED",
        parameter.filled("q"),
        parameter.integer("limit", least=1),
        method="GET",
        lacking="MISSING_QUERY",
        closed=True,
    ),
    _mama(
        "/api/mama/save",
        mama.save,
        "SAVE_FAILED",
        parameter.filled("topic"),
        parameter.filled("decision"),
        parameter.filled("reasoning"),
        parameter.fraction("confidence"),
    ),
    _mama("/graph", graph.graph, "GRAPH_FAILED", *_GRAPH, method="GET"),
    _mama("/api/graph", graph.graph, "GRAPH_FAILED", *_GRAPH, method="GET"),
    _mama(
        "/graph/similar",
        graph.similar,
        "SEARCH_FAILED",
        parameter.filled("id"),
        method="GET",
        lacking="MISSING_ID",
    ),
    _mama("/graph/update", mama.update, "UPDATE_FAILED", *_UPDATE, lacking="INVALID_REQUEST"),
    _mama("/api/update", mama.update, "UPDATE_FAILED", *_UPDATE, lacking="INVALID_REQUEST"),
    _of_tool("POST", "/api/save", mem_claude.save, "save"),
    _of_tool("GET", "/api/search", mem_claude.search, "search"),
    _plain(
        "GET",
        "/api/observation/{id}",
        observation,
        parameter.identifier("id", required=True),
        parameter.text("project"),
        parameter.text("agent"),
        parameter.text("department"),
    ),
    _of_tool("POST", "/api/observations/batch", observations, "get_observations"),
    _of_tool("GET", "/api/timeline", mem_claude.timeline, "timeline"),
    _mama(
        "/api/memory/export",
        mama.export,
        "EXPORT_FAILED",
        parameter.choice("format", ("json", "markdown", "csv")),
        method="GET",
    ),
    _mama(
        "/api/code-act",
        code.act,
        "CODE_FAILED",
        parameter.shaped("code", _CODE, required=True),
        parameter.shaped("timeout", {"type": "number", "minimum": 1}),
    ),
    _mama(
        "/api/slack/send",
        slack.send,
        "SEND_FAILED",
        parameter.shaped("channel_id", _CHANNEL, required=True),
        parameter.shaped("message", _MESSAGE),
        parameter.text("file_path"),
    ),
    _mama("/api/daemon/logs", logs, "LOGS_FAILED", *_LOGS, method="GET"),
    _mama("/api/logs/daemon", logs, "LOGS_FAILED", *_LOGS, method="GET"),
    _plain("GET", "/viewer", asset),
    _plain("GET", "/viewer/assets/{name:path}", asset, parameter.text("name", required=True)),
    _plain("GET", "/viewer/projects", viewer.projects),
    _plain("GET", "/viewer/data", viewer.data, _REPOSITORY),
    _plain(
        "GET",
        "/viewer/record",
        viewer.record,
        parameter.filled("id"),
        parameter.filled("at")._replace(required=False),
        _REPOSITORY,
    ),
    _plain("GET", "/viewer/read", read.record, parameter.filled("id"), _REPOSITORY),
    _plain("GET", "/viewer/log", read.log, _REPOSITORY),
    _plain(
        "GET",
        "/viewer/search",
        viewer.search,
        parameter.filled("q"),
        parameter.choice("type", TYPES),
        parameter.integer("limit", least=1),
        _REPOSITORY,
    ),
    _plain("GET", "/viewer/at", viewer.at, parameter.filled("when"), _REPOSITORY),
    _plain("GET", "/viewer/compare", viewer.compare, parameter.text("branch"), _REPOSITORY),
    _plain("GET", "/viewer/brief", viewer.brief, parameter.text("paths"), _REPOSITORY),
    _plain("GET", "/viewer/near", viewer.near, parameter.text("topic"), parameter.text("decision")),
    _plain("GET", "/viewer/todo", todo),
    _plain("GET", "/viewer/events", events, _REPOSITORY),
    _plain(
        "POST",
        "/viewer/save",
        viewer.save,
        parameter.filled("topic"),
        parameter.filled("decision"),
        parameter.filled("reasoning"),
        parameter.texts("rejected"),
        parameter.words("affects"),
        parameter.words("supersedes"),
        parameter.words("builds_on"),
        parameter.words("debates"),
        parameter.words("synthesizes"),
        parameter.words("tags"),
        parameter.text("status"),
        parameter.fraction("confidence"),
        parameter.flag("allow_secret"),
    ),
    _plain(
        "POST",
        "/viewer/update",
        viewer.update,
        *_VERSION,
        parameter.text("outcome"),
        parameter.text("reason"),
        parameter.text("status"),
        parameter.flag("allow_secret"),
    ),
    _plain("POST", "/viewer/forget", viewer.forget, *_VERSION, parameter.text("reason")),
    _plain("GET", "/", home),
)
_BY_PATH = {route.path: route for route in ROUTES}


def for_arguments(route: Route, values: Arguments) -> Route:
    """Two systems chose the same path for two things: the arguments show which it is."""
    is_decision = not values.keys() & {"title", "text"} and values.keys() & {"topic", "decision"}
    if route.path == "/api/save" and is_decision:
        return _BY_PATH["/api/mama/save"]
    if route.path == "/api/search" and "q" in values and "query" not in values:
        return _BY_PATH["/api/mama/search"]
    return route
