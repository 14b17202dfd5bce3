"""Repositories of every kind: filemem works there, or says in one sentence why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import git, make_repo, sound, write
from tests.system.test_sync import clone, hub
from tests.system.tools import cli, ok, snapshot

__all__ = ["hub"]

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


def test_a_bare_repository_has_no_files(hub: Path) -> None:
    for command in (("search", "x"), ("status",), DECISION):
        extra = ("x",) if command is DECISION else ()
        refused = cli(hub, *command, *extra)
        assert (refused.code, "without a work tree" in refused.err, "git clone it" in refused.err) == (7, True, True)


def test_a_partial_clone(hub: Path) -> None:
    first = clone(hub, "first-clone")
    saved = ok(first, *DECISION, "Use Redis")
    ok(first, "update", saved["id"], "--outcome", "failed", "--reason", "slow")
    ok(first, "sync")
    git(hub, "config", "uploadpack.allowFilter", "true")
    partial = hub.parent / "partial"
    git(hub.parent, "clone", "-q", "--filter=blob:none", f"file://{hub}", str(partial))
    git(partial, "config", "user.name", "Bob")
    git(partial, "config", "user.email", "bob@example.com")
    assert ok(partial, "search", "redis")["count"] == 1
    assert ok(partial, "history", "caching")["chain"][0]["reasons"][0]["reason"] == "slow"
    assert "history is incomplete here" in str(ok(partial, "history", "caching")["notes"])
    ok(partial, "update", saved["id"], "--outcome", "success", "--reason", "tuned")
    ok(first, "save", "checkpoint", "--summary", "x")
    ok(first, "sync")
    done = ok(partial, "sync")
    assert (done["received"], done["sent"]) == (1, 2), "the update, and the merge"
    ok(partial, "forget", saved["id"])
    assert ok(partial, "restore", saved["id"])["commit"], "the blob is one that it had checked out"
    assert cli(partial, "check").code == 0


def test_a_shallow_clone_shares(hub: Path) -> None:
    first = clone(hub, "first-clone")
    for number in range(3):
        ok(first, "save", "checkpoint", "--summary", f"number {number}")
    ok(first, "sync")
    git(hub.parent, "clone", "-q", "--depth", "1", f"file://{hub}", "shallow")
    shallow = hub.parent / "shallow"
    git(shallow, "config", "user.name", "Bob")
    git(shallow, "config", "user.email", "bob@example.com")
    ok(shallow, *DECISION, "Use Redis")
    ok(first, *DECISION, "Use an LRU cache")
    ok(first, "sync")
    done = ok(shallow, "sync")
    assert (done["received"], done["sent"], git(shallow, "rev-parse", "--is-shallow-repository")) == (1, 2, "true")
    assert ok(first, "sync")["received"] == 2
    assert ok(first, "topics")["topics"][0]["heads"] == 2, "both decided: a fork, which somebody must end"
    assert sound(shallow)


def test_a_sparse_checkout_shares(hub: Path) -> None:
    first = clone(hub, "first-clone")
    write(first / "other/file.txt", "x\n")
    git(first, "add", ".")
    git(first, "commit", "-q", "-m", "other")
    git(first, "push", "-q")
    sparse = clone(hub, "sparse")
    git(sparse, "sparse-checkout", "set", "memory")
    ok(sparse, *DECISION, "Use Redis")
    write(first / "other/file.txt", "y\n")
    git(first, "commit", "-q", "-a", "-m", "changed")
    git(first, "push", "-q")
    done = ok(sparse, "sync")
    assert (done["received"], done["sent"]) == (1, 2)
    assert not (sparse / "other").exists()
    assert git(sparse, "status", "--porcelain") == ""


@pytest.mark.parametrize("own", [False, True])
def test_sha256(tmp_path: Path, own: bool) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", "hub.git")
    repos = []
    for name in ("ada", "bob"):
        repo = make_repo(tmp_path / name, commit=False, object_format="sha256")
        git(repo, "remote", "add", "origin", str(tmp_path / "hub.git"))
        repos.append(repo)
    ada, bob = repos
    write(ada / "code.py", "x\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "Begin")
    if own:
        ok(ada, "init", "--own-branch")
        git(ada, "add", ".")
        git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q", "-u", "origin", "main")
    git(bob, "pull", "-q", "-u", "origin", "main", ok=False)
    git(bob, "fetch", "-q")
    git(bob, "checkout", "-q", "-B", "main", "--track", "origin/main")
    saved = ok(ada, *DECISION, "Use Redis")
    assert ok(ada, "sync")["sent"] >= 1
    if own:
        ok(bob, "init")
    else:
        ok(bob, "save", "checkpoint", "--summary", "x")
        assert ok(bob, "sync")["sent"] == 2, "the save, and the merge"
    assert ok(bob, "get", saved["id"])["count"] == 1
    assert ok(bob, "history", saved["id"])["chain"][0]["commit"] == saved["commit"]
    ok(bob, "forget", saved["id"])
    ok(bob, "restore", saved["id"])
    assert ok(bob, "sync")["sent"] == 2
    assert len(git(tmp_path / "hub.git", "rev-parse", "filemem" if own else "main")) == 64
    assert sound(tmp_path / "hub.git")


def test_a_store_inside_a_submodule_is_left_to_that_repository(hub: Path, tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(hub), "part")
    git(outer, "commit", "-q", "-m", "submodule")
    refused = cli(outer, "--store", "part/memory", *DECISION, "Use Redis")
    assert (refused.code, f"filemem -C {outer / 'part'}" in refused.err) == (2, True)
    assert git(outer, "status", "--porcelain") == ""


def test_a_project_that_is_a_submodule(hub: Path, tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(hub), "part")
    git(outer, "commit", "-q", "-m", "submodule")
    part = outer / "part"
    git(part, "config", "user.name", "Ada")
    git(part, "config", "user.email", "ada@example.com")
    saved = ok(part, *DECISION, "Use Redis")
    assert saved["path"].startswith("memory/")
    assert ok(part, "sync")["sent"] == 1
    assert git(outer, "status", "--porcelain") == " M part", "the outer repository sees a new commit, as of any other"
    assert ok(outer, "search", "redis")["count"] == 0


INIT = (("init",), ("init", "--dry-run"))


@pytest.mark.parametrize("filled", [True, False])
def test_a_submodule_in_place_of_the_memory_is_left_alone(hub: Path, tmp_path: Path, filled: bool) -> None:
    outer = make_repo(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(hub), "memory")
    git(outer, "commit", "-q", "-m", "submodule")
    if not filled:
        git(tmp_path, "clone", "-q", "outer", "second")
        outer = tmp_path / "second"
    before = snapshot(outer)
    for command in (("topics",), (*DECISION, "x"), ("check",), ("diff",), *INIT):
        refused = cli(outer, *command)
        assert (refused.code, f"filemem -C {outer / 'memory'}" in refused.err) == (2, True), refused
    assert snapshot(outer) == before


def test_a_repository_in_place_of_the_memory_has_one_of_its_own(tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    inner = make_repo(outer / "memory")
    for command in (("topics",), (*DECISION, "x"), *INIT):
        assert cli(outer, *command).code == 2
    assert ok(inner, *DECISION, "Use Redis")["path"].startswith("memory/decisions/20")
    assert ok(outer, "--store", "notes", *DECISION, "Use Redis")["path"].startswith("notes/decisions/20")


def test_a_linked_work_tree_of_the_code_is_no_memory(repo: Path) -> None:
    write(repo / "code.py", "x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "code")
    git(repo, "worktree", "add", "-q", "-b", "feature", "memory")
    before = snapshot(repo)
    for command in (("topics",), ("init", "--own-branch"), *INIT):
        assert cli(repo, *command).code == (5 if "--own-branch" in command else 2)
    assert snapshot(repo) == before


def test_linked_work_trees_of_one_branch_each(hub: Path) -> None:
    ada = clone(hub, "ada")
    git(ada, "worktree", "add", "-q", "-b", "feature", "../feature")
    feature = hub.parent / "feature"
    ok(ada, *DECISION, "Use Redis")
    ok(feature, "save", "checkpoint", "--summary", "x")
    assert ok(ada, "sync")["sent"] == 1
    loose = cli(feature, "sync")
    assert (loose.code, " push -u origin feature" in loose.err) == (4, True)
    git(feature, "push", "-q", "-u", "origin", "feature")
    ok(feature, "save", "checkpoint", "--summary", "y")
    assert ok(feature, "sync")["remote"] == "origin/feature"
    assert git(hub, "rev-list", "--count", "feature") == "3"
    assert git(ada, "status", "--porcelain") == git(feature, "status", "--porcelain") == ""
