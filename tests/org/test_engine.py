"""Promise: every engine keeps, nominates and shows the same; PostgreSQL shows nobody what they may not see."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from filemem.index import Doc
from filemem.memory.search import search
from filemem.org.engine import EVERYBODY
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.query import Filter, Provenance
from tests.index.samples import START, doc
from tests.org.conftest import MODEL
from tests.org.reference import Reference

Any = Postgres | Reference
WHO = Provenance(author="Ada", commit="c" * 40, date=START)
ALL = Filter()


@pytest.fixture(params=["postgres", "in memory"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        Reference(tmp_path) if request.param == "in memory" else request.getfixturevalue("engine")
    )


def allow(engine: Any, principal: str, *names: str) -> None:
    if isinstance(engine, Reference):
        engine.access.setdefault(principal, set()).update(names)
        return
    with engine.transaction() as con:
        con.execute(
            "insert into access select %s, id from repo where name = any(%s)",
            (principal, list(names)),
        )


def fill(engine: Any, name: str, *docs: Doc, gone: tuple[str, ...] = ()) -> int:
    engine.add_repositories({name: f"/srv/{name}"})
    number = next(one.number for one in engine.list_repositories() if one.name == name)
    with engine.lock_shelf(number) as shelf:
        assert shelf is not None
        shelf.put(
            {one.path: one for one in docs} | dict.fromkeys(gone), {one.path: WHO for one in docs}
        )
        shelf.note_state("f" * 40, "memory")
    return number


def cached(at: str, decision: str, n: int = 0, **fields: object) -> Doc:
    return doc(f"{at}.md", decision, topic="cache", created=START + n, **fields)  # type: ignore[arg-type]


def test_what_is_put_is_known_by_every_field_and_in_its_own_repository(kind: Any) -> None:
    one = fill(
        kind,
        "one",
        cached("a", "Use Redis"),
        cached("b", "Use a map", 1, supersedes=["decision_a"]),
    )
    two = fill(kind, "two", cached("a", "Use Redis too"))
    allow(kind, "ada", "one", "two")
    with kind.open_reader("ada") as reader:
        rows = {
            row.raw_node.id: row
            for row in reader.read_rows("key", [f"{one} cache", f"{two} cache"])
        }
        assert {name: row.is_live for name, row in rows.items()} == {
            f"{one} decision_a": False,
            f"{one} decision_b": True,
            f"{two} decision_a": True,
        }
        assert [row.raw_node.path for row in reader.read_rows("target", [f"{one} decision_a"])] == [
            f"{one} b.md"
        ]
        assert [row.raw_node.key for row in reader.read_rows("path", [f"{two} a.md"])] == ["cache"]
        assert reader.read_rows("id", [f"{two} decision_b"]) == []
        assert {row.raw_node.id for row in reader.read_rows_by_name(["decision_a"])} == {
            f"{one} decision_a",
            f"{two} decision_a",
        }


def test_nomination_keeps_to_a_filter_and_shows_the_same_bytes_once(kind: Any) -> None:
    same = cached("a", "Use Redis for sessions")
    one = fill(kind, "one", same, cached("b", "Use Redis for locks", 5, tags=("ops",)))
    fill(kind, "two", same)
    allow(kind, "ada", "one", "two")
    asked = {"redi": 1.0}, MODEL.encode(["redis"])[0].tolist()
    with kind.open_reader("ada") as reader:
        found = reader.nominate(*asked, ALL, 10)
        assert sorted(each.row.raw_node.id for each in found) == [
            f"{one} decision_a",
            f"{one} decision_b",
        ]
        assert all(each.tokens["title_stem"] and len(each.vectors.keys) == 1 for each in found)
        for wanted in (
            Filter(tags=("ops",)),
            Filter(since=START + 1),
            Filter(live=True, topics=("cache",)),
        ):
            last = reader.nominate(*asked, wanted, 10)
            assert f"{one} decision_b" in [each.row.raw_node.id for each in last]
            assert len(last) == 1 or wanted.live
        shown = reader.read_details([f"{one} a.md"])[f"{one} a.md"]
        assert (shown.provenance, shown.also_in, shown.repository.name) == (WHO, ("two",), "one")


def test_a_record_keeps_who_wrote_it_first_under_another_path(kind: Any) -> None:
    number = fill(kind, "one", cached("a", "Use Redis"))
    moved = cached("a", "Use Redis")._replace(path="z.md")
    moved = moved._replace(node=moved.node._replace(path="z.md"))
    with kind.lock_shelf(number) as shelf:
        assert shelf is not None
        shelf.put({"a.md": None, "z.md": moved}, {"z.md": WHO._replace(author="Bob")})
        assert shelf.read_manifest() == {"z.md": (moved.blob, "decision_a")}
        shelf.note_state("e" * 40, "memory")
    allow(kind, EVERYBODY, "one")
    with kind.open_reader("anybody") as reader:
        assert reader.read_details([f"{number} z.md"])[f"{number} z.md"].provenance.author == "Ada"


def test_what_is_dropped_or_purged_is_gone(kind: Any) -> None:
    fill(kind, "one", cached("a", "Use Redis"), cached("b", "Use a map", 1))
    number = fill(kind, "two", cached("a", "Use Redis"))
    allow(kind, "ada", "one", "two")
    assert kind.purge_record("decision_a") == 2
    kind.drop_repository("one")
    with kind.open_reader("ada") as reader:
        assert [one.number for one in reader.list_repositories()] == [number]
        assert reader.read_rows_by_name(["decision_a", "decision_b"]) == []


def test_a_hit_has_its_own_ids_and_says_where_it_is_from(engine: Postgres) -> None:
    fill(
        engine,
        "one",
        cached("a", "Use Redis"),
        cached("b", "Use a map", 1, supersedes=["decision_a"]),
    )
    with engine.transaction() as con:
        con.execute("update repo set source = 'https://git.example.org/team/one.git'")
    allow(engine, "ada", "one")
    with engine.open_reader("ada") as reader:
        hits = search(Organisation(reader, MODEL), "redis", ALL, limit=10).hits
    assert [hit.id for hit in hits] == ["decision_b", "decision_a"]
    assert hits[1].superseded_by == hits[1].heads == ("decision_b",)
    assert all(
        hit.quoted and hit.repository == "one" and hit.provenance.author == "Ada" for hit in hits
    )
    assert hits[0].path == "memory/b.md"
    assert hits[0].link == f"https://git.example.org/team/one/blob/{'f' * 40}/memory/b.md"


def test_a_stranger_sees_no_row_of_any_table(engine: Postgres) -> None:
    fill(engine, "one", cached("a", "Use Redis"))
    fill(engine, "two", cached("b", "Use Kafka"))
    allow(engine, "ada", "one")
    tables = "select (select count(*) from repo), (select count(*) from doc), (select count(*) from body)"
    tables += ", (select count(*) from link) > 0, (select count(*) from passage) > 0, (select count(*) from holding("
    tables += "array['redi', 'kafka'], array[1, 1]::real[], 9))"
    for principal, seen in {
        "ada": (1, 1, 1, True, True, 1),
        "bob": (0, 0, 0, False, False, 0),
        "": (0,) * 6,
    }.items():
        with engine.open_reader(principal) as reader:
            assert reader.con.execute(tables).fetchone() == seen
            with pytest.raises(psycopg.errors.InsufficientPrivilege), reader.con.transaction():
                reader.con.execute("select * from access")
    with engine.open_reader(
        "ada"
    ) as reader:  # a connection that ada had before says nothing of her
        reader.con.execute("reset role")
    with engine.open_reader("bob") as reader:
        assert reader.con.execute(tables).fetchone() == (0, 0, 0, False, False, 0)


def test_values_that_the_database_has_no_text_for_are_kept(engine: Postgres) -> None:
    odd = cached("a", "Use \udc80 and \0")
    number = fill(engine, "one", odd._replace(node=odd.node._replace(id="x\0\udc80", topic="t\0")))
    allow(engine, "ada", "one")
    with engine.open_reader("ada") as reader:
        assert [row.raw_node.id for row in reader.read_rows("id", [f"{number} x\0\udc80"])] == [
            f"{number} x\0\udc80"
        ]


def test_words_are_ranked_by_bm25_if_the_server_can(engine: Postgres) -> None:
    with engine.transaction() as con:
        if not con.execute(
            "select 1 from pg_available_extensions where name = 'pg_textsearch'"
        ).fetchone():
            pytest.skip(
                "this PostgreSQL has no extension pg_textsearch: FILEMEM_TEST_DSN names one that has it"
            )
    fill(engine, "one", cached("a", "Use Redis"), cached("b", "Use a map", 1))
    allow(engine, "ada", "one")
    with engine.open_reader("ada") as reader:
        assert [one.row.raw_node.topic for one in reader.nominate({"redi": 1.0}, None, ALL, 1)] == [
            "cache"
        ]


def test_the_graph_finds_what_comparing_all_finds(
    engine: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(
        engine,
        "one",
        *(cached(f"r{n}", f"Use the {n}th way of storing sessions", n) for n in range(60)),
    )
    allow(engine, "ada", "one")
    vector = MODEL.encode(["sessions are stored"])[0].tolist()
    found = []
    for below in (50_000, 10):
        monkeypatch.setattr("filemem.org.reader.EXACT_LIMIT", below)
        monkeypatch.setattr("filemem.org.postgres.EXACT_LIMIT", below)
        engine.update_statistics()
        with engine.open_reader("ada") as reader:
            found.append(
                {one.row.number for one in reader.nominate({}, vector, Filter(live=True), 10)}
            )
    assert len(found[0] & found[1]) >= 9
