"""The database that goes with a generation: the manifest, the records, their names and what refers to them.

Rule: `index.db` names the generation in use, so that a commit of it is the switch. What waits lies over its records in
the memory of whoever reads it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filemem.chain import Node
from filemem.changes import Entry
from filemem.errors import Locked
from filemem.index.document import DATABASE, Doc, IndexDamaged, Seal, node_from, refused
from filemem.record import Record, names_of, readings, topic_key
from filemem.record.visibility import Reader

_PATIENCE = 20.0  # seconds that a reader or writer waits for another's commit
UNSTATED = "topic:"  # before the topic of a record that states none, among its names
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (path PRIMARY KEY, blob TEXT, size INTEGER, mtime INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nodes (row INTEGER PRIMARY KEY, path UNIQUE, id, key, created INTEGER, live INTEGER,
    shown INTEGER, blob TEXT, node TEXT, meant TEXT, place, names);
CREATE INDEX IF NOT EXISTS nodes_id ON nodes (id);
CREATE INDEX IF NOT EXISTS nodes_key ON nodes (key);
CREATE INDEX IF NOT EXISTS nodes_dead ON nodes (row) WHERE live = 0;
CREATE INDEX IF NOT EXISTS nodes_place ON nodes (place, names) WHERE place IS NOT NULL;
CREATE INDEX IF NOT EXISTS nodes_hidden ON nodes (row) WHERE shown = 0;
CREATE TABLE IF NOT EXISTS links (kind TEXT, value, row INTEGER, PRIMARY KEY (kind, value, row)) WITHOUT ROWID;
"""
_ROWS = "SELECT row, live, shown, blob, node, meant, place, names FROM nodes WHERE"
_NUMBERS = "IN (SELECT value FROM json_each(?))"
_AMONG = "IN (SELECT CAST(value AS BLOB) FROM json_each(?))"
_LINKED = ("name", "refers", "target", "affects", "branch", "audience")  # kinds of links

Dates = Callable[
    [Collection[str]], Mapping[str, int]
]  # first-commit dates of paths, epoch milliseconds


class Row(NamedTuple):
    """One record as the index knows it."""

    number: int  # by which the words of the generation know it; below 0 where it waits
    blob: str
    written: Node  # its node, references as they are written
    live: bool = True
    shown: bool = True
    meant: Mapping[str, str] = {}  # the ids of those that are no ids
    place: str = ""  # of its topic in the list of all, if it is the last decision on it
    names: str = ""  # what finds it there

    @property
    def node(self) -> Node:
        """Its node, references resolved."""
        return self.written.meaning(self.meant) if self.meant else self.written

    def values(self, field: str) -> Iterable[str | int]:
        """Return what the record has in a field that `Database.rows` takes."""
        if field in _LINKED:
            return (value for kind, value in links_of(self) if kind == field)
        return (self.number if field == "row" else getattr(self.written, field),)


