"""Who may ask, and which repositories each may see; each function takes a transaction.

Rule: a person sees what `org access` gives to them, to a group of theirs, or to everybody, and
nothing else. A token is random, is shown once, and only its hash is kept.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BadInput, NotFound
from filemem.record import schema

if TYPE_CHECKING:
    from filemem.org.connection import Connection

_PERSON = {"type": "string", "pattern": r"^[^\s\x00-\x1f@*][^\s\x00-\x1f]{0,199}$"}
_NAME = {"type": "string", "pattern": r"^[^\s\x00-\x1f]{1,200}$"}
_LISTS = {
    "type": "object",
    "propertyNames": _NAME,
    "additionalProperties": {"type": "array", "items": {"type": "string"}},
}
_SHAPE = {**_LISTS, "properties": {"groups": _LISTS}}
_WANTED = """create temp table wanted(principal text, name text) on commit drop;
  create temp table joining(name text, team text) on commit drop"""
_REPLACE = (
    """create temp table given on commit drop as
      select distinct w.principal, r.id as repo from wanted w join repo r on r.name = w.name""",
    """delete from access a where not exists
      (select from given g where g.principal = a.principal and g.repo = a.repo)""",
    "insert into access(principal, repo) select principal, repo from given on conflict do nothing",
    """delete from member m where not exists
      (select from joining j where j.name = m.name and j.team = m.team)""",
    "insert into member(name, team) select name, team from joining on conflict do nothing",
)
_UNKNOWN = "select distinct name from wanted where name not in (select name from repo) order by 1"


class Rights(NamedTuple):
    """What a file of rights says."""

    repositories: Mapping[str, Sequence[str]]  # of a person, of @GROUP, of * for everybody
    groups: Mapping[str, Sequence[str]] = {}  # group -> its members


def add_token(con: Connection, name: str, days: int | None = None) -> str:
    """Make a token for a person or a program, who may have several.

    `days`: after which it ends; None for never. Raises BadInput: the name is not one word, or
    stands for a group or everybody.
    """
    if schema.check_value(_PERSON, name):
        hint = "one word, for example ada or team-web; @ begins a group, * is everybody"
        raise BadInput(f"{name[:80]!r} cannot have a token", hint, field="name")
    token = secrets.token_urlsafe(32)
    insert = """insert into token(hash, name, ends)
      values (%s, %s, now() + make_interval(days => %s))"""
    con.execute(insert, (hash_token(token), name, days))
    return token


def revoke_tokens(con: Connection, name: str) -> int:
    """Delete all tokens of a name, or the one with an id. Raises NotFound: there is none."""
    delete = "delete from token where %s in (name, left(encode(hash, 'hex'), 8))"
    revoked_count: int = con.execute(delete, (name,)).rowcount
    if not revoked_count:
        raise NotFound(f"{name!r} has no token", "`filemem org token list` shows who has one")
    return revoked_count


def list_tokens(con: Connection) -> list[dict[str, str]]:
    """The `id` of each token, whose it is (`name`), the day on which it was `made`, and `ends`."""
    query = """select left(encode(hash, 'hex'), 8), name, made::date::text,
      coalesce(ends::date::text, '') from token order by name, made"""
    columns = ("id", "name", "made", "ends")
    return [dict(zip(columns, row, strict=True)) for row in con.execute(query)]


def hash_token(token: str) -> bytes:
    """What is kept of a token: it is random, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def find_principal(con: Connection, token: str) -> str:
    """Whose token this is; "" for nobody's."""
    row = con.execute("select whose(%s)", (hash_token(token),)).fetchone()
    return str(row[0] or "") if row else ""


def read_rights(path: Path) -> Rights:
    """Read a file of rights: TOML, or JSON if its name ends in .json. Raises BadInput."""
    hint = 'a line for each name: `ada = ["host/team/api"]`; docs/organisation.md shows groups'
    try:
        text = path.read_text("utf-8-sig")
        parse = json.loads if path.suffix == ".json" else tomllib.loads
        value: dict[str, Any] = parse(text)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read: {error}", hint, field="file") from None
    complaints = schema.check_value(_SHAPE, value)
    if complaints:
        raise BadInput(f"{path}: {complaints[0][1]}", hint, field="file")
    groups = value.pop("groups", {})
    return Rights(value, groups)


def replace_rights(con: Connection, rights: Rights) -> tuple[int, list[str]]:
    """Replace all rights.

    Return how many rights that are, and the repositories that are not in the index: these give
    nothing. Repositories go by the names that `filemem org status` shows.
    """
    con.execute(_WANTED)
    wanted = []
    for principal, repositories in rights.repositories.items():
        wanted += [(principal, repository) for repository in repositories]
    _copy_rows(con, "wanted", wanted)
    members = []
    for team, names in rights.groups.items():
        members += [(name, team) for name in names]
    _copy_rows(con, "joining", members)
    for statement in _REPLACE:
        con.execute(statement)
    unknown_names = [name for (name,) in con.execute(_UNKNOWN)]
    row = con.execute("select count(*) from access").fetchone()
    return (row[0] if row else 0), unknown_names


def _copy_rows(con: Connection, table: str, rows: Sequence[tuple[str, str]]) -> None:
    with con.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as writer:
        for row in rows:
            writer.write_row(row)
