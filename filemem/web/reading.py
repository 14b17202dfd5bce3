"""From a request to arguments: a query is text that the schema says how to read; a body is one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from filemem.errors import BadInput

TOKEN = "token"  # noqa: S105  the name of a parameter that is the door's, not the route's
_EXACT = 2**53  # below it a float holds every whole number
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def from_query(
    schema: Mapping[str, Any], pairs: Iterable[tuple[str, str]], path: Mapping[str, str]
) -> dict[str, object]:
    """Read a query string and the parts of a path.

    Args:
        schema: of the arguments.
        pairs: names and values as they came; a name may come several times where a list is allowed.
        path: names and values from the path.

    Raises:
        BadInput: a name comes several times where one value is meant.
    """
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        if name != TOKEN:
            given.setdefault(name, []).append(value)
    properties = schema.get("properties", {})
    found: dict[str, object] = {}
    for name, values in given.items():
        kinds = _kinds(properties.get(name, {}))
        if len(values) > 1 and "array" not in kinds:
            raise BadInput(f"{name} comes {len(values)} times", "give it once", field=name[:64])
        found[name] = values if "array" in kinds and (len(values) > 1 or "string" not in kinds) else values[0]
        if isinstance(found[name], str):
            found[name] = _typed(values[0], kinds)
    # An empty value is none at all: `?topic=` is what a form sends for a field that was left alone.
    return {name: value for name, value in found.items() if value != ""} | dict(path)


def from_body(body: bytes) -> dict[str, object]:
    """Read a body; members that are null are left out.

    Raises:
        BadInput: it is not one JSON object.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_number)
    except UnicodeDecodeError:
        raise BadInput("the body is not UTF-8", "send JSON") from None
    except ValueError:
        raise BadInput("the body is not JSON", "send one JSON object") from None
    except RecursionError:
        raise BadInput("the body is nested too deeply", "send it flat") from None
    if not isinstance(value, dict):
        raise BadInput("the body must be one JSON object", 'for example {"topic": "caching"}')
    return {name: part for name, part in value.items() if part is not None}


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema allows; `string` where it does not say."""
    if "anyOf" in schema:
        return set().union(*(_kinds(one) for one in schema["anyOf"]))
    kind = schema.get("type", "string")
    return {kind} if isinstance(kind, str) else set(kind)


def _typed(text: str, kinds: set[str]) -> object:
    """The value that a text stands for; a text that stands for none stays, and is refused by the schema."""
    number = text.removeprefix("-")
    if kinds & {"integer", "number"} and number.isascii() and number.isdigit() and len(number) <= 20:
        return int(text)
    if "boolean" in kinds:
        return _WORDS.get(text.lower(), text)
    return text


def _number(text: str) -> float:
    """A number; JSON and its schemas make no difference between 5 and 5.0, but what counts with it does."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
