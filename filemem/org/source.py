"""An organisation's index as a place that is searched: the engine nominates, and all else is as for a store.

Rule: what is nominated is scored here, by the parts and weights of `query.score`, from what the engine kept of each
record; chains are those of `index.Chains`, over addresses. A hit has its own ids and path, and the repository.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from filemem.index import Chains, Counts, Found, Known, Model, ModelUnavailable, Row
from filemem.index.document import record_from
from filemem.index.plan import Plan, admits, bm25, plan, rarity, whole
from filemem.index.vectors import Ranking, merged
from filemem.index.words import FIELDS, STEM
from filemem.memory.hits import of_places
from filemem.memory.search import Here
from filemem.memory.store import Store
from filemem.org.engine import HEAD, Reader, Shown
from filemem.query import FEW, Candidate, Filter, Hit, Placed, Scored, Terms, promising
from filemem.record.visibility import EVERYBODY
from filemem.repo.mirror import web_page

MARKS = {
    "": 1.0,
    HEAD: 0.6,
}  # what a stem adds that stands in a record, and in its title or topic: about as in BM25
MOST_HELD = 10_000  # records that the words of a question name together, about; commoner words score, and name none


class Nominations(Chains):
    """What `memory.search` asks of an index, over addresses."""

    def __init__(self, reader: Reader, model: Model) -> None:
        self._reader, self._model = reader, model

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        return self._reader.rows(field, values)

    def counts(self, terms: Terms) -> Counts:
        """Return how many records hold each form of the words, of all repositories."""
        return self._reader.statistics(
            {(one.field, term) for one in plan(terms).clauses for term in one.terms}
        )

    def candidates(
        self,
        terms: Terms,
        wanted: Filter,
        depth: int,
        *,
        mode: str = "hybrid",
        counts: Counts | None = None,
    ) -> Found:
        """Return the best records by words and by meaning, as `Index.candidates` does."""
        known, degraded, vector = counts or self.counts(terms), "", np.zeros(0, dtype=np.float32)
        if terms.alike and terms.is_word:  # one word that a few records hold is meant as it is
            own = [
                known.having(one.field, one.terms[0]) for _, of in plan(terms).words for one in of
            ]
            terms = terms._replace(alike=()) if 0 < max(own, default=0) <= FEW else terms
        if mode != "keyword" and terms.text.strip():
            try:
                vector = self._model.table.asked(terms)
            except ModelUnavailable as error:
                degraded = f"{error.told}; only words were searched"
        near = bool(vector.any())
        every = (*terms.words, *(phrase for each in terms.alike for phrase, _ in each.instead))
        asked = plan(terms, self._model.table.telling(every) if near else None)
        words = _naming(asked, known) if mode != "vector" or not near else {}
        degraded += self._reader.degraded if words and not degraded else ""
        found = self._reader.nominate(words, vector.tolist() if near else None, wanted, depth)
        some = [one for one in found if admits(asked, one.tokens)]
        scores = [bm25(asked, one.tokens, known) for one in some]
        parts: list[tuple[float, float | None, float | None]] = [
            (score, None, None) for score in scores
        ]
        if near and some:
            ranking = Ranking(
                [(merged([one.vectors for one in some]), None)], vector, self._model.table
            )
            like = ranking.likeness(one.row.number for one in some)
            parts = [
                (score, *like[one.row.number]) for score, one in zip(scores, some, strict=True)
            ]
        best = promising(parts, depth)
        made = [
            Candidate(some[at].row.node, some[at].row.blob, *parts[at], facts=some[at].row.facts)
            for at in best
        ]
        if near and some and asked.words:
            told = {typed: rarity(of, known) ** 0.5 for typed, of in asked.words}
            numbers = [some[at].row.number for at in best]
            met = ranking.wording(numbers, told, terms.alike)
            made = [
                one._replace(wording=met.get(number))
                for one, number in zip(made, numbers, strict=True)
            ]
        return Found(tuple(made), degraded or None, whole(asked, known))


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


class _Stand:
    """What `memory.search` and `memory.hits` ask of a store; `shown`: what is known of the records of a page."""

    synonyms = tip = seen_from = ""
    reader = EVERYBODY
    barred = ()

    def __init__(self, index: Nominations) -> None:
        self.index, self.repo, self.incomplete = index, self, str
        self.page: Mapping[str, Shown] = {}

    def clock(self) -> int:
        """The time in epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def records(self, paths: Iterable[str]) -> dict[str, Any]:
        """Return records by the addresses of their paths."""
        return {path: record_from(self.page[path].card) for path in paths if path in self.page}

    def shown(self, path: str) -> str:
        """A path as it is until the hit is made."""
        return path


class Organisation(Here):
    """All repositories that a reader may see, as one source."""

    def __init__(self, reader: Reader, model: Model) -> None:
        self.reader, self.stand = reader, _Stand(Nominations(reader, model))
        super().__init__(cast("Store", self.stand))

    def place(
        self, scored: Sequence[Scored], known: Mapping[str, Known], wanted: Filter, limit: int
    ) -> Any:
        """See `Here`: a topic that is asked for is one in each repository."""
        repos = {name.partition(" ")[0] for name in known}
        topics = tuple(f"{repo} {topic}" for repo in repos for topic in wanted.topics)
        return super().place(scored, known, wanted._replace(topics=topics), limit)

    def show(
        self,
        places: Sequence[Placed],
        known: Mapping[str, Known],
        terms: Terms | None,
        *,
        detail: bool,
    ) -> tuple[Hit, ...]:
        """See `Here`."""
        page = self.stand.page = self.reader.shown([known[one.id].node.path for one in places])
        said = {path: one.who for path, one in page.items()}
        hits = of_places(self.store, known, places, terms, detail=detail, said=said)
        return tuple(_own(hit, page[hit.path]) for hit in hits)


def _own(hit: Hit, about: Shown) -> Hit:
    """A hit in the words of its own repository, and where that is."""
    repo, path = about.repository, hit.path.partition(" ")[2]
    path = path if repo.store == "." else f"{repo.store}/{path}"
    page = web_page(repo.source)
    return hit._replace(
        path=path,
        repository=repo.name,
        quoted=True,
        link=f"{page}/blob/{repo.head}/{path}" if page else "",
        seen_at=repo.seen_at,
        also_in=about.also_in,
        superseded_by=tuple(map(bare, hit.superseded_by)),
        heads=tuple(map(bare, hit.heads)),
        proposed=tuple(map(bare, hit.proposed)),
        related=tuple(edge._replace(target=bare(edge.target)) for edge in hit.related),
    )


def bare(address: str) -> str:
    """Return an id without the number of its repository."""
    return address.partition(" ")[2]
