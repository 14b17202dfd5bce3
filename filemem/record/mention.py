"""Check whether the text of a decision names a dependency. Names are compared by whole words.

A name is split at `-`, `_`, `@`, `/`, `.` and `:`, so `redis` is a part of `redis-py` and of
`@types/redis`, but not of `ioredis`.
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
_MIN_PART_LENGTH = 3  # of a part of a name that may mean the whole name


def fold_words(text: str) -> str:
    """Return the case-folded words of a name or a text, with one space between two."""
    words = _WORD.findall(text)
    return " ".join(words).casefold()


def is_alternative(rejected: str, name: str) -> bool:
    """Whether a rejected alternative, such as `Redis: one more service`, is a dependency."""
    alternative = rejected.partition(": ")[0].replace("`", "")
    folded_name = fold_words(name)
    for phrase in _PHRASE_SEPARATOR.split(alternative):
        if _is_name_match(fold_words(phrase), folded_name):
            return True
    return False


def _is_name_match(phrase: str, name: str) -> bool:
    """Whether a phrase, without words such as `use a`, begins with a name or is a part of it."""
    leading_words = _LEADING_WORDS.match(phrase)
    if leading_words:
        phrase = phrase[leading_words.end() :]
    if f"{phrase} ".startswith(f"{name} "):
        return True
    return len(phrase) >= _MIN_PART_LENGTH and f" {phrase} " in f" {name} "


def is_mentioned(text: str, name: str) -> bool:
    """Whether a text has the words of a name in a row."""
    words = fold_words(text)
    name_words = fold_words(name)
    return f" {name_words} " in f" {words} "


def is_chosen(text: str, name: str) -> bool:
    """Whether a decision uses a dependency: it begins with it, or says `with name` or `in Name`."""
    words = " ".join(_WORD.findall(text))
    name_pattern = rf"(?<!\S){re.escape(fold_words(name))}(?!\S)"
    for match in re.finditer(name_pattern, words, re.IGNORECASE):
        text_before = words[: match.start()].casefold()
        if not text_before or match[0][0].isupper():
            return True
        if _has_leading_words_at_end(text_before):
            return True
    return False


def _has_leading_words_at_end(text: str) -> bool:
    end = 0
    for match in _LEADING_WORDS.finditer(text):
        end = match.end()
    return end == len(text)
