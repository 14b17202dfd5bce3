"""Filters on metadata as plain data: `{"priority": "high", "score": {"gte": 3, "lt": 7}}`. Pure.

Values of different types are never equal, ordered or an error: they simply do not match.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from filemem.errors import BadInput


class Condition(NamedTuple):
    """One test on the value of one key."""

    key: str
    test: str
    wanted: object


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_LISTS = ("in", "nin")
TESTS = ("eq", "ne", *_ORDER, *_LISTS)


def conditions(filters: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Read filters: a value must be equal; a mapping holds tests by name, with or without `$`."""
    found = []
    for key, wanted in filters.items():
        if not isinstance(wanted, Mapping):
            found.append(Condition(key, "eq", wanted))
            continue
        for name, value in wanted.items():
            test, field = name.removeprefix("$"), f"filters.{key}"
            if test not in TESTS:
                hint = f"one of {', '.join(TESTS)}; for a nested key write {key}.{name}"
                raise BadInput(f"{field}: there is no test {name!r}", hint, field=field)
            if test in _LISTS and not isinstance(value, list):
                raise BadInput(f"{field}: {name} takes a list", field=field)
            found.append(Condition(key, test, value))
    return tuple(found)


def holds(condition: Condition, value_of: Callable[[str], object]) -> bool:
    """Say whether a record passes; of a list, any entry may be equal."""
    value, wanted, test = value_of(condition.key), condition.wanted, condition.test
    if test in _ORDER:
        return _comparable(value, wanted) and _ORDER[test](value, wanted)
    options = wanted if test in _LISTS and isinstance(wanted, list) else [wanted]
    equal = any(_equal(value, option) for option in options)
    return equal != (test in ("ne", "nin"))


def _equal(value: object, wanted: object) -> bool:
    if isinstance(value, (list, tuple)) and not isinstance(wanted, list):
        return any(_equal(one, wanted) for one in value)
    if isinstance(value, bool) != isinstance(wanted, bool):  # 1 is not true
        return False
    return value == wanted


def _comparable(value: object, wanted: object) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return False
    numbers = isinstance(value, int | float) and isinstance(wanted, int | float)
    return numbers or (isinstance(value, str) and isinstance(wanted, str))
