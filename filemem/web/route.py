"""Routes as rows of a table, and how a request becomes arguments. Plain values, without Starlette.

A row's function runs on the memory (`remembered`), or outside if it waits for something else. A
query is text that is read by the schema; a body is one JSON object.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from filemem.errors import BadInput, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.config import WebSettings
    from filemem.memory import Memory

Arguments = Mapping[str, Any]
Answer = dict[str, Any]
Ask = Callable[
    [Callable[["Memory"], Any]], "Future[Any]"
]  # runs a function on the memory, one at a time

JSON = "application/json"
TOKEN = "token"  # noqa: S105  the name of a parameter that is the door's, not the route's
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Context(NamedTuple):
    """What functions may use besides their arguments.

    `running` limits the number of sandboxes at once; `todo` says what is still to be set up.
    """

    ask: Ask
    log: Sequence[str]
    web: WebSettings
    sandbox_slots: asyncio.Semaphore
    todo: Callable[[], Sequence[str]]


class Reply(NamedTuple):
    """An answer that is no object with status 200: bytes, text, or events as they come."""

    body: object
    status: int = 200
    media_type: str = JSON
    headers: Mapping[str, str] = {}


Result = Answer | Reply
Handler = Callable[[Context, Arguments], Awaitable[Result]]


class RouteFailure(FilememError):
    """A failure with a status and a code of its own, and the argument at fault."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", field: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code
        self.field = field


def build_cache_headers(tag: str) -> dict[str, str]:
    """Headers by which a browser asks again, and is sent nothing where the mark is the same."""
    return {"ETag": f'"{tag[:32]}"', "Cache-Control": "no-cache"}


def format_install_hint(extra: str) -> str:
    """How to install an extra of filemem."""
    commands = f"uv tool install '.[{extra}]'; or: pipx install --force '.[{extra}]'"
    return f"in a clone of filemem: {commands}"


class Route(NamedTuple):
    """One route."""

    method: str
    path: str  # as Starlette writes it, with `{id}` for a part of it
    schema: Mapping[str, Any]  # JSON Schema of the arguments, wherever they come from
    handler: Handler  # what answers
    format_failure: Callable[[RouteFailure], Answer]  # how failures are worded
    missing_code: str  # MAMA's code for a required argument that is not there
    failure_code: str  # the same for what went wrong on our side


def format_mama_failure(failure: RouteFailure) -> Answer:
    """Format a failure as MAMA's routes do."""
    return {"error": True, "code": failure.code, "message": failure.message} | _build_details(
        failure
    )


def format_plain_failure(failure: RouteFailure) -> Answer:
    """Format a failure as mem-claude's routes and MCP do."""
    return {"error": failure.message} | _build_details(failure)


def _build_details(failure: RouteFailure) -> Answer:
    return {name: value for name in ("hint", "field") if (value := getattr(failure, name))}


def build_memory_handler(function: Callable[[Memory, Arguments], Result]) -> Handler:
    """Make the work of a route from a function on the memory."""

    async def handle_request(context: Context, arguments: Arguments) -> Result:
        result: Result = await asyncio.wrap_future(
            context.ask(lambda memory: function(resolve_memory(memory, arguments), arguments))
        )
        return result

    return handle_request


def resolve_memory(memory: Memory, arguments: Arguments) -> Memory:
    """The memory that a request is about: the one at hand, or of a `repository` of the workspace.

    Raises NotFound.
    """
    key = arguments.get("repository", "")
    if not key:
        return memory
    if memory.workspace is None:
        raise NotFound("this repository is in no workspace", "filemem workspace add")
    return memory.workspace().open_memory(key)


def parse_query(
    schema: Arguments, pairs: Iterable[tuple[str, str]], path: Mapping[str, str]
) -> dict[str, object]:
    """Read the names and values of a query, as they came, and those of the path."""
    texts: dict[str, list[str]] = {}
    for name, value in pairs:
        if name != TOKEN:
            texts.setdefault(name, []).append(value)
    values = {
        name: _parse_argument(schema, name, texts_of_name) for name, texts_of_name in texts.items()
    }
    # An empty value is none at all: a form sends `?topic=` for a field that was left alone.
    return {name: value for name, value in values.items() if value != ""} | dict(path)


def _parse_argument(schema: Arguments, name: str, texts: list[str]) -> object:
    """The value of an argument that came in these texts."""
    shape = schema["properties"].get(name, {})
    kinds = {part.get("type", "string") for part in shape.get("anyOf", [shape])}
    if "array" not in kinds:
        if len(texts) > 1:
            raise BadInput(f"{name} comes {len(texts)} times", "give it once", field=name[:64])
        return _parse_value(texts[0], kinds)
    return texts if len(texts) > 1 or "string" not in kinds else _parse_value(texts[0], kinds)


def parse_body(body: bytes) -> dict[str, object]:
    """Read a body; members that are null are left out."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise BadInput(
            "the body is not JSON in UTF-8, or nested too deeply", "send one JSON object"
        ) from None
    if not isinstance(value, dict):
        raise BadInput("the body must be one JSON object", 'for example {"topic": "caching"}')
    return {name: part for name, part in value.items() if part is not None}


def _parse_value(text: str, kinds: set[str]) -> object:
    """The value of a text; an unreadable text stays as it is and is refused by the schema."""
    number = text.removeprefix("-")
    if (
        kinds & {"integer", "number"}
        and number.isascii()
        and number.isdigit()
        and len(number) <= 20
    ):
        return int(text)
    return _FLAGS.get(text.lower(), text) if "boolean" in kinds else text


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
