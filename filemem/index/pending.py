"""Records that are not yet in the disk index, scored so that nobody can tell. Pure but for the analyser it is given."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from filemem.documents import Doc
from filemem.index import bm25
from filemem.index.plan import FIELDS, Analyze, Clause, Plan
from filemem.index.reading import normal
from filemem.query import one_slip


class Statistics(Protocol):
    """What scoring must know of all documents of the disk index."""

    @property
    def total(self) -> int:
        """Number of documents that the disk index counts, stale ones included."""

    @property
    def docs(self) -> int:
        """Number of documents that are still right."""

    @property
    def average(self) -> Mapping[str, float]:
        """Text field -> mean length in tokens."""

    def having(self, field: str, term: str) -> int:
        """Number of documents with `term` in `field` that the disk index counts, stale ones included."""

    def holding(self, field: str, term: str) -> int:
        """Number of those that are still right."""


class Pending(NamedTuple):
    """A record of the fresh folder, its texts read."""

    doc: Doc
    tokens: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, Mapping[str, int]]


def read(doc: Doc, analyze: Analyze) -> Pending:
    """Return a document with its texts read as the disk index reads them."""
    texts = {name: normal(text) for name, text in parts(doc).items()}
    tokens = {name: tuple(analyze(way, texts[part])) for name, (part, way, _) in FIELDS.items()}
    return Pending(doc, tokens, {name: Counter(found) for name, found in tokens.items()})


def parts(doc: Doc) -> dict[str, str]:
    """Return the texts of a document by the names that the field table uses."""
    return {"title": doc.title, "topic": doc.topic, "body": doc.body}


_BODY = tuple(field for field, (part, _, _) in FIELDS.items() if part == "body")


class Scorer:
    """Scores pending records, and says how the disk index must weigh its own terms, for one query.

    Args:
        disk: statistics of the disk index.
        pending: all pending records, those that do not match included.
    """

    def __init__(self, disk: Statistics, pending: Iterable[Pending]) -> None:
        self._disk = disk
        self._pending = tuple(pending)
        self._total = disk.docs + len(self._pending)
        self._average: dict[str, float] = {}

    def boost(self, clause: Clause) -> float:
        """Return the weight that makes the disk index score a clause as if it held just what is right.

        0 where no document of the disk index can match.
        """
        counts = [self._disk.having(clause.field, term) for term in clause.terms]
        if not all(counts):
            return 0.0
        if not self._pending and self._disk.docs == self._disk.total:
            return clause.boost
        return self._idf(clause) / sum(bm25.idf(self._disk.total, count) for count in counts)

    def unknown(self, clauses: Iterable[Clause]) -> bool:
        """Say whether no record holds any of some terms."""
        return not any(self._having(clause.field, term) for clause in clauses for term in clause.terms)

    def spellings(self, field: str, word: str) -> dict[str, int]:
        """Return the terms of the pending records that are one slip away from a word, with their frequency."""
        return Counter(term for one in self._pending for term in one.counts[field] if one_slip(word, term))

    def rarity(self, clauses: Iterable[Clause]) -> float:
        """Return the weight of a word by the rarest of its forms that stands in any text."""
        counts = [self._having(clause.field, term) for clause in clauses for term in clause.terms if clause.boost > 0]
        return bm25.idf(self._total, min((count for count in counts if count), default=0))

    def whole(self, plan: Plan) -> float:
        """Return the score of a text of usual length that has every word of a plan once."""
        return sum(
            self.rarity(of) * max((one.boost for one in of if one.field == field), default=0.0)
            for _, of in plan.words
            for field in _BODY
        )

    def scores(self, plan: Plan, among: Iterable[Pending]) -> list[tuple[Pending, float]]:
        """Return (record, score) of each of some pending records that holds a word of `plan`."""
        clauses = [(clause, self._idf(clause)) for clause in plan.scored]
        found = []
        for one in among:
            score = sum(weight * self._weight(clause, one) for clause, weight in clauses)
            if score > 0:
                found.append((one, score))
        return found

    def _idf(self, clause: Clause) -> float:
        """Return the boosted rarity of a clause among all documents; of a phrase that of its terms together."""
        having = (self._having(clause.field, term) for term in clause.terms)
        return clause.boost * sum(bm25.idf(self._total, count) for count in having)

    def _having(self, field: str, term: str) -> int:
        return self._disk.holding(field, term) + sum(term in one.counts[field] for one in self._pending)

    def _weight(self, clause: Clause, one: Pending) -> float:
        times = frequency(clause, one)
        if not times:
            return 0.0
        return bm25.weight(times, len(one.tokens[clause.field]), self._mean_length(clause.field))

    def _mean_length(self, name: str) -> float:
        if name not in self._average:
            known = self._disk.average.get(name, 0.0) * self._disk.total
            ours = sum(len(one.tokens[name]) for one in self._pending)
            self._average[name] = (known + ours) / (self._disk.total + len(self._pending))
        return self._average[name]


def admits(plan: Plan, one: Pending) -> bool:
    """Say whether a record has what a query requires and nothing that it excludes."""

    def has(group: tuple[Clause, ...]) -> bool:
        return any(frequency(clause, one) for clause in group)

    return all(map(has, plan.required)) and not any(map(has, plan.excluded))


def frequency(clause: Clause, one: Pending) -> int:
    """Return how often the terms of a clause stand in a row in a record."""
    if len(clause.terms) == 1:
        return one.counts[clause.field].get(clause.terms[0], 0)
    if not all(term in one.counts[clause.field] for term in clause.terms):
        return 0
    tokens, size = one.tokens[clause.field], len(clause.terms)
    return sum(tokens[at : at + size] == clause.terms for at in range(len(tokens) - size + 1))
