"""The files of an index: its folder, the connection to its database, and the errors of both.

It has two kinds of tables. Content (`docs`, `texts`, `meaning`, `links`, `fields`) is written once
for each path and blob, and stays. Standing (`standing`, `targets`, `files`, `state`) says which
documents are in the work tree now, and what follows from all of them together. An index of the past
has the same content and temporary tables of standing, which SQLite prefers to those of the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from filemem.errors import BrokenStore, FilememError, Locked

NAME = "index.db"
_LOCK_TIMEOUT = 20.0  # seconds that a writer waits for the commit of another process
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
_STANDING_TABLES = ("state", "files", "standing", "targets")
_CHUNK_SIZE = 1 << 18  # bytes read at a time
_README = """\
This folder is filemem's search index. Everything in it is derived from the records in the work
tree and may be deleted at any time; the next `filemem` command makes it again.
"""


class IndexDamaged(BrokenStore):
    """The index cannot be used and must be rebuilt; the records are not affected."""

    def __init__(self, damage: str) -> None:
        super().__init__(
            f"the search index is damaged: {damage}",
            "run `filemem index --rebuild`; the records are not affected",
        )


def build_system_error(number: int) -> BrokenStore:
    """Return the error for a system call that failed in a library, by its errno."""
    message = f"the search index cannot be written or read: {os.strerror(number)}"
    return BrokenStore(
        message, "check the free space, and who may write there; the records are not affected"
    )


@contextlib.contextmanager
def writable_folder(root: Path) -> Iterator[None]:
    """Create the index folder and its README, and write in it. Raises BrokenStore for OSError."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / "README.md").exists():
            (root / "README.md").write_text(_README, encoding="utf-8")
        yield
    except OSError as error:
        raise BrokenStore(
            f"the index folder {root} cannot be written: {error.strerror or error}",
            "make it writable or free some space, or let the index live in your cache folder",
        ) from error


def list_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder; [] if it is missing."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_file_stamp(path: Path) -> list[int]:
    """Return inode, size and time of a file: any write changes one; [] if it is missing."""
    try:
        state = path.stat()
    except OSError:
        return []
    return [state.st_ino, state.st_size, state.st_mtime_ns]


def compute_checksum(path: Path) -> int:
    """Return the CRC-32 of a file; -1 if it cannot be read."""
    total = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_SIZE):
                total = zlib.crc32(chunk, total)
    except OSError:
        return -1
    return total


