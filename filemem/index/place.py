"""What can be asked of an index: the best records for a query, and who is near to a new one.

Rule: restrictions hold inside retrieval, so an answer is short only where there is no more. What
the caches do not hold is scored from its row, as they would score it; what an answer lacks is said
in `degraded`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.chain import Node
from filemem.index import plan, words
from filemem.index.caches import Caches
from filemem.index.chains import Row
from filemem.index.database import Database
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.lookup import IndexReader
from filemem.index.plan import QueryPlan, TermCounts
from filemem.index.words import MUST, SHOULD, WordIndex, build_match_all_query, restrict_query
from filemem.query import FEW_RECORDS, Candidate, Filter, Terms, list_best_positions

if TYPE_CHECKING:
    from filemem.index.model import Floats
    from filemem.index.vectors import Ranking, VectorSet

NO_MODEL = "no embedding model is configured"
NOT_BUILT = "the search index is not built yet"
_MAX_LISTED_NUMBERS = 2_000  # allowed records that Tantivy is told of; more are compared here


KnownRecord = Row | Candidate  # a record with what follows for it from all others


class CandidateSet(NamedTuple):
    """Candidates in no particular order."""

    candidates: tuple[Candidate, ...]
    degraded: str | None  # why the answer is less than it could be, or None
    full_score: float = (
        0.0  # the BM25 of a text of usual length that has every word of the query once
    )


def search_with_predecessors(
    search: Callable[[Filter], CandidateSet], record_filter: Filter
) -> CandidateSet:
    """Return what is found and, where only what holds is asked for, also what leads to it."""
    answer = search(record_filter)
    if not record_filter.live:
        return answer
    all_candidates = (*search(record_filter._replace(live=False)).candidates, *answer.candidates)
    candidates = {candidate.path: candidate for candidate in all_candidates}
    return answer._replace(candidates=tuple(candidates.values()))


class Neighbour(NamedTuple):
    """A record beside a new one: cosines of that text and its nearest passage, and of titles."""

    node: Node
    text_cosine: float
    title_cosine: float


class PreparedQuery(NamedTuple):
    """A query with what its words are worth, and how near all records are to it."""

    terms: Terms
    plan: QueryPlan
    counts: WordIndex | TermCounts
    ranking: Ranking | None

    def select_best(
        self, rows: Sequence[Row], word_scores: Mapping[int, float], depth: int
    ) -> CandidateSet:
        """Return the most promising of some records with these scores by words."""
        cosines = self.ranking.compute_cosines(word_scores) if self.ranking else {}
        parts: list[tuple[float, float | None, float | None]] = [
            (word_scores[row.number], *cosines.get(row.number, (None, None))) for row in rows
        ]
        chosen = [(rows[index], parts[index]) for index in list_best_positions(parts, depth)]
        word_matches = dict[int, float]()
        if self.ranking and self.plan.words:  # how well, if only by a word of like meaning
            word_weights = {
                word: plan.compute_rarity(clauses, self.counts) ** 0.5
                for word, clauses in self.plan.words
            }
            word_matches = self.ranking.compute_word_matches(
                [row.number for row, _ in chosen], word_weights, self.terms.alternatives
            )
        candidates = (
            Candidate(row.node, row.blob, *scores, word_matches.get(row.number), row.facts)
            for row, scores in chosen
        )
        return CandidateSet(
            tuple(candidates), None, plan.compute_full_score(self.plan, self.counts)
        )


class _SearchRequest(NamedTuple):
    """One question made ready."""

    plan: QueryPlan
    ranking: Ranking | None  # None: by words alone
    depth: int
    allowed_numbers: set[int] | None  # the numbers that satisfy its filter; None: all do
    hidden_numbers: set[int]  # numbers that the caches hold and that are not to be found
    uncached_numbers: list[int]  # those that they do not hold, and that may be found
    counts: TermCounts | None = None  # of several indexes
    uses_words: bool = True


class IndexSearcher(IndexReader):
    """The index of a store, open for questions."""

    def _reset(self) -> None:
        super()._reset()
        self._caches = Caches(self.root)
        self._stamp = 0  # of what was read last
        self._missing_vector_count = 0
        self._masked_numbers: set[int] = set()
        self._uncached_numbers: set[int] = set()
        self._token_cache: dict[int, Mapping[str, Sequence[str]]] = {}  # of young records
        self._uncached_vectors: tuple[frozenset[int], VectorSet] | None = (
            None  # vectors of young records
        )

    @contextlib.contextmanager
    def _search_snapshot(self) -> Iterator[Database]:
        """The present state, with the caches as they are then. Raises IndexDamaged."""
        with self._lock:
            for may_retry in (True, False):  # once more, where another process moved them meanwhile
                self._open()
                with self._database.snapshot():
                    self._refresh_state()
                    if not (
                        may_retry and self._caches.is_damaged and self._caches.wait_for_update()
                    ):
                        yield self._database
                        return
                self._caches.invalidate()
                self._stamp = -1

    def _refresh_state(self) -> None:
        """Learn what was changed since the last question."""
        database = self._database
        stamp = database.stamp
        if stamp == self._stamp:
            return
        if self._caches.reopen_if_changed(database.read_state("caches") or "") or self._stamp <= 0:
            self._load_cache_state(database)
        else:
            self._apply_standing_changes(database)
        self._token_cache = {
            n: self._token_cache[n] for n in self._uncached_numbers if n in self._token_cache
        }
        self._missing_vector_count = database.count_missing_vectors()
        self._stamp = stamp

    def _load_cache_state(self, database: Database) -> None:
        """Learn what the caches hold, and what they do not."""
        is_usable = self._caches.is_usable
        self._masked_numbers = database.read_masked_numbers() if is_usable else set()
        self._uncached_numbers = (
            database.read_uncached_numbers() if is_usable else database.read_visible_numbers()
        )
        self._token_cache = {}

    def _apply_standing_changes(self, database: Database) -> None:
        """Learn of what changed since."""
        for number, is_visible, is_cached in database.read_standing_changes(self._stamp):
            self._masked_numbers.discard(number)
            self._uncached_numbers.discard(number)
            if is_cached and self._caches.is_usable:
                self._masked_numbers |= set() if is_visible else {number}
            elif is_visible:
                self._uncached_numbers.add(number)

    # one query

    def count_query_terms(self, terms: Terms) -> TermCounts:
        """Return how many documents hold each form of the words of a query."""
        with self._search_snapshot():
            query_plan = plan.build_plan(terms)
            term_counts = self._read_term_counts(query_plan)
            return (
                term_counts
                if isinstance(term_counts, TermCounts)
                else plan.read_counts(term_counts, query_plan)
            )

    def _read_term_counts(self, query_plan: QueryPlan) -> WordIndex | TermCounts:
        """What the words of a question are worth by: the cache or, without one, all rows."""
        if self._caches.is_usable or not self._uncached_numbers:
            return self._caches.words
        return plan.count_terms(query_plan, map(self._read_tokens, self._uncached_numbers))

    def search_candidates(
        self,
        terms: Terms,
        record_filter: Filter | None = None,
        depth: int = 100,
        *,
        mode: str = "hybrid",
        counts: TermCounts | None = None,
    ) -> CandidateSet:
        """Return the best `depth` records of so many by words and by meaning.

        `mode`: hybrid, keyword or vector; `counts` of several indexes make their scores comparable.
        """
        with self._search_snapshot():
            term_counts = counts or self._read_term_counts(plan.build_plan(terms))
            terms = self._drop_needless_synonyms(terms, term_counts)
            ranking, degraded = self._try_ranking(terms, mode)
            query_plan = plan.build_plan(
                terms, ranking.table.compute_word_weights(_list_phrases(terms)) if ranking else None
            )
            request = self._build_request(query_plan, record_filter or Filter(), depth, ranking)
            request = request._replace(
                counts=counts, uses_words=mode != "vector" or ranking is None
            )
            scores = self._search_caches(request) | self._score_uncached(request, term_counts)
            rows = self._database.read_rows("number", scores)
            answer = PreparedQuery(terms, query_plan, term_counts, ranking).select_best(
                rows, scores, depth
            )
            return answer._replace(degraded=degraded)

    def _try_ranking(self, terms: Terms, mode: str) -> tuple[Ranking | None, str | None]:
        """How near all records are to a query, and what the answer lacks."""
        if mode == "keyword" or not terms.text.strip():
            return None, self._describe_gap(mode)
        try:
            return self._build_query_ranking(terms), self._describe_gap(mode)
        except ModelUnavailable as error:
            return None, f"{error.one_line}; only words were searched"

    def _build_request(
        self, query_plan: QueryPlan, record_filter: Filter, depth: int, ranking: Ranking | None
    ) -> _SearchRequest:
        barred_numbers = {
            row.number for row in self._database.read_barred_rows(record_filter.reader)
        }
        allowed_numbers = self._database.read_allowed_numbers(record_filter)
        uncached_numbers = [
            number
            for number in self._uncached_numbers
            if number not in barred_numbers
            and (allowed_numbers is None or number in allowed_numbers)
        ]
        hidden_numbers = self._masked_numbers | barred_numbers
        return _SearchRequest(
            query_plan, ranking, depth, allowed_numbers, hidden_numbers, uncached_numbers
        )

    def _drop_needless_synonyms(self, terms: Terms, term_counts: WordIndex | TermCounts) -> Terms:
        """A query without what may be said instead, where it is one word that few records have."""
        if not (terms.alternatives and terms.is_word):
            return terms
        own_clauses = [clause for _, clauses in plan.build_plan(terms).words for clause in clauses]
        document_count = max(
            (
                term_counts.get_document_count(clause.field, clause.terms[0])
                for clause in own_clauses
            ),
            default=0,
        )
        if self._caches.is_usable:
            document_count += sum(
                self._has_any_clause(number, own_clauses) for number in self._uncached_numbers
            )
        return terms._replace(alternatives=()) if 0 < document_count <= FEW_RECORDS else terms

    def _has_any_clause(self, number: int, clauses: Iterable[words.Clause]) -> bool:
        tokens = self._read_tokens(number)
        return any(plan.count_matches(clause, tokens[clause.field]) for clause in clauses)

    def _read_tokens(self, number: int) -> Mapping[str, Sequence[str]]:
        """The tokens of a young record; all that are not in memory yet are read at once."""
        if number not in self._token_cache:
            exact_tokens = self._database.read_tokens(
                self._uncached_numbers - self._token_cache.keys()
            )
            self._token_cache |= {
                n: words.parse_exact_tokens(text) for n, text in exact_tokens.items()
            }
        return self._token_cache[number]

    def _build_query_ranking(self, terms: Terms) -> Ranking:
        """How near all records are to a query; raises `ModelUnavailable`."""
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        query = self.model.table.build_query_vector(terms)
        if not query.any():
            raise ModelUnavailable("the embedding model knows no word of the query")
        return self._build_ranking(self.model, query)

    def _build_ranking(self, model: Model, query: Floats) -> Ranking:
        from filemem.index import vectors

        uncached_numbers = frozenset(self._uncached_numbers)
        if self._uncached_vectors is None or self._uncached_vectors[0] != uncached_numbers:
            self._uncached_vectors = (
                uncached_numbers,
                vectors.unpack_documents(self._database.read_packs(uncached_numbers)),
            )
        parts: list[tuple[VectorSet, Any]] = [
            *self._caches.load_parts(),
            (self._uncached_vectors[1], None),
        ]
        return vectors.Ranking([part for part in parts if len(part[0].keys)], query, model.table)

    def find_nearest(
        self, title: str, text: str, count: int, ids: Collection[str]
    ) -> list[Neighbour]:
        """Compare a title and a text with the `count` nearest records, and with some others by id.

        Raises ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        content, heading = self.model.encode([text, title])
        with self._search_snapshot() as database:
            ranking = self._build_ranking(self.model, content)
            numbers = ranking.find_nearest(count + len(self._masked_numbers))
            numbers = [number for number in numbers if number not in self._masked_numbers][:count]
            all_rows = [
                *database.read_rows("number", numbers),
                *(database.read_rows("id", ids) if ids else []),
            ]
            rows = {row.number: row for row in all_rows if row.is_visible}
            cosines = ranking.compute_cosines(rows, heading)
            return [Neighbour(rows[number].node, *pair) for number, pair in cosines.items()]

    def find_neighbours(
        self, texts: Sequence[str], record_filter: Filter, count: int
    ) -> list[list[Candidate]]:
        """Return for each text `count` near records: all are compared at once, by meaning alone.

        A text is words with spaces between them. Raises ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        if not texts:
            return []
        queries = self.model.encode(texts)
        with self._search_snapshot() as database:
            numbers = database.read_allowed_numbers(record_filter) or set()
            numbers -= {row.number for row in database.read_barred_rows(record_filter.reader)}
            rows = {row.number: row for row in database.read_rows("number", numbers)}
            ranking = self._build_ranking(self.model, queries[0])
            results = list[list[Candidate]]()
            for nearest in ranking.iter_neighbours(queries, texts, numbers, count):
                pairs = ((rows[number], cosines) for number, cosines in nearest)
                results.append([Candidate(row.node, row.blob, 0.0, *parts) for row, parts in pairs])
            return results

    def _describe_gap(self, mode: str) -> str | None:
        """What the index lacks."""
        if not self._database.read_state("built"):
            return NOT_BUILT
        if not self._missing_vector_count or mode == "keyword":
            return None
        subject = (
            "1 record has"
            if self._missing_vector_count == 1
            else f"{self._missing_vector_count} records have"
        )
        return f"{subject} no vectors; run `filemem index`"

    def _search_caches(self, request: _SearchRequest) -> dict[int, float]:
        """The best that the caches hold, by words and by meaning: what each scores by words."""
        cached_words = self._caches.words
        query = plan.build_query(request.plan, cached_words, request.counts)
        restriction = request.plan.build_restriction(cached_words)
        scores = dict[int, float]()
        if query is not None and request.uses_words:
            scores = self._search_words(request, restrict_query(query, restriction))
        if request.ranking:
            nearest = self._find_nearest_cached(request, restriction)
            scoring = [*restriction, *([(SHOULD, query)] if query is not None else [])]
            number_query = restrict_query(cached_words.build_number_query(nearest), scoring)
            scores |= cached_words.search(number_query, len(nearest)) if nearest else {}
        return scores

    def _search_words(self, request: _SearchRequest, query: words.WordQuery) -> dict[int, float]:
        """The best by words."""
        allowed_numbers = request.allowed_numbers
        limit = request.depth
        if allowed_numbers is not None and len(allowed_numbers) <= _MAX_LISTED_NUMBERS:
            query = restrict_query(
                query, [(MUST, self._caches.words.build_number_query(allowed_numbers))]
            )
        while True:
            hits = self._caches.words.search(query, limit)
            kept_numbers = [number for number in hits if self._is_allowed(request, number)]
            if len(kept_numbers) >= request.depth or len(hits) < limit:
                return {number: hits[number] for number in kept_numbers[: request.depth]}
            limit *= 4

    def _is_allowed(self, request: _SearchRequest, number: int) -> bool:
        """Whether what the caches hold may be found."""
        passes_filter = request.allowed_numbers is None or number in request.allowed_numbers
        return (
            passes_filter
            and number not in request.hidden_numbers
            and number not in self._uncached_numbers
        )

    def _find_nearest_cached(
        self, request: _SearchRequest, restriction: words.Restriction
    ) -> list[int]:
        """The nearest by meaning that the caches hold."""
        ranking = request.ranking
        if not ranking:
            return []
        if request.allowed_numbers is None and not restriction:
            numbers = ranking.find_nearest(
                request.depth + len(request.hidden_numbers) + len(self._uncached_numbers)
            )
            return [n for n in numbers if self._is_allowed(request, n)][: request.depth]
        cached_words = self._caches.words
        pool: Iterable[int] = request.allowed_numbers or ()
        if restriction:
            pool = cached_words.search(
                restrict_query(build_match_all_query(), restriction), cached_words.total
            )
        cosines = ranking.compute_cosines(
            number for number in pool if self._is_allowed(request, number)
        )
        return sorted(cosines, key=lambda number: -cosines[number][0])[: request.depth]

    def _score_uncached(
        self, request: _SearchRequest, term_counts: WordIndex | TermCounts
    ) -> dict[int, float]:
        """The best that the caches do not hold, likewise."""
        scores = dict[int, float]()
        for number in request.uncached_numbers:
            tokens = self._read_tokens(number)
            if plan.is_match(request.plan, tokens):
                score = plan.bm25(request.plan, tokens, term_counts)
                if request.ranking or score > 0:
                    scores[number] = score
        if len(scores) <= 2 * request.depth:
            return scores
        best = set(sorted(scores, key=lambda number: -scores[number])[: request.depth])
        if request.ranking:
            cosines = request.ranking.compute_cosines(scores)
            best |= set(sorted(cosines, key=lambda number: -cosines[number][0])[: request.depth])
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

        The exclusions of `without` hold.
        """
        excluded = excluding_terms.excluded if excluding_terms else ()
        with self._search_snapshot() if excluded else self._current_database() as database:
            numbers = (
                self._find_excluded_numbers(plan.build_plan(excluding_terms))
                if excluding_terms and excluded
                else ()
            )
            rows = database.read_newest_rows(record_filter or Filter(), limit, offset, numbers)
            return [row.node for row in rows]

    def _find_excluded_numbers(self, query_plan: QueryPlan) -> set[int]:
        """The records that have what a query excludes."""
        cached_words = self._caches.words
        queries = [
            query
            for group in query_plan.excluded_groups
            if (query := cached_words.build_any_query(group))
        ]
        cached_numbers = {
            number for query in queries for number in cached_words.search(query, cached_words.total)
        }
        uncached_numbers = (
            n for n in self._uncached_numbers if not plan.is_match(query_plan, self._read_tokens(n))
        )
        return cached_numbers.union(uncached_numbers)


def _list_phrases(terms: Terms) -> list[str]:
    """The words of a query, and what may be said instead of them."""
    synonyms = [phrase for alike in terms.alternatives for phrase, _ in alike.substitutes]
    return [*terms.words, *synonyms]
