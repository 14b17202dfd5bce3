"""The engine on PostgreSQL with pgvector.

Rule: rows of a repository and the commit that they are of change in one transaction. Who asks is
set for one transaction, with a role that owns nothing, so that neither a connection nor a defect of
ours shows what row security hides.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence

from filemem.errors import NotFound
from filemem.index import Model
from filemem.org import tables
from filemem.org.connection import Connection, Database
from filemem.org.engine import Repository
from filemem.org.reader import EXACT_LIMIT, GRAPH, PostgresReader
from filemem.org.rows import REPOSITORIES, SEEN, clean_text, list_repositories
from filemem.org.shelf import PostgresShelf
from filemem.org.tables import fetch_value


class Postgres(Database):
    """The database at `dsn`; `model` makes the vectors."""

    def __init__(self, dsn: str, model: Model, read_dsn: str = "") -> None:
        super().__init__(dsn, read_dsn)
        self.model = model
        self._service = ""  # the role that reads

    def init_tables(self) -> str:
        """Create the tables, or rebuild derived ones of another version.

        Returns what was done, in words.
        """
        dimensions = int(self.model.encode([""]).shape[1])
        with self.transaction() as con:
            return tables.create_tables(con, self.model.name, dimensions)

    @contextlib.contextmanager
    def open_reader(self, principal: str, groups: Sequence[str] = ()) -> Iterator[PostgresReader]:
        """Open what a principal may see; "" sees nothing.

        `groups`: those that an identity provider names, besides the groups of the file of rights.
        """
        with self.transaction(read_only=True) as con:
            self._service = self._service or str(fetch_value(con, "select service from meta"))
            settings = {
                "role": self._service,
                "filemem.principal": principal,
                "filemem.groups": json.dumps(list(groups)),
                **GRAPH,
                "statement_timeout": "10s",  # nobody waits for longer
            }
            query = "select to_regclass('body_bm25')"
            values: list[str] = []
            for name, value in settings.items():
                query += ", set_config(%s, %s, true)"
                values += (name, value)
            has_bm25 = bool(fetch_value(con, query, values))
            yield PostgresReader(con, bm25=has_bm25)

    def can_see_all(self) -> bool:
        """Whether row security does not apply to this login: a superuser's, or the owner's."""
        query = """select rolsuper or rolbypassrls or pg_has_role(current_user, relowner, 'member')
          from pg_roles, pg_class where rolname = current_user and pg_class.oid = 'doc'::regclass"""
        with self.transaction(read_only=True) as con:
            return bool(fetch_value(con, query))

    def add_repositories(self, sources: Mapping[str, str]) -> int:
        """Add repositories, name -> source; return how many are new."""
        insert = "insert into repo(name, source) values (%s, %s) on conflict do nothing"
        with self.transaction() as con, con.cursor() as cursor:
            cursor.executemany(insert, list(sources.items()))
            return cursor.rowcount

    def list_repositories(self) -> list[Repository]:
        """Return all repositories, by name."""
        with self.transaction() as con:
            return list_repositories(con)

    @contextlib.contextmanager
    def lock_shelf(self, number: int) -> Iterator[PostgresShelf | None]:
        """Open a repository for change, one worker at a time; None if it was removed.

        Rights can be changed meanwhile.
        """
        with self.transaction() as con:
            con.execute("select from repo where id = %s for no key update", (number,))
            repository = _read_repository(con, number)
            yield PostgresShelf(con, repository, self.model) if repository else None

    def read_repository(self, number: int) -> Repository | None:
        """Read one repository; None if it was removed."""
        with self.transaction() as con:
            return _read_repository(con, number)

    def read_manifest(self, number: int) -> dict[str, tuple[str, str]]:
        """Return what is kept of a repository: path -> blob id and record id."""
        with self.lock_shelf(number) as shelf:
            return shelf.read_manifest() if shelf else {}

    def note_seen(self, number: int) -> None:
        """Note that a repository was looked at, and holds nothing new."""
        with self.transaction() as con:
            con.execute(SEEN, (number,))

    def note_failure(self, number: int, reason: str) -> None:
        """Note why a repository could not be read."""
        with self.transaction() as con:
            update = "update repo set failed = %s, tries = tries + 1 where id = %s"
            con.execute(update, (clean_text(reason), number))

    def drop_repository(self, name: str) -> int:
        """Forget a repository and who may see it; return how many records it had.

        Raises NotFound.
        """
        count = "select coalesce(max(records), 0) from state s where s.repo = r.id"
        with self.transaction() as con:
            delete = f"delete from repo r where name = %s returning ({count})"
            row = con.execute(delete, (name,)).fetchone()
        if row is None:
            raise NotFound(f"no repository {name!r}", "`filemem org status` lists them")
        return int(row[0])

    def purge_record(self, record_id: str) -> int:
        """Delete the records with an id, also from the files of the database; return how many."""
        query = "select repo, array_agg(path) from doc where rid = %s group by repo"
        with self.transaction() as con:
            rows = con.execute(query, (clean_text(record_id),)).fetchall()
        deleted_count = 0
        for number, paths in rows:
            deleted_count += len(paths)
            with self.lock_shelf(number) as shelf:
                if shelf:
                    shelf.purge(paths)
        with self.open_connection() as con:
            con.execute(f"vacuum (analyze) {', '.join(tables.DERIVED)}, df")
        return deleted_count

    def update_statistics(self) -> None:
        """Update the planner's statistics if a tenth of the records is new since the last time.

        Once there are many passages, their graph is built too.
        """
        query = """select abs(records - reltuples) > records / 10 and pg_try_advisory_xact_lock(%s)
          from (select sum(records) records from state) s, pg_class where oid = 'doc'::regclass"""
        with self.transaction() as con:
            if not fetch_value(con, query, (tables.LOCK,)):
                return
            if fetch_value(con, "select sum(passages) > %s from state", (EXACT_LIMIT,)):
                con.execute("call connect_passages()")
            con.execute("call tidy()")


def _read_repository(con: Connection, number: int) -> Repository | None:
    row = con.execute(f"{REPOSITORIES} where r.id = %s", (number,)).fetchone()
    return Repository(*row) if row else None