class Database:
    """`index.db`, open in one process; without a path it is in memory. `create` makes what is not there of it."""

    def __init__(self, path: Path | None, *, create: bool = False) -> None:
        self.covers = False  # whether changes lie over the file, and not in it
        self._over: dict[str, Row | None] = {}  # what waits, by path
        self._covered: set[int] = set()  # numbers of the rows that it lies over
        self._dead: set[int] | None = None
        address = (
            f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}" if path else ":memory:"
        )
        with _ours():
            self._con = sqlite3.connect(
                address, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            # A large transaction stays in memory until its commit, so that it keeps no reader waiting.
            self._con.execute("PRAGMA cache_spill = OFF")
            self._con.execute("PRAGMA synchronous = NORMAL")
            if create or path is None:
                self._con.executescript(_TABLES)

    @property
    def version(self) -> int:
        """What changes when another connection has changed the database."""
        return int(self._ask("PRAGMA data_version")[0][0])

    def close(self) -> None:
        """Let go of the file."""
        self._con.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """See one state all the while."""
        if self._con.in_transaction:
            yield
            return
        with _ours(), self._con:
            self._con.execute("BEGIN")
            self._con.execute("SELECT 1 FROM facts").fetchone()  # from here on it stands still
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Change all of it or nothing."""
        with _ours(), self._con:
            self._con.execute("BEGIN IMMEDIATE")
            yield

    def check(self) -> None:
        """Read all of the file; raises `IndexDamaged`."""
        if self._ask("PRAGMA integrity_check") != [("ok",)]:
            raise IndexDamaged(f"{DATABASE} is not whole")

    @property
    def seal(self) -> Seal:
        """The generation in use."""
        found = self._ask("SELECT value FROM facts WHERE name = 'seal'")
        return Seal(**json.loads(found[0][0])) if found else Seal()

    @seal.setter
    def seal(self, seal: Seal) -> None:
        self._do("REPLACE INTO facts VALUES ('seal', ?)", [(json.dumps(seal._asdict()),)])

    def manifest(
        self, paths: Iterable[str] | None = None, *, below: Iterable[str] = ("",)
    ) -> dict[str, Entry]:
        """Return what the index was built from: path -> entry; of some paths only, or of all below some folders."""
        sql = "SELECT path, blob, size, mtime FROM files"
        found = [] if paths is None else self._ask(f"{sql} WHERE path {_AMONG}", list(paths))
        for folder in below if paths is None else ():
            ends = (
                (_bytes(f"{folder}/"), _bytes(f"{folder}0")) if folder else (b"", b"\xff")
            )  # "0" comes after "/"
            with _ours():
                found += self._con.execute(f"{sql} WHERE path >= ? AND path < ?", ends)
        return {path.decode("utf-8", "surrogatepass"): Entry(*entry) for path, *entry in found}

    def note_files(self, entries: Mapping[str, Entry | None]) -> None:
        """Change the manifest; None takes a path out."""
        self._do(
            "DELETE FROM files WHERE path = ?",
            [(_bytes(path),) for path, entry in entries.items() if not entry],
        )
        there = ((_bytes(path), *entry) for path, entry in entries.items() if entry)
        self._do("REPLACE INTO files VALUES (?, ?, ?, ?)", there)

    # questions

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field: a column, or a kind of links."""
        wanted = list(dict.fromkeys(values))
        found = [row for row in self._rows(field, wanted) if row.written.path not in self._over]
        asked = set(wanted)
        return found + [
            row for row in self._over.values() if row and not asked.isdisjoint(row.values(field))
        ]

    def _rows(self, field: str, wanted: list[Any]) -> Iterable[Row]:
        """The same, of the file alone."""
        which = f"{field} {_NUMBERS if field == 'row' else _AMONG}"
        if field in _LINKED:
            which = f"row IN (SELECT row FROM links WHERE kind = '{field}' AND value {_AMONG})"  # noqa: S608 - names only
        return map(_row, self._ask(f"{_ROWS} {which}", wanted))

    def every(self, most: int = -1) -> list[Row]:
        """Return all records that are shown, or so many of the newest, newest first."""
        rows = map(_row, self._ask(f"{_ROWS} shown = 1 ORDER BY created DESC LIMIT {most}"))
        found = [row for row in rows if row.written.path not in self._over]
        return sorted(
            [*found, *(row for row in self._over.values() if row and row.shown)], key=newest_first
        )

    def listed(self, words: str, most: int, offset: int) -> tuple[list[Row], int]:
        """Return rows that stand for a topic, in order, of those with some words; and how many there are."""
        over = [row for row in self._over.values() if row and row.place and words in row.names]
        those = f"place IS NOT NULL AND instr(names, CAST(? AS BLOB)) AND NOT row {_NUMBERS}"
        asked = words, json.dumps(list(self._covered))
        with _ours():
            found = self._con.execute(
                f"{_ROWS} {those} ORDER BY place LIMIT ?", (*asked, offset + most)
            ).fetchall()
            counted = f"SELECT count(*) FROM nodes WHERE {those}"  # noqa: S608 - names only
            ((count,),) = self._con.execute(counted, asked).fetchall()
        rows = sorted([*map(_row, found), *over], key=lambda row: row.place)
        return rows[offset : offset + most], count + len(over)

    def stated(self, kind: str) -> set[str]:
        """Return all values of a kind of links, such as the paths that decisions govern."""
        found = self._ask(f"SELECT DISTINCT value FROM links WHERE kind = '{kind}'")  # noqa: S608 - names only
        values = {value.decode("utf-8", "surrogatepass") for (value,) in found}
        return values.union(*(map(str, row.values(kind)) for row in self._over.values() if row))

    def hidden(self) -> set[int]:
        """Return the numbers that the words of the generation know and that are not to be found."""
        found = {
            row for (row,) in self._ask("SELECT row FROM nodes WHERE shown = 0")
        } | self._covered
        return found - {row.number for row in self._over.values() if row and row.shown}

    def dead(self) -> set[int]:
        """Return the numbers of decisions that do not hold."""
        if self._dead is None:
            self._dead = {row for (row,) in self._ask("SELECT row FROM nodes WHERE live = 0")}
        return self._dead - self._covered | {
            row.number for row in self._over.values() if row and not row.live
        }

    def barred(self, reader: Reader | None) -> list[Row]:
        """Return the records that a reader may not see; None sees all."""
        closed = self.stated("audience") if reader else ()
        return self.rows("audience", [name for name in closed if reader and not reader.sees(name)])

    @property
    def last(self) -> int:
        """The largest row number."""
        return int(self._ask("SELECT coalesce(max(row), 0) FROM nodes")[0][0])

    def undated(self) -> list[str]:
        """Return the paths of the records of which no date was known."""
        return [row.written.path for row in map(_row, self._ask(f"{_ROWS} created = 0"))]

    # changes

    def lay_over(self) -> None:
        """Forget all that lies over the file; what is stored from now on does."""
        self.covers, self._over, self._covered = True, {}, set()

    def store(self, rows: Mapping[str, Row | None]) -> None:
        """Put rows in place of those of their paths, in the file or over it."""
        if self.covers:
            new = [path for path in rows if path not in self._over]
            self._covered.update(row.number for row in self._rows("path", new))
            self._over.update(rows)
            return
        for row in list(self._rows("path", list(rows))):
            links = ((kind, _bytes(value), row.number) for kind, value in links_of(row))
            self._do("DELETE FROM links WHERE kind = ? AND value = ? AND row = ?", links)
            self._do("DELETE FROM nodes WHERE row = ?", [(row.number,)])
        kept = [row for row in rows.values() if row is not None]
        self._do(
            "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_columns, kept)
        )
        links = ((kind, _bytes(value), row.number) for row in kept for kind, value in links_of(row))
        self._do("INSERT OR IGNORE INTO links VALUES (?, ?, ?)", links)

    def _ask(self, sql: str, values: list[Any] | None = None) -> list[Any]:
        """Run a question, about a list of values if there is one."""
        with _ours():
            return self._con.execute(
                sql, () if values is None else (json.dumps(values),)
            ).fetchall()

    def _do(self, sql: str, values: Iterable[Iterable[Any]]) -> None:
        with _ours():
            self._con.executemany(sql, map(tuple, values))


def rows_of(docs: Mapping[int, Doc], dates: Dates) -> list[Row]:
    """Return the rows of documents by number; `dates` is asked for what states none."""
    undated = [doc.path for doc in docs.values() if not doc.created]
    known = dates(undated) if undated else {}
    dated = (
        (at, doc.blob, doc.node, doc.created or known.get(doc.path, 0)) for at, doc in docs.items()
    )
    return [Row(at, blob, node._replace(created=created)) for at, blob, node, created in dated]


def newest_first(row: Row) -> tuple[int, str]:
    """What orders records in listings."""
    return -row.written.created, row.written.path


def links_of(row: Row) -> tuple[tuple[str, str], ...]:
    """Return the names of a record, those it refers to and the ids that these mean; what it governs; its branch."""
    targets = (("target", row.meant.get(each, each)) for each in row.written.references)
    governed = (("affects", path) for path in row.written.affects)
    single = ((kind, getattr(row.written, kind)) for kind in ("branch", "audience"))
    return (
        *_names_and_references(row.written),
        *targets,
        *governed,
        *((kind, value) for kind, value in single if value),
    )


@lru_cache(maxsize=4096)
def _names_and_references(node: Node) -> tuple[tuple[str, str], ...]:
    names = dict.fromkeys(name for _, name in names_of(bare(node)))
    refers = dict.fromkeys(name for each in node.references for name in readings(each, node.folder))
    unstated = [] if node.stated else [("name", UNSTATED + topic_key(node.topic))]
    return (*(("name", name) for name in names), *unstated, *(("refers", name) for name in refers))


def bare(node: Node) -> Record:
    """A record as far as it has names."""
    return Record(node.id, node.type, node.path, node.title, extra={"slug": node.slug})


@lru_cache(maxsize=4096)  # one question meets the same records over and over
def _node(text: str) -> Node:
    return node_from(json.loads(text))


def _row(columns: tuple[Any, ...]) -> Row:
    number, live, shown, blob, node, meant, *listed = columns
    place, names = ((text or b"").decode("utf-8", "surrogatepass") for text in listed)
    return Row(
        number,
        blob,
        _node(node),
        bool(live),
        bool(shown),
        json.loads(meant) if meant else {},
        place,
        names,
    )


def _columns(row: Row) -> tuple[Any, ...]:
    node, meant = row.written, json.dumps(row.meant) if row.meant else ""
    text, names = (
        json.dumps(node, separators=(",", ":")),
        map(_bytes, (node.path, node.id, node.key)),
    )
    listed = (_bytes(one) if row.place else None for one in (row.place, row.names))
    return row.number, *names, node.created, row.live, row.shown, row.blob, text, meant, *listed


def _bytes(value: str) -> bytes:
    """A text as the database has it: names of files may be any bytes."""
    return value.encode("utf-8", "surrogatepass")


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """Turn what SQLite raises into what our callers can act on."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise Locked(
                "another process is writing the search index", "try again in a moment"
            ) from error
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
            raise refused(errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO) from error
        raise IndexDamaged(f"{DATABASE} cannot be read or written") from error
