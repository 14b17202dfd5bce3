"""Promise: what a question reads follows from what the asker may see, not from how large the organisation is."""

from __future__ import annotations

import numpy as np
import pytest

from filemem.memory.search import search
from filemem.org import reader
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.query import Filter, Results
from tests.org.conftest import MODEL
from tests.org.test_engine import allow, cached, fill

TABLES = ("doc", "body", "passage", "link", "df")
COPIES = 300  # of one repository
_COPY = """
insert into repo(name, source) select 'copy ' || n, '/none' from generate_series(1, {copies}) n;
insert into doc(repo, path, rid, key, blob, created, live, shown, meant, facts, node, terms, passages, who)
  select r.id, path, rid, key || r.id, blob || r.id, created, live, shown, meant, facts, node, terms, passages, who
  from doc, repo r where r.name like 'copy %';
insert into body select d.id, d.repo, b.stems, b.texts, b.vectors
  from doc d join doc o on o.path = d.path join repo r on r.id = o.repo and r.name = 'one'
  join body b on b.doc = o.id where d.repo <> o.repo;
insert into passage select d.id, d.repo, p.n, p.vec
  from doc d join doc o on o.path = d.path join repo r on r.id = o.repo and r.name = 'one'
  join passage p on p.doc = o.id where d.repo <> o.repo;
insert into link select d.id, d.repo, d.id from doc d where not exists (select from link where doc = d.id);
insert into df select f.term, r.id, f.n from df f, repo r where r.name like 'copy %';
insert into df select 'word' || n, r.id, '{{0,0,0,0,0,1}}'
  from repo r, generate_series(1, 400) n;
insert into state(repo, head, store, words, records, passages, tokens, left_out)
  select r.id, s.head, s.store, s.words, s.records, s.passages, s.tokens, ''
  from state s, repo r where r.name like 'copy %';
"""


@pytest.fixture
def large(engine: Postgres) -> Postgres:
    """301 repositories of 20 records; ada may see one of them."""
    decisions = [f"Use Redis number {n} for sessions and locks" for n in range(20)]
    fill(engine, "one", *(cached(f"r{n}", text, n) for n, text in enumerate(decisions)))
    with engine.transaction() as con:
        for statement in _COPY.format(copies=COPIES).split(";\n"):
            con.execute(statement)
    engine.update_statistics()
    allow(engine, "ada", "one")
    return engine


def counters(engine: Postgres, query: str) -> dict[str, int]:
    with engine.transaction() as con:
        con.execute("select pg_stat_force_next_flush()")
    with engine.transaction() as con:
        return dict(con.execute(query).fetchall())


def asked(engine: Postgres, text: str, principal: str = "ada") -> Results:
    with engine.open_reader(principal) as reader:
        results = search(Organisation(reader, MODEL), text, Filter(), limit=10)
        reader.read_rows("key", [f"{one.number} cache" for one in reader.list_repositories()])
        reader.con.execute("select pg_stat_force_next_flush()")
    return results


@pytest.mark.parametrize("text", ["redis", "sessions and locks in redis number 7", "nothing else"])
def test_no_statement_of_a_search_reads_a_whole_table(large: Postgres, text: str) -> None:
    query = "select relname::text, seq_scan::int from pg_stat_user_tables"
    before = counters(large, query)
    asked(large, text)
    after = counters(large, query)
    assert {name: after[name] - before[name] for name in TABLES} == dict.fromkeys(TABLES, 0)


def test_a_common_word_is_looked_up_where_the_asker_may_see_it(large: Postgres) -> None:
    query = "select indexrelname::text, idx_tup_read::int from pg_stat_user_indexes"
    before = counters(large, query)
    assert len(asked(large, "redis").hits) == 10
    after = counters(large, query)
    read = {name: after[name] - before[name] for name in ("body_keys", "doc_key")}
    assert read["body_keys"] < 200, "of 6,020 that have it"
    assert read["doc_key"] < 200


