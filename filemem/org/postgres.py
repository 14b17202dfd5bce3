"""The engine on PostgreSQL with pgvector: the only module that knows psycopg.

Rule: rows of a repository and the commit that they are of change in one transaction. Who asks is set for one
transaction, with a role that owns nothing, so that neither a connection nor a defect of ours shows what row security
hides.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psycopg

from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.index import Model
from filemem.index.words import FIELDS
from filemem.org.engine import Repository
from filemem.org.pack import tokens_in
from filemem.org.rows import (
    EXACT_BELOW,
    REPOSITORIES,
    PostgresReader,
    PostgresShelf,
    copy,
    one,
    plain,
    repositories,
)

Connection = psycopg.Connection[Any]
VERSION = 4  # of schema.sql, and of what is packed
COUNTED = 20_000  # records that the statistics are taken from, at most: a part says nearly the same
DEGRADED = "words by rarity: the database has no BM25 index"
_LOCK = 4_242  # of the database, for what one process does at a time
_DERIVED = ("doc", "link", "body", "passage")  # tables, beside df, total and meta
_SCHEMA = Path(__file__).with_name("schema.sql")
_GRAPH = "create index if not exists passage_vec on passage using hnsw (vec halfvec_cosine_ops)"
_BM25 = "create index body_bm25 on body using bm25(stems) with (text_config = 'simple', k1 = 1.2, b = 0.75)"
_GIN = "create index body_gin on body using gin (string_to_array(stems, ' '))"


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """Turn what the database says into what our callers can act on."""
    try:
        yield
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.InvalidParameterValue,
    ) as error:
        raise BrokenStore(
            "the database is not made ready for filemem", "run `filemem org init`"
        ) from error
    except psycopg.Error as error:
        told = " ".join(str(error).split())[:300] or type(error).__name__
        raise BrokenStore(
            f"the organisation's database: {told}",
            "check FILEMEM_ORG_DSN, and that PostgreSQL runs",
        ) from error


class Postgres:
    """The database at `dsn`; `model` makes the vectors."""

    def __init__(self, dsn: str, model: Model) -> None:
        if not dsn:
            raise BadInput(
                "no database is named", "set FILEMEM_ORG_DSN, or org_dsn in your own config.toml"
            )
        with _ours():
            stated: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(dsn)
        local = str(stated.get("host") or "/").startswith(("/", "@", "127.", "::1", "localhost"))
        stated.setdefault("sslmode", "prefer" if local else "require")
        self._dsn = psycopg.conninfo.make_conninfo("", **stated)
        self.model = model
        self._idle = {reading: SimpleQueue[Connection]() for reading in (True, False)}

    def close(self) -> None:
        """Close the connections that nobody uses."""
        for idle in self._idle.values():
            while not idle.empty():
                idle.get_nowait().close()

    @contextlib.contextmanager
    def transaction(self, *, reading: bool = False) -> Iterator[Connection]:
        """Open a transaction on a connection of its own: all of it is kept at the end, or nothing."""
        with self._connected(reading=reading) as con, con.transaction():
            yield con

    @contextlib.contextmanager
    def _connected(self, *, reading: bool = False) -> Iterator[Connection]:
        with _ours():
            try:
                con = self._idle[reading].get_nowait()
            except Empty:
                con = psycopg.connect(
                    self._dsn, autocommit=True, connect_timeout=10, application_name="filemem"
                )
                if reading:
                    con.read_only, con.isolation_level = (
                        True,
                        psycopg.IsolationLevel.REPEATABLE_READ,
                    )
            try:
                yield con
            finally:
                con.close() if con.broken else self._idle[reading].put(con)

    def init(self) -> str:
        """Make the database ready, or make anew what another version derived; return what was done, in words."""
        with self.transaction() as con:
            con.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            if con.info.server_version < 160_000:
                raise BrokenStore(
                    "the database is older than PostgreSQL 16", "filemem needs 16 or newer"
                )
            made = one(con, "select to_regclass('meta') is not null")
            known = con.execute("select version, model from meta").fetchone() if made else None
            if known == (VERSION, self.model.name):
                return "the database is ready"
            if known:
                con.execute(f"drop table {', '.join(_DERIVED)}, df, total, meta cascade")
                con.execute("drop function visible, holding cascade")
                con.execute("update repo set head = ''")
            con.execute("create extension if not exists vector")
            if not one(con, "select count(*) from pg_roles where rolname = 'filemem_reader'"):
                con.execute("create role filemem_reader nologin")
            con.execute("grant filemem_reader to current_user")
            names = {
                "SCHEMA": one(con, "select quote_ident(current_schema())"),
                "DIMENSIONS": self._dimensions(),
            }
            text = _SCHEMA.read_text(encoding="utf-8")
            for name, value in names.items():
                text = text.replace(name, str(value))
            con.execute(text)
            for table in ("repo", *_DERIVED):
                column = "id" if table == "repo" else "repo"
                con.execute(f"alter table {table} enable row level security")
                con.execute(
                    f"create policy seen on {table} to filemem_reader using ({column} in (select visible()))"
                )
            con.execute("insert into meta values (%s, %s)", (VERSION, self.model.name))
        try:
            with self.transaction() as con:
                con.execute("create extension if not exists pg_textsearch")
                con.execute(_BM25)
            return "the database is made ready; words by BM25"
        except BrokenStore:
            with self.transaction() as con:
                con.execute(_GIN)
            return f"the database is made ready; {DEGRADED}"

    def _dimensions(self) -> int:
        return int(self.model.encode([""]).shape[1])

    @contextlib.contextmanager
    def reading(self, principal: str) -> Iterator[PostgresReader]:
        """Open what a principal may see; "" sees nothing."""
        settings = {
            "role": "filemem_reader",
            "filemem.principal": principal,
            "hnsw.iterative_scan": "strict_order",
        }
        settings |= {"hnsw.ef_search": "100", "statement_timeout": "10s"}  # nobody waits for longer
        with self.transaction(reading=True) as con:
            asked = f"select to_regclass('body_bm25'){', set_config(%s, %s, true)' * len(settings)}"
            bm25 = one(con, asked, [each for pair in settings.items() for each in pair])
            yield PostgresReader(con, "" if bm25 else DEGRADED)

    def add(self, sources: Mapping[str, str]) -> int:
        """Add repositories, name -> source; return how many are new."""
        asked = "insert into repo(name, source) values (%s, %s) on conflict do nothing"
        with self.transaction() as con, con.cursor() as cursor:
            cursor.executemany(asked, list(sources.items()))
            return cursor.rowcount

    def repositories(self) -> list[Repository]:
        """Return all repositories, by name."""
        with self.transaction() as con:
            return repositories(con)

    @contextlib.contextmanager
    def taking(self, number: int) -> Iterator[PostgresShelf | None]:
        """Open a repository for change, one worker at a time; None if another has it, or it is gone."""
        with self.transaction() as con:
            found = con.execute(
                f"{REPOSITORIES} where id = %s for update skip locked", (number,)
            ).fetchone()
            yield PostgresShelf(con, Repository(*found), self.model) if found else None

    def fail(self, number: int, reason: str) -> None:
        """Note why a repository could not be read."""
        with self.transaction() as con:
            con.execute("update repo set failed = %s where id = %s", (plain(reason), number))

    def drop(self, name: str) -> int:
        """Forget a repository, its records and who may see it; return how many records. Raises NotFound."""
        with self.transaction() as con:
            gone = con.execute(
                "delete from repo where name = %s returning records", (name,)
            ).fetchone()
        if gone is None:
            raise NotFound(f"no repository {name!r}", "`filemem org status` lists them")
        return int(gone[0])

    def purge(self, record_id: str) -> int:
        """Delete the records with an id everywhere; return how many."""
        with self.transaction() as con:
            gone = con.execute("delete from doc where rid = %s", (plain(record_id),)).rowcount
        self._tidy()
        return gone

    def recount(self) -> bool:
        """Renew the statistics if a tenth of the records is new since the last time; return whether that was done.

        The graph of passages is made too, once there are many.
        """
        with self.transaction() as con:
            there = int(one(con, "select coalesce(sum(records), 0) from repo"))
            new = (
                abs(there - int(one(con, "select coalesce(max(docs), 0) from total"))) > there / 10
            )
            if not new or not one(con, "select pg_try_advisory_xact_lock(%s)", (_LOCK,)):
                return False
            if one(con, "select sum(passages) > %s from repo", (EXACT_BELOW,)):
                con.execute(_GRAPH)
            read, sizes, having = 0, Counter[str](), {name: Counter[str]() for name in FIELDS}
            part = f"tablesample system ({100 * COUNTED / there})" if there > COUNTED else ""
            with con.cursor(name="bodies") as bodies:
                for text in bodies.execute(f"select stems, texts from body {part}"):
                    read += 1
                    for name, tokens in tokens_in(*text).items():
                        sizes[name] += len(tokens)
                        having[name].update(set(tokens))
            con.execute("delete from df; delete from total")
            times = there / max(read, 1)
            every = set[str]().union(*having.values())
            copy(
                con,
                "df",
                ((term, [round(of[term] * times) for of in having.values()]) for term in every),
            )
            copy(con, "total", [(there, [round(sizes[name] * times) for name in FIELDS])])
        self._tidy()
        return True

    def _tidy(self) -> None:
        """Take what is deleted out of the files, and tell the planner what is there."""
        with self._connected() as con:
            con.execute(f"vacuum (analyze) {', '.join(_DERIVED)}, df")
