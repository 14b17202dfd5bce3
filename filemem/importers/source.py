"""Open the sources of an import without changing them: databases, Markdown folders, JSON Lines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from filemem.errors import BadInput

_WAL_VERSIONS = b"\x02\x02"  # bytes 18 and 19 of a database that has, or had, a write-ahead log
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Database:
    """A database of another program."""

    _connection: sqlite3.Connection

    def list_tables(self, *columns: str) -> list[str]:
        """List the tables that have all these columns; virtual ones may need their program."""
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        wanted_columns = set(columns)
        tables = []
        for (name,) in rows.fetchall():
            if wanted_columns <= self._list_columns(name):
                tables.append(name)
        return tables

    def _list_columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {name for (name,) in rows}

    def iter_rows(self, table: str) -> Iterator[Row]:
        """Yield the rows of a table in the order of their creation; none without the table."""
        if table not in self.list_tables():
            return
        quoted_name = table.replace('"', '""')
        query = f'SELECT * FROM "{quoted_name}" ORDER BY rowid'  # noqa: S608 - the table exists
        cursor = self._connection.execute(query)
        columns = [description[0] for description in cursor.description]
        for values in cursor:
            yield dict(zip(columns, values, strict=True))


def _open_file(path: Path) -> BinaryIO:
    """Open a file for reading. Raises BadInput."""
    try:
        return path.open("rb")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise BadInput(message, "name what to import", field="source") from None


@contextmanager
def open_database(path: Path, *table_names: str) -> Iterator[Database]:
    """Open a database for reading, with its write-ahead log.

    Raises BadInput: it is no database, or has none of the tables.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    if _is_closed_wal_database(path):
        # Reading would create the log; immutable prevents that.
        address += "&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = _decode_text
            database = Database(connection)
            _require_table(path, database, table_names)
            yield database
    except KeyError as error:  # of a row
        message = f"{path}: a table has no column {error}"
        raise BadInput(message, "is it of another program?", field="source") from None
    except sqlite3.Error as error:
        message = f"{path} cannot be read: {error}"
        raise BadInput(message, "is it a database of SQLite?", field="source") from None


def _is_closed_wal_database(path: Path) -> bool:
    """Return whether a database uses a write-ahead log and no program has it open."""
    with _open_file(path) as file:
        header = file.read(20)
    if header[18:] != _WAL_VERSIONS:
        return False
    return not path.with_name(f"{path.name}-wal").exists()


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _require_table(path: Path, database: Database, table_names: Collection[str]) -> None:
    """Raise BadInput if a database has none of some tables; no names require nothing."""
    if not table_names:
        return
    existing_tables = set(database.list_tables())
    if existing_tables.isdisjoint(table_names):
        message = f"{path} has no table {' or '.join(table_names)}"
        raise BadInput(message, "is it of another program?", field="source")


def iter_documents(folder: Path, pattern: str = "**/*.md") -> Iterator[tuple[Path, bytes]]:
    """Yield the files of a folder, sorted, each with its bytes.

    Hidden files and files behind links are left out. Raises BadInput: there is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder", "name the folder to import", field="source")
    top = folder.resolve()
    for path in sorted(folder.glob(pattern)):
        parts = path.relative_to(folder).parts
        is_linked = path.resolve() != top.joinpath(*parts)
        is_hidden = any(part.startswith(".") for part in parts)
        if is_linked or is_hidden or not path.is_file():
            continue
        with _open_file(path) as file:
            yield path, file.read()


def read_text(path: Path) -> str:
    r"""Read the text of a file, with `\n` as its line ends. Raises BadInput."""
    with _open_file(path) as file:
        text = file.read().decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n")


def iter_json_lines(path: Path) -> Iterator[Row]:
    """Yield the objects of a file of JSON Lines. Raises BadInput: a line is not a JSON object."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        row = _parse_object(line)
        if row is None:
            message = f"{path}:{number}: this line is not a JSON object"
            raise BadInput(message, "nothing was imported")
        yield row


def _parse_object(line: str) -> Row | None:
    """Parse a line as a JSON object; return None if it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return value
