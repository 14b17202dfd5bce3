"""Saves and searches while the repository is busy, the index is damaged, or the files come and go (laws 1 to 3)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from filemem.errors import Conflict, FilememError
from filemem.memory import Memory
from tests.support import git, head_file, sound, write
from tests.system.tools import cli, following, ok, until


def begin_merge(repo: Path) -> None:
    """Of two branches that changed one line of the code."""
    git(repo, "branch", "other")
    for branch in ("main", "other"):
        git(repo, "switch", "-q", branch)
        write(repo / "code.py", f"print('{branch}')\n")
        git(repo, "commit", "-q", "-a", "-m", branch)
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "other", ok=False)


def test_a_new_record_waits_until_the_repository_is_back(repo: Path) -> None:
    with Memory.open(repo) as memory:
        old = memory.save(topic="storage", decision="Use SQLite", reasoning="One file")
        begin_merge(repo)
        memory.refresh()
        head = git(repo, "rev-parse", "HEAD")
        new = memory.save(topic="storage", decision="Use Postgres", reasoning="Many writers")
        assert (new.commit, new.superseded, bool(new.pending)) == ("", (old.id,), True)
        with pytest.raises(Conflict):
            memory.update(old.id, outcome="failed", reason="locked too often")
        assert git(repo, "rev-parse", "HEAD") == head
        found = memory.search("what storage to use", topic="storage").hits
        assert [hit.record.id for hit in found] == [new.id, old.id], "what waits is found already"
        assert [one["path"] for one in memory.status()["pending"]] == [new.path]
    git(repo, "merge", "--abort")
    with Memory.open(repo) as memory:
        assert memory.status()["pending"] == []
        assert memory.history("storage").heads == (new.id,)
    assert git(repo, "branch", "--show-current") == "main"
    assert head_file(repo, new.path) == (repo / new.path).read_text()
    assert git(repo, "status", "--porcelain") == ""
    assert sound(repo)


def test_what_the_settings_leave_to_the_user_is_written_and_changed_in_place(repo: Path) -> None:
    write(repo / ".filemem.toml", '[commit]\ndecision = "leave"\n')
    head = git(repo, "rev-parse", "HEAD")
    with Memory.open(repo) as memory:
        saved = memory.save(topic="storage", decision="Use SQLite", reasoning="One file")
        memory.update(saved.id, outcome="failed", reason="slow")
        assert "to you to commit" in saved.note
        assert memory.get(saved.id)[0].record.outcome == "failed"
    assert git(repo, "rev-parse", "HEAD") == head


def test_private_records_enter_no_git_object(repo: Path) -> None:
    with Memory.open(repo) as memory:
        saved = memory.save(title="Mine", text="Zebra of my own.", visibility="private")
        assert saved.path.startswith("memory/private/")
        assert (repo / "memory/private/.gitignore").read_text() == "*\n"
        memory.update(saved.id, text="Quagga of my own.")
        assert [hit.title for hit in memory.search("quagga").hits] == ["Mine"]
    assert git(repo, "status", "--porcelain") == ""
    blobs = git(repo, "cat-file", "--batch-check", "--batch-all-objects")
    assert all(
        "own." not in git(repo, "cat-file", "-p", one.split()[0])
        for one in blobs.splitlines()
        if "blob" in one
    )


@pytest.fixture
def filled(repo: Path) -> Path:
    with Memory.open(repo) as memory:
        for number in range(5):
            memory.save(
                topic=f"topic {number}", decision=f"Decide number {number}", reasoning="It works"
            )
        memory.refresh(full=True)
    return repo


def test_the_index_is_removed_while_a_server_runs(filled: Path) -> None:
    with Memory.open(filled, serving=True) as memory, following(memory):
        until(lambda: memory.search("decide").hits)
        (filled / ".git/filemem/index").rename(filled / ".git/filemem/gone")
        shutil.rmtree(filled / ".git/filemem/gone")
        saved = memory.save(
            topic="after",
            decision="Saved although the index is gone",
            reasoning="Files are the truth",
        )
        assert saved.commit
        until(lambda: len(memory.search("decide", limit=20, mode="keyword").hits) == 5, 20)
        until(lambda: memory.search("although the index is gone", mode="keyword").hits, 20)


def test_a_record_with_conflict_markers_is_reported_and_refused_for_updates(filled: Path) -> None:
    path = next((filled / "memory").rglob("*number-3*.md"))
    git(filled, "switch", "-q", "-c", "other")
    path.write_text(path.read_text().replace("It works", "It works elsewhere"))
    git(filled, "commit", "-q", "-a", "-m", "other")
    git(filled, "switch", "-q", "main")
    path.write_text(path.read_text().replace("It works", "It works here"))
    git(filled, "commit", "-q", "-a", "-m", "main")
    git(filled, "merge", "-q", "other", ok=False)
    assert "<<<<<<<" in path.read_text()
    with Memory.open(filled) as memory:
        assert any(
            str(path).endswith(one.path) and one.level == "error" for one in memory.check()[1]
        )
        with pytest.raises(FilememError, match=path.name):
            memory.update(str(path.relative_to(filled)), outcome="success")
        assert memory.search("number 3").hits[0].title == "Decide number 3"
        assert memory.search("number 1").hits[0].title == "Decide number 1"
    assert "<<<<<<<" in path.read_text()


def test_settings_that_do_not_count_silence_no_reading_and_are_named(repo: Path) -> None:
    ok(repo, "save", "observation", "--text", "the okapi is striped")
    write(repo / ".filemem.toml", "future = 1\n")
    for command in (
        ["search", "okapi"],
        ["brief"],
        ["export"],
        ["save", "observation", "--text", "x"],
    ):
        done = cli(repo, *command)
        assert (done.code, "future" in done.out + done.err) == (0, False), command
    for name in ("status", "check", "doctor"):
        assert "unknown setting 'future'" in cli(repo, name).out, name
    assert cli(repo, "check").code == 0, "it stops no merge"
    write(repo / ".filemem.toml", "future = \n")
    found = ok(repo, "search", "okapi")
    assert found["count"] == 1
    assert "is not TOML" in found["degraded"]
    for name in ("status", "check", "doctor"):
        assert "is not TOML" in cli(repo, name).out, name
    refused = cli(repo, "save", "observation", "--text", "y")
    assert (refused.code, "is not TOML" in refused.err) == (2, True)
