"""Vectors: filed by content, merged, dropped when dead and old, found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import filemem.index
from filemem.index import Doc, Index, Model, vectors
from filemem.query import Filter, parse
from tests.index.hashing import Hashing
from tests.index.samples import DAY, START, Tree, doc, make


def segment(keys: range) -> list[Doc]:
    return [
        doc(f"{n}.md", f"title {n}")._replace(blob=f"{n << 1:016x}", passages=(f"text {n}", "more"))
        for n in keys
    ]


def write(folder: Path, *new: list[Doc], living: Iterable[int] = ()) -> None:
    growth = vectors.Growth(folder, Hashing().table)
    for docs in new:
        growth.add(docs)
    growth.write(living)


def test_segments_merge_in_a_geometric_row(tmp_path: Path) -> None:
    for start in range(0, 400, 10):
        write(tmp_path, segment(range(start, start + 10)))
    parts = [vectors.read(path) for path in sorted(tmp_path.iterdir())]
    assert len(parts) < 6
    assert sorted(number for part in parts for number in part.keys.tolist()) == list(range(400))
    assert vectors.missing(parts, range(395, 405)) == set(range(400, 405))


def test_a_row_comes_back_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, segment(range(0, 100, 2)), segment(range(1, 100, 2)))
    part = vectors.read(next(tmp_path.iterdir()))
    query = Hashing().encode(["text 37"])[0]
    exact = vectors.nearest(part, query)
    assert int(part.keys[int(np.argmax(exact))]) == 37
    assert float(exact.max()) == pytest.approx(1, abs=0.01)
    at = vectors.places(part, [37, 5, 1000])
    assert part.keys[at].tolist() == [5, 37]


BESIDE = """
import time
import numpy  # before filemem could bound its threads
from pathlib import Path
from filemem.index import Model, embedder, vectors
from tests.index.samples import doc
table = embedder().table
words = [f"cache price login build {n} deploy queue retry log {n * 7}" for n in range(600)]
docs = [doc(f"{n}.md", f"title {n}")._replace(blob=f"{n << 1:016x}", passages=(text,))
        for n, text in enumerate(words)]
part = vectors.embed(docs, table)
large = part._replace(rows=numpy.tile(part.rows, (20, 1)), scales=numpy.tile(part.scales, 20),
                      starts=numpy.arange(20 * len(part.rows) + 1))
asked = table.weighed(dict.fromkeys("login deploy queue retry cache build price log".split(), 1.0))
query = table.encode(["deploy the queue"])[0][0]
whole, own = time.process_time(), time.thread_time()
for _ in range(40):
    vectors.nearest(large, query)
    vectors.met(part, numpy.arange(len(part.keys)), table, asked)
whole, own = time.process_time() - whole, time.thread_time() - own
print((whole - own) / own)
"""


def test_a_search_uses_one_thread_also_beside_a_program_with_numpy() -> None:
    free = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", BESIDE], env=free, text=True, capture_output=True, check=True
    )
    assert float(done.stdout) < 0.1  # what other threads took, of what this one took


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc")
def test_an_open_segment_holds_one_file(tmp_path: Path) -> None:
    write(tmp_path, segment(range(100)))
    before = len(os.listdir("/proc/self/fd"))
    part = vectors.read(next(tmp_path.iterdir()))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del part
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_graph_finds_nearly_all_of_the_nearest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts in groups of ten that are nearly equal, which are the hardest."""
    monkeypatch.setattr(filemem.index, "LARGE", 1)
    index = Index(root, Model())
    texts = [make(number, words=12).body for number in range(200)]
    docs = [
        doc(f"{at}-{n}.md", f"{text} {n}", text) for at, text in enumerate(texts) for n in range(10)
    ]
    tree = Tree(docs)
    tree.apply(index)
    queries = [parse(" ".join(text.split()[:5]))[0] for text in texts[:30]]

    def nearest() -> list[set[str]]:
        found = [index.candidates(each, None, 50, mode="vector").candidates for each in queries]
        return [{one.path for one in each} for each in found]

    exact = nearest()
    index.deepen()
    index._deepening.join()
    assert nearest() == exact  # nothing has taken it in
    Tree([*docs, doc("new.md", "new")]).apply(index)
    shares = [len(one & other) / 50 for one, other in zip(nearest(), exact, strict=True)]
    assert any(name.endswith(".graph") for name in index._seal.files)
    assert sum(shares) / len(shares) > 0.95
    assert index.verify() == []


def test_dead_rows_go_when_little_else_is_left(tmp_path: Path) -> None:
    write(tmp_path, segment(range(100)))
    write(tmp_path, segment(range(100, 140)), living=range(80, 140))
    young = vectors.read(next(tmp_path.iterdir()))
    assert len(young.keys) == 140  # another branch may be back tomorrow
    write(tmp_path, segment(range(140, 180)), living=range(140, 180))
    left = [number for path in tmp_path.iterdir() for number in vectors.read(path).keys.tolist()]
    assert sorted(left) == list(range(140, 180))


def test_restrictions_are_complete(root: Path) -> None:
    tree = Tree(make(number, words=20) for number in range(300))
    index = Index(root, Hashing())
    tree.apply(index)
    wanted = Filter(since=START, until=START + DAY // 50)  # the first 29 minutes
    expected = {
        path for path, doc in tree.docs.items() if wanted.until and doc.created <= wanted.until
    }
    found = index.candidates(parse("zebra crossing")[0], wanted, 40, mode="vector").candidates
    assert {one.path for one in found} == expected


def test_vectors_of_another_branch_stay_and_are_not_found(root: Path) -> None:
    index = Index(root, Hashing())
    tree = Tree(make(number) for number in range(40))
    tree.apply(index)
    tree.docs = {path: doc for path, doc in tree.docs.items() if doc.created < START + 5 * 60_000}
    tree.apply(index)
    found = index.candidates(parse("cache")[0], mode="vector").candidates
    assert {one.path for one in found} == tree.docs.keys()
    segments = list((index.root / "g0000000002" / "vectors").iterdir())
    assert sum(len(vectors.read(path).keys) for path in segments) == 40
