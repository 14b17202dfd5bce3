"""Build the parameters of tools, and the JSON Schema of all parameters of a tool."""

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
    is_listed: bool = True  # False for one that clients need not know, but programs may send


def build_parameter(
    name: str,
    schema: Schema,
    description: str = "",
    *,
    default: Any = None,
    is_required: bool = False,
) -> Parameter:
    """Return a parameter with any schema; the functions below are for usual ones.

    Args:
        name: of the argument.
        schema: JSON Schema 2020-12 of its value.
        description: for the model.
        default: its value if it is absent; None for no default.
        is_required: whether a call without it is refused.
    """
    full_schema = dict(schema)
    if default is not None:
        full_schema["default"] = default
    if description:
        full_schema["description"] = description
    return Parameter(name, full_schema, is_required)


def build_text(name: str, description: str = "", *, is_required: bool = False) -> Parameter:
    """Return a parameter that takes a text."""
    return build_parameter(name, TEXT, description, is_required=is_required)


def build_required_text(name: str, description: str = "") -> Parameter:
    """Return a required parameter that takes a text, which must not be blank."""
    return build_parameter(name, {**TEXT, "pattern": r"\S"}, description, is_required=True)


def build_text_list(name: str, description: str = "") -> Parameter:
    """Return a parameter that takes a list of texts."""
    return build_parameter(name, TEXTS, description)


def build_text_or_list(name: str, description: str = "") -> Parameter:
    """Return a parameter that takes a text or a list of texts."""
    return build_parameter(name, {"anyOf": [TEXT, TEXTS]}, description)


def build_flag(name: str, description: str = "") -> Parameter:
    """Return a parameter that takes true or false."""
    return build_parameter(name, {"type": "boolean"}, description)


def build_object(name: str, description: str = "") -> Parameter:
    """Return a parameter that takes an object with any keys."""
    return build_parameter(name, {"type": "object"}, description)


def build_fraction(name: str, description: str = "", *, default: float | None = None) -> Parameter:
    """Return a parameter that takes a number from 0 to 1."""
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
    """Return a parameter that takes an integer."""
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
    """Return a parameter that takes one of several words."""
    return build_parameter(
        name, {"enum": list(values)}, description, default=default, is_required=is_required
    )


def build_identifier(name: str, description: str = "", *, is_required: bool = False) -> Parameter:
    """Return a parameter that takes an integer, or a text as older programs send it."""
    return build_parameter(
        name, {"anyOf": [{"type": "integer"}, TEXT]}, description, is_required=is_required
    )


def build_texts(*names: str) -> tuple[Parameter, ...]:
    """Return a parameter that takes a text for each name."""
    return tuple(build_text(name) for name in names)


def build_text_or_lists(*names: str) -> tuple[Parameter, ...]:
    """Return a parameter that takes a text or a list of texts for each name."""
    return tuple(build_text_or_list(name) for name in names)


def hide_parameters(*parameters: Parameter) -> tuple[Parameter, ...]:
    """Return parameters that clients need not know."""
    return tuple(parameter._replace(is_listed=False) for parameter in parameters)


def build_schema(parameters: Iterable[Parameter], *, is_strict: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of an object with these parameters; if strict, with no others."""
    rows = list(parameters)
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
