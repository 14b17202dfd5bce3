"""What the user told Git to ignore is saved, and not committed without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.repo import Repo, ignoring
from tests.support import git, head_file, make_repo, write
from tests.system.tools import ok

DECISION = ("save", "decision", "--topic", "t", "--decision", "Use X", "--reasoning", "Y")
PATH = "memory/decisions/caching/20250101-use-an-lru-cache-k3f9w2ma.md"
PATTERNS = (
    "memory",
    "memory/",
    "/memory",
    "MEMORY/",
    "memory/**",
    "memory/*",
    "**/decisions",
    "decisions/caching/",
    "*.md",
    "*.MD",
    "20250101*",
    "*",
    "/*/",
    "**",
    "[lm]emory",
    "[^x]emory/",
    "mem\\ory",
    "memor?",
    "*k3f9w2ma.md",
    "memory  ",
    "*.py",
    "__pycache__/",
    "/dist",
    "# memory",
    "!memory",
    "*\n!*.md\n!*/",
    "caching/x",
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


@pytest.mark.parametrize("ignorecase", ["true", "false"])
def test_the_answer_is_gits(repo: Path, ignorecase: str) -> None:
    git(repo, "config", "core.ignorecase", ignorecase)
    said = set()
    for pattern in PATTERNS:
        write(repo / ".gitignore", f"{pattern}\n")
        opened = Repo.discover(repo)
        expected = bool(git(repo, "check-ignore", PATH, ok=False))
        assert bool(opened.ignored(PATH)) is expected, pattern
        opened.close()
        said.add(expected)
    assert said == {True, False}


def test_rules_that_cannot_mean_a_record_start_no_process(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo / ".gitignore", "# build\n__pycache__/\n*.py[cod]\n*$py.class\n/dist\n.venv\nnode_modules/\n")
    opened = Repo.discover(repo)
    assert opened.settings is not None
    monkeypatch.setattr(ignoring, "GitError", None)
    monkeypatch.setattr(type(opened._git), "run", None)
    assert opened.ignored(PATH) == ""
    opened.close()


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude", "excludesFile"])
def test_an_ignored_record_is_written_and_not_committed(repo: Path, tmp_path: Path, where: str) -> None:
    file = write(tmp_path / "ignored" if where == "excludesFile" else repo / where, "*.log\nmemory/\n")
    if where == "excludesFile":
        git(repo, "config", "core.excludesFile", str(file))
    before = git(repo, "rev-parse", "HEAD")
    saved = ok(repo, *DECISION)
    assert saved["pending"] == f"left uncommitted: ignored by {where if where[0] == '.' else file}:2: memory/"
    assert "commit" not in saved
    assert git(repo, "rev-parse", "HEAD") == before
    assert git(repo, "diff", "--cached", "--name-only") == ""
    assert ok(repo, "search", "Use X")["count"] == 1
    assert "ignored by" in ok(repo, "status")["ignored"]
    assert "ignored by" in ok(repo, "init", "--dry-run")["warning"]
    updated = ok(repo, "update", saved["id"], "--outcome", "success")
    assert updated["pending"].startswith("left uncommitted: ignored by")
    git(repo, "add", "-f", saved["path"])
    git(repo, "commit", "-q", "-m", "By force")
    assert ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "slow")["commit"]
    assert "failed" in str(head_file(repo, saved["path"]))
    file.unlink()
    assert ok(repo, *DECISION, "--tag", "x")["commit"]
    assert "ignored" not in ok(repo, "status")
