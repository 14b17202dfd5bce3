"""Define a route, and read the arguments of a request. Plain values, without Starlette.

The handler of a route runs on the memory (`build_memory_handler`), or outside if it waits for
something else. A query is text that the schema gives types to; a body is one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from filemem.errors import BadInput, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.config import WebSettings
    from filemem.memory import Memory

Arguments = Mapping[str, Any]
Answer = dict[str, Any]
# Runs a function on the memory, one at a time.
Ask = Callable[[Callable[["Memory"], Any]], "Future[Any]"]

JSON = "application/json"
TOKEN = "token"  # noqa: S105  a parameter that is checked before any route, and ignored here
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Context(NamedTuple):
    """What handlers may use besides their arguments.

    `sandbox_slots` limits the number of scripts at once; `todo` lists what is still to be set up.
    """

    ask: Ask
    log: Sequence[str]
    web: WebSettings
    sandbox_slots: asyncio.Semaphore
    todo: Callable[[], Sequence[str]]


class Reply(NamedTuple):
    """An answer other than a JSON object with status 200: bytes, text, or a stream of events."""

    body: object
    status: int = 200
    media_type: str = JSON
    headers: Mapping[str, str] = {}


Result = Answer | Reply
Handler = Callable[[Context, Arguments], Awaitable[Result]]


class RouteFailure(FilememError):
    """A failure with an HTTP status, a code for programs, and the argument at fault."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", field: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code
        self.field = field


def build_cache_headers(tag: str) -> dict[str, str]:
    """Build headers by which a browser asks again, and gets no body if the tag is unchanged."""
    return {"ETag": f'"{tag[:32]}"', "Cache-Control": "no-cache"}


def format_install_hint(extra: str) -> str:
    """Format how to install an extra of filemem."""
    commands = f"uv tool install '.[{extra}]'; or: pipx install --force '.[{extra}]'"
    return f"in a clone of filemem: {commands}"


class Route(NamedTuple):
    """A method and a path, with the handler that answers."""

    method: str
    path: str  # as Starlette writes it, such as /api/observation/{id}
    schema: Mapping[str, Any]  # JSON Schema of the arguments of query, path or body
    handler: Handler
    format_failure: Callable[[RouteFailure], Answer]
    missing_code: str  # code for a missing required argument
    failure_code: str  # code for an internal error


def format_mama_failure(failure: RouteFailure) -> Answer:
    """Format a failure as MAMA's routes do."""
    answer = {"error": True, "code": failure.code, "message": failure.message}
    return answer | _build_details(failure)


def format_plain_failure(failure: RouteFailure) -> Answer:
    """Format a failure as mem-claude's routes and MCP do."""
    return {"error": failure.message} | _build_details(failure)


def _build_details(failure: RouteFailure) -> Answer:
    details = {"hint": failure.hint, "field": failure.field}
    return {name: text for name, text in details.items() if text}


def build_memory_handler(function: Callable[[Memory, Arguments], Result]) -> Handler:
    """Build the handler of a route from a function on the memory."""

    async def handle_request(context: Context, arguments: Arguments) -> Result:
        def answer_request(memory: Memory) -> Result:
            return function(resolve_memory(memory, arguments), arguments)

        result: Result = await asyncio.wrap_future(context.ask(answer_request))
        return result

    return handle_request


def resolve_memory(memory: Memory, arguments: Arguments) -> Memory:
    """Return the memory that a request is about: this one, or that of its `repository`.

    Raises NotFound if no such repository is registered.
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
    """Read the arguments of a query and of the path."""
    texts_by_name: dict[str, list[str]] = {}
    for name, text in pairs:
        if name != TOKEN:
            texts_by_name.setdefault(name, []).append(text)
    values: dict[str, object] = {}
    for name, texts in texts_by_name.items():
        value = _parse_argument(schema, name, texts)
        if value != "":  # a form sends `?topic=` for a field that was left empty
            values[name] = value
    values.update(path)
    return values


def _parse_argument(schema: Arguments, name: str, texts: list[str]) -> object:
    """Parse an argument by its schema; `texts` has one text for each time it was given."""
    argument_schema = schema["properties"].get(name, {})
    alternatives = argument_schema.get("anyOf", [argument_schema])
    types = {alternative.get("type", "string") for alternative in alternatives}
    takes_list = "array" in types
    if len(texts) > 1 and not takes_list:
        raise BadInput(f"{name} comes {len(texts)} times", "give it once", field=name[:64])
    if len(texts) > 1 or (takes_list and "string" not in types):
        return texts
    return _parse_value(texts[0], types)


def parse_body(body: bytes) -> dict[str, object]:
    """Parse a body; members that are null are left out. Raises BadInput."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise BadInput(
            "the body is not JSON in UTF-8, or nested too deeply", "send one JSON object"
        ) from None
    if not isinstance(value, dict):
        raise BadInput("the body must be one JSON object", 'for example {"topic": "caching"}')
    return {name: part for name, part in value.items() if part is not None}


def _parse_value(text: str, types: set[str]) -> object:
    """Parse a text as one of the types; other texts stay as they are, for the schema to refuse."""
    takes_number = "integer" in types or "number" in types
    if takes_number and _INTEGER.fullmatch(text):
        return int(text)
    if "boolean" in types:
        return _FLAGS.get(text.lower(), text)
    return text


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
