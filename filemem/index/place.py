"""Search an index: the best records for a query, and the records nearest to a new one.

Filters apply during retrieval, so an answer is short only if no more records match. A record that
the caches lack is scored from its row with the score that they would give it. `degraded` says what
an answer lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.chain import Node
from filemem.index import plan, words
from filemem.index.caches import CachedReader
from filemem.index.chains import Row
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.plan import QueryPlan
from filemem.index.words import (
    MUST,
    SHOULD,
    TermCounts,
    WordIndex,
    build_match_all_query,
    restrict_query,
)
from filemem.query import FEW_RECORDS, Candidate, Filter, Terms, list_best_positions

if TYPE_CHECKING:
    from filemem.index.model import Floats
    from filemem.index.vectors import Ranking, VectorSet

NO_MODEL = "no embedding model is configured"
_MAX_LISTED_NUMBERS = 2_000  # up to so many allowed records go into the query for Tantivy

KnownRecord = Row | Candidate  # a record with the facts that follow from all others


class CandidateSet(NamedTuple):
    """Candidates in no particular order."""

    candidates: tuple[Candidate, ...]
    degraded: str | None  # why the answer is incomplete; None if it is complete
    full_score: float = 0.0  # BM25 of a text of usual length that has each word of the query once


def search_with_predecessors(
    search: Callable[[Filter], CandidateSet], record_filter: Filter
) -> CandidateSet:
    """Return what a search finds; if the filter asks for live records only, also other ones.

    The caller needs these because they may lead to a live record.
    """
    answer = search(record_filter)
    if not record_filter.live:
        return answer
    all_candidates = search(record_filter._replace(live=False)).candidates + answer.candidates
    by_path = {candidate.path: candidate for candidate in all_candidates}
    return answer._replace(candidates=tuple(by_path.values()))


class Neighbour(NamedTuple):
    """A record near to a new one."""

    node: Node
    text_cosine: float  # of the new text and the nearest passage
    title_cosine: float  # of both titles


class PreparedQuery(NamedTuple):
    """A query with the weights of its words and the vectors that it is compared with."""

    terms: Terms
    plan: QueryPlan
    counts: WordIndex | TermCounts
    ranking: Ranking | None  # None to search by words only

    def select_best(
        self, rows: Sequence[Row], word_scores: Mapping[int, float], depth: int
    ) -> CandidateSet:
        """Return the `depth` most promising of some records with these scores by words."""
        cosines = self.ranking.compute_cosines(word_scores) if self.ranking else {}
        scores: list[tuple[float, float | None, float | None]] = []
        for row in rows:
            number = row.number
            text_cosine, title_cosine = cosines.get(number, (None, None))
            scores.append((word_scores[number], text_cosine, title_cosine))
        positions = list_best_positions(scores, depth)
        best_numbers = [rows[position].number for position in positions]
        word_matches = self._compute_word_matches(best_numbers)
        candidates = []
        for position in positions:
            row = rows[position]
            candidate = Candidate(
                row.node,
                row.blob,
                *scores[position],
                word_matches.get(row.number),
                row.facts,
            )
            candidates.append(candidate)
        full_score = plan.compute_full_score(self.plan, self.counts)
        return CandidateSet(tuple(candidates), degraded=None, full_score=full_score)

    def _compute_word_matches(self, numbers: Sequence[int]) -> dict[int, float]:
        """Return how well each record has the words of the query, or words of like meaning."""
        if not self.ranking or not self.plan.words:
            return {}
        word_weights = {}
        for word, clauses in self.plan.words:
            word_weights[word] = plan.compute_rarity(clauses, self.counts) ** 0.5
        return self.ranking.compute_word_matches(numbers, word_weights, self.terms.alternatives)


class _SearchRequest(NamedTuple):
    """A query with what its filter allows now."""

    plan: QueryPlan
    ranking: Ranking | None  # None to search by words only
    depth: int
    allowed_numbers: set[int] | None  # what its filter allows; None for all
    hidden_numbers: set[int]  # cached records that it must not find
    uncached_numbers: list[int]  # records that it may find and that the caches lack
    counts: TermCounts | None = None  # of several indexes together
    uses_words: bool = True


class IndexSearcher(CachedReader):
    """The index of a store, open for questions."""

    # one query

    def count_query_terms(self, terms: Terms) -> TermCounts:
        """Return how many documents have each form of the words of a query."""
        with self._search_snapshot():
            query_plan = plan.build_plan(terms)
            term_counts = self._read_term_counts(query_plan)
            if isinstance(term_counts, TermCounts):
                return term_counts
            return plan.read_counts(term_counts, query_plan)

    def _read_term_counts(self, query_plan: QueryPlan) -> WordIndex | TermCounts:
        """Return the counts that weigh words: of the caches, or else of all rows."""
        if self._caches.is_usable or not self._uncached_numbers:
            return self._caches.words
        documents = (self._read_tokens(number) for number in self._uncached_numbers)
        return plan.count_terms(query_plan, documents)

    def search_candidates(
        self,
        terms: Terms,
        record_filter: Filter | None = None,
        depth: int = 100,
        *,
        mode: str = "hybrid",
        counts: TermCounts | None = None,
    ) -> CandidateSet:
        """Return the best records by words and by meaning.

        Args:
            terms: of the query.
            record_filter: what may be found; None for all.
            depth: how many records at most.
            mode: hybrid, keyword or vector.
            counts: of several indexes together, which makes their scores comparable.
        """
        with self._search_snapshot():
            term_counts = counts or self._read_term_counts(plan.build_plan(terms))
            terms = self._drop_needless_synonyms(terms, term_counts)
            ranking, degraded = self._try_ranking(terms, mode)
            word_weights = None
            if ranking:
                word_weights = ranking.table.compute_word_weights(_list_phrases(terms))
            query_plan = plan.build_plan(terms, word_weights)
            request = self._build_request(query_plan, record_filter or Filter(), depth, ranking)
            uses_words = mode != "vector" or ranking is None
            request = request._replace(counts=counts, uses_words=uses_words)
            scores = self._search_caches(request)
            scores.update(self._score_uncached(request, term_counts))
            rows = self._database.read_rows("number", scores)
            query = PreparedQuery(terms, query_plan, term_counts, ranking)
            answer = query.select_best(rows, scores, depth)
            return answer._replace(degraded=degraded)

    def _try_ranking(self, terms: Terms, mode: str) -> tuple[Ranking | None, str | None]:
        """Return the ranking by meaning, if there is one, and what the answer lacks."""
        if mode == "keyword" or not terms.text.strip():
            return None, self._describe_gap(mode)
        try:
            ranking = self._build_query_ranking(terms)
        except ModelUnavailable as error:
            return None, f"{error.one_line}; only words were searched"
        return ranking, self._describe_gap(mode)

    def _build_request(
        self, query_plan: QueryPlan, record_filter: Filter, depth: int, ranking: Ranking | None
    ) -> _SearchRequest:
        barred_rows = self._database.read_barred_rows(record_filter.reader)
        barred_numbers = {row.number for row in barred_rows}
        allowed_numbers = self._database.read_allowed_numbers(record_filter)
        uncached_numbers = self._uncached_numbers - barred_numbers
        if allowed_numbers is not None:
            uncached_numbers &= allowed_numbers
        return _SearchRequest(
            plan=query_plan,
            ranking=ranking,
            depth=depth,
            allowed_numbers=allowed_numbers,
            hidden_numbers=self._masked_numbers | barred_numbers,
            uncached_numbers=list(uncached_numbers),
        )

    def _drop_needless_synonyms(self, terms: Terms, term_counts: WordIndex | TermCounts) -> Terms:
        """Return a query without synonyms if it is one word that few records have."""
        if not terms.alternatives or not terms.is_word:
            return terms
        own_clauses: list[words.Clause] = []
        for _, clauses in plan.build_plan(terms).words:
            own_clauses += clauses
        document_count = 0
        for clause in own_clauses:
            count = term_counts.get_document_count(clause.field, clause.terms[0])
            document_count = max(document_count, count)
        if self._caches.is_usable:
            for number in self._uncached_numbers:
                tokens = self._read_tokens(number)
                document_count += plan.has_any_clause(own_clauses, tokens)
        if 0 < document_count <= FEW_RECORDS:
            return terms._replace(alternatives=())
        return terms

    def _build_query_ranking(self, terms: Terms) -> Ranking:
        """Return the ranking of all records by a query. Raises ModelUnavailable."""
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        query = self.model.table.build_query_vector(terms)
        if not query.any():
            raise ModelUnavailable("the embedding model knows no word of the query")
        return self._build_ranking(self.model, query)

    def _build_ranking(self, model: Model, query: Floats) -> Ranking:
        from filemem.index import vectors

        numbers = frozenset(self._uncached_numbers)
        if self._uncached_vectors is None or self._uncached_vectors[0] != numbers:
            packs = self._database.read_packs(numbers)
            self._uncached_vectors = numbers, vectors.unpack_documents(packs)
        parts: list[tuple[VectorSet, Any]] = list(self._caches.load_parts())
        parts.append((self._uncached_vectors[1], None))
        filled_parts = [part for part in parts if len(part[0].keys)]
        return vectors.Ranking(filled_parts, query, model.table)

    def find_nearest(
        self, title: str, text: str, count: int, ids: Collection[str]
    ) -> list[Neighbour]:
        """Compare a title and a text with the `count` nearest records, and with some others by id.

        Raises:
            ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        text_vector, title_vector = self.model.encode([text, title])
        with self._search_snapshot() as database:
            ranking = self._build_ranking(self.model, text_vector)
            masked_numbers = self._masked_numbers
            nearest = ranking.find_nearest(count + len(masked_numbers))
            numbers = [number for number in nearest if number not in masked_numbers]
            compared_rows = database.read_rows("number", numbers[:count])
            if ids:
                compared_rows += database.read_rows("id", ids)
            nodes = {row.number: row.node for row in compared_rows if row.is_visible}
            cosines = ranking.compute_cosines(nodes, title_vector)
            neighbours = []
            for number, (text_cosine, title_cosine) in cosines.items():
                neighbours.append(Neighbour(nodes[number], text_cosine, title_cosine))
            return neighbours

    def find_neighbours(
        self, texts: Sequence[str], record_filter: Filter, count: int
    ) -> list[list[Candidate]]:
        """Return for each text `count` near records, compared by meaning only and all at once.

        Args:
            texts: words with spaces between them.
            record_filter: what may be found.
            count: of records for each text.

        Raises:
            ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        if not texts:
            return []
        queries = self.model.encode(texts)
        with self._search_snapshot() as database:
            numbers = database.read_allowed_numbers(record_filter) or set()
            barred_rows = database.read_barred_rows(record_filter.reader)
            numbers.difference_update(row.number for row in barred_rows)
            rows = {row.number: row for row in database.read_rows("number", numbers)}
            ranking = self._build_ranking(self.model, queries[0])
            results = []
            for nearest in ranking.iter_neighbours(queries, texts, numbers, count):
                candidates = []
                for number, scores in nearest:
                    row = rows[number]
                    candidates.append(Candidate(row.node, row.blob, 0.0, *scores))
                results.append(candidates)
            return results

    def _search_caches(self, request: _SearchRequest) -> dict[int, float]:
        """Return the best cached records by words and by meaning, with their scores by words."""
        cached_words = self._caches.words
        query = plan.build_query(request.plan, cached_words, request.counts)
        restriction = request.plan.build_restriction(cached_words)
        scores: dict[int, float] = {}
        if query is not None and request.uses_words:
            scores = self._search_words(request, restrict_query(query, restriction))
        if request.ranking is None:
            return scores
        nearest = self._find_nearest_cached(request, restriction, request.ranking)
        if nearest:
            scoring = list(restriction)
            if query is not None:
                scoring.append((SHOULD, query))
            number_query = cached_words.build_number_query(nearest)
            scores.update(cached_words.search(restrict_query(number_query, scoring), len(nearest)))
        return scores

    def _search_words(self, request: _SearchRequest, query: words.WordQuery) -> dict[int, float]:
        """Return the best cached records by words, with their scores."""
        cached_words = self._caches.words
        allowed_numbers = request.allowed_numbers
        if allowed_numbers is not None and len(allowed_numbers) <= _MAX_LISTED_NUMBERS:
            number_query = cached_words.build_number_query(allowed_numbers)
            query = restrict_query(query, [(MUST, number_query)])
        limit = request.depth
        while True:
            hits = cached_words.search(query, limit)
            kept_numbers = [number for number in hits if self._is_allowed(request, number)]
            if len(kept_numbers) >= request.depth or len(hits) < limit:
                return {number: hits[number] for number in kept_numbers[: request.depth]}
            limit *= 4

    def _is_allowed(self, request: _SearchRequest, number: int) -> bool:
        """Whether a request may find a cached record."""
        if request.allowed_numbers is not None and number not in request.allowed_numbers:
            return False
        return number not in request.hidden_numbers and number not in self._uncached_numbers

    def _find_nearest_cached(
        self, request: _SearchRequest, restriction: words.Restriction, ranking: Ranking
    ) -> list[int]:
        """Return the cached records nearest by meaning, nearest first."""
        depth = request.depth
        if request.allowed_numbers is None and not restriction:
            skipped_count = len(request.hidden_numbers) + len(self._uncached_numbers)
            nearest = ranking.find_nearest(depth + skipped_count)
            return [number for number in nearest if self._is_allowed(request, number)][:depth]
        pool: Iterable[int] = request.allowed_numbers or ()
        if restriction:
            cached_words = self._caches.words
            restricted_query = restrict_query(build_match_all_query(), restriction)
            pool = cached_words.search(restricted_query, cached_words.total)
        allowed = [number for number in pool if self._is_allowed(request, number)]
        return _list_nearest(ranking, allowed, depth)

    def _score_uncached(
        self, request: _SearchRequest, term_counts: WordIndex | TermCounts
    ) -> dict[int, float]:
        """Return the best records that the caches lack, with their scores by words."""
        scores: dict[int, float] = {}
        for number in request.uncached_numbers:
            tokens = self._read_tokens(number)
            if not plan.is_match(request.plan, tokens):
                continue
            score = plan.bm25(request.plan, tokens, term_counts)
            if request.ranking or score > 0:
                scores[number] = score
        if len(scores) <= 2 * request.depth:
            return scores
        best_by_words = sorted(scores, key=scores.__getitem__, reverse=True)
        best = set(best_by_words[: request.depth])
        if request.ranking:
            best.update(_list_nearest(request.ranking, scores, request.depth))
        return {number: scores[number] for number in best}

    # listings

    def read_newest_nodes(
        self,
        record_filter: Filter | None = None,
        limit: int = 10,
        offset: int = 0,
        *,
        excluding_terms: Terms | None = None,
    ) -> list[Node]:
        """Return the nodes of the newest records, newest first, undated ones last.

        Records that have an excluded word of `excluding_terms` are skipped.
        """
        record_filter = record_filter or Filter()
        if excluding_terms is None or not excluding_terms.excluded:
            with self._current_database() as database:
                rows = database.read_newest_rows(record_filter, limit, offset)
                return [row.node for row in rows]
        with self._search_snapshot() as database:
            numbers = self._find_excluded_numbers(plan.build_plan(excluding_terms))
            rows = database.read_newest_rows(record_filter, limit, offset, numbers)
            return [row.node for row in rows]

    def _find_excluded_numbers(self, query_plan: QueryPlan) -> set[int]:
        """Return the records that have what a query excludes."""
        cached_words = self._caches.words
        numbers: set[int] = set()
        for group in query_plan.excluded_groups:
            query = cached_words.build_any_query(group)
            if query:
                numbers.update(cached_words.search(query, cached_words.total))
        for number in self._uncached_numbers:
            if not plan.is_match(query_plan, self._read_tokens(number)):
                numbers.add(number)
        return numbers


def _list_phrases(terms: Terms) -> list[str]:
    """Return the words of a query and their synonyms."""
    phrases = list(terms.words)
    for alternative in terms.alternatives:
        phrases += [phrase for phrase, _ in alternative.substitutes]
    return phrases


def _list_nearest(ranking: Ranking, numbers: Iterable[int], count: int) -> list[int]:
    """Return the records whose passages are nearest to the query, nearest first."""
    cosines = ranking.compute_cosines(numbers)

    def get_text_cosine(number: int) -> float:
        return cosines[number][0]

    return sorted(cosines, key=get_text_cosine, reverse=True)[:count]
