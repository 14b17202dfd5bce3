"""`index.db`: the index itself, complete at every moment. Tantivy and usearch are caches of it.

Rule: what a file says is written once, under its path and blob, and stays: `docs`, `texts`,
`meaning`, `links`, `fields`. What stands now says which of it is there and what follows from all
of it: `standing`, `targets`, `files`, `state`. A past is the same content with other tables of
what stands, temporary ones, which SQLite prefers to those of the file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filemem.chain import NO_FACTS, Facts, Node
from filemem.changes import Entry
from filemem.errors import FilememError, Locked
from filemem.index.chains import LINK_KINDS, Row, list_links
from filemem.index.document import Doc, build_node
from filemem.index.folder import IndexDamaged, build_system_error
from filemem.query import Filter, has_overlap
from filemem.record.visibility import Reader

NAME = "index.db"
_LOCK_TIMEOUT = 20.0  # seconds that a writer waits for another's commit
_CONTENT_SCHEMA = """
CREATE TABLE IF NOT EXISTS docs (
    number INTEGER PRIMARY KEY, path BLOB, blob TEXT, id BLOB, key BLOB, node TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS docs_content ON docs (path, blob);
CREATE INDEX IF NOT EXISTS docs_id ON docs (id);
CREATE INDEX IF NOT EXISTS docs_key ON docs (key);
CREATE TABLE IF NOT EXISTS texts (number INTEGER PRIMARY KEY, card BLOB, tokens BLOB);
CREATE TABLE IF NOT EXISTS meaning (number INTEGER PRIMARY KEY, pack BLOB);
CREATE INDEX IF NOT EXISTS meaning_lacking ON meaning (number) WHERE pack IS NULL;
CREATE TABLE IF NOT EXISTS links (
    kind TEXT, value BLOB, number INTEGER, PRIMARY KEY (kind, value, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fields (
    name TEXT, value BLOB, number INTEGER, PRIMARY KEY (name, value, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checked (
    name TEXT PRIMARY KEY, state TEXT, problems TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS folders (path BLOB PRIMARY KEY, mtime INTEGER) WITHOUT ROWID;
"""
_STANDING_SCHEMA = """
CREATE {temporary} TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE {temporary} TABLE IF NOT EXISTS files (
    path BLOB PRIMARY KEY, blob TEXT, size INTEGER, mtime INTEGER, number INTEGER) WITHOUT ROWID;
CREATE {temporary} TABLE IF NOT EXISTS standing (
    number INTEGER PRIMARY KEY, present INTEGER, cached INTEGER, created INTEGER,
    live INTEGER, shown INTEGER, meant TEXT, place BLOB, names BLOB, facts TEXT,
    stamp INTEGER);
CREATE INDEX IF NOT EXISTS {schema}.standing_stamp ON standing (stamp);
CREATE INDEX IF NOT EXISTS {schema}.standing_newest ON standing (created DESC)
    WHERE present = 1 AND shown = 1;
CREATE INDEX IF NOT EXISTS {schema}.standing_place ON standing (place, names)
    WHERE place IS NOT NULL AND present = 1;
CREATE INDEX IF NOT EXISTS {schema}.standing_young ON standing (number)
    WHERE cached = 0 AND present = 1 AND shown = 1;
CREATE INDEX IF NOT EXISTS {schema}.standing_masked ON standing (number)
    WHERE cached = 1 AND NOT (present AND shown);
CREATE {temporary} TABLE IF NOT EXISTS targets (
    value BLOB, number INTEGER, PRIMARY KEY (value, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {schema}.targets_number ON targets (number);
"""
_CONTENT_TABLES = ("docs", "texts", "meaning", "links", "fields", "folders", "checked")
_STATE_TABLES = ("state", "files", "standing", "targets")
_IN_VALUES = "IN (SELECT CAST(value AS BLOB) FROM json_each(?))"
_IN_NUMBERS = "IN (SELECT value FROM json_each(?))"
_HAS_LINK = f"s.number IN (SELECT number FROM links WHERE kind = ? AND value {_IN_VALUES})"
_HAS_FIELD = f"s.number IN (SELECT number FROM fields WHERE name = ? AND value {_IN_VALUES})"
_HAS_TARGET = f"s.number IN (SELECT number FROM targets WHERE value {_IN_VALUES})"
_FROM = "FROM standing s JOIN docs d ON d.number = s.number WHERE s.present = 1"
_SELECT_ROWS = f"""SELECT d.number, d.blob, d.node, s.created, s.live, s.shown, s.meant, s.place, s.names,
    s.facts, s.stamp {_FROM}"""
COUNT_MISSING_VECTORS = """SELECT count(*) FROM meaning m JOIN standing s ON s.number = m.number
    WHERE m.pack IS NULL AND s.present = 1"""
_MAX_CACHED_ROWS = 8_192  # rows; one question meets those of the last again


class Content(NamedTuple):
    """What is kept of a document."""

    doc: Doc
    tokens: str  # its exact tokens, part by part
    pack: bytes | None  # its vectors; None where there was no model


class StandingChange(NamedTuple):
    """One document whose standing changed."""

    number: int
    is_visible: bool
    is_cached: bool


class Database:
    """`index.db`, open in one process; without a path it is in memory."""

    def __init__(self, path: Path | None, *, create: bool = False, is_past: bool = False) -> None:
        """`create`: make the file and its tables; `past`: let what stands be a copy of one's own.

        Raises BrokenStore, IndexDamaged.
        """
        self._row_cache: dict[int, tuple[int, Row]] = {}  # rows by number, with their stamps
        self._query_cache: dict[Any, Any] = {}  # answers and rows of the version that was read last
        self._data_version = 0  # of the file, as SQLite counts the commits of others
        self._is_writing = False
        with _error_translation():
            self._connection = sqlite3.connect(
                _build_uri(path, create=create),
                uri=True,
                timeout=_LOCK_TIMEOUT,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA temp_store = MEMORY")
            if path is None or create:
                self._create_tables()
            if is_past:
                self._copy_standing()

    def _create_tables(self) -> None:
        # Where there is no shared memory the answer is another mode, in which readers wait.
        (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            self._connection.execute("PRAGMA journal_mode = TRUNCATE")
        tables = _CONTENT_SCHEMA + _STANDING_SCHEMA.format(temporary="", schema="main")
        self._connection.executescript(f"BEGIN; {tables} PRAGMA user_version = 1; COMMIT")

    @property
    def has_tables(self) -> bool:
        """Whether its tables are there: another process may be making them now."""
        return self._query("PRAGMA user_version") != [(0,)]

    def _copy_standing(self) -> None:
        self._connection.executescript(_STANDING_SCHEMA.format(temporary="TEMP", schema="temp"))
        with self.transaction():
            for table in _STATE_TABLES:
                self._connection.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def replace_from(self, other_path: Path) -> None:
        """Let this be what another database is."""
        with _error_translation():
            self._connection.execute("ATTACH ? AS other", (str(other_path),))
            try:
                with self.transaction():
                    for table in (*_CONTENT_TABLES, *_STATE_TABLES):
                        self._connection.execute(f"DELETE FROM main.{table}")
                        self._connection.execute(
                            f"INSERT INTO main.{table} SELECT * FROM other.{table}"
                        )
            finally:
                self._connection.execute("DETACH other")

    @property
    def last_number(self) -> int:
        """The number of the document made last, of whatever state: none is used again."""
        rows = self._query("SELECT value FROM main.state WHERE name = 'last'")
        return rows[0][0] if rows else 0

    @property
    def is_reading(self) -> bool:
        """Whether one state is seen now."""
        return self._connection.in_transaction

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state all the while."""
        if self._connection.in_transaction:
            yield
            return
        with _error_translation(), self._connection:
            self._connection.execute("BEGIN")
            # What others committed changes it; what this connection does clears by itself.
            ((version,),) = self._connection.execute("PRAGMA data_version")
            if version != self._data_version:
                self._data_version = version
                self._query_cache.clear()
            yield

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Change all of it or nothing. Raises Locked."""
        with _error_translation(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._is_writing = True
            try:
                yield
            finally:
                self._is_writing = False
                self._query_cache.clear()

    def verify_integrity(self) -> None:
        """Read all of the file; raises `IndexDamaged`."""
        if self._query("PRAGMA quick_check") != [("ok",)]:
            raise IndexDamaged(f"{NAME} is not whole")

    def truncate_log(self) -> None:
        """Move what the log holds into the file, as far as no reader needs it."""
        with contextlib.suppress(Locked), _error_translation():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # what it was made from

    @property
    def stamp(self) -> int:
        """A number that grows with every change of what can be found."""
        return int(self.read_state("stamp") or 0)

    def read_state(self, name: str) -> Any:
        """Return what was noted under a name; None for nothing."""
        return dict(self._query_cached("SELECT name, value FROM state")).get(name)

    def write_state(self, **values: Any) -> None:
        """Note values under names."""
        self._execute_many("REPLACE INTO state VALUES (?, ?)", values.items())

    def advance_stamp(self) -> int:
        """Return a new stamp for the change that is being made."""
        stamp = self.stamp + 1
        self.write_state(stamp=stamp)
        return stamp

    def read_folder_times(self) -> dict[str, int]:
        """The times of folders, in nanoseconds."""
        return {
            _decode_text(path): mtime
            for path, mtime in self._query_cached("SELECT path, mtime FROM folders")
        }

    def write_folder_times(self, times: Mapping[str, int]) -> None:
        """Let these be the times of folders."""
        old_times = self.read_folder_times()
        removed_rows = ((_encode_text(path),) for path in old_times.keys() - times)
        self._execute_many("DELETE FROM folders WHERE path = ?", removed_rows)
        changed_rows = (
            (_encode_text(path), mtime)
            for path, mtime in times.items()
            if old_times.get(path) != mtime
        )
        self._execute_many("REPLACE INTO folders VALUES (?, ?)", changed_rows)

    def read_manifest(
        self, paths: Iterable[str] | None = None, *, folders: Iterable[str] = ("",)
    ) -> dict[str, Entry]:
        """Return what the index was built from, of some paths or of all below some folders."""
        sql = "SELECT path, blob, size, mtime FROM files WHERE"
        rows = (
            []
            if paths is None
            else self._query(f"{sql} path {_IN_VALUES}", json.dumps(list(paths)))
        )
        for folder in folders if paths is None else ():
            # "0" comes after "/"
            bounds = (
                (_encode_text(f"{folder}/"), _encode_text(f"{folder}0"))
                if folder
                else (b"", b"\xff")
            )
            rows += self._query(f"{sql} path >= ? AND path < ?", *bounds)
        return {_decode_text(path): Entry(*entry) for path, *entry in rows}

    def write_files(self, entries: Mapping[str, Entry | None], numbers: Mapping[str, int]) -> None:
        """Note what stands under some paths, and the documents of these; None for nothing."""
        removed_rows = ((_encode_text(path),) for path, entry in entries.items() if entry is None)
        self._execute_many("DELETE FROM files WHERE path = ?", removed_rows)
        present_rows = (
            (_encode_text(path), *entry, numbers.get(path))
            for path, entry in entries.items()
            if entry
        )
        self._execute_many("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", present_rows)

    def update_file_stats(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Note size and time of files whose content is as it was."""
        sql = "UPDATE files SET size = ?, mtime = ? WHERE path = ? AND blob = ?"
        self._execute_many(
            sql, ((e.size, e.mtime, _encode_text(path), e.blob) for path, e in entries)
        )

    def read_standing_numbers(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the numbers of the documents that stand under some paths."""
        sql = f"SELECT path, number FROM files WHERE number IS NOT NULL AND path {_IN_VALUES}"
        return {
            _decode_text(path): number for path, number in self._query(sql, json.dumps(list(paths)))
        }

    def read_document_numbers(self, entries: Mapping[str, Entry]) -> dict[str, int]:
        """Return the numbers of documents that were ever made of some files, by path."""
        sql = f"SELECT path, blob, number FROM docs WHERE path {_IN_VALUES}"
        rows = self._query(sql, json.dumps(list(entries)))
        candidates = ((_decode_text(path), blob, number) for path, blob, number in rows)
        return {path: number for path, blob, number in candidates if entries[path].blob == blob}

    # records

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field.

        Fields: number, path, id, key; target, the id of what it refers to; and those of `LINKED`.
        """
        if field == "number" and not self._is_writing:
            return self._load_rows(values)
        encoded_values = json.dumps(list(dict.fromkeys(values)))
        if field in LINK_KINDS:
            return self._select_rows(_HAS_LINK, field, encoded_values)
        if field == "target":
            return self._select_rows(_HAS_TARGET, encoded_values)
        return self._select_rows(
            f"d.{field} {_IN_NUMBERS if field == 'number' else _IN_VALUES}", encoded_values
        )

    def _load_rows(self, numbers: Iterable[str | int]) -> list[Row]:
        """Rows by number, in their order; what one search met is at hand for the next."""
        if len(self._query_cache) > _MAX_CACHED_ROWS or not self._connection.in_transaction:
            self._query_cache.clear()
        sorted_numbers = sorted(set(numbers))
        missing_numbers = [number for number in sorted_numbers if number not in self._query_cache]
        if missing_numbers:
            rows = self._select_rows(f"d.number {_IN_NUMBERS}", json.dumps(missing_numbers))
            self._query_cache |= {row.number: row for row in rows}
        return [
            self._query_cache[number] for number in sorted_numbers if number in self._query_cache
        ]

    def _select_rows(self, condition: str, *values: Any) -> list[Row]:
        return list(map(self._load_row, self._query(f"{_SELECT_ROWS} AND {condition}", *values)))

    def _load_row(self, columns: tuple[Any, ...]) -> Row:
        """A row as it was read before, unless it has changed since or is being changed."""
        number, *_, stamp = columns
        if self._is_writing:
            return _parse_row(columns)
        cached = self._row_cache.get(number)
        if cached is None or cached[0] != stamp:
            if len(self._row_cache) >= _MAX_CACHED_ROWS:
                self._row_cache.clear()
            cached = self._row_cache[number] = stamp, _parse_row(columns)
        return cached[1]

    def read_rows_with_term(self, name: str, values: Iterable[str]) -> list[Row]:
        """Return the records that have one of some values in an exact field."""
        return self._select_rows(_HAS_FIELD, name, json.dumps(list(values)))

    def read_present_rows(self, excluded_numbers: Collection[int]) -> list[Row]:
        """Return all records that stand, shown or not, `without` some numbers."""
        return self._select_rows(f"NOT s.number {_IN_NUMBERS}", _format_json(excluded_numbers))

    def read_visible_rows(self, limit: int = -1) -> list[Row]:
        """Return all records that are shown, or so many, newest first."""
        return self._select_rows("s.shown = 1 ORDER BY s.created DESC, d.path LIMIT ?", limit)

    def read_newest_rows(
        self, record_filter: Filter, limit: int, offset: int, excluded_numbers: Collection[int] = ()
    ) -> list[Row]:
        """Return the newest records that satisfy a filter, newest first, `without` some numbers."""
        condition, values = self._build_where(record_filter)
        if excluded_numbers:
            condition += f" AND NOT s.number {_IN_NUMBERS}"
            values.append(json.dumps(list(excluded_numbers)))
        page = "ORDER BY s.created DESC, d.path LIMIT ? OFFSET ?"
        return self._select_rows(f"{condition} {page}", *values, limit, offset)

    def read_allowed_numbers(self, record_filter: Filter) -> set[int] | None:
        """Return the numbers of what satisfies a filter, whoever asks; None where all does."""
        readerless_filter = record_filter._replace(reader=None)
        if readerless_filter == Filter():
            return None
        condition, values = self._build_where(readerless_filter)
        return {
            number for (number,) in self._query(f"SELECT s.number {_FROM} AND {condition}", *values)
        }

    def count_records(self, record_filter: Filter) -> int:
        """Return how many records satisfy a filter."""
        condition, values = self._build_where(record_filter)
        return int(self._query(f"SELECT count(*) {_FROM} AND {condition}", *values)[0][0])

    def count_terms(self, name: str, prefix: str, record_filter: Filter) -> list[tuple[str, int]]:
        """Return (value, number of records) of an exact field, of those that satisfy a filter."""
        condition, values = self._build_where(record_filter)
        from_clause = _FROM.replace(" WHERE", " JOIN fields f ON f.number = s.number WHERE")
        # No text in UTF-8 has the byte that ends the range.
        term_condition = f"f.name = ? AND f.value BETWEEN ? AND ? AND {condition}"
        sql = f"SELECT f.value, count(*) {from_clause} AND {term_condition} GROUP BY 1"
        begin = _encode_text(prefix)
        rows = self._query(sql, name, begin, begin + b"\xff", *values)
        return [(_decode_text(value), count) for value, count in rows]

    def read_topic_rows(self, words: str, limit: int, offset: int) -> tuple[list[Row], int]:
        """Return rows that stand for a topic, in order, of those with some words; and how many."""
        condition = "s.place IS NOT NULL AND instr(s.names, CAST(? AS BLOB))"
        rows = self._select_rows(
            f"{condition} ORDER BY s.place LIMIT ? OFFSET ?", words, limit, offset
        )
        ((count,),) = self._query(f"SELECT count(*) {_FROM} AND {condition}", words)
        return rows, count

    def read_link_values(self, kind: str) -> list[str]:
        """Return all values of a kind of links, such as the paths that decisions govern."""
        values = self._query_cached("SELECT DISTINCT value FROM links WHERE kind = ?", kind)
        return [_decode_text(value) for (value,) in values]

    def read_barred_rows(self, reader: Reader | None) -> list[Row]:
        """Return the records that a reader may not see; None sees all."""
        audiences = self._read_closed_audiences(reader)
        return self.read_rows("audience", audiences) if audiences else []

    def _read_closed_audiences(self, reader: Reader | None) -> list[str]:
        """The audiences that a reader is not one of."""
        return (
            [name for name in self.read_link_values("audience") if not reader.can_see(name)]
            if reader
            else []
        )

    def _build_where(self, record_filter: Filter) -> tuple[str, list[Any]]:
        """A filter in SQL, and the values in it; `query.passes` says the same in Python."""
        conditions = ["s.shown = 1"]
        values = list[Any]()
        for name, chosen in record_filter.exact_terms.items():
            conditions.append(_HAS_FIELD)
            values += [name, json.dumps(chosen)]
        if record_filter.path:
            matching_paths = [
                path
                for path in self.read_link_values("affects")
                if has_overlap(path, record_filter.path)
            ]
            conditions.append(_HAS_LINK)
            values += ["affects", json.dumps(matching_paths)]
        if record_filter.live:
            conditions.append("s.live = 1")
        for bound, sign in ((record_filter.since, ">="), (record_filter.until, "<=")):
            if bound is not None:
                conditions.append(f"s.created {sign} ?")
                values.append(bound)
        if closed := self._read_closed_audiences(record_filter.reader):
            conditions.append(f"NOT {_HAS_LINK}")
            values += ["audience", json.dumps(closed)]
        return " AND ".join(conditions), values

    def read_undated_rows(self) -> list[Row]:
        """Return the records of which no date was known."""
        return self._select_rows("s.created = 0")

    def count_missing_vectors(self) -> int:
        """Return how many records have no vectors."""
        return int(self._query(COUNT_MISSING_VECTORS)[0][0])

    def read_files(self, paths: Iterable[str]) -> list[tuple[str, Entry, int]]:
        """Return path, file and number of the records that stand under some paths."""
        sql = f"""SELECT path, blob, size, mtime, number FROM files
            WHERE number IS NOT NULL AND path {_IN_VALUES}"""
        rows = self._query(sql, json.dumps(list(paths)))
        return [(_decode_text(path), Entry(*entry), number) for path, *entry, number in rows]

    def read_cards(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the cards of documents."""
        sql = f"SELECT number, card FROM texts WHERE number {_IN_NUMBERS}"
        return {
            number: _decompress_text(card)
            for number, card in self._query(sql, _format_json(numbers))
        }

    def read_tokens(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the exact tokens of documents, as `Content` has them."""
        sql = f"SELECT number, tokens FROM texts WHERE number {_IN_NUMBERS}"
        return {
            number: _decompress_text(data)
            for number, data in self._query(sql, _format_json(numbers))
        }

    def read_packs(self, numbers: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return the packed vectors of documents, in order of numbers."""
        condition = f"pack IS NOT NULL AND number {_IN_NUMBERS}"
        sql = f"SELECT number, pack FROM meaning WHERE {condition} ORDER BY number"
        return [
            (number, _strip_checksum(data))
            for number, data in self._query(sql, _format_json(numbers))
        ]

    # what the caches hold

    def read_standing_changes(self, since: int) -> list[StandingChange]:
        """Return the documents whose standing changed after a stamp."""
        sql = "SELECT number, present AND shown, cached FROM standing WHERE stamp > ?"
        return [StandingChange(*row) for row in self._query(sql, since)]

    def read_masked_numbers(self) -> set[int]:
        """Return the numbers that the caches hold and that are not to be found."""
        sql = "SELECT number FROM standing WHERE cached = 1 AND NOT (present AND shown)"
        return {number for (number,) in self._query(sql)}

    def read_uncached_numbers(self) -> set[int]:
        """Return the numbers that are to be found and that the caches do not hold."""
        sql = "SELECT number FROM standing WHERE cached = 0 AND present = 1 AND shown = 1"
        return {number for (number,) in self._query(sql)}

    def read_visible_numbers(self) -> set[int]:
        """Return the numbers that are to be found."""
        sql = "SELECT number FROM standing WHERE present = 1 AND shown = 1"
        return {number for (number,) in self._query(sql)}

    def count_documents(self) -> int:
        """Return how many documents stand now."""
        return int(self._query("SELECT count(*) FROM standing WHERE present = 1")[0][0])

    def mark_cached(self, numbers: Iterable[int], *, replace_all: bool) -> None:
        """Note that the caches hold some documents; `anew`: and no others."""
        if replace_all:
            self._execute_many("UPDATE standing SET cached = 0 WHERE cached = ?", [(1,)])
        self._execute_many(
            "UPDATE standing SET cached = 1 WHERE number = ?", ((n,) for n in numbers)
        )

    # changes

    def insert_documents(self, contents: Iterable[Content]) -> dict[str, int]:
        """Keep what is new of some documents; return their numbers by path."""
        numbered = dict(enumerate(contents, self.last_number + 1))
        self._execute_many(
            "REPLACE INTO main.state VALUES ('last', ?)",
            [(max(numbered, default=self.last_number),)],
        )
        self._execute_many(
            "INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)",
            map(_build_document_values, numbered.items()),
        )
        texts = (
            (n, _compress_text(c.doc.card), _compress_text(c.tokens)) for n, c in numbered.items()
        )
        self._execute_many("INSERT INTO texts VALUES (?, ?, ?)", texts)
        packs = ((n, _add_checksum(c.pack) if c.pack else None) for n, c in numbered.items())
        self._execute_many("INSERT INTO meaning VALUES (?, ?)", packs)
        links = {
            (kind, _encode_text(v), n)
            for n, c in numbered.items()
            for kind, v in list_links(c.doc.node)
        }
        self._execute_many("INSERT INTO links VALUES (?, ?, ?)", sorted(links))
        terms = {
            (name, _encode_text(value), n)
            for n, c in numbered.items()
            for name, values in c.doc.terms.items()
            for value in values
        }
        self._execute_many("INSERT INTO fields VALUES (?, ?, ?)", sorted(terms))
        return {content.doc.path: number for number, content in numbered.items()}

    def update_standing(self, removed: Iterable[int], added: Collection[Row], stamp: int) -> None:
        """Let some documents stand no more, and others stand, with what follows from them alone."""
        removed_numbers = list(removed)
        sql = "UPDATE standing SET present = 0, stamp = ? WHERE number = ?"
        self._execute_many(sql, ((stamp, number) for number in removed_numbers))
        self._execute_many(
            "DELETE FROM targets WHERE number = ?", ((number,) for number in removed_numbers)
        )
        sql = """INSERT INTO standing VALUES (?, 1, 0, ?, 1, 1, '', NULL, NULL, '', ?)
            ON CONFLICT (number) DO UPDATE SET present = 1, created = excluded.created,
            live = 1, shown = 1, meant = '', place = NULL, names = NULL, facts = '',
            stamp = excluded.stamp"""
        self._execute_many(sql, ((row.number, row.raw_node.created, stamp) for row in added))
        self._write_targets(added)

    def read_ids(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of documents, whether they stand or not."""
        sql = f"SELECT number, id FROM docs WHERE number {_IN_NUMBERS}"
        return {
            number: _decode_text(name) for number, name in self._query(sql, _format_json(numbers))
        }

    def read_cards_without_vectors(self, limit: int) -> list[tuple[int, str, str]]:
        """Return number, blob and card of records that have no vectors."""
        sql = """SELECT d.number, d.blob, t.card FROM meaning m JOIN docs d ON d.number = m.number
            JOIN texts t ON t.number = m.number WHERE m.pack IS NULL LIMIT ?"""
        return [
            (number, blob, _decompress_text(card)) for number, blob, card in self._query(sql, limit)
        ]

    def add_packs(self, packs: Mapping[int, bytes]) -> None:
        """Keep the packed vectors of documents; caches that hold them without are given up."""
        signed = ((number, _add_checksum(pack)) for number, pack in packs.items())
        self._execute_many("REPLACE INTO meaning VALUES (?, ?)", signed)
        sql = f"SELECT 1 FROM standing WHERE cached = 1 AND number {_IN_NUMBERS}"
        if self._query(sql, _format_json(packs)):
            self.mark_cached((), replace_all=True)
            self.write_state(caches="")

    def read_initial_rows(self, numbers: Iterable[int]) -> list[Row]:
        """Return documents as they would stand if nothing else did, for those that begin to."""
        sql = f"SELECT number, blob, node FROM docs WHERE number {_IN_NUMBERS}"
        return [
            Row(n, blob, _parse_node(node))
            for n, blob, node in self._query(sql, _format_json(numbers))
        ]

    def write_rows(self, rows: Iterable[Row], stamp: int) -> None:
        """Write what follows from all files for some records."""
        rows = list(rows)
        sql = """UPDATE standing SET live = ?, shown = ?, meant = ?, place = ?, names = ?,
            facts = ?, stamp = ? WHERE number = ?"""
        self._execute_many(sql, (_build_standing_values(row, stamp) for row in rows))
        self._write_targets(rows)

    def _write_targets(self, rows: Iterable[Row]) -> None:
        referring = [row for row in rows if row.raw_node.references]
        self._execute_many(
            "DELETE FROM targets WHERE number = ?", ((row.number,) for row in referring)
        )
        targets = {
            (_encode_text(target), row.number) for row in referring for target in row.targets
        }
        self._execute_many("INSERT INTO targets VALUES (?, ?)", sorted(targets))

    def delete_unused(self, max_kept: int) -> None:
        """Forget the oldest documents of content that stands nowhere, beyond so many."""
        used = "SELECT number FROM standing WHERE present OR cached"
        unused = f"SELECT number FROM docs WHERE NOT number IN ({used})"
        unused_rows = self._query(f"{unused} ORDER BY number DESC LIMIT -1 OFFSET ?", max_kept)
        for table in ("docs", "texts", "meaning", "standing", "links", "fields"):
            self._execute_many(f"DELETE FROM {table} WHERE number = ?", unused_rows)
        unknown = "length(name) >= 40 AND NOT name IN (SELECT blob FROM docs)"
        self._query(f"DELETE FROM checked WHERE {unknown}")

    def read_check_results(self, state: str) -> dict[str, str]:
        """Return what `check` has found in a state of the code or of the memory, by name."""
        return dict(self._query("SELECT name, problems FROM checked WHERE state = ?", state))

    def write_check_results(self, state: str, problems: Mapping[str, str]) -> None:
        """Keep what `check` has found, instead of what was found under these names before."""
        rows = ((name, state, text) for name, text in problems.items())
        self._execute_many("REPLACE INTO checked VALUES (?, ?, ?)", rows)

    def _query(self, sql: str, *values: Any) -> list[Any]:
        try:  # without `_ours`: a search asks some twenty times
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _build_error(error) from error

    def _query_cached(self, *statement: str) -> list[Any]:
        """Ask what every search asks; the answer is kept until the database changes."""
        if self._is_writing or not self._connection.in_transaction:
            return self._query(*statement)
        if statement not in self._query_cache:
            self._query_cache[statement] = self._query(*statement)
        answer: list[Any] = self._query_cache[statement]
        return answer

    def _execute_many(self, sql: str, rows: Iterable[Iterable[Any]]) -> None:
        self._query_cache.clear()
        with _error_translation():
            self._connection.executemany(sql, map(tuple, rows))


def _build_uri(path: Path | None, *, create: bool) -> str:
    """The database of a path as SQLite is told of it."""
    if path is None:
        return ":memory:"
    address = path.absolute().as_uri()
    if create:
        return f"{address}?mode=rwc"
    if os.access(path.parent, os.W_OK):
        return f"{address}?mode=rw"
    # The files that readers share cannot be made here. What is still in the log would be missed, so
    # then SQLite refuses, and the files of the records answer.
    log = Path(f"{path}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    return f"{address}?mode=ro" if has_log else f"{address}?mode=ro&immutable=1"


@lru_cache(maxsize=4096)  # one question meets the same records over and over
def _parse_node(text: str) -> Node:
    return build_node(json.loads(text))


def _parse_row(columns: tuple[Any, ...]) -> Row:
    number, blob, text, created, is_live, is_visible, meanings, place, names, facts, _ = columns
    node = _parse_node(text)
    return Row(
        number,
        blob,
        node if node.created == created else node._replace(created=created),
        bool(is_live),
        bool(is_visible),
        json.loads(meanings) if meanings else {},
        _decode_text(place or b""),
        _decode_text(names or b""),
        Facts.from_lists(json.loads(facts)) if facts else NO_FACTS,
    )


def _build_standing_values(row: Row, stamp: int) -> tuple[Any, ...]:
    meanings = json.dumps(row.meanings) if row.meanings else ""
    topic_values = (
        (_encode_text(row.topic_sort_key), _encode_text(row.topic_search_text))
        if row.topic_sort_key
        else (None, None)
    )
    facts = "" if row.facts == NO_FACTS else json.dumps(row.facts, separators=(",", ":"))
    return row.is_live, row.is_visible, meanings, *topic_values, facts, stamp, row.number


def _build_document_values(item: tuple[int, Content]) -> tuple[Any, ...]:
    number, (doc, _, _) = item
    node = json.dumps(doc.node, separators=(",", ":"))
    return (
        number,
        _encode_text(doc.path),
        doc.blob,
        _encode_text(doc.node.id),
        _encode_text(doc.node.key),
        node,
    )


def _format_json(numbers: Iterable[int]) -> str:
    return json.dumps(list(numbers))


def _encode_text(value: str) -> bytes:
    """A text as the database has it: names of files may be any bytes."""
    return value.encode("utf-8", "surrogatepass")


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _compress_text(text: str) -> bytes:
    return zlib.compress(_encode_text(text), 1)


def _decompress_text(data: bytes) -> str:
    """What `_deflated` made, which has a checksum of its own. Raises IndexDamaged."""
    try:
        return _decode_text(zlib.decompress(data))
    except (zlib.error, UnicodeDecodeError, TypeError) as error:
        raise IndexDamaged("a text in it cannot be read") from error


def _add_checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little") + data


def _strip_checksum(data: bytes) -> bytes:
    """What `_signed` made. Raises IndexDamaged."""
    if zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        raise IndexDamaged("vectors in it do not match their checksum")
    return data[4:]


@contextlib.contextmanager
def _error_translation() -> Iterator[None]:
    """Turn what SQLite raises into what our callers can act on."""
    try:
        yield
    except sqlite3.Error as error:
        raise _build_error(error) from error


def _build_error(error: sqlite3.Error) -> FilememError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return Locked("another process is writing the search index", "try again in a moment")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
        return build_system_error(errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO)
    return IndexDamaged(f"{NAME} cannot be read or written")
