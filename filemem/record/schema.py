"""Check plain values against JSON Schema and say in our words what is wrong. The one owner of jsonschema_rs.

The library finds the faults; what was expected is read from the schema itself, so that a message names all of it
(`a number from 0 up to 1`) and not only the keyword that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jsonschema_rs

_LONGEST = 80  # characters of a wrong value that a message shows
_MANY = 200  # errors of one value that are reported

_TYPES: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_RANGE = {"minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "up to {}"}
_LIMITS: Mapping[str, Mapping[str, str]] = {
    "number": _RANGE,
    "integer": _RANGE,
    "string": {"maxLength": "of up to {} characters", "minLength": "that is not empty", "pattern": "that matches {}"},
    "array": {"maxItems": "of up to {} items", "minItems": "that is not empty"},
}


def errors(schema: Mapping[str, Any], value: object) -> tuple[tuple[str, str], ...]:
    """Pairs of a field path (`open_files[1]`, "" for the whole) and what is wrong there by a JSON Schema, 2020-12."""
    try:
        found = list(_validator(json.dumps(schema)).iter_errors(value))
    except (ValueError, TypeError) as error:
        return (("", f"the value cannot be read as JSON: {error}"),)
    said: list[tuple[str, str]] = []
    for fault in found[:_MANY]:
        said += _sentences(schema, fault)
    return tuple(dict.fromkeys(said))


@lru_cache(maxsize=64)
def _validator(schema: str) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415 - 20 ms that only checking needs

    return jsonschema_rs.Draft202012Validator(json.loads(schema))


def _sentences(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> Iterable[tuple[str, str]]:
    path = _field(error.instance_path)
    kind: Any = error.kind
    if kind.name == "required":
        field = _join(path, kind.property)
        yield field, f"{field} is required"
    elif kind.name == "additionalProperties":
        known = list(_at(schema, error.schema_path[:-1]).get("properties", {}))
        for name in kind.unexpected:
            close = get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]}?" if close else f"; pick from {', '.join(known)}" if known else ""
            yield _join(path, name), f"{_join(path, name)} is not known{hint}"
    else:
        wanted = _expected(_at(schema, error.schema_path[:-1]))
        yield path, f"{path or 'the value'} must be {wanted}, not {_shown(error.instance)}"


def _field(path: Iterable[str | int]) -> str:
    field = ""
    for part in path:
        field = f"{field}[{part}]" if isinstance(part, int) else _join(field, part)
    return field


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _at(schema: Mapping[str, Any], path: Iterable[str | int]) -> Mapping[str, Any]:
    """Return the part of the schema, which holds no `$ref`, that a path leads to."""
    here: Any = schema
    for part in path:
        here = here[part] if isinstance(here, Mapping) else here[int(part)]
    found: Mapping[str, Any] = here
    return found


# -- what a schema asks for, in words ----------------------------------------------------------------------


def _expected(schema: Mapping[str, Any]) -> str:
    choices = schema.get("enum", [schema["const"]] if "const" in schema else ())
    if choices:
        words = [value if isinstance(value, str) and value else json.dumps(value) for value in choices]
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    types = schema.get("type", [])
    parts = [_expected(part) for keyword in ("anyOf", "oneOf") for part in schema.get(keyword, ())]
    parts += [_of_type(name, schema) for name in ([types] if isinstance(types, str) else types)]
    return " or ".join(dict.fromkeys(parts)) or "something else"


def _of_type(name: str, schema: Mapping[str, Any]) -> str:
    words = [text.format(schema[key]) for key, text in _LIMITS.get(name, {}).items() if key in schema]
    each = f", each {_expected(schema['items'])}" if schema.get("items") and name == "array" else ""
    phrase = " ".join((_TYPES.get(name, name), *words))
    return f"{phrase}{each}".replace(r"that matches \S", "that is not blank")
