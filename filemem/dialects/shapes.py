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
_ITEM = "- "  # before each of several texts that become one: a list in Markdown
_BEFORE = {"query": ""}  # wordings of one question
_EXAMPLES: Mapping[str, object] = {
    "string": "some text",
    "array": ["some text"],
    "object": {"key": "value"},
    "boolean": True,
    "integer": 10,
    "number": 0.5,
}
_OF_NAME: Mapping[str, object] = {"guards": [{"forbid": "import redis", "in": ["src/**"]}]}


def fitted(properties: Mapping[str, Schema], arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments with each value in the shape of its property, where a rule says how."""
    return {
        name: _fitted(properties.get(name, {}), value, _BEFORE.get(name, _ITEM))
        for name, value in arguments.items()
    }


def limited(
    properties: Mapping[str, Schema], arguments: dict[str, object]
) -> tuple[dict[str, object], str]:
    """The arguments with counts of at most their maximum, and a note of what was above it."""
    changed: dict[str, object] = {}
    for name, value in arguments.items():
        most = properties.get(name, {}).get("maximum")
        # An offset that is changed would show another page.
        counts = properties.get(name, {}).get("type") == "integer" and name != "offset"
        if counts and most is not None and isinstance(value, int | float) and value > most:
            changed[name] = most
    note = "; ".join(
        f"{name} {arguments[name]} is above the maximum: {most} is used"
        for name, most in changed.items()
    )
    return arguments | changed, note


def example(name: str, schema: Schema) -> str:
    """An argument as a tool takes it; "" where the schema says nothing or names all choices."""
    kinds = _kinds(schema)
    if "enum" in schema or not kinds:
        return ""
    usual = schema.get("default", _OF_NAME.get(name, _EXAMPLES[kinds[0]]))
    return f"for example {json.dumps({name: usual})}; "


def _fitted(schema: Schema, value: object, before: str) -> object:
    kinds = _kinds(schema)
    if schema.get("items") == _OBJECTS:
        read = _read(value, ["array", "object"]) if isinstance(value, str) else value
        return [read] if isinstance(read, dict) else read
    if isinstance(value, list):
        return _joined(value, before) if kinds == ["string"] else value
    if not isinstance(value, str) or kinds == ["string"]:
        return value
    read = _read(value, kinds)
    return [value] if kinds == ["array"] and read is value else read


def _joined(items: list[Any], before: str) -> object:
    """Several texts as one; what is no list of texts stays."""
    if not items or not _is_texts(items):
        return items
    return items[0] if len(items) == 1 else "\n".join(before + item for item in items)


def _read(text: str, kinds: list[str]) -> object:
    """Text that is JSON of one of the kinds, read; else the text itself."""
    try:
        value = json.loads(text.lower() if kinds == ["boolean"] else text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    if kinds == ["string", "array"]:
        return value if _is_texts(value) else text
    right = _TYPES.get(type(value), frozenset()) & set(kinds)
    return value if right and "string" not in kinds else text


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _kinds(schema: Schema) -> list[str]:
    """The types of JSON Schema that a property takes; those that can be chosen from are text."""
    if "enum" in schema:
        return ["string"]
    kinds = [kind for part in schema.get("anyOf", ()) for kind in _kinds(part)]
    return kinds or ([schema["type"]] if "type" in schema else [])


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
