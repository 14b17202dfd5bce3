"""Check values against JSON Schema, with messages of our own. The only importer of jsonschema_rs.

The library finds the faults. The expected value is described from the schema, so that a message
says all of it (`a number from 0 up to 1`) and not only the keyword that failed.
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
    """A message, and the invalid field, such as `open_files[1]`; "" for the whole value."""

    field: str
    message: str


def check_value(schema: Mapping[str, Any], value: object) -> tuple[Fault, ...]:
    """Return the faults of a value by a JSON Schema, 2020-12.

    The caller reports arguments that a closed schema does not know.
    """
    try:
        validator = _get_validator(json.dumps(schema))
        errors = list(islice(validator.iter_errors(value), _MAX_ERRORS))
    except (ValueError, TypeError) as error:
        return (Fault("", f"the value cannot be read as JSON: {error}"),)
    faults = [_build_fault(schema, error) for error in errors]
    return tuple(dict.fromkeys(faults))


@lru_cache(maxsize=64)
def _get_validator(schema: str) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415 - 20 ms that only checking needs

    return jsonschema_rs.Draft202012Validator(json.loads(schema))


def _build_fault(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> Fault:
    kind: Any = error.kind
    path = list(error.instance_path)
    if kind.name == "required":
        path.append(kind.property)
    field = _format_path(path)
    if kind.name == "required":
        return Fault(field, f"{field} is required")
    expected = _describe_schema(_find_failed_schema(schema, error))
    text = json.dumps(error.instance, ensure_ascii=False, default=str)
    value = shorten_line(text, _MAX_VALUE_LENGTH)
    return Fault(field, f"{field or 'the value'} must be {expected}, not {value}")


def _format_path(path: list[str | int]) -> str:
    field = ""
    for part in path:
        if isinstance(part, int):
            field += f"[{part}]"
        else:
            field += f".{part}"
    return field.removeprefix(".")


def _find_failed_schema(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> Any:
    """Return the part of a schema without `$ref` that a value does not match."""
    part: Any = schema
    for step in error.schema_path[:-1]:
        key = step if isinstance(part, Mapping) else int(step)
        part = part[key]
    return part


def _describe_schema(schema: Mapping[str, Any]) -> str:
    """Describe the values that a schema allows."""
    choices = schema.get("enum")
    if choices:
        if len(choices) == 1:
            return str(choices[0])
        return "one of " + ", ".join(choices)
    phrases = [_describe_schema(part) for part in schema.get("anyOf", ())]
    types = schema.get("type", [])
    if isinstance(types, str):
        types = [types]
    phrases += [_describe_type(name, schema) for name in types]
    distinct_phrases = dict.fromkeys(phrases)
    return " or ".join(distinct_phrases) or "something else"


def _describe_type(name: str, schema: Mapping[str, Any]) -> str:
    words = [_TYPES.get(name, name)]
    for key, text in _LIMITS.items():
        if key in schema:
            words.append(text.format(schema[key]))
    phrase = " ".join(words)
    item_schema = schema.get("items")
    if item_schema and name == "array":
        phrase += f", each {_describe_schema(item_schema)}"
    return phrase.replace(r"that matches \S", "that is not blank")
