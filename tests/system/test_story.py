"""History that tells the story: what each edit changed, who made it, and what Git cannot know."""

from __future__ import annotations

from pathlib import Path

from filemem.memory import Memory
from tests.support import git
from tests.system.tools import cli, ok, talking

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "One process", "--decision")


def edit(repo: Path, path: str, old: str, new: str, subject: str, author: str = "Ada") -> str:
    file = repo / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    git(repo, "commit", "-q", "-a", "-m", subject, GIT_AUTHOR_NAME=author)
    return git(repo, "rev-parse", "HEAD")


def changes(repo: Path, what: str = "caching") -> list[list[str]]:
    return [edit["changes"] for step in ok(repo, "history", what)["chain"] for edit in step["revisions"]]


def test_edits_renames_and_outcomes_are_told_in_words(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis", "--agent", "claude-code")
    reworded = edit(repo, saved["path"], "One process", "Several processes", "Say how many", "Grace")
    (repo / "memory/decisions/elsewhere").mkdir()
    git(repo, "mv", saved["path"], "memory/decisions/elsewhere/redis.md")
    git(repo, "commit", "-q", "-m", "Tidy up")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "evicts too early")
    ok(repo, "update", saved["id"], "--status", "deprecated")
    (step,) = ok(repo, "history", "caching")["chain"]
    assert (step["author"], step["agent"], step["commit"]) == ("Ada", "claude-code", saved["commit"])
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
    with talking(repo) as client:
        told = client.call("timeline", topic="caching")["chain"][0]["revisions"]
        assert told == step["revisions"]
        (record,) = client.call("get", id=saved["id"], history=True)["results"]
        assert record["revisions"] == told
        assert "revisions" not in client.call("get", id=saved["id"])["results"][0]
    shown = cli(repo, "get", saved["id"], "--history").out
    assert "reasoning changed" in shown
    assert "status accepted -> deprecated" in shown


def test_edits_of_any_record_and_those_not_committed(repo: Path) -> None:
    note = ok(repo, "save", "observation", "--text", "The API allows 100 requests a minute")
    file = repo / note["path"]
    file.write_text(file.read_text() + "\nSince March it is 200.\n")
    (edit_,) = ok(repo, "get", note["id"], "--history")["results"][0]["revisions"]
    assert (edit_["commit"], edit_["changes"]) == ("", ["text added"])
    assert "not committed: text added" in cli(repo, "get", note["id"], "--history").out
    git(repo, "commit", "-q", "-a", "-m", "More")
    with Memory.open(repo) as memory:
        (edits,) = memory.revisions(note["id"]).values()
        assert [(one.changes, one.subject) for one in edits] == [(("text added",), "More")]
