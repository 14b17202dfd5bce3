"""Vectors: packed, kept in files that merge, compared by numpy and by usearch alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from filemem.index import Index, Model, vectors
from filemem.query import Filter, parse_query
from tests.index.hashing import Hashing
from tests.index.samples import DAY, START, Tree, doc, make


def part(numbers: range) -> vectors.VectorSet:
    docs = {
        n: doc(f"{n}.md", f"title {n}")._replace(passages=(f"text {n}", "more")) for n in numbers
    }
    return vectors.embed_documents(docs, Hashing().table)


def test_files_merge_in_a_geometric_row(root: Path) -> None:
    index, tree = Index(root, Hashing()), Tree()
    for start in range(0, 400, 10):
        tree.docs |= {make(n, words=5).path: make(n, words=5) for n in range(start, start + 10)}
        tree.apply(index)
    files = sorted(root.rglob("*.rows"))
    assert len(files) < 6
    assert sum(len(vectors.read_segment(path).keys) for path in files) == 400


def test_a_row_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "1.rows"
    vectors.write_segment(
        path, vectors.merge_vectors([part(range(0, 100, 2)), part(range(1, 100, 2))])
    )
    whole = vectors.read_segment(path)
    query = Hashing().encode(["text 37"])[0]
    exact = vectors.compute_nearest_cosines(whole, query)
    assert int(whole.keys[int(np.argmax(exact))]) == 37
    assert float(exact.max()) == pytest.approx(1, abs=0.01)
    at = vectors.find_positions(whole, [37, 5, 1000])
    assert whole.keys[at].tolist() == [5, 37]


BESIDE = """
import time
import numpy  # before filemem could bound its threads
from pathlib import Path
from filemem.index import Model, open_model, vectors
from tests.index.samples import doc
table = open_model().table
words = [f"cache price login build {n} deploy queue retry log {n * 7}" for n in range(600)]
docs = {n: doc(f"{n}.md", f"title {n}")._replace(passages=(text,)) for n, text in enumerate(words)}
part = vectors.embed_documents(docs, table)
large = part._replace(rows=numpy.tile(part.rows, (20, 1)), scales=numpy.tile(part.scales, 20),
                      starts=numpy.arange(20 * len(part.rows) + 1))
asked = table.build_query_tokens(dict.fromkeys("login deploy queue retry cache build price log".split(), 1.0))
query = table.encode(["deploy the queue"])[0][0]
whole, own = time.process_time(), time.thread_time()
for _ in range(40):
    vectors.compute_nearest_cosines(large, query)
    vectors.compute_word_matches(part, numpy.arange(len(part.keys)), table, asked)
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
def test_an_open_file_holds_one_descriptor(tmp_path: Path) -> None:
    vectors.write_segment(tmp_path / "1.rows", part(range(100)))
    before = len(os.listdir("/proc/self/fd"))
    opened = vectors.read_segment(tmp_path / "1.rows")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del opened
    assert len(os.listdir("/proc/self/fd")) == before


def test_usearch_and_numpy_give_the_same_fifty(root: Path) -> None:
    """Of texts in groups of ten that are nearly equal, which are the hardest."""
    index = Index(root, Model())
    texts = [make(number, words=12).body for number in range(200)]
    Tree(
        doc(f"{at}-{n}.md", f"{text} {n}", text) for at, text in enumerate(texts) for n in range(10)
    ).apply(index)
    queries = [parse_query(" ".join(text.split()[:5]))[0] for text in texts]

    def nearest() -> list[set[str]]:
        answers = [
            index.search_candidates(each, None, 50, mode="vector").candidates for each in queries
        ]
        return [{candidate.path for candidate in each} for each in answers]

    by_numpy = nearest()
    index.update_caches(with_usearch=True)
    assert list(root.rglob("*.usearch"))
    assert nearest() == by_numpy


def test_what_is_gone_leaves_the_caches_when_it_is_more_than_what_is_there(root: Path) -> None:
    index = Index(root, Hashing())
    tree = Tree(make(number) for number in range(40))
    tree.apply(index)
    tree.docs = {path: doc for path, doc in tree.docs.items() if doc.created < START + 25 * 60_000}
    tree.apply(index)
    assert sum(len(vectors.read_segment(path).keys) for path in root.rglob("*.rows")) == 40
    tree.docs = {path: doc for path, doc in tree.docs.items() if doc.created < START + 5 * 60_000}
    tree.apply(index)
    assert sum(len(vectors.read_segment(path).keys) for path in root.rglob("*.rows")) == 5
    found = index.search_candidates(parse_query("cache")[0], mode="vector").candidates
    assert {candidate.path for candidate in found} == tree.docs.keys()


def test_restrictions_are_complete(root: Path) -> None:
    tree = Tree(make(number, words=20) for number in range(300))
    index = Index(root, Hashing())
    tree.apply(index)
    wanted = Filter(since=START, until=START + DAY // 50)  # the first 29 minutes
    expected = {
        path for path, doc in tree.docs.items() if wanted.until and doc.created <= wanted.until
    }
    found = index.search_candidates(
        parse_query("zebra crossing")[0], wanted, 40, mode="vector"
    ).candidates
    assert {one.path for one in found} == expected
