"""The search: the best records by words, and the best by meaning, of a generation and of what waits beside it.

Rule: the generation's statistics decide what a word is worth in both; what can not be compared by meaning is said in
`degraded`, and found by its words.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from filemem.index import plan, words
from filemem.index.document import Node, key
from filemem.index.embed import ModelUnavailable
from filemem.index.plan import Plan
from filemem.index.state import State
from filemem.index.vectors import REBUILD, Ranking
from filemem.index.words import SHOULD, Match, Restriction, Words, both, everything
from filemem.query import Filter, Terms, promising

FEW = 5_000  # documents a restriction lets through below which all their vectors are compared
NOT_BUILT = "the search index is not built yet"  # what an answer lacks then: everything but what was just saved


class Candidate(NamedTuple):
    """A record that retrieval puts forward; for the parts of its score see `query.Candidate`.

    Args:
        created: epoch milliseconds: as the file states, else its first commit, else 0.
    """

    node: Node
    blob: str
    created: int
    keyword: float = 0.0
    cosine: float | None = None
    title_cosine: float | None = None
    wording: float | None = None

    @property
    def id(self) -> str:
        """The record's id."""
        return self.node.id

    @property
    def path(self) -> str:
        """The record's path."""
        return self.node.path


class Found(NamedTuple):
    """Candidates in no particular order.

    Args:
        degraded: why the answer is less than it could be, or None.
        whole: the BM25 of a text of usual length that has every word of the query once.
    """

    candidates: tuple[Candidate, ...]
    degraded: str | None
    whole: float = 0.0


class _Put(NamedTuple):
    """What one way of looking puts forward: its number, that of its vectors, its score."""

    number: int
    key: int
    score: float


class Search(State):
    """See the module; `Index` has the arguments."""

    def candidates(
        self,
        terms: Terms,
        wanted: Filter | None = None,
        depth: int = 100,
        *,
        mode: str = "hybrid",
        most: int | None = None,
    ) -> Found:
        """Return the best records for a query, in no order: the best by words and the best by meaning.

        Args:
            terms: a parsed query.
            wanted: what every candidate must satisfy; `live` is exact, what waits included.
            depth: how many of each kind.
            mode: hybrid, keyword or vector.
            most: return only this many, the best by words and meaning together.

        Raises:
            IndexDamaged: build it anew.
        """
        with self._now():
            near, degraded = self._near(terms, mode)
            asked = plan.plan(terms, words.analyze, self._meaning.telling(terms.words) if near else None)
            by_words = mode != "vector" or near is None
            found = self._sealed_ones(asked, wanted or Filter(), depth, by_words, near)
            found += self._waiting_ones(asked, wanted or Filter(), depth, by_words, near)
            like = near.likeness(one.key for one in found) if near else {}
            parts = [(one.score, *like.get(one.key, (None, None))) for one in found]
            best = promising(parts, most) if most is not None and most < len(parts) else range(len(parts))
            rows = {row.number: row for row in self._db.rows("row", [found[at].number for at in best])}
            made = [
                Candidate(row.node, row.blob, row.created, *parts[at])
                for at in best
                if (row := rows.get(found[at].number))
            ]
            if near and asked.words:
                made = self._worded(made, asked, near, most or depth // 2)
            return Found(tuple(made), degraded or self._gap(mode), plan.whole(asked, self._statistics))

    @property
    def _statistics(self) -> plan.Statistics:
        return self._words if self._words and self._words.total else plan.Unbuilt()

    def _near(self, terms: Terms, mode: str) -> tuple[Ranking | None, str | None]:
        if mode == "keyword" or not terms.text.strip():
            return None, None
        try:
            return self._ranking(terms.text), None
        except ModelUnavailable as error:
            return None, f"{error.told}; only words were searched"

    def _gap(self, mode: str) -> str | None:
        """What the generation in use lacks."""
        if self._words is None:
            return NOT_BUILT
        if (missing := self._seal.missing) and mode != "keyword":
            return f"{missing} record{' has' if missing == 1 else 's have'} no vectors yet; {REBUILD}"
        return None

    def _sealed_ones(self, asked: Plan, wanted: Filter, depth: int, by_words: bool, near: Ranking | None) -> list[_Put]:
        known = self._words
        if known is None:
            return []
        limits = [*self._restriction(known, wanted), *known.restriction(asked)]
        query = known.word_query(asked)
        found: list[tuple[Match, int]] = []
        if query is not None and by_words:
            found = self._first(known, partial(known.search, both(query, limits)), depth, wanted)
        if near:
            found += self._nearest(known, near, limits, depth, [(SHOULD, query)] if query is not None else [], wanted)
        once = {number: match for match, number in found}
        keys = known.numbers(words.KEY, list(once.values()))
        return [_Put(number, key, score) for (number, (score, _)), key in zip(once.items(), keys, strict=True)]

    def _nearest(
        self, known: Words, ranking: Ranking, limits: Restriction, depth: int, scoring: Restriction, wanted: Filter
    ) -> list[tuple[Match, int]]:
        """Return the documents nearest by meaning under a restriction, with what they score: `depth`, or all."""
        dead = self._dead(wanted)
        base = both(everything(), limits)
        allowed = known.count(base) if limits else known.total
        ask = depth + depth // 4
        while True:
            few = limits and allowed <= FEW
            keys, complete = ([], True) if few else ranking.first(ask)
            query = both(base, scoring) if few else both(known.one_of(words.KEY, keys), [*limits, *scoring])
            found = known.search(query, allowed if few else ask + depth)
            pairs = zip(found, known.numbers(words.ROW, found), known.numbers(words.KEY, found), strict=True)
            kept = [(match, number, key) for match, number, key in pairs if number not in dead]
            if len(kept) >= depth or complete:
                break
            ask *= 4
        like = ranking.likeness({key for _, _, key in kept})
        near = sorted((one for one in kept if one[2] in like), key=lambda one: -like[one[2]][0])
        return [(match, number) for match, number, _ in near[:depth]]

    def _waiting_ones(
        self, asked: Plan, wanted: Filter, depth: int, by_words: bool, near: Ranking | None
    ) -> list[_Put]:
        known = self._statistics
        found = [
            _Put(row.number, key(row.blob), plan.bm25(asked, self._numbered[row.number][1], known))
            for row in self._allowed(wanted, asked)
        ]
        like = near.likeness(one.key for one in found) if near else {}
        nearest = sorted(like, key=lambda each: like[each][0], reverse=True)[:depth]
        return [one for one in found if (one.score > 0 and by_words) or one.key in nearest]

    def _worded(self, found: list[Candidate], asked: Plan, near: Ranking, most: int) -> list[Candidate]:
        """Add to the best candidates how well each word of the query is met, if only by a word of like meaning."""
        known = self._statistics
        wording = self._meaning.wording({typed: plan.rarity(of, known) ** 0.5 for typed, of in asked.words})
        if wording is None:
            return found
        best = promising([(one.keyword, one.cosine, one.title_cosine) for one in found], most)
        keys = {at: key(found[at].blob) for at in best}
        met = near.wording(keys.values(), wording)
        return [one._replace(wording=met.get(keys[at])) if at in keys else one for at, one in enumerate(found)]
