"""What one process has open of an index, and what it lists: a generation, and what waits beside it.

Rule: every question answers from one state, and looks first for what other processes saved or built. Restrictions hold
inside retrieval, so an answer is short only where there is no more; what waits takes the place of what the generation
knows of its path.
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

from filemem.changes import Entry
from filemem.errors import FilememError
from filemem.index import plan, words
from filemem.index.chains import Around, Catalog
from filemem.index.document import TERM_FIELDS, Doc, Node, key, record_from
from filemem.index.embed import Embedder, ModelUnavailable
from filemem.index.fresh import (
    DATABASE,
    GENERATION,
    WORDS,
    Fresh,
    IndexDamaged,
    Item,
    Seal,
    compare,
    latest,
    listed,
    mark,
    measure,
)
from filemem.index.generation import Row, newest_first
from filemem.index.plan import Plan
from filemem.index.vectors import Meaning, Ranking
from filemem.index.words import MUST, MUST_NOT, READING, Match, Restriction, Words, both, everything, term_field
from filemem.query import FIELDS, Filter, Terms, governs, matches
from filemem.record import Record

_SPARE = 4  # looked at for each that is wanted of one type
MEASURED = 0.01  # seconds between two looks at the sizes of the files in use: one for all that a question asks
_LAYOUT = 12  # of the files, and what they say of chains; the rest of the format follows from how texts are read
FORMAT = f"{_LAYOUT}.{zlib.crc32(repr((READING, Doc._fields, Node._fields, TERM_FIELDS)).encode()):08x}"

Dates = Callable[[Collection[str]], Mapping[str, int]]
Layer = Callable[[Mapping[str, Entry]], Mapping[str, Doc | None]]  # given what a generation was built from


def undated(_paths: Collection[str]) -> Mapping[str, int]:
    """Know no dates: what an index is given that nobody can ask for first commits."""
    return {}


class State:
    """See the module; `Index` has the arguments."""

    def __init__(
        self,
        folder: Path,
        model: Embedder | None = None,
        dates: Dates = undated,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.root = folder / FORMAT
        self._dates, self._clock = dates, clock
        self._meaning = Meaning(model)
        self._fresh = Fresh(self.root, clock)
        self._lock = RLock()  # of questions; not the writer's: a search does not wait for a rebuild
        self._measured = -MEASURED
        self._fixed = False  # whether it is in memory alone, and changes no more
        self._layer: Layer | None = None  # what lies over the generation instead of what waits
        self._forget()

    def _forget(self) -> None:
        """Hold nothing open."""
        self._opened: list[int] | None = None  # the mark of the database that is open; [] for none
        self._db, self._seal = Catalog(None), Seal()
        self._version = self._db.version
        self._words: Words | None = None
        self._items: tuple[Item, ...] = ()
        self._waiting: dict[str, Item] = {}
        self._numbered: dict[int, tuple[Item, Mapping[str, Sequence[str]]]] = {}  # what waits, with its tokens
        self._sets: dict[str, set[int]] = {}

    @contextlib.contextmanager
    def _now(self) -> Iterator[None]:
        """Look at the present state, which stands still from then on.

        Raises:
            IndexDamaged: what is there cannot be used.
        """
        with self._lock:
            while True:
                if not self._fixed:
                    self._look()
                with self._db.reading():
                    if self._fixed or self._db.version == self._version:
                        yield
                        return
                self._opened = None

    def _look(self) -> None:
        """Open what is there. What waits is listed first and the generation looked at second: an entry that is gone
        when we list is in the generation that we then find.
        """
        items = self._items if self._layer else self._fresh.items()
        there = self._mark()
        if there != self._opened:
            self._open(there)
            if self._layer:
                items = tuple(Item("", path, doc) for path, doc in self._layer(self._db.manifest()).items())
        if items != self._items:
            self._take(items)
        now = time.monotonic()
        if now >= self._measured + MEASURED:
            measure(self.root, self._seal)
            self._measured = now

    def _mark(self) -> list[int]:
        found = mark(self.root / DATABASE)
        if not found and any(map(GENERATION.fullmatch, listed(self.root))):
            raise IndexDamaged(f"{DATABASE} is gone")
        return found

    def _open(self, there: list[int]) -> None:
        self._db.close()
        self._forget()
        if there:
            database = Catalog(self.root / DATABASE)
            try:
                database.compare(self.root)
                with database.reading():
                    seal = database.seal
                    compare(self.root, seal, WORDS)
                    self._words = Words(self.root / seal.name / WORDS)
                    self._version = database.version
            except FilememError:
                database.close()
                if (now := self._mark()) != there:  # another process has replaced it while we looked
                    self._open(now)
                    return
                raise
            self._db, self._seal = database, seal
        self._opened = there

    def _take(self, items: tuple[Item, ...]) -> None:
        """Let what waits be these entries."""
        if not self._items or self._items != items[: len(self._items)]:  # some were folded in, or given up
            self._db.lay_over()
            self._items, self._numbered = (), {}
        first = len(self._items)
        new = {item.path: (-at - 1, item) for at, item in enumerate(items) if at >= first and item.path}
        dateless = [path for path, (_, item) in new.items() if item.doc and not item.doc.created]
        dates = self._dates(dateless) if dateless else {}
        rows: dict[str, Row | None] = {}
        for path, (number, item) in new.items():
            if doc := item.doc:
                rows[path] = Row(number, doc.created or dates.get(path, 0), doc.blob, doc.node)
                self._numbered[number] = item, words.tokens_of(doc)
            else:
                rows[path] = None
        self._db.put(rows)
        self._items, self._waiting, self._sets = items, latest(items), {}

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
            asked, wanted = plan.plan(without or Terms(), words.analyze), wanted or Filter()
            rows = self._allowed(wanted, asked)
            if self._words:
                limits = [*self._restriction(self._words, wanted), *self._words.restriction(asked)]
                search = partial(self._words.newest, both(everything(), limits))
                found = self._first(self._words, search, limit + offset, wanted)
                rows += self._db.rows("row", [number for _, number in found])
            return [row.node for row in sorted(rows, key=newest_first)[offset : offset + limit]]

    def count(self, wanted: Filter | None = None) -> int:
        """Return the number of records that satisfy a filter."""
        with self._now():
            if wanted is None or wanted == Filter():
                return self._db.count
            waiting = len(self._allowed(wanted, Plan()))
            if self._words is None:
                return waiting
            limits = self._restriction(self._words, wanted)
            if dead := self._dead(wanted):
                limits.append((MUST_NOT, self._words.one_of(words.ROW, dead)))
            return waiting + self._words.count(both(everything(), limits))

    def by_terms(self, wanted: Mapping[str, Collection[str]]) -> list[Node]:
        """Return the nodes with one of some values in some fields: TERM_FIELDS, "path", "ref" (ids referred to)."""
        with self._now():
            found: dict[str, Row] = {}
            for name, values in wanted.items():
                if name in ("id", "path", "ref"):
                    rows = self._db.rows("target" if name == "ref" else name, values)
                else:
                    rows = self._db.rows("row", self._having(name, values))
                found.update((row.written.path, row) for row in rows if row.shown)
            return [row.node for row in found.values()]

    def nearest(self, text: str, kind: str, most: int) -> list[tuple[Node, float]]:
        """Return the records of a type that come nearest to a text by meaning, nearest first, each with its cosine.

        Where nothing can be compared by meaning, and of a type that few of the nearest have, there are fewer.
        """
        with self._now():
            try:
                near = self._ranking(text)
            except ModelUnavailable:
                return []
            like = near.likeness(near.first(_SPARE * most)[0])
            numbers = [at for at, (item, _) in self._numbered.items() if item.doc and key(item.doc.blob) in like]
            if known := self._words:
                query = both(known.one_of(words.KEY, like), self._not_hidden(known))
                numbers += known.numbers(words.ROW, known.search(query, 2 * len(like)))
            rows = (row for row in self._db.rows("row", numbers) if row.shown and row.written.type == kind)
            found = [(row.node, like[key(row.blob)][0]) for row in rows]
            return sorted(found, key=lambda pair: -pair[1])[:most]

    def _ranking(self, text: str) -> Ranking:
        """How near all records are to a text; raises `ModelUnavailable`."""
        waiting = [item.doc for item in self._waiting.values() if item.doc]
        return self._meaning.rank(text, self.root, self._seal, waiting)

    def _having(self, name: str, values: Collection[str]) -> list[int]:
        waiting = ((at, item.doc.terms.get(name, ())) for at, (item, _) in self._numbered.items() if item.doc)
        numbers = [at for at, own in waiting if not set(values).isdisjoint(own)]
        if self._words and values:
            query = both(self._words.one_of(term_field(name), sorted(values)), self._not_hidden(self._words))
            numbers += self._words.numbers(words.ROW, self._words.search(query, self._words.total))
        return numbers

    def terms(self, field: str, prefix: str = "") -> list[tuple[str, int]]:
        """Return (value, number of records) of a field, in order."""
        with self._now():
            counts: Counter[str] = Counter()
            if self._words:
                query = both(everything(), self._not_hidden(self._words))
                counts.update({value: n for value, n in self._words.terms(field, prefix, query) if n})
            for row in self._allowed(Filter(), Plan()):
                doc = self._numbered[row.number][0].doc
                counts.update(
                    {value for value in (doc.terms.get(field, ()) if doc else ()) if value.startswith(prefix)}
                )
            return sorted(counts.items())

    def nodes(self) -> list[Node]:
        """Return the nodes of all records, newest first."""
        with self._now():
            return [row.node for row in self._db.every()]

    def around(self, nodes: Iterable[Node] | None) -> Around:
        """Return the chains that some records belong to; None for all."""
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
            cards = {at: item.doc.card for at, (item, _) in self._numbered.items() if item.doc}
            if self._words:
                cards |= self._words.cards(row.number for row in rows if row.number > 0)
            there = self._db.manifest(paths) | {path: item.file for path, item in self._waiting.items() if item.file}
            known = {row.written.path: cards[row.number] for row in rows if row.number in cards}
            return {path: (there[path], record_from(card)) for path, card in known.items() if path in there}

    def _restriction(self, known: Words, wanted: Filter) -> Restriction:
        """What a filter, and what waits, demand of every document on disk; but not that it holds, see `_first`."""
        limits = []
        for name, field in FIELDS.items():
            values: tuple[str, ...] = getattr(wanted, name)
            if values:
                limits.append((MUST, known.one_of(term_field(field), values)))
        limits += [(MUST, known.one_of(term_field("metadata"), group)) for group in wanted.metadata]
        if wanted.since is not None or wanted.until is not None:
            limits.append((MUST, known.between(wanted.since, wanted.until)))
        if wanted.path:
            stated = (value for value, _ in known.terms("affects", "", everything()))
            limits.append((MUST, known.one_of(term_field("affects"), [one for one in stated if governs(one, wanted)])))
        return [*limits, *self._not_hidden(known)]

    def _not_hidden(self, known: Words) -> Restriction:
        if "hidden" not in self._sets:
            self._sets["hidden"] = self._db.hidden()
        hidden = self._sets["hidden"]
        return [(MUST_NOT, known.one_of(words.ROW, hidden))] if hidden else []

    def _dead(self, wanted: Filter) -> set[int]:
        """The row numbers of what does not hold, where only what holds is asked for."""
        if wanted.live and "dead" not in self._sets:
            self._sets["dead"] = self._db.dead()
        return self._sets["dead"] if wanted.live else set()

    def _first(
        self, known: Words, search: Callable[[int], list[Match]], count: int, wanted: Filter
    ) -> list[tuple[Match, int]]:
        """Return the first matches that hold, where that is asked for, with their row numbers."""
        dead = self._dead(wanted)
        ask = max(count, 2 * count * known.total // max(1, known.total - len(dead)) if dead else count)
        while True:
            found = search(ask)
            numbers = known.numbers(words.ROW, found)
            kept = [pair for pair in zip(found, numbers, strict=True) if pair[1] not in dead]
            if len(kept) >= count or len(found) < ask:
                return kept[:count]
            ask *= 4

    def _allowed(self, wanted: Filter, asked: Plan) -> list[Row]:
        """What waits and may be found."""
        plain, found = wanted._replace(live=False), []
        for row in self._db.rows("row", self._numbered):
            item, tokens = self._numbered[row.number]
            fits = row.shown and (row.live or not wanted.live) and item.doc
            if fits and matches(plain, fits.terms, row.created) and plan.admits(asked, tokens):
                found.append(row)
        return found
