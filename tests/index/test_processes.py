"""Several processes on one index: what one saves all find, nobody mistakes a commit for damage, kills lose nothing."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from filemem.index import Index
from filemem.index.storage import NAME
from filemem.query import parse_query
from tests.index.hashing import Hashing
from tests.index.samples import Tree, fold, make, serial

TOP = Path(__file__).parents[2]

READER = """
import sys
from pathlib import Path
from typing import Any
from filemem.index import Index
from filemem.query import parse_query
index = Index(Path(sys.argv[1]))
for line in sys.stdin:
    print(len(index.search_candidates(parse_query(line.strip())[0], mode="keyword").candidates), flush=True)
"""

LOOKER = """
import sys, time
from pathlib import Path
from typing import Any
from filemem.index import Index
from filemem.query import parse_query
from tests.index.hashing import Hashing
index = Index(Path(sys.argv[1]), Hashing())
print("ready", flush=True)
looks, end = 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    assert index.count_records() >= 50
    answer = index.search_candidates(parse_query("cache redis")[0])
    assert answer.degraded is None, answer.degraded
    assert len(answer.candidates) >= 20
    assert len(index.read_manifest()) >= 50
    looks += 1
print(looks)
"""

SAVER = """
import sys
from pathlib import Path
from typing import Any
from filemem.index import Index
from tests.index.hashing import Hashing
from tests.index.samples import make, fold
index = Index(Path(sys.argv[1]), Hashing() if sys.argv[3] == "vectors" else None)
number = int(sys.argv[2])
print("ready", flush=True)
while True:
    index.add_document(make(number, words=20))
    print(number, flush=True)
    number += 1
    if number % 3 == 0:
        fold(index)
"""


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TOP
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def ask(child: subprocess.Popen[str], query: str) -> int:
    assert child.stdin
    assert child.stdout
    child.stdin.write(query + "\n")
    child.stdin.flush()
    return int(child.stdout.readline())


def test_another_process_finds_a_save_at_once(words_only: Index) -> None:
    Tree(make(number) for number in range(10)).apply(words_only)
    with process(READER, words_only.root.parent) as child:
        assert ask(child, serial(3)) >= 1
        for number in range(100, 110):
            assert ask(child, serial(number)) == 0
            words_only.add_document(make(number))
            assert ask(child, serial(number)) == 1
            if number % 3 == 0:
                fold(words_only)
                assert ask(child, serial(number)) == 1
        words_only.remove_document(make(100).path)
        assert ask(child, serial(100)) == 0
        fold(words_only)
        assert ask(child, serial(100)) == 0
        words_only.apply_changes((), lambda path: None, rebuild=True)
        assert ask(child, "cache") == 0


def test_a_commit_under_way_is_never_damage(root: Path) -> None:
    index = Index(root, Hashing())
    tree = Tree(make(number, words=20) for number in range(50))
    tree.apply(index)
    with process(LOOKER, root, 1.5) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        end, number = time.monotonic() + 1.5, 100
        while time.monotonic() < end:
            for _ in range(3):
                index.add_document(make(number, words=20))
                number += 1
            fold(index)
            if number % 5 == 0:
                tree.docs.update(
                    (make(n, words=20).path, make(n, words=20)) for n in range(100, number)
                )
                tree.apply(index, anew=True)
        assert int(child.stdout.read()) > 3
        assert child.wait() == 0
    assert index.check_database() == []
    index.close()


def trial(root: Path, seed: int, kind: str) -> None:
    """Kill a process that saves and folds; every save that it acknowledged is found, and the next writer works."""
    number = seed * 1000
    with process(SAVER, root, number, kind) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        time.sleep(random.Random(seed).uniform(0.01, 0.35))
        child.kill()
        saved = [int(line) for line in child.stdout.read().split("\n") if line]
    index = Index(root, Hashing() if kind == "vectors" else None)
    for one in saved:
        answer = index.search_candidates(parse_query(serial(one))[0], mode="keyword")
        assert len(answer.candidates) == 1, (seed, one)
    assert index.check_database() == []
    fold(index)
    assert index.uncached_count == 0
    assert {make(one).path for one in saved} <= index.read_manifest().keys()
    assert index.check_database() == []
    index.close()


@pytest.mark.parametrize("kind", ["words", "vectors"])
def test_kills_lose_nothing(root: Path, kind: str) -> None:
    for seed in range(3):
        trial(root, seed, kind)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["words", "vectors"])
def test_a_hundred_kills_lose_nothing(root: Path, kind: str) -> None:
    for seed in range(100):
        trial(root, seed, kind)


def test_an_index_that_is_being_made_is_empty_and_not_damaged(tmp_path: Path) -> None:
    reader = Index(tmp_path)
    writer = Index(tmp_path)
    writer.root.mkdir(parents=True)
    unmade = sqlite3.connect(writer.root / NAME)
    unmade.execute("PRAGMA journal_mode = WAL")
    assert reader.read_nodes() == []
    writer.write_notes(looked=7)
    assert reader.notes.looked == 7
    unmade.close()
    reader.close()
    writer.close()
