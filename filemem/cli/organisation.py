"""An organisation's service as the command line and the servers ask it, if the user's own settings name one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from filemem import config
from filemem.errors import BadInput
from filemem.org.client import Service

if TYPE_CHECKING:
    from filemem.cli.project import Project
    from filemem.dialects.tool import Advertised, Tool
    from filemem.memory import Memory

_TOLD = "org: what other teams recorded"


def service(project: Project) -> Service:
    """The service that the user's settings name. Raises BadInput: they name none."""
    stated = config.load(project.here)
    if not (stated.org_url and stated.org_token):
        hint = "set FILEMEM_ORG_URL and FILEMEM_ORG_TOKEN, or org_url and org_token in ~/.config/filemem/config.toml"
        raise BadInput("your settings name no service of an organisation", hint, field="org")
    return Service(stated.org_url, stated.org_token)


def offered(project: Project, offer: Advertised) -> Advertised:
    """What a server offers: where a service is named, filemem's own `search` and `get` take the scope `org` too."""
    with suppress(BadInput):  # the first call says what is wrong with the settings
        asked = service(project)
        dialect = offer.dialect._replace(tools=tuple(_scoped(one, asked) for one in offer.dialect.tools))
        return offer._replace(dialect=dialect, tools=tuple(_scoped(one, asked) for one in offer.tools))
    return offer


def _scoped(tool: Tool, asked: Service) -> Tool:
    verb, properties = tool.call.__name__, tool.input_schema["properties"]
    if tool.call.__module__ != "filemem.dialects.native" or verb not in ("search", "get"):
        return tool
    first, *others = properties["scope"]["enum"]
    told = f"{_TOLD}; {properties['scope']['description']}" if "workspace" in others else _TOLD
    scope = {"enum": [first, "org", *others], "description": told}

    def call(memory: Memory, arguments: Mapping[str, Any]) -> Any:
        if arguments.get("scope") != "org":
            return tool.call(memory, arguments)
        return asked.ask(verb, {name: one for name, one in arguments.items() if name != "scope"})

    schema = {**tool.input_schema, "properties": {**properties, "scope": scope}}
    return tool._replace(input_schema=schema, call=call, unlisted=tool.unlisted - {"scope"})
