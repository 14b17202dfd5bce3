"""Work that is not done twice: caches move forward together, and a search of an index in step starts no process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.memory.catch_up import note_known_head
from tests.support import git, make_repo, write
from tests.system.tools import until


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one decision."""
    made = make_repo(tmp_path / "repo")
    with Memory.open(made) as memory:
        memory.save(topic="caching", decision="Use Redis", reasoning="it is there")
    return made


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    time.sleep(0.05)  # a file of this tick of the clock is looked at twice
    with Memory.open(repo, serving=True) as opened:
        opened.refresh(full=True)
        yield opened


def titles(memory: Memory, query: str = "") -> set[str]:
    return {hit.record.title for hit in memory.search(query).hits}


def test_the_caches_are_moved_forward_when_nobody_calls(repo: Path, memory: Memory) -> None:
    for number in range(2):
        saved = memory.save(title=f"Note {number}", text="about redis")
        memory.refresh(hints=[str(repo / saved.path), str((repo / saved.path).parent)])
        assert memory._store.index.uncached_count == number + 1
    memory.refresh(full=True)
    assert memory._store.index.uncached_count == 0
    assert len(memory.search("redis", limit=50).hits) == 3


def test_the_commit_table_learns_of_a_save_from_the_save(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory.search("redis").hits  # the table is in step
    first = memory.save(
        topic="caching", decision="Use an LRU", reasoning="one process", agent="claude", tags=["a"]
    )
    memory.update(first.id, outcome="success", reason="quick")
    started: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda *given, **_: started.append(given))
        told = memory.get(first.id)[0].provenance
    assert (told.agent, len(told.edits), started) == ("claude", 1, [])
    history = memory._store.history
    path = first.path
    quick = history.read_touches([path])
    history.close()
    for left in (repo / ".git/filemem").glob("commits.db*"):
        left.unlink()
    assert history.read_touches([path]) == quick  # as git log prints it


def test_a_commit_that_touches_no_record_needs_no_look(repo: Path, memory: Memory) -> None:
    write(repo / "code.py", "print(2)\n")
    git(repo, "commit", "-q", "-a", "-m", "Code")
    assert note_known_head(memory._store)
    write(repo / "memory/decisions/by-hand.md", "# Written by hand\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Record")
    assert not note_known_head(memory._store)
    assert titles(memory, "written by hand") >= {"Written by hand"}


WATCHED = """
import sys
from contextlib import suppress
started = []
sys.addaudithook(lambda event, given: started.append(given[1]) if event == "subprocess.Popen" else None)
from filemem.cli import main
from filemem.memory import catch_up
catch_up.MIN_SCAN_INTERVAL = 10**13
sys.argv[:1] = ["filemem", "search"]
with suppress(SystemExit):
    main()
heavy = {"logging", "numpy"}
ours = {"memory.save", "memory.why", "memory.evidence", "memory.check", "repo.commit"}
print(started, *sorted((heavy | {f"filemem.{name}" for name in ours}) & sys.modules.keys()), file=sys.stderr)
"""


STATED = "---\nid: decision_cache_1700000000000_abcd1234\ntype: decision\n---\n# Use Redis\n\nIt is there.\n"


@pytest.mark.parametrize(
    ("more", "loaded"), [(("--mode", "keyword"), ""), ((), "numpy")], ids=["words", "both"]
)
def test_a_search_of_an_index_in_step_starts_no_process(
    tmp_path: Path, more: tuple[str, ...], loaded: str
) -> None:
    repo = make_repo(tmp_path / "repo")  # what filemem saves itself is looked after for a while
    write(repo / "memory/decisions/redis.md", STATED)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Record")
    command = [sys.executable, "-c", WATCHED, "redis", *more]

    def told() -> str:
        done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=True)
        assert "Use Redis" in done.stdout
        return done.stderr.splitlines()[-1].strip()

    until(
        lambda: told() == f"[] {loaded}".strip()
    )  # while folders are young they are looked at again


def test_a_first_index_is_asked_as_it_grows_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filemem.index.update.CHUNK", 1)
    repo = make_repo(tmp_path / "repo")
    for day in (10, 12, 11):
        write(
            repo / f"memory/decisions/cache/202511{day}-day-{day}.md", f"# Cache since day {day}\n"
        )
    seen = list[set[str]]()
    with Memory.open(repo, serving=True) as memory, Memory.open(repo, serving=True) as other:
        memory.keeper._progress = lambda *_: seen.append(titles(other, "cache"))
        assert "not built yet" in other.search("cache").degraded
        memory.refresh(full=True)
        assert seen[0] == {"Cache since day 12"}
        assert seen[1] == {"Cache since day 12", "Cache since day 11"}
        assert len(titles(other, "cache")) == 3
        assert other.search("cache").degraded == ""
