"""An organisation's index as a place that is searched: the engine nominates, the rest is as usual.

Rule: what is nominated is scored here, by the parts and weights of `query.score`, from what the
engine kept of each record, over addresses. A hit has its own ids and path, and the repository.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from filemem.index import (
    CandidateSet,
    Model,
    ModelUnavailable,
    Row,
    TermCounts,
    search_with_predecessors,
)
from filemem.index.document import parse_card
from filemem.index.model import Floats
from filemem.index.place import PreparedQuery
from filemem.index.plan import QueryPlan, bm25, build_plan, compute_rarity, is_match
from filemem.index.vectors import Ranking, merge_vectors
from filemem.index.words import FIELDS, STEM
from filemem.org.engine import HEAD_MARK, Details, IndexReader
from filemem.query import FEW_RECORDS, Filter, Provenance, Terms, strip_store_key
from filemem.record import Record
from filemem.record.visibility import EVERYBODY
from filemem.repo.mirror import build_page_url

# What a stem adds that stands in a record, and in its title or topic: about as in BM25.
MARK_WEIGHTS = {"": 1.0, HEAD_MARK: 0.6}
MAX_NAMED_RECORDS = 10_000  # records, about, that the words of a query nominate: rare ones first


class Organisation:
    """All repositories that a reader may see, as one place."""

    reader = EVERYBODY
    synonyms = ""
    barred_ids = ()

    def __init__(self, reader: IndexReader, model: Model) -> None:
        self._reader = reader
        self._model = model
        self._last_details: Mapping[str, Details] = {}  # of the records that were asked for last

    def clock(self) -> int:
        return time.time_ns() // 1_000_000

    def explain_incompleteness(self) -> str:
        return ""

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: TermCounts | None = None
    ) -> CandidateSet:
        """Find the best records; see `index.place`."""
        term_counts = counts or self._count_terms(terms)
        terms = _strip_alternatives(terms, term_counts)
        vector, degraded = self._build_query_vector(terms, mode)
        weights = None
        if vector is not None:
            weights = self._compute_word_weights(terms)
        query_plan = build_plan(terms, weights)
        words: dict[str, float] = {}
        if mode != "vector" or vector is None:
            words = _choose_stems(query_plan, term_counts)
        question = PreparedQuery(terms, query_plan, term_counts, None)

        def find_best(criteria: Filter) -> CandidateSet:
            return self._find_best(question, words, vector, depth, criteria)

        best = search_with_predecessors(find_best, wanted)
        return best._replace(degraded=degraded or None)

    def _count_terms(self, terms: Terms) -> TermCounts:
        """Count the visible records that hold each form of the words."""
        clauses = build_plan(terms).clauses
        forms = {(clause.field, term) for clause in clauses for term in clause.terms}
        return self._reader.count_terms(forms)

    def _compute_word_weights(self, terms: Terms) -> Mapping[str, float]:
        """Compute how much each word of a query, or its alternative, tells."""
        alternatives = [phrase for alike in terms.alternatives for phrase, _ in alike.substitutes]
        return self._model.table.compute_word_weights((*terms.words, *alternatives))

    def _build_query_vector(self, terms: Terms, mode: str) -> tuple[Floats | None, str]:
        """Build the vector of a query; None with the reason if it has none."""
        if mode == "keyword" or not terms.text.strip():
            return None, ""
        try:
            vector = self._model.table.build_query_vector(terms)
        except ModelUnavailable as error:
            return None, f"{error.one_line}; only words were searched"
        return vector if vector.any() else None, ""

    def _find_best(
        self,
        question: PreparedQuery,
        words: Mapping[str, float],
        vector: Floats | None,
        depth: int,
        criteria: Filter,
    ) -> CandidateSet:
        plan = question.plan
        numbers = None if vector is None else vector.tolist()
        all_nominees = self._reader.nominate(words, numbers, criteria, depth)
        nominees = [nominee for nominee in all_nominees if is_match(plan, nominee.tokens)]
        if vector is not None and nominees:
            vectors = merge_vectors([nominee.vectors for nominee in nominees])
            ranking = Ranking([(vectors, None)], vector, self._model.table)
            question = question._replace(ranking=ranking)
        rows = []
        scores = {}
        for nominee in nominees:
            rows.append(nominee.row)
            scores[nominee.row.number] = bm25(plan, nominee.tokens, question.counts)
        return question.select_best(rows, scores, depth)

    def find_by_id(self, ids: Collection[str]) -> dict[str, Row]:
        rows = self._reader.read_rows("id", ids) if ids else []
        return {row.raw_node.id: row for row in rows if row.is_visible}

    def read_records(self, paths: Iterable[str]) -> dict[str, Record]:
        self._last_details = self._reader.read_details(list(paths))
        return {path: parse_card(details.card) for path, details in self._last_details.items()}

    def read_provenances(
        self,
        paths: Iterable[str],
        *,
        detail: bool,  # noqa: ARG002
    ) -> dict[str, Provenance]:
        return {path: self._last_details[path].provenance for path in paths}

    def get_location(self, path: str) -> dict[str, Any]:
        details = self._last_details[path]
        repository = details.repository
        own_path = strip_store_key(path)
        if repository.store != ".":
            own_path = f"{repository.store}/{own_path}"
        page = build_page_url(repository.source)
        return {
            "path": own_path,
            "repository": repository.name,
            "quoted": True,
            "link": f"{page}/blob/{repository.head}/{own_path}" if page else "",
            "seen_at": repository.seen_at,
            "also_in": details.also_in,
        }


def _strip_alternatives(terms: Terms, counts: TermCounts) -> Terms:
    """Remove the alternatives of a query if it is one word that few records hold."""
    if not terms.alternatives or not terms.is_word:
        return terms
    largest_count = 0
    for _, group in build_plan(terms).words:
        for clause in group:
            count = counts.get_document_count(clause.field, clause.terms[0])
            largest_count = max(largest_count, count)
    if 0 < largest_count <= FEW_RECORDS:
        return terms._replace(alternatives=())
    return terms


def _choose_stems(query_plan: QueryPlan, counts: TermCounts) -> dict[str, float]:
    """Choose the stems by which records are nominated, the rare ones, and what each is worth."""
    weights: dict[str, float] = {}
    record_counts: dict[str, int] = {}
    for clause in query_plan.clauses:
        _, how, _ = FIELDS[clause.field]
        for term in clause.terms:
            if how == STEM or not term.isascii():
                weight = clause.boost * compute_rarity([clause], counts)
                weights[term] = max(weights.get(term, 0.0), weight)
                count = counts.get_document_count(clause.field, term)
                record_counts[term] = max(record_counts.get(term, 0), count)
    words: dict[str, float] = {}
    total = 0
    for term in sorted(weights, key=record_counts.__getitem__):
        total += record_counts[term]
        if words and total > MAX_NAMED_RECORDS:
            break
        for mark, share in MARK_WEIGHTS.items():
            words[f"{term}{mark}"] = weights[term] * share
    return words
