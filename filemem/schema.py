"""Check plain values against JSON Schema and say in our words what is wrong. The one owner of jsonschema_rs.

The library finds the faults; what was expected is read from the schema itself, so that a message names all of it
(`a number between 0 and 1`) and not only the keyword that failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from filemem.errors import NotFound

if TYPE_CHECKING:
    import jsonschema_rs

NAMES = ("decision", "checkpoint", "observation")

_LONGEST = 80  # characters of a wrong value that a message shows
_MANY = 200  # errors of one value that are told

_PLURALS = {"a whole number": "whole numbers", "a number": "numbers", "an object": "objects"}
_PATTERNS = {r"\S": "is not blank"}
_TYPES: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def load(name: str) -> dict[str, Any]:
    """Return one of our schemas: `decision`, `checkpoint` or `observation`.

    Raises:
        NotFound: there is no schema of that name.
    """
    if name not in NAMES:
        raise NotFound(f"there is no schema named {name!r}", f"pick one of {', '.join(NAMES)}")
    loaded: dict[str, Any] = json.loads(_text(name))
    return loaded


@lru_cache(maxsize=len(NAMES))
def _text(name: str) -> str:
    package = resources.files("filemem")
    file = f"{name}.schema.json"
    installed = package.joinpath("schemas", file)
    # In a checkout they stand at the top, where editors and links find them.
    source = installed if installed.is_file() else package.joinpath("..", "schemas", file)
    return source.read_text(encoding="utf-8")


def errors(schema: Mapping[str, Any], value: object) -> tuple[tuple[str, str], ...]:
    """Return what is wrong with `value`: pairs of a field path (`open_files[1]`, "" for the whole) and a sentence.

    Args:
        schema: a JSON Schema, 2020-12.
        value: plain data as JSON gives it.
    """
    try:
        found = list(_validator(json.dumps(schema)).iter_errors(value))
    except (ValueError, TypeError) as error:
        return (("", f"the value cannot be read as JSON: {error}"),)
    told: list[tuple[str, str]] = []
    for fault in found[:_MANY]:
        told += _tell(schema, fault)
    return tuple(dict.fromkeys(told))


@lru_cache(maxsize=64)
def _validator(schema: str) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415 - 20 ms that only checking needs

    return jsonschema_rs.Draft202012Validator(json.loads(schema))


def _tell(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> Iterable[tuple[str, str]]:
    path = _field(error.instance_path)
    kind: Any = error.kind
    if kind.name == "required":
        field = _join(path, kind.property)
        yield field, f"{field} is required"
    elif kind.name in ("additionalProperties", "unevaluatedProperties"):
        known = list(_at(schema, error.schema_path[:-1]).get("properties", {}))
        for name in kind.unexpected:
            yield _join(path, name), _unknown(_join(path, name), name, known)
    else:
        wanted = _expected(_at(schema, error.schema_path[:-1]))
        if kind.name == "uniqueItems":
            wanted = f"{wanted} without repetitions"
        yield path, f"{path or 'the value'} must be {wanted}, not {_shown(error.instance)}"


def _unknown(field: str, name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"{field} is not known; did you mean {close[0]}?"
    return f"{field} is not known; pick from {', '.join(known)}" if known else f"{field} is not known"


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
    """Return the part of the schema that a path leads to; an empty one where it leads nowhere."""
    here: Any = schema
    for part in path:
        if part == "$ref" and isinstance(here, Mapping):
            here = _at(schema, str(here["$ref"]).removeprefix("#/").split("/"))
            continue
        try:
            here = here[part] if isinstance(here, Mapping) else here[int(part)]
        except (KeyError, IndexError, TypeError, ValueError):
            return {}
    return here if isinstance(here, Mapping) else {}


# -- what a schema asks for, in words ----------------------------------------------------------------------


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return _one_of([_word(value) for value in schema["enum"]])
    if "const" in schema:
        return _word(schema["const"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return _alternatives([_expected(part) for part in schema[keyword]])
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else list(types)
    return _alternatives([_DETAILS.get(name, _plain)(name, schema) for name in names]) or "something else"


def _word(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _one_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _alternatives(phrases: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(phrases))


def _plain(name: str, _: Mapping[str, Any]) -> str:
    return _TYPES.get(name, name)


def _number(name: str, schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{_TYPES[name]} between {low} and {high}"
    bounds = [
        *([f"of at least {low}"] if low is not None else []),
        *([f"of at most {high}"] if high is not None else []),
        *([f"above {above}"] if above is not None else []),
        *([f"below {below}"] if below is not None else []),
    ]
    steps = f" in steps of {schema['multipleOf']}" if "multipleOf" in schema else ""
    return " ".join((_TYPES[name], " and ".join(bounds))).rstrip() + steps


def _string(name: str, schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    phrase = _TYPES[name]
    if low == 1 and high is None:
        phrase = "text that is not empty"
    elif low and high is not None:
        phrase = f"text of {low} to {high} characters"
    elif low or high is not None:
        phrase = f"text of at {f'least {low}' if low else f'most {high}'} characters"
    if "format" in schema:
        phrase += f" in the form of a {schema['format']}"
    pattern = schema.get("pattern")
    return f"{phrase} that {_PATTERNS.get(pattern, f'matches {pattern}')}" if pattern else phrase


def _array(name: str, schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    items = schema.get("items")
    phrase = _TYPES[name]
    if low and high is not None:
        phrase = f"a list of {low} to {high} items"
    elif low == 1:
        phrase = "a list that is not empty"
    elif low or high is not None:
        phrase = f"a list of at {f'least {low}' if low else f'most {high}'} items"
    if not isinstance(items, Mapping) or not items:
        return phrase
    each = _expected(items)
    if phrase != _TYPES[name] or not each.startswith(("text", *_PLURALS)):
        return f"{phrase}, each {each}"
    return f"{phrase} of {_PLURALS.get(each, each)}"


_DETAILS: Mapping[str, Callable[[str, Mapping[str, Any]], str]] = {
    "number": _number,
    "integer": _number,
    "string": _string,
    "array": _array,
}
