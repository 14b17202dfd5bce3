"""What one file shows by itself, and how problems are told to other programs."""

from __future__ import annotations

from typing import Any

import pytest

from filemem.cli import gate
from filemem.record.lint import lint_other_file, lint_record

HEAD = "---\nid: decision_x_1763650000123_k3f9w2ma\ntype: decision\ntopic: caching\ncreated: 2025-11-20\n---\n# Use\n\n"


def problems(text: str) -> list[tuple[int, str]]:
    found = lint_record((HEAD + text).encode(), "decisions/caching/x.md").problems
    return [(problem.line, problem.code) for problem in found if problem.level != "hint"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("ab\u202ecd", "U+202E"),
        ("ab\u2067cd", "U+2067"),
        ("Trust\U000e0041\U000e0042", "U+E0041"),
        ("pass\u200bword", "U+200B"),
        ("pass\ufeffword", "U+FEFF"),
        ("pass\u200dword", "U+200D"),
        ("a\u2063b", "U+2063"),
        ("a\u3164b", "U+3164"),
        ("x\ufe00\ufe01\U000e0101", "U+FE00"),
    ],
)
def test_what_nobody_sees_is_found_with_its_line(text: str, first: str) -> None:
    found = [
        p
        for p in lint_record(f"{HEAD}One\n{text}\n".encode(), "x.md").problems
        if p.code == "hidden-character"
    ]
    assert [(problem.line, problem.level) for problem in found] == [(10, "warning")]
    assert first in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        "Ordinary text, naïve café, “quotes” – dashes…",
        "می\u200cخواهم",  # Persian writes with a non-joiner
        "क्\u200dष",
        "👨\u200d👩\u200d👧 ❤\ufe0f 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "שלום\u200f (world)",
        "葛\U000e0100城",
    ],
)
def test_ordinary_writing_in_any_script_is_left_alone(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    "text", ["# A \x1b[31mB\n", "# A\n\nx\x07y\n", "# A\n\nä \x9b31m\n", "# A\n\n\x7f\n"]
)
def test_what_a_terminal_may_obey_is_a_problem_of_the_text_too(text: str) -> None:
    found = lint_record(text.encode(), "x.md").problems
    line = 1 if "# A\n" not in text else 3
    assert (line, "control-character") in [(one.line, one.code) for one in found]


def test_tabs_pages_and_letters_of_all_scripts_are_no_control_characters() -> None:
    assert problems("Ä ü 漢\t\f\r\n\n\u2028\x85é\n") == []


def test_secrets_and_conflicts_have_their_lines() -> None:
    assert problems("key: ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8\n") == [(9, "secret")]
    assert (9, "conflict") in problems("<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> other\n")


FOUND: list[dict[str, Any]] = [
    {
        "path": "memory/a b,%é.md",
        "line": 3,
        "code": "secret",
        "level": "error",
        "message": "100 %: bad\nthing, here",
    },
    {
        "path": "memory/x.md",
        "line": 1,
        "code": "drift",
        "level": "warning",
        "message": "src/a.py changed",
    },
    {
        "path": "memory/x.md",
        "line": 1,
        "code": "bad-topic",
        "level": "hint",
        "message": "::error::forged",
    },
]


def test_workflow_commands_cannot_be_forged() -> None:
    rows = gate.render_workflow_commands({"problems": FOUND}).split("\n")
    assert rows == [
        "::error file=memory/a b%2C%25é.md,line=3,title=filemem%3A secret::100 %25: bad%0Athing, here",
        "::warning file=memory/x.md,line=1,title=filemem%3A drift::src/a.py changed",
        "::notice file=memory/x.md,line=1,title=filemem%3A bad-topic::::error::forged",
    ]


def test_a_picture_is_not_read_for_secrets() -> None:
    secret = b"password = 'correct-horse-battery-9Qx'\n"
    key = b"AKIA" + b"IOSFODNN7" + b"ABCDEFG"
    assert lint_other_file(secret + key, "notes.txt")
    assert lint_other_file(secret + key + b"\0", "picture.png") == ()
