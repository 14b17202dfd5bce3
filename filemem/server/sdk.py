"""The MCP server proper, on the official SDK: one `Server` for every transport, fed from a dialect's tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from filemem.dialects.call import perform
from filemem.dialects.tool import Dialect, Resource
from filemem.errors import BadInput, FilememError, NotFound, suggest
from filemem.server.calls import Calls, text_of
from filemem.server.front import lists, server
from filemem.server.wire import INTERNAL_ERROR, INVALID_PARAMS

_Context = ServerRequestContext[Any, Any]

CLOSING = 0.5  # seconds for closing the memory
_SHOWN = 200  # characters of an address in a message
_MISSING = -32002  # "resource not found" of the handshake protocols; later ones say invalid params


async def _read(calls: Calls, tool: str, arguments: Mapping[str, object]) -> str:
    """The answer of a tool as text. Raises FilememError, also if the memory cannot be opened, or for a defect."""
    future = calls.ask(lambda memory: perform(calls.dialect, memory, tool, arguments))
    await _settled(future)
    return text_of(calls.outcome(future, "a request"))


async def _close(calls: Calls, seconds: float) -> None:
    """Close the memory after the running call, waiting at most `seconds`."""
    closing = calls.close()
    with suppress(TimeoutError, FilememError):
        await asyncio.wait_for(_settled(closing), seconds)
        calls.outcome(closing, "close")


async def _settled(future: Future[Any]) -> None:
    """Wait for an answer; if cancelled, a call that has not started never starts."""
    await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True)


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
        future = self.calls.begin(params.name, params.arguments or {})
        await _settled(future)
        return types.CallToolResult.model_validate(self.calls.result(future, params.name))

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Close the memory at the end; several transports share one memory."""
        first, self._running = not self._running, True
        try:
            yield
        finally:
            if first:
                with anyio.CancelScope(shield=True):
                    await _close(self.calls, CLOSING)

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read the resource of an address."""
        uri, modern = str(params.uri), context.protocol_version in MODERN_PROTOCOL_VERSIONS
        missing = INVALID_PARAMS if modern else _MISSING
        one, arguments = self._named(uri, missing)
        try:
            text = await _read(self.calls, one.tool, arguments)
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
