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
from filemem.index.chains import LINKED, Row, links_of
from filemem.index.document import Doc, node_from
from filemem.index.folder import IndexDamaged, refused
from filemem.query import Filter, touches
from filemem.record.visibility import Reader

NAME = "index.db"
_PATIENCE = 20.0  # seconds that a writer waits for another's commit
_CONTENT = """
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
_STANDING = """
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
_OF_CONTENT = ("docs", "texts", "meaning", "links", "fields", "folders", "checked")
_OF_A_STATE = ("state", "files", "standing", "targets")
_AMONG = "IN (SELECT CAST(value AS BLOB) FROM json_each(?))"
_NUMBERS = "IN (SELECT value FROM json_each(?))"
_LINKS = f"s.number IN (SELECT number FROM links WHERE kind = ? AND value {_AMONG})"
_FIELDS = f"s.number IN (SELECT number FROM fields WHERE name = ? AND value {_AMONG})"
_TARGETS = f"s.number IN (SELECT number FROM targets WHERE value {_AMONG})"
_FROM = "FROM standing s JOIN docs d ON d.number = s.number WHERE s.present = 1"
_ROWS = f"""SELECT d.number, d.blob, d.node, s.created, s.live, s.shown, s.meant, s.place, s.names,
    s.facts, s.stamp {_FROM}"""
LACKING = """SELECT count(*) FROM meaning m JOIN standing s ON s.number = m.number
    WHERE m.pack IS NULL AND s.present = 1"""
_REMEMBERED = 8_192  # rows; one question meets those of the last again


class Content(NamedTuple):
    """What is kept of a document."""

    doc: Doc
    tokens: str  # its exact tokens, part by part
    pack: bytes | None  # its vectors; None where there was no model


class Turned(NamedTuple):
    """One document whose standing changed."""

    number: int
    there: bool
    cached: bool


