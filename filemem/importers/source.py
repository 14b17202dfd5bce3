"""What an import reads: databases, folders of Markdown, lines of JSON.

Everything is opened so that nothing of it changes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
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
        """The tables that have all these columns; virtual ones may need their program."""
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        return [name for (name,) in rows.fetchall() if {*columns} <= self._list_columns(name)]

    def _list_columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {name for (name,) in rows}

    def iter_rows(self, table: str) -> Iterator[Row]:
        """The rows of a table in the order of their creation; none if there is no such table."""
        if table in self.list_tables():
            quoted = table.replace('"', '""')
            query = f'SELECT * FROM "{quoted}" ORDER BY rowid'  # noqa: S608 - the table exists
            cursor = self._connection.execute(query)
            columns = [name for name, *_ in cursor.description]
            for row in cursor:
                yield dict(zip(columns, row, strict=True))


def _open_file(path: Path) -> BinaryIO:
    """A file for reading. Raises BadInput."""
    try:
        return path.open("rb")
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror}", "name what to import", field="source"
        ) from None


@contextmanager
def open_database(path: Path, *table_names: str) -> Iterator[Database]:
    """Open a database for reading, with its write-ahead log.

    Raises BadInput: it is none, or has no table `needed`.
    """
    # A read of one whose log is gone would make the log anew, beside it; as nobody has it open,
    # it is read as it is.
    with _open_file(path) as file:
        is_idle = (
            file.read(20)[18:] == _WAL_VERSIONS and not path.with_name(f"{path.name}-wal").exists()
        )
    address = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' * is_idle}"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            source_database = Database(connection)
            if table_names and not {*table_names} & {*source_database.list_tables()}:
                raise BadInput(
                    f"{path} has no table {' or '.join(table_names)}",
                    "is it of another program?",
                    "source",
                )
            yield source_database
    except KeyError as error:  # of a row
        raise BadInput(
            f"{path}: a table has no column {error}", "is it of another program?", "source"
        ) from None
    except sqlite3.Error as error:
        raise BadInput(
            f"{path} cannot be read: {error}", "is it a database of SQLite?", field="source"
        ) from None


def iter_documents(folder: Path, pattern: str = "**/*.md") -> Iterator[tuple[Path, bytes]]:
    """The files of a folder, sorted, each with its bytes; none that is hidden or behind a link.

    Raises BadInput: there is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder", "name the folder to import", field="source")
    top = folder.resolve()
    for path in sorted(folder.glob(pattern)):
        parts = path.relative_to(folder).parts
        is_linked = path.resolve() != top.joinpath(*parts)
        if path.is_file() and not is_linked and not any(part.startswith(".") for part in parts):
            with _open_file(path) as file:
                yield path, file.read()


def read_text(path: Path) -> str:
    """The text of a file, its line ends as `\n`. Raises BadInput."""
    with _open_file(path) as file:
        return file.read().decode("utf-8-sig", "replace").replace("\r\n", "\n")


def iter_json_lines(path: Path) -> Iterator[Row]:
    """The objects of a file of JSON Lines. Raises BadInput: a line is not a JSON object."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            row = _parse_object(line)
            if row is None:
                message = f"{path}:{number}: this line is not a JSON object"
                raise BadInput(message, "nothing was imported")
            yield row


def _parse_object(line: str) -> Row | None:
    """The JSON object in a line; None if it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
