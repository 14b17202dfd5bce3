"""Make the tables, roles and rights of the database: new, after an update, or after a restore.

Rule: the kept tables stay, the derived ones are dropped when their form changes, and roles and
rights are made each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filemem.errors import BrokenStore

if TYPE_CHECKING:
    from filemem.org.connection import Connection

VERSION = 5  # of schema.sql, and of what is packed
LOCK = 4_242  # of the database, for what one process does at a time
DERIVED = ("doc", "link", "body", "passage")
# The column of each table that names the repository.
_REPOSITORY_COLUMNS = {"repo": "id", **dict.fromkeys(("state", "df", *DERIVED), "repo")}
_OLDEST_SERVER = 160_000
_OLDEST_VECTOR = (0, 8)
_BM25 = """create index if not exists body_bm25 on body using bm25(stems)
  with (text_config = 'simple', k1 = 1.2, b = 0.75)"""
# Without the list of what is still to be put in, which each question would have to read.
_GIN = """create index if not exists body_keys on body using gin (keys(repo, stems))
  with (fastupdate = off)"""


def create_tables(con: Connection, model: str, dimensions: int) -> str:
    """Make what is missing, in a transaction of the caller's; return what was done, in words.

    `model` and its `dimensions`: what makes the vectors. Raises BrokenStore: the server is too old.
    """
    con.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
    if con.info.server_version < _OLDEST_SERVER:
        raise BrokenStore("the database is older than PostgreSQL 16", "filemem needs 16 or newer")
    _install_extension(con)
    roles = _create_roles(con)
    schema = str(fetch_value(con, "select current_schema()"))
    names = {"SCHEMA": quote_name(con, schema), "DIMENSIONS": str(dimensions)}
    names |= {"DATABASE": quote_name(con, con.info.dbname)}
    names |= {part.upper(): quote_name(con, name) for part, name in roles.items()}
    stored_form = None
    if fetch_value(con, "select to_regclass('meta') is not null"):
        stored_form = con.execute("select version, model from meta").fetchone()
    _run_file(con, "kept.sql", names)
    if stored_form != (VERSION, model):
        if stored_form:
            tables = ", ".join((*DERIVED, "df", "state", "total", "meta"))
            con.execute(f"drop table if exists {tables} cascade")
            con.execute("drop function if exists visible, holding, keys cascade")
        _run_file(con, "schema.sql", names)
        con.execute("insert into meta values (%s, %s)", (VERSION, model))
    index_note = _create_word_index(con)
    _run_file(con, "rights.sql", names)
    for table, column in _REPOSITORY_COLUMNS.items():
        _create_policies(con, table, column, names)
    con.execute("update meta set worker = %(worker)s, service = %(service)s", roles)
    if stored_form == (VERSION, model):
        return "the database is ready"
    return f"the database is made {index_note}"


def _create_policies(con: Connection, table: str, column: str, names: Mapping[str, str]) -> None:
    """Let the service see the rows that its principal may see, and the worker all rows."""
    con.execute(f"alter table {table} enable row level security")
    con.execute(f"drop policy if exists seen on {table}")
    con.execute(f"drop policy if exists brought on {table}")
    visible = f"using ({column} in (select visible()))"
    con.execute(f"create policy seen on {table} to {names['SERVICE']} {visible}")
    con.execute(f"create policy brought on {table} to {names['WORKER']} using (true)")


def fetch_value(con: Connection, query: str, values: Any = ()) -> Any:
    """Return the one value of the one row that a query answers with."""
    row = con.execute(query, values).fetchone()
    return row[0] if row else None


def quote_name(con: Connection, name: str) -> str:
    """Return a name as SQL has it."""
    return str(fetch_value(con, "select quote_ident(%s)", (name,)))


def _install_extension(con: Connection) -> None:
    con.execute("create extension if not exists vector")
    version = str(fetch_value(con, "select extversion from pg_extension where extname = 'vector'"))
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_VECTOR:
        hint = "install pgvector 0.8 or newer, then run: alter extension vector update"
        raise BrokenStore(f"the database has pgvector {version}", hint)


def _create_roles(con: Connection) -> dict[str, str]:
    """Make the roles of the worker and the service, if they are missing; return their names.

    Roles belong to the whole server, so their names have that of the database.
    """
    roles = dict[str, str]()
    for part in ("worker", "service"):
        name = f"filemem_{part}_{con.info.dbname}"[:63]
        role = quote_name(con, name)
        if not fetch_value(con, "select count(*) from pg_roles where rolname = %s", (name,)):
            con.execute(f"create role {role} nologin")
        if not fetch_value(con, "select pg_has_role(current_user, %s, 'set')", (name,)):
            con.execute(f"grant {role} to current_user with inherit false, set true")
        roles[part] = name
    return roles


def _create_word_index(con: Connection) -> str:
    """Make the index of words."""
    query = "select count(*) from pg_available_extensions where name = 'pg_textsearch'"
    if fetch_value(con, query):
        con.execute("create extension if not exists pg_textsearch")
        con.execute(_BM25)
        return "ready; words by BM25"
    con.execute(_GIN)
    return "ready; words by rarity: the database has no BM25 index"


def _run_file(con: Connection, file: str, names: dict[str, str]) -> None:
    """Run a file of statements, with names in place of the words in capitals."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    for word, name in names.items():
        text = re.sub(rf"\b{word}\b", name.replace("\\", r"\\"), text)
    con.execute(text)
