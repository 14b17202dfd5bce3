"""What goes in is found: by words, meaning, filters, exact terms; and what goes out is not."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from filemem import changes
from filemem.changes import ADDED, MODIFIED, REMOVED, Change, Entry
from filemem.errors import Locked
from filemem.index import Database, Doc, Index, Model
from filemem.index.model import Floats, Integers
from filemem.query import Filter, parse_query
from tests.index.hashing import Hashes, Hashing
from tests.index.samples import DAY, START, Tree, doc, facts, fold, ids, make, serial


def found(index: Index, text: str, wanted: Filter | None = None, **given: object) -> list[str]:
    """Paths by words alone, best first."""
    answer = index.search_candidates(parse_query(text)[0], wanted, mode="keyword", **given)  # type: ignore[arg-type]
    return [one.path for one in sorted(answer.candidates, key=lambda one: -one.keyword)]


def test_everything_applied_is_found(index: Index) -> None:
    tree = Tree(make(number) for number in range(120))
    tree.apply(index, "head1")
    for number in (0, 57, 119):
        assert found(index, serial(number))[0] == make(number).path
    assert index.count_records() == 120
    assert index.notes.head == "head1"
    assert index.read_manifest() == tree.entries()
    assert index.check_database() == []


def test_what_rests_answers_as_before(index: Index) -> None:
    Tree(make(number) for number in range(20)).apply(index, "head1")
    index.add_document(doc("a.md", "Use Redis"))
    asked = parse_query(f"redis {serial(7)}")[0]
    before = index.search_candidates(asked)
    index.release_memory()
    index.release_memory()
    assert index.search_candidates(asked) == before


def test_a_search_asks_the_database_for_what_is_new_alone(
    index: Index, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tree(make(number) for number in range(30)).apply(index)
    terms = parse_query("redis cache")[0]
    expected = index.search_candidates(terms)
    asked = list[str]()
    ask = Database.query

    def counted(self: Database, sql: str, *values: object) -> list[object]:
        asked.append(sql)
        return ask(self, sql, *values)

    monkeypatch.setattr(Database, "query", counted)
    assert index.search_candidates(terms) == expected
    assert asked == []
    other = Index(root, index.model)
    other.add_document(
        doc("new.md", "Use Redis as a cache", supersedes=[expected.candidates[0].id])
    )
    other.close()
    found = {each.id: each for each in index.search_candidates(terms).candidates}
    assert found["decision_new"].facts.heads == ("decision_new",)
    assert found[expected.candidates[0].id].facts.heads == ("decision_new",)


def test_an_empty_folder_says_so_and_finds_what_is_pushed(index: Index) -> None:
    assert not index.is_built
    assert (
        index.search_candidates(parse_query("anything")[0]).degraded
        == "the search index is not built yet"
    )
    assert index.read_newest_nodes() == []
    index.add_document(doc("a.md", "Use Redis"))
    assert found(index, "redis") == ["a.md"]
    assert ids(index.read_newest_nodes()) == ["decision_a"]


def test_a_file_that_changed_since_it_was_listed_is_filed_under_what_was_read(
    words_only: Index,
) -> None:
    one = doc("a.md", "Use Redis")
    words_only.apply_changes([Change(MODIFIED, "a.md", Entry("00" * 20, 5, 6))], lambda path: one)
    assert words_only.read_manifest() == {"a.md": Entry(one.blob)}


def test_a_push_is_found_before_and_after_the_caches_hold_it(index: Index) -> None:
    tree = Tree(make(number) for number in range(20))
    tree.apply(index)
    new = doc("new.md", "A zebra crossing")
    index.add_document(new, Entry(new.blob, 7, 8))
    assert index.uncached_count == 1
    assert found(index, "zebra") == ["new.md"]
    assert index.read_manifest()["new.md"] == Entry(new.blob, 7, 8)
    index.remove_document(make(3).path)
    assert found(index, serial(3)) == []
    fold(index)
    assert index.uncached_count == 0
    assert found(index, "zebra") == ["new.md"]
    assert found(index, serial(3)) == []
    assert index.count_records() == 20


def test_a_look_at_the_store_wins_over_what_was_saved(words_only: Index) -> None:
    words_only.add_document(doc("a.md", "as it was saved"))
    edited = doc("a.md", "as it was edited afterwards")
    words_only.apply_changes([Change(MODIFIED, "a.md", Entry(edited.blob))], lambda path: edited)
    assert found(words_only, "edited") == ["a.md"]
    assert found(words_only, "saved") == []


def test_what_was_saved_since_a_look_began_stays(words_only: Index) -> None:
    old, new = doc("a.md", "as it was"), doc("a.md", "as it was saved meanwhile")
    words_only.add_document(old)
    before = words_only.read_manifest()
    words_only.add_document(new)
    stale = doc("a.md", "as the look saw it")
    change = Change(MODIFIED, "a.md", Entry(stale.blob))
    words_only.apply_changes([change], lambda path: stale, before=before)
    assert found(words_only, "meanwhile") == ["a.md"]
    assert found(words_only, "look") == []


def test_candidates_carry_all_parts_of_a_score(index: Index) -> None:
    Tree(
        [
            doc("a.md", "Use Redis as a cache", "Requests were slow."),
            doc(
                "b.md",
                "Speed up answers",
                "Keep recent results in memory so that nothing is computed twice.",
            ),
            doc("c.md", "Paint the shed", "Green goes well with the trees."),
        ]
    ).apply(index)
    by_path = {
        one.path: one
        for one in index.search_candidates(parse_query("caching for slow responses")[0]).candidates
    }
    assert by_path.keys() == {"a.md", "b.md", "c.md"}
    assert by_path["a.md"].keyword > 0 == by_path["c.md"].keyword
    assert (by_path["a.md"].cosine or 0) > (by_path["c.md"].cosine or 0)
    assert (by_path["b.md"].cosine or 0) > (by_path["c.md"].cosine or 0)
    assert by_path["a.md"].title_cosine is not None
    assert by_path["a.md"].node.path == "a.md"
    assert by_path["a.md"].node.created == START


def test_vector_mode_ranks_by_meaning_and_keeps_keyword_scores(index: Index) -> None:
    tree = Tree(make(number) for number in range(60))
    tree.apply(index)
    terms = parse_query("login password session")[0]
    vectors = index.search_candidates(terms, depth=10, mode="vector").candidates
    every = {one.path: one for one in index.search_candidates(terms, depth=1000).candidates}
    assert len(vectors) == 10
    nearest = sorted(every.values(), key=lambda one: -(one.cosine or 0))[:10]
    assert {one.path for one in vectors} == {one.path for one in nearest}
    assert all(one.keyword == pytest.approx(every[one.path].keyword, rel=1e-4) for one in vectors)


FILTERS = {
    "type": (Filter(types=("observation",)), {"o.md"}),
    "topic": (Filter(topics=("auth_strategy",)), {"a.md", "b.md"}),
    "two topics": (Filter(topics=("auth_strategy", "cache")), {"a.md", "b.md", "c.md"}),
    "tag": (Filter(tags=("fast",)), {"c.md"}),
    "outcome and topic": (Filter(topics=("auth_strategy",), outcomes=("failed",)), {"a.md"}),
    "status": (Filter(statuses=("deprecated",)), {"b.md"}),
    "agent": (Filter(agents=("claude-code",)), {"o.md"}),
    "branch": (Filter(branches=("main",)), {"o.md"}),
    "since": (Filter(since=START + DAY), {"c.md", "o.md"}),
    "until": (Filter(until=START), {"a.md"}),
    "span": (Filter(since=START + 1, until=START + DAY), {"b.md", "c.md"}),
    "live": (Filter(live=True), {"a.md", "c.md", "o.md"}),
    "file": (Filter(path="src/auth/login.py"), {"a.md", "b.md"}),
    "file by glob": (Filter(path="src/cache/deep/lru.py"), {"c.md"}),
    "folder": (Filter(path="src/auth"), {"a.md", "b.md"}),
    "unknown file": (Filter(path="docs/x.md"), set()),
    "nothing": (Filter(topics=("",)), set()),
}


def filtered_docs() -> list[Doc]:
    same = "same words everywhere"
    return [
        doc(
            "a.md",
            "One",
            same,
            topic="auth_strategy",
            outcome="failed",
            affects=("src/auth/login.py",),
        ),
        doc(
            "b.md",
            "Two",
            same,
            topic="auth_strategy",
            created=START + 1,
            status="deprecated",
            affects=("src/auth/", "x"),
        ),
        doc(
            "c.md",
            "Three",
            same,
            topic="cache",
            created=START + DAY,
            tags=("fast",),
            affects=("src/cache/**/*.py",),
        ),
        doc(
            "o.md",
            "Four",
            same,
            kind="observation",
            created=START + 2 * DAY,
            agent="claude-code",
            branch="main",
        ),
    ]


@pytest.mark.parametrize("pending", [False, True], ids=["disk", "pending"])
def test_filters_hold_for_words_meaning_and_listings(index: Index, pending: bool) -> None:
    docs = {each.path: each for each in filtered_docs()}
    if pending:
        for each in docs.values():
            index.add_document(each)
    else:
        Tree(docs.values()).apply(index)
    for name, (wanted, expected) in FILTERS.items():
        for mode in ("keyword", "vector", "hybrid"):
            found = index.search_candidates(
                parse_query("same words")[0], wanted, mode=mode
            ).candidates
            assert {one.path for one in found} == expected, (name, mode)
        assert {node.path for node in index.read_newest_nodes(wanted, 10)} == expected, name
        assert index.count_records(wanted) == len(expected), name


def test_newest_pages_through_disk_and_pending(index: Index) -> None:
    Tree(make(number) for number in range(0, 40, 2)).apply(index)
    for number in range(1, 40, 8):
        index.add_document(make(number))
    numbers = sorted([*range(0, 40, 2), *range(1, 40, 8)], reverse=True)
    expected = [f"decision_{number:06d}" for number in numbers]
    assert ids(index.read_newest_nodes(None, 100)) == expected
    assert ids(index.read_newest_nodes(None, 7, 5)) == expected[5:12]
    assert ids(index.read_nodes()) == expected


def test_a_listing_leaves_out_what_is_excluded(words_only: Index) -> None:
    Tree([doc("a.md", "Use Redis"), doc("b.md", "Use Postgres", "after redis")]).apply(words_only)
    words_only.add_document(doc("c.md", "Cache in Redis"))
    words_only.add_document(doc("d.md", "Cache on disk"))
    for _ in range(2):
        assert ids(words_only.read_newest_nodes(excluding_terms=parse_query("-redis")[0])) == [
            "decision_d"
        ]
        assert sorted(
            ids(words_only.read_newest_nodes(excluding_terms=parse_query('-"use redis"')[0]))
        ) == [
            "decision_b",
            "decision_c",
            "decision_d",
        ]
        fold(words_only)


def test_exact_terms_are_looked_up_whole(index: Index) -> None:
    Tree(
        [
            doc("a.md", "One", topic="cache", builds_on=("decision_x", "b.md")),
            doc("b.md", "Two", topic="cache"),
        ]
    ).apply(index)
    index.add_document(doc("c.md", "Three", topic="cache", builds_on=("decision_b",)))
    assert sorted(ids(index.read_nodes_by_field("topic", ["cache", "other"]))) == [
        "decision_a",
        "decision_b",
        "decision_c",
    ]
    assert sorted(ids(index.read_nodes_by_field("ref", ["decision_b"]))) == [
        "decision_a",
        "decision_c",
    ]
    assert sorted(ids(index.read_nodes_by_field("path", ["b.md", "c.md", "z.md"]))) == [
        "decision_b",
        "decision_c",
    ]
    assert (
        index.read_nodes_by_field("topic", ["cach"]) == index.read_nodes_by_field("topic", []) == []
    )
    assert index.count_terms("topic") == [("cache", 3)]
    assert index.count_terms("topic", "d") == []


def test_size_and_time_are_renewed_without_reading(words_only: Index) -> None:
    tree = Tree([doc("a.md", "One"), doc("b.md", "Two")])
    tree.apply(words_only, "h")
    touched = {path: Entry(entry.blob, 9, 99) for path, entry in tree.entries().items()}
    words_only.apply_changes([], tree.load, scan_manifest=touched)
    words_only.write_notes(head="h2", folder_times={"": 5})
    assert words_only.read_manifest() == touched
    assert (words_only.notes.head, words_only.folder_times) == ("h2", {"": 5})
    assert words_only.count_records() == 2


def test_known_content_is_not_embedded_again(root: Path) -> None:
    counting, texts = Hashing(), CountingHashes()
    counting.table = texts
    index = Index(root, counting)
    tree = Tree(make(number) for number in range(10))
    tree.apply(index)
    before = dict(tree.docs)
    tree.docs = {path: make(number, seed=1) for number, path in enumerate(before)}
    tree.apply(index)
    spent = texts.count
    tree.docs = before
    tree.apply(index)
    assert texts.count == spent
    assert (index.search_candidates(parse_query("cache")[0]).candidates[0].cosine or 0) != 0


class CountingHashes(Hashes):
    """Counts what it is given."""

    count = 0

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Integers, Integers]:
        self.count += len(texts)
        return super().encode(texts)


def test_rebuild_keeps_answering_and_then_switches(index: Index) -> None:
    tree = Tree(make(number) for number in range(5))
    tree.apply(index)
    index.add_document(doc("gone.md", "A zebra"))
    during = []

    def load(path: str):  # type: ignore[no-untyped-def]
        during.append(index.count_records())
        return tree.load(path)

    index.apply_changes(changes.iter_changes({}, tree.entries()), load, rebuild=True)
    assert set(during) == {6}
    assert index.count_records() == 5


def test_a_rebuild_lets_saves_through_and_no_second_one(root: Path) -> None:
    index, other = Index(root), Index(root)
    tree = Tree(make(number) for number in range(3))
    tree.apply(index)

    def load(path: str) -> Doc | None:
        with ThreadPoolExecutor() as pool:
            pool.submit(index.add_document, doc("saved.md", "A zebra")).result(timeout=10)
        with pytest.raises(Locked, match="rebuilding"):
            other.apply_changes([], lambda path: None, rebuild=True)
        return tree.load(path)

    index.apply_changes(changes.iter_changes({}, tree.entries()), load, rebuild=True)
    assert index.count_records() == 3
    index.close()
    other.close()


def test_what_was_read_before_a_rebuild_is_read_anew_after_it(words_only: Index) -> None:
    Tree([doc("a.md", "Use Redis"), doc("b.md", "Use Postgres")]).apply(words_only)
    assert words_only.read_records(["a.md"])["a.md"][1].title == "Use Redis"
    assert len(words_only.read_nodes()) == 2
    Tree([doc("moved.md", "Use disks")]).apply(words_only, anew=True)
    assert [node.path for node in words_only.read_nodes()] == ["moved.md"]
    assert words_only.read_records(["moved.md"])["moved.md"][1].title == "Use disks"
    assert found(words_only, "disks") == ["moved.md"]


def test_a_first_build_removes_what_an_earlier_version_made(words_only: Index) -> None:
    older = words_only.root.parent / "18.0123abcd"
    other = words_only.root.parent / "notes"
    for folder in (older, other):
        folder.mkdir(parents=True)
    Tree([make(1)]).apply(words_only)
    assert not older.exists()
    assert other.exists()


def test_what_is_known_is_not_read_again(words_only: Index) -> None:
    """A checkout of a known state and back writes what stands, not documents."""
    here = Tree(make(number) for number in range(10))
    there = Tree(make(number, seed=1) for number in range(10))
    here.apply(words_only)
    there.apply(words_only)
    here.load = lambda path: pytest.fail(f"{path} is read again")  # type: ignore[method-assign]
    here.apply(words_only)
    assert words_only.read_manifest() == here.entries()
    assert found(words_only, serial(3))[0] == make(3).path


def test_a_past_changes_nothing_of_the_present(index: Index) -> None:
    tree = Tree(make(number) for number in range(10))
    tree.apply(index)
    present = facts(index)
    past = index.open_past(lambda _: {})
    changes_ = [Change(REMOVED, make(3).path, None), Change(ADDED, "old.md", Entry("0" * 40))]
    old = doc("old.md", "A zebra crossing")
    past.apply_changes(changes_, lambda path: old)
    assert found(past, "zebra") == ["old.md"]
    assert found(past, serial(3)) == []
    assert found(past, serial(4))[0] == make(4).path
    assert found(index, "zebra") == []
    tree.docs["new.md"] = doc("new.md", "A new zebra")
    tree.apply(index)
    assert found(past, "zebra") == ["old.md"]
    past.close()
    del tree.docs["new.md"]
    tree.apply(index)
    assert facts(index) == present


def test_a_deleted_folder_that_another_process_built_again_is_read_anew(
    root: Path, model: Model
) -> None:
    one, two = Index(root, model), Index(root, model)
    Tree([doc("a.md", "Use Redis"), doc("b.md", "Use Postgres")]).apply(one)
    assert one.read_manifest().keys() == {"a.md", "b.md"}
    shutil.rmtree(root)
    Tree([doc("a.md", "Use Redis")]).apply(two)
    assert one.read_manifest().keys() == {"a.md"}
    Tree([doc("a.md", "Use Redis"), doc("b.md", "Use Postgres")]).apply(one)
    assert found(two, "postgres") == ["b.md"]
    one.close()
    two.close()
