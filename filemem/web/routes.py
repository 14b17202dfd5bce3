"""The routes: what is served beside MCP, what each takes, and what answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

from filemem.dialects import mem_claude, parameter, present
from filemem.dialects.parameter import Parameter, build_schema
from filemem.memory.catch_up import READ_TIMEOUT
from filemem.record import TYPES
from filemem.web import code, graph, mama, read, slack, viewer
from filemem.web.route import (
    Answer,
    Arguments,
    Context,
    Handler,
    Reply,
    Route,
    RouteFailure,
    build_memory_handler,
    format_mama_failure,
    format_plain_failure,
    resolve_memory,
)

DEFAULT_LINES = 100  # of the log, where no number is asked for
MAX_LINES = 1_000
POLL_INTERVAL = 2.0  # seconds between two looks at another repository, while a page shows it
_TOOLS = {tool.name: tool.input_schema for tool in mem_claude.TOOLS}


async def redirect_home(*_: object) -> Reply:
    """Lead to the page."""
    return Reply("", 303, "text/plain", {"Location": "/viewer"})


async def answer_asset(_: Context, arguments: Arguments) -> Reply:
    """A file of the page."""
    return await asyncio.to_thread(viewer.read_asset, arguments.get("name", "viewer.html"))


async def answer_todo(context: Context, _: Arguments) -> Answer:
    """What is still to be set up, as `filemem doctor` says it."""
    return {"todo": await asyncio.to_thread(context.todo)}


async def answer_events(context: Context, arguments: Arguments) -> Reply:
    """Tell a page of every change, for as long as it listens."""
    if arguments.get("repository"):
        return Reply(_iter_other_changes(context, arguments))
    keeper = await asyncio.wrap_future(context.ask(lambda memory: memory.keeper))
    return Reply(_iter_changes(keeper))


async def _iter_changes(keeper: Any) -> AsyncIterator[Answer]:
    """The states of the memory at hand, which a watcher announces."""
    loop = asyncio.get_running_loop()
    states = asyncio.Queue[str]()

    def queue_state(state: str) -> None:  # called in the watcher's thread
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(states.put_nowait, state)

    keeper.listeners.append(queue_state)
    try:
        state = keeper.state
        while True:
            yield _build_event(state)
            state = await states.get()
    finally:
        keeper.listeners.remove(queue_state)


async def _iter_other_changes(context: Context, arguments: Arguments) -> AsyncIterator[Answer]:
    """The states of another repository's memory. Nobody watches its files: they are looked at."""

    def refresh_state(memory: Any) -> str:
        other = resolve_memory(memory, arguments)
        other.keeper.ensure_current(READ_TIMEOUT, should_scan=True)
        return str(other.keeper.state)

    last_state = ""
    while True:
        state = await asyncio.wrap_future(context.ask(refresh_state))
        if state != last_state:
            yield _build_event(state)
        last_state = state
        await asyncio.sleep(POLL_INTERVAL)


def _build_event(state: str) -> Answer:
    return {"event": "change", "data": json.dumps({"version": state})}


async def answer_logs(context: Context, arguments: Arguments) -> Answer:
    """Lines of the log, by offset from its end."""
    lines = min(arguments.get("lines", arguments.get("tail", DEFAULT_LINES)), MAX_LINES)
    offset = arguments.get("offset", 0)
    all_lines = list(context.log)
    end = max(0, len(all_lines) - offset)
    return {
        "success": True,
        "lines": all_lines[max(0, end - lines) : end],
        "total": len(all_lines),
        "offset": offset,
    }


def answer_observation(memory: Any, arguments: Arguments) -> Answer:
    """One of mem-claude's observations."""
    answer = mem_claude.get_observations(memory, {**arguments, "ids": [arguments["id"]]})
    if not answer["observations"]:
        raise RouteFailure(
            404,
            "NOT_FOUND",
            f"Observation #{arguments['id']} not found",
            "GET /api/search shows ids",
        )
    return {**answer["observations"][0], **present.build_degraded_note(memory)}


def answer_observations(memory: Any, arguments: Arguments) -> Reply:
    """Several of them, as a list."""
    return Reply(mem_claude.get_observations(memory, arguments)["observations"])


def _build_plain_route(method: str, path: str, handler: Any, *parameters: Parameter) -> Route:
    """A route of ours or of mem-claude's."""
    schema = build_schema(parameters, is_strict=False)
    return Route(
        method,
        path,
        schema,
        _build_handler(handler),
        format_plain_failure,
        "MISSING_FIELDS",
        "FAILED",
    )


