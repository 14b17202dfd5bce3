"""The requirements, as data: what the five documents promise, one entry each, and the tests that show it.

Each `*.toml` beside this file is one document: `document` is its file name, and every entry has `id`, `line`,
`section`, `words` (in brief, ours), and `state`: `works` with `tests`, or `gap` with `reason`. A test says by
`@pytest.mark.requirement("id")`, a conversation by its `requirements`, what it shows.
`python -m tests.requirements.manifest` prints figures; `--write` brings the lists of tests in line first. To close a
gap: mark its tests, put `state = "works"` and `tests = []` in place of its state and reason, and run that.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent
_LIST = re.compile(r'(?ms)^(id = "(?P<id>[^"]+)"\n.*?^tests = )(?:\[\]|\[.*?^\])')


def entries() -> Iterator[Mapping[str, Any]]:
    """Every requirement, with the `document` it comes from."""
    for path in sorted(HERE.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for entry in data["requirement"]:
            yield {"document": data["document"], **entry}


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
            marks = [mark for mark in node.decorator_list if ast.unparse(mark).startswith("pytest.mark.requirement(")]
            yield (
                node.name,
                [ast.literal_eval(one) for mark in marks if isinstance(mark, ast.Call) for one in mark.args],
            )


def write() -> None:
    """Put the tests that are marked into the entries that work."""
    found = shown()
    for path in HERE.glob("*.toml"):
        text = path.read_text(encoding="utf-8")

        def listed(match: re.Match[str]) -> str:
            rows = "".join(f"    {json.dumps(test, ensure_ascii=False)},\n" for test in found[match["id"]])
            return f"{match[1]}[\n{rows}]"

        parts = [_LIST.sub(listed, part) for part in re.split(r"(?m)^(?=\[\[requirement\]\])", text)]
        path.write_text("".join(parts), encoding="utf-8")


def main() -> None:
    """Print how many requirements work, by document, and each gap with its reason."""
    if "--write" in sys.argv:
        write()
    counts = Counter((entry["document"] or "together", entry["state"]) for entry in entries())
    for (document, state), count in sorted(counts.items()):
        print(f"{document}\t{state}\t{count}")
    for entry in entries():
        if entry["state"] == "gap":
            print(f"gap\t{entry['id']}\t{entry['reason']}")


if __name__ == "__main__":
    main()
