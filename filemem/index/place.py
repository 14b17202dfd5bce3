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
from filemem.index.lookup import Lookups
from filemem.index.plan import Counts, Plan
from filemem.index.words import MUST, SHOULD, Words, both, everything
from filemem.query import FEW, Candidate, Filter, Terms, promising

if TYPE_CHECKING:
    from filemem.index.model import Floats
    from filemem.index.vectors import Ranking, Rows

NO_MODEL = "no embedding model is configured"
NOT_BUILT = "the search index is not built yet"
_MOST_NAMED = 2_000  # allowed records that Tantivy is told of; more are compared here


Known = Row | Candidate  # a record with what follows for it from all others


class Found(NamedTuple):
    """Candidates in no particular order."""

    candidates: tuple[Candidate, ...]
    degraded: str | None  # why the answer is less than it could be, or None
    whole: float = 0.0  # the BM25 of a text of usual length that has every word of the query once


def with_leading(ask: Callable[[Filter], Found], wanted: Filter) -> Found:
    """Return what is found and, where only what holds is asked for, also what leads to it."""
    answer = ask(wanted)
    if not wanted.live:
        return answer
    every = (*ask(wanted._replace(live=False)).candidates, *answer.candidates)
    candidates = {candidate.path: candidate for candidate in every}
    return answer._replace(candidates=tuple(candidates.values()))


class Near(NamedTuple):
    """A record beside a new one: cosines of that text and its nearest passage, and of titles."""

    node: Node
    text: float
    title: float


class Asked(NamedTuple):
    """A query with what its words are worth, and how near all records are to it."""

    terms: Terms
    plan: Plan
    counts: Words | Counts
    near: Ranking | None

    def best(self, rows: Sequence[Row], by_words: Mapping[int, float], depth: int) -> Found:
        """Return the most promising of some records with these scores by words."""
        like = self.near.likeness(by_words) if self.near else {}
        parts: list[tuple[float, float | None, float | None]] = [
            (by_words[row.number], *like.get(row.number, (None, None))) for row in rows
        ]
        chosen = [(rows[at], parts[at]) for at in promising(parts, depth)]
        met = dict[int, float]()
        if self.near and self.plan.words:  # how well, if only by a word of like meaning
            worth = {word: plan.rarity(of, self.counts) ** 0.5 for word, of in self.plan.words}
            met = self.near.wording([row.number for row, _ in chosen], worth, self.terms.alike)
        made = (
            Candidate(row.node, row.blob, *scores, met.get(row.number), row.facts)
            for row, scores in chosen
        )
        return Found(tuple(made), None, plan.whole(self.plan, self.counts))


class _Question(NamedTuple):
    """One question made ready."""

    plan: Plan
    near: Ranking | None  # None: by words alone
    depth: int
    allowed: set[int] | None  # the numbers that satisfy its filter; None: all do
    hidden: set[int]  # numbers that the caches hold and that are not to be found
    young: list[int]  # those that they do not hold, and that may be found
    counts: Counts | None = None  # of several indexes
    by_words: bool = True


