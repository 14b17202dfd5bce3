"""The JSON Schemas and hints that the tables of tools are written with. Data; imports nothing heavy."""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
SAID = {"type": "string", "pattern": r"\S"}  # text that must say something
TEXTS = {"type": "array", "items": TEXT}
WORDS = {"anyOf": [TEXT, TEXTS]}  # one word or several
FLAG = {"type": "boolean"}
MAPPING = {"type": "object"}
FRACTION = {"type": "number", "minimum": 0, "maximum": 1}
NUMBER_ID = {"anyOf": [{"type": "integer"}, TEXT]}  # programs of the last century pass numbers as text

READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DELETES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}


def whole(least: int, most: int, default: int | None = None) -> dict[str, Any]:
    """A whole number between two bounds."""
    bounds: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    return bounds if default is None else bounds | {"default": default}


def one_of(*words: str) -> dict[str, Any]:
    """One of some words."""
    return {"enum": list(words)}


def about(schema: dict[str, Any], description: str) -> dict[str, Any]:
    """A schema with words for the model."""
    return {**schema, "description": description}


def arguments(*required: str, closed: bool = True, **properties: Any) -> dict[str, Any]:
    """The schema of a tool's arguments.

    Args:
        required: names that must be there.
        closed: refuse names that are not among the properties.
        properties: name -> schema.
    """
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        **({"additionalProperties": False} if closed else {}),
    }
