"""What a front matter value means: one reader for each shape of key. A value that is not what its key asks for
is WrongValue, and the reader of the file decides what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from filemem.record.foreign import stated_references
from filemem.record.keys import (
    CHOICE,
    EDGES,
    FLAG,
    LIST,
    MAPPING,
    SECRETS_ALLOWED,
    SHARE,
    TEXT,
    TIME,
    WORDS,
    Key,
)
from filemem.record.model import TYPES
from filemem.record.outcomes import parse_outcome
from filemem.record.times import parse_time
from filemem.record.yamltext import Plain, Value, flow, typed

NULL = frozenset(("", "~", "null", "Null", "NULL"))


class WrongValue(Exception):
    """A value is not what its key asks for; the text says what was expected."""


class ForeignValue(WrongValue):
    """A value that is no mistake: another maker's use of our word."""


def shown(value: Value) -> str:
    text = flow(value)
    text = text if isinstance(value, list | dict) or text.startswith('"') else f'"{text}"'
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text(value: Value, _: Key) -> str:
    if isinstance(value, dict) and len(value) == 1:  # `{accepted}`: a template's braces left in
        ((inner, empty),) = value.items()
        value = inner if empty == "" else value
    elif isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise WrongValue("text")
    return str(value)


def _choice(value: Value, key: Key) -> str | None:
    word = _text(value, key).strip()
    if key.name == "status":
        return word
    if word in key.choices:
        return word
    if key.name == "outcome" and (outcome := parse_outcome(word)):
        return outcome
    if word.casefold() in key.choices:
        return word.casefold()
    if key.name == "type" and not _meant_as_ours(word):
        raise ForeignValue
    raise WrongValue(f"one of {', '.join(key.choices)}")


def _meant_as_ours(word: str) -> bool:
    """Tell `decison` from `Technical`: the same letters but for two."""
    word = word.casefold()
    return any(abs(len(word) - len(ours)) <= 2 and word[:3] == ours[:3] and word != ours for ours in TYPES)


def _list(value: Value, _: Key) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    found: list[str] = []
    for item in items:
        if isinstance(item, dict) or (isinstance(item, list) and any(not isinstance(i, str) for i in item)):
            raise WrongValue("a list of text")
        parts = item if isinstance(item, list) else [item]
        found += [str(part) for part in parts if part and not (isinstance(part, Plain) and part in NULL)]
    return tuple(found)


def _words(value: Value, key: Key) -> tuple[str, ...]:
    if isinstance(value, Plain):
        return tuple(word for part in value.split(",") if (word := part.strip()))
    return _list(value, key)


def _edges(value: Value, key: Key) -> tuple[str, ...]:
    if isinstance(value, str):
        return stated_references(str(value))
    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        value = [_wiki(item) for item in value]  # `[[x]]` without quotes is a list in a list
    return _list(value, key)


def _wiki(item: Value) -> Value:
    return f"[[{item[0]}]]" if isinstance(item, list) and len(item) == 1 else item


def _time(value: Value, key: Key) -> int:
    at = parse_time(_text(value, key))
    if at is None:
        raise WrongValue("a date or time such as 2025-11-20T14:46:40.123Z")
    return at


def _share(value: Value, key: Key) -> float:
    try:
        share = float(_text(value, key))
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise WrongValue("a number between 0 and 1")
    return share


def _mapping(value: Value, _: Key) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise WrongValue("a mapping")
    return {str(key): typed(item) for key, item in value.items()}


def _flag(value: Value, key: Key) -> bool:
    if _text(value, key).strip() != SECRETS_ALLOWED:
        raise WrongValue(f"the word {SECRETS_ALLOWED}")
    return True


READERS: Mapping[str, Callable[[Value, Key], object]] = {
    TEXT: _text,
    CHOICE: _choice,
    LIST: _list,
    WORDS: _words,
    EDGES: _edges,
    TIME: _time,
    SHARE: _share,
    MAPPING: _mapping,
    FLAG: _flag,
}
