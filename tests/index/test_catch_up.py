"""Promise: however an index came to be, it answers like one that was built in one go: documents, chains and facts."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem.changes import Entry
from filemem.index import Doc, Index, Row, database
from filemem.query import Filter, parse_query
from tests.index.hashing import Hashing
from tests.index.samples import START, WORDS, Tree, doc, facts, fold, make, serial

QUERIES = ("cache redis", "login password session", serial(3), "payment -refund", "deploy")
STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 12), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.integers(0, 12), st.just(0)),
    st.tuples(st.just("push"), st.integers(0, 12), st.integers(0, 3)),
    st.tuples(st.just("push removed"), st.integers(0, 12), st.just(0)),
    st.tuples(st.sampled_from(["fold", "apply", "rebuild", "reopen"]), st.just(0), st.just(0)),
)


def varied(number: int, seed: int) -> Doc:
    """Records that refer to each other in many ways, share numbers, titles and ids, and may state no date."""
    rng = random.Random(f"{number} {seed}")
    other = rng.randrange(13)
    named = (
        f"decision_{other}",
        f"decisions/{other:04d}-note.md",
        f"ADR-{other}",
        f"[[{other:04d}-note]]",
        "Shared title",
    )
    return doc(
        f"decisions/{number:04d}-note.md",
        title=rng.choice(("Shared title", f"Note {number} of {rng.choice(WORDS)}")),
        text=" ".join(rng.choices(WORDS, k=20)),
        topic=rng.choice(("cache", "queue", "")),
        created=rng.choice((None, START + number, START + 20 - number)),
        kind=rng.choice(("decision", "decision", "decision", "observation")),
        id=f"decision_{rng.choice((number, number, number, number % 3))}",
        supersedes=rng.choice((None, (), (rng.choice(named),))),
        superseded_by=rng.choice(((), (), (rng.choice(named),))),
        status=rng.choice(("accepted", "accepted", "proposed", "deprecated")),
        builds_on=rng.choice(((), (rng.choice(named),))),
        synthesizes=rng.choice(((), (), (rng.choice(named),))),
    )


def answers(index: Index) -> object:
    found = []
    for query in QUERIES:
        for mode in ("keyword", "vector", "hybrid"):
            answer = index.search_candidates(parse_query(query)[0], mode=mode)
            assert answer.degraded is None
            near = {one.path: round(one.cosine or 0, 3) for one in answer.candidates}
            found.append(sorted(near.items()))
    failed = Filter(outcomes=("failed",))
    return (
        found,
        index.read_newest_nodes(failed, 5),
        index.read_newest_nodes(Filter(outcomes=("success",)), 50),
        facts(index),
    )


def run(steps: list[tuple[str, int, int]], root: Path, sample: Callable[[int, int], Doc]) -> None:
    tree, index = Tree(), Index(root / "grown", Hashing())
    for step, number, seed in steps:
        path = sample(number, seed).path
        if step in ("put", "push"):
            tree.docs[path] = sample(number, seed)
        elif step in ("remove", "push removed"):
            tree.docs.pop(path, None)
        if step == "push":
            index.add_document(tree.docs[path])
            assert index.read_manifest()[path] == Entry(tree.docs[path].blob)
        elif step == "push removed":
            index.remove_document(path)
            assert index.read_nodes_by_field("path", [path]) == []
        elif step == "fold":
            before = {**facts(index), "manifest": None}
            fold(index)
            assert {**facts(index), "manifest": None} == before
        elif step == "apply":
            tree.apply(index)
        elif step == "rebuild":
            tree.apply(index, anew=True)
        elif step == "reopen":
            index.close()
            index = Index(root / "grown", Hashing())
    tree.apply(index)
    fresh = Index(root / "fresh", Hashing())
    tree.apply(fresh, anew=True)
    assert answers(index) == answers(fresh)
    assert index.check_database() == []
    index.close()
    fresh.close()


@settings(deadline=None, derandomize=True, max_examples=6, database=None)
@given(st.lists(STEPS, max_size=14))
@pytest.mark.parametrize("sample", [make, varied])
def test_any_history_ends_like_a_rebuild(
    sample: Callable[[int, int], Doc], steps: list[tuple[str, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(steps, Path(folder), sample)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(deadline=None, max_examples=400, derandomize=True, database=None)
@given(st.lists(STEPS, max_size=40))
@pytest.mark.parametrize("sample", [make, varied])
def test_many_histories_end_like_a_rebuild(
    sample: Callable[[int, int], Doc], steps: list[tuple[str, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(steps, Path(folder), sample)


def test_many_folds_stay_small_and_right(root: Path) -> None:
    index, tree = Index(root, Hashing()), Tree()
    for number in range(32):
        one = make(number % 25, seed=number // 25, words=10)
        tree.docs[one.path] = one
        index.add_document(one)
        fold(index)
    assert {node.path for node in index.read_nodes()} == tree.docs.keys()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) < 250
    assert sum(path.name.endswith(".rows") for path in files) < 14
    index.close()


def test_a_checkout_of_all_records_reads_few_rows_and_ends_like_a_rebuild(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = [Tree(varied(number, seed) for number in range(40)) for seed in (0, 1)]
    index, fresh = Index(root / "grown", Hashing()), Index(root / "fresh", Hashing())
    for tree in trees:
        tree.apply(index)
    read = list[object]()

    def counted(columns: tuple[Any, ...]) -> Row:
        read.append(columns)
        return make_row(columns)

    make_row = database._parse_row
    with monkeypatch.context() as patch:
        patch.setattr(database, "_parse_row", counted)
        trees[0].apply(index)
    assert len(read) < 2 * len(trees[0].docs)
    trees[0].apply(fresh, anew=True)
    assert answers(index) == answers(fresh)
    index.close()
    fresh.close()
