"""What trailers say of decisions, and what drift is as a value: read alike whoever wrote them, shown in one phrase."""

from __future__ import annotations

import pytest

from filemem.memory.evidence import parse_statements
from filemem.query import Drift


@pytest.mark.parametrize(
    ("message", "outcomes"),
    [
        ("D a", {"a": ("", "")}),
        (
            "D a, b / O failed",
            {"a, b": ("failed", "")},
        ),  # one name or two: who knows the decisions tells
        ("D a / O success / D b / O failed", {"a": ("success", ""), "b": ("failed", "")}),
        ("D a / O success / D b", {"a": ("success", ""), "b": ("", "")}),
        ("D a / D b / O failed", {"a": ("failed", ""), "b": ("failed", "")}),
        ("D a / O disaster / D b", {"a": ("", ""), "b": ("", "")}),
        ("D a / O failed: too slow: twice", {"a": ("failed", "too slow: twice")}),
        ("O failed", {}),
    ],
)
def test_an_outcome_is_of_the_decision_before_it(
    message: str, outcomes: dict[str, tuple[str, str]]
) -> None:
    keys = {"D": "Decision", "O": "outcome"}
    assert parse_statements((keys[line[0]], line[2:]) for line in message.split(" / ")) == outcomes


@pytest.mark.parametrize(
    ("found", "told", "outgrown"),
    [
        (Drift("fresh", files=1), "fresh", False),
        (Drift("unknown", reason="it is not committed"), "unknown: it is not committed", False),
        (Drift("changed", ("a",), files=3), "changed (1 of 3 files)", False),
        (Drift("changed", ("a",), ("b",), 2), "changed (2 of 2 files)", True),
        (Drift("missing", ("a",), ("b",), 9), "missing (1 of 9 files, 1 changed)", True),
    ],
)
def test_drift_is_shown_in_a_phrase(found: Drift, told: str, outgrown: bool) -> None:
    assert (str(found), found.is_outgrown) == (told, outgrown)
