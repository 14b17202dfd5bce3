"""Who may ask, and which repositories each may see: two tables of the database, in a transaction of the caller's.

Rule: nobody sees anything that `org access` does not give. A token is random, is shown once, and only its hash is kept.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from filemem.errors import BadInput, NotFound
from filemem.org.engine import EVERYBODY
from filemem.record import schema

_NAME = {"type": "string", "pattern": r"^[^\s\x00-\x1f]{1,200}$"}
_LISTS = {"type": "array", "items": {"type": "string"}}
_SHAPE = {"type": "object", "propertyNames": _NAME, "additionalProperties": _LISTS}


def add_token(database: Any, name: str) -> str:
    """Make a token for a principal, who may have several. Raises BadInput: not one word, or everybody."""
    if name == EVERYBODY or schema.errors(_NAME, name):
        raise BadInput(
            f"{name[:80]!r} is nobody's name", "one word, for example ada or team-web", field="name"
        )
    token = secrets.token_urlsafe(32)
    database.execute("insert into token(hash, name) values (%s, %s)", (hashed(token), name))
    return token


def revoke(database: Any, name: str) -> int:
    """Delete all tokens of a principal, or the one with an id, from now on. Raises NotFound: there is none."""
    gone: int = database.execute(
        "delete from token where %s in (name, left(encode(hash, 'hex'), 8))", (name,)
    ).rowcount
    if not gone:
        raise NotFound(f"{name!r} has no token", "`filemem org token list` shows who has one")
    return gone


def tokens(database: Any) -> list[dict[str, str]]:
    """The `id` of each token, whose it is (`name`), and the day on which it was `made`."""
    asked = (
        "select left(encode(hash, 'hex'), 8), name, made::date::text from token order by name, made"
    )
    return [dict(zip(("id", "name", "made"), row, strict=True)) for row in database.execute(asked)]


def hashed(token: str) -> bytes:
    """What is kept of a token: it is random, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def principal(database: Any, token: str) -> str:
    """Whose token this is; "" for nobody's."""
    (name,) = database.execute("select whose(%s)", (hashed(token),)).fetchone()
    return str(name or "")


def read(path: Path) -> dict[str, list[str]]:
    """Read who may see which repositories: TOML, or JSON if the name ends in .json. Raises BadInput."""
    hint = 'a line for each principal: `ada = ["host/team/api", "host/team/web"]`'
    try:
        text = path.read_text("utf-8-sig")
        value = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read: {error}", hint, field="file") from None
    if complaints := schema.errors(_SHAPE, value):
        raise BadInput(f"{path}: {complaints[0][1]}", hint, field="file")
    return dict(value)


def give(database: Any, access: Mapping[str, Iterable[str]]) -> tuple[int, list[str]]:
    """Let this be all that anybody may see; return how many rights that are, and the repositories that are not there.

    Repositories go by the names that `filemem org status` shows. What is not there gives nobody anything.
    """
    wanted = {(name, one) for name, names in access.items() for one in names}
    known = dict(database.execute("select name, id from repo").fetchall())
    rows = [(name, known[one]) for name, one in wanted if one in known]
    database.execute("delete from access")
    with database.cursor() as cursor:
        cursor.executemany("insert into access(principal, repo) values (%s, %s)", rows)
    return len(rows), sorted({one for _, one in wanted} - known.keys())
