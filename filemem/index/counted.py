"""How many records hold a term, of those that the disk index still answers with.

Rule: a record that was edited or removed counts no more, though the disk index keeps it until it merges: in a small
memory that is edited often its words would soon seem common, and scores hang on what was there before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from filemem.index import keyword
from filemem.index.keyword import Words
from filemem.index.plan import Clause


class Counted:
    """The statistics of a disk index; see `pending.Statistics`.

    Args:
        words: None where nothing was built yet.
        hidden: paths whose documents on disk are no longer right.
    """

    def __init__(self, words: Words | None, hidden: Collection[str]) -> None:
        self._words = words
        self._without = [keyword.must_not(words.one_of(keyword.PATH, hidden))] if words and hidden else []
        self.total = words.total if words else 0
        self.average: Mapping[str, float] = words.average if words else {}
        self.docs = words.count(keyword.both(keyword.everything(), self._without)) if words else 0
        self._holding: dict[tuple[str, str], int] = {}

    def having(self, field: str, term: str) -> int:
        """Return how many documents the disk index itself counts for a term, stale ones included."""
        return self._words.having(field, term) if self._words else 0

    def holding(self, field: str, term: str) -> int:
        """Return how many documents hold a term that are still right."""
        if self._words is None or self.docs == self.total or not self.having(field, term):
            return self.having(field, term)
        if (field, term) not in self._holding:
            self._holding[field, term] = self._words.holding(Clause(field, (term,)), self._without)
        return self._holding[field, term]
