"""The table of routes: what is served beside MCP, what each takes, and what answers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

from filemem.dialects import mem_claude, present
from filemem.dialects.tool import arguments
from filemem.memory.catch_up import SHORT
from filemem.web import code, graph, mama, read, slack, viewer
from filemem.web.route import (
    Answer,
    Arguments,
    Context,
    Refused,
    Route,
    Told,
    as_mama,
    chosen,
    plain,
    remembered,
)

LINES = 100  # of the log, where no number is asked for
MOST_LINES = 1_000
PAUSE = 2.0  # seconds between two looks at another repository, while a page shows it
_TOOLS = {tool.name: tool.input_schema for tool in mem_claude.TOOLS}


async def home(*_: object) -> Told:
    """Lead to the page."""
    return Told("", 303, "text/plain", {"Location": "/viewer"})


async def asset(_: Context, arguments: Arguments) -> Told:
    """A file of the page."""
    return await asyncio.to_thread(viewer.asset, arguments.get("name", "viewer.html"))


async def todo(context: Context, _: Arguments) -> Answer:
    """What is still to be set up, as `filemem doctor` says it."""
    return {"todo": await asyncio.to_thread(context.todo)}


async def events(context: Context, arguments: Arguments) -> Told:
    """Tell a page of every change, for as long as it listens."""
    if arguments.get("repository"):
        return Told(_changes_elsewhere(context, arguments))
    keeper = await asyncio.wrap_future(context.ask(lambda memory: memory.keeper))
    return Told(_changes(keeper))


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


def observations(memory: Any, arguments: Arguments) -> Told:
    """Several of them, as a list."""
    return Told(mem_claude.get_observations(memory, arguments)["observations"])


# Method, path, module and function that answer, other paths, MAMA's codes or `plain` for
# mem-claude's style, `closed` if an unknown argument is refused: a filter that is ignored answers
# another question. Then the arguments.
_TABLE = """
POST /api/checkpoint/save mama.checkpoint_save SAVE_FAILED
    summary!: said
    next_steps: text
    open_files: words
GET /api/checkpoint/load mama.checkpoint_load LOAD_FAILED
GET /api/mama/search mama.search MISSING_QUERY SEARCH_FAILED closed
    q!: said
    limit: 1..
POST /api/mama/save mama.save SAVE_FAILED
    topic! decision! reasoning!: said
    confidence: fraction
GET /graph graph.graph /api/graph GRAPH_FAILED
    topic: text
    cluster edges: flag
    repository: text
GET /graph/similar graph.similar MISSING_ID SEARCH_FAILED
    id!: said
POST /graph/update mama.update /api/update INVALID_REQUEST UPDATE_FAILED
    id! outcome!: said
    reason: text
POST /api/save mem_claude.save plain
GET /api/search mem_claude.search plain
GET /api/observation/{id} routes.observation plain
    id!: id
    project agent department: text
POST /api/observations/batch routes.observations plain
GET /api/timeline mem_claude.timeline plain
GET /api/memory/export mama.export EXPORT_FAILED
    format: json|markdown|csv
POST /api/code-act code.act CODE_FAILED
    code!: code
    timeout: timeout
POST /api/slack/send slack.send SEND_FAILED
    channel_id!: channel
    message: message
    file_path: text
GET /api/daemon/logs routes.logs /api/logs/daemon LOGS_FAILED
    lines tail: 1..
    offset: 0..1000000000
GET /viewer routes.asset plain
GET /viewer/assets/{name:path} routes.asset plain
    name!: text
GET /viewer/projects viewer.projects plain
GET /viewer/data viewer.data plain
    repository: text
GET /viewer/record viewer.record plain
    id!: said
    at: said
    repository: text
GET /viewer/read read.record plain
    id!: said
    repository: text
GET /viewer/log read.log plain
    repository: text
GET /viewer/search viewer.search plain
    q!: said
    type: decision|checkpoint|observation
    limit: 1..
    repository: text
GET /viewer/at viewer.at plain
    when!: said
    repository: text
GET /viewer/compare viewer.compare plain
    branch repository: text
GET /viewer/brief viewer.brief plain
    paths repository: text
GET /viewer/near viewer.near plain
    topic decision: text
GET /viewer/todo routes.todo plain
GET /viewer/events routes.events plain
    repository: text
POST /viewer/save viewer.save plain
    topic! decision! reasoning!: said
    rejected: texts
    affects supersedes builds_on debates synthesizes tags: words
    status: text
    confidence: fraction
    allow_secret: flag
POST /viewer/update viewer.update plain
    id! version!: said
    outcome reason status: text
    allow_secret: flag
POST /viewer/forget viewer.forget plain
    id! version!: said
    reason: text
GET / routes.home plain
"""
_MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (code, graph, mama, mem_claude, read, slack, viewer)
}
_MODULES["routes"] = sys.modules[__name__]
_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "code": {"type": "string", "pattern": r"\S", "maxLength": code.CODE},
    "timeout": {"type": "number", "minimum": 1},
    "channel": {"type": "string", "pattern": r"\S", "maxLength": 200},
    "message": {"type": "string", "maxLength": slack.TEXT},
}
_SCHEMAS = {f"/api/{name}": _TOOLS[name] for name in ("save", "search", "timeline")}
_SCHEMAS["/api/observations/batch"] = _TOOLS["get_observations"]


def _routes(block: str) -> Iterator[Route]:
    """A row as a route for each of its paths."""
    head, _, rows = block.partition("\n")
    method, path, answer, *words = head.split()
    module, _, function = answer.partition(".")
    work = getattr(_MODULES[module], function)
    route = Route(
        method,
        path,
        _SCHEMAS.get(path) or arguments(rows, closed="closed" in words, **_SHAPES),
        work if iscoroutinefunction(work) else remembered(work),
        plain if "plain" in words else as_mama,
        lacking=next(
            (word for word in words if re.match("MISSING_|INVALID_", word)), "MISSING_FIELDS"
        ),
        failed=next((word for word in words if word.endswith("_FAILED")), "FAILED"),
    )
    paths = (word for word in (path, *words) if word.startswith("/"))
    yield from (route._replace(path=path) for path in paths)


ROUTES = tuple(route for block in re.split(r"\n(?=\S)", _TABLE.strip()) for route in _routes(block))
_BY_PATH = {route.path: route for route in ROUTES}


def for_arguments(route: Route, values: Arguments) -> Route:
    """Two systems chose the same path for two things: the arguments show which it is."""
    if (
        route.path == "/api/save"
        and not values.keys() & {"title", "text"}
        and values.keys() & {"topic", "decision"}
    ):
        return _BY_PATH["/api/mama/save"]
    if route.path == "/api/search" and "q" in values and "query" not in values:
        return _BY_PATH["/api/mama/search"]
    return route
