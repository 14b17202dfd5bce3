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
from filemem.hints import suggest_choice
from filemem.server.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Message,
    Refusal,
    is_text,
)

# As in mcp_types.version; a test compares them.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_STATELESS = "io.modelcontextprotocol/protocolVersion"  # in `_meta` from 2026-07-28 on
# In the SDK's words.
_INVALID_PARAMS_REFUSAL = Refusal(INVALID_PARAMS, "Invalid request parameters", data="")
_OTHER_ERA_REFUSAL = Refusal(
    INVALID_REQUEST,
    "this connection serves the handshake protocol era; "
    "requests carrying the 2026-07-28 envelope are not accepted on it",
)

Entry = dict[str, object]
NAME = "filemem"


def build_capabilities(dialect: Dialect) -> Entry:
    """The capabilities in the handshake of a dialect's server."""
    entry: Entry = {"tools": {"listChanged": False}}
    if dialect.resources:
        entry["resources"] = {"subscribe": False, "listChanged": False}
    if dialect.prompts:
        entry["prompts"] = {"listChanged": False}
        entry["completions"] = {}
    return entry


def build_server_info(dialect: Dialect, version: str) -> Entry:
    """The server's info: the name that the dialect's users know, with ours as the title."""
    info: Entry = {"name": dialect.server_name, "version": version}
    return info if dialect.server_name == NAME else {**info, "title": NAME}


def build_tool_entry(definition: Tool) -> Entry:
    """Build the entry of a tool in `tools/list`."""
    entry: Entry = {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": _build_schema(definition),
    }
    if definition.title:
        entry["title"] = definition.title
    if definition.annotations:
        entry["annotations"] = dict(definition.annotations)
    return entry


def _build_schema(definition: Tool) -> Entry:
    """Build the schema of a tool's input, as the list shows it."""
    schema = dict(definition.input_schema)
    if not definition.hidden_parameters:
        return schema
    # Hidden parameters are accepted, so the schema must not forbid them.
    schema.pop("additionalProperties", None)
    properties = dict(schema["properties"])
    for name in definition.hidden_parameters:
        properties.pop(name, None)
    schema["properties"] = properties
    return schema


def _build_resource_entry(definition: Resource, uri_key: str = "uri") -> Entry:
    """Build the entry of a resource or resource template in its list."""
    return {
        "name": definition.name,
        uri_key: definition.uri,
        "description": definition.description,
        "mimeType": definition.mime,
    }


def _build_prompt_entry(definition: Prompt) -> Entry:
    arguments = [
        {
            "name": argument.name,
            "description": argument.description,
            "required": argument.is_required,
        }
        for argument in definition.arguments
    ]
    return {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "arguments": arguments,
    }


def build_lists(dialect: Dialect) -> Mapping[str, Entry]:
    """Build the lists, which never change, by method."""
    tools = [build_tool_entry(tool) for tool in dialect.listed_tools]
    entries: dict[str, Entry] = {"tools/list": {"tools": tools}}
    if dialect.resources:
        resources: list[Entry] = []
        templates: list[Entry] = []
        for resource in dialect.resources:
            if "{" in resource.uri:
                templates.append(_build_resource_entry(resource, "uriTemplate"))
            else:
                resources.append(_build_resource_entry(resource))
        entries["resources/list"] = {"resources": resources}
        entries["resources/templates/list"] = {"resourceTemplates": templates}
    if dialect.prompts:
        prompts = [_build_prompt_entry(prompt) for prompt in dialect.prompts]
        entries["prompts/list"] = {"prompts": prompts}
    return entries


def render_prompt(dialect: Dialect, name: str, arguments: Mapping[str, str]) -> Entry | Refusal:
    """Fill in a prompt, as `prompts/get` answers it."""
    prompts = {entry.name: entry for entry in dialect.prompts}
    definition = prompts.get(name)
    if definition is None:
        hint = suggest_choice(name, prompts)
        return Refusal(INVALID_PARAMS, f"no prompt {name[:64]!r}: {hint}")
    values = {argument.name: argument.default for argument in definition.arguments}
    stated_values = {key: value for key, value in arguments.items() if value.strip()}
    values.update(stated_values)
    for argument in definition.arguments:
        if argument.is_required and not values[argument.name]:
            message = f"{argument.name} is required: {argument.description}"
            return Refusal(INVALID_PARAMS, message)
    text = definition.text.format(**values)
    content = {"text": text, "type": "text"}
    return {
        "description": definition.description,
        "messages": [{"content": content, "role": "user"}],
    }


class Action(Enum):
    """What to do if there is no reply to send."""

    NOTHING = "nothing"
    HAND_OVER = "hand over"
    CALL = "call"
    READ = "read"
    COMPLETE = "complete"
    CANCEL = "cancel"
    REPLY = "reply"
    ROOTS = "roots"


