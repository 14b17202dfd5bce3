"""Work that is not done twice: what comes back is taken up, what is saved is folded in with others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemem
from filemem.index import MANY_WAITING
from filemem.memory import Memory
from filemem.memory.syncing import catch_up, nothing_new
from tests.support import git, index_folder, make_repo, write
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
    with Memory.open(repo, serving=True) as opened:
        opened.refresh(full=True)
        yield opened


def titles(memory: Memory, query: str = "") -> set[str]:
    return {hit.record.title for hit in memory.search(query).hits}


def test_a_branch_that_was_seen_before_is_taken_up_again(repo: Path, memory: Memory) -> None:
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    memory.refresh(full=True)
    git(repo, "switch", "-q", "main")
    assert memory.refresh(full=True).changed == 1, "main was not yet left for another branch: one file is gone"
    git(repo, "switch", "-q", "other")
    assert memory.refresh(full=True).changed == 0
    assert titles(memory) == {"Use Redis", "Use tokens"}
    git(repo, "switch", "-q", "main")
    assert memory.refresh(full=True).changed == 0
    assert titles(memory) == titles(memory, "redis tokens") == {"Use Redis"}


def test_what_was_edited_meanwhile_is_seen_in_the_branch_taken_up(repo: Path, memory: Memory) -> None:
    git(repo, "switch", "-q", "-c", "other")
    saved = memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    memory.refresh(full=True)
    git(repo, "switch", "-q", "main")
    memory.refresh(full=True)
    git(repo, "switch", "-q", "other")
    path = repo / saved.path
    path.write_text(path.read_text().replace("Use tokens", "Use passkeys"))
    assert memory.refresh(full=True).changed == 1
    assert titles(memory, "passkeys") == {"Use passkeys"}


@pytest.mark.parametrize("part", ["seal.json", "entries", "words/meta.json"])
def test_a_damaged_kept_generation_is_not_taken_up(repo: Path, memory: Memory, part: str) -> None:
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    memory.refresh(full=True)
    git(repo, "switch", "-q", "main")
    memory.refresh(full=True)
    for kept in (index_folder(repo) / "kept").iterdir():
        data = (kept / part).read_bytes()
        (kept / part).unlink()
        (kept / part).write_bytes(data[:-3] + b"???")
    git(repo, "switch", "-q", "other")
    memory.refresh(full=True)
    assert titles(memory) == {"Use Redis", "Use tokens"}


def test_saves_that_a_watcher_names_wait_for_one_another(repo: Path, memory: Memory) -> None:
    for number in range(MANY_WAITING):
        saved = memory.save(title=f"Note {number}", text="about redis")
        memory.refresh(hints=[str(repo / saved.path), str((repo / saved.path).parent)])
        waiting = memory._store.index.pending()
        assert waiting in (number + 1, 0), "all wait, or all are folded in"
    assert memory._store.index.pending() == 0, "so many do not wait any longer"
    assert len(memory.search("redis", limit=50).hits) == MANY_WAITING + 1


def test_an_edit_that_a_watcher_names_does_not_wait(repo: Path, memory: Memory) -> None:
    saved = memory.save(title="A note", text="about redis")
    path = repo / saved.path
    path.write_text(path.read_text().replace("redis", "memcached"))
    assert memory.refresh(hints=[str(path)]).changed == 1
    assert titles(memory, "memcached") >= {"A note"}


def test_what_a_look_has_found_already_needs_no_other(repo: Path, memory: Memory) -> None:
    saved = memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    memory.refresh(full=True)
    store, path = memory._store, repo / saved.path
    late = [str(path), str(path.parent), str(path.parent.parent)]  # a watcher may be slower than a look
    assert nothing_new(store, late)
    stranger = path.with_name("20250101-by-hand.md")
    stranger.write_text("# Written by hand\n")
    assert not nothing_new(store, [*late, str(stranger)])
    stranger.unlink()
    path.write_text(path.read_text().replace("Use tokens", "Use passkeys"))
    assert not nothing_new(store, late)
    shutil.move(path.parent.parent, repo / "away")
    assert not nothing_new(store, [str(path.parent.parent)]), "a folder that went away took its records along"


@pytest.mark.parametrize(("command", "remembered"), [("commit", True), ("checkout", False)])
def test_commits_made_during_a_look_are_news_for_the_next(
    repo: Path, memory: Memory, command: str, remembered: bool
) -> None:
    before = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "branch", "other", git(repo, "commit-tree", "-m", "Unrelated", "HEAD^{tree}").strip())
    act = {"commit": ("commit", "-q", "--allow-empty", "-m", "Meanwhile"), "checkout": ("checkout", "-q", "other")}
    (repo / "memory" / "new.md").write_text("# Written by hand\n")
    catch_up(memory._store, full=True, progress=lambda _done, _all: git(repo, *act[command]))
    assert memory._store.index.notes.head == (before if remembered else "")
    memory.refresh(full=True)
    assert memory._store.index.notes.head == git(repo, "rev-parse", "HEAD").strip()


def test_a_memory_that_has_rested_answers_as_before(memory: Memory) -> None:
    before = titles(memory, "what do we cache with")
    memory.rest()
    assert titles(memory, "what do we cache with") == before == {"Use Redis"}
    memory.rest()
    assert memory.refresh(full=True).changed == 0


def test_another_model_is_taken_over_while_the_old_index_answers(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(repo) as memory:
        memory.refresh(full=True)
    other = tmp_path / "another-model"
    shutil.copytree(Path(filemem.__file__).with_name("model"), other)
    monkeypatch.setenv("FILEMEM_MODEL", str(other))
    with Memory.open(repo, serving=True) as memory:
        before = memory.search("what do we cache with redis")
        assert (len(before.hits), "must be rebuilt" in before.degraded) == (1, True)
        memory.refresh(full=True)
        after = memory.search("what do we cache with redis")
        assert (len(after.hits), after.degraded) == (1, "")
        assert memory._store.index.model.startswith(f"{other}@")


def test_a_model_that_is_not_there_is_not_asked_for_again_and_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEMEM_MODEL", "nobody/nothing")
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        assert memory.refresh(full=True).changed == 0
        assert "nobody/nothing" in memory.search("redis").degraded


WATCHED = """
import sys
from contextlib import suppress
started = []
sys.addaudithook(lambda event, given: started.append(given[1]) if event == "subprocess.Popen" else None)
from filemem.cli import main
from filemem.memory import following
following.TICK = 10**13
sys.argv[:1] = ["filemem", "search"]
with suppress(SystemExit):
    main()
heavy = {"subprocess", "logging", "shutil", "hashlib", "numpy"}
ours = {"memory.origins", "memory.meant", "memory.values", "memory.governing", "repo.history", "dialects.profiles"}
print(started, *sorted((heavy | {f"filemem.{name}" for name in ours}) & sys.modules.keys()), file=sys.stderr)
"""


STATED = "---\nid: decision_cache_1700000000000_abcd1234\ntype: decision\n---\n# Use Redis\n\nIt is there.\n"


@pytest.mark.parametrize(("more", "loaded"), [(("--mode", "keyword"), ""), ((), "numpy")], ids=["words", "both"])
def test_a_search_of_an_index_in_step_starts_no_process(tmp_path: Path, more: tuple[str, ...], loaded: str) -> None:
    repo = make_repo(tmp_path / "repo")  # what filemem saves itself is looked after for a while
    write(repo / "memory/decisions/redis.md", STATED)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Record")
    command = [sys.executable, "-c", WATCHED, "redis", *more]

    def told() -> str:
        done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=True)
        assert "Use Redis" in done.stdout
        return done.stderr.splitlines()[-1].strip()

    until(lambda: told() == f"[] {loaded}".strip())  # while folders are young they are looked at again
