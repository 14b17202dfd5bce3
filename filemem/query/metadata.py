"""Metadata as exact terms of the index: `key` where a key is there, `key=value` for each plain value. Pure.

A term only ever narrows: who asks looks at the values themselves afterwards. So nested keys are joined by dots, entries
of a list stand for themselves, and a record with very much metadata has the one term that matches every question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

MUCH = "*"  # the term of a record with more values than MOST
MOST = 500
_LONG = 200  # characters of a term; a longer one is known by its hash


def terms(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """The terms of a record's metadata."""
    found: dict[str, None] = {}
    for one in _walk("", metadata):
        found[one] = None
        if len(found) > MOST:
            return (MUCH,)
    return tuple(found)


def wanted(key: str, *values: object) -> tuple[str, ...] | None:
    """The terms of which a record has one if a key of its metadata has one of these values.

    Args:
        key: dotted where it is nested; `metadata.` may stand in front.
        values: plain values; none of them asks for the key alone.

    Returns:
        None where terms cannot tell: a value that is no text, number or truth value.
    """
    if any(not isinstance(value, str | int | float) for value in values):
        return None
    names = {key, key.removeprefix("metadata.")}
    found = {_term(name, value) for name in names for value in values} if values else set(map(_short, names))
    return (*sorted(found), MUCH)


def _walk(key: str, value: object) -> Iterator[str]:
    if key:
        yield _short(key)
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk(f"{key}.{name}" if key else str(name), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _walk(key, inner)
    elif isinstance(value, str | int | float):
        yield _term(key, value)


def _term(key: str, value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 3 and 3.0 are one number
    return _short(f"{key}={json.dumps(value, ensure_ascii=False)}")


def _short(term: str) -> str:
    if len(term) <= _LONG:
        return term
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; hardly any term is long

    return f"#{hashlib.sha256(term.encode('utf-8', 'replace')).hexdigest()}"
