"""Whether a text of a decision names a dependency. Names are compared as whole words, exactly.

A name is split at `-`, `_`, `@`, `/`, `.` and `:`, so `redis` is a part of `redis-py` and of
`@types/redis`, and no part of `ioredis`.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:\+\+|#)?")
_PARTS = re.compile(r",|;|&|\+|\s/\s|\s(?:or|and|with|for|as|in|on|via|behind|instead)\s|\(", re.I)
_CHOOSING = frozenset(("adopt", "adopting", "add", "adding", "use", "using", "with", "via"))
_ARTICLES = frozenset(("a", "an", "the"))
_SHORTEST = 3  # letters of the part of a name that may stand for all of it


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name or a text, folded."""
    return tuple(word.casefold() for word in _WORD.findall(name))


def alternative(rejected: str, name: str) -> bool:
    """Return whether a rejected alternative is a dependency: `Redis: one more service`."""
    wanted = words_of(name)
    phrases = _PARTS.split(rejected.partition(": ")[0].replace("`", ""))
    return any(_is_of(_bare(words_of(phrase)), wanted) for phrase in phrases)


def _bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without `Use a` and the like before them."""
    while words and words[0] in _CHOOSING | _ARTICLES:
        words = words[1:]
    return words


def _is_of(phrase: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Return whether a phrase is a name, begins with it, or is a part of it."""
    if not phrase or not name:
        return False
    if phrase[: len(name)] == name:
        return True
    whole = len(phrase) > 1 or len(phrase[0]) >= _SHORTEST
    return whole and _within(phrase, name)


def _within(part: tuple[str, ...], words: tuple[str, ...]) -> bool:
    starts = range(len(words) - len(part) + 1)
    return any(words[start : start + len(part)] == part for start in starts)


def mentions(text: str, name: str) -> bool:
    """Return whether a text has the words of a name in a row."""
    return _within(words_of(name), words_of(text))


def chooses(text: str, name: str) -> bool:
    """Return whether a decision uses a dependency: it begins so, `with NAME`, or `in Name`."""
    wanted = words_of(name)
    matches = [*_WORD.finditer(text)]
    folded = tuple(match[0].casefold() for match in matches)
    for start in range(len(folded) - len(wanted) + 1):
        if wanted and folded[start : start + len(wanted)] == wanted:
            before = next((word for word in folded[:start][::-1] if word not in _ARTICLES), "")
            if not before or before in _CHOOSING or matches[start][0][0].isupper():
                return True
    return False
