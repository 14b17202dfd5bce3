"""The parameters of tools: a function for each kind of value, and the JSON Schema of them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}


class Parameter(NamedTuple):
    """One parameter of a tool."""

    name: str
    schema: Schema  # of its value, with description and default
    required: bool = False
    listed: bool = True  # whether clients are told of it; programs for other systems send more


def shaped(
    name: str, schema: Schema, about: str = "", *, default: Any = None, required: bool = False
) -> Parameter:
    """Return a parameter with a schema of its own; the functions below are for the usual ones.

    Args:
        name: under which it is sent.
        schema: JSON Schema 2020-12 of its value.
        about: what a model should know of it.
        default: its value where it is not sent; None for none.
        required: whether a call without it is refused.
    """
    whole = dict(schema)
    if default is not None:
        whole["default"] = default
    if about:
        whole["description"] = about
    return Parameter(name, whole, required)


def text(name: str, about: str = "", *, required: bool = False) -> Parameter:
    """A text."""
    return shaped(name, TEXT, about, required=required)


def filled(name: str, about: str = "") -> Parameter:
    """A text that is required and not blank."""
    return shaped(name, {**TEXT, "pattern": r"\S"}, about, required=True)


def texts(name: str, about: str = "") -> Parameter:
    """A list of texts."""
    return shaped(name, TEXTS, about)


def words(name: str, about: str = "") -> Parameter:
    """A text or several."""
    return shaped(name, {"anyOf": [TEXT, TEXTS]}, about)


def flag(name: str, about: str = "") -> Parameter:
    """True or false."""
    return shaped(name, {"type": "boolean"}, about)


def mapping(name: str, about: str = "") -> Parameter:
    """An object with any keys."""
    return shaped(name, {"type": "object"}, about)


def fraction(name: str, about: str = "", *, default: float | None = None) -> Parameter:
    """A number from 0 to 1."""
    return shaped(name, {"type": "number", "minimum": 0, "maximum": 1}, about, default=default)


def integer(
    name: str, about: str = "", *, least: int, most: int | None = None, default: int | None = None
) -> Parameter:
    """A whole number."""
    schema: dict[str, Any] = {"type": "integer", "minimum": least}
    if most is not None:
        schema["maximum"] = most
    return shaped(name, schema, about, default=default)


def choice(
    name: str,
    values: Iterable[str],
    about: str = "",
    *,
    default: str | None = None,
    required: bool = False,
) -> Parameter:
    """One of several words."""
    return shaped(name, {"enum": list(values)}, about, default=default, required=required)


def identifier(name: str, about: str = "", *, required: bool = False) -> Parameter:
    """A number, or text: older programs pass numbers as text."""
    return shaped(name, {"anyOf": [{"type": "integer"}, TEXT]}, about, required=required)


def unlisted(*parameters: Parameter) -> tuple[Parameter, ...]:
    """Parameters that are taken, and that clients are not told of."""
    return tuple(parameter._replace(listed=False) for parameter in parameters)


def schema_of(parameters: Iterable[Parameter], *, closed: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of an object with these parameters; `closed` refuses any other."""
    rows = tuple(parameters)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {row.name: row.schema for row in rows},
    }
    required = [row.name for row in rows if row.required]
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema
