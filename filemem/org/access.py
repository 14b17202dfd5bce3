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

_MOST = 16 * 1024 * 1024  # bytes of a file of access
_NAME = 200  # characters


def name_of(text: object, field: str = "name") -> str:
    """Check the name of a principal: raises BadInput unless it is one word."""
    if isinstance(text, str) and text and len(text) <= _NAME and text.isprintable() and " " not in text:
        return text
    raise BadInput(f"not the name of a principal: {str(text)[:80]!r}", "one word, for example ada or team-web", field)


def add_token(database: Any, name: str) -> str:
    """Make a token for a principal; it may have several. Raises BadInput."""
    if name_of(name) == EVERYBODY:
        raise BadInput(f"{EVERYBODY} is everybody who has a token", "name a person or a program", "name")
    token = secrets.token_urlsafe(32)
    database.execute("insert into token(hash, name) values (%s, %s)", (hashed(token), name))
    return token


def revoke(database: Any, name: str) -> int:
    """Delete the tokens of a principal; from then on none of them is taken. Raises NotFound: there is none."""
    gone: int = database.execute("delete from token where name = %s", (name,)).rowcount
    if not gone:
        raise NotFound(f"{name!r} has no token", "filemem org token list shows who has one")
    return gone


def tokens(database: Any) -> list[tuple[str, str]]:
    """The principals that have tokens, and the day on which each token was made."""
    rows = database.execute("select name, made::date::text from token order by name, made")
    return [(name, day) for name, day in rows]


def hashed(token: str) -> bytes:
    """What is kept of a token: it is random, so a plain hash tells nothing of it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def principal(database: Any, token: str) -> str:
    """Whose token this is; "" for nobody's."""
    found = database.execute("select name from token where hash = %s", (hashed(token),)).fetchone()
    return str(found[0]) if found else ""


def read(path: Path) -> dict[str, tuple[str, ...]]:
    """Read a file of access: principals, and the repositories that each may see. Raises BadInput.

    It is TOML, or JSON if its name ends in .json; `*` is everybody who has a token.
    """
    try:
        if path.stat().st_size > _MOST:
            raise BadInput(f"{path} is larger than {_MOST:,} bytes", field="file")
        data = path.read_text("utf-8-sig")
        value = json.loads(data) if path.suffix == ".json" else tomllib.loads(data)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "name a file of access: docs/organisation.md", "file") from None
    except (ValueError, RecursionError) as error:
        told = f"{path} is neither TOML nor, by its name, JSON: {error}"
        raise BadInput(told, 'a line of it is `ada = ["team/api", "team/web"]`', "file") from None
    hint = 'write each principal with a list of repositories: `ada = ["team/api", "team/web"]`'
    if not isinstance(value, dict):
        raise BadInput(f"{path} is not a table", hint, "file")
    for name, names in value.items():
        if not (isinstance(names, list) and all(isinstance(one, str) for one in names)):
            raise BadInput(f"{path}: {name_of(name, 'file')}: not a list of repositories", hint, "file")
    return {name_of(name, "file"): tuple(dict.fromkeys(names)) for name, names in value.items()}


def give(database: Any, access: Mapping[str, Iterable[str]]) -> tuple[int, list[str]]:
    """Let this be all that anybody may see; return how many rights that are, and the repositories that are not there.

    Repositories go by the name that `filemem org status` shows. What is not there gives nobody anything.
    """
    wanted = [(name, one) for name, names in access.items() for one in names]
    known = dict(database.execute("select name, id from repo").fetchall())
    rows = [(name, known[one]) for name, one in wanted if one in known]
    database.execute("delete from access")
    with database.cursor() as cursor:
        cursor.executemany("insert into access(principal, repo) values (%s, %s)", rows)
    return len(rows), sorted({one for _, one in wanted if one not in known})
