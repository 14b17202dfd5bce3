"""Rows about what Git tells of records: what it adds to a search, and what a commit hook costs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import starting, told
from bench.stores import Stores
from bench.table import Line

STAGED = 5  # files of a commit
SCRIPT = str(Path(told.__file__))


def measure_provenance(stores: Stores, size: int) -> Iterator[Line]:
    """Measure what provenance adds to a warm search of ten hits, beside the same search without it."""
    repository = stores.get(size)
    repository.filemem("index")
    questions = [" ".join(words) for words in repository.queries(told.ROUNDS)]
    printed = repository.surroundings.run(sys.executable, SCRIPT, json.dumps(questions))
    with_it, without = json.loads(printed)
    yield Line(
        "provenance",
        size,
        (with_it - without) * 1000,
        f"{with_it * 1000:.1f} ms",
        f"{without * 1000:.1f} ms",
    )


def measure_lint(stores: Stores, size: int) -> Iterator[Line]:
    """Measure the check that a commit hook runs, from a cold start, in processor time."""
    repository = stores.get(size)
    staged = [
        str(path.relative_to(repository.folder))
        for path in sorted(repository.store.rglob("*.md"))[1 : STAGED + 1]
    ]
    ours = partial(repository.surroundings.cpu, "filemem", "check", "--lint", *staged)
    yield starting.commands(repository.surroundings, "lint", size, ours)
