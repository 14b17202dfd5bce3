"""Sync where the branch on the other side was rewritten or removed: no record that was shared goes away unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import git, write
from tests.system.test_sharing import DECISION, clone, hub
from tests.system.test_sync_trouble import state
from tests.system.tools import cli, ok

__all__ = ["hub"]


def observed(repo: Path, title: str) -> str:
    return str(ok(repo, "save", "observation", "--title", title, "--text", title)["id"])


@pytest.fixture
def own(hub: Path) -> Path:
    """A clone whose memory has a branch of its own, with two shared records."""
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q")
    for title in ("One", "Two"):
        observed(ada, title)
        ok(ada, "sync")
    return ada


def kept(repo: Path, *words: str) -> str:
    """Sync twice; both times it must say the words, leave the rest to the user, and change nothing."""
    before, there = state(repo), git(repo, "ls-remote", "origin")
    for _ in range(2):
        done = cli(repo, "sync", "--json")
        assert done.code == 1, done
        for word in words:
            assert word in done.json["left"]
        assert (state(repo), git(repo, "ls-remote", "origin")) == (before, there)
    return str(done.json["hint"])


def test_a_branch_replaced_by_an_unrelated_one_takes_no_record_along(hub: Path, own: Path) -> None:
    boss = clone(hub, "boss")
    git(boss, "checkout", "-q", "--orphan", "z")
    git(boss, "rm", "-rfq", ".")
    write(boss / "README", "hi")
    git(boss, "add", ".")
    git(boss, "commit", "-q", "-m", "unrelated")
    git(boss, "push", "-q", "-f", "origin", "z:filemem")
    observed(own, "Three")
    hint = kept(own, "no history in common", "is without 2 records that were shared: ", "One (", "Two (")
    assert "--force-with-lease origin HEAD:filemem" in hint
    git(own / "memory", "push", "-q", "--force-with-lease", "origin", "HEAD:filemem")
    assert ok(own, "sync")["left"] == ""
    assert ok(own, "status")["records"]["observation"] == 3


@pytest.mark.parametrize("own_branch", [True, False])
@pytest.mark.parametrize("choice", ["back", "along"])
def test_a_record_dropped_by_rewriting_is_named_and_left_to_the_user(
    hub: Path, own: Path, own_branch: bool, choice: str
) -> None:
    branch = "filemem" if own_branch else "main"
    ada = own if own_branch else clone(hub, "ada2")
    records = ada / "memory" if own_branch else ada
    if not own_branch:
        git(ada, "rm", "-q", ".filemem.toml")
        git(ada, "commit", "-q", "-m", "in the branch")
        git(ada, "push", "-q")
        observed(ada, "Two")
        ok(ada, "sync")
    boss = clone(hub, "boss", "-b", branch)
    git(boss, "reset", "-q", "--hard", "HEAD~1")
    write(boss / "README.md", "other\n")
    git(boss, "add", ".")
    git(boss, "commit", "-q", "-m", "other")
    git(boss, "push", "-q", "-f")
    observed(ada, "Three")
    hint = kept(ada, "commits were taken back there, and with them 1 record that was shared: Two (")
    assert f"rebase origin/{branch}" in hint
    git(records, "rebase", "-q", *(["--fork-point"] if choice == "along" else []), f"origin/{branch}")
    assert ok(ada, "sync")["left"] == ""
    titles = {hit["title"] for hit in ok(ada, "search")["results"]}
    assert titles >= {"Three"}
    assert ("Two" in titles) == (choice == "back")
    assert ("Two" in git(hub, "log", "--format=%s", branch)) == (choice == "back")


@pytest.mark.parametrize("staged", [True, False])
def test_a_record_dropped_by_rewriting_is_named_beside_an_edit_too(hub: Path, own: Path, staged: bool) -> None:
    git(hub, "update-ref", "refs/heads/filemem", "filemem~1")
    record = next((own / "memory/observations").rglob("*.md"))
    record.write_text(record.read_text() + "\nmore\n")
    if staged:
        git(own / "memory", "add", "-A")
    hint = kept(own, "only fetched, because", "not committed; commits were taken back there", "Two (")
    assert hint == "commit or stash that, then sync again"


@pytest.mark.parametrize("logged", [True, False])
def test_a_clone_that_never_synced_pushes_nothing_back(hub: Path, own: Path, logged: bool) -> None:
    bob = clone(hub, "bob", "-b", "filemem")
    if not logged:
        git(bob, "config", "core.logAllRefUpdates", "false")
    git(hub, "update-ref", "refs/heads/filemem", "filemem~1")
    kept(bob, "commits were taken back there, and with them 1 record that was shared: Two (")


def test_code_that_was_taken_back_there_is_told_beside_an_edit(hub: Path) -> None:
    bob = clone(hub, "bob")
    observed(bob, "One")
    write(bob / "code.py", "one\n")
    git(bob, "add", ".")
    git(bob, "commit", "-q", "-m", "Code")
    git(bob, "push", "-q")
    git(hub, "update-ref", "refs/heads/main", "main~1")
    write(bob / "code.py", "two\n")
    hint = kept(bob, "only fetched, because", "commits were taken back there, and")
    assert hint == "commit or stash that, then sync again"


def test_a_branch_wound_back_there_is_not_in_step(hub: Path, own: Path) -> None:
    git(hub, "update-ref", "refs/heads/filemem", "filemem~1")
    kept(own, "1 record that was shared: Two (")
    git(own / "memory", "push", "-q", "origin", "HEAD:filemem")
    assert ok(own, "sync")["left"] == ""


def test_a_branch_removed_there_is_not_in_step(hub: Path, own: Path) -> None:
    git(hub, "branch", "-q", "-D", "filemem")
    assert "push -u origin HEAD:filemem" in kept(own, "not there any more")
    git(own / "memory", "push", "-q", "-u", "origin", "HEAD:filemem")
    assert ok(own, "sync")["left"] == ""


def test_an_outcome_and_a_removal_taken_back_are_named(hub: Path, own: Path) -> None:
    saved = ok(own, *DECISION, "Use Redis")["id"]
    ok(own, "sync")
    ok(own, "update", saved, "--outcome", "failed", "--reason", "slow")
    ok(own, "sync")
    git(hub, "update-ref", "refs/heads/filemem", "filemem~1")
    kept(own, "Use Redis (", "back as it was before")
    git(own / "memory", "push", "-q", "origin", "HEAD:filemem")
    ok(own, "forget", saved)
    ok(own, "sync")
    boss = clone(hub, "boss", "-b", "filemem")
    git(boss, "reset", "-q", "--hard", "HEAD~1")
    write(boss / "observations/new.md", "# New\n")
    git(boss, "add", ".")
    git(boss, "commit", "-q", "-m", "New")
    git(boss, "push", "-q", "-f")
    kept(own, "1 record that was shared: Use Redis (", "which was removed")


def test_what_a_commit_or_a_purge_removes_there_is_removed_here(hub: Path, own: Path) -> None:
    secret = ok(own, *DECISION, "Use hunter2")
    ok(own, "sync")
    bob = clone(hub, "bob")
    ok(bob, "init")
    boss = clone(hub, "boss", "-b", "filemem")
    git(boss, "rm", "-q", next((boss / "observations").rglob("*.md")).relative_to(boss).as_posix())
    git(boss, "commit", "-q", "-m", "Not needed")
    git(boss, "push", "-q")
    assert ok(own, "sync")["received"] == 1, "a commit that removes a record removes it"
    ok(own, "forget", secret["id"])
    ok(own, "sync")
    git(boss, "pull", "-q")
    path = secret["path"].removeprefix("memory/")
    purge = f"git rm -q --cached --ignore-unmatch -- {path}"
    git(boss, "filter-branch", "--index-filter", purge, "HEAD", FILTER_BRANCH_SQUELCH_WARNING="1")
    git(boss, "push", "-q", "-f")
    for repo in (own, bob):
        observed(repo, f"Of {repo.name}")
        assert ok(repo, "sync")["sent"] == 1
        assert not (repo / secret["path"]).exists()
    assert git(hub, "log", "--format=%H", "filemem", "--", path) == ""
