"""Connections to the database of an organisation: the only module that knows psycopg."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool

from filemem.errors import BadInput, BrokenStore

Connection = psycopg.Connection[Any]
MOST = 16  # connections of a process, for reading and for the rest each
PATIENCE = 5.0  # seconds for a connection
_NOT_READY = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidParameterValue,
)


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """Turn what the database says into what our callers can act on."""
    try:
        yield
    except _NOT_READY as error:
        message = "the database is not made ready for filemem"
        raise BrokenStore(message, "run `filemem org init`") from error
    except psycopg.errors.InsufficientPrivilege as error:
        hint = "log in as the owner of the tables; docs/organisation.md says what each role may do"
        raise BrokenStore(f"the organisation's database: {_first_line(error)}", hint) from error
    except psycopg.Error as error:
        hint = "check FILEMEM_ORG_DSN, and that PostgreSQL runs"
        raise BrokenStore(f"the organisation's database: {_first_line(error)}", hint) from error


def _first_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _to_read(con: Connection) -> None:
    """Prepare a connection on which nothing is written."""
    con.read_only = True
    con.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ


class Database:
    """The database at `dsn`. Raises BadInput: none is named."""

    def __init__(self, dsn: str) -> None:
        if not dsn:
            hint = "set FILEMEM_ORG_DSN, or org_dsn in your own config.toml"
            raise BadInput("no database is named", hint)
        self._dsn = _complete(dsn)
        self._pools = {reading: self._pool(reading=reading) for reading in (True, False)}

    def _pool(self, *, reading: bool) -> psycopg_pool.ConnectionPool[Connection]:
        """Connections, each checked before use; a server of connections may stand in between."""
        how = {"autocommit": True, "connect_timeout": 10, "application_name": "filemem"}
        return psycopg_pool.ConnectionPool(
            self._dsn,
            kwargs={**how, "prepare_threshold": None},
            min_size=0,
            max_size=MOST,
            timeout=PATIENCE,
            open=False,
            configure=_to_read if reading else None,
            check=psycopg_pool.ConnectionPool.check_connection,
        )

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()

    @contextlib.contextmanager
    def transaction(self, *, reading: bool = False) -> Iterator[Connection]:
        """Open a transaction on a connection of its own: all is kept at the end, or nothing."""
        with self.connected(reading=reading) as con, con.transaction():
            yield con

    @contextlib.contextmanager
    def connected(self, *, reading: bool = False) -> Iterator[Connection]:
        pool = self._pools[reading]
        with _ours():
            if pool.closed:
                psycopg.connect(self._dsn, connect_timeout=10).close()  # says what is wrong, if so
                pool.open()
            with pool.connection() as con:
                yield con

    @contextlib.contextmanager
    def listening(self, channel: str) -> Iterator[Callable[[float], bool]]:
        """Yield what waits for a notice on a channel, and returns whether one came."""
        with (
            _ours(),
            psycopg.connect(self._dsn, autocommit=True, application_name="filemem") as con,
        ):
            con.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
            yield lambda seconds: any(con.notifies(timeout=seconds, stop_after=1))


def _complete(dsn: str) -> str:
    """Return how to connect, encrypted if it is another machine. Raises BrokenStore."""
    with _ours():
        stated: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(dsn)
    local = str(stated.get("host") or "/").startswith(("/", "@", "127.", "::1", "localhost"))
    stated.setdefault("sslmode", "prefer" if local else "require")
    return psycopg.conninfo.make_conninfo("", **stated)
