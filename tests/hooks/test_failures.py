"""What a session is told when a command fails, on `failures.jsonl`: a memory and 60 failures.

Each failure names the record that is about it, or none. Some of those without are near to a record:
the same program, file or library fails in another way. The `fresh` ones were written after the
rule was tuned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory, failures
from filemem.memory.store import Store
from tests.support import git, make_repo, write

RECORDS, *FAILURES = (
    json.loads(row) for row in (Path(__file__).parent / "failures.jsonl").read_text().splitlines()
)


def as_file(record: dict[str, Any]) -> str:
    """The text of a record's file."""
    header = f"id: {record['type']}_{record['key']}\ntype: {record['type']}\n"
    if record["type"] == "observation":
        return f"---\n{header}---\n# {record['title']}\n\n{record['text']}\n"
    header += f"topic: {record['topic']}\noutcome: {record['outcome']}\n"
    log = f"\n## Outcomes\n- 2026-01-02T00:00:00Z {record['outcome']}: {record['why']}\n"
    body = f"# {record['decision']}\n\n{record['reasoning']}\n"
    return f"---\n{header}---\n{body}{log if record['why'] else ''}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A memory of the records."""
    path = make_repo(tmp_path_factory.mktemp("failures") / "repo")
    for record in RECORDS["records"]:
        write(path / f"memory/{record['type']}s/{record['key']}.md", as_file(record))
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "Records")
    with Memory.open(path) as memory:
        memory.rebuild()
    store = Store(path)
    yield store
    store.close()


def test_nine_of_ten_lines_are_useful_and_three_of_four_known_failures_are_told(
    store: Store,
) -> None:
    assert (len(RECORDS["records"]), len(FAILURES)) == (32, 60)
    lines = right = 0
    wanted = sum(bool(failure["record"]) for failure in FAILURES)
    for failure in FAILURES:
        near = failures.find_record_ids(store, failure["error"])
        lines += bool(near)
        right += near[:1] != [] and near[0].partition("_")[2] == failure["record"]
    assert right >= 0.9 * lines
    assert right >= 3 / 4 * wanted
