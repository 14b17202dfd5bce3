"""Arguments in the shapes that models send, brought into the shape that a tool takes. Pure.

One rule a shape: lists become a Markdown list where text is taken, text is one item where a list is
taken and an object one item of a list of objects, text that is JSON of the kind that is taken is
read, and a count above its maximum becomes the maximum, with a note. What stays wrong is refused
with an example.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

Schema = Mapping[str, Any]
_NUMBERS = frozenset({"integer", "number"})  # 5.0 is whole too
_TYPES: Mapping[type, frozenset[str]] = {
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    bool: frozenset({"boolean"}),
    int: _NUMBERS,
    float: _NUMBERS,
}
_OBJECTS = {"type": "object"}
_ITEM_PREFIX = "- "  # before each of several texts that become one: a list in Markdown
_PREFIXES = {"query": ""}  # wordings of one question
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
    """The arguments with each value in the shape of its property, where a rule says how."""
    return {
        name: _fit_value(properties.get(name, {}), value, _PREFIXES.get(name, _ITEM_PREFIX))
        for name, value in arguments.items()
    }


def limit_counts(
    properties: Mapping[str, Schema], arguments: dict[str, object]
) -> tuple[dict[str, object], str]:
    """The arguments with counts of at most their maximum, and a note of what was above it."""
    lowered_counts: dict[str, object] = {}
    for name, value in arguments.items():
        maximum = properties.get(name, {}).get("maximum")
        # An offset that is changed would show another page.
        is_count = properties.get(name, {}).get("type") == "integer" and name != "offset"
        if is_count and maximum is not None and isinstance(value, int | float) and value > maximum:
            lowered_counts[name] = maximum
    note = "; ".join(
        f"{name} {arguments[name]} is above the maximum: {most} is used"
        for name, most in lowered_counts.items()
    )
    return arguments | lowered_counts, note


def format_example(name: str, schema: Schema) -> str:
    """An argument as a tool takes it; "" where the schema says nothing or names all choices."""
    kinds = _list_types(schema)
    if "enum" in schema or not kinds:
        return ""
    example_value = schema.get("default", _NAMED_EXAMPLES.get(name, _EXAMPLES[kinds[0]]))
    return f"for example {json.dumps({name: example_value})}; "


def _fit_value(schema: Schema, value: object, prefix: str) -> object:
    kinds = _list_types(schema)
    if schema.get("items") == _OBJECTS:
        parsed_value = _parse_json(value, ["array", "object"]) if isinstance(value, str) else value
        return [parsed_value] if isinstance(parsed_value, dict) else parsed_value
    if isinstance(value, list):
        return _join_texts(value, prefix) if kinds == ["string"] else value
    if not isinstance(value, str) or kinds == ["string"]:
        return value
    parsed_value = _parse_json(value, kinds)
    return [value] if kinds == ["array"] and parsed_value is value else parsed_value


def _join_texts(items: list[Any], prefix: str) -> object:
    """Several texts as one; what is no list of texts stays."""
    if not items or not _is_text_list(items):
        return items
    return items[0] if len(items) == 1 else "\n".join(prefix + item for item in items)


def _parse_json(text: str, kinds: list[str]) -> object:
    """Text that is JSON of one of the kinds, read; else the text itself."""
    try:
        value = json.loads(
            text.lower() if kinds == ["boolean"] else text, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        return text
    if kinds == ["string", "array"]:
        return value if _is_text_list(value) else text
    matching_types = _TYPES.get(type(value), frozenset()) & set(kinds)
    return value if matching_types and "string" not in kinds else text


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _list_types(schema: Schema) -> list[str]:
    """The types of JSON Schema that a property takes; those that can be chosen from are text."""
    if "enum" in schema:
        return ["string"]
    kinds = [kind for part in schema.get("anyOf", ()) for kind in _list_types(part)]
    return kinds or ([schema["type"]] if "type" in schema else [])


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
