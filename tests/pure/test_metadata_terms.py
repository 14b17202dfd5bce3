"""Metadata as terms: they let through all that a filter lets through, whatever is stored and asked."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from filemem.dialects.powermem import Condition, _indexed, _value, holds
from filemem.query import Filter, Hit, matches, metadata_terms, metadata_wanted
from filemem.record import OBSERVATION, Record

KEYS = st.sampled_from(["a", "b", "a.b", "metadata.a", "c.d.e", "é"])
PLAIN: Any = st.one_of(
    st.booleans(), st.integers(-3, 3), st.sampled_from([1.0, 2.5]), st.sampled_from(["", "x", "1", "a" * 300])
)
VALUES: Any = st.recursive(
    PLAIN | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
TESTS: Any = st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"])
CONDITIONS: Any = st.builds(Condition, KEYS, TESTS, PLAIN | st.none() | st.lists(PLAIN, max_size=2)) | st.builds(
    Condition, KEYS, st.sampled_from(["in", "nin"]), st.lists(PLAIN | st.none(), max_size=3)
)


@given(st.dictionaries(KEYS, VALUES, max_size=4), CONDITIONS)
def test_what_passes_a_filter_is_let_through_by_its_terms(metadata: dict[str, Any], condition: Condition) -> None:
    hit = Hit(Record(id="x", type=OBSERVATION, path="x.md", metadata=metadata), "x.md", 0)
    if not holds(condition, lambda key: _value(hit, key)):
        return
    told = _indexed(condition)
    if told is None:
        return
    key, values = told
    group = metadata_wanted(key, *values)
    assert group is not None
    assert matches(Filter(metadata=(group,)), {"metadata": metadata_terms(metadata)}, 0)


def test_terms_are_few_and_short() -> None:
    assert metadata_terms({"a": {"b": [1, "x"]}, "c": None}) == ("a", "a.b", "a.b=1", 'a.b="x"', "c")
    assert all(len(term) <= 200 for term in metadata_terms({"k" * 5000: "v" * 5000}))
    assert metadata_wanted("a", None) is None
    assert metadata_wanted("a") == ("a",)
