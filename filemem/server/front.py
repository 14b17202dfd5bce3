"""The front of a stdio server: answers the handshake, lists and prompts, and says what is a call.

All it needs is data. It answers what the SDK would answer, and passes over members that an answer
does not need, such as a progress token. As in the SDK, the first request decides the era of a
connection: after a handshake everything is answered here or by the calls. What opens the newer
protocol is handed over to the SDK; both use the same lists. No mcp, pydantic, asyncio or numpy
here: most servers are started, listed, and never called, and a client that waits a second for the
list begins its first turn without our tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from filemem.dialects.tool import Dialect, Prompt, Resource, Tool
from filemem.hints import suggest
from filemem.server.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_METHOD,
    Message,
    Refusal,
    is_text,
)

# As in mcp_types.version; a test compares them.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_STATELESS = "io.modelcontextprotocol/protocolVersion"  # in `_meta` from 2026-07-28 on
# In the SDK's words.
_WRONG = Refusal(INVALID_PARAMS, "Invalid request parameters", data="")
_OTHER_ERA = Refusal(
    INVALID_REQUEST,
    "this connection serves the handshake protocol era; "
    "requests carrying the 2026-07-28 envelope are not accepted on it",
)

Entry = dict[str, object]
NAME = "filemem"


def capabilities(dialect: Dialect) -> Entry:
    """The capabilities in the handshake of a dialect's server."""
    able: Entry = {"tools": {"listChanged": False}}
    if dialect.resources:
        able["resources"] = {"subscribe": False, "listChanged": False}
    if dialect.prompts:
        able["prompts"] = {"listChanged": False}
        able["completions"] = {}
    return able


def server(dialect: Dialect, version: str) -> Entry:
    """The server's info: the name that the dialect's users know, with ours as the title."""
    info: Entry = {"name": dialect.server, "version": version}
    return info if dialect.server == NAME else {**info, "title": NAME}


def tool(definition: Tool) -> Entry:
    """One tool as `tools/list` shows it."""
    entry: Entry = {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": _schema(definition),
    }
    if definition.title:
        entry["title"] = definition.title
    if definition.annotations:
        entry["annotations"] = dict(definition.annotations)
    return entry


def _schema(definition: Tool) -> Entry:
    """The schema of a tool's input, as the list shows it."""
    schema = dict(definition.input_schema)
    if definition.unlisted:
        # They are taken all the same, so the list does not say that it is whole.
        schema.pop("additionalProperties", None)
        schema["properties"] = {
            name: shape
            for name, shape in schema["properties"].items()
            if name not in definition.unlisted
        }
    return schema


def _resource(definition: Resource, where: str = "uri") -> Entry:
    """One resource or resource template, as its list shows it."""
    return {
        "name": definition.name,
        where: definition.uri,
        "description": definition.description,
        "mimeType": definition.mime,
    }


def _prompt(definition: Prompt) -> Entry:
    arguments = [
        {"name": argument.name, "description": argument.description, "required": argument.required}
        for argument in definition.arguments
    ]
    return {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "arguments": arguments,
    }


def lists(dialect: Dialect) -> Mapping[str, Entry]:
    """The lists, which never change, by the method that asks for them."""
    entries: dict[str, Entry] = {"tools/list": {"tools": [*map(tool, dialect.listed)]}}
    if dialect.resources:
        resources = [_resource(row) for row in dialect.resources if "{" not in row.uri]
        templates = [_resource(row, "uriTemplate") for row in dialect.resources if "{" in row.uri]
        entries["resources/list"] = {"resources": resources}
        entries["resources/templates/list"] = {"resourceTemplates": templates}
    if dialect.prompts:
        entries["prompts/list"] = {"prompts": [*map(_prompt, dialect.prompts)]}
    return entries


def prompt(dialect: Dialect, name: str, arguments: Mapping[str, str]) -> Entry | Refusal:
    """Fill in a prompt, as `prompts/get` answers it."""
    prompts = {entry.name: entry for entry in dialect.prompts}
    if name not in prompts:
        return Refusal(INVALID_PARAMS, f"no prompt {name[:64]!r}: {suggest(name, prompts)}")
    chosen = prompts[name]
    values = {argument.name: argument.usual for argument in chosen.arguments}
    values |= {name: value for name, value in arguments.items() if value.strip()}
    for argument in chosen.arguments:
        if argument.required and not values[argument.name]:
            return Refusal(INVALID_PARAMS, f"{argument.name} is required: {argument.description}")
    content = {"text": chosen.text.format(**values), "type": "text"}
    return {
        "description": chosen.description,
        "messages": [{"content": content, "role": "user"}],
    }


