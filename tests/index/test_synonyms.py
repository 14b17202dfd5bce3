"""What may be said instead of a word: it finds, at less weight; the best counts; what waits is scored alike."""

from __future__ import annotations

import pytest

from filemem.index import Index, find_synonyms, match_synonyms
from filemem.query import parse_query
from filemem.query.terms import parse_groups
from tests.index.samples import Tree, doc

OWN = "database > postgres, mysql, relational store\nwalrus | seal"
TEXTS = {
    "word.md": "We chose a database for orders",
    "kind.md": "We chose Postgres for orders",
    "kinds.md": "We chose Postgres, MySQL and a relational store for orders",
    "apart.md": "The store for orders is relational now",
    "none.md": "The shed was painted green for orders",
}


def scores(
    index: Index, text: str, own: str | None = OWN, mode: str = "keyword"
) -> dict[str, float]:
    terms = parse_query(text)[0]
    said = () if own is None else find_synonyms(terms.words, own)
    found = index.search_candidates(terms._replace(alternatives=said), mode=mode).candidates
    return {one.path: one.keyword for one in found}


def test_the_list_that_ships_is_well_formed_and_knows_what_developers_say() -> None:
    from filemem.index.words import _read_synonyms

    found, wrong = parse_groups(_read_synonyms())
    assert wrong == []
    assert len(found) > 300
    said = {
        word: dict(each.substitutes)
        for query in ("how do we sign in", "k8s", "which cache")
        for each in find_synonyms(query.split())
        for word in [" ".join(each.words)]
    }
    assert said["sign in"]["authentication"] == 1.0
    assert said["k8s"]["kubernetes"] == 1.0
    assert said["cache"]["redis"] == 0.5


def test_a_word_counts_most_and_of_what_is_said_instead_the_best(words_only: Index) -> None:
    Tree(
        [doc(path, text) for path, text in TEXTS.items()]
        + [doc(f"{n}.md", f"Other {n}") for n in range(9)]
    ).apply(words_only)
    found = scores(words_only, "database")
    assert found == {"word.md": found["word.md"]}  # one word that few hold is meant as it is
    found = scores(words_only, "database orders")
    plain = scores(words_only, "database orders", None)
    assert found["word.md"] == pytest.approx(plain["word.md"])
    assert found["word.md"] > found["kind.md"] > found["none.md"]
    assert found["kinds.md"] - plain["kinds.md"] < 1.5 * (
        found["kind.md"] - plain["kind.md"]
    )  # not their sum
    assert found["apart.md"] > plain["apart.md"]  # all words of a phrase, wherever they stand
    assert scores(words_only, "database orders -postgres").keys() == {
        "word.md",
        "apart.md",
        "none.md",
    }
    assert scores(words_only, '"database" orders').keys() == {"word.md"}


def test_only_short_queries_are_widened(words_only: Index) -> None:
    long = "where should each database of our orders live when customers leave without paying invoices today"
    assert find_synonyms(tuple(long.split()), OWN) == ()
    assert find_synonyms(("which", "database", "is", "it"), OWN)
    Tree([doc("a.md", "Seal the box"), doc("b.md", "Nothing")]).apply(words_only)
    assert scores(words_only, "walrus").keys() == {"a.md"}
    assert scores(words_only, "walrus", "").keys() == set()


def test_a_meant_word_is_met_by_another(index: Index) -> None:
    Tree([doc("a.md", "Use mongodb for orders"), doc("b.md", "Use a hammer for orders")]).apply(
        index
    )
    terms = parse_query("datastore orders")[0]
    plain = {one.path: one for one in index.search_candidates(terms).candidates}
    wide = {
        one.path: one
        for one in index.search_candidates(
            terms._replace(alternatives=find_synonyms(terms.words))
        ).candidates
    }
    assert (wide["a.md"].wording or 0) > (plain["a.md"].wording or 0)
    assert (wide["a.md"].cosine or 0) > (plain["a.md"].cosine or 0)
    assert match_synonyms("Use MongoDB", find_synonyms(("datastore",))) == {
        "datastore": ("mongodb",)
    }
    assert match_synonyms("A datastore, MongoDB", find_synonyms(("datastore",))) == {}
