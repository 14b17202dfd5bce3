"""What is offered, as the lists of the protocol show it: pure, standard library only.

The front answers with these, and the SDK is fed with them: so both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from filemem.dialects.profiles import Dialect, Prompt, Resource, Tool

Entry = dict[str, object]
NAME = "filemem"


def capabilities(dialect: Dialect) -> Entry:
    """What the handshake of a dialect's server says that it can do."""
    able: Entry = {"tools": {"listChanged": False}}
    if dialect.resources:
        grows = any(one.listed for one in dialect.resources)
        able["resources"] = {"subscribe": True, "listChanged": grows}
    if dialect.prompts:
        able["prompts"] = {"listChanged": False}
    if completes(dialect):
        able["completions"] = {}
    return able


def server(dialect: Dialect, version: str) -> Entry:
    """Who answers: under the name that the dialect's users know, with ours as the title."""
    named: Entry = {"name": dialect.server, "version": version}
    return named if dialect.server == NAME else {**named, "title": NAME}


def completes(dialect: Dialect) -> bool:
    """Whether anything that a user fills in can be completed."""
    of_prompts = (one.complete for prompt in dialect.prompts for one in prompt.arguments)
    return any((*(one.complete for one in dialect.resources), *of_prompts))


def tool(one: Tool) -> Entry:
    """One tool as `tools/list` shows it."""
    return _stated(
        name=one.name,
        title=one.title or None,
        description=one.description,
        inputSchema=one.input_schema,
        outputSchema=one.output_schema,
        annotations=dict(one.annotations) if one.annotations else None,
    )


def resource(one: Resource) -> Entry:
    """One resource as `resources/list` shows it."""
    return {"name": one.name, "uri": one.uri, "description": one.description, "mimeType": one.mime}


def template(one: Resource) -> Entry:
    """One template as `resources/templates/list` shows it."""
    return {"name": one.name, "uriTemplate": one.uri, "description": one.description, "mimeType": one.mime}


def prompt(one: Prompt) -> Entry:
    """One prompt as `prompts/list` shows it."""
    arguments = [{"name": a.name, "description": a.description, "required": a.required} for a in one.arguments]
    return {"name": one.name, "title": one.title, "description": one.description, "arguments": arguments}


def lists(tools: tuple[Tool, ...], dialect: Dialect) -> Mapping[str, Entry]:
    """The lists that are the same for ever, by the method that asks for them."""
    found: dict[str, Entry] = {"tools/list": {"tools": [tool(one) for one in tools]}}
    if dialect.resources:
        templates = [template(one) for one in dialect.resources if one.variable]
        found["resources/templates/list"] = {"resourceTemplates": templates}
    if dialect.prompts:
        found["prompts/list"] = {"prompts": [prompt(one) for one in dialect.prompts]}
    return found


def resources(dialect: Dialect) -> list[Entry]:
    """What `resources/list` shows whatever is stored."""
    return [resource(one) for one in dialect.resources if not one.variable]


def _stated(**values: object) -> Entry:
    return {name: value for name, value in values.items() if value is not None}