@pytest.mark.parametrize(
    "text", ["zanzibarcorp", "redis zanzibarcorp", "sessions zanzibarcorp", "redis"]
)
def test_what_others_wrote_changes_no_answer(engine: Postgres, text: str) -> None:
    fill(engine, "handbook", *(cached(f"r{n}", f"Use Redis {n}", n) for n in range(4)))
    allow(engine, "bob", "handbook")
    alone = asked(engine, text, "bob")
    fill(engine, "api", *(cached(f"s{n}", f"Tell zanzibarcorp {n}", n) for n in range(3)))
    fill(engine, "web", *(cached(f"t{n}", f"Sessions in Redis {n}", n) for n in range(9)))
    assert vars(asked(engine, text, "bob")) == vars(alone)
    assert asked(engine, "qwertzucorp", "bob").note == asked(engine, "zanzibarcorp", "bob").note


def test_words_are_counted_as_they_come_and_go(engine: Postgres) -> None:
    query = "select term, repo, n from df order by 1, 2"
    fill(engine, "one", cached("a", "Use Redis"))
    with engine.transaction() as con:
        first = con.execute(query).fetchall()
        sizes = con.execute("select records, tokens from state").fetchall()
    fill(engine, "one", cached("b", "Use Kafka", 1), cached("a", "Use a map"))
    fill(engine, "one", cached("a", "Use Redis"), gone=("b.md",))
    with engine.transaction() as con:
        assert con.execute(query).fetchall() == first
        assert con.execute("select records, tokens from state").fetchall() == sizes
    assert engine.purge_record("decision_a") == 1
    with engine.transaction() as con:
        assert con.execute(query).fetchall() == []
        assert con.execute("select records, tokens from state").fetchall() == [(0, [0] * 6)]


def test_the_graph_finds_the_nearest_of_what_little_one_may_see(
    engine: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine, "one", cached("a", "Use Redis"))
    rng = np.random.default_rng(3)
    size = MODEL.encode(["a"]).shape[1]
    places = rng.normal(size=(60, size))
    vectors = places[rng.integers(60, size=6_000)] + 0.7 * rng.normal(size=(6_000, size))
    with engine.transaction() as con:
        con.execute("insert into repo(name, source) select n, '/' from generate_series(1, 40) n")
        numbers = con.execute("select id from repo where name <> 'one' order by id").fetchall()
        con.execute(
            """insert into doc(repo, path, rid, key, blob, created, live, shown, meant, facts, node,
            terms, passages, who) select r.id, n, n, '', r.id || ' ' || n, 1, true, true, '', '',
            d.node, '{}', 1, d.who from repo r, generate_series(1, 150) n, doc d
            where r.name <> 'one'"""
        )
        docs = con.execute("select id, repo from doc where path ~ '^[0-9]+$'").fetchall()
        with con.cursor() as cursor, cursor.copy("copy passage from stdin") as into:
            for (doc, repo), vector in zip(docs, vectors.round(3).tolist(), strict=True):
                into.write_row((doc, repo, 0, str(vector)))
        con.execute("call connect_passages()")
        con.execute("call tidy()")
        for name, count in (("few", 1), ("some", 8), ("half", 20), ("all", 40)):
            rights = [(name, number) for (number,) in numbers[:count]]
            with con.cursor() as cursor:
                cursor.executemany("insert into access values (%s, %s)", rights)
    for name in ("few", "some", "half", "all"):
        shares = []
        for vector in vectors[:10].tolist():
            values = {"vector": str(vector), "repos": [number for (number,) in numbers], "most": 50}
            with engine.open_reader(name) as open_reader:
                con = open_reader.con
                exact = con.execute(reader._NEAREST.format(those=""), values).fetchall()
                con.execute("set local enable_sort = off")  # there are few rows: else all are read
                graph = con.execute(reader._BY_GRAPH.format(those=""), values).fetchall()
            shares.append(len({*exact} & {*graph}) / len(exact))
        assert sum(shares) / len(shares) >= 0.95, name
