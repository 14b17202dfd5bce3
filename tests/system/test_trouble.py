"""Saves and searches while the repository is busy, the index is damaged, or the files come and go."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filemem.cli import EXIT_CODES
from filemem.errors import BrokenStore
from filemem.index import versions
from filemem.memory import Memory, origins, syncing
from filemem.query.hit import Hit
from filemem.record import topic_key
from filemem.repo import arrivals
from filemem.repo.history import History
from filemem.watch import Watcher
from tests.support import git, head_file, index_folder, sound, write
from tests.system.tools import FILEMEM, cli, ok, talking, until


def begin_rebase(repo: Path) -> None:
    _conflict(repo)
    git(repo, "rebase", "-q", "other", ok=False)


def begin_cherry_pick(repo: Path) -> None:
    _conflict(repo)
    git(repo, "cherry-pick", "other", ok=False)


def begin_merge(repo: Path) -> None:
    _conflict(repo)
    git(repo, "merge", "-q", "other", ok=False)


def detach(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")


def begin_bisect(repo: Path) -> None:
    _conflict(repo)
    git(repo, "bisect", "start", "-q")


def _conflict(repo: Path) -> None:
    """Two branches that changed one line of the code."""
    git(repo, "branch", "other")
    for branch in ("main", "other"):
        git(repo, "switch", "-q", branch)
        write(repo / "code.py", f"print('{branch}')\n")
        git(repo, "commit", "-q", "-a", "-m", branch)
    git(repo, "switch", "-q", "main")


BUSY: list[tuple[Callable[[Path], None], tuple[str, ...]]] = [
    (begin_rebase, ("rebase", "--abort")),
    (begin_cherry_pick, ("cherry-pick", "--abort")),
    (begin_merge, ("merge", "--abort")),
    (begin_bisect, ("bisect", "reset")),
    (detach, ("switch", "-q", "main")),
]


@pytest.mark.parametrize(("begin", "end"), BUSY, ids=lambda value: getattr(value, "__name__", ""))
def test_a_save_waits_until_the_repository_is_back(
    repo: Path, begin: Callable[[Path], None], end: tuple[str, ...]
) -> None:
    with Memory.open(repo) as memory:
        old = memory.save(topic="storage", decision="Use SQLite", reasoning="One file")
        begin(repo)
        memory.refresh()
        head = git(repo, "rev-parse", "HEAD")
        new = memory.save(topic="storage", decision="Use Postgres", reasoning="Many writers")
        memory.update(old.id, outcome="failed", reason="locked too often")
        assert (new.commit, new.superseded) == ("", (old.id,))
        assert new.pending
        assert git(repo, "rev-parse", "HEAD") == head
        found = memory.search("what storage to use", topic="storage").hits
        assert [hit.record.id for hit in found] == [new.id, old.id]
        assert found[1].record.outcome == "failed", "what waits is shown already"
        assert len(memory.status()["pending"]) == 2
    git(repo, *end)
    with Memory.open(repo) as memory:
        assert memory.status()["pending"] == []
        assert memory.history("storage").heads == (new.id,)
        assert memory.get(old.id)[0].record.outcomes[-1].reason == "locked too often"
    assert git(repo, "branch", "--show-current") == "main"
    assert head_file(repo, new.path) == (repo / new.path).read_text()
    assert git(repo, "status", "--porcelain") == ""
    assert sound(repo)


def test_searches_during_many_checkouts(repo: Path) -> None:
    for branch in ("one", "two"):
        git(repo, "switch", "-q", "-c", branch, "main")
        for number in range(100):
            write(repo / f"memory/decisions/{branch}/{number}.md", f"# Record {number} of branch {branch}\n")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", branch)
    wrong: list[BaseException] = []
    ended = threading.Event()
    with Memory.open(repo, serving=True) as memory, Watcher(memory):

        def ask() -> None:
            while not ended.is_set():
                try:
                    for hit in memory.search("record of branch", limit=50).hits:
                        assert hit.path.startswith("memory/decisions/")
                except BaseException as error:  # noqa: BLE001  whatever it is, the test reports it
                    wrong.append(error)

        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        for turn in range(20):
            git(repo, "switch", "-q", ("one", "two")[turn % 2])
        there = sorted(str(path.relative_to(repo / "memory")) for path in (repo / "memory").rglob("*.md"))
        assert len(there) == 100
        ended.set()
        for client in clients:
            client.join()
        assert wrong == []

        def unlike() -> set[str]:
            """What the index holds and the files do not, or the other way, or nobody is known to have written."""
            return {node.path for node in memory._store.nodes() if node.birth.author} ^ set(there)

        until(lambda: not unlike() or print(len(unlike()), sorted(unlike())[:3], memory.trouble, memory.degraded))


@pytest.mark.parametrize("place", [(syncing, "origins"), (History, "walk"), (arrivals, "claims")])
def test_a_look_during_which_another_branch_was_there_is_made_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
    git(repo, "switch", "-q", "-c", "other")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Try\n\nDecision: Use the new one\nOutcome: failed")
    git(repo, "switch", "-q", "main")
    for name in ("old", "new"):  # two files that had one name, one after the other
        write(repo / "memory/decisions/db.md", f"# Use the {name} one\n")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", name)
        git(repo, "mv", "memory/decisions/db.md", f"memory/decisions/{name}.md")
        git(repo, "commit", "-q", "-m", "Move")
    with Memory.open(repo) as memory:
        memory.rebuild()
        shown, owners = memory.search("one").hits, origins.taken(memory._store)
        asked = getattr(*place)

        def told(hit: Hit) -> object:
            return hit.provenance, hit.evidence

        def elsewhere(*arguments: Any) -> object:
            git(repo, "switch", "-q", "other")
            try:
                return asked(*arguments)
            finally:
                git(repo, "switch", "-q", "main")

        git(repo, "commit", "-q", "--allow-empty", "-m", "More")
        with monkeypatch.context() as patched:
            patched.setattr(*place, elsewhere)
            memory.rebuild()
            memory.refresh(full=True)
            origins.origins(memory._store)
        assert origins.taken(memory._store).keys() == owners.keys()
        memory.refresh()
        assert [told(hit) for hit in memory.search("one").hits] == [told(hit) for hit in shown]


@pytest.fixture
def filled(repo: Path) -> Path:
    with Memory.open(repo) as memory:
        for number in range(5):
            memory.save(topic=f"topic {number}", decision=f"Decide number {number}", reasoning="It works")
    return repo


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), max(1, len(data) // 7)):
        data[at] ^= 0x55
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [truncate, flip, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_index_is_built_anew_and_never_answers_wrongly(
    filled: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    index = filled / ".git/filemem/index"
    shutil.copytree(index, tmp_path / "whole")
    names = [path.relative_to(index) for path in index.rglob("*") if path.is_file() and path.suffix != ".md"]
    names = [name for name in names if name.name != "lock" and (index / name).stat().st_size]
    assert len(names) > 8
    for name in names:
        harm(index / name)
        done = cli(filled, "search", "what did we decide?", "--json")
        assert done.code == 0, (name, done)
        answer = done.json
        assert answer["count"] == 5 or answer.get("degraded"), name
        assert cli(filled, "search", "number 3", "--json").json["results"][0]["title"] == "Decide number 3", name
        shutil.rmtree(index)
        shutil.copytree(tmp_path / "whole", index)


@pytest.mark.parametrize("name", ["CURRENT", "seal.json", "words/meta.json"])
@pytest.mark.parametrize("harm", [truncate, flip, Path.unlink])
def test_a_server_that_starts_on_a_damaged_index_answers(filled: Path, name: str, harm: Callable[[Path], None]) -> None:
    index = index_folder(filled)
    harm(next(path for path in sorted(index.rglob("*")) if str(path).endswith(name)))
    with talking(filled) as talk:
        answer = talk.call("search", query="number 3")
    assert answer["results"][0]["title"] == "Decide number 3"


@pytest.mark.parametrize("name", ["words/*.store", "words/*.term", "vectors/*.rows"])
def test_a_server_outlives_a_mapped_file_that_is_cut(filled: Path, name: str) -> None:
    with talking(filled) as talk:
        assert talk.call("search", query="number 3")["count"] == 5
        newest = max(index_folder(filled).glob("g*"))
        for file in newest.glob(name):
            os.truncate(file, 0)
        assert talk.call("search", query="number 4")["results"][0]["title"] == "Decide number 4"


@pytest.mark.parametrize("asked", ["by who saved", "by another"])
def test_what_waited_to_be_folded_in_and_was_deleted_is_still_replaced(repo: Path, asked: str) -> None:
    with Memory.open(repo, serving=True) as memory, Memory.open(repo, serving=True) as another:
        for each in (memory, another):
            each.refresh(full=True)
        first = memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
        for file in (index_folder(repo) / "fresh").iterdir():
            file.unlink()
        asking = memory if asked == "by who saved" else another
        found = asking.search("redis")
        assert found.degraded or [hit.id for hit in found.hits] == [first.id]
        second = asking.save(topic="caching", decision="Use an LRU cache", reasoning="One process")
        assert second.superseded == (first.id,)


def test_a_save_in_a_rebase_says_that_the_branch_was_not_asked(filled: Path) -> None:
    begin = "sed -i 1s/pick/edit/"
    git(filled, "rebase", "-q", "-i", "HEAD~2", GIT_SEQUENCE_EDITOR=begin)
    saved = ok(filled, "save", "decision", "--topic", "topic 4", "--decision", "Another", "--reasoning", "r")
    assert saved["superseded"] == []
    assert saved["pending"] in saved["note"]
    assert "save with supersedes" in saved["note"]


def test_an_old_server_that_still_runs_and_a_new_command_keep_an_index_each(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as old:
        old.setattr(versions, "FORMAT", "0.00000000")
        server = Memory.open(repo, serving=True)
    with server, Watcher(server):
        saved = server.save(topic="caching", decision="Use Redis", reasoning="Several processes")
        new = ok(repo, "save", "decision", "--topic", "caching", "--decision", "Use an LRU cache", "--reasoning", "One")
        assert new["superseded"] == [saved.id]
        until(lambda: server.history("caching").heads == (new["id"],))
        assert ok(repo, "search", "cache")["results"][0]["id"] == new["id"]
    indexes = repo / ".git/filemem/index/memory"
    assert {path.name for path in indexes.iterdir() if path.is_dir()} == {"0.00000000", versions.FORMAT}


@pytest.mark.parametrize("place", [Path(), Path("fresh")])
def test_a_file_where_a_folder_of_the_index_should_be_stops_no_save(filled: Path, place: Path) -> None:
    folder = index_folder(filled) / place
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("in the way")
    saved = ok(filled, "save", "decision", "--topic", "topic 3", "--decision", "Another", "--reasoning", "r")
    assert len(saved["superseded"]) == 1
    folder.unlink()
    assert ok(filled, "search", "another")["results"][0]["id"] == saved["id"]


def test_what_only_the_index_knows_is_not_told_without_it(filled: Path) -> None:
    with Memory.open(filled) as memory, memory._store.without_index():
        assert len(memory._store.lookup("topic", [topic_key("topic 3")])) == 1
        assert memory._store.lookup("refers", ["topic 3"]) == []


def test_an_index_that_no_version_uses_any_more_is_removed(filled: Path) -> None:
    indexes = index_folder(filled).parent
    dead, used = indexes / "0.00000000", indexes / "0.11111111"
    for folder in (dead, used):
        write(folder / "g0000000001/seal.json", "{}")
        write(folder / "lock", "")
    for path in (dead, *dead.iterdir()):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    ok(filled, "index", "--rebuild")
    assert not dead.exists()
    assert used.exists()


def test_the_index_is_removed_while_a_decision_waits_to_be_saved(repo: Path) -> None:
    with Memory.open(repo, serving=True) as memory:
        first = memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
        memory.refresh(full=True)
        work = memory._store.saver._work
        work.step = lambda step: (
            shutil.rmtree(repo / ".git/filemem/index", ignore_errors=True) if step == "locked" else None
        )
        second = memory.save(topic="caching", decision="Use an LRU cache", reasoning="One process")
        work.step = lambda _: None
        assert second.superseded == (first.id,)
        assert memory.history("caching").heads == (second.id,)


def test_the_index_is_removed_while_a_server_runs(filled: Path) -> None:
    with Memory.open(filled, serving=True) as memory, Watcher(memory):
        until(lambda: memory.search("decide").hits)
        (filled / ".git/filemem/index").rename(filled / ".git/filemem/gone")
        shutil.rmtree(filled / ".git/filemem/gone")
        saved = memory.save(topic="after", decision="Saved although the index is gone", reasoning="Files are the truth")
        assert saved.commit
        until(lambda: len(memory.search("decide", limit=20, mode="keyword").hits) == 5, 20)
        until(lambda: memory.search("although the index is gone", mode="keyword").hits, 20)


def test_a_mass_disappearance_is_undone_by_putting_the_files_back(filled: Path) -> None:
    with Memory.open(filled, serving=True) as memory, Watcher(memory):
        before = until(lambda: {node.id for node in memory._store.nodes()})
        (filled / "memory").rename(filled / "aside")
        until(lambda: not list(memory._store.nodes()))
        (filled / "aside").rename(filled / "memory")
        until(lambda: {node.id for node in memory._store.nodes()} == before)
    assert git(filled, "status", "--porcelain") == ""


def test_a_record_with_conflict_markers_is_marked_and_refused_for_updates(filled: Path) -> None:
    path = next((filled / "memory").rglob("*number-3*.md"))
    git(filled, "switch", "-q", "-c", "other")
    path.write_text(path.read_text().replace("It works", "It works elsewhere"))
    git(filled, "commit", "-q", "-a", "-m", "other")
    git(filled, "switch", "-q", "main")
    path.write_text(path.read_text().replace("It works", "It works here"))
    git(filled, "commit", "-q", "-a", "-m", "main")
    git(filled, "merge", "-q", "other", ok=False)
    assert "<<<<<<<" in path.read_text()
    checked = cli(filled, "check")
    assert checked.code == 1
    assert f"{path.relative_to(filled)}:" in checked.out
    done = cli(filled, "update", str(path.relative_to(filled)), "--outcome", "success")
    assert done.code in (2, 5)
    assert path.name in done.err
    assert "<<<<<<<" in path.read_text()
    assert cli(filled, "search", "number 1", "--json").json["results"][0]["title"] == "Decide number 1"


def test_a_full_disk_is_no_damage(repo: Path) -> None:
    for number in range(150):
        write(
            repo / f"memory/decisions/x/{number}.md", f"# Use thing {number}\n\nword{number} and {number * 7}th words\n"
        )
    # Bytecode that Python writes under the limit would be cut too, and break whatever imports it later.
    limits = "export PYTHONDONTWRITEBYTECODE=1; ulimit -f 8"
    limited = f"{limits}; for command in 'index --rebuild' status; do {{}} -C {{}} $command; echo code $?; done"
    command = limited.format(shlex.quote(FILEMEM), shlex.quote(str(repo)))
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert f"code {EXIT_CODES[BrokenStore]}" in done.stdout
    assert "the search index can not be written or read: File too large" in done.stderr
    assert "free some disk space" in done.stderr
    assert "damaged" not in done.stdout + done.stderr
    assert "not in step" in done.stdout
    assert ok(repo, "search", "word77")["results"][0]["title"] == "Use thing 77"


def test_answers_without_an_index_are_one_threads_and_name_who_wrote(filled: Path) -> None:
    with Memory.open(filled, serving=True) as memory:
        shown = memory.get("Decide number 1")[0]
        followed = list(memory._store.nodes())
        memory._store.index.note(head="")  # so that the next look asks for everything
        with memory._store.without_index():
            assert memory.get(shown.record.id)[0].provenance == shown.provenance
            beside = threading.Thread(target=memory.refresh, kwargs={"full": True})
            beside.start()
            beside.join()
        assert list(memory._store.nodes()) == followed
