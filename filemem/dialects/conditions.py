"""Conditions on memories, as powermem's filters state them.

For example `{"priority": "high", "score": {"gte": 3}}`. Values of different types never match.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BadInput
from filemem.record import format_time

if TYPE_CHECKING:
    from filemem.query import Hit

# Fields of a record that a filter may name; all other keys are metadata.
FILTER_FIELDS = ("user_id", "agent_id", "run_id", "scope", "memory_type")


class Condition(NamedTuple):
    """A test that a value of a memory must pass."""

    key: str
    test: str  # one of TESTS
    value: Any

    def is_match(self, hit: Hit) -> bool:
        """Whether a memory passes."""
        run_test = TESTS[self.test]
        return run_test(_get_value(hit, self.key), self.value)


def parse_conditions(filters: Mapping[str, Any]) -> list[Condition]:
    """Parse filters: a value must be equal; a mapping has tests by name, with or without `$`."""
    conditions = []
    for key, condition in filters.items():
        tests = condition if isinstance(condition, Mapping) else {"eq": condition}
        for name, value in tests.items():
            conditions.append(_parse_condition(key, name, value))
    return conditions


def _parse_condition(key: str, name: str, value: Any) -> Condition:
    field = f"filters.{key}"
    test = name.removeprefix("$")
    if test not in TESTS:
        hint = f"one of {', '.join(TESTS)}; for a nested key write {key}.{name}"
        raise BadInput(f"{field}: there is no test {name!r}", hint, field=field)
    if test in ("in", "nin") and not isinstance(value, list):
        raise BadInput(f"{field}: {name} takes a list", field=field)
    return Condition(key, test, value)


def _is_equal(value: object, expected: object) -> bool:
    """Whether a value, or an item of a list, is equal; 1 is not equal to true."""
    if isinstance(value, (list, tuple)) and not isinstance(expected, list):
        return any(_is_equal(item, expected) for item in value)
    is_bool = isinstance(value, bool)
    if is_bool != isinstance(expected, bool):
        return False
    return value == expected


def _build_order_test(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a test of order: numbers compare with numbers, texts with texts, nothing else."""
    type_names = {int: "number", float: "number", str: "text"}

    def is_ordered(value: Any, expected: Any) -> bool:
        type_name = type_names.get(type(value))
        if type_name is None or type_name != type_names.get(type(expected)):
            return False
        return compare(value, expected)

    return is_ordered


def _is_any(value: object, choices: Sequence[object]) -> bool:
    return any(_is_equal(value, choice) for choice in choices)


def _get_value(hit: Hit, key: str) -> object:
    """Return the value of a filter's key: a field, a time, or metadata (dotted if nested)."""
    metadata = hit.record.metadata
    if key in FILTER_FIELDS:
        return getattr(hit.record, key) or None
    if key in metadata:
        return metadata[key]
    if key == "created_at":
        return format_time(hit.created)
    value: object = metadata
    for part in key.removeprefix("metadata.").split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": _is_equal,
    "ne": lambda value, expected: not _is_equal(value, expected),
    "gt": _build_order_test(operator.gt),
    "gte": _build_order_test(operator.ge),
    "lt": _build_order_test(operator.lt),
    "lte": _build_order_test(operator.le),
    "in": _is_any,
    "nin": lambda value, choices: not _is_any(value, choices),
}
