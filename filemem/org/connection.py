"""Connections to the database of an organisation: the only module that knows psycopg."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool

from filemem.errors import BadInput, BrokenStore

Connection = psycopg.Connection[Any]
MAX_CONNECTIONS = 16  # connections of a process, for reading and for the rest each
TIMEOUT = 5.0  # seconds for a connection
logging.getLogger("psycopg.pool").addHandler(
    logging.NullHandler()
)  # `log.set_up_logging` adds another
_NOT_READY_ERRORS = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidParameterValue,
)


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn errors of the database into ours."""
    try:
        yield
    except _NOT_READY_ERRORS as error:
        message = "the database is not made ready for filemem"
        raise BrokenStore(message, "run `filemem org init`") from error
    except psycopg.errors.InsufficientPrivilege as error:
        hint = "log in as the owner of the tables; docs/organisation.md says what each role may do"
        raise BrokenStore(f"the organisation's database: {_format_error(error)}", hint) from error
    except psycopg.Error as error:
        hint = "check FILEMEM_ORG_DSN, and that PostgreSQL runs"
        raise BrokenStore(f"the organisation's database: {_format_error(error)}", hint) from error


def _format_error(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _set_read_only(con: Connection) -> None:
    """Prepare a connection on which nothing is written."""
    con.read_only = True
    con.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ


def _build_pool(
    dsn: str, configure: Callable[[Connection], None] | None
) -> psycopg_pool.ConnectionPool[Connection]:
    """Build a pool of connections, each checked before use; PgBouncer may be in between."""
    options = {"autocommit": True, "connect_timeout": 10, "application_name": "filemem"}
    return psycopg_pool.ConnectionPool(
        dsn,
        kwargs={**options, "prepare_threshold": None},
        min_size=0,
        max_size=MAX_CONNECTIONS,
        timeout=TIMEOUT,
        open=False,
        configure=configure,
        check=psycopg_pool.ConnectionPool.check_connection,
    )


class Database:
    """The database at `dsn`; reads may go to a replica at `read_dsn`.

    Raises BadInput if none is named.
    """

    def __init__(self, dsn: str, read_dsn: str = "") -> None:
        if not dsn:
            hint = "set FILEMEM_ORG_DSN, or org_dsn in your own config.toml"
            raise BadInput("no database is named", hint)
        self._dsn = _complete_dsn(dsn)
        self._read_dsn = _complete_dsn(read_dsn) if read_dsn else self._dsn
        self._pools = {
            True: _build_pool(self._read_dsn, _set_read_only),
            False: _build_pool(self._dsn, None),
        }

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()

    @contextlib.contextmanager
    def transaction(self, *, read_only: bool = False) -> Iterator[Connection]:
        """Open a transaction on a new connection: all changes are kept at the end, or none."""
        with self.open_connection(read_only=read_only) as con, con.transaction():
            yield con

    @contextlib.contextmanager
    def open_connection(self, *, read_only: bool = False) -> Iterator[Connection]:
        """Take a connection, outside of any transaction."""
        pool = self._pools[read_only]
        with _translate_errors():
            if pool.closed:
                # This reports what is wrong, if anything: the pool would only wait.
                dsn = self._read_dsn if read_only else self._dsn
                psycopg.connect(dsn, connect_timeout=10).close()
                pool.open()
            with pool.connection() as con:
                yield con

    @contextlib.contextmanager
    def listen(self, channel: str) -> Iterator[Callable[[float], bool]]:
        """Yield a function that waits some seconds for a notice; it returns whether one came."""
        with (
            _translate_errors(),
            psycopg.connect(self._dsn, autocommit=True, application_name="filemem") as con,
        ):
            con.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))

            def wait_for_notice(seconds: float) -> bool:
                return any(con.notifies(timeout=seconds, stop_after=1))

            yield wait_for_notice


def _complete_dsn(dsn: str) -> str:
    """Add to a connection string that other machines need encryption. Raises BrokenStore."""
    with _translate_errors():
        settings: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(dsn)
    host = str(settings.get("host") or "/")
    is_local = host.startswith(("/", "@", "127.", "::1", "localhost"))
    settings.setdefault("sslmode", "prefer" if is_local else "require")
    return psycopg.conninfo.make_conninfo("", **settings)
