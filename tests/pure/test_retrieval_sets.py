"""Retrieval sets become stores: file names, titles, measures."""

from __future__ import annotations

import pytest

from bench.relevance import current_above, interval, ndcg, recall, reciprocal_rank
from bench.retrieval import Question, Set, file_names, written


def test_safe_ids_are_file_names_as_they_are() -> None:
    ids = ("1", "sk/0001-madr", "A b_c.d+e")
    assert file_names(ids) == {one: f"{one}.md" for one in ids}


def test_other_ids_are_escaped_and_stay_apart() -> None:
    ids = [
        "README",
        "../x",
        ".hidden",
        "a:b?",
        "private/x",
        "observations/1",
        "",
        "x" * 500,
        "Case",
        "case",
        "a/",
        "c ",
    ]
    names = file_names(ids)
    assert len({name.casefold() for name in names.values()}) == len(ids)
    for name in names.values():
        parts = name.split("/")
        assert all(part and not part.startswith(".") and len(part.encode()) < 255 for part in parts)
        assert parts[0] not in ("private", "observations", "README.md")
        assert not set(name) & set(':?*"<>|\\')


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


def test_the_order_of_current_and_older() -> None:
    old = "---\nstatus: superseded by [2](2.md)\n---\n# Old"
    documents = {"1": ("Old", old), "2": ("New", "# New"), "3": ("", "# Other")}
    each = Set("s", documents, (Question("q", ""), Question("r", "")), {"q": {"2": 2, "1": 1}, "r": {"3": 2, "1": 1}})
    assert current_above({"q": ["2", "1"], "r": ["1", "3"]}, each) == (1, 2, 1, 1)
    assert current_above({"q": ["1", "2"], "r": []}, each) == (0, 1, 0, 1)
