"""Whether a text of a decision names a dependency. Names are compared as whole words, exactly.

A name is split at `-`, `_`, `@`, `/`, `.` and `:`, so `redis` is a part of `redis-py` and of
`@types/redis`, and no part of `ioredis`.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:\+\+|#)?")
_PHRASE_SEPARATOR = re.compile(
    r",|;|&|\+|\s/\s|\s(?:or|and|with|for|as|in|on|via|behind|instead)\s|\(", re.I
)
_LEADING_WORDS = re.compile(
    r"(?<!\S)(?:(?:adopt|adopting|add|adding|use|using|with|via|a|an|the) )+"
)
_MIN_PART_LENGTH = 3  # letters of a part of a name that may stand for all of it


def fold_words(text: str) -> str:
    """Return the words of a name or a text, folded, with a space between two."""
    return " ".join(_WORD.findall(text)).casefold()


def is_alternative(rejected: str, name: str) -> bool:
    """Return whether a rejected alternative is a dependency: `Redis: one more service`."""
    phrases = _PHRASE_SEPARATOR.split(rejected.partition(": ")[0].replace("`", ""))
    return any(_is_name_match(fold_words(phrase), fold_words(name)) for phrase in phrases)


def _is_name_match(phrase: str, name: str) -> bool:
    """Return whether a phrase, without `Use a`, begins with a name or is a part of it."""
    leading_words = _LEADING_WORDS.match(phrase)
    phrase = phrase[leading_words.end() :] if leading_words else phrase
    if f"{phrase} ".startswith(f"{name} "):
        return True
    return len(phrase) >= _MIN_PART_LENGTH and f" {phrase} " in f" {name} "


def is_mentioned(text: str, name: str) -> bool:
    """Return whether a text has the words of a name in a row."""
    return f" {fold_words(name)} " in f" {fold_words(text)} "


def is_chosen(text: str, name: str) -> bool:
    """Return whether a decision uses a dependency: it begins so, `with name`, or `in Name`."""
    words = " ".join(_WORD.findall(text))
    for match in re.finditer(rf"(?<!\S){re.escape(fold_words(name))}(?!\S)", words, re.IGNORECASE):
        before = words[: match.start()].casefold()
        last_leading = [*_LEADING_WORDS.finditer(before)][-1:]
        if not before or match[0][0].isupper() or any(m.end() == len(before) for m in last_leading):
            return True
    return False
