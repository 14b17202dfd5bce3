"""An organisation's index as a place that is searched: the engine nominates, the rest is as usual.

Rule: what is nominated is scored here, by the parts and weights of `query.score`, from what the
engine kept of each record, over addresses. A hit has its own ids and path, and the repository.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from filemem.index import Counts, Found, Model, ModelUnavailable, Row, with_leading
from filemem.index.document import record_from
from filemem.index.model import Floats
from filemem.index.place import Asked
from filemem.index.plan import Plan, admits, bm25, plan, rarity
from filemem.index.vectors import Ranking, merged
from filemem.index.words import FIELDS, STEM
from filemem.org.engine import HEAD, Details, Reader
from filemem.query import FEW, Filter, Provenance, Terms, bare
from filemem.record import Record
from filemem.record.visibility import EVERYBODY
from filemem.repo.mirror import web_page

# What a stem adds that stands in a record, and in its title or topic: about as in BM25.
MARKS = {"": 1.0, HEAD: 0.6}
MOST_HELD = 10_000  # records that the words of a question name, about; commoner ones name none


class Organisation:
    """All repositories that a reader may see, as one place."""

    reader = EVERYBODY
    synonyms = ""
    barred = ()

    def __init__(self, reader: Reader, model: Model) -> None:
        self._reader = reader
        self._model = model
        self._page: Mapping[str, Details] = {}  # of the records that were asked for last

    def clock(self) -> int:
        return time.time_ns() // 1_000_000

    def incomplete(self) -> str:
        return ""

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        """The best records, as `Index.candidates` has them."""
        worth = counts or self._counts(terms)
        terms = _meant_as_it_is(terms, worth)
        vector, degraded = self._vector(terms, mode)
        prepared = plan(terms, None if vector is None else self._telling(terms))
        words = _naming(prepared, worth) if mode != "vector" or vector is None else {}
        question = Asked(terms, prepared, worth, None)
        best = with_leading(partial(self._best, question, words, vector, depth), wanted)
        return best._replace(degraded=degraded or None)

    def _counts(self, terms: Terms) -> Counts:
        """How many records hold each form of the words, of those that may be seen."""
        clauses = plan(terms).clauses
        forms = {(clause.field, term) for clause in clauses for term in clause.terms}
        return self._reader.statistics(forms)

    def _telling(self, terms: Terms) -> Mapping[str, float]:
        """How much each word of a query tells, and what may be said instead of it."""
        instead = [phrase for alike in terms.alike for phrase, _ in alike.instead]
        return self._model.table.telling((*terms.words, *instead))

    def _vector(self, terms: Terms, mode: str) -> tuple[Floats | None, str]:
        """The vector of a query, if it has one, and why not."""
        if mode == "keyword" or not terms.text.strip():
            return None, ""
        try:
            vector = self._model.table.query_vector(terms)
        except ModelUnavailable as error:
            return None, f"{error.one_line}; only words were searched"
        return vector if vector.any() else None, ""

    def _best(
        self,
        question: Asked,
        words: Mapping[str, float],
        vector: Floats | None,
        depth: int,
        wanted: Filter,
    ) -> Found:
        numbers = None if vector is None else vector.tolist()
        every = self._reader.nominate(words, numbers, wanted, depth)
        nominees = [nominee for nominee in every if admits(question.plan, nominee.tokens)]
        if vector is not None and nominees:
            vectors = merged([nominee.vectors for nominee in nominees])
            near = Ranking([(vectors, None)], vector, self._model.table)
            question = question._replace(near=near)
        scores = {
            nominee.row.number: bm25(question.plan, nominee.tokens, question.counts)
            for nominee in nominees
        }
        return question.best([nominee.row for nominee in nominees], scores, depth)

    def by_id(self, ids: Collection[str]) -> dict[str, Row]:
        rows = self._reader.rows("id", ids) if ids else []
        return {row.written.id: row for row in rows if row.visible}

    def records(self, paths: Iterable[str]) -> dict[str, Record]:
        self._page = self._reader.details(list(paths))
        return {path: record_from(details.card) for path, details in self._page.items()}

    def provenances(
        self,
        paths: Iterable[str],
        *,
        detail: bool,  # noqa: ARG002
    ) -> dict[str, Provenance]:
        return {path: self._page[path].who for path in paths}

    def home(self, path: str) -> dict[str, Any]:
        details = self._page[path]
        repository = details.repository
        own = bare(path)
        own = own if repository.store == "." else f"{repository.store}/{own}"
        page = web_page(repository.source)
        return {
            "path": own,
            "repository": repository.name,
            "quoted": True,
            "link": f"{page}/blob/{repository.head}/{own}" if page else "",
            "seen_at": repository.seen_at,
            "also_in": details.also_in,
        }


def _meant_as_it_is(terms: Terms, worth: Counts) -> Terms:
    """A query without what may be said instead, if it is one word that few records hold."""
    if not (terms.alike and terms.is_word):
        return terms
    clauses = [clause for _, group in plan(terms).words for clause in group]
    held = [worth.having(clause.field, clause.terms[0]) for clause in clauses]
    return terms._replace(alike=()) if 0 < max(held, default=0) <= FEW else terms


def _naming(prepared: Plan, counts: Counts) -> dict[str, float]:
    """The stems by which records are nominated and what each is worth, the rare ones."""
    worth = dict[str, float]()
    held = dict[str, int]()
    for clause in prepared.clauses:
        for term in clause.terms:
            if FIELDS[clause.field][1] == STEM or not term.isascii():
                worth[term] = max(worth.get(term, 0.0), clause.boost * rarity([clause], counts))
                held[term] = max(held.get(term, 0), counts.having(clause.field, term))
    words = dict[str, float]()
    total = 0
    for term in sorted(worth, key=held.__getitem__):
        total += held[term]
        if words and total > MOST_HELD:
            break
        words |= {f"{term}{mark}": worth[term] * share for mark, share in MARKS.items()}
    return words
