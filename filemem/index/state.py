"""What one process has open of an index: a generation, and what waits beside it.

Rule: every question answers from one state, and looks first for what other processes saved or built. What waits takes
the place of what the generation knows of its path.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from filemem.changes import Entry
from filemem.errors import FilememError
from filemem.index import words
from filemem.index.chains import Catalog
from filemem.index.document import TERM_FIELDS, Doc, Node
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.fresh import (
    DATABASE,
    WORDS,
    Fresh,
    Item,
    Seal,
    compare,
    latest,
    mark,
)
from filemem.index.generation import Dates, rows_of
from filemem.index.words import READING, Words

if TYPE_CHECKING:
    from filemem.index.vectors import Ranking, Vectors

NO_MODEL = "no embedding model is configured"
_LAYOUT = 14  # of the files, and what they say of chains; the rest of the format follows from how texts are read
_FORMAT = (READING, Doc._fields, Node._fields, TERM_FIELDS)

Layer = Callable[[Mapping[str, Entry]], Mapping[str, Doc | None]]  # given what a generation was built from


def undated(_paths: Collection[str]) -> Mapping[str, int]:
    """Know no dates: what an index is given that nobody can ask for first commits."""
    return {}


class State:
    """See the module; `Index` has the arguments."""

    def __init__(
        self,
        folder: Path,
        model: Model | None = None,
        dates: Dates = undated,
        clock: Callable[[], int] = time.time_ns,
        layer: Layer | None = None,
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
        """Look at the present state, which stands still from then on.

        Raises:
            IndexDamaged: what is there cannot be used.
        """
        with self._lock:
            while True:
                self._look()
                with self._db.reading():
                    if self._db.version == self._version:
                        yield
                        return
                self._opened = None

    def _look(self) -> None:
        """Open what is there. What waits is listed first and the generation looked at second: an entry that is gone
        when we list is in the generation that we then find.
        """
        items = self._items if self._layer else self._fresh.items()
        there = mark(self.root / DATABASE)
        if there != self._opened:
            self._open(there)
            if self._layer:
                items = tuple(Item("", path, doc) for path, doc in self._layer(self._db.manifest()).items())
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
                if (now := mark(self.root / DATABASE)) != there:  # another process has replaced it while we looked
                    self._open(now)
                    return
                raise
            self._db, self._seal = database, seal
        self._opened = there

    def _take(self, items: tuple[Item, ...]) -> None:
        """Let what waits be these entries."""
        if not self._items or self._items != items[: len(self._items)]:  # some were folded in, or given up
            if self._seal.name:
                self._db.lay_over()
            else:
                self._db = Catalog(None)
            self._items, self._docs, self._tokens = (), {}, {}
        first = len(self._items)
        new = {item.path: (-at - 1, item) for at, item in enumerate(items) if at >= first and item.path}
        docs = {number: item.doc for number, item in new.values() if item.doc}
        self._docs |= docs
        self._tokens |= {number: words.tokens_of(doc) for number, doc in docs.items()}
        rows = {row.written.path: row for row in rows_of(docs, self._dates)}
        self._db.put({path: rows.get(path) for path in new})
        self._items, self._waiting = items, latest(items)

    def _ranking(self, text: str) -> Ranking:
        """How near all records are to a text; raises `ModelUnavailable`."""
        if self.model is None:
            raise ModelUnavailable(NO_MODEL)
        query = self.model.encode([text])[0]
        if not query.any():
            raise ModelUnavailable("the embedding model knows no word of the query")
        self._vectors = self._vectors or self.model.table.vectors()
        return self._vectors.rank(query, self.root, self._seal, self._docs.values())
