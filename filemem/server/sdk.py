"""The MCP server proper, on the official SDK: one `Server` for every transport.

Only this package imports mcp. Importing this module costs what the SDK costs; the front does without.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server

from filemem.dialects.profiles import Advertised
from filemem.server import entries
from filemem.server.calls import Answer, Calls
from filemem.server.notices import Notices
from filemem.server.reading import Reading, refuse_cursor
from filemem.server.refusals import explain

CLOSING = 0.5  # seconds for closing the memory
STEP = 0.2  # seconds between two reports of progress

_Context = ServerRequestContext[Any, Any]


class FilememServer(Server[Any]):
    """The SDK's server, told what it cannot derive from its handlers."""

    def __init__(self, offer: Advertised, calls: Calls, version: str) -> None:
        dialect, lists = offer.dialect, entries.lists(offer.tools, offer.dialect)
        self._able = entries.capabilities(dialect)
        self.calls = calls
        self._tools = types.ListToolsResult.model_validate(lists["tools/list"])
        reading = Reading(dialect, calls)
        grows = any(one.listed for one in dialect.resources)
        self.notices = Notices(lambda uri: reading.text(uri) if uri else reading.listing(), grows=grows)
        calls.changed = self.notices.stir
        super().__init__(
            dialect.server,
            version=version,
            title=None if dialect.server == entries.NAME else entries.NAME,
            instructions=dialect.instructions or None,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            **(self._of_resources(lists["resources/templates/list"], reading) if dialect.resources else {}),
            **(self._of_prompts(lists["prompts/list"], reading) if dialect.prompts else {}),
            on_completion=reading.complete if entries.completes(dialect) else None,
        )
        self.middleware.append(explain)
        if dialect.resources:
            self.middleware.append(self._meet)
        self._running = False

    def get_capabilities(
        self, notification_options: NotificationOptions | None = None, *others: Any, **more: Any
    ) -> types.ServerCapabilities:
        """What the server can do; the list of resources changes where the dialect says so."""
        resources: Any = self._able.get("resources", {})
        options = notification_options or NotificationOptions()
        # The transports ask with options of their own, by which nothing ever changes.
        options.resources_changed = options.resources_changed or resources.get("listChanged", False)
        return super().get_capabilities(options, *others, **more)

    async def _list_tools(self, _: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        refuse_cursor(params)
        return self._tools

    async def _call_tool(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with _progress(context, self.calls):
            return _result(await self.calls.run(params.name, params.arguments or {}))

    def _of_resources(self, listed: entries.Entry, reading: Reading) -> dict[str, Any]:
        templates = types.ListResourceTemplatesResult.model_validate(listed)

        async def list_templates(
            _: _Context, params: types.PaginatedRequestParams | None
        ) -> types.ListResourceTemplatesResult:
            refuse_cursor(params)
            return templates

        async def subscribe(context: _Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
            await self.notices.subscribe(context, str(params.uri))
            return types.EmptyResult()

        async def unsubscribe(context: _Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
            await self.notices.unsubscribe(context, str(params.uri))
            return types.EmptyResult()

        return {
            "on_list_resources": reading.list_resources,
            "on_list_resource_templates": list_templates,
            "on_read_resource": reading.read_resource,
            "on_subscribe_resource": subscribe,
            "on_unsubscribe_resource": unsubscribe,
            "on_subscriptions_listen": self.notices.on_listen,
        }

    def _of_prompts(self, listed: entries.Entry, reading: Reading) -> dict[str, Any]:
        prompts = types.ListPromptsResult.model_validate(listed)

        async def list_prompts(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
            refuse_cursor(params)
            return prompts

        return {"on_list_prompts": list_prompts, "on_get_prompt": reading.get_prompt}

    async def _meet(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        await self.notices.meet(ctx)
        return await call_next(ctx)

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Run what tells of changes; at the end close the memory. Several transports share what the first began."""
        if self._running:
            yield
            return
        self._running = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.notices.run)
                yield
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.calls.close(CLOSING)


def build(offer: Advertised, calls: Calls, version: str) -> FilememServer:
    """Make the SDK server of what is offered; it calls through `calls`, which it closes at its end."""
    return FilememServer(offer, calls, version)


@asynccontextmanager
async def _progress(context: _Context, calls: Calls) -> AsyncIterator[None]:
    """While a call runs that asked for it, tell how far the work is that it may wait for."""
    if not (context.meta and context.meta.get("progress_token") is not None):
        yield
        return
    newest: list[tuple[int, int]] = []

    def hear(done: int, total: int) -> None:
        newest[:] = [(done, total)]

    async def tell() -> None:
        told = -1
        while True:
            await anyio.sleep(STEP)
            for done, total in tuple(newest):
                if done > told:  # the protocol wants it to rise
                    await context.session.report_progress(done, total, f"indexing {done} of {total} records")
                    told = done

    calls.progress.add(hear)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            yield
            tasks.cancel_scope.cancel()
    finally:
        calls.progress.discard(hear)


def _result(answer: Answer) -> types.CallToolResult:
    """Word an answer for MCP.

    Failures go as text alone: clients check whatever structure they get against the schema of success.
    """
    result = types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.is_error)
    if answer.structure is not None:
        result.structured_content = answer.structure
    return result
