"""Comparing a query with documents by meaning, or saying in words why that is not possible.

Rule: a missing or foreign model never fails a search; it raises `ModelUnavailable`, whose message the answer carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from filemem.index import vector
from filemem.index.embed import BundledModel, Embedder, ModelUnavailable, Wording
from filemem.index.generation import Generation
from filemem.index.keyword import key
from filemem.index.pending import Pending
from filemem.index.reading import clean

if TYPE_CHECKING:
    from filemem.index.rows import Floats, Rows
    from filemem.index.vector import Ranking

REBUILD = "run `filemem index`"  # what to do about vectors that are missing
GRAPH_QUERY = 3  # the query of a process that first uses graphs: importing usearch costs more than comparing all rows


class Nearness(NamedTuple):
    """One query against the generation in use, and against the pending records."""

    disk: Ranking | None
    pending: Ranking | None


class Meaning:
    """The embedder and the vectors that a process has open.

    Args:
        model: None where none is wanted.
    """

    def __init__(self, model: Embedder | None) -> None:
        self.model = model
        self._segments = vector.Segments()
        self._queries = 0
        self._one_at_a_time = Lock()
        self._pending: Rows | None = None  # of all that were pending when last asked

    def rank(self, text: str, generation: Generation | None, pending: Sequence[Pending]) -> Nearness:
        """Return how near the documents are to a text.

        Raises:
            ModelUnavailable: they can not be compared; the message says why.
            IndexDamaged: the vectors on disk are not what they should be.
        """
        with self._one_at_a_time:
            return self._rank(text, generation, pending)

    def wording(self, words: Mapping[str, float]) -> Wording | None:
        """Return the words of a query, each with its weight, ready to be looked for; None where the model cannot."""
        plain = {clean(word): weight for word, weight in words.items()}
        return self.model.wording(plain) if isinstance(self.model, BundledModel) else None

    def telling(self, words: Sequence[str]) -> Mapping[str, float]:
        """Return how much each of some words tells in any text, 0..1; nothing where the model cannot say."""
        return self.model.telling({word: clean(word) for word in words}) if isinstance(self.model, BundledModel) else {}

    def lacks(self, generation: Generation | None) -> str:
        """Return why no text can be compared with a generation's documents and what to do, or ""; asks the model."""
        try:
            self._encoded("memory", generation)
        except ModelUnavailable as error:
            return error.told
        return ""

    def rest(self) -> None:
        """Let go of memory that the next query can read again from the files."""
        with self._one_at_a_time:
            self._segments.rest()
            if isinstance(self.model, BundledModel):
                self.model.rest()

    def _rank(self, text: str, generation: Generation | None, pending: Sequence[Pending]) -> Nearness:
        model, query = self._encoded(text, generation)
        if not query.any():
            raise ModelUnavailable("the embedding model knows no word of the query")
        self._queries += 1
        return Nearness(
            self._segments.rank(generation, query, self._queries >= GRAPH_QUERY) if generation else None,
            vector.rank_rows(self._rows_of(pending, model), query) if pending else None,
        )

    def _encoded(self, text: str, generation: Generation | None) -> tuple[Embedder, Floats]:
        """The model is asked before its name is compared: an index cannot be rebuilt for one that is not there."""
        if self.model is None:
            raise ModelUnavailable("no embedding model is configured")
        query = self.model.encode([clean(text)])[0]
        if generation and generation.seal.docs and generation.seal.model != self.model.name:
            made = f"come from the model {generation.seal.model}" if generation.seal.model else "are not made yet"
            raise ModelUnavailable(f"the vectors {made}; the index must be rebuilt for {self.model.name}", REBUILD)
        return self.model, query

    def _rows_of(self, pending: Sequence[Pending], model: Embedder) -> Rows:
        """The vectors of the pending records: each is embedded once, and all are one part, as each part costs time."""
        waiting = {key(one.doc.blob): one.doc for one in pending}
        parts = [] if self._pending is None else [self._pending]
        known = {number for part in parts for number in part.keys.tolist()}
        if self._pending is None or known != waiting.keys():
            new = [(number, doc.title, doc.passages) for number, doc in waiting.items() if number not in known]
            parts += [vector.embed(new, model)] if new else []
            self._pending = vector.merged(parts, waiting)
        return self._pending
