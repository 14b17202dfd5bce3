"""An organisation's index as a place that is searched: the engine nominates, and all else is as for a store.

Rule: what is nominated is scored here, by the parts and weights of `query.score`, from what the engine kept of each
record, over addresses. A hit has its own ids and path, and the repository.
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

MARKS = {
    "": 1.0,
    HEAD: 0.6,
}  # what a stem adds that stands in a record, and in its title or topic: about as in BM25
MOST_HELD = 10_000  # records that the words of a question name together, about; commoner words score, and name none


class Organisation:
    """All repositories that a reader may see, as one place."""

    reader = EVERYBODY
    synonyms = ""
    barred = ()

    def __init__(self, reader: Reader, model: Model) -> None:
        self._reader, self._model = reader, model
        self._page: Mapping[str, Details] = {}  # what is known of the records asked for last

    def clock(self) -> int:
        return time.time_ns() // 1_000_000

    def incomplete(self) -> str:
        return ""

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        """The best records, as `Index.candidates` has them."""
        known = counts or self._counts(terms)
        if terms.alike and terms.is_word:  # one word that a few records hold is meant as it is
            own = [
                known.having(one.field, one.terms[0]) for _, of in plan(terms).words for one in of
            ]
            terms = terms._replace(alike=()) if 0 < max(own, default=0) <= FEW else terms
        vector, degraded = self._vector(terms, mode)
        every = (*terms.words, *(phrase for each in terms.alike for phrase, _ in each.instead))
        prepared = plan(terms, None if vector is None else self._model.table.telling(every))
        words = _naming(prepared, known) if mode != "vector" or vector is None else {}
        asked = Asked(terms, prepared, known, None)
        found = with_leading(partial(self._found, asked, words, vector, depth), wanted)
        return found._replace(degraded=degraded or None)

    def _counts(self, terms: Terms) -> Counts:
        """How many records hold each form of the words, of those that may be seen."""
        clauses = plan(terms).clauses
        return self._reader.statistics({(one.field, term) for one in clauses for term in one.terms})

    def _vector(self, terms: Terms, mode: str) -> tuple[Floats | None, str]:
        """The vector of a query, if it has one, and why not."""
        if mode == "keyword" or not terms.text.strip():
            return None, ""
        try:
            vector = self._model.table.asked(terms)
        except ModelUnavailable as error:
            return None, f"{error.told}; only words were searched"
        return vector if vector.any() else None, ""

    def _found(
        self,
        asked: Asked,
        words: Mapping[str, float],
        vector: Floats | None,
        depth: int,
        wanted: Filter,
    ) -> Found:
        numbers = None if vector is None else vector.tolist()
        found = self._reader.nominate(words, numbers, wanted, depth)
        some = [one for one in found if admits(asked.plan, one.tokens)]
        if vector is not None and some:
            vectors = merged([one.vectors for one in some])
            asked = asked._replace(near=Ranking([(vectors, None)], vector, self._model.table))
        scores = {one.row.number: bm25(asked.plan, one.tokens, asked.counts) for one in some}
        return asked.best([one.row for one in some], scores, depth)

    def by_id(self, ids: Collection[str]) -> dict[str, Row]:
        rows = self._reader.rows("id", ids) if ids else []
        return {row.written.id: row for row in rows if row.visible}

    def records(self, paths: Iterable[str]) -> dict[str, Record]:
        self._page = self._reader.details(list(paths))
        return {path: record_from(one.card) for path, one in self._page.items()}

    def provenances(self, paths: Iterable[str], *, detail: bool) -> dict[str, Provenance]:  # noqa: ARG002
        return {path: self._page[path].who for path in paths}

    def home(self, path: str) -> dict[str, Any]:
        about = self._page[path]
        repo, own = about.repository, bare(path)
        own = own if repo.store == "." else f"{repo.store}/{own}"
        page = web_page(repo.source)
        return {
            "path": own,
            "repository": repo.name,
            "quoted": True,
            "link": f"{page}/blob/{repo.head}/{own}" if page else "",
            "seen_at": repo.seen_at,
            "also_in": about.also_in,
        }


def _naming(asked: Plan, known: Counts) -> dict[str, float]:
    """The stems by which records are nominated and what each is worth, the rare ones."""
    worth, held = dict[str, float](), dict[str, int]()
    for clause in asked.clauses:
        for term in clause.terms:
            if FIELDS[clause.field][1] == STEM or not term.isascii():
                worth[term] = max(worth.get(term, 0.0), clause.boost * rarity([clause], known))
                held[term] = max(held.get(term, 0), known.having(clause.field, term))
    found, total = dict[str, float](), 0
    for term in sorted(worth, key=held.__getitem__):
        total += held[term]
        if found and total > MOST_HELD:
            break
        found |= {f"{term}{mark}": worth[term] * more for mark, more in MARKS.items()}
    return found
