"""Vectors: filed by content, merged, dropped when dead and old, found by graph as by comparing all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from filemem.index import Embedder, Index, rows, vector
from filemem.index.keyword import key
from filemem.query import Filter, parse
from tests.index.hashing import Hashing
from tests.index.samples import DAY, START, Tree, make


def segment(keys: range, day: int) -> rows.Rows:
    texts = (rows.Texts(number, f"title {number}", (f"text {number}", "more")) for number in keys)
    return rows.embed(texts, Hashing(), day)


def test_segments_merge_in_a_geometric_row(tmp_path: Path) -> None:
    for start in range(0, 400, 10):
        rows.write(tmp_path, [segment(range(start, start + 10), 1)], None, 1)
    parts = [rows.read(path) for path in sorted(tmp_path.iterdir())]
    assert len(parts) < 6
    assert sorted(number for part in parts for number in part.keys.tolist()) == list(range(400))
    assert rows.missing(parts, range(395, 405)) == set(range(400, 405))


def test_a_row_comes_back_as_it_was(tmp_path: Path) -> None:
    rows.write(tmp_path, [segment(range(0, 100, 2), 1), segment(range(1, 100, 2), 1)], None, 1)
    part = rows.read(next(tmp_path.iterdir()))
    query = Hashing().encode(["text 37"])[0]
    exact = rows.best_rows(part, query)
    assert int(part.keys[int(np.argmax(exact))]) == 37
    assert float(exact.max()) == pytest.approx(1, abs=0.01)
    at = rows.find(part, [37, 5, 1000])
    assert part.keys[at].tolist() == [5, 37]
    assert rows.best_of(part, query, at) == pytest.approx(exact[at], abs=1e-6)


def test_dead_rows_go_when_they_are_old_and_many(tmp_path: Path) -> None:
    rows.write(tmp_path, [segment(range(100), 1)], None, 1)
    rows.write(tmp_path, [segment(range(100, 140), 20)], range(100, 140), 20)
    young = rows.read(next(tmp_path.iterdir()))
    assert len(young.keys) == 140  # another branch may be back tomorrow
    rows.write(tmp_path, [segment(range(140, 180), 50)], range(120, 180), 50)
    left = [number for path in tmp_path.iterdir() for number in rows.read(path).keys.tolist()]
    assert sorted(left) == list(range(120, 180))


def test_a_graph_finds_what_comparing_all_finds(root: Path, model: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector, "GRAPH_ROWS", 100)
    tree = Tree(make(number) for number in range(300))
    Index(root, model).rebuild(tree.entries(), tree.load)
    assert list(root.glob("g*/vectors/*.graph"))
    exact, graph = Index(root, model), Index(root, model)
    graph._meaning._queries = 10
    shared = 0
    for query in ("login password", "payment refund", "queue worker retry", "colour font"):
        exact._meaning._queries = 0
        terms = parse(query)[0]
        answers = [index.candidates(terms, depth=10, mode="vector").candidates for index in (exact, graph)]
        paths = [{one.path for one in found} for found in answers]
        assert len(paths[0]) == len(paths[1]) == 10
        shared += len(paths[0] & paths[1])
    assert shared >= 38
    assert graph._meaning._segments._graphs
    assert not exact._meaning._segments._graphs


def test_restrictions_are_complete_however_many_they_let_through(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to look under a restriction: comparing the few that pass, and asking for ever more."""
    monkeypatch.setattr(vector, "GRAPH_ROWS", 100)
    tree = Tree(make(number, words=20) for number in range(300))
    index = Index(root, Hashing())
    tree.apply(index)
    wanted = Filter(since=START, until=START + DAY // 50)  # the first 29 minutes
    expected = {path for path, doc in tree.docs.items() if wanted.until and doc.created <= wanted.until}
    for few in (5_000, 1):
        monkeypatch.setattr("filemem.index.view.FEW", few)
        for queries in (0, 10):
            index._meaning._queries = queries
            found = index.candidates(parse("zebra crossing")[0], wanted, 40, mode="vector").candidates
            assert {one.path for one in found} == expected, (few, queries)


def test_vectors_of_another_branch_stay_and_are_not_found(root: Path) -> None:
    index = Index(root, Hashing())
    tree = Tree(make(number) for number in range(40))
    tree.apply(index)
    tree.docs = {path: doc for path, doc in tree.docs.items() if doc.created < START + 5 * 60_000}
    tree.apply(index)
    found = index.candidates(parse("cache")[0], mode="vector").candidates
    assert {one.path for one in found} == tree.docs.keys()
    segments = list((root / "g0000000002" / "vectors").iterdir())
    assert sum(len(rows.read(path).keys) for path in segments) == 40


def test_keys_are_numbers_of_63_bits() -> None:
    assert key("f" * 40) == 2**63 - 1
    assert key("0" * 64) == 0
