"""Read the rows of an index: listings, lookups and chains.

Each method sees one state of the database, also while another process writes.
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
from filemem.index.chains import TOPIC_PREFIX, ChainIndex, ChainSet, Dates, Row
from filemem.index.database import Database
from filemem.index.document import TERM_FIELDS, Doc, parse_card
from filemem.index.embed import Model
from filemem.index.storage import NAME, read_file_stamp
from filemem.index.words import READING_FORMAT
from filemem.query import Filter
from filemem.record import Record

_LAYOUT = 21  # of the files, and what they say of chains; the rest follows from how texts are read
_FORMAT = (READING_FORMAT, Doc._fields, Node._fields, TERM_FIELDS)
_COLUMNS = {"topic": "key", "heading": "name", "ref": "target"}  # as in `ChainIndex.read_rows`
_SHORT_ID_FIELD = "short"
_MAX_CACHED_RECORDS = 512  # a search often shows records of the search before it


class IndexReader(ChainIndex):
    """The rows of an index, open for questions. Errors: IndexDamaged, BrokenStore."""

    def __init__(
        self, folder: Path | None, model: Model | None = None, dates: Dates = lambda _: {}
    ) -> None:
        """Set up an index; nothing is opened before the first question.

        Args:
            folder: has a subfolder for each format; None for an index in memory.
            model: turns texts into vectors; None to search by words only.
            dates: dates the records that state no date.
        """
        self.model = model
        model_name = model.name if model else ""
        format_hash = zlib.crc32(repr((_FORMAT, model_name)).encode())
        self.in_memory = folder is None
        self.root = Path(folder or os.devnull, f"{_LAYOUT}.{format_hash:08x}")
        self._dates = dates
        self._lock = RLock()  # not that of the writer: a search does not wait for a rebuild
        self._database = Database(None)
        self._reset()

    def _reset(self) -> None:
        """Close the database and forget what was read from it."""
        self._database.close()
        self._database = Database(None)
        self._inode: list[int] = []  # of the open file
        self._record_cache: dict[int, Record] = {}  # by number; a record never changes

    def _open(self) -> None:
        """Open the database again if the file was replaced. Raises IndexDamaged."""
        if self.in_memory:
            return
        inode = read_file_stamp(self.root / NAME)[:1]
        if inode != self._inode:
            self._reset()
            if inode:
                self._connect(inode)

    def _connect(self, inode: list[int]) -> None:
        """Open the file, unless another process is still creating its tables."""
        database = Database(self.root / NAME)
        if database.has_tables:
            self._database = database
            self._inode = inode
        else:
            database.close()

    @contextlib.contextmanager
    def _current_database(self) -> Iterator[Database]:
        """See one state of the database until the end of the block. Raises IndexDamaged."""
        with self._lock:
            if not self._database.is_reading:
                self._open()
            with self._database.snapshot():
                yield self._database

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Database]:
        """See one state of the database for several questions. Raises IndexDamaged."""
        with self._current_database() as database:
            yield database

    # listings and lookups

    def count_records(self, record_filter: Filter | None = None) -> int:
        """Return the number of records that satisfy a filter."""
        with self._current_database() as database:
            return database.count_records(record_filter or Filter())

    def read_nodes_by_field(self, field: str, values: Collection[str]) -> list[Node]:
        """Return the records with one of some values in a field.

        Fields are id, path, name, topic and heading (keys), short, ref, and those of
        `ChainIndex.read_rows`.
        """
        if not values:
            return []
        if field == "heading":
            values = [TOPIC_PREFIX + value for value in values]
        with self._current_database() as database:
            if field == _SHORT_ID_FIELD:
                rows = database.read_rows_with_term(field, values)
            else:
                rows = database.read_rows(_COLUMNS.get(field, field), values)
            return [row.node for row in rows if row.is_visible]

    def read_barred_ids(self, record_filter: Filter) -> frozenset[str]:
        """Return the ids of the records that the reader of a filter may not see."""
        with self._current_database() as database:
            rows = database.read_barred_rows(record_filter.reader)
            return frozenset(row.raw_node.id for row in rows)

    def count_terms(
        self, field: str, prefix: str = "", record_filter: Filter | None = None
    ) -> list[tuple[str, int]]:
        """Return the values of a field in order, each with how many records have it.

        Of `record_filter` only the reader counts.
        """
        reader = record_filter.reader if record_filter else None
        with self._current_database() as database:
            return database.count_terms(field, prefix, Filter(reader=reader))

    def read_nodes(self) -> list[Node]:
        """Return the nodes of all records, newest first."""
        with self._current_database() as database:
            return [row.node for row in database.read_visible_rows()]

    def read_ids(self) -> dict[str, str]:
        """Return the ids of all records by path."""
        return {node.path: node.id for node in self.read_nodes()}

    def read_topics(self, words: str, limit: int, offset: int) -> tuple[list[Node], int]:
        """Return a page of the last decisions of topics with some words, and how many there are."""
        with self._current_database() as database:
            rows, count = database.read_topic_rows(words, limit, offset)
        return [row.node for row in rows], count

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field; see `Database.read_rows`."""
        with self._current_database() as database:
            return database.read_rows(field, values)

    def read_chains(self, nodes: Iterable[Node]) -> ChainSet:
        """Return the chains that some records belong to."""
        with self._current_database():
            return super().read_chains(nodes)

    def read_nodes_by_name(self, name: str) -> list[Node]:
        """Return the records that a name may mean; one if the name is unambiguous.

        A name is an id, a short id, a path, a file name, a number or a title.
        """
        with self._current_database():
            return [row.node for row in self.read_rows_by_name(name)]

    def read_records(self, paths: Iterable[str]) -> dict[str, tuple[Entry, Record]]:
        """Return by path the records as they were indexed, each with its file at that time."""
        with self._current_database() as database:
            files = database.read_files(paths)
            self._load_records(database, {number for _, _, number in files})
            records = {}
            for path, entry, number in files:
                records[path] = entry, self._record_cache[number]
            return records

    def _load_records(self, database: Database, numbers: set[int]) -> None:
        """Read the records with some numbers into the cache."""
        missing_numbers = numbers - self._record_cache.keys()
        if len(self._record_cache) + len(missing_numbers) > _MAX_CACHED_RECORDS:
            self._record_cache = {}
            missing_numbers = numbers
        if missing_numbers:
            for number, card in database.read_cards(missing_numbers).items():
                self._record_cache[number] = parse_card(card)

    def read_manifest(self, folders: Collection[str] = ("",)) -> dict[str, Entry]:
        """Return what the index was built from below some folders: path -> entry."""
        with self._current_database() as database:
            return database.read_manifest(folders=folders)
