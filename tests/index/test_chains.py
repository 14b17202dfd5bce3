"""Promise: which record is meant, which decision holds, which of two with one id is shown, what waits included."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from filemem.index import Doc, Index
from filemem.query import Filter, parse_query
from tests.index.samples import DAY, START, Tree, doc, facts, fold, ids

LIVE = Filter(live=True)


def live(index: Index) -> list[str]:
    """Who holds: the same by listing, by words and by counting."""
    listed = sorted(ids(index.read_newest_nodes(LIVE, 100)))
    found = index.search_candidates(parse_query("choice")[0], LIVE, mode="keyword").candidates
    assert sorted(one.id for one in found) == listed
    assert index.count_records(LIVE) == len(listed)
    return listed


def choice(path: str, topic: str = "cache", **fields: object) -> Doc:
    return doc(path, f"Choice {path}", topic=topic, **fields)  # type: ignore[arg-type]


@pytest.fixture
def index(words_only: Index) -> Index:
    return words_only


def test_a_successor_demotes_at_once_and_after_folding(index: Index) -> None:
    Tree([choice("a.md"), choice("other.md", "queue")]).apply(index)
    index.add_document(choice("b.md", created=START + 1, supersedes=["decision_a"]))
    for _ in range(2):
        assert live(index) == ["decision_b", "decision_other"]
        around = index.read_chains(index.read_nodes_by_name("a.md"))
        assert around.graph.list_successors("decision_a") == ("decision_b",)
        assert around.nodes.keys() == {"decision_a", "decision_b"}
        fold(index)
    index.remove_document("b.md")
    for _ in range(2):
        assert live(index) == ["decision_a", "decision_other"]
        fold(index)


def test_without_the_key_the_one_before_on_its_topic_is_replaced(index: Index) -> None:
    Tree(
        [choice("a.md", supersedes=None), choice("c.md", supersedes=None, created=START + 2)]
    ).apply(index)
    assert live(index) == ["decision_c"]
    index.add_document(choice("b.md", supersedes=None, created=START + 1))
    for _ in range(2):
        assert live(index) == ["decision_c"]
        assert index.read_chains(index.read_nodes_by_name("b.md")).graph.list_successors(
            "decision_a"
        ) == ("decision_b",)
        fold(index)


REFERENCES = (
    *("decision_cache_1_k3f9w2ma", "k3f9w2ma", "decisions/0007-use-redis.md"),
    *(
        "[ADR 7](../decisions/0007-use-redis.md)",
        "0007-use-redis.md",
        "ADR-7",
        "#7",
        "[[0007-use-redis]]",
    ),
)


@pytest.mark.parametrize("reference", REFERENCES)
def test_references_mean_the_file_that_has_the_name_today(index: Index, reference: str) -> None:
    tree = Tree([choice("late/new.md", "queue", supersedes=[reference])])
    tree.apply(index)
    assert index.read_nodes()[0].supersedes == (reference,)
    tree.docs["decisions/0007-use-redis.md"] = choice(
        "decisions/0007-use-redis.md", id="decision_cache_1_k3f9w2ma"
    )
    index.add_document(tree.docs["decisions/0007-use-redis.md"])
    for _ in range(2):
        assert live(index) == ["decision_new"]
        assert ids(index.read_nodes_by_field("ref", ["decision_cache_1_k3f9w2ma"])) == [
            "decision_new"
        ]
        assert index.read_nodes_by_name("new.md")[0].supersedes == ("decision_cache_1_k3f9w2ma",)
        fold(index)
    index.remove_document("decisions/0007-use-redis.md")
    for _ in range(2):
        assert index.read_nodes_by_name("new.md")[0].supersedes == (reference,)
        fold(index)


def test_a_name_of_two_records_means_neither(index: Index) -> None:
    Tree(
        [choice("0007-a.md", id="decision_x1"), choice("new.md", "queue", supersedes=["ADR-7"])]
    ).apply(index)
    assert live(index) == ["decision_new"]
    index.add_document(choice("0007-b.md", "third", id="decision_x2"))
    for _ in range(2):
        assert live(index) == ["decision_new", "decision_x1", "decision_x2"]
        assert sorted(ids(index.read_nodes_by_name("ADR-7"))) == ["decision_x1", "decision_x2"]
        fold(index)


def test_chains_join_across_topics_and_name_what_points_to_them(index: Index) -> None:
    Tree(
        [
            choice("a.md"),
            choice("b.md", "queue", supersedes=["decision_a"], created=START + 1),
            choice("c.md", "queue", supersedes=["decision_b"], created=START + 2),
            choice("far.md", "shed", builds_on=("decision_c",)),
            doc("o.md", "Seen", kind="observation", builds_on=("decision_a",)),
        ]
    ).apply(index)
    around = index.read_chains(index.read_nodes_by_name("a.md"))
    assert around.nodes.keys() == {"decision_a", "decision_b", "decision_c"}
    assert sorted(ids(around.referring_nodes)) == [
        "decision_b",
        "decision_c",
        "decision_far",
        "observation_o",
    ]
    assert around.graph.list_heads("decision_a") == ("decision_c",)


def test_of_two_files_with_one_id_the_older_is_shown(index: Index) -> None:
    Tree(
        [choice("b.md", id="decision_x"), choice("c.md", id="decision_x", created=START + 1)]
    ).apply(index)

    def shown() -> list[str]:
        assert index.count_records() == len(index.read_nodes()) == 1
        assert [
            one.path for one in index.search_candidates(parse_query("choice")[0]).candidates
        ] == [index.read_nodes()[0].path]
        assert index.count_terms("topic") == [("cache", 1)]
        assert [node.path for node in index.read_nodes_by_field("topic", ["cache"])] == [
            index.read_nodes()[0].path
        ]
        return [node.path for node in index.read_newest_nodes()]

    assert shown() == ["b.md"]
    index.add_document(choice("a.md", id="decision_x"))
    for _ in range(2):
        assert shown() == ["a.md"]
        fold(index)
    index.remove_document("a.md")
    index.remove_document("b.md")
    for _ in range(2):
        assert shown() == ["c.md"]
        fold(index)


def test_names_answer_exactly_first(index: Index) -> None:
    Tree(
        [
            choice("decisions/0012-cache.md", id="decision_cache_1_k3f9w2ma"),
            choice("x.md", "0012 Cache", id="decision_x_1_zzzzzzzz"),
            doc("loose.md", "Paint it", id="file_0000000000000000"),
        ]
    ).apply(index)
    for name in (
        "decision_cache_1_k3f9w2ma",
        "k3f9w2ma",
        "decisions/0012-cache.md",
        "0012-cache.md",
        "12",
        "ADR 12",
    ):
        assert ids(index.read_nodes_by_name(name)) == ["decision_cache_1_k3f9w2ma"], name
    assert ids(index.read_nodes_by_name("paint it")) == ["file_0000000000000000"]
    assert index.read_nodes_by_name("nothing of the kind") == []


def test_what_states_no_date_is_ordered_by_its_first_commit_else_last(root: Path) -> None:
    known: dict[str, int] = {}

    def dates(paths: Collection[str]) -> Mapping[str, int]:
        assert "dated.md" not in paths
        return {path: known[path] for path in paths if path in known}

    index = Index(root, None, dates)
    docs = [
        choice("dated.md", created=START, supersedes=None),
        choice("bare.md", created=None, supersedes=None),
    ]
    tree = Tree(docs)
    tree.apply(index)
    assert ids(index.read_newest_nodes()) == ["decision_dated", "decision_bare"]
    assert live(index) == ["decision_bare"]  # in a chain what has no date is only just written
    known["bare.md"] = START - DAY
    tree.apply(index)
    assert ids(index.read_newest_nodes()) == ["decision_dated", "decision_bare"]
    assert live(index) == ["decision_dated"]
    assert ids(index.read_newest_nodes(Filter(until=START - 1))) == ["decision_bare"]
    assert index.read_nodes_by_name("bare.md")[0].created == START - DAY
    index.add_document(choice("late.md", "shed", created=None))
    known["late.md"] = START + DAY
    for _ in range(2):
        assert ids(index.read_newest_nodes(Filter(since=START + 1)))[:1] in (["decision_late"], [])
        tree.docs["late.md"] = choice("late.md", "shed", created=None)
        tree.apply(index)
    assert ids(index.read_newest_nodes())[0] == "decision_late"
    index.close()


def test_an_index_in_memory_answers_the_same(index: Index) -> None:
    docs = [
        choice("a.md"),
        choice("b.md", created=START + 1, supersedes=["a.md"]),
        choice("c.md", "queue", id="decision_a2"),
        choice("d.md", "queue", id="decision_a2"),
        doc("o.md", "A choice seen", kind="observation", created=None),
    ]
    Tree(docs).apply(index)
    there = Index(None)
    Tree(docs).apply(there)
    assert live(there) == live(index)
    ours, theirs = dict(facts(index)), dict(facts(there))
    for every in (ours, theirs):
        every.pop("manifest")
        every.pop("records")  # with them come size and time of the files, which only a scan knows
    assert ours == theirs


def test_what_a_hit_shows_comes_without_its_file(index: Index) -> None:
    one = choice(
        "a.md",
        rejected=("Keep it",),
        metadata={"n": 3, "deep": {"x": [1, None, True]}},
        confidence=0.5,
    )
    Tree([one]).apply(index)
    two = choice("b.md", text="Because \ud800 of ünïcode")
    index.add_document(two)
    for _ in range(2):
        found = index.read_records(["a.md", "b.md", "gone.md"])
        assert found.keys() == {"a.md", "b.md"}
        assert found["a.md"][1].rejected == ("Keep it",)
        assert found["a.md"][1].metadata == {"n": 3, "deep": {"x": [1, None, True]}}
        assert found["b.md"][1].text == "Because \ud800 of ünïcode"
        fold(index)
