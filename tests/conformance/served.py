"""A server over our own transport and tables that holds what the suite asks for by name, as far as we can offer it.

The suite's scenarios call tools, resources and prompts of fixed names. Run as a script it serves HTTP on a free port.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from filemem.dialects.parameter import TEXT, build_schema, build_text
from filemem.dialects.tool import (
    Argument,
    Dialect,
    Prompt,
    Resource,
    Tool,
    build_failure,
)
from filemem.errors import BadInput
from filemem.server import http, serve_stdio
from tests.surface.server_tools import VERSION, NoSite, open_notebook

Arguments = Mapping[str, Any]


def simple_text(_: object, _arguments: Arguments) -> str:
    return "This is a simple text response for testing."


def error(_: object, _arguments: Arguments) -> str:
    raise BadInput("This tool intentionally returns an error for testing")


def static_text(_: object, _arguments: Arguments) -> str:
    return "This is the content of the static text resource."


def template(_: object, given: Arguments) -> dict[str, object]:
    return {"id": given["id"], "templateTest": True, "data": f"Data for ID: {given['id']}"}


SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": TEXT, "city": TEXT},
        }
    },
    "properties": {
        "name": TEXT,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": TEXT,
        "email": TEXT,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

TOOLS = (
    Tool("test_simple_text", "Answers a text.", build_schema(()), simple_text),
    Tool("test_error_handling", "Fails.", build_schema(()), error),
    Tool("json_schema_2020_12_tool", "Has a schema with all of 2020-12.", SCHEMA_2020, simple_text),
)
HIDDEN = (
    Tool("static_text", "", build_schema(()), static_text),
    Tool("template", "", build_schema([build_text("id", is_required=True)]), template),
)
RESOURCES = (
    Resource("test://static-text", "static text", "A text.", "text/plain", "static_text"),
    Resource(
        "test://template/{id}/data", "template", "Many texts.", "application/json", "template"
    ),
)
PROMPTS = (
    Prompt("test_simple_prompt", "Simple", "A prompt.", (), "This is a simple prompt for testing."),
    Prompt(
        "test_prompt_with_arguments",
        "With arguments",
        "A prompt that is filled in.",
        (Argument("arg1", "first", is_required=True), Argument("arg2", "second", is_required=True)),
        "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
    ),
)
DIALECT = Dialect(
    "conformance", TOOLS, "Say what the suite asks.", build_failure, HIDDEN, RESOURCES, PROMPTS
)


def main() -> None:
    """Serve on a free port, or with --stdio on standard input and output."""
    offer = DIALECT._replace(tools=TOOLS + HIDDEN, listed_tools=TOOLS)
    if "--stdio" in sys.argv:
        serve_stdio(offer, open_notebook, version=VERSION)
        return
    http.serve(offer, open_notebook, VERSION, http.Address(port=0), NoSite())


if __name__ == "__main__":
    main()
