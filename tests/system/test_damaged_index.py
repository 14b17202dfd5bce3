"""A page of the index that was overwritten, and caches cut short, end in right answers and never in a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.system.tools import cli

PAGE = 4096


@pytest.fixture
def filled(repo: Path) -> Path:
    with Memory.open(repo) as memory:
        for number in range(5):
            memory.save(topic=f"topic {number}", decision=f"Decide {number}", reasoning="Works")
        memory.refresh(full=True)
        memory.keeper.store.index.update_caches(check_all=True)
    return repo


def answers(repo: Path) -> tuple[int, list[str]]:
    done = cli(repo, "search", "decide", "--mode", "keyword", "--limit", "9")
    assert "Traceback" not in done.err
    lines = [line for line in done.out.splitlines() if "Decide" in line]
    return done.code, sorted(lines)


def test_an_overwritten_page_is_healed_or_does_no_harm(filled: Path, tmp_path: Path) -> None:
    expected = answers(filled)
    folder = filled / ".git/filemem/index"
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    database = next(folder.rglob("index.db"))
    pages = database.stat().st_size // PAGE
    assert pages > 10
    for number in range(0, pages, max(1, pages // 8)):
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        with database.open("r+b") as file:
            file.seek(number * PAGE)
            file.write(b"\xa5" * PAGE)
        answers(filled)
        with Memory.open(filled) as memory:
            memory.refresh(full=True)
        assert answers(filled) == expected, number


@pytest.mark.parametrize("part", ["words", "vectors"])
def test_a_cache_that_was_cut_short_does_no_harm(filled: Path, part: str) -> None:
    expected = answers(filled)
    files = [f for f in (filled / ".git/filemem/index").rglob(f"{part}/*") if f.stat().st_size]
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert answers(filled) == expected
