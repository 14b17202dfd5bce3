"""Whether a text of a decision names a dependency. Names are compared as whole words, exactly.

A name is split at `-`, `_`, `@`, `/`, `.` and `:`, so `redis` is a part of `redis-py` and of
`@types/redis`, and no part of `ioredis`.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:\+\+|#)?")
_PARTS = re.compile(r",|;|&|\+|\s/\s|\s(?:or|and|with|for|as|in|on|via|behind|instead)\s|\(", re.I)
_LEADING = re.compile(r"(?<!\S)(?:(?:adopt|adopting|add|adding|use|using|with|via|a|an|the) )+")
_SHORTEST = 3  # letters of a part of a name that may stand for all of it


def plain(text: str) -> str:
    """Return the words of a name or a text, folded, with a space between two."""
    return " ".join(_WORD.findall(text)).casefold()


def alternative(rejected: str, name: str) -> bool:
    """Return whether a rejected alternative is a dependency: `Redis: one more service`."""
    phrases = _PARTS.split(rejected.partition(": ")[0].replace("`", ""))
    return any(_is_of(plain(phrase), plain(name)) for phrase in phrases)


def _is_of(phrase: str, name: str) -> bool:
    """Return whether a phrase, without `Use a`, begins with a name or is a part of it."""
    leading = _LEADING.match(phrase)
    phrase = phrase[leading.end() :] if leading else phrase
    if f"{phrase} ".startswith(f"{name} "):
        return True
    return len(phrase) >= _SHORTEST and f" {phrase} " in f" {name} "


def mentions(text: str, name: str) -> bool:
    """Return whether a text has the words of a name in a row."""
    return f" {plain(name)} " in f" {plain(text)} "


def chooses(text: str, name: str) -> bool:
    """Return whether a decision uses a dependency: it begins so, `with name`, or `in Name`."""
    words = " ".join(_WORD.findall(text))
    for place in re.finditer(rf"(?<!\S){re.escape(plain(name))}(?!\S)", words, re.IGNORECASE):
        before = words[: place.start()].casefold()
        leading = [*_LEADING.finditer(before)][-1:]
        if not before or place[0][0].isupper() or any(m.end() == len(before) for m in leading):
            return True
    return False
