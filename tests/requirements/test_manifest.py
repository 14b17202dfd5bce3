"""The manifest is true: what works has tests that say so, what is missing has none, and no test names nothing."""

from __future__ import annotations

from collections import Counter

from tests.requirements.manifest import STATES, TESTS, marked, promises, shown

# Tests of the machinery of dialects, which no document promises anything about.
ITS_OWN = {"test_a_profile_is_light", "test_a_conversation"}
OURS = {
    "test_both_ways.py",
    "test_budget.py",
}  # of what every answer keeps to, and of how it is sent


def test_every_line_is_one_promise_with_a_state() -> None:
    found = list(promises())
    assert [name for name, times in Counter(one.id for one in found).items() if times > 1] == []
    assert {one.state for one in found} <= set(STATES)
    assert len(found) > 150


def test_what_works_has_tests_and_what_is_missing_has_none() -> None:
    tests = shown()
    wrong = {
        "works": lambda one: not tests.get(one.id),
        "missing": lambda one: bool(tests.get(one.id)),
    }
    assert [one.id for one in promises() if one.state in wrong and wrong[one.state](one)] == []


def test_no_test_names_a_promise_that_there_is_not() -> None:
    known = {one.id for one in promises()}
    assert {name: tests for name, tests in shown().items() if name not in known} == {}


def test_every_dialect_test_names_a_promise() -> None:
    for path in sorted(
        path for path in (TESTS / "dialects").glob("test_*.py") if path.name not in OURS
    ):
        unnamed = [test for test, ids in marked(path) if not ids and test not in ITS_OWN]
        assert unnamed == [], path.name
