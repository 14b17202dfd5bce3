"""Promise: a person sees what is given to them, to a group of theirs or to everybody; wrong tokens are limited."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from filemem.errors import BadInput
from filemem.org import access, guard
from filemem.org.access import Rights
from filemem.org.engine import NOBODY, Principal
from filemem.org.postgres import Postgres
from tests.support import write

NAMES = ("team/api", "team/web", "team/handbook")


@pytest.fixture
def filled(engine: Postgres) -> Postgres:
    engine.add_repositories({name: f"/srv/{name}" for name in NAMES})
    return engine


def seen(engine: Postgres, name: str, *groups: str) -> set[str]:
    with engine.open_reader(name, groups) as reader:
        return {repository.name for repository in reader.list_repositories()}


def test_a_group_gives_its_members_what_it_may_see(filled: Postgres, tmp_path: Path) -> None:
    text = """
        "*" = ["team/handbook"]
        ada = ["team/api"]
        "@web" = ["team/web"]
        [groups]
        web = ["ada", "bob"]
    """
    with filled.transaction() as con:
        assert access.replace_rights(
            con, access.read_rights(write(tmp_path / "access.toml", text))
        ) == (3, [])
    assert seen(filled, "ada") == set(NAMES)
    assert seen(filled, "bob") == {"team/web", "team/handbook"}
    assert seen(filled, "eve") == {"team/handbook"}
    assert seen(filled, "eve", "web") == {"team/web", "team/handbook"}, "as a provider says"
    for name in ("", "@web", "*"):
        assert seen(filled, name) == set()
    with filled.transaction() as con:
        access.replace_rights(con, Rights({"@web": ["team/web"]}, {"web": ["bob"]}))
    assert seen(filled, "ada") == set()
    assert seen(filled, "bob") == {"team/web"}


def test_what_stays_the_same_is_not_written_again(filled: Postgres) -> None:
    rights = Rights({f"p{n}": NAMES for n in range(200)}, {"web": [f"p{n}" for n in range(200)]})
    with filled.transaction() as con:
        assert access.replace_rights(con, rights)[0] == 600
        before = con.execute("select ctid::text, principal, repo from access").fetchall()
    with filled.transaction() as con:
        access.replace_rights(con, rights)
        assert con.execute("select ctid::text, principal, repo from access").fetchall() == before


@pytest.mark.parametrize("name", ["*", "@web", "a b", ""])
def test_a_token_is_a_person_s_or_a_program_s(engine: Postgres, name: str) -> None:
    with engine.transaction() as con, pytest.raises(BadInput):
        access.add_token(con, name)


def test_unknown_tokens_are_looked_up_so_often_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    looked = list[str]()
    names = {"right": "ada", "new": "bob"}

    def lookup(token: str) -> Principal:
        looked.append(token)
        return Principal(names.get(token, ""))

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    tokens = guard.TokenLookup(lookup)
    assert tokens("right").name == "ada"
    for n in range(guard.MAX_UNKNOWN):
        assert tokens(f"wrong {n}") == NOBODY
    for token in ("wrong again", "new"):
        with pytest.raises(guard.RateLimitError):
            tokens(token)
    assert len(looked) == guard.MAX_UNKNOWN + 1
    assert tokens("right").name == "ada", "whoever was known goes on asking"
    del names["right"]
    assert tokens("right") == NOBODY, "and is looked up each time"
    with pytest.raises(guard.RateLimitError):
        tokens("right")
    now[0] = 60
    assert tokens("new").name == "bob"
