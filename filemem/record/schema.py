"""Check plain values against JSON Schema and say in our words what is wrong.

The one owner of jsonschema_rs. The library finds the faults; what was expected is read from the
schema itself, so that a message names all of it (`a number from 0 up to 1`) and not only the
keyword that failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.record.lines import shorten_line

if TYPE_CHECKING:
    import jsonschema_rs

_MAX_VALUE_LENGTH = 80  # characters of a wrong value that a message shows
_MAX_ERRORS = 200  # errors of one value that are reported
_TYPES: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_LIMITS: Mapping[str, str] = {
    "minimum": "from {}",
    "exclusiveMinimum": "above {}",
    "maximum": "up to {}",
    "minLength": "that is not empty",
    "maxLength": "of up to {} characters",
    "minItems": "that is not empty",
    "maxItems": "of up to {} items",
    "pattern": "that matches {}",
}


class Fault(NamedTuple):
    """What is wrong, and in which field, such as `open_files[1]`; "" for the whole."""

    field: str
    message: str


def check_value(schema: Mapping[str, Any], value: object) -> tuple[Fault, ...]:
    """Return what is wrong with a value by a JSON Schema, 2020-12.

    An argument that a closed schema does not know is the caller's to name.
    """
    try:
        faults = list(islice(_get_validator(json.dumps(schema)).iter_errors(value), _MAX_ERRORS))
    except (ValueError, TypeError) as error:
        return (Fault("", f"the value cannot be read as JSON: {error}"),)
    return tuple(dict.fromkeys(_build_fault(schema, fault) for fault in faults))


@lru_cache(maxsize=64)
def _get_validator(schema: str) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415 - 20 ms that only checking needs

    return jsonschema_rs.Draft202012Validator(json.loads(schema))


def _build_fault(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> Fault:
    kind: Any = error.kind
    path = [*error.instance_path, *([kind.property] if kind.name == "required" else [])]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    field = "".join(parts).removeprefix(".")
    if kind.name == "required":
        return Fault(field, f"{field} is required")
    expected_schema: Any = schema  # it holds no `$ref`
    for part in error.schema_path[:-1]:
        expected_schema = (
            expected_schema[part]
            if isinstance(expected_schema, Mapping)
            else expected_schema[int(part)]
        )
    value = shorten_line(
        json.dumps(error.instance, ensure_ascii=False, default=str), _MAX_VALUE_LENGTH
    )
    return Fault(
        field, f"{field or 'the value'} must be {_describe_schema(expected_schema)}, not {value}"
    )


def _describe_schema(schema: Mapping[str, Any]) -> str:
    """What a schema asks for, in words."""
    if choices := schema.get("enum"):
        return f"one of {', '.join(choices)}" if len(choices) > 1 else str(choices[0])
    types = schema.get("type", [])
    parts = [_describe_schema(part) for part in schema.get("anyOf", ())]
    parts += [
        _describe_type(name, schema) for name in ([types] if isinstance(types, str) else types)
    ]
    return " or ".join(dict.fromkeys(parts)) or "something else"


def _describe_type(name: str, schema: Mapping[str, Any]) -> str:
    words = [text.format(schema[key]) for key, text in _LIMITS.items() if key in schema]
    phrase = " ".join((_TYPES.get(name, name), *words))
    if schema.get("items") and name == "array":
        phrase += f", each {_describe_schema(schema['items'])}"
    return phrase.replace(r"that matches \S", "that is not blank")