def _build_tool_route(method: str, path: str, handler: Any, name: str) -> Route:
    """A route that takes what one of mem-claude's tools takes."""
    return _build_plain_route(method, path, handler)._replace(schema=_TOOLS[name])


def _build_mama_route(
    path: str,
    handler: Any,
    failure_code: str,
    *parameters: Parameter,
    method: str = "POST",
    missing_code: str = "MISSING_FIELDS",
    is_closed: bool = False,
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
    schema = build_schema(parameters, is_strict=is_closed)
    return Route(
        method,
        path,
        schema,
        _build_handler(handler),
        format_mama_failure,
        missing_code,
        failure_code,
    )


def _build_handler(handler: Any) -> Handler:
    return handler if iscoroutinefunction(handler) else build_memory_handler(handler)


_REPOSITORY = parameter.build_text("repository")  # another project of the workspace
_TEXT = parameter.TEXT
_CODE = {**_TEXT, "pattern": r"\S", "maxLength": code.MAX_CODE}
_CHANNEL = {**_TEXT, "pattern": r"\S", "maxLength": 200}
_MESSAGE = {**_TEXT, "maxLength": slack.MAX_TEXT}
_UPDATE = (
    parameter.build_required_text("id"),
    parameter.build_required_text("outcome"),
    parameter.build_text("reason"),
)
_VERSION = (parameter.build_required_text("id"), parameter.build_required_text("version"))
_GRAPH = (
    parameter.build_text("topic"),
    parameter.build_flag("cluster"),
    parameter.build_flag("edges"),
    _REPOSITORY,
)
_LOGS = (
    parameter.build_integer("lines", minimum=1),
    parameter.build_integer("tail", minimum=1),
    parameter.build_integer("offset", minimum=0, maximum=1_000_000_000),
)
ROUTES = (
    _build_mama_route(
        "/api/checkpoint/save",
        mama.save_checkpoint,
        "SAVE_FAILED",
        parameter.build_required_text("summary"),
        parameter.build_text("next_steps"),
        parameter.build_text_or_list("open_files"),
    ),
    _build_mama_route(
        "/api/checkpoint/load", mama.load_latest_checkpoint, "LOAD_FAILED", method="GET"
    ),
    _build_mama_route(
        "/api/mama/search",
        mama.search_decisions,
        "SEARCH_FAILED",
        parameter.build_required_text("q"),
        parameter.build_integer("limit", minimum=1),
        method="GET",
        missing_code="MISSING_QUERY",
        is_closed=True,
    ),
    _build_mama_route(
        "/api/mama/save",
        mama.save_decision,
        "SAVE_FAILED",
        parameter.build_required_text("topic"),
        parameter.build_required_text("decision"),
        parameter.build_required_text("reasoning"),
        parameter.build_fraction("confidence"),
    ),
    _build_mama_route("/graph", graph.answer_graph, "GRAPH_FAILED", *_GRAPH, method="GET"),
    _build_mama_route("/api/graph", graph.answer_graph, "GRAPH_FAILED", *_GRAPH, method="GET"),
    _build_mama_route(
        "/graph/similar",
        graph.answer_similar,
        "SEARCH_FAILED",
        parameter.build_required_text("id"),
        method="GET",
        missing_code="MISSING_ID",
    ),
    _build_mama_route(
        "/graph/update",
        mama.update_outcome,
        "UPDATE_FAILED",
        *_UPDATE,
        missing_code="INVALID_REQUEST",
    ),
    _build_mama_route(
        "/api/update",
        mama.update_outcome,
        "UPDATE_FAILED",
        *_UPDATE,
        missing_code="INVALID_REQUEST",
    ),
    _build_tool_route("POST", "/api/save", mem_claude.save, "save"),
    _build_tool_route("GET", "/api/search", mem_claude.search, "search"),
    _build_plain_route(
        "GET",
        "/api/observation/{id}",
        answer_observation,
        parameter.build_identifier("id", is_required=True),
        parameter.build_text("project"),
        parameter.build_text("agent"),
        parameter.build_text("department"),
    ),
    _build_tool_route("POST", "/api/observations/batch", answer_observations, "get_observations"),
    _build_tool_route("GET", "/api/timeline", mem_claude.timeline, "timeline"),
    _build_mama_route(
        "/api/memory/export",
        mama.export_decisions,
        "EXPORT_FAILED",
        parameter.build_choice("format", ("json", "markdown", "csv")),
        method="GET",
    ),
    _build_mama_route(
        "/api/code-act",
        code.run_code,
        "CODE_FAILED",
        parameter.build_parameter("code", _CODE, is_required=True),
        parameter.build_parameter("timeout", {"type": "number", "minimum": 1}),
    ),
    _build_mama_route(
        "/api/slack/send",
        slack.send_message,
        "SEND_FAILED",
        parameter.build_parameter("channel_id", _CHANNEL, is_required=True),
        parameter.build_parameter("message", _MESSAGE),
        parameter.build_text("file_path"),
    ),
    _build_mama_route("/api/daemon/logs", answer_logs, "LOGS_FAILED", *_LOGS, method="GET"),
    _build_mama_route("/api/logs/daemon", answer_logs, "LOGS_FAILED", *_LOGS, method="GET"),
    _build_plain_route("GET", "/viewer", answer_asset),
    _build_plain_route(
        "GET",
        "/viewer/assets/{name:path}",
        answer_asset,
        parameter.build_text("name", is_required=True),
    ),
    _build_plain_route("GET", "/viewer/projects", viewer.answer_projects),
    _build_plain_route("GET", "/viewer/data", viewer.answer_data, _REPOSITORY),
    _build_plain_route(
        "GET",
        "/viewer/record",
        viewer.answer_record,
        parameter.build_required_text("id"),
        parameter.build_required_text("at")._replace(is_required=False),
        _REPOSITORY,
    ),
    _build_plain_route(
        "GET",
        "/viewer/read",
        read.answer_record_page,
        parameter.build_required_text("id"),
        _REPOSITORY,
    ),
    _build_plain_route("GET", "/viewer/log", read.answer_log_page, _REPOSITORY),
    _build_plain_route(
        "GET",
        "/viewer/search",
        viewer.answer_search,
        parameter.build_required_text("q"),
        parameter.build_choice("type", TYPES),
        parameter.build_integer("limit", minimum=1),
        _REPOSITORY,
    ),
    _build_plain_route(
        "GET",
        "/viewer/at",
        viewer.answer_moment,
        parameter.build_required_text("when"),
        _REPOSITORY,
    ),
    _build_plain_route(
        "GET",
        "/viewer/compare",
        viewer.answer_comparison,
        parameter.build_text("branch"),
        _REPOSITORY,
    ),
    _build_plain_route(
        "GET", "/viewer/brief", viewer.answer_brief, parameter.build_text("paths"), _REPOSITORY
    ),
    _build_plain_route(
        "GET",
        "/viewer/near",
        viewer.answer_nearby,
        parameter.build_text("topic"),
        parameter.build_text("decision"),
    ),
    _build_plain_route("GET", "/viewer/todo", answer_todo),
    _build_plain_route("GET", "/viewer/events", answer_events, _REPOSITORY),
    _build_plain_route(
        "POST",
        "/viewer/save",
        viewer.save_decision,
        parameter.build_required_text("topic"),
        parameter.build_required_text("decision"),
        parameter.build_required_text("reasoning"),
        parameter.build_text_list("rejected"),
        parameter.build_text_or_list("affects"),
        parameter.build_text_or_list("supersedes"),
        parameter.build_text_or_list("builds_on"),
        parameter.build_text_or_list("debates"),
        parameter.build_text_or_list("synthesizes"),
        parameter.build_text_or_list("tags"),
        parameter.build_text("status"),
        parameter.build_fraction("confidence"),
        parameter.build_flag("allow_secret"),
    ),
    _build_plain_route(
        "POST",
        "/viewer/update",
        viewer.update_decision,
        *_VERSION,
        parameter.build_text("outcome"),
        parameter.build_text("reason"),
        parameter.build_text("status"),
        parameter.build_flag("allow_secret"),
    ),
    _build_plain_route(
        "POST", "/viewer/forget", viewer.forget_record, *_VERSION, parameter.build_text("reason")
    ),
    _build_plain_route("GET", "/", redirect_home),
)
_BY_PATH = {route.path: route for route in ROUTES}


def resolve_route(route: Route, values: Arguments) -> Route:
    """Two systems chose the same path for two things: the arguments show which it is."""
    is_decision = not values.keys() & {"title", "text"} and values.keys() & {"topic", "decision"}
    if route.path == "/api/save" and is_decision:
        return _BY_PATH["/api/mama/save"]
    if route.path == "/api/search" and "q" in values and "query" not in values:
        return _BY_PATH["/api/mama/search"]
    return route
