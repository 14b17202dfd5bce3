"""The words of a query, met one by one: by the same word, by one of like meaning, or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from filemem.index import Doc, Model
from filemem.index.model import EmbeddingTable
from filemem.index.vectors import (
    VectorSet,
    compute_word_matches,
    embed_documents,
    merge_vectors,
    pack_documents,
    read_segment,
    unpack_documents,
    write_segment,
)
from tests.index.samples import doc

TEXTS = {
    1: ("Cache", ("we keep answers in a cache", "nothing else")),
    2: ("Storage", ("results are cached in memory",)),
    3: ("Shed", ("paint it green", "")),
}


@pytest.fixture(scope="module")
def table() -> EmbeddingTable:
    return Model().table


def docs(*numbers: int) -> dict[int, Doc]:
    return {n: doc(f"{n}.md", TEXTS[n][0])._replace(passages=TEXTS[n][1]) for n in numbers}


def worded(whole: VectorSet, table: EmbeddingTable, **words: float) -> list[float]:
    found: list[float] = compute_word_matches(
        whole, np.arange(len(whole.keys)), table, table.build_query_tokens(words)
    ).tolist()
    return found


def test_a_word_is_met_by_itself_and_nearly_by_its_kin(table: EmbeddingTable) -> None:
    same, kin, other = worded(embed_documents(docs(1, 2, 3), table), table, cache=1.0)
    assert same == pytest.approx(1, abs=1e-3)
    assert same > kin > other


def test_weights_decide_which_words_matter(table: EmbeddingTable) -> None:
    whole = embed_documents(docs(1, 3), table)
    cache_first, green_first = (
        worded(whole, table, cache=9.0, green=1.0),
        worded(whole, table, cache=1.0, green=9.0),
    )
    assert cache_first[0] > cache_first[1]
    assert green_first[0] < green_first[1]
    assert worded(whole, table) == [0.0, 0.0]
    assert worded(whole, table, **{"☃": 1.0}) == [0.0, 0.0]


def test_vectors_and_tokens_survive_packing_merging_and_writing(
    table: EmbeddingTable, tmp_path: Path
) -> None:
    expected = worded(embed_documents(docs(1, 2, 3), table), table, cache=1.0, green=2.0)
    parts = [
        unpack_documents(sorted(pack_documents(embed_documents(some, table)).items()))
        for some in (docs(2), docs(3, 1))
    ]
    write_segment(tmp_path / "1.rows", merge_vectors(parts))
    again = read_segment(tmp_path / "1.rows")
    assert again.keys.tolist() == [1, 2, 3]
    assert worded(again, table, cache=1.0, green=2.0) == pytest.approx(expected, abs=1e-6)
