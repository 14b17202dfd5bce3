"""A server whose HEAD is moved under it: what is saved and found at once is true to where HEAD is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.repo import Repo
from tests.support import git, make_repo


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """A server's memory, its watcher slower than anything in these tests."""
    with Memory.open(repo, serving=True) as opened:
        opened.save(topic="db", decision="Use Postgres", reasoning="known")
        opened.refresh(full=True)
        yield opened


def titles(memory: Memory, **restrictions: object) -> set[str]:
    return {hit.record.title for hit in memory.search(**restrictions).hits}  # type: ignore[arg-type]


def test_a_save_after_a_checkout_replaces_what_holds_there(repo: Path, memory: Memory) -> None:
    before = memory.search().hits[0].id
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="db", decision="Use MySQL", reasoning="on the other branch")
    git(repo, "switch", "-q", "main")
    assert memory.save(topic="db", decision="Use SQLite", reasoning="on main").superseded == (before,)
    git(repo, "merge", "-q", "-m", "Merge", "other")
    assert titles(memory, topic="db", live=True) == {"Use MySQL", "Use SQLite"}


def test_a_save_after_a_pull_replaces_what_was_pulled(repo: Path, memory: Memory, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    for name in ("user.name", "user.email"):
        git(clone, "config", name, git(repo, "config", name).strip())
    with Memory.open(clone) as mate:
        pulled = mate.save(topic="db", decision="Use DuckDB", reasoning="a mate's")
    git(repo, "pull", "-q", "--ff-only", str(clone), "HEAD")
    assert memory.save(topic="db", decision="Use SQLite", reasoning="ours").superseded == (pulled.id,)


def test_what_a_checkout_brought_is_found_at_once(repo: Path, memory: Memory) -> None:
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="auth", decision="Use tokens", reasoning="on the other branch")
    memory.refresh(full=True)
    git(repo, "switch", "-q", "main")
    assert titles(memory) == {"Use Postgres"}
    git(repo, "switch", "-q", "other")
    assert titles(memory) == {"Use Postgres", "Use tokens"}


def test_saves_of_another_process_need_no_look(repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(repo, serving=True) as other:
        first = other.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
        second = other.save(topic="auth", decision="Use passkeys", reasoning="nothing to type")
    looks: list[object] = []
    monkeypatch.setattr(Memory, "_catch_up", lambda *_, **how: looks.append(how))
    assert memory.save(topic="auth", decision="Use both", reasoning="for a while").superseded == (second.id,)
    assert titles(memory, topic="auth", live=True) == {"Use both"}
    assert second.superseded == (first.id,)
    assert not looks


def test_where_the_writer_of_the_index_stands_still_the_files_tell_what_holds(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filemem.memory.LONG", 0.2)
    with Memory.open(repo, serving=True) as reader:
        before = reader.search().hits[0].id
        git(repo, "switch", "-q", "-c", "other")
        memory.save(topic="db", decision="Use MySQL", reasoning="on the other branch")
        git(repo, "switch", "-q", "main")
        assert reader.save(topic="db", decision="Use SQLite", reasoning="on main").superseded == (before,)


def test_a_checkout_amid_the_aftercare_leaves_no_entry_behind(
    repo: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "switch", "-q", "-c", "other")
    memory.save(topic="auth", decision="Use tokens", reasoning="no session to keep")
    real = Repo.index_entries

    def during(self: Repo, paths: Sequence[str]) -> dict[str, str]:
        monkeypatch.setattr(Repo, "index_entries", real)
        git(repo, "switch", "-q", "main")
        return real(self, paths)

    monkeypatch.setattr(Repo, "index_entries", during)
    memory.refresh()
    assert git(repo, "branch", "--show-current").strip() == "main", "the switch took place"
    assert git(repo, "status", "--porcelain") == ""