class Connection:
    """An open `index.db`; without a path it is in memory. Raises BrokenStore, IndexDamaged."""

    def __init__(self, path: Path | None, *, create: bool = False, is_past: bool = False) -> None:
        """Open the database.

        Args:
            path: of the file; None for a database in memory.
            create: whether to make the file and its tables if they are missing.
            is_past: whether to copy the tables of standing, so that changes stay in memory.
        """
        # What was read since the last change: answers by statement, rows by number.
        self._answer_cache: dict[Any, Any] = {}
        self._data_version = 0  # as SQLite counts the commits of other connections
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
        # Without shared memory SQLite refuses this mode; in the other one readers wait.
        (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            self._connection.execute("PRAGMA journal_mode = TRUNCATE")
        tables = _CONTENT_SCHEMA + _STANDING_SCHEMA.format(temporary="", schema="main")
        self._connection.executescript(f"BEGIN; {tables} PRAGMA user_version = 1; COMMIT")

    def _copy_standing(self) -> None:
        self._connection.executescript(_STANDING_SCHEMA.format(temporary="TEMP", schema="temp"))
        with self.transaction():
            for table in _STANDING_TABLES:
                self._connection.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    @property
    def has_tables(self) -> bool:
        """Whether the tables exist; another process may be creating them."""
        return self.query("PRAGMA user_version") != [(0,)]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def replace_from(self, other_path: Path) -> None:
        """Replace the content of all tables by that of another database."""
        with _error_translation():
            self._connection.execute("ATTACH ? AS other", (str(other_path),))
            try:
                with self.transaction():
                    self._copy_attached_tables()
            finally:
                self._connection.execute("DETACH other")

    def _copy_attached_tables(self) -> None:
        for table in _CONTENT_TABLES + _STANDING_TABLES:
            self._connection.execute(f"DELETE FROM main.{table}")
            self._connection.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")

    @property
    def is_reading(self) -> bool:
        """Whether a snapshot or a transaction is open."""
        return self._connection.in_transaction

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the database until the end of the block."""
        if self._connection.in_transaction:
            yield
            return
        with _error_translation(), self._connection:
            self._connection.execute("BEGIN")
            self._forget_outdated_answers()
            yield

    def _forget_outdated_answers(self) -> None:
        """Clear the cache if another connection has committed; writes of this one clear it too."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._data_version = version
            self._answer_cache.clear()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes of the block or none. Raises Locked."""
        with _error_translation(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._is_writing = True
            try:
                yield
            finally:
                self._is_writing = False
                self._answer_cache.clear()

    def verify_integrity(self) -> None:
        """Read the whole file. Raises IndexDamaged."""
        if self.query("PRAGMA quick_check") != [("ok",)]:
            raise IndexDamaged(f"{NAME} is not whole")

    def truncate_log(self) -> None:
        """Move the write-ahead log into the file, unless a reader still needs it."""
        with contextlib.suppress(Locked), _error_translation():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # notes

    @property
    def last_number(self) -> int:
        """The number of the newest document, also of a past: no number is used twice."""
        rows = self.query("SELECT value FROM main.state WHERE name = 'last'")
        return rows[0][0] if rows else 0

    @property
    def stamp(self) -> int:
        """A number that grows with every change of what a search can find."""
        return int(self.read_state("stamp") or 0)

    def advance_stamp(self) -> int:
        """Return a new stamp for the change that is being made."""
        stamp = self.stamp + 1
        self.write_state(stamp=stamp)
        return stamp

    def read_state(self, name: str) -> Any:
        """Return the value noted under a name; None if there is none."""
        values = dict(self.query_cached("SELECT name, value FROM state"))
        return values.get(name)

    def write_state(self, **values: Any) -> None:
        """Note values under names."""
        self.execute_many("REPLACE INTO state VALUES (?, ?)", values.items())

    # statements

    def query(self, sql: str, *values: Any) -> list[Any]:
        """Return all rows of a statement."""
        try:  # cheaper than `_error_translation`: a search sends some twenty statements
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _build_error(error) from error

    def query_cached(self, *statement: str) -> list[Any]:
        """Return what `query` returns, from memory until the database changes."""
        if self._is_writing or not self._connection.in_transaction:
            return self.query(*statement)
        if statement not in self._answer_cache:
            self._answer_cache[statement] = self.query(*statement)
        answer: list[Any] = self._answer_cache[statement]
        return answer

    def execute_many(self, sql: str, rows: Iterable[Iterable[Any]]) -> None:
        """Run a statement that changes the database for each of some rows of values."""
        self._answer_cache.clear()
        with _error_translation():
            self._connection.executemany(sql, (tuple(row) for row in rows))


def _build_uri(path: Path | None, *, create: bool) -> str:
    """Return the URI with which SQLite opens a database."""
    if path is None:
        return ":memory:"
    uri = path.absolute().as_uri()
    if create:
        return f"{uri}?mode=rwc"
    if os.access(path.parent, os.W_OK):
        return f"{uri}?mode=rw"
    # In a read-only folder SQLite cannot make the files that readers share. Opened as immutable, it
    # would miss what the log still holds; otherwise it refuses, and the caller reads the records.
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size > 0:
        return f"{uri}?mode=ro"
    return f"{uri}?mode=ro&immutable=1"


# values


def encode_text(value: str) -> bytes:
    """Return a text as the database stores it; names of files may have any bytes."""
    return value.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text that `encode_text` encoded."""
    return data.decode("utf-8", "surrogatepass")


def compress_text(text: str) -> bytes:
    """Return a text compressed, with a checksum."""
    return zlib.compress(encode_text(text), 1)


def decompress_text(data: bytes) -> str:
    """Return the text that `compress_text` compressed. Raises IndexDamaged."""
    try:
        return decode_text(zlib.decompress(data))
    except (zlib.error, UnicodeDecodeError, TypeError) as error:
        raise IndexDamaged("a text in it cannot be read") from error


def add_checksum(data: bytes) -> bytes:
    """Return bytes with their CRC-32 in front."""
    return zlib.crc32(data).to_bytes(4, "little") + data


def strip_checksum(data: bytes) -> bytes:
    """Return the bytes that `add_checksum` got. Raises IndexDamaged."""
    content = data[4:]
    if zlib.crc32(content) != int.from_bytes(data[:4], "little"):
        raise IndexDamaged("vectors in it do not match their checksum")
    return content


# errors


@contextlib.contextmanager
def _error_translation() -> Iterator[None]:
    """Turn the errors of SQLite into those that callers handle."""
    try:
        yield
    except sqlite3.Error as error:
        raise _build_error(error) from error


def _build_error(error: sqlite3.Error) -> FilememError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return Locked("another process is writing the search index", "try again in a moment")
    if code == sqlite3.SQLITE_FULL:
        return build_system_error(errno.ENOSPC)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
        return build_system_error(errno.EIO)
    return IndexDamaged(f"{NAME} cannot be read or written")
