"""The MCP server on the official SDK: one `Server` for every transport, from a dialect's tables."""

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
from filemem.server.calls import RESOURCE_NOT_FOUND, CallOutcome, CallQueue
from filemem.server.front import build_lists, build_server_info, render_prompt
from filemem.server.wire import INVALID_PARAMS, YES_OR_NO, Refusal, has_agreed

_Context = ServerRequestContext[Any, Any]

CLOSE_SECONDS = 0.5  # seconds for closing the memory


async def _close_memory(calls: CallQueue, seconds: float) -> None:
    """Close the memory after the running call, waiting at most `seconds`."""
    future = calls.close()
    with suppress(TimeoutError, FilememError):
        await asyncio.wait_for(_wait_for_future(future), seconds)
        calls.require_result(future, "close")


async def _wait_for_future(future: Future[Any]) -> None:
    """Wait for an answer; if cancelled, a call that has not started never starts."""
    await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True)


def _build_constant_handler(result: Any) -> Callable[..., Awaitable[Any]]:
    """Build a handler that returns a constant list."""

    async def answer(*_: object) -> Any:
        return result

    return answer


# The handler's name and the type of the list, by method.
_LISTS: Mapping[str, tuple[str, Any]] = {
    "tools/list": ("on_list_tools", types.ListToolsResult),
    "resources/list": ("on_list_resources", types.ListResourcesResult),
    "resources/templates/list": ("on_list_resource_templates", types.ListResourceTemplatesResult),
    "prompts/list": ("on_list_prompts", types.ListPromptsResult),
}


class FilememServer(Server[Any]):
    """The SDK's server with the tools, resources and prompts of a dialect."""

    def __init__(self, dialect: Dialect, calls: CallQueue, version: str) -> None:
        self.dialect = dialect
        self.calls = calls
        self._is_running = False
        handlers: dict[str, Any] = {"on_call_tool": self._call_tool}
        for method, entry in build_lists(dialect).items():
            name, kind = _LISTS[method]
            handlers[name] = _build_constant_handler(kind.model_validate(entry))
        if self.dialect.resources:
            handlers["on_read_resource"] = self.read_resource
        if self.dialect.prompts:
            handlers["on_get_prompt"] = self.get_prompt
            handlers["on_completion"] = self.complete
        info: Any = build_server_info(self.dialect, version)
        instructions = self.dialect.instructions or None
        super().__init__(**info, instructions=instructions, lifespan=self._lifespan, **handlers)

    async def _call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        arguments = params.arguments or {}
        outcome = await self._run_call(params.name, arguments, can_ask=_can_ask(context))
        question = outcome.question
        if question:
            # The client sends the whole call again with its reply; the server keeps no state.
            key = f"filemem-{zlib.crc32(question.text.encode())}"
            reply = (params.input_responses or {}).get(key)
            if reply is None:
                return types.InputRequiredResult(input_requests={key: _build_form(question.text)})
            if has_agreed(reply.model_dump()):
                new_arguments = {**arguments, **question.added_arguments}
                outcome = await self._run_call(params.name, new_arguments, can_ask=False)
        return types.CallToolResult.model_validate(outcome.result)

    async def _run_call(
        self, name: str, arguments: Mapping[str, object], *, can_ask: bool
    ) -> CallOutcome:
        future = self.calls.submit_call(name, arguments, can_ask=can_ask)
        await _wait_for_future(future)
        return self.calls.build_outcome(future, name)

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Close the memory at the end; several transports share one memory."""
        is_first = not self._is_running
        self._is_running = True
        try:
            yield
        finally:
            if is_first:
                with anyio.CancelScope(shield=True):
                    await _close_memory(self.calls, CLOSE_SECONDS)

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read the resource of an address."""
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        future = self.calls.submit_read(params.uri)
        await _wait_for_future(future)
        missing_code = INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
        content = self.calls.build_content(future, params.uri, missing_code)
        return types.ReadResourceResult.model_validate(_require_result(content))

    async def complete(
        self, _: _Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete an argument."""
        name = params.argument.name
        future = self.calls.submit_completion(name, params.argument.value)
        await _wait_for_future(future)
        content = self.calls.build_content(future, name)
        return types.CompleteResult.model_validate(_require_result(content))

    async def get_prompt(
        self, _: _Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Fill in a prompt."""
        text = render_prompt(self.dialect, params.name, params.arguments or {})
        return types.GetPromptResult.model_validate(_require_result(text))


def _can_ask(context: _Context) -> bool:
    """Return whether the client asks its user our questions, and then sends the call again."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    capabilities = context.session.client_capabilities
    if not capabilities or not capabilities.elicitation:
        return False
    return bool(capabilities.elicitation.form)


def _build_form(text: str) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(message=text, requested_schema=dict(YES_OR_NO))
    return types.ElicitRequest(params=params)


def _require_result(result: dict[str, object] | Refusal) -> dict[str, object]:
    """Return a result. Raises MCPError for a refusal."""
    if isinstance(result, Refusal):
        raise MCPError(result.code, result.message, result.data)
    return result
