"""The requests of the protocol besides tools: resources, prompts and completions, from a dialect's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from filemem.dialects.calling import check_values
from filemem.dialects.profiles import Call, Dialect, Prompt, Resource, suggest
from filemem.errors import BadInput, FilememError, NotFound
from filemem.server import entries
from filemem.server.calls import Calls
from filemem.server.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, dump

LISTED = 100  # resources of one template that are listed; all can be completed and read
_SHOWN = 200  # characters of an address in a message
_MISSING = -32002  # "resource not found" of the handshake protocols; later ones say invalid params

_Context = ServerRequestContext[Any, Any]


class Reading:
    """Answers requests from a dialect's tables and the memory behind `calls`."""

    def __init__(self, dialect: Dialect, calls: Calls) -> None:
        self._dialect = dialect
        self._calls = calls
        self._prompts = {one.name: one for one in dialect.prompts}

    async def list_resources(
        self, _: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List what there always is; once the memory is open, what it knows for templates that are listed too."""
        refuse_cursor(params)
        return types.ListResourcesResult.model_validate({"resources": await self._resources()})

    async def listing(self) -> str:
        """The list of resources as one text, to see whether it changed."""
        return dump(await self._resources())

    async def _resources(self) -> list[entries.Entry]:
        found = entries.resources(self._dialect)
        for one in self._dialect.resources if self._calls.is_open else ():
            if one.listed and one.complete is not None:
                before, after = one.around
                for value in (await self._completed(one.complete, ""))[0][:LISTED]:
                    shown = one._replace(uri=before + quote(value, safe="") + after, name=value)
                    found.append(entries.resource(shown))
        return found

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read what an address names."""
        uri, missing = str(params.uri), missing_code(context)
        one, arguments = self._named(uri, missing)
        try:
            text = await self._calls.read(one.tool, arguments)
        except FilememError as error:
            absent = isinstance(error, NotFound | BadInput)
            raise MCPError(missing if absent else INTERNAL_ERROR, _sentence(error), {"uri": uri[:_SHOWN]}) from None
        content = types.TextResourceContents(uri=uri, mime_type=one.mime, text=text)
        return types.ReadResourceResult(contents=[content])

    async def text(self, uri: str) -> str:
        """The text behind an address; "" where nothing has it yet.

        Raises:
            MCPError: nothing can ever have it, or the memory cannot be asked.
        """
        one, arguments = self._named(uri, INVALID_PARAMS)
        try:
            return await self._calls.read(one.tool, arguments)
        except NotFound:
            return ""
        except FilememError as error:
            raise MCPError(INTERNAL_ERROR, _sentence(error)) from None

    def _named(self, uri: str, missing: int) -> tuple[Resource, Mapping[str, object]]:
        for one in self._dialect.resources:
            before, after = one.around
            if uri == one.uri and not one.variable:
                return one, {}
            value = uri.removeprefix(before).removesuffix(after)
            if one.variable and value and uri == before + value + after:
                return one, {one.variable: unquote(value)}
        known = ", ".join(one.uri for one in self._dialect.resources)
        raise MCPError(missing, f"no resource {uri[:_SHOWN]}; there are {known}", {"uri": uri[:_SHOWN]})

    async def get_prompt(self, _: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Word a prompt."""
        one = self._prompts.get(params.name)
        if one is None:
            raise MCPError(INVALID_PARAMS, f"no prompt {params.name[:64]!r}: {suggest(params.name, self._prompts)}")
        given = {name: value for name, value in (params.arguments or {}).items() if value.strip()}
        _check(one, given)
        text = await self._ask(one.call, given)
        message = types.PromptMessage(role="user", content=types.TextContent(text=str(text)))
        return types.GetPromptResult(description=one.description, messages=[message])

    async def complete(self, _: _Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Complete what a user types for a template or a prompt."""
        call = self._completer(params.ref, params.argument.name)
        values, total = await self._completed(call, params.argument.value) if call else ([], 0)
        completion = types.Completion(values=values, total=total, has_more=total > len(values))
        return types.CompleteResult(completion=completion)

    def _completer(self, ref: types.ResourceTemplateReference | types.PromptReference, name: str) -> Call | None:
        known: dict[str, Call | None]
        if isinstance(ref, types.PromptReference):
            prompt = self._prompts.get(ref.name)
            known = {one.name: one.complete for one in prompt.arguments} if prompt else {}
            told = f"prompt {ref.name[:64]!r}"
        else:
            known = {one.variable: one.complete for one in self._dialect.resources if one.uri == ref.uri}
            told = f"resource template {ref.uri[:_SHOWN]}"
        if name not in known:
            raise MCPError(INVALID_PARAMS, f"there is no {told} with an argument {name[:64]!r}")
        return known[name]

    async def _completed(self, call: Call, value: str) -> tuple[list[str], int]:
        found: Any = await self._ask(call, {"value": value})
        return found["values"], found["total"]

    async def _ask(self, call: Call, arguments: Mapping[str, object]) -> object:
        try:
            check_values(arguments)
            return await self._calls.reply(lambda memory: call(memory, arguments))
        except FilememError as error:
            code = INVALID_PARAMS if isinstance(error, BadInput | NotFound) else INTERNAL_ERROR
            raise MCPError(code, _sentence(error)) from None


def missing_code(context: _Context) -> int:
    """The code for a resource that is not there, in the client's protocol."""
    return INVALID_PARAMS if context.protocol_version in MODERN_PROTOCOL_VERSIONS else _MISSING


def refuse_cursor(params: types.PaginatedRequestParams | None) -> None:
    """Refuse a cursor: no list here has a second page.

    Raises:
        MCPError: there is one.
    """
    if params is not None and params.cursor is not None:
        raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")


def _check(prompt: Prompt, given: Mapping[str, object]) -> None:
    names = [one.name for one in prompt.arguments]
    for name in given:
        if name not in names:
            raise MCPError(INVALID_PARAMS, f"{prompt.name} has no argument {name[:64]!r}: {suggest(name, names)}")
    for one in prompt.arguments:
        if one.required and one.name not in given:
            raise MCPError(INVALID_PARAMS, f"{one.name} is required: {one.description}")


def _sentence(error: FilememError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
