"""The manifest is true: what works has tests that say so, what is a gap has none, and no test names nothing."""

from __future__ import annotations

import json
from collections import Counter

from tests.requirements.manifest import TESTS, entries, marked, shown

UPDATE = "python -m tests.requirements.manifest --write brings the lists in line"
# Tests of the machinery of dialects, which no document promises anything about.
ITS_OWN = {"test_a_profile_is_light", "test_a_conversation"}
OURS = {"test_budget.py"}  # of the native profile, which no document describes


def test_every_entry_is_whole() -> None:
    count = Counter(entry["id"] for entry in entries())
    assert [name for name, times in count.items() if times > 1] == []
    for entry in entries():
        assert entry["state"] in ("works", "gap"), entry["id"]
        assert entry["words"], entry["id"]
        assert entry["document"] == "" or (entry["line"] > 0 and entry["section"]), entry["id"]
        assert bool(entry.get("reason")) is (entry["state"] == "gap"), entry["id"]
        assert bool(entry.get("tests")) is (entry["state"] == "works"), entry["id"]


def test_what_works_has_the_tests_that_say_so() -> None:
    found = shown()
    for entry in entries():
        if entry["state"] == "works":
            assert entry["tests"] == found[entry["id"]], f"{entry['id']}: {UPDATE}"


def test_no_gap_is_closed_without_saying_so() -> None:
    found = shown()
    closed = {entry["id"]: found[entry["id"]] for entry in entries() if entry["state"] == "gap" and found[entry["id"]]}
    assert closed == {}, "say works, with the tests"


def test_no_test_names_a_requirement_that_there_is_not() -> None:
    known = {entry["id"] for entry in entries()}
    assert {name: tests for name, tests in shown().items() if name not in known} == {}


def test_every_dialect_test_names_a_requirement() -> None:
    for path in sorted(path for path in (TESTS / "dialects").glob("test_*.py") if path.name not in OURS):
        unnamed = [test for test, requirements in marked(path) if not requirements and test not in ITS_OWN]
        assert unnamed == [], path.name
    for path in sorted((TESTS / "dialects" / "conversations").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        assert [one["name"] for one in told if not one["requirements"]] == [], path.name
