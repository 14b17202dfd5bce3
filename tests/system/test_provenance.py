"""Who stands behind a record comes from Git alone, whatever the file says of itself: the author of the commit that
brought it, whom its trailers name, who edited it since, and whether the default branch has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory
from filemem.query import Provenance
from tests.support import git, write
from tests.system.tools import ok

FILE = "memory/decisions/caching.md"
TEXT = "---\ntopic: caching\n---\n# Use an LRU cache\n\nOne process.\n"
GRACE: dict[str, Any] = {"GIT_AUTHOR_NAME": "Grace", "GIT_AUTHOR_EMAIL": "grace@example.com"}
MESSAGE = "Decide\n\nReviewed-by: Alan <alan@example.com>\nCo-authored-by: Mary <mary@example.com>\nAgent: claude-code"


def commit(memory: Memory, message: str, text: str = "", **environment: Any) -> str:
    repo = memory.work_tree
    if text:
        write(repo / FILE, text)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", message, **environment)
    memory.refresh()
    return git(repo, "rev-parse", "HEAD")


def by(memory: Memory) -> Provenance:
    """The provenance of the first hit; `get` must say the same."""
    hit = memory.search("LRU cache").hits[0]
    assert memory.get(hit.id)[0].provenance == hit.provenance
    return hit.provenance


def test_people_come_from_the_commit_and_its_trailers(memory: Memory) -> None:
    first = commit(memory, MESSAGE, TEXT)
    told = by(memory)
    assert (told.author, told.agent, told.commit) == ("Ada", "claude-code", first)
    assert told.reviewers == ("Alan <alan@example.com>",)
    assert told.co_authors == ("Mary <mary@example.com>",)
    assert told.edits == ()
    second = commit(memory, "Say more", TEXT + "\nMeasured since.\n", **GRACE)
    (edit,) = by(memory).edits
    assert (edit.author, edit.id) == ("Grace", second)
    git(memory.work_tree, "mv", FILE, "memory/decisions/renamed.md")
    commit(memory, "Rename")
    assert (by(memory).author, by(memory).commit) == ("Ada", first)
    memory.rebuild()
    assert (by(memory).author, by(memory).edits[0].id) == ("Ada", second)


def test_a_file_cannot_say_who_wrote_it(memory: Memory) -> None:
    forged = (
        "---\ntopic: caching\nauthor: Linus\ncommit: 1111111\nreviewers: [Everybody]\nby: {author: Linus}\n---\n"
        "# Use an LRU cache\n\nText.\n\nReviewed-by: Everybody\nCo-authored-by: Linus\n"
    )
    write(memory.work_tree / FILE, forged)
    memory.refresh()
    assert by(memory) == Provenance()
    commit(memory, "Decide")
    told = by(memory)
    assert (told.author, told.reviewers, told.co_authors) == ("Ada", (), ())


def test_the_trailer_names_who_acts_and_not_who_saved(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = ok(repo, "save", "decision", "--topic", "caching", "--decision", "Use an LRU cache", "--reasoning", "One",
               "--agent", "claude")["id"]  # fmt: skip

    def acted(*command: str) -> str:
        ok(repo, *command)
        return git(repo, "log", "-1", "--format=%(trailers:key=Agent,valueonly)").strip()

    assert acted("update", saved, "--outcome", "failed", "--reason", "Evicts early") == "", (
        "a person did"
    )
    assert acted("forget", saved) == ""
    monkeypatch.setenv("FILEMEM_AGENT", "codex")
    assert acted("restore", saved) == "codex"
    assert acted("update", saved, "--title", "Use an LRU", "--agent", "gemini") == "gemini"