# What the connection does for a request.
_ACTIONS: Mapping[str, Action] = {"tools/call": Action.CALL, "resources/read": Action.READ}
_NAME_FIELDS: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
}
# The field that names a prompt or resource, by the type of the reference.
_REFERENCE_FIELDS: Mapping[str, str] = {"ref/prompt": "name", "ref/resource": "uri"}
_NOTIFICATION_ACTIONS: Mapping[object, Action] = {
    "notifications/cancelled": Action.CANCEL,
    "notifications/roots/list_changed": Action.ROOTS,
}


class RequestHandler:
    """The state of one connection, until it opens the newer protocol and is handed over."""

    def __init__(self, dialect: Dialect, version: str) -> None:
        self.dialect = dialect
        self.version = version
        self._lists = {**build_lists(dialect), "ping": {}}
        self.is_initialized = False
        self.has_roots = False
        """Whether the client answers `roots/list`."""
        self.can_ask = False
        """Whether the client asks its user questions of the server."""

    def answer_message(self, message: Message) -> Message | Action:
        """Handle one message; return the reply, or the action of the connection."""
        if "method" not in message:
            return Action.REPLY
        method = str(message["method"])
        if "id" not in message:
            return _NOTIFICATION_ACTIONS.get(method, Action.NOTHING)
        params: Any = message.get("params") or {}
        result = self._answer_request(method, params)
        if isinstance(result, Action):
            return result
        id_: Any = message["id"]
        if isinstance(result, Refusal):
            return result._replace(id=id_).to_message()
        return {"jsonrpc": "2.0", "id": id_, "result": result}

    def _answer_request(self, method: str, params: Mapping[str, Any]) -> Entry | Refusal | Action:
        if method == "initialize":
            return self._initialize(params)
        meta = params.get("_meta")
        if isinstance(meta, dict) and _STATELESS in meta:
            return _OTHER_ERA_REFUSAL if self.is_initialized else Action.HAND_OVER
        if method in self._lists:
            return self._lists[method]
        return self._route_request(method, params)

    def _route_request(self, method: str, params: Mapping[str, Any]) -> Entry | Refusal | Action:
        if method == "completion/complete" and self.dialect.prompts:
            return self._answer_completion(params)
        list_method = f"{method.partition('/')[0]}/list"
        if method not in _NAME_FIELDS or list_method not in self._lists:
            return Refusal(METHOD_NOT_FOUND, "Method not found", data=method)
        if not self.is_initialized or not _is_well_formed(method, params):
            return _INVALID_PARAMS_REFUSAL
        if method == "prompts/get":
            return render_prompt(self.dialect, params["name"], params.get("arguments") or {})
        return _ACTIONS[method]

    def _answer_completion(self, params: Mapping[str, Any]) -> Refusal | Action:
        if self.is_initialized and _has_completion_target(params):
            return Action.COMPLETE
        return _INVALID_PARAMS_REFUSAL

    def _initialize(self, params: Mapping[str, Any]) -> Entry | Refusal:
        if not _has_client_info(params):
            return _INVALID_PARAMS_REFUSAL
        self.is_initialized = True
        client_capabilities = params["capabilities"]
        self.has_roots = isinstance(client_capabilities.get("roots"), dict)
        elicitation = client_capabilities.get("elicitation")
        # Before 2025-11-25 an empty object meant forms, the only kind.
        self.can_ask = isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)
        version = params["protocolVersion"]
        if version not in HANDSHAKE_VERSIONS:
            version = HANDSHAKE_VERSIONS[-1]
        result: dict[str, object] = {
            "protocolVersion": version,
            "capabilities": build_capabilities(self.dialect),
            "serverInfo": build_server_info(self.dialect, self.version),
        }
        if self.dialect.instructions:
            result["instructions"] = self.dialect.instructions
        return result


def _has_client_info(params: Mapping[str, Any]) -> bool:
    """Return whether `initialize` has its three required parameters."""
    client = params.get("clientInfo")
    if not isinstance(client, dict) or not isinstance(params.get("capabilities"), dict):
        return False
    texts = (params.get("protocolVersion"), client.get("name"), client.get("version"))
    return all(is_text(text) for text in texts)


def _is_well_formed(method: str, params: Mapping[str, Any]) -> bool:
    """Return whether the parameters of a request follow the protocol."""
    arguments = params.get("arguments")
    meta = params.get("_meta")
    if not isinstance(arguments, dict | None) or not isinstance(meta, dict | None):
        return False
    if meta and not isinstance(meta.get("progressToken", ""), int | str):
        return False
    texts = [params.get(_NAME_FIELDS[method])]
    if arguments:
        texts += arguments.keys()
        if method == "prompts/get":
            texts += arguments.values()
    return all(is_text(text) for text in texts)


def _has_completion_target(params: Mapping[str, Any]) -> bool:
    """Return whether a request names the argument to complete."""
    reference = params.get("ref")
    argument = params.get("argument")
    if not isinstance(reference, dict) or not isinstance(argument, dict):
        return False
    name_field = _REFERENCE_FIELDS.get(str(reference.get("type")), "")
    texts = (reference.get(name_field), argument.get("name"), argument.get("value"))
    return all(is_text(text) for text in texts)
