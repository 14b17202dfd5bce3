"""Who asked when for what, and what was shown: noted if the service is told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filemem.org.connection import Connection

MAX_LINES = 100  # lines that are listed
COLUMNS = ("at", "name", "verb", "query", "shown")


def note_question(
    con: Connection, name: str, verb: str, query: str, records: Sequence[str], days: int
) -> None:
    """Note a question with what was shown, and delete what is older than some days.

    Args:
        con: a transaction in which the service may write.
        name: who asked.
        verb: search or get.
        query: what for.
        records: what was shown, each by the name of its repository and its id.
        days: how long it is kept.
    """
    con.execute("select note(%s, %s, %s, %s, %s)", (name, verb, query, list(records), days))


def list_questions(con: Connection, name: str = "") -> list[dict[str, str | list[str]]]:
    """Return the newest questions, of one name or of all, newest first."""
    query = """select to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), name, verb,
      query, shown from audit where %s in ('', name) order by at desc limit %s"""
    return [dict(zip(COLUMNS, row, strict=True)) for row in con.execute(query, (name, MAX_LINES))]
