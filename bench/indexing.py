"""Rows about indexing: everything anew, and catching up with a checkout of what was seen before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import in_turns
from bench.stores import Repository, Stores
from bench.table import Line

ROUNDS = 3
BRANCHES = ("other", "main")
TASK = str(Path(__file__).with_name("task.py"))


def measure(stores: Stores, size: int) -> Iterator[Line]:
    """Measure building the index where there is none, in turns with reading and parsing the same files, and with a look
    at the files after a checkout that swapped every record, both versions having been seen before."""
    whole, swapped = stores.get(size), stores.copy(size)
    _second_branch(swapped)
    swaps = iter([branch for _ in range(ROUNDS) for branch in reversed(BRANCHES)])
    methods = {
        "parse": lambda: run(whole, "parse"),
        "reindex": lambda: run(whole, "reindex"),
        "catch-up": lambda: _after_checkout(swapped, next(swaps)),
    }
    samples = in_turns(methods, ROUNDS)
    stores.drop(swapped)
    parse, anew, known = (samples[name].p50 for name in methods)
    yield Line(
        "reindex", size, parse / anew, f"{size / anew:,.0f} per s", f"{size / parse:,.0f} per s"
    )
    yield Line("catch-up", size, known / anew, f"{known:.2f} s", f"{anew:.2f} s")


def run(repository: Repository, task: str) -> float:
    """Do a piece of work in a process of its own; return its seconds."""
    return float(repository.surroundings.run(sys.executable, TASK, task, str(repository.folder)))


def _second_branch(repository: Repository) -> None:
    """Make a branch on which every record reads differently, and let the index see it."""
    repository.git("switch", "--quiet", "-c", BRANCHES[0])
    for path in repository.store.rglob("*.md"):
        path.write_bytes(path.read_bytes() + b"\nSeen again on the other branch.\n")
    repository.git("commit", "--quiet", "--all", "-m", "Every record again")
    repository.filemem("index")


def _after_checkout(repository: Repository, branch: str) -> float:
    repository.git("switch", "--quiet", branch)
    return run(repository, "catch-up")
