"""`make lint` refuses code that is hard to read: each rule sees its kind, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from textwrap import dedent

import pytest

from tools import currency
from tools.measure import Module, tokens_by_package


def module(text: str, name: str = "filemem.a") -> Module:
    path = name.replace(".", "/") + ".py"
    source = dedent(text)
    return Module(name, path, source, ast.parse(source))


def rules(product: Sequence[Module]) -> set[str]:
    return {place.rule for place in currency.places(product)}


BRANCHES = "def run(x: int) -> None:\n" + "    if x:\n        pass\n" * 10
BOOLEANS = "def run(x: int) -> bool:\n    return " + " or ".join("x" * 11)

REFUSED = {
    "complexity": [BRANCHES, BOOLEANS],
    "columns": ["# " + "x" * 99],
    "long_function": ["def run() -> None:\n" + "    pass\n" * 60],
    "long_module": ["x = 1\n" * 501],
    "empty_name": [
        "found = 1",
        "def run(told: int) -> None: ...",
        "@property\ndef known() -> None: ...",
        "x.said = 1",
        "y = [one for one in x]",
    ],
    "function_name": [
        "def written() -> None: ...",
        "class A:\n    def _of_file(self) -> None: ...",
        "def run() -> None:\n    def after() -> None: ...",
    ],
    "packed_assignment": ["a, b = x, y"],
    "nested_comprehension": ["a = [x for x in [y for y in z]]"],
    "buried_assignment": ["if a and (b := c):\n    pass", "x = [b for c in d if c and (b := c)]"],
}
ALLOWED = [
    "a, b = b, a",
    "a, b = f()",
    "if b := c:\n    pass",
    "while not (b := c):\n    pass",
    "if (b := c) > 1:\n    pass",
    "a = [x for x in y]\nb = [x for x in a]",
    "x = y.found",
]


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in REFUSED.items() for text in texts]
)
def test_a_rule_refuses_its_kind(rule: str, text: str) -> None:
    assert rules([module(text)]) == {rule}


@pytest.mark.parametrize("text", ALLOWED)
def test_plain_code_is_not_refused(text: str) -> None:
    assert rules([module(text)]) == set()


def test_circles_by_types_and_late_imports_are_seen() -> None:
    typed = """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from filemem import b
    """
    late = "def run() -> None:\n    import filemem.a\n"
    pair = [module(typed), module(late, "filemem.b")]
    assert rules(pair) == {"circle", "late_import"}


def test_the_list_may_only_shrink() -> None:
    rows = currency.places([module("found = 1\ntold = 2")])
    path = "filemem/a.py"
    assert currency.problems(rows, {"empty_name": {path: 2}}) == []
    above = currency.problems(rows, {"empty_name": {path: 1}})
    assert above[0] == "filemem/a.py: 2 x empty_name, 1 allowed:"
    assert above[1:] == ["filemem/a.py:1: empty_name: found", "filemem/a.py:2: empty_name: told"]
    below = currency.problems(rows, {"empty_name": {path: 3}})
    assert below == [
        "filemem/a.py: 2 x empty_name and 3 listed; "
        "lower the list: python -m tools.currency --write"
    ]
    left = {"empty_name": {path: 1}}
    assert '"filemem/a.py" = 1' in currency.written(currency.counted(rows), left)


def test_tokens_leave_out_comments_and_docstrings() -> None:
    text = '"""What it is."""\n# why\nx = f(1)\n'
    assert tokens_by_package([module(text)]) == {"top": 6}
