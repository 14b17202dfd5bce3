"""The requirements, as data: what the five documents promise, one line each, and the tests that show it.

`promises.txt` says what a line and its state mean. `python -m tests.requirements.manifest` prints figures, and what
does not work as promised.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROMISES = Path(__file__).with_name("promises.txt")
TESTS = PROMISES.parents[1]
STATES = ("works", "differs", "refused", "missing")
_LINE = re.compile(r"(\w+) +(\d+) (\S+) +(\S.*)")


class Promise(NamedTuple):
    """One line: its document, or "together", and what stands in it."""

    document: str
    state: str
    line: int
    id: str
    words: str


def promises() -> Iterator[Promise]:
    """Every promise, in the order of the file."""
    document = ""
    for row in PROMISES.read_text(encoding="utf-8").splitlines():
        if row.startswith("# "):
            document = row[2:]
        elif row:
            match = _LINE.fullmatch(row)
            assert match, f"no promise: {row}"
            yield Promise(document, match[1], int(match[2]), match[3], match[4])


def shown() -> dict[str, list[str]]:
    """Requirement -> the tests that say that they show it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS.parent).as_posix()
        for test, requirements in marked(path):
            for one in requirements:
                found[one].append(f"{name}::{test}")
    for path in sorted((TESTS / "dialects" / "conversations").glob("*.json")):
        name = path.relative_to(TESTS.parent).as_posix()
        for told in json.loads(path.read_text(encoding="utf-8")):
            for one in told["requirements"]:
                found[one].append(f"{name}::{told['name']}")
    return found


def marked(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The tests of a file, each with the requirements that it is marked with."""
    text = path.read_text(encoding="utf-8")
    if "mark.requirement(" not in text and path.parent.name != "dialects":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = [
                mark
                for mark in node.decorator_list
                if ast.unparse(mark).startswith("pytest.mark.requirement(")
            ]
            yield (
                node.name,
                [
                    ast.literal_eval(one)
                    for mark in marks
                    if isinstance(mark, ast.Call)
                    for one in mark.args
                ],
            )


def main() -> None:
    """Print how many promises have which state, by document, and those that do not work as promised."""
    for (document, state), count in sorted(
        Counter((one.document, one.state) for one in promises()).items()
    ):
        print(f"{document}\t{state}\t{count}")
    for one in promises():
        if one.state != "works":
            print(f"{one.state}\t{one.id}\t{one.words}")


if __name__ == "__main__":
    main()
