"""The words of a query, met one by one: by the same word, by one of like meaning, or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from filemem.index import Doc, Model
from filemem.index.model import Table
from filemem.index.vectors import Rows, embed, merged, met, packs, read, unpacked, write
from tests.index.samples import doc

TEXTS = {
    1: ("Cache", ("we keep answers in a cache", "nothing else")),
    2: ("Storage", ("results are cached in memory",)),
    3: ("Shed", ("paint it green", "")),
}


@pytest.fixture(scope="module")
def table() -> Table:
    return Model().table


def docs(*numbers: int) -> dict[int, Doc]:
    return {n: doc(f"{n}.md", TEXTS[n][0])._replace(passages=TEXTS[n][1]) for n in numbers}


def worded(whole: Rows, table: Table, **words: float) -> list[float]:
    found: list[float] = met(
        whole, np.arange(len(whole.keys)), table, table.weighed(words)
    ).tolist()
    return found


def test_a_word_is_met_by_itself_and_nearly_by_its_kin(table: Table) -> None:
    same, kin, other = worded(embed(docs(1, 2, 3), table), table, cache=1.0)
    assert same == pytest.approx(1, abs=1e-3)
    assert same > kin > other


def test_weights_decide_which_words_matter(table: Table) -> None:
    whole = embed(docs(1, 3), table)
    cache_first, green_first = (
        worded(whole, table, cache=9.0, green=1.0),
        worded(whole, table, cache=1.0, green=9.0),
    )
    assert cache_first[0] > cache_first[1]
    assert green_first[0] < green_first[1]
    assert worded(whole, table) == [0.0, 0.0]
    assert worded(whole, table, **{"☃": 1.0}) == [0.0, 0.0]


def test_vectors_and_tokens_survive_packing_merging_and_writing(
    table: Table, tmp_path: Path
) -> None:
    expected = worded(embed(docs(1, 2, 3), table), table, cache=1.0, green=2.0)
    parts = [unpacked(sorted(packs(embed(some, table)).items())) for some in (docs(2), docs(3, 1))]
    write(tmp_path / "1.rows", merged(parts))
    again = read(tmp_path / "1.rows")
    assert again.keys.tolist() == [1, 2, 3]
    assert worded(again, table, cache=1.0, green=2.0) == pytest.approx(expected, abs=1e-6)
