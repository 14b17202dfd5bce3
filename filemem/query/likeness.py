"""Is this nearly the same as something already there? Deterministic, for a warning; it never decides anything.

Rule: a warning needs shared words. Embeddings alone call every two texts about one component alike. The limits are
calibrated so that one hint in twenty is wrong: docs/ranking.md says on what.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from filemem.query.excerpt import COMMON

SAME_WORDS = 0.8  # this share of words in common is a duplicate, whatever the vectors say
CLOSE_WORDS = 0.23  # with NEARLY together: about the same thing, said differently
NEARLY = 0.775  # a cosine; a lower one is not worth comparing words, for texts that share most of them are far nearer
MOST_WORDS = 2_000  # of each text; more does not change the answer
_STEM = 6  # letters; what is beyond them is taken for an ending

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
        if shared >= SAME_WORDS or (cosine is not None and cosine >= NEARLY and shared >= CLOSE_WORDS):
            found.append(Similar(node, min(1.0, max(shared, cosine or 0.0))))
    return tuple(sorted(found, key=lambda each: (-each.likeness, each.id)))


def topical(asked: str, topic: str) -> float:
    """How far a question is about a topic by its name, 0..1: the share of both their words that they have in common."""
    one, other = (_words(text.replace("_", " ")) for text in (asked, topic))
    return 2 * len(one & other) / ((len(one) + len(other)) or 1)


def _words(text: str) -> frozenset[str]:
    words = (match.group().casefold() for match in _WORD.finditer(text))
    return frozenset(word[:_STEM] for word, _ in zip(words, range(MOST_WORDS), strict=False) if word not in COMMON)
