"""What an attack broke once, each as short as it can be told."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, make_repo, write


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


def test_an_edit_in_place_that_is_committed_is_seen_by_a_look_at_folders(repo: Path) -> None:
    path = save(repo)
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        append(path, "\nzebracorn walks\n")
        git(repo, "commit", "-q", "-a", "-m", "edit")
        assert memory.refresh() == 1
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
            return [
                memory.search("", limit=9).hits,
                *map(memory.history, ("alpha", "beta", "merged")),
            ]

    before = told()
    for setting in (
        "log.diffMerges=combined",
        "log.follow=true",
        "diff.renameLimit=1",
        "trailer.separators=!",
    ):
        git(repo, "config", *setting.split("="))
    assert told() == before
