"""One slip of the fingers, and nothing more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filemem.query import may_be_misspelt, one_slip

WORDS = st.text("abc", max_size=7)


@pytest.mark.parametrize("typed", ["ache", "ccache", "cahce", "cacha", "caches", "cach", "xcache", "acche"])
def test_one_slip(typed: str) -> None:
    assert one_slip(typed, "cache")
    assert one_slip("cache", typed)


@pytest.mark.parametrize("typed", ["cache", "", "cachess", "chace!", "hcaec", "cehca"])
def test_more_or_less_than_one(typed: str) -> None:
    assert not one_slip(typed, "cache")


@given(WORDS, WORDS)
def test_it_is_what_the_four_slips_give(a: str, b: str) -> None:
    letters = "abc"
    out = {a[:at] + a[at + 1 :] for at in range(len(a))}
    put = {a[:at] + letter + a[at:] for at in range(len(a) + 1) for letter in letters}
    changed = {a[:at] + letter + a[at + 1 :] for at in range(len(a)) for letter in letters}
    swapped = {a[:at] + a[at + 1] + a[at] + a[at + 2 :] for at in range(len(a) - 1)}
    assert one_slip(a, b) == (b in (out | put | changed | swapped) - {a})


def test_short_words_and_numbers_are_left_alone() -> None:
    assert may_be_misspelt("cache")
    assert not any(map(may_be_misspelt, ("git", "v2130", "a-b-c", "")))
