"""What can be asked of the rows of an index: listings, lookups and chains.

Rule: every question sees one state of the database, whoever writes meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from threading import RLock

from filemem.chain import Node
from filemem.changes import Entry
from filemem.index.chains import UNSTATED, Around, Chains, Dates, Row
from filemem.index.database import NAME, Database
from filemem.index.document import TERM_FIELDS, Doc, record_from
from filemem.index.embed import Model
from filemem.index.folder import mark
from filemem.index.words import READING
from filemem.query import Filter
from filemem.record import Record

_LAYOUT = 21  # of the files, and what they say of chains; the rest follows from how texts are read
_FORMAT = (READING, Doc._fields, Node._fields, TERM_FIELDS)
_COLUMNS = {"topic": "key", "heading": "name", "ref": "target"}  # as `Chains.rows` has them
_SHORT = "short"
_REMEMBERED = 512  # records; those that one question shows are shown by the next


class Lookups(Chains):
    """The rows of an index, open for questions. Errors: IndexDamaged, BrokenStore."""

    def __init__(
        self,
        folder: Path | None,  # each format has its own in it; None for one in memory
        model: Model | None = None,  # turns texts into vectors; None for keyword search only
        dates: Dates = lambda _: {},  # asked only for records that state no date
    ) -> None:
        self.model = model
        form = zlib.crc32(repr((_FORMAT, model.name if model else "")).encode())
        self.in_memory = folder is None
        self.root = Path(folder or os.devnull, f"{_LAYOUT}.{form:08x}")
        self._dates = dates
        self._lock = RLock()  # of questions; not the writer's: a search does not wait for a rebuild
        self._database = Database(None)
        self._forget()

    def _forget(self) -> None:
        """Let go of the database, and of what was read of it."""
        self._database.close()
        self._database = Database(None)
        self._inode: list[int] = []  # of the file that is open
        self._cards: dict[int, Record] = {}  # records by number, which never change

    def _open(self) -> None:
        """Open the database that is there now. Raises IndexDamaged."""
        if self.in_memory:
            return
        inode = mark(self.root / NAME)[:1]
        if inode != self._inode:
            self._forget()
            if inode:
                self._connect(inode)

    def _connect(self, inode: list[int]) -> None:
        """Open the file, or nothing as long as its tables are being made."""
        database = Database(self.root / NAME)
        if database.is_made:
            self._database = database
            self._inode = inode
        else:
            database.close()

    @contextlib.contextmanager
    def _now(self) -> Iterator[Database]:
        """The present state, which stands still from then on. Raises IndexDamaged."""
        with self._lock:
            if not self._database.is_reading:
                self._open()
            with self._database.reading():
                yield self._database

    @contextlib.contextmanager
    def facts(self) -> Iterator[Database]:
        """The rows of the present state, for several questions."""
        with self._now() as database:
            yield database

    # listings and lookups

    def count(self, wanted: Filter | None = None) -> int:
        """Return the number of records that satisfy a filter."""
        with self._now() as database:
            return database.count(wanted or Filter())

    def lookup(self, field: str, values: Collection[str]) -> list[Node]:
        """Return the records with one of some values in a field.

        Fields: id, path, name, topic and heading (keys), short, ref, and those of `Chains.rows`.
        """
        values = [UNSTATED + value for value in values] if field == "heading" else values
        if not values:
            return []
        with self._now() as database:
            if field == _SHORT:
                rows = database.with_term(field, values)
            else:
                rows = database.rows(_COLUMNS.get(field, field), values)
            return [row.node for row in rows if row.visible]

    def barred(self, wanted: Filter) -> frozenset[str]:
        """Return the ids of the records that the reader of a filter may not see."""
        with self._now() as database:
            return frozenset(row.written.id for row in database.barred(wanted.reader))

    def terms(
        self, field: str, prefix: str = "", wanted: Filter | None = None
    ) -> list[tuple[str, int]]:
        """Return (value, number of records) of a field, in order, of what a reader may see."""
        seen = Filter(reader=wanted.reader if wanted else None)
        with self._now() as database:
            return database.terms(field, prefix, seen)

    def nodes(self) -> list[Node]:
        """Return the nodes of all records, newest first."""
        with self._now() as database:
            return [row.node for row in database.every()]

    def ids(self) -> dict[str, str]:
        """Return the ids of all records by path."""
        return {node.path: node.id for node in self.nodes()}

    def topics(self, words: str, limit: int, offset: int) -> tuple[list[Node], int]:
        """Return the last decisions of topics with some words in their names, and how many."""
        with self._now() as database:
            rows, count = database.listed(words, limit, offset)
            return [row.node for row in rows], count

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        with self._now() as database:
            return database.rows(field, values)

    def around(self, nodes: Iterable[Node]) -> Around:
        """Return the chains that some records belong to."""
        with self._now():
            return super().around(nodes)

    def answering(self, name: str) -> list[Node]:
        """Return the records that a name may mean, one if it is clear.

        A name is an id, a short id, a path, a file name, a number or a title.
        """
        with self._now():
            return [row.node for row in self.named(name)]

    def records(self, paths: Iterable[str]) -> dict[str, tuple[Entry, Record]]:
        """Return records as they were indexed, by path, each with its file as it was then."""
        with self._now() as database:
            files = database.files_of(paths)
            new = {number for _, _, number in files} - self._cards.keys()
            if len(self._cards) + len(new) > _REMEMBERED:
                self._cards = {}
                new = {number for _, _, number in files}
            cards = database.cards(new) if new else {}
            self._cards |= {number: record_from(card) for number, card in cards.items()}
            return {path: (entry, self._cards[number]) for path, entry, number in files}

    def manifest(self, folders: Collection[str] = ("",)) -> dict[str, Entry]:
        """Return what the index was built from below some folders: path -> entry."""
        with self._now() as database:
            return database.manifest(below=folders)
