"""Promise: it is noted who was shown what if the service is told to, for so many days, and else not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.errors import BadInput, Locked
from filemem.org import access, audit
from filemem.org.engine import Principal
from filemem.org.memory import CURRENT_PRINCIPAL, OrgMemory
from filemem.org.postgres import Postgres
from tests.org.test_engine import allow, cached, fill
from tests.system.tools import cli


@pytest.fixture(autouse=True)
def ada(engine: Postgres) -> Iterator[None]:
    fill(engine, "one", cached("a", "Use Redis"))
    allow(engine, "ada", "one")
    before = CURRENT_PRINCIPAL.set(Principal("ada"))
    yield
    CURRENT_PRINCIPAL.reset(before)


def lines(engine: Postgres, name: str = "") -> list[dict[str, str | list[str]]]:
    with engine.transaction() as con:
        return audit.list_questions(con, name)


def test_what_was_shown_is_noted_for_so_many_days(
    engine: Postgres, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    OrgMemory(engine).search("redis")
    assert lines(engine) == [], "off, unless the service is told to"
    memory = OrgMemory(engine, audit_days=30)
    memory.search("redis")
    memory.get("decision_a")
    get, search = lines(engine, "ada")
    assert (search["name"], search["verb"], search["query"]) == ("ada", "search", "redis")
    assert search["shown"] == get["shown"] == ["one decision_a"]
    monkeypatch.setenv("FILEMEM_ORG_DSN", dsn)
    assert "ada  get  decision_a  1 shown" in cli(tmp_path, "org", "audit", "ada").out
    assert lines(engine, "bob") == []
    with engine.transaction() as con:
        con.execute("update audit set at = now() - interval '31 days' where verb = 'search'")
    memory.search("nothing like it")
    assert [line["verb"] for line in lines(engine)] == ["search", "get"]


def test_what_cannot_be_noted_is_not_shown(engine: Postgres) -> None:
    with engine.transaction() as con:
        con.execute("drop table audit")
    with pytest.raises(Locked):
        OrgMemory(engine, audit_days=30).search("redis")


def test_a_token_ends_on_its_day_and_its_siblings_do_not(engine: Postgres) -> None:
    with engine.transaction() as con:
        ending = access.add_token(con, "ada", days=90)
        lasting = access.add_token(con, "ada")
        assert sum(bool(row["ends"]) for row in access.list_tokens(con)) == 1
        assert access.find_principal(con, ending) == access.find_principal(con, lasting) == "ada"
        con.execute("update token set ends = now() - interval '1 second' where ends is not null")
    with engine.transaction() as con:
        assert access.find_principal(con, ending) == ""
        assert access.find_principal(con, lasting) == "ada"
        assert access.revoke_tokens(con, access.hash_token(ending).hex()[:8]) == 1
        with pytest.raises(BadInput):
            access.add_token(con, "@web", days=1)
