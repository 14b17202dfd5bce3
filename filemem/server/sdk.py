"""The MCP server proper, on the official SDK: one `Server` for every transport, fed from a dialect's tables.

Calls run in order in one thread beside the event loop: a memory is opened, used and closed by the same thread, and a
slow call delays other calls but no ping.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from filemem.dialects.call import call, perform
from filemem.dialects.tool import Dialect, Payload, Resource
from filemem.errors import BadInput, FilememError, Locked, NotFound, refused, suggest
from filemem.record.visibility import EVERYBODY
from filemem.server.front import lists, server
from filemem.server.wire import INTERNAL_ERROR, INVALID_PARAMS, dump

if TYPE_CHECKING:
    from filemem.memory import Memory

OpenMemory = Callable[[], "Memory"]
OnCrash = Callable[[str, BaseException], None]
Asked = TypeVar("Asked")
_Context = ServerRequestContext[Any, Any]

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
CLOSING = 0.5  # seconds for closing the memory
_SHOWN = 200  # characters of an address in a message
_MISSING = -32002  # "resource not found" of the handshake protocols; later ones say invalid params
_DEFECT = ("internal error, logged", "a defect of filemem: please report it; the server goes on")


def log_crash(tool: str, error: BaseException) -> None:
    """Report a defect on standard error, with its traceback."""
    logging.getLogger(__name__).error("%s failed", tool, exc_info=error)


class Calls:
    """Runs tool calls in order. The first call opens the memory; if that raises FilememError, the next tries again.

    A memory that takes several calls at a time is given `threads`. A call sees the context variables of its request.
    """

    def __init__(
        self,
        dialect: Dialect,
        open_memory: OpenMemory,
        on_crash: OnCrash = log_crash,
        threads: int = 1,
    ) -> None:
        self.dialect, self._open_memory, self.on_crash = dialect, open_memory, on_crash
        self._structured = frozenset(
            tool.name for tool in dialect.tools if tool.output_schema is not None
        )
        self._memory: Memory | None = None
        self._ending = False
        # Else each thread of Tantivy keeps what it freed: 70 MB in 600 saves.
        with suppress(AttributeError, OSError, TypeError):  # of glibc alone
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
        self._thread = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="filemem-calls")

    async def run(self, name: str, arguments: Mapping[str, object]) -> types.CallToolResult:
        """Call a tool; a defect becomes a report and a failure. Failures are text only: the schema is of success."""
        try:
            texts, structure, is_error = await self._answer(
                self._submit(lambda: self._run(name, arguments)), name
            )
        except FilememError as error:
            texts, structure, is_error = [_text(self.dialect.failure(error))], None, True
        result = types.CallToolResult(
            content=[types.TextContent(text=text) for text in texts], is_error=is_error
        )
        if structure is not None:
            result.structured_content = structure
        return result

    def prepare(self) -> None:
        """Open the memory and load what a search needs; if that fails, the first call reports why."""
        self.ask(lambda memory: memory.search("prepare", limit=1))

    def ask(self, question: Callable[[Memory], Asked]) -> Future[Asked]:
        """Run another function on the memory, in turn with the calls; failures go to the future."""
        return self._submit(lambda: question(self._opened()))

    async def read(self, tool: str, arguments: Mapping[str, object]) -> str:
        """The answer of a tool as text. Raises FilememError, also if the memory cannot be opened, or for a defect."""
        asked = self.ask(lambda memory: perform(self.dialect, memory, tool, arguments))
        return _text(await self._answer(asked, "a request"))

    def without_private(self) -> Calls:
        """The same calls in the same order, for callers of whom nothing is known."""
        other = copy(self)
        other._open_memory = lambda: self._opened().seen_by(EVERYBODY)
        return other

    def end(self) -> None:
        """Start no more calls: the running one goes on, waiting ones are answered that they were not started."""
        self._ending = True

    async def close(self, seconds: float) -> None:
        """Close the memory after the running call, waiting at most `seconds`."""
        closing = self._thread.submit(lambda: self._memory.close() if self._memory else None)
        self._thread.shutdown(wait=False)
        with suppress(TimeoutError, FilememError):
            await asyncio.wait_for(self._answer(closing, "close"), seconds)

    def _submit(self, call: Callable[[], Asked]) -> Future[Asked]:
        return self._thread.submit(copy_context().run, call)

    def _run(self, name: str, arguments: Mapping[str, object]) -> tuple[list[str], Any, bool]:
        if self._ending:
            raise Locked("the server is stopping, so this call was not started", "call again")
        memory = self._opened()
        payload, is_error, words = call(self.dialect, memory, name, arguments)
        notice = vars(memory).pop("notice", "")  # what the first answer says besides
        structured = name in self._structured and not is_error and not isinstance(payload, str)
        structure = (
            json.loads(_text(payload)) | ({"notice": notice} if notice else {})
            if structured
            else None
        )
        return [_text(words or payload), *([notice] if notice else [])], structure, is_error

    def _opened(self) -> Memory:
        if self._memory is None:
            self._memory = self._open_memory()
        return self._memory

    async def _answer(self, future: Future[Asked], what: str) -> Asked:
        """Wait for an answer; if cancelled, a call that has not started never starts. A defect is reported."""
        outcome: Any = (await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True))[
            0
        ]
        if not isinstance(outcome, BaseException):
            answer: Asked = outcome
            return answer
        if isinstance(outcome, FilememError):
            raise outcome
        if isinstance(outcome, OSError):
            raise refused(outcome)
        with suppress(OSError):  # a full disk must not turn the report into the answer
            self.on_crash(what, outcome)
        raise FilememError(*_DEFECT)


def _text(payload: Payload) -> str:
    return (
        payload.encode("utf-8", "replace").decode("utf-8")
        if isinstance(payload, str)
        else dump(payload)
    )


def _always(result: Any) -> Callable[..., Awaitable[Any]]:
    """A handler that returns a list that never changes."""

    async def answer(*_: object) -> Any:
        return result

    return answer


# Method that asks for a list -> the handler's name, and the type of the list.
_LISTS: Mapping[str, tuple[str, Any]] = {
    "tools/list": ("on_list_tools", types.ListToolsResult),
    "resources/list": ("on_list_resources", types.ListResourcesResult),
    "resources/templates/list": ("on_list_resource_templates", types.ListResourceTemplatesResult),
    "prompts/list": ("on_list_prompts", types.ListPromptsResult),
}


class FilememServer(Server[Any]):
    """The SDK's server, with what it cannot derive from its handlers: resources and prompts of a dialect's tables."""

    def __init__(self, dialect: Dialect, calls: Calls, version: str) -> None:
        self.dialect, self.calls, self._running = dialect, calls, False
        handlers: dict[str, Any] = {"on_call_tool": self._call_tool}
        for method, listed in lists(dialect).items():
            name, kind = _LISTS[method]
            handlers[name] = _always(kind.model_validate(listed))
        if self.dialect.resources:
            handlers["on_read_resource"] = self.read_resource
        if self.dialect.prompts:
            handlers["on_get_prompt"] = self.get_prompt
        named: Any = server(self.dialect, version)
        told = self.dialect.instructions or None
        super().__init__(**named, instructions=told, lifespan=self._lifespan, **handlers)

    async def _call_tool(
        self, _: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await self.calls.run(params.name, params.arguments or {})

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Close the memory at the end; several transports share one memory."""
        first, self._running = not self._running, True
        try:
            yield
        finally:
            if first:
                with anyio.CancelScope(shield=True):
                    await self.calls.close(CLOSING)

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read the resource of an address."""
        uri, modern = str(params.uri), context.protocol_version in MODERN_PROTOCOL_VERSIONS
        missing = INVALID_PARAMS if modern else _MISSING
        one, arguments = self._named(uri, missing)
        try:
            text = await self.calls.read(one.tool, arguments)
        except FilememError as error:
            told = f"{error.message} ({error.hint})" if error.hint else error.message
            code = missing if isinstance(error, BadInput | NotFound) else INTERNAL_ERROR
            raise MCPError(code, told, {"uri": uri[:_SHOWN]}) from None
        content = types.TextResourceContents(uri=uri, mime_type=one.mime, text=text)
        return types.ReadResourceResult(contents=[content])

    def _named(self, uri: str, missing: int) -> tuple[Resource, Mapping[str, object]]:
        for one in self.dialect.resources:
            before, brace, rest = one.uri.partition("{")
            if uri == one.uri and not brace:
                return one, {}
            variable, _, after = rest.partition("}")
            value = uri.removeprefix(before).removesuffix(after)
            if brace and value and uri == before + value + after:
                return one, {variable: unquote(value)}
        known = ", ".join(one.uri for one in self.dialect.resources)
        raise MCPError(
            missing, f"no resource {uri[:_SHOWN]}; there are {known}", {"uri": uri[:_SHOWN]}
        )

    async def get_prompt(
        self, _: _Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Fill in a prompt."""
        prompts = {one.name: one for one in self.dialect.prompts}
        one = prompts.get(params.name)
        if one is None:
            raise MCPError(
                INVALID_PARAMS, f"no prompt {params.name[:64]!r}: {suggest(params.name, prompts)}"
            )
        given = {name: value for name, value in (params.arguments or {}).items() if value.strip()}
        names = {argument.name: argument.usual for argument in one.arguments}
        for argument in one.arguments:
            if argument.required and argument.name not in given:
                raise MCPError(
                    INVALID_PARAMS, f"{argument.name} is required: {argument.description}"
                )
        content = types.TextContent(text=one.text.format(**names | given))
        return types.GetPromptResult(
            description=one.description,
            messages=[types.PromptMessage(role="user", content=content)],
        )
