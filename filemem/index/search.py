"""What can be asked of an index: the best records for a query, listings and lookups; of a generation and of what waits.

Rule: restrictions hold inside retrieval, so an answer is short only where there is no more. The generation's statistics
decide what a word is worth, also in what waits; what can not be compared by meaning is found by its words, and said in
`degraded`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from filemem.changes import Entry
from filemem.index import plan, words
from filemem.index.chains import Around
from filemem.index.document import Node, key, record_from
from filemem.index.embed import ModelUnavailable
from filemem.index.generation import Row, newest_first
from filemem.index.plan import Plan
from filemem.index.state import State
from filemem.index.words import MUST, MUST_NOT, SHOULD, Restriction, both, everything
from filemem.query import FIELDS, Filter, Terms, governs, matches, promising
from filemem.record import Record

if TYPE_CHECKING:
    from filemem.index.vectors import Ranking

REBUILD = "run `filemem index`"  # what to do about vectors that are missing
_COLUMNS = {"topic": "key", "short": "name", "ref": "target"}  # of the database
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


class Search(State):
    """See the module; `Index` has the arguments."""

    def candidates(
        self, terms: Terms, wanted: Filter | None = None, depth: int = 100, *, mode: str = "hybrid"
    ) -> Found:
        """Return the best records for a query, in no order: by words and meaning together.

        Args:
            terms: a parsed query.
            wanted: what every candidate must satisfy; `live` is exact, what waits included.
            depth: how many, at most; so many are looked at by words, and so many by meaning.
            mode: hybrid, keyword or vector.

        Raises:
            IndexDamaged: build it anew.
        """
        with self._now():
            near, degraded = None, self._gap(mode)
            if mode != "keyword" and terms.text.strip():
                try:
                    near = self._ranking(terms.text)
                except ModelUnavailable as error:
                    degraded = f"{error.told}; only words were searched"
            asked = plan.plan(terms, near.table.telling(terms.words) if near else None)
            found = self._sealed_ones(asked, wanted or Filter(), depth, near, by_words=mode != "vector" or near is None)
            for row in self._allowed(wanted or Filter(), asked):
                score = plan.bm25(asked, self._tokens[row.number], self._words)
                if near or score > 0:
                    found[row.number] = score
            rows = self._db.rows("row", found)
            like = near.likeness(key(row.blob) for row in rows) if near else {}
            parts = [(found[row.number], *like.get(key(row.blob), (None, None))) for row in rows]
            made = [
                Candidate(rows[at].node, rows[at].blob, rows[at].created, *parts[at]) for at in promising(parts, depth)
            ]
            if near and asked.words:
                made = self._worded(made, asked, near)
            return Found(tuple(made), degraded, plan.whole(asked, self._words))

    def _gap(self, mode: str) -> str | None:
        """What the generation in use lacks."""
        if not self._seal.name:
            return NOT_BUILT
        if (missing := self._seal.missing) and mode != "keyword":
            return f"{missing} record{' has' if missing == 1 else 's have'} no vectors yet; {REBUILD}"
        return None

    def _sealed_ones(
        self, asked: Plan, wanted: Filter, depth: int, near: Ranking | None, *, by_words: bool
    ) -> dict[int, float]:
        """The best of the generation by words, and the nearest by meaning: what each scores by words, by number."""
        known, query = self._words, self._words.any_of(asked.scored)
        limits, hidden = [*self._restriction(wanted), *asked.demands(known)], self._db.hidden()
        demands = [*limits, *self._not_hidden()]
        found = known.search(both(query, demands), depth) if query is not None and by_words else []
        if near:
            if limits:
                allowed = known.search(both(everything(), limits), known.total)
                like = near.likeness(known.numbers(words.KEY, allowed))
                keys = sorted(like, key=lambda each: -like[each][0])
            else:
                keys = near.first(depth + len(hidden))[0]
            scoring = [(SHOULD, query)] if query is not None else []
            nearest = both(known.one_of(words.KEY, keys[: depth + len(hidden)]), [*demands, *scoring])
            found += known.search(nearest, known.total)
        return dict(zip(known.numbers(words.ROW, found), (score for score, _ in found), strict=True))

    def _worded(self, found: list[Candidate], asked: Plan, near: Ranking) -> list[Candidate]:
        """Add to candidates how well each word of the query is met, if only by a word of like meaning."""
        words = {typed: plan.rarity(of, self._words) ** 0.5 for typed, of in asked.words}
        met = near.wording([key(one.blob) for one in found], words)
        return [one._replace(wording=met.get(key(one.blob))) for one in found]

    # listings and lookups

    def newest(
        self, wanted: Filter | None = None, limit: int = 10, offset: int = 0, *, without: Terms | None = None
    ) -> list[Node]:
        """Return the nodes of the records created last, newest first; those of which no date is known come last.

        Args:
            without: a query whose exclusions hold; it has no words of its own.
            wanted, limit, offset: as for `candidates`.
        """
        with self._now():
            asked, wanted = plan.plan(without or Terms()), wanted or Filter()
            limits = [*self._restriction(wanted), *asked.demands(self._words), *self._not_hidden()]
            found = self._words.search(both(everything(), limits), limit + offset, words.CREATED)
            rows = self._db.rows("row", self._words.numbers(words.ROW, found)) + self._allowed(wanted, asked)
            return [row.node for row in sorted(rows, key=newest_first)[offset : offset + limit]]

    def count(self, wanted: Filter | None = None) -> int:
        """Return the number of records that satisfy a filter."""
        with self._now():
            wanted = wanted or Filter()
            limits = [*self._restriction(wanted), *self._not_hidden()]
            return self._words.count(both(everything(), limits)) + len(self._allowed(wanted, Plan()))

    def lookup(self, field: str, values: Collection[str]) -> list[Node]:
        """Return the records with one of some values: id, path, topic (its key), short (id), ref (ids referred to)."""
        with self._now():
            rows = self._db.rows(_COLUMNS.get(field, field), values) if values else []
            return [row.node for row in rows if row.shown]

    def terms(self, field: str, prefix: str = "") -> list[tuple[str, int]]:
        """Return (value, number of records) of a field, in order."""
        with self._now():
            query = both(everything(), self._not_hidden())
            counts = Counter({value: n for value, n in self._words.terms(field, prefix, query) if n})
            for row in self._allowed(Filter(), Plan()):
                stated = self._docs[row.number].terms.get(field, ())
                counts.update({value for value in stated if value.startswith(prefix)})
            return sorted(counts.items())

    def nodes(self) -> list[Node]:
        """Return the nodes of all records, newest first."""
        with self._now():
            return [row.node for row in self._db.every()]

    def around(self, nodes: Iterable[Node]) -> Around:
        """Return the chains that some records belong to."""
        with self._now():
            return self._db.around(nodes)

    def answering(self, name: str) -> list[Node]:
        """Return the records that an id, short id, path, file name, number or title may mean; one if it is clear."""
        with self._now():
            return [row.node for row in self._db.answering(name)]

    def records(self, paths: Iterable[str]) -> dict[str, tuple[Entry, Record]]:
        """Return records as they were when they were indexed, by path: what is found is shown without its file.

        With each comes its file as it was then, so that the caller sees whether it is still that one.
        """
        paths = list(paths)
        with self._now():
            rows = self._db.rows("path", paths)
            cards = {at: doc.card for at, doc in self._docs.items()}
            cards |= self._words.cards(row.number for row in rows if row.number > 0)
            there = self._db.manifest(paths) | {path: item.entry for path, item in self._waiting.items() if item.entry}
            known = {row.written.path: cards[row.number] for row in rows if row.number in cards}
            return {path: (there[path], record_from(card)) for path, card in known.items() if path in there}

    # restrictions

    def _restriction(self, wanted: Filter) -> Restriction:
        """What a filter demands of every document of the generation."""
        known = self._words
        groups = [(name, getattr(wanted, field)) for field, name in FIELDS.items() if getattr(wanted, field)]
        if wanted.path:
            stated = (value for value, _ in known.terms("affects", "", everything()))
            groups.append(("affects", [one for one in stated if governs(one, wanted)]))
        limits = [(MUST, known.one_of(name, values)) for name, values in groups]
        if wanted.since is not None or wanted.until is not None:
            limits.append((MUST, known.between(wanted.since, wanted.until)))
        if wanted.live and (dead := self._db.dead()):
            limits.append((MUST_NOT, known.one_of(words.ROW, dead)))
        return limits

    def _not_hidden(self) -> Restriction:
        """That a document is not to be found, or that what waits takes its place."""
        hidden = self._db.hidden()
        return [(MUST_NOT, self._words.one_of(words.ROW, hidden))] if hidden else []

    def _allowed(self, wanted: Filter, asked: Plan) -> list[Row]:
        """What waits and may be found."""
        plain = wanted._replace(live=False)
        return [
            row
            for row in self._db.rows("row", self._docs)
            if row.shown
            and (row.live or not wanted.live)
            and matches(plain, self._docs[row.number].terms, row.created)
            and plan.admits(asked, self._tokens[row.number])
        ]
