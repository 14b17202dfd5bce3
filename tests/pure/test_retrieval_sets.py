"""Retrieval sets become stores: file names, titles, measures."""

from __future__ import annotations

import pytest

from bench.relevance import interval, ndcg, recall, reciprocal_rank
from bench.retrieval import written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Plain text.", "# T\n\nPlain text."),
        ("# Own\n\ntext", "# Own\n\ntext"),
        ("---\nid: x\n---\n# Own", "---\nid: x\n---\n# Own"),
        ("Own\n===\n\ntext", "Own\n===\n\ntext"),
        ("- a list\n- of two", "# T\n\n- a list\n- of two"),
    ],
)
def test_a_text_without_heading_gets_its_title(text: str, expected: str) -> None:
    assert written("T", text) == expected


def test_measures() -> None:
    grades = {"a": 2, "b": 1}
    assert ndcg(["a", "b"], grades) == pytest.approx(1)
    assert ndcg(["b", "a"], grades) == pytest.approx((1 + 2 / 1.58496) / (2 + 1 / 1.58496), abs=1e-4)
    assert (recall(["x", "b"], grades, 1), recall(["x", "b"], grades, 2)) == (0, 0.5)
    assert reciprocal_rank(["x", "b"], grades) == 0.5
    assert reciprocal_rank(["x"], grades) == 0
    mean, low, high = interval([0.0, 1.0] * 50)
    assert low < mean == 0.5 < high
    assert interval([0.0, 1.0] * 50) == (mean, low, high)