class Turn(Enum):
    """What to do if there is no reply to send."""

    NOTHING = "nothing"
    HAND_OVER = "hand over"
    CALL = "call"
    READ = "read"
    COMPLETE = "complete"
    CANCEL = "cancel"
    REPLY = "reply"
    ROOTS = "roots"


# What the connection does for a request, and the parameter that says for which thing.
_TURNS: Mapping[str, Turn] = {"tools/call": Turn.CALL, "resources/read": Turn.READ}
_NAMES: Mapping[str, str] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ARGUMENT = ("name", "value")  # of an argument to complete
# What the client notifies of.
_NOTICES: Mapping[object, Turn] = {
    "notifications/cancelled": Turn.CANCEL,
    "notifications/roots/list_changed": Turn.ROOTS,
}


class Front:
    """The state of one connection: in the newer protocol until it is handed over."""

    def __init__(self, offer: Dialect, version: str) -> None:
        self.offer = offer
        self.version = version
        self._lists = {**lists(offer), "ping": {}}
        self.greeted = False
        self.roots = False
        """Whether the client says what its roots are."""
        self.asks = False
        """Whether it asks its user what we ask."""

    def answer(self, message: Message) -> Message | Turn:
        """Handle one message; return the reply, or what else to do."""
        if "method" not in message:
            return Turn.REPLY
        method = str(message["method"])
        if "id" not in message:
            return _NOTICES.get(method, Turn.NOTHING)
        params: Any = message.get("params") or {}
        result = self._request(method, params)
        if isinstance(result, Turn):
            return result
        id_: Any = message["id"]
        if isinstance(result, Refusal):
            return result._replace(id=id_).reply()
        return {"jsonrpc": "2.0", "id": id_, "result": result}

    def _request(self, method: str, params: Mapping[str, Any]) -> Entry | Refusal | Turn:
        if method == "initialize":
            return self._initialize(params)
        meta = params.get("_meta")
        if isinstance(meta, dict) and _STATELESS in meta:
            return _OTHER_ERA if self.greeted else Turn.HAND_OVER
        return self._lists[method] if method in self._lists else self._served(method, params)

    def _served(self, method: str, params: Mapping[str, Any]) -> Entry | Refusal | Turn:
        if method == "completion/complete" and self.offer.prompts:
            return self._completion(params)
        if method not in _NAMES or f"{method.partition('/')[0]}/list" not in self._lists:
            return Refusal(NO_METHOD, "Method not found", data=method)
        if not (self.greeted and _fits(method, params)):
            return _WRONG
        if method == "prompts/get":
            return prompt(self.offer, params["name"], params.get("arguments") or {})
        return _TURNS[method]

    def _completion(self, params: Mapping[str, Any]) -> Refusal | Turn:
        return Turn.COMPLETE if self.greeted and _completes(params) else _WRONG

    def _initialize(self, params: Mapping[str, Any]) -> Entry | Refusal:
        if not _is_client(params):
            return _WRONG
        self.greeted = True
        able = params["capabilities"]
        self.roots = isinstance(able.get("roots"), dict)
        asking = able.get("elicitation")
        # Before 2025-11-25 there were forms alone, and nothing named them.
        self.asks = isinstance(asking, dict) and (not asking or "form" in asking)
        wanted = params["protocolVersion"]
        result: dict[str, object] = {
            "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "capabilities": capabilities(self.offer),
            "serverInfo": server(self.offer, self.version),
        }
        if self.offer.instructions:
            result["instructions"] = self.offer.instructions
        return result


def _is_client(params: Mapping[str, Any]) -> bool:
    """Whether `initialize` has its three required parameters."""
    client = params.get("clientInfo")
    return (
        is_text(params.get("protocolVersion"))
        and isinstance(params.get("capabilities"), dict)
        and isinstance(client, dict)
        and all(is_text(client.get(name)) for name in ("name", "version"))
    )


def _fits(method: str, params: Mapping[str, Any]) -> bool:
    """Whether a request has what the protocol says."""
    arguments = params.get("arguments")
    if not isinstance(arguments, dict | None):
        return False
    texts = [params.get(_NAMES[method]), *(arguments or ())]
    if method == "prompts/get" and arguments:
        texts += arguments.values()
    meta = params.get("_meta")
    token = meta.get("progressToken", "") if isinstance(meta, dict) else ""
    return (
        all(map(is_text, texts)) and isinstance(meta, dict | None) and isinstance(token, int | str)
    )


def _completes(params: Mapping[str, Any]) -> bool:
    """Whether a request says what argument of what is to be completed."""
    thing = params.get("ref")
    argument = params.get("argument")
    if not (isinstance(thing, dict) and isinstance(argument, dict)):
        return False
    names = {"ref/prompt": "name", "ref/resource": "uri"}
    texts = (thing.get(names.get(str(thing.get("type")), "")), *map(argument.get, _ARGUMENT))
    return all(map(is_text, texts))
