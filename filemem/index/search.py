"""What can be asked of an index: the best records for a query, listings and lookups; of a generation and of what waits.

Rule: restrictions hold inside retrieval, so an answer is short only where there is no more. The generation's statistics
decide what a word is worth, also in what waits; what cannot be compared by meaning is found by its words, and said in
`degraded`.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from filemem.chain import Node
from filemem.changes import Entry
from filemem.errors import FilememError
from filemem.index import plan, words
from filemem.index.chains import Around, Catalog
from filemem.index.document import (
    DATABASE,
    TERM_FIELDS,
    WORDS,
    Doc,
    Fresh,
    Item,
    Notes,
    Seal,
    compare,
    key,
    mark,
    record_from,
)
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.generation import UNSTATED, Dates, Row, newest_first, rows_of
from filemem.index.plan import Counts, Plan
from filemem.index.words import (
    MUST,
    MUST_NOT,
    READING,
    SHOULD,
    Restriction,
    Words,
    both,
    everything,
)
from filemem.query import FEW, FIELDS, Candidate, Filter, Terms, matches, promising, touches
from filemem.record import Record

if TYPE_CHECKING:
    from filemem.index.vectors import Ranking, Vectors

NO_MODEL = "no embedding model is configured"
_LAYOUT = 17  # of the files, and what they say of chains; the rest of the format follows from how texts are read
_FORMAT = (READING, Doc._fields, Node._fields, Notes._fields, TERM_FIELDS)

Layer = Callable[
    [Mapping[str, Entry]], Mapping[str, Doc | None]
]  # given what a generation was built from
_COLUMNS = {"topic": "key", "heading": "name", "short": "name", "ref": "target"}  # of the database
NOT_BUILT = "the search index is not built yet"  # what an answer lacks then: everything but what was just saved


class Found(NamedTuple):
    """Candidates in no particular order."""

    candidates: tuple[Candidate, ...]
    degraded: str | None  # why the answer is less than it could be, or None
    whole: float = 0.0  # the BM25 of a text of usual length that has every word of the query once


class Near(NamedTuple):
    """A record beside a new one: cosines of that text and its nearest passage, and of titles."""

    node: Node
    text: float
    title: float


class Search:
    """What one process has open of an index.

    Every question answers from one state, and looks first for what other processes saved or built. What waits takes
    the place of what the generation knows of its path.
    """

    def __init__(
        self,
        folder: Path,  # each format has its own in it: an old server and a new command do not undo each other's
        model: Model | None = None,  # turns texts into vectors; None for keyword search only
        dates: Dates = lambda _: {},  # asked only for records that state no date
        clock: Callable[[], int] = time.time_ns,
        layer: Layer | None = None,  # see `Index.overlaid`
    ) -> None:
        self.model = model
        told = repr((_FORMAT, model.name if model else ""))
        self.root = folder / f"{_LAYOUT}.{zlib.crc32(told.encode()):08x}"
        self._dates, self._clock = dates, clock
        self._vectors: Vectors | None = None
        self._fresh = Fresh(self.root, clock)
        self._lock = RLock()  # of questions; not the writer's: a search does not wait for a rebuild
        self._layer = layer
        self._forget()

    def _forget(self) -> None:
        """Hold nothing open."""
        self._opened: list[int] | None = None  # the mark of the database that is open; [] for none
        self._db, self._seal = Catalog(None), Seal()
        self._version = self._db.version
        self._words = words.nothing()
        self._items: tuple[Item, ...] = ()
        self._waiting: dict[str, Item] = {}
        self._docs: dict[int, Doc] = {}  # what waits, by number
        self._tokens: dict[int, Mapping[str, Sequence[str]]] = {}

    @contextlib.contextmanager
    def _now(self) -> Iterator[None]:
        """Look at the present state, which stands still from then on. Raises IndexDamaged."""
        with self._lock:
            while True:
                self._look()
                with self._db.reading():
                    if self._db.version == self._version:
                        yield
                        return
                self._opened = None

    @contextlib.contextmanager
    def facts(self) -> Iterator[Catalog]:
        """The records as the generation in use knows them, without what waits; changes are not kept."""
        there = (self.root / DATABASE).exists()
        with (
            contextlib.closing(Catalog(self.root / DATABASE if there else None)) as database,
            database.reading(),
        ):
            if there:
                database.lay_over()
            yield database

    def _look(self) -> None:
        """Open what is there: what waits is listed first, as an entry that is gone then is in the generation."""
        items = self._items if self._layer else self._fresh.items()
        there = mark(self.root / DATABASE)
        if there != self._opened:
            self._open(there)
            if self._layer:
                items = tuple(
                    Item("", path, doc) for path, doc in self._layer(self._db.manifest()).items()
                )
        if items != self._items:
            self._take(items)

    def _open(self, there: list[int]) -> None:
        self._db.close()
        self._forget()
        if there:
            database = Catalog(self.root / DATABASE)
            try:
                with database.reading():
                    if (seal := database.seal).name:
                        compare(self.root, seal, WORDS)
                        self._words = Words(self.root / seal.name / WORDS)
                    self._version = database.version
            except FilememError:
                database.close()
                if (
                    now := mark(self.root / DATABASE)
                ) != there:  # another process has replaced it while we looked
                    self._open(now)
                    return
                raise
            self._db, self._seal = database, seal
        self._opened = there

    def _take(self, items: tuple[Item, ...]) -> None:
        """Let what waits be these entries."""
        if (
            not self._items or self._items != items[: len(self._items)]
        ):  # some were folded in, or given up
            if self._seal.name:
                self._db.lay_over()
            else:
                self._db = Catalog(None)
            self._items, self._docs, self._tokens = (), {}, {}
        first = len(self._items)
        new = {
            item.path: (-at - 1, item) for at, item in enumerate(items) if at >= first and item.path
        }
        docs = {number: item.doc for number, item in new.values() if item.doc}
        self._docs |= docs
        self._tokens |= {number: words.tokens_of(doc) for number, doc in docs.items()}
        rows = {row.written.path: row for row in rows_of(docs, self._dates)}
        self._db.put({path: rows.get(path) for path in new})
        self._items, self._waiting = items, {item.path: item for item in items}

    # one query

    def counts(self, terms: Terms) -> Counts:
        """Return how many documents hold each form of the words of a query."""
        with self._now():
            known, clauses = self._words, plan.plan(terms).clauses
            held = {
                (one.field, term): known.having(one.field, term)
                for one in clauses
                for term in one.terms
            }
            usual = {
                field: known.usual(field, [term for of, term in held if of == field])
                for field, _ in held
            }
            return Counts(
                known.total,
                held,
                {field: (known.total, known.total * of) for field, of in usual.items() if of},
            )

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

        `mode`: hybrid, keyword or vector; `counts` of several indexes make the scores of each comparable.
        """
        with self._now():
            near, degraded, known = None, self._gap(mode), counts or self._words
            terms = self._meant(terms, known)
            if mode != "keyword" and terms.text.strip():
                try:
                    near = self._ranking(terms)
                except ModelUnavailable as error:
                    degraded = f"{error.told}; only words were searched"
            every = (*terms.words, *(phrase for each in terms.alike for phrase, _ in each.instead))
            asked = plan.plan(terms, near.table.telling(every) if near else None)
            by_words = mode != "vector" or near is None
            found = self._sealed_ones(
                asked, wanted or Filter(), depth, near, counts, by_words=by_words
            )
            for row in self._allowed(wanted or Filter(), asked):
                score = plan.bm25(asked, self._tokens[row.number], known)
                if near or score > 0:
                    found[row.number] = score
            rows = self._db.rows("row", found)
            like = near.likeness(key(row.blob) for row in rows) if near else {}
            parts = [(found[row.number], *like.get(key(row.blob), (None, None))) for row in rows]
            made = [
                Candidate(rows[at].node, rows[at].blob, *parts[at])
                for at in promising(parts, depth)
            ]
            if near and asked.words:  # how well each is met, if only by a word of like meaning
                told = {typed: plan.rarity(of, known) ** 0.5 for typed, of in asked.words}
                met = near.wording([key(one.blob) for one in made], told, terms.alike)
                made = [one._replace(wording=met.get(key(one.blob))) for one in made]
            return Found(tuple(made), degraded, plan.whole(asked, known))

    def _meant(self, terms: Terms, known: Words | Counts) -> Terms:
        """A query without what may be said instead where it is one word that a few records hold: that is meant."""
        if not (terms.alike and terms.is_word):
            return terms
        own = [one for _, clauses in plan.plan(terms).words for one in clauses]
        held = max((known.having(one.field, one.terms[0]) for one in own), default=0)
        held += sum(
            any(plan.frequency(one, of[one.field]) for one in own) for of in self._tokens.values()
        )
        return terms._replace(alike=()) if 0 < held <= FEW else terms

    def _ranking(self, terms: Terms) -> Ranking:
        """How near all records are to a query; raises `ModelUnavailable`."""
        if self.model is None:
            raise ModelUnavailable(NOT_BUILT if self._layer and not self._seal.name else NO_MODEL)
        query = self.model.table.asked(terms)
        if not query.any():
            raise ModelUnavailable("the embedding model knows no word of the query")
        vectors = self._open_vectors(self.model)
        return vectors.rank(query, self.root, self._seal, self._docs.values())

    def _open_vectors(self, model: Model) -> Vectors:
        if self._vectors is None:
            from filemem.index.vectors import Vectors

            self._vectors = Vectors(model.table)
        return self._vectors

    def near(self, title: str, text: str, count: int, ids: Collection[str]) -> list[Near]:
        """Compare a title and a text with the `count` nearest records, and with some others by id.

        Raises ModelUnavailable.
        """
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        content, heading = self.model.encode([text, title])
        with self._now():
            vectors = self._open_vectors(self.model)
            ranking = vectors.rank(content, self.root, self._seal, self._docs.values())
            keys = self._words.one_of(words.KEY, ranking.first(count))
            sealed = self._words.search(keys, self._words.total)
            numbers = {*self._words.numbers(words.ROW, sealed), *self._docs}
            every = [*self._db.rows("row", numbers), *(self._db.rows("id", ids) if ids else [])]
            rows = {row.number: row for row in every if row.shown}.values()
            by_key = ranking.likeness((key(row.blob) for row in rows), heading)
            pairs = ((row.node, by_key.get(key(row.blob))) for row in rows)
            return [Near(node, *cosines) for node, cosines in pairs if cosines]

    def _gap(self, mode: str) -> str | None:
        """What the generation in use lacks."""
        if not self._seal.name:
            return NOT_BUILT
        if (missing := self._seal.missing) and mode != "keyword":
            return f"{missing} record{' has' if missing == 1 else 's have'} no vectors; run `filemem index --rebuild`"
        return None

    def _sealed_ones(
        self,
        asked: Plan,
        wanted: Filter,
        depth: int,
        near: Ranking | None,
        counts: Counts | None,
        *,
        by_words: bool,
    ) -> dict[int, float]:
        """The best of the generation by words, and the nearest by meaning: what each scores by words, by number."""
        known, scaled = self._words, partial(plan.on_scale, own=self._words, known=counts)
        sides = (
            (scaled(own), [map(scaled, groups) for groups in others])
            for own, others in asked.scored
        )
        query = words.sum_of(known.best_of(own, others) for own, others in sides)
        limits = [*self._restriction(wanted), *asked.demands(known)]
        hidden = self._hidden(wanted)
        demands = [*limits, *self._not_hidden(wanted)]
        found = known.search(both(query, demands), depth) if query is not None and by_words else []
        if near:
            if limits:
                allowed = known.search(both(everything(), limits), known.total)
                like = near.likeness(known.numbers(words.KEY, allowed))
                keys = sorted(like, key=lambda each: -like[each][0])
            else:
                keys = near.first(depth + len(hidden))
            scoring = [(SHOULD, query)] if query is not None else []
            nearest = both(
                known.one_of(words.KEY, keys[: depth + len(hidden)]), [*demands, *scoring]
            )
            found += known.search(nearest, known.total)
        return dict(
            zip(known.numbers(words.ROW, found), (score for score, _ in found), strict=True)
        )

    # listings and lookups

    def newest(
        self,
        wanted: Filter | None = None,
        limit: int = 10,
        offset: int = 0,
        *,
        without: Terms | None = None,
    ) -> list[Node]:
        """Return the nodes of the newest records, newest first, undated ones last; the exclusions of `without` hold."""
        with self._now():
            asked, wanted = plan.plan(without or Terms()), wanted or Filter()
            hidden = self._not_hidden(wanted)
            limits = [*self._restriction(wanted), *asked.demands(self._words), *hidden]
            found = self._words.search(both(everything(), limits), limit + offset, words.CREATED)
            rows = self._db.rows("row", self._words.numbers(words.ROW, found)) + self._allowed(
                wanted, asked
            )
            return [row.node for row in sorted(rows, key=newest_first)[offset : offset + limit]]

    def count(self, wanted: Filter | None = None) -> int:
        """Return the number of records that satisfy a filter."""
        with self._now():
            wanted = wanted or Filter()
            limits = [*self._restriction(wanted), *self._not_hidden(wanted)]
            return self._words.count(both(everything(), limits)) + len(
                self._allowed(wanted, Plan())
            )

    def lookup(self, field: str, values: Collection[str]) -> list[Node]:
        """Return the records with one of some values: id, path, topic and heading (keys), short, ref."""
        values = [UNSTATED + one for one in values] if field == "heading" else values
        with self._now():
            rows = self._db.rows(_COLUMNS.get(field, field), values) if values else []
            return [row.node for row in rows if row.shown]

    def barred(self, wanted: Filter) -> frozenset[str]:
        """Return the ids of the records that the reader of a filter may not see."""
        with self._now():
            return frozenset(row.written.id for row in self._db.barred(wanted.reader))

    def terms(
        self, field: str, prefix: str = "", wanted: Filter | None = None
    ) -> list[tuple[str, int]]:
        """Return (value, number of records) of a field, in order, of what a reader may see."""
        seen = Filter(reader=wanted.reader if wanted else None)
        with self._now():
            query = both(everything(), self._not_hidden(seen))
            counts = Counter(
                {value: n for value, n in self._words.terms(field, prefix, query) if n}
            )
            for row in self._allowed(seen, Plan()):
                stated = self._docs[row.number].terms.get(field, ())
                counts.update({value for value in stated if value.startswith(prefix)})
            return sorted(counts.items())

    def nodes(self) -> list[Node]:
        """Return the nodes of all records, newest first."""
        with self._now():
            return [row.node for row in self._db.every()]

    def topics(self, words: str, limit: int, offset: int) -> tuple[list[Node], int]:
        """Return the last decisions of topics with some words in their names, in order; and how many there are."""
        with self._now():
            rows, count = self._db.listed(words, limit, offset)
            return [row.node for row in rows], count

    def around(self, nodes: Iterable[Node]) -> Around:
        """Return the chains that some records belong to."""
        with self._now():
            return self._db.around(nodes)

    def answering(self, name: str) -> list[Node]:
        """Return the records that an id, short id, path, file name, number or title may mean; one if it is clear."""
        with self._now():
            return [row.node for row in self._db.answering(name)]

    def records(self, paths: Iterable[str]) -> dict[str, tuple[Entry, Record]]:
        """Return records as they were indexed, by path, each with its file as it was then: the caller compares that."""
        paths = list(paths)
        with self._now():
            rows = self._db.rows("path", paths)
            cards = {at: doc.card for at, doc in self._docs.items()}
            cards |= self._words.cards(row.number for row in rows if row.number > 0)
            there = self._db.manifest(paths) | {
                path: item.entry for path, item in self._waiting.items() if item.entry
            }
            known = {row.written.path: cards[row.number] for row in rows if row.number in cards}
            return {
                path: (there[path], record_from(card))
                for path, card in known.items()
                if path in there
            }

    # restrictions

    def _restriction(self, wanted: Filter) -> Restriction:
        """What a filter demands of every document of the generation."""
        known = self._words
        groups = [
            (name, getattr(wanted, field))
            for field, name in FIELDS.items()
            if getattr(wanted, field)
        ]
        if wanted.path:
            stated = (value for value, _ in known.terms("affects", "", everything()))
            groups.append(("affects", [one for one in stated if touches(one, wanted.path)]))
        limits = [(MUST, known.one_of(name, values)) for name, values in groups]
        if wanted.since is not None or wanted.until is not None:
            limits.append((MUST, known.between(wanted.since, wanted.until)))
        if wanted.live and (dead := self._db.dead()):
            limits.append((MUST_NOT, known.one_of(words.ROW, dead)))
        return limits

    def _hidden(self, wanted: Filter) -> set[int]:
        """What is not to be found, or not by this reader, or has its place taken by what waits."""
        return self._db.hidden().union(row.number for row in self._db.barred(wanted.reader))

    def _not_hidden(self, wanted: Filter) -> Restriction:
        """That a document is none of these."""
        hidden = self._hidden(wanted)
        return [(MUST_NOT, self._words.one_of(words.ROW, hidden))] if hidden else []

    def _allowed(self, wanted: Filter, asked: Plan) -> list[Row]:
        """What waits and may be found."""
        plain = wanted._replace(live=False)
        return [
            row
            for row in self._db.rows("row", self._docs)
            if row.shown
            and (row.live or not wanted.live)
            and (wanted.reader is None or wanted.reader.sees(row.written.audience))
            and matches(plain, self._docs[row.number].terms, row.written.created)
            and plan.admits(asked, self._tokens[row.number])
        ]
