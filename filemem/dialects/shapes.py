"""Bring arguments, as models send them, into the shapes that a tool takes.

- A list of texts becomes a Markdown list if the tool takes text.
- A text becomes a list of one item if the tool takes a list, and an object likewise.
- A text that is JSON of the type that the tool takes is parsed.
- A count above its maximum becomes the maximum, with a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

Schema = Mapping[str, Any]
_NUMBERS = frozenset({"integer", "number"})  # 5.0 is an integer too
_TYPES: Mapping[type, frozenset[str]] = {
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    bool: frozenset({"boolean"}),
    int: _NUMBERS,
    float: _NUMBERS,
}
_OBJECTS = {"type": "object"}
_ITEM_PREFIX = "- "  # of the items of a Markdown list
_PREFIXES = {"query": ""}  # several texts are wordings of one question
_EXAMPLES: Mapping[str, object] = {
    "string": "some text",
    "array": ["some text"],
    "object": {"key": "value"},
    "boolean": True,
    "integer": 10,
    "number": 0.5,
}
_NAMED_EXAMPLES: Mapping[str, object] = {"guards": [{"forbid": "import redis", "in": ["src/**"]}]}


def fit_arguments(
    properties: Mapping[str, Schema], arguments: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments, each in the shape of its property if possible."""
    fitted = {}
    for name, value in arguments.items():
        prefix = _PREFIXES.get(name, _ITEM_PREFIX)
        fitted[name] = _fit_value(properties.get(name, {}), value, prefix)
    return fitted


def limit_counts(
    properties: Mapping[str, Schema], arguments: dict[str, object]
) -> tuple[dict[str, object], str]:
    """Return the arguments with counts lowered to their maximum, and a note of these."""
    limited = dict(arguments)
    notes = []
    for name, value in arguments.items():
        schema = properties.get(name, {})
        maximum = schema.get("maximum")
        # A lowered offset would show another page.
        is_count = schema.get("type") == "integer" and name != "offset"
        if not is_count or maximum is None or not isinstance(value, int | float):
            continue
        if value > maximum:
            limited[name] = maximum
            notes.append(f"{name} {value} is above the maximum: {maximum} is used")
    return limited, "; ".join(notes)


def format_example(name: str, schema: Schema) -> str:
    """Return an example of an argument; "" if the schema has no type or names all choices."""
    kinds = _list_types(schema)
    if "enum" in schema or not kinds:
        return ""
    usual_example = _NAMED_EXAMPLES.get(name, _EXAMPLES[kinds[0]])
    example = {name: schema.get("default", usual_example)}
    return f"for example {json.dumps(example)}; "


def _fit_value(schema: Schema, value: object, prefix: str) -> object:
    if schema.get("items") == _OBJECTS:
        return _fit_objects(value)
    kinds = _list_types(schema)
    if isinstance(value, list) and kinds == ["string"]:
        return _join_texts(value, prefix)
    if not isinstance(value, str) or kinds == ["string"]:
        return value
    parsed_value = _parse_json(value, kinds)
    if parsed_value is value and kinds == ["array"]:
        return [value]
    return parsed_value


def _fit_objects(value: object) -> object:
    """Return a value as a list of objects if it is one object, or such a list, or JSON of these."""
    if isinstance(value, str):
        value = _parse_json(value, ["array", "object"])
    if isinstance(value, dict):
        return [value]
    return value


def _join_texts(items: list[Any], prefix: str) -> object:
    """Return several texts as one; any other list as it is."""
    if not items or not _is_text_list(items):
        return items
    if len(items) == 1:
        return items[0]
    return "\n".join(f"{prefix}{item}" for item in items)


def _parse_json(text: str, kinds: list[str]) -> object:
    """Return what a text says as JSON if it is of one of the types; else the text."""
    json_text = text.lower() if kinds == ["boolean"] else text
    try:
        value = json.loads(json_text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    if kinds == ["string", "array"]:
        return value if _is_text_list(value) else text
    value_types = _TYPES.get(type(value), frozenset())
    if "string" in kinds or value_types.isdisjoint(kinds):
        return text
    return value


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _list_types(schema: Schema) -> list[str]:
    """Return the types of JSON Schema that a property takes; choices are text."""
    if "enum" in schema:
        return ["string"]
    kinds: list[str] = []
    for part in schema.get("anyOf", ()):
        kinds += _list_types(part)
    if not kinds and "type" in schema:
        kinds.append(schema["type"])
    return kinds


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
