"""The table of the routes that are served beside MCP: path, arguments and handler of each."""

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

DEFAULT_LINES = 100  # default number of lines of the log
MAX_LINES = 1_000
POLL_INTERVAL = 2.0  # seconds between two looks at another repository that a page shows
_TOOLS = {tool.name: tool.input_schema for tool in mem_claude.TOOLS}


async def redirect_home(*_: object) -> Reply:
    """Redirect to the page."""
    return Reply("", status=303, media_type="text/plain", headers={"Location": "/viewer"})


async def answer_asset(_: Context, arguments: Arguments) -> Reply:
    """Return a file of the page."""
    name = arguments.get("name", "viewer.html")
    return await asyncio.to_thread(viewer.read_asset, name)


async def answer_todo(context: Context, _: Arguments) -> Answer:
    """List what is still to be set up, as `filemem doctor` does."""
    return {"todo": await asyncio.to_thread(context.todo)}


async def answer_events(context: Context, arguments: Arguments) -> Reply:
    """Send the page an event for every change, for as long as it listens."""
    if arguments.get("repository"):
        return Reply(_iter_other_changes(context, arguments))
    keeper = await asyncio.wrap_future(context.ask(lambda memory: memory.keeper))
    return Reply(_iter_changes(keeper))


async def _iter_changes(keeper: Any) -> AsyncIterator[Answer]:
    """Yield an event for each state of this memory; a watcher reports the changes."""
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
    """Yield an event for each state of another repository, which has no watcher: it is polled."""

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
    """Return lines of the log; `offset` skips the newest ones."""
    stated_count = arguments.get("lines", arguments.get("tail", DEFAULT_LINES))
    count = min(stated_count, MAX_LINES)
    offset = arguments.get("offset", 0)
    all_lines = list(context.log)
    end = max(0, len(all_lines) - offset)
    start = max(0, end - count)
    return {
        "success": True,
        "lines": all_lines[start:end],
        "total": len(all_lines),
        "offset": offset,
    }


def answer_observation(memory: Any, arguments: Arguments) -> Answer:
    """Return one of mem-claude's observations. Raises RouteFailure if there is none."""
    number = arguments["id"]
    parameters = dict(arguments, ids=[number])
    observations = mem_claude.get_observations(memory, parameters)["observations"]
    if not observations:
        message = f"Observation #{number} not found"
        raise RouteFailure(404, "NOT_FOUND", message, hint="GET /api/search shows ids")
    answer: Answer = observations[0]
    return answer | present.build_degraded_note(memory)


def answer_observations(memory: Any, arguments: Arguments) -> Reply:
    """Return several of mem-claude's observations, as a list."""
    return Reply(mem_claude.get_observations(memory, arguments)["observations"])


def _build_plain_route(method: str, path: str, handler: Any, *parameters: Parameter) -> Route:
    """Build a route of the page or of mem-claude."""
    return Route(
        method=method,
        path=path,
        schema=build_schema(parameters, is_strict=False),
        handler=_build_handler(handler),
        format_failure=format_plain_failure,
        missing_code="MISSING_FIELDS",
        failure_code="FAILED",
    )


def _build_tool_route(method: str, path: str, handler: Any, name: str) -> Route:
    """Build a route with the arguments of the mem-claude tool `name`."""
    route = _build_plain_route(method, path, handler)
    return route._replace(schema=_TOOLS[name])


def _build_mama_route(
    path: str,
    handler: Any,
    failure_code: str,
    *parameters: Parameter,
    method: str = "POST",
    missing_code: str = "MISSING_FIELDS",
    is_closed: bool = False,
) -> Route:
    """Build a route of MAMA; the arguments are fields of `Route`.

    With `is_closed` other parameters are refused: a search that ignores a filter would mislead.
    """
    return Route(
        method=method,
        path=path,
        schema=build_schema(parameters, is_strict=is_closed),
        handler=_build_handler(handler),
        format_failure=format_mama_failure,
        missing_code=missing_code,
        failure_code=failure_code,
    )


def _build_handler(handler: Any) -> Handler:
    """Return a coroutine function as it is; other functions run on the memory."""
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
    """Choose by the arguments between MAMA and mem-claude, which share two paths."""
    names_decision = "topic" in values or "decision" in values
    names_observation = "title" in values or "text" in values
    if route.path == "/api/save" and names_decision and not names_observation:
        return _BY_PATH["/api/mama/save"]
    if route.path == "/api/search" and "q" in values and "query" not in values:
        return _BY_PATH["/api/mama/search"]
    return route
