"""A record as plain values, as JSON has them, and back: what the index keeps, and what an export holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filemem.record.model import Edge, Outcome, Record


def to_plain(record: Record) -> dict[str, Any]:
    """The fields that say something, in their order."""
    usual = Record._field_defaults
    return {name: value for name, value in record._asdict().items() if name not in usual or value != usual[name]}


def from_plain(said: Mapping[str, Any]) -> Record:
    """The record of plain values, or of what JSON made of them."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    values["outcomes"] = tuple(Outcome(*one) for one in values.get("outcomes", ()))
    values["mentions"] = tuple(Edge(*one) for one in values.get("mentions", ()))
    return Record(**values)
