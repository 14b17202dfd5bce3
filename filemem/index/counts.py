"""How often the words of a question stand in documents: the counts of one index, and of several added up.

Rule: what a word is worth follows from these counts alone, so candidates of several indexes are on one scale if each
index is given the counts of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Counts(NamedTuple):
    """Counts of the terms of one question, as `index.words.Words` has those of all."""

    total: int = 0  # documents
    held: Mapping[tuple[str, str], int] = {}  # (field, term) -> documents that hold it
    sizes: Mapping[str, tuple[int, float]] = {}  # field -> documents and their tokens, as far as that is known

    def having(self, field: str, term: str) -> int:
        """Return how many documents hold a term in a field; 0 for one that was not counted."""
        return self.held.get((field, term), 0)

    def usual(self, field: str, _terms: Iterable[str]) -> float:
        """Return how many tokens a document has in a field, on average; 0 if that is not known."""
        documents, tokens = self.sizes.get(field, (0, 0.0))
        return tokens / documents if documents else 0.0


def added(parts: Iterable[Counts]) -> Counts:
    """Return the counts of all parts together."""
    total, held, sizes = 0, Counter[tuple[str, str]](), dict[str, tuple[int, float]]()
    for part in parts:
        total += part.total
        held.update(part.held)
        for field, (documents, tokens) in part.sizes.items():
            before = sizes.get(field, (0, 0.0))
            sizes[field] = before[0] + documents, before[1] + tokens
    return Counts(total, held, sizes)
