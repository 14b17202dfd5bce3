"""The MCP server proper, on the official SDK.

It is one `Server` for every transport, fed from a dialect's tables.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from filemem.dialects.tool import Dialect
from filemem.errors import FilememError
from filemem.server.calls import MISSING, Called, Calls
from filemem.server.front import lists, prompt, server
from filemem.server.wire import INVALID_PARAMS, YES_OR_NO, Refusal, agrees

_Context = ServerRequestContext[Any, Any]

CLOSING = 0.5  # seconds for closing the memory


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
    """The SDK's server, with what it cannot derive from its handlers.

    That is the resources and prompts of a dialect's tables.
    """

    def __init__(self, dialect: Dialect, calls: Calls, version: str) -> None:
        self.dialect = dialect
        self.calls = calls
        self._running = False
        handlers: dict[str, Any] = {"on_call_tool": self._call_tool}
        for method, listed in lists(dialect).items():
            name, kind = _LISTS[method]
            handlers[name] = _always(kind.model_validate(listed))
        if self.dialect.resources:
            handlers["on_read_resource"] = self.read_resource
        if self.dialect.prompts:
            handlers["on_get_prompt"] = self.get_prompt
            handlers["on_completion"] = self.complete
        named: Any = server(self.dialect, version)
        instructions = self.dialect.instructions or None
        super().__init__(**named, instructions=instructions, lifespan=self._lifespan, **handlers)

    async def _call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        arguments = params.arguments or {}
        called = await self._called(params.name, arguments, asks=_asks(context))
        question = called.question
        if question:
            # The client sends the whole call again with its reply, and nothing is kept meanwhile.
            key = f"filemem-{zlib.crc32(question.text.encode())}"
            reply = (params.input_responses or {}).get(key)
            if reply is None:
                return types.InputRequiredResult(input_requests={key: _form(question.text)})
            if agrees(reply.model_dump()):
                granted = {**arguments, **question.granted}
                called = await self._called(params.name, granted, asks=False)
        return types.CallToolResult.model_validate(called.result)

    async def _called(self, name: str, arguments: Mapping[str, object], *, asks: bool) -> Called:
        future = self.calls.begin(name, arguments, asks=asks)
        await _settled(future)
        return self.calls.called(future, name)

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Close the memory at the end; several transports share one memory."""
        first = not self._running
        self._running = True
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
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        future = self.calls.read(params.uri)
        await _settled(future)
        missing = INVALID_PARAMS if modern else MISSING
        content = self.calls.content(future, params.uri, missing)
        return types.ReadResourceResult.model_validate(_unrefused(content))

    async def complete(
        self, _: _Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete an argument."""
        name = params.argument.name
        future = self.calls.complete(name, params.argument.value)
        await _settled(future)
        return types.CompleteResult.model_validate(_unrefused(self.calls.content(future, name)))

    async def get_prompt(
        self, _: _Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Fill in a prompt."""
        text = prompt(self.dialect, params.name, params.arguments or {})
        return types.GetPromptResult.model_validate(_unrefused(text))


def _asks(context: _Context) -> bool:
    """Whether the client asks its user what we ask, and then sends the call again."""
    able = context.session.client_capabilities
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and bool(able and able.elicitation and able.elicitation.form)


def _form(text: str) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(message=text, requested_schema={**YES_OR_NO})
    return types.ElicitRequest(params=params)


def _unrefused(result: dict[str, object] | Refusal) -> dict[str, object]:
    """A result. Raises MCPError for a refusal."""
    if isinstance(result, Refusal):
        raise MCPError(result.code, result.message, result.data)
    return result
