"""History that tells the story: what each edit changed, who made it, and what Git cannot know."""

from __future__ import annotations

from pathlib import Path

from tests.support import git
from tests.system.tools import cli, ok

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "One process", "--decision")


def edit(repo: Path, path: str, old: str, new: str, subject: str, author: str = "Ada") -> str:
    file = repo / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    git(repo, "commit", "-q", "-a", "-m", subject, GIT_AUTHOR_NAME=author)
    return git(repo, "rev-parse", "HEAD")


def test_edits_renames_and_outcomes_are_told_in_words(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis", "--agent", "claude-code")
    reworded = edit(
        repo, saved["path"], "One process", "Several processes", "Say how many", "Grace"
    )
    (repo / "memory/decisions/elsewhere").mkdir()
    git(repo, "mv", saved["path"], "memory/decisions/elsewhere/redis.md")
    git(repo, "commit", "-q", "-m", "Tidy up")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "evicts too early")
    ok(repo, "update", saved["id"], "--status", "deprecated")
    (step,) = ok(repo, "history", "caching")["chain"]
    assert (step["author"], step["agent"], step["commit"]) == (
        "Ada",
        "claude-code",
        saved["commit"],
    )
    assert [one["changes"] for one in step["revisions"]] == [
        ["reasoning changed"],
        [f"renamed from {saved['path'].removeprefix('memory/')}"],
        ["outcome failed: evicts too early"],
        ["status accepted -> deprecated"],
    ]
    assert (step["revisions"][0]["commit"], step["revisions"][0]["author"]) == (reworded, "Grace")
    out = cli(repo, "history", "caching").out
    assert f"Grace {reworded[:10]}: reasoning changed  (Say how many)" in out
    assert out.count("evicts too early") == 1
    shown = cli(repo, "get", saved["id"], "--history").out
    assert "reasoning changed" in shown
    assert "status accepted -> deprecated" in shown
