"""Records as rows of PostgreSQL: what the shelf of a worker and a reader both need.

Rule: a connection comes with its transaction, and with the role of whoever asks; nothing here opens
or ends one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from filemem.chain import NO_FACTS, Facts, Node
from filemem.index import Row
from filemem.index.document import build_node
from filemem.org.engine import Repository

if TYPE_CHECKING:
    from filemem.org.connection import Connection

REPOSITORIES = """select r.id, r.name, r.source, coalesce(s.store, ''), coalesce(s.head, ''),
  (extract(epoch from r.seen) * 1000)::bigint, r.failed, coalesce(s.records, 0),
  coalesce(s.passages, 0), coalesce(s.words, ''), r.tries, coalesce(s.left_out, '')
  from repo r left join state s on s.repo = r.id"""
SEEN = "update repo set seen = now(), failed = '', tries = 0 where id = %s"
ROWS = "select d.id, d.repo, d.blob, d.node, d.live, d.shown, d.meant, d.facts"
LINKS = ("name", "refers", "target")
_OWN = "(d.{}, d.repo) in (select * from unnest(%(values)s::text[], %(repos)s::int[]))"
BY_FIELD = {
    "id": _OWN.format("rid"),
    "path": _OWN.format("path"),
    "key": f"d.key <> '' and {_OWN.format('key')}",  # the condition of the index of keys
}
_BY_LINK = """d.id in (select l.doc from link l
  join unnest(%(repos)s::int[], %(values)s::bigint[]) w(repo, value)
  on l.repo = w.repo and l.value = w.value)"""
Pairs = Sequence[tuple[int, str]]  # numbers of repositories, each with a value in one


def list_repositories(con: Connection) -> list[Repository]:
    """Return all repositories that are visible, by name."""
    return [Repository(*row) for row in con.execute(f"{REPOSITORIES} order by r.name")]


def read_rows(con: Connection, field: str, pairs: Pairs) -> list[tuple[int, Row]]:
    """Return the records that have a value in a field, each with the number of its repository."""
    if not pairs:
        return []
    query = f"{ROWS} from doc d where {BY_FIELD.get(field, _BY_LINK)}"
    rows = con.execute(query, build_values(field, pairs))
    return [(row[1], build_row(row)) for row in rows]


def build_values(field: str, pairs: Pairs) -> dict[str, Any]:
    """Build the values for a query by one field."""
    repositories = []
    values: list[int | str] = []
    for repository, text in pairs:
        repositories.append(repository)
        values.append(digest(field, text) if field in LINKS else clean_text(text))
    return {"repos": repositories, "values": values}


def build_row(columns: Sequence[Any]) -> Row:
    """Build a record from its columns, in the order of ROWS."""
    number, _, blob, node_text, is_live, is_visible, meanings_text, facts_text = columns
    meanings = json.loads(meanings_text) if meanings_text else {}
    facts = NO_FACTS
    if facts_text:
        facts = Facts.from_lists(json.loads(facts_text))
    node = _parse_node(node_text)
    return Row(number, blob, node, is_live, is_visible, meanings, facts=facts)


@lru_cache(maxsize=8192)
def _parse_node(text: str) -> Node:
    return build_node(json.loads(text))


def clean_text(value: str, max_size: int | None = 500) -> str:
    """Return a text as the database can have it: without NUL, and no longer than an index takes."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:max_size]


def digest(kind: str, value: str) -> int:
    """Return the number by which a link is looked up."""
    data = f"{kind} {value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)
