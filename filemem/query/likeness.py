"""Is this nearly the same as something already there? Deterministic, for a warning; it never decides anything.

Rule: a warning needs shared words. Embeddings alone call every two texts about one component alike.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

SAME_WORDS = 0.8  # this share of words in common is a duplicate, whatever the vectors say
CLOSE_WORDS = 0.4  # with CLOSE_COSINE together: nearly the same, said differently
CLOSE_COSINE = 0.85
MOST_WORDS = 2_000  # of each text; more does not change the answer

_WORD = re.compile(r"\w+")


class Similar(NamedTuple):
    """A record that says nearly the same; `likeness` on 0..1."""

    id: str
    likeness: float


def similar(text: str, others: Iterable[tuple[str, str, float | None]]) -> tuple[Similar, ...]:
    """Return which of `others` (id, text, cosine to `text` if known) nearly repeat `text`, the likest first."""
    own = _words(text)
    found: list[Similar] = []
    for node, other_text, cosine in others:
        other = _words(other_text)
        shared = len(own & other) / (len(own | other) or 1)
        if shared >= SAME_WORDS or (cosine is not None and cosine >= CLOSE_COSINE and shared >= CLOSE_WORDS):
            found.append(Similar(node, min(1.0, max(shared, cosine or 0.0))))
    return tuple(sorted(found, key=lambda each: (-each.likeness, each.id)))


def _words(text: str) -> frozenset[str]:
    words = (match.group().casefold() for match in _WORD.finditer(text))
    return frozenset(word for word, _ in zip(words, range(MOST_WORDS), strict=False))
