"""What an attack broke once, each as short as it can be told."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from filemem.memory import Memory, catch_up
from tests.support import git, index_folder, make_repo, write


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


def save(repo: Path, topic: str = "caching", decision: str = "Use Redis") -> Path:
    with Memory.open(repo) as memory:
        return repo / memory.save(topic=topic, decision=decision, reasoning="it is there").path


def found(repo: Path, query: str) -> list[str]:
    with Memory.open(repo) as memory:
        return [hit.record.title for hit in memory.search(query, mode="keyword").hits]


def append(path: Path, text: str) -> None:
    """Write as an editor does that keeps the file: no folder's time changes."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_an_edit_in_place_is_found_without_a_server(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(repo)
    assert found(repo, "zebracorn") == []
    append(path, "\nzebracorn walks\n")
    monkeypatch.setattr(catch_up, "TICK", 0)
    monkeypatch.setattr(catch_up, "PACE", 0)
    assert found(repo, "zebracorn") == ["Use Redis"]


def test_an_edit_in_place_that_is_committed_is_seen_by_a_look_at_folders(repo: Path) -> None:
    path = save(repo)
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        append(path, "\nzebracorn walks\n")
        git(repo, "commit", "-q", "-a", "-m", "edit")
        assert memory.refresh().changed == 1
        assert len(memory.search("zebracorn", mode="keyword").hits) == 1


def test_what_the_user_unstages_stays_unstaged(repo: Path) -> None:
    path = save(repo)
    git(repo, "rm", "-q", "--cached", str(path))
    later = time.time() + 10  # as if that had been written well after the save
    os.utime(repo / ".git/index", (later, later))
    found(repo, "redis")
    assert git(repo, "diff", "--cached", "--name-status").startswith("D")


def test_what_the_user_removes_from_git_stays_removed(repo: Path) -> None:
    path = save(repo)
    git(repo, "rm", "-q", "--cached", str(path))
    git(repo, "commit", "-q", "-m", "untrack", GIT_COMMITTER_DATE=f"{int(time.time()) + 60} +0000")
    head = git(repo, "rev-parse", "HEAD")
    found(repo, "redis")
    assert git(repo, "rev-parse", "HEAD") == head
    assert path.exists()


def test_two_stores_in_one_repository_leave_each_other_alone(repo: Path) -> None:
    path = save(repo)
    with Memory.open(repo, store="docs/notes") as memory:
        memory.save(topic="auth", decision="Use tokens", reasoning="no sessions")
    path.unlink()
    with Memory.open(repo, store="docs/notes", serving=True) as memory:
        memory.refresh(full=True)
        assert memory.keeper.trouble is None
    assert not path.exists()


def test_after_an_index_that_could_not_be_built_the_next_one_is_used(repo: Path) -> None:
    save(repo)
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        assert memory._store.from_files().index.lookup("topic", ["caching"])
        memory.save(topic="caching", decision="Use an LRU cache", reasoning="fewer parts")
        assert len(memory.save(topic="caching", decision="Use both", reasoning="two levels").superseded) == 1


def test_a_sha256_repository_can_delete(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", object_format="sha256")
    path = save(repo)
    with Memory.open(repo) as memory:
        assert memory.delete(memory.search("redis").hits[0].record.id).commit
    assert not path.exists()
    assert git(repo, "status", "--porcelain") == ""


def test_settings_of_git_s_output_change_nothing(repo: Path) -> None:
    save(repo)
    for setting in ("i18n.logOutputEncoding=UTF-16", "diff.orderFile=/nonexistent", "log.showRoot=false"):
        git(repo, "config", *setting.split("="))
    shutil.rmtree(repo / ".git/filemem")
    with Memory.open(repo) as memory:
        hit = memory.search("redis").hits[0]
    assert hit.provenance.author == "Ada"


def test_settings_of_git_s_log_change_nothing_that_history_says(repo: Path) -> None:
    """A record that a merge brought, one that both sides edited, two that were renamed and changed, an agent."""
    paths = [save(repo, topic, f"Use {topic}") for topic in ("alpha", "beta")]
    git(repo, "switch", "-q", "-c", "side")
    for number, path in enumerate(paths):
        write(path, path.read_text() + "\nMore of it.\n")
        git(repo, "mv", str(path), f"memory/{number}.md")
    git(repo, "commit", "-q", "-am", "Renamed", "-m", "Agent: someone", GIT_AUTHOR_NAME="Bob")
    git(repo, "switch", "-q", "main")
    write(paths[0], paths[0].read_text().replace("# Use alpha", "# Use alpha now"))
    git(repo, "commit", "-q", "-am", "Edited", GIT_AUTHOR_NAME="Cy")
    git(repo, "merge", "-q", "--no-commit", "--no-ff", "side")
    write(repo / "memory/merged.md", "---\ntopic: merged\n---\n# Said in the merge\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Merge", GIT_AUTHOR_NAME="Di")

    def told() -> list[object]:
        shutil.rmtree(repo / ".git/filemem")  # the table of commits too
        with Memory.open(repo) as memory:
            return [memory.search("", limit=9).hits, *map(memory.history, ("alpha", "beta", "merged"))]

    before = told()
    for setting in ("log.diffMerges=combined", "log.follow=true", "diff.renameLimit=1", "trailer.separators=!"):
        git(repo, "config", *setting.split("="))
    assert told() == before


def test_two_folders_that_changed_places_are_seen(repo: Path, tmp_path: Path) -> None:
    names = ("alpha", "beta")
    one, two = (write(repo / f"memory/decisions/{name}/a.md", f"# Use {name}\n").parent for name in names)
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        for folder in (one, two):
            os.utime(folder, (1, 1))
        time.sleep(0.05)
        memory.refresh()
        one.rename(tmp_path / "aside")
        two.rename(one)
        (tmp_path / "aside").rename(two)
        for folder in (one, two, one.parent):
            os.utime(folder, (1, 1))
        assert memory.refresh().changed == 2


@pytest.mark.parametrize("name", ["index.db", "fresh/00000000000000000001-0123abcd.json"])
def test_a_folder_in_place_of_an_index_file_is_damage(repo: Path, name: str) -> None:
    save(repo)
    path = index_folder(repo) / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    with Memory.open(repo) as memory:
        answer = memory.search("redis")
    assert answer.hits or answer.degraded
