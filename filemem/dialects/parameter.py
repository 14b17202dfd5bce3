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
    is_required: bool = False
    is_listed: bool = True  # whether clients are told of it; programs for other systems send more


def build_parameter(
    name: str,
    schema: Schema,
    description: str = "",
    *,
    default: Any = None,
    is_required: bool = False,
) -> Parameter:
    """Return a parameter with a schema of its own; the functions below are for the usual ones.

    Args:
        name: under which it is sent.
        schema: JSON Schema 2020-12 of its value.
        about: what a model should know of it.
        default: its value where it is not sent; None for none.
        required: whether a call without it is refused.
    """
    full_schema = dict(schema)
    if default is not None:
        full_schema["default"] = default
    if description:
        full_schema["description"] = description
    return Parameter(name, full_schema, is_required)


def build_text(name: str, description: str = "", *, is_required: bool = False) -> Parameter:
    """A text."""
    return build_parameter(name, TEXT, description, is_required=is_required)


def build_required_text(name: str, description: str = "") -> Parameter:
    """A text that is required and not blank."""
    return build_parameter(name, {**TEXT, "pattern": r"\S"}, description, is_required=True)


def build_text_list(name: str, description: str = "") -> Parameter:
    """A list of texts."""
    return build_parameter(name, TEXTS, description)


def build_text_or_list(name: str, description: str = "") -> Parameter:
    """A text or several."""
    return build_parameter(name, {"anyOf": [TEXT, TEXTS]}, description)


def build_flag(name: str, description: str = "") -> Parameter:
    """True or false."""
    return build_parameter(name, {"type": "boolean"}, description)


def build_object(name: str, description: str = "") -> Parameter:
    """An object with any keys."""
    return build_parameter(name, {"type": "object"}, description)


def build_fraction(name: str, description: str = "", *, default: float | None = None) -> Parameter:
    """A number from 0 to 1."""
    return build_parameter(
        name, {"type": "number", "minimum": 0, "maximum": 1}, description, default=default
    )


def build_integer(
    name: str,
    description: str = "",
    *,
    minimum: int,
    maximum: int | None = None,
    default: int | None = None,
) -> Parameter:
    """A whole number."""
    schema: dict[str, Any] = {"type": "integer", "minimum": minimum}
    if maximum is not None:
        schema["maximum"] = maximum
    return build_parameter(name, schema, description, default=default)


def build_choice(
    name: str,
    values: Iterable[str],
    description: str = "",
    *,
    default: str | None = None,
    is_required: bool = False,
) -> Parameter:
    """One of several words."""
    return build_parameter(
        name, {"enum": list(values)}, description, default=default, is_required=is_required
    )


def build_identifier(name: str, description: str = "", *, is_required: bool = False) -> Parameter:
    """A number, or text: older programs pass numbers as text."""
    return build_parameter(
        name, {"anyOf": [{"type": "integer"}, TEXT]}, description, is_required=is_required
    )


def hide_parameters(*parameters: Parameter) -> tuple[Parameter, ...]:
    """Parameters that are taken, and that clients are not told of."""
    return tuple(parameter._replace(is_listed=False) for parameter in parameters)


def build_schema(parameters: Iterable[Parameter], *, is_strict: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of an object with these parameters; `closed` refuses any other."""
    rows = tuple(parameters)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {row.name: row.schema for row in rows},
    }
    required = [row.name for row in rows if row.is_required]
    if required:
        schema["required"] = required
    if is_strict:
        schema["additionalProperties"] = False
    return schema