class Questions(Lookups):
    """The index of a store, open for questions."""

    def _forget(self) -> None:
        super()._forget()
        self._caches = Caches(self.root)
        self._stamp = 0  # of what was read last
        self._lacking = 0
        self._masked: set[int] = set()
        self._young: set[int] = set()
        self._tokens: dict[int, Mapping[str, Sequence[str]]] = {}  # of young records
        self._made: tuple[frozenset[int], Rows] | None = None  # vectors of young records

    @contextlib.contextmanager
    def _searching(self) -> Iterator[Database]:
        """The present state, with the caches as they are then. Raises IndexDamaged."""
        with self._lock:
            for again in (True, False):  # once more, where another process moved them meanwhile
                self._open()
                with self._database.reading():
                    self._follow()
                    if not (again and self._caches.lacks and self._caches.awaited()):
                        yield self._database
                        return
                self._caches.forget()
                self._stamp = -1

    def _follow(self) -> None:
        """Learn what was changed since the last question."""
        database = self._database
        stamp = database.stamp
        if stamp == self._stamp:
            return
        if self._caches.follow(database.state("caches") or "") or self._stamp <= 0:
            self._begin(database)
        else:
            self._turn(database)
        self._tokens = {n: self._tokens[n] for n in self._young if n in self._tokens}
        self._lacking = database.lacking()
        self._stamp = stamp

    def _begin(self, database: Database) -> None:
        """Learn what the caches hold, and what they do not."""
        sound = self._caches.sound
        self._masked = database.masked() if sound else set()
        self._young = database.young() if sound else database.visible()
        self._tokens = {}

    def _turn(self, database: Database) -> None:
        """Learn of what changed since."""
        for number, there, cached in database.turned(self._stamp):
            self._masked.discard(number)
            self._young.discard(number)
            if cached and self._caches.sound:
                self._masked |= set() if there else {number}
            elif there:
                self._young.add(number)

    # one query

    def counts(self, terms: Terms) -> Counts:
        """Return how many documents hold each form of the words of a query."""
        with self._searching():
            prepared = plan.plan(terms)
            worth = self._worth(prepared)
            return worth if isinstance(worth, Counts) else plan.counts_in(worth, prepared)

    def _worth(self, prepared: Plan) -> Words | Counts:
        """What the words of a question are worth by: the cache or, without one, all rows."""
        if self._caches.sound or not self._young:
            return self._caches.words
        return plan.counted(prepared, map(self._read_tokens, self._young))

    def candidates(
        self,
        terms: Terms,
        wanted: Filter | None = None,
        depth: int = 100,
        *,
        mode: str = "hybrid",
        counts: Counts | None = None,
    ) -> Found:
        """Return the best `depth` records of so many by words and by meaning.

        `mode`: hybrid, keyword or vector; `counts` of several indexes make their scores comparable.
        """
        with self._searching():
            counted = counts or self._worth(plan.plan(terms))
            terms = self._meant(terms, counted)
            near, degraded = self._compared(terms, mode)
            prepared = plan.plan(terms, near.table.telling(_spoken(terms)) if near else None)
            question = self._question(prepared, wanted or Filter(), depth, near)
            question = question._replace(counts=counts, by_words=mode != "vector" or near is None)
            scores = self._of_caches(question) | self._of_rows(question, counted)
            rows = self._database.rows("number", scores)
            answer = Asked(terms, prepared, counted, near).best(rows, scores, depth)
            return answer._replace(degraded=degraded)

    def _compared(self, terms: Terms, mode: str) -> tuple[Ranking | None, str | None]:
        """How near all records are to a query, and what the answer lacks."""
        if mode == "keyword" or not terms.text.strip():
            return None, self._gap(mode)
        try:
            return self._ranking(terms), self._gap(mode)
        except ModelUnavailable as error:
            return None, f"{error.one_line}; only words were searched"

    def _question(
        self, prepared: Plan, wanted: Filter, depth: int, near: Ranking | None
    ) -> _Question:
        barred = {row.number for row in self._database.barred(wanted.reader)}
        allowed = self._database.allowed(wanted)
        young = [
            number
            for number in self._young
            if number not in barred and (allowed is None or number in allowed)
        ]
        hidden = self._masked | barred
        return _Question(prepared, near, depth, allowed, hidden, young)

    def _meant(self, terms: Terms, counted: Words | Counts) -> Terms:
        """A query without what may be said instead, where it is one word that few records have."""
        if not (terms.alike and terms.is_word):
            return terms
        own = [clause for _, clauses in plan.plan(terms).words for clause in clauses]
        held = max((counted.having(clause.field, clause.terms[0]) for clause in own), default=0)
        if self._caches.sound:
            held += sum(self._holds_any(number, own) for number in self._young)
        return terms._replace(alike=()) if 0 < held <= FEW else terms

    def _holds_any(self, number: int, clauses: Iterable[words.Clause]) -> bool:
        tokens = self._read_tokens(number)
        return any(plan.frequency(clause, tokens[clause.field]) for clause in clauses)

    def _read_tokens(self, number: int) -> Mapping[str, Sequence[str]]:
        """The tokens of a young record; all that are not in memory yet are read at once."""
        if number not in self._tokens:
            exact = self._database.tokens(self._young - self._tokens.keys())
            self._tokens |= {n: words.read_tokens(text) for n, text in exact.items()}
        return self._tokens[number]

    def _ranking(self, terms: Terms) -> Ranking:
        """How near all records are to a query; raises `ModelUnavailable`."""
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        query = self.model.table.query_vector(terms)
        if not query.any():
            raise ModelUnavailable("the embedding model knows no word of the query")
        return self._ranked(self.model, query)

    def _ranked(self, model: Model, query: Floats) -> Ranking:
        from filemem.index import vectors

        young = frozenset(self._young)
        if self._made is None or self._made[0] != young:
            self._made = young, vectors.unpacked(self._database.packs(young))
        parts: list[tuple[Rows, Any]] = [*self._caches.parts(), (self._made[1], None)]
        return vectors.Ranking([part for part in parts if len(part[0].keys)], query, model.table)

    def near(self, title: str, text: str, count: int, ids: Collection[str]) -> list[Near]:
        """Compare a title and a text with the `count` nearest records, and with some others by id.

        Raises ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        content, heading = self.model.encode([text, title])
        with self._searching() as database:
            ranking = self._ranked(self.model, content)
            numbers = ranking.first(count + len(self._masked))
            numbers = [number for number in numbers if number not in self._masked][:count]
            every = [*database.rows("number", numbers), *(database.rows("id", ids) if ids else [])]
            rows = {row.number: row for row in every if row.visible}
            cosines = ranking.likeness(rows, heading)
            return [Near(rows[number].node, *pair) for number, pair in cosines.items()]

    def neighbours(self, texts: Sequence[str], wanted: Filter, count: int) -> list[list[Candidate]]:
        """Return for each text `count` near records: all are compared at once, by meaning alone.

        A text is words with spaces between them. Raises ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        if not texts:
            return []
        queries = self.model.encode(texts)
        with self._searching() as database:
            numbers = database.allowed(wanted) or set()
            numbers -= {row.number for row in database.barred(wanted.reader)}
            rows = {row.number: row for row in database.rows("number", numbers)}
            ranking = self._ranked(self.model, queries[0])
            near = list[list[Candidate]]()
            for nearest in ranking.neighbours(queries, texts, numbers, count):
                pairs = ((rows[number], cosines) for number, cosines in nearest)
                near.append([Candidate(row.node, row.blob, 0.0, *parts) for row, parts in pairs])
            return near

    def _gap(self, mode: str) -> str | None:
        """What the index lacks."""
        if not self._database.state("built"):
            return NOT_BUILT
        if not self._lacking or mode == "keyword":
            return None
        has = "1 record has" if self._lacking == 1 else f"{self._lacking} records have"
        return f"{has} no vectors; run `filemem index`"

    def _of_caches(self, question: _Question) -> dict[int, float]:
        """The best that the caches hold, by words and by meaning: what each scores by words."""
        cached = self._caches.words
        query = plan.query(question.plan, cached, question.counts)
        limits = question.plan.demands(cached)
        scores = dict[int, float]()
        if query is not None and question.by_words:
            scores = self._best(question, both(query, limits))
        if question.near:
            nearest = self._nearest(question, limits)
            scoring = [*limits, *([(SHOULD, query)] if query is not None else [])]
            named = both(cached.these(nearest), scoring)
            scores |= cached.search(named, len(nearest)) if nearest else {}
        return scores

    def _best(self, question: _Question, query: words.Asked) -> dict[int, float]:
        """The best by words."""
        allowed = question.allowed
        want = question.depth
        if allowed is not None and len(allowed) <= _MOST_NAMED:
            query = both(query, [(MUST, self._caches.words.these(allowed))])
        while True:
            hits = self._caches.words.search(query, want)
            kept = [number for number in hits if self._may(question, number)]
            if len(kept) >= question.depth or len(hits) < want:
                return {number: hits[number] for number in kept[: question.depth]}
            want *= 4

    def _may(self, question: _Question, number: int) -> bool:
        """Whether what the caches hold may be found."""
        allowed = question.allowed is None or number in question.allowed
        return allowed and number not in question.hidden and number not in self._young

    def _nearest(self, question: _Question, limits: words.Restriction) -> list[int]:
        """The nearest by meaning that the caches hold."""
        near = question.near
        if not near:
            return []
        if question.allowed is None and not limits:
            numbers = near.first(question.depth + len(question.hidden) + len(self._young))
            return [n for n in numbers if self._may(question, n)][: question.depth]
        cached = self._caches.words
        pool: Iterable[int] = question.allowed or ()
        if limits:
            pool = cached.search(both(everything(), limits), cached.total)
        like = near.likeness(number for number in pool if self._may(question, number))
        return sorted(like, key=lambda number: -like[number][0])[: question.depth]

    def _of_rows(self, question: _Question, counted: Words | Counts) -> dict[int, float]:
        """The best that the caches do not hold, likewise."""
        scores = dict[int, float]()
        for number in question.young:
            tokens = self._read_tokens(number)
            if plan.admits(question.plan, tokens):
                score = plan.bm25(question.plan, tokens, counted)
                if question.near or score > 0:
                    scores[number] = score
        if len(scores) <= 2 * question.depth:
            return scores
        best = set(sorted(scores, key=lambda number: -scores[number])[: question.depth])
        if question.near:
            like = question.near.likeness(scores)
            best |= set(sorted(like, key=lambda number: -like[number][0])[: question.depth])
        return {number: scores[number] for number in best}

    # listings

    def newest(
        self,
        wanted: Filter | None = None,
        limit: int = 10,
        offset: int = 0,
        *,
        without: Terms | None = None,
    ) -> list[Node]:
        """Return the nodes of the newest records, newest first, undated ones last.

        The exclusions of `without` hold.
        """
        excluded = without.excluded if without else ()
        with self._searching() if excluded else self._now() as database:
            numbers = self._excluded(plan.plan(without)) if without and excluded else ()
            rows = database.newest(wanted or Filter(), limit, offset, numbers)
            return [row.node for row in rows]

    def _excluded(self, prepared: Plan) -> set[int]:
        """The records that have what a query excludes."""
        cached = self._caches.words
        queries = [query for group in prepared.excluded if (query := cached.any_of(group))]
        held = {number for query in queries for number in cached.search(query, cached.total)}
        young = (n for n in self._young if not plan.admits(prepared, self._read_tokens(n)))
        return held.union(young)


def _spoken(terms: Terms) -> list[str]:
    """The words of a query, and what may be said instead of them."""
    instead = [phrase for alike in terms.alike for phrase, _ in alike.instead]
    return [*terms.words, *instead]