class Database:
    """`index.db`, open in one process; without a path it is in memory."""

    def __init__(self, path: Path | None, *, create: bool = False, past: bool = False) -> None:
        """`create`: make the file and its tables; `past`: let what stands be a copy of one's own.

        Raises BrokenStore, IndexDamaged.
        """
        self._seen: dict[int, tuple[int, Row]] = {}  # rows by number, with their stamps
        self._kept: dict[Any, Any] = {}  # answers and rows of the version that was read last
        self._version = 0  # of the file, as SQLite counts the commits of others
        self._changing = False
        with _ours():
            self._con = sqlite3.connect(
                _address(path, create=create),
                uri=True,
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
            self._con.execute("PRAGMA synchronous = NORMAL")
            self._con.execute("PRAGMA temp_store = MEMORY")
            if path is None or create:
                self._make()
            if past:
                self._copy()

    def _make(self) -> None:
        # Where there is no shared memory the answer is another mode, in which readers wait.
        (mode,) = self._con.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            self._con.execute("PRAGMA journal_mode = TRUNCATE")
        tables = _CONTENT + _STANDING.format(temporary="", schema="main")
        self._con.executescript(f"BEGIN; {tables} PRAGMA user_version = 1; COMMIT")

    @property
    def is_made(self) -> bool:
        """Whether its tables are there: another process may be making them now."""
        return self._ask("PRAGMA user_version") != [(0,)]

    def _copy(self) -> None:
        self._con.executescript(_STANDING.format(temporary="TEMP", schema="temp"))
        with self.writing():
            for table in _OF_A_STATE:
                self._con.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    def close(self) -> None:
        """Let go of the file."""
        self._con.close()

    def take(self, other: Path) -> None:
        """Let this be what another database is."""
        with _ours():
            self._con.execute("ATTACH ? AS other", (str(other),))
            try:
                with self.writing():
                    for table in (*_OF_CONTENT, *_OF_A_STATE):
                        self._con.execute(f"DELETE FROM main.{table}")
                        self._con.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")
            finally:
                self._con.execute("DETACH other")

    @property
    def last(self) -> int:
        """The number of the document made last, of whatever state: none is used again."""
        noted = self._ask("SELECT value FROM main.state WHERE name = 'last'")
        return noted[0][0] if noted else 0

    @property
    def is_reading(self) -> bool:
        """Whether one state is seen now."""
        return self._con.in_transaction

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """See one state all the while."""
        if self._con.in_transaction:
            yield
            return
        with _ours(), self._con:
            self._con.execute("BEGIN")
            # What others committed changes it; what this connection does clears by itself.
            ((version,),) = self._con.execute("PRAGMA data_version")
            if version != self._version:
                self._version = version
                self._kept.clear()
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Change all of it or nothing. Raises Locked."""
        with _ours(), self._con:
            self._con.execute("BEGIN IMMEDIATE")
            self._changing = True
            try:
                yield
            finally:
                self._changing = False
                self._kept.clear()

    def check(self) -> None:
        """Read all of the file; raises `IndexDamaged`."""
        if self._ask("PRAGMA quick_check") != [("ok",)]:
            raise IndexDamaged(f"{NAME} is not whole")

    def shrink(self) -> None:
        """Move what the log holds into the file, as far as no reader needs it."""
        with contextlib.suppress(Locked), _ours():
            self._con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # what it was made from

    @property
    def stamp(self) -> int:
        """A number that grows with every change of what can be found."""
        return int(self.state("stamp") or 0)

    def state(self, name: str) -> Any:
        """Return what was noted under a name; None for nothing."""
        return dict(self._ask_once("SELECT name, value FROM state")).get(name)

    def note(self, **values: Any) -> None:
        """Note values under names."""
        self._do("REPLACE INTO state VALUES (?, ?)", values.items())

    def next_stamp(self) -> int:
        """Return a new stamp for the change that is being made."""
        stamp = self.stamp + 1
        self.note(stamp=stamp)
        return stamp

    def folders(self) -> dict[str, int]:
        """The times of folders, in nanoseconds."""
        return {_text(path): at for path, at in self._ask_once("SELECT path, mtime FROM folders")}

    def note_folders(self, times: Mapping[str, int]) -> None:
        """Let these be the times of folders."""
        before = self.folders()
        gone = ((_bytes(path),) for path in before.keys() - times)
        self._do("DELETE FROM folders WHERE path = ?", gone)
        new = ((_bytes(path), at) for path, at in times.items() if before.get(path) != at)
        self._do("REPLACE INTO folders VALUES (?, ?)", new)

    def manifest(
        self, paths: Iterable[str] | None = None, *, below: Iterable[str] = ("",)
    ) -> dict[str, Entry]:
        """Return what the index was built from, of some paths or of all below some folders."""
        sql = "SELECT path, blob, size, mtime FROM files WHERE"
        rows = [] if paths is None else self._ask(f"{sql} path {_AMONG}", json.dumps(list(paths)))
        for folder in below if paths is None else ():
            # "0" comes after "/"
            ends = (_bytes(f"{folder}/"), _bytes(f"{folder}0")) if folder else (b"", b"\xff")
            rows += self._ask(f"{sql} path >= ? AND path < ?", *ends)
        return {_text(path): Entry(*entry) for path, *entry in rows}

    def note_files(self, entries: Mapping[str, Entry | None], numbers: Mapping[str, int]) -> None:
        """Note what stands under some paths, and the documents of these; None for nothing."""
        gone = ((_bytes(path),) for path, entry in entries.items() if entry is None)
        self._do("DELETE FROM files WHERE path = ?", gone)
        there = (
            (_bytes(path), *entry, numbers.get(path)) for path, entry in entries.items() if entry
        )
        self._do("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", there)

    def renew(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Note size and time of files whose content is as it was."""
        sql = "UPDATE files SET size = ?, mtime = ? WHERE path = ? AND blob = ?"
        self._do(sql, ((e.size, e.mtime, _bytes(path), e.blob) for path, e in entries))

    def standing(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the numbers of the documents that stand under some paths."""
        sql = f"SELECT path, number FROM files WHERE number IS NOT NULL AND path {_AMONG}"
        return {_text(path): number for path, number in self._ask(sql, json.dumps(list(paths)))}

    def made(self, entries: Mapping[str, Entry]) -> dict[str, int]:
        """Return the numbers of documents that were ever made of some files, by path."""
        sql = f"SELECT path, blob, number FROM docs WHERE path {_AMONG}"
        rows = self._ask(sql, json.dumps(list(entries)))
        every = ((_text(path), blob, number) for path, blob, number in rows)
        return {path: number for path, blob, number in every if entries[path].blob == blob}

    # records

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field.

        Fields: number, path, id, key; target, the id of what it refers to; and those of `LINKED`.
        """
        if field == "number" and not self._changing:
            return self._numbered(values)
        wanted = json.dumps(list(dict.fromkeys(values)))
        if field in LINKED:
            return self._rows(_LINKS, field, wanted)
        if field == "target":
            return self._rows(_TARGETS, wanted)
        return self._rows(f"d.{field} {_NUMBERS if field == 'number' else _AMONG}", wanted)

    def _numbered(self, numbers: Iterable[str | int]) -> list[Row]:
        """Rows by number, in their order; what one search met is at hand for the next."""
        if len(self._kept) > _REMEMBERED or not self._con.in_transaction:
            self._kept.clear()
        wanted = sorted(set(numbers))
        lacking = [number for number in wanted if number not in self._kept]
        if lacking:
            rows = self._rows(f"d.number {_NUMBERS}", json.dumps(lacking))
            self._kept |= {row.number: row for row in rows}
        return [self._kept[number] for number in wanted if number in self._kept]

    def _rows(self, which: str, *values: Any) -> list[Row]:
        return list(map(self._row, self._ask(f"{_ROWS} AND {which}", *values)))

    def _row(self, columns: tuple[Any, ...]) -> Row:
        """A row as it was read before, unless it has changed since or is being changed."""
        number, *_, stamp = columns
        if self._changing:
            return _row(columns)
        seen = self._seen.get(number)
        if seen is None or seen[0] != stamp:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            seen = self._seen[number] = stamp, _row(columns)
        return seen[1]

    def with_term(self, name: str, values: Iterable[str]) -> list[Row]:
        """Return the records that have one of some values in an exact field."""
        return self._rows(_FIELDS, name, json.dumps(list(values)))

    def present(self, without: Collection[int]) -> list[Row]:
        """Return all records that stand, shown or not, `without` some numbers."""
        return self._rows(f"NOT s.number {_NUMBERS}", _json(without))

    def every(self, most: int = -1) -> list[Row]:
        """Return all records that are shown, or so many, newest first."""
        return self._rows("s.shown = 1 ORDER BY s.created DESC, d.path LIMIT ?", most)

    def newest(
        self, wanted: Filter, most: int, offset: int, without: Collection[int] = ()
    ) -> list[Row]:
        """Return the newest records that satisfy a filter, newest first, `without` some numbers."""
        which, values = self._where(wanted)
        if without:
            which += f" AND NOT s.number {_NUMBERS}"
            values.append(json.dumps(list(without)))
        page = "ORDER BY s.created DESC, d.path LIMIT ? OFFSET ?"
        return self._rows(f"{which} {page}", *values, most, offset)

    def allowed(self, wanted: Filter) -> set[int] | None:
        """Return the numbers of what satisfies a filter, whoever asks; None where all does."""
        plain = wanted._replace(reader=None)
        if plain == Filter():
            return None
        which, values = self._where(plain)
        return {number for (number,) in self._ask(f"SELECT s.number {_FROM} AND {which}", *values)}

    def count(self, wanted: Filter) -> int:
        """Return how many records satisfy a filter."""
        which, values = self._where(wanted)
        return int(self._ask(f"SELECT count(*) {_FROM} AND {which}", *values)[0][0])

    def terms(self, name: str, prefix: str, wanted: Filter) -> list[tuple[str, int]]:
        """Return (value, number of records) of an exact field, of those that satisfy a filter."""
        which, values = self._where(wanted)
        joined = _FROM.replace(" WHERE", " JOIN fields f ON f.number = s.number WHERE")
        # No text in UTF-8 has the byte that ends the range.
        wanted_value = f"f.name = ? AND f.value BETWEEN ? AND ? AND {which}"
        sql = f"SELECT f.value, count(*) {joined} AND {wanted_value} GROUP BY 1"
        begin = _bytes(prefix)
        counted = self._ask(sql, name, begin, begin + b"\xff", *values)
        return [(_text(value), count) for value, count in counted]

    def listed(self, words: str, most: int, offset: int) -> tuple[list[Row], int]:
        """Return rows that stand for a topic, in order, of those with some words; and how many."""
        which = "s.place IS NOT NULL AND instr(s.names, CAST(? AS BLOB))"
        rows = self._rows(f"{which} ORDER BY s.place LIMIT ? OFFSET ?", words, most, offset)
        ((count,),) = self._ask(f"SELECT count(*) {_FROM} AND {which}", words)
        return rows, count

    def stated(self, kind: str) -> list[str]:
        """Return all values of a kind of links, such as the paths that decisions govern."""
        values = self._ask_once("SELECT DISTINCT value FROM links WHERE kind = ?", kind)
        return [_text(value) for (value,) in values]

    def barred(self, reader: Reader | None) -> list[Row]:
        """Return the records that a reader may not see; None sees all."""
        closed = self._closed(reader)
        return self.rows("audience", closed) if closed else []

    def _closed(self, reader: Reader | None) -> list[str]:
        """The audiences that a reader is not one of."""
        return [name for name in self.stated("audience") if not reader.sees(name)] if reader else []

    def _where(self, wanted: Filter) -> tuple[str, list[Any]]:
        """A filter in SQL, and the values in it; `query.passes` says the same in Python."""
        which = ["s.shown = 1"]
        values = list[Any]()
        for name, chosen in wanted.exact.items():
            which.append(_FIELDS)
            values += [name, json.dumps(chosen)]
        if wanted.path:
            met = [path for path in self.stated("affects") if touches(path, wanted.path)]
            which.append(_LINKS)
            values += ["affects", json.dumps(met)]
        if wanted.live:
            which.append("s.live = 1")
        for end, sign in ((wanted.since, ">="), (wanted.until, "<=")):
            if end is not None:
                which.append(f"s.created {sign} ?")
                values.append(end)
        if closed := self._closed(wanted.reader):
            which.append(f"NOT {_LINKS}")
            values += ["audience", json.dumps(closed)]
        return " AND ".join(which), values

    def undated(self) -> list[Row]:
        """Return the records of which no date was known."""
        return self._rows("s.created = 0")

    def lacking(self) -> int:
        """Return how many records have no vectors."""
        return int(self._ask(LACKING)[0][0])

    def files_of(self, paths: Iterable[str]) -> list[tuple[str, Entry, int]]:
        """Return path, file and number of the records that stand under some paths."""
        sql = f"""SELECT path, blob, size, mtime, number FROM files
            WHERE number IS NOT NULL AND path {_AMONG}"""
        rows = self._ask(sql, json.dumps(list(paths)))
        return [(_text(path), Entry(*entry), number) for path, *entry, number in rows]

    def cards(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the cards of documents."""
        sql = f"SELECT number, card FROM texts WHERE number {_NUMBERS}"
        return {number: _inflated(card) for number, card in self._ask(sql, _json(numbers))}

    def tokens(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the exact tokens of documents, as `Content` has them."""
        sql = f"SELECT number, tokens FROM texts WHERE number {_NUMBERS}"
        return {number: _inflated(data) for number, data in self._ask(sql, _json(numbers))}

    def packs(self, numbers: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return the packed vectors of documents, in order of numbers."""
        which = f"pack IS NOT NULL AND number {_NUMBERS}"
        sql = f"SELECT number, pack FROM meaning WHERE {which} ORDER BY number"
        return [(number, _checked(data)) for number, data in self._ask(sql, _json(numbers))]

    # what the caches hold

    def turned(self, since: int) -> list[Turned]:
        """Return the documents whose standing changed after a stamp."""
        sql = "SELECT number, present AND shown, cached FROM standing WHERE stamp > ?"
        return [Turned(*row) for row in self._ask(sql, since)]

    def masked(self) -> set[int]:
        """Return the numbers that the caches hold and that are not to be found."""
        sql = "SELECT number FROM standing WHERE cached = 1 AND NOT (present AND shown)"
        return {number for (number,) in self._ask(sql)}

    def young(self) -> set[int]:
        """Return the numbers that are to be found and that the caches do not hold."""
        sql = "SELECT number FROM standing WHERE cached = 0 AND present = 1 AND shown = 1"
        return {number for (number,) in self._ask(sql)}

    def visible(self) -> set[int]:
        """Return the numbers that are to be found."""
        sql = "SELECT number FROM standing WHERE present = 1 AND shown = 1"
        return {number for (number,) in self._ask(sql)}

    def size(self) -> int:
        """Return how many documents stand now."""
        return int(self._ask("SELECT count(*) FROM standing WHERE present = 1")[0][0])

    def note_cached(self, numbers: Iterable[int], *, anew: bool) -> None:
        """Note that the caches hold some documents; `anew`: and no others."""
        if anew:
            self._do("UPDATE standing SET cached = 0 WHERE cached = ?", [(1,)])
        self._do("UPDATE standing SET cached = 1 WHERE number = ?", ((n,) for n in numbers))

    # changes

    def insert(self, contents: Iterable[Content]) -> dict[str, int]:
        """Keep what is new of some documents; return their numbers by path."""
        new = dict(enumerate(contents, self.last + 1))
        self._do("REPLACE INTO main.state VALUES ('last', ?)", [(max(new, default=self.last),)])
        self._do("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)", map(_of_doc, new.items()))
        texts = ((n, _deflated(c.doc.card), _deflated(c.tokens)) for n, c in new.items())
        self._do("INSERT INTO texts VALUES (?, ?, ?)", texts)
        packs = ((n, _signed(c.pack) if c.pack else None) for n, c in new.items())
        self._do("INSERT INTO meaning VALUES (?, ?)", packs)
        links = {(kind, _bytes(v), n) for n, c in new.items() for kind, v in links_of(c.doc.node)}
        self._do("INSERT INTO links VALUES (?, ?, ?)", sorted(links))
        terms = {
            (name, _bytes(value), n)
            for n, c in new.items()
            for name, values in c.doc.terms.items()
            for value in values
        }
        self._do("INSERT INTO fields VALUES (?, ?, ?)", sorted(terms))
        return {content.doc.path: number for number, content in new.items()}

    def turn(self, off: Iterable[int], on: Collection[Row], stamp: int) -> None:
        """Let some documents stand no more, and others stand, with what follows from them alone."""
        gone = list(off)
        sql = "UPDATE standing SET present = 0, stamp = ? WHERE number = ?"
        self._do(sql, ((stamp, number) for number in gone))
        self._do("DELETE FROM targets WHERE number = ?", ((number,) for number in gone))
        sql = """INSERT INTO standing VALUES (?, 1, 0, ?, 1, 1, '', NULL, NULL, '', ?)
            ON CONFLICT (number) DO UPDATE SET present = 1, created = excluded.created,
            live = 1, shown = 1, meant = '', place = NULL, names = NULL, facts = '',
            stamp = excluded.stamp"""
        self._do(sql, ((row.number, row.written.created, stamp) for row in on))
        self._note_targets(on)

    def ids(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of documents, whether they stand or not."""
        sql = f"SELECT number, id FROM docs WHERE number {_NUMBERS}"
        return {number: _text(name) for number, name in self._ask(sql, _json(numbers))}

    def without_vectors(self, most: int) -> list[tuple[int, str, str]]:
        """Return number, blob and card of records that have no vectors."""
        sql = """SELECT d.number, d.blob, t.card FROM meaning m JOIN docs d ON d.number = m.number
            JOIN texts t ON t.number = m.number WHERE m.pack IS NULL LIMIT ?"""
        return [(number, blob, _inflated(card)) for number, blob, card in self._ask(sql, most)]

    def add_packs(self, packs: Mapping[int, bytes]) -> None:
        """Keep the packed vectors of documents; caches that hold them without are given up."""
        signed = ((number, _signed(pack)) for number, pack in packs.items())
        self._do("REPLACE INTO meaning VALUES (?, ?)", signed)
        sql = f"SELECT 1 FROM standing WHERE cached = 1 AND number {_NUMBERS}"
        if self._ask(sql, _json(packs)):
            self.note_cached((), anew=True)
            self.note(caches="")

    def by_number(self, numbers: Iterable[int]) -> list[Row]:
        """Return documents as they would stand if nothing else did, for those that begin to."""
        sql = f"SELECT number, blob, node FROM docs WHERE number {_NUMBERS}"
        return [Row(n, blob, _node(node)) for n, blob, node in self._ask(sql, _json(numbers))]

    def store(self, rows: Iterable[Row], stamp: int) -> None:
        """Write what follows from all files for some records."""
        rows = list(rows)
        sql = """UPDATE standing SET live = ?, shown = ?, meant = ?, place = ?, names = ?,
            facts = ?, stamp = ? WHERE number = ?"""
        self._do(sql, (_of_row(row, stamp) for row in rows))
        self._note_targets(rows)

    def _note_targets(self, rows: Iterable[Row]) -> None:
        referring = [row for row in rows if row.written.references]
        self._do("DELETE FROM targets WHERE number = ?", ((row.number,) for row in referring))
        targets = {(_bytes(target), row.number) for row in referring for target in row.targets}
        self._do("INSERT INTO targets VALUES (?, ?)", sorted(targets))

    def drop_unused(self, most: int) -> None:
        """Forget the oldest documents of content that stands nowhere, beyond so many."""
        used = "SELECT number FROM standing WHERE present OR cached"
        unused = f"SELECT number FROM docs WHERE NOT number IN ({used})"
        old = self._ask(f"{unused} ORDER BY number DESC LIMIT -1 OFFSET ?", most)
        for table in ("docs", "texts", "meaning", "standing", "links", "fields"):
            self._do(f"DELETE FROM {table} WHERE number = ?", old)
        unknown = "length(name) >= 40 AND NOT name IN (SELECT blob FROM docs)"
        self._ask(f"DELETE FROM checked WHERE {unknown}")

    def checked(self, state: str) -> dict[str, str]:
        """Return what `check` has found in a state of the code or of the memory, by name."""
        return dict(self._ask("SELECT name, problems FROM checked WHERE state = ?", state))

    def note_checked(self, state: str, problems: Mapping[str, str]) -> None:
        """Keep what `check` has found, instead of what was found under these names before."""
        rows = ((name, state, text) for name, text in problems.items())
        self._do("REPLACE INTO checked VALUES (?, ?, ?)", rows)

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        try:  # without `_ours`: a search asks some twenty times
            return self._con.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _refusal(error) from error

    def _ask_once(self, *question: str) -> list[Any]:
        """Ask what every search asks; the answer is kept until the database changes."""
        if self._changing or not self._con.in_transaction:
            return self._ask(*question)
        if question not in self._kept:
            self._kept[question] = self._ask(*question)
        answer: list[Any] = self._kept[question]
        return answer

    def _do(self, sql: str, rows: Iterable[Iterable[Any]]) -> None:
        self._kept.clear()
        with _ours():
            self._con.executemany(sql, map(tuple, rows))


def _address(path: Path | None, *, create: bool) -> str:
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
    logged = log.exists() and log.stat().st_size > 0
    return f"{address}?mode=ro" if logged else f"{address}?mode=ro&immutable=1"


@lru_cache(maxsize=4096)  # one question meets the same records over and over
def _node(text: str) -> Node:
    return node_from(json.loads(text))


def _row(columns: tuple[Any, ...]) -> Row:
    number, blob, text, created, live, visible, meanings, place, names, facts, _ = columns
    node = _node(text)
    return Row(
        number,
        blob,
        node if node.created == created else node._replace(created=created),
        bool(live),
        bool(visible),
        json.loads(meanings) if meanings else {},
        _text(place or b""),
        _text(names or b""),
        Facts.of(json.loads(facts)) if facts else NO_FACTS,
    )


def _of_row(row: Row, stamp: int) -> tuple[Any, ...]:
    meanings = json.dumps(row.meanings) if row.meanings else ""
    listed = (_bytes(row.place), _bytes(row.names)) if row.place else (None, None)
    facts = "" if row.facts == NO_FACTS else json.dumps(row.facts, separators=(",", ":"))
    return row.live, row.visible, meanings, *listed, facts, stamp, row.number


def _of_doc(item: tuple[int, Content]) -> tuple[Any, ...]:
    number, (doc, _, _) = item
    node = json.dumps(doc.node, separators=(",", ":"))
    return number, _bytes(doc.path), doc.blob, _bytes(doc.node.id), _bytes(doc.node.key), node


def _json(numbers: Iterable[int]) -> str:
    return json.dumps(list(numbers))


def _bytes(value: str) -> bytes:
    """A text as the database has it: names of files may be any bytes."""
    return value.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _deflated(text: str) -> bytes:
    return zlib.compress(_bytes(text), 1)


def _inflated(data: bytes) -> str:
    """What `_deflated` made, which has a checksum of its own. Raises IndexDamaged."""
    try:
        return _text(zlib.decompress(data))
    except (zlib.error, UnicodeDecodeError, TypeError) as error:
        raise IndexDamaged("a text in it cannot be read") from error


def _signed(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little") + data


def _checked(data: bytes) -> bytes:
    """What `_signed` made. Raises IndexDamaged."""
    if zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        raise IndexDamaged("vectors in it do not match their checksum")
    return data[4:]


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """Turn what SQLite raises into what our callers can act on."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(error) from error


def _refusal(error: sqlite3.Error) -> FilememError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return Locked("another process is writing the search index", "try again in a moment")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
        return refused(errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO)
    return IndexDamaged(f"{NAME} cannot be read or written")
