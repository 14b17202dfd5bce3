"""The words of one generation, open for questions. Rule: user text is looked up, never parsed."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tantivy
from tantivy import Occur, Query

from filemem.index.generation import IndexDamaged
from filemem.index.keyword.layout import CREATED, KEY, STORED, Border, Stored, exact, unpacked
from filemem.index.plan import Clause, Plan
from filemem.query import one_slip

_MOST_TERMS = 20_000  # looked through for one misspelt word

Address = tuple[int, int]  # segment, document
Restriction = list[tuple[Occur, Query]]


class Match(NamedTuple):
    """One document found in the disk index and what it scored."""

    address: Address
    score: float
    handle: tantivy.DocAddress


class Words:
    """The words of one generation, open for reading.

    Args:
        folder: the generation's words, compared with their checksums before.
        total, average: what the seal says (see `Seal`).

    Raises:
        IndexDamaged: Tantivy refuses them.
    """

    def __init__(self, folder: Path, total: int, average: Mapping[str, float]) -> None:
        self.total, self.average = total, average
        with Border():
            index = tantivy.Index.open(str(folder))
            index.config_reader("manual", 0)  # the default policy polls, and its reload blocks for 100 ms
            self._searcher = index.searcher()
            self._schema = index.schema
        self._having: dict[tuple[str, str], int] = {}

    def having(self, field: str, term: str) -> int:
        """Return how many documents hold a term, removed ones that are not merged away included."""
        found = self._having.get((field, term))
        if found is None:
            with Border():
                found = self._having[field, term] = self._searcher.doc_freq(field, term)
        return found

    def holding(self, clause: Clause, limits: Restriction) -> int:
        """Return how many documents hold a clause under a restriction, without those that were removed."""
        return (
            self.count(both(_silent(self._clause(clause)), limits)) if self.having(clause.field, clause.terms[0]) else 0
        )

    # queries

    def word_query(self, plan: Plan, boosts: Mapping[Clause, float]) -> Query | None:
        """Return the scoring query of a plan; None where no document can match.

        Args:
            boosts: weight of each clause; what has 0 is left out.
        """
        required = [self._any(group, boosts) for group in plan.required]
        wanted = self._any(tuple(c for c in plan.scored if not _required(plan, c)), boosts)
        if any(query is None for query in required) or not (required or wanted):
            return None
        clauses = [(Occur.Must, query) for query in required if query]
        if wanted:
            clauses.append((Occur.Should if required else Occur.Must, wanted))
        return Query.boolean_query(clauses)

    def restriction(self, plan: Plan) -> Restriction:
        """Return what a plan demands of every hit, the ones found by meaning too, without any score."""
        demands = [(Occur.Must, _silent(self._any(group) or Query.empty_query())) for group in plan.required]
        excluded = [self._any(group) for group in plan.excluded]
        demands += [(Occur.MustNot, query) for query in excluded if query]
        return demands

    def one_of(self, field: str, values: Iterable[str | int]) -> Query:
        """Return a query for documents with any of the exact values, without any score."""
        wanted = list(dict.fromkeys(map(exact, values)))
        if not wanted:
            return Query.empty_query()
        if len(wanted) > 200:  # beyond that one automaton is cheaper than many terms
            return _silent(Query.term_set_query(self._schema, field, wanted))
        terms = [(Occur.Should, Query.term_query(self._schema, field, value, "basic")) for value in wanted]
        return _silent(Query.boolean_query(terms))

    def between(self, since: int | None, until: int | None) -> Query:
        """Return a query for documents created in a span (epoch ms, both ends inclusive)."""
        low, high = (None if at is None else max(-(2**63), min(at, 2**63 - 1)) for at in (since, until))
        span = Query.range_query(self._schema, CREATED, tantivy.FieldType.Integer, low, high)
        return _silent(span)

    # answers

    def search(self, query: Query, limit: int) -> list[Match]:
        """Return the best matches."""
        with Border():
            hits = self._searcher.search(query, max(1, limit), count=False).hits
        return [Match((at.segment_ord, at.doc), score, at) for score, at in hits]

    def newest(self, query: Query, limit: int) -> list[Match]:
        """Return the matches that were created last, newest first."""
        with Border():
            hits = self._searcher.search(query, max(1, limit), count=False, order_by_field=CREATED).hits
        return [Match((at.segment_ord, at.doc), 0.0, at) for _, at in hits]

    def count(self, query: Query) -> int:
        """Return the number of matches."""
        with Border():
            found: int = self._searcher.search(query, 1, count=True).count  # type: ignore[attr-defined]  # not in the stubs
        return found

    def keys(self, matches: Sequence[Match]) -> list[int]:
        """Return what the vectors of each match are filed under."""
        with Border():
            values = self._searcher.fast_field_values(KEY, [match.handle for match in matches])
        return [int(value or 0) for value in values]

    def stored(self, matches: Sequence[Match]) -> list[Stored]:
        """Return the documents of matches."""
        with Border():
            raw = [self._searcher.doc(match.handle).get_first(STORED) for match in matches]
        try:
            return [unpacked(bytes(data or b"")) for data in raw]
        except ValueError as error:
            raise IndexDamaged("a stored document is unreadable") from error

    def spellings(self, field: str, word: str) -> dict[str, int]:
        """Return the terms of a field that begin with the same letter and are one slip away, with their frequency."""
        with Border():
            listed = self._searcher.terms_with_prefix(field, word[:1], None, _MOST_TERMS)
        return {term: count for term, count in listed if one_slip(word, term)}

    def terms(self, field: str, prefix: str, query: Query | None = None) -> list[tuple[str, int]]:
        """Return (term, number of documents) of an exact field, in order.

        Args:
            query: counts only documents that match; without it removed ones may still count.
        """
        with Border():
            return self._searcher.terms_with_prefix(field, str(exact(prefix)), query)

    def _any(self, clauses: Sequence[Clause], boosts: Mapping[Clause, float] | None = None) -> Query | None:
        queries = []
        for clause in clauses:
            boost = clause.boost if boosts is None else boosts.get(clause, 0.0)
            if boost and all(self.having(clause.field, term) for term in clause.terms):
                queries.append((Occur.Should, Query.boost_query(self._clause(clause), boost)))
        return Query.boolean_query(queries) if queries else None

    def _clause(self, clause: Clause) -> Query:
        if len(clause.terms) == 1:
            return Query.term_query(self._schema, clause.field, clause.terms[0], "freq")
        return Query.phrase_query(self._schema, clause.field, list(clause.terms))


def everything() -> Query:
    """Return the query that all documents match, without any score."""
    return _silent(Query.all_query())


def both(query: Query, restriction: Restriction) -> Query:
    """Return `query` under a restriction."""
    return Query.boolean_query([(Occur.Must, query), *restriction]) if restriction else query


def must(query: Query) -> tuple[Occur, Query]:
    """Return the part of a restriction that demands `query`."""
    return Occur.Must, query


def must_not(query: Query) -> tuple[Occur, Query]:
    """Return the part of a restriction that forbids `query`."""
    return Occur.MustNot, query


def should(query: Query) -> tuple[Occur, Query]:
    """Return the part of a restriction that demands nothing and adds what `query` scores."""
    return Occur.Should, query


def either(*queries: Query) -> Query:
    """Return the query that any of `queries` satisfies, without any score."""
    return _silent(Query.boolean_query([(Occur.Should, query) for query in queries]))


def _required(plan: Plan, clause: Clause) -> bool:
    return any(clause in group for group in plan.required)


def _silent(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)
