"""Repositories of every kind: filemem works there, or says in one sentence why not."""

from __future__ import annotations

from pathlib import Path

from tests.support import git, make_repo, sound, write
from tests.system.test_sync import hub
from tests.system.tools import cli, ok

__all__ = ["hub"]

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


def test_a_bare_repository_has_no_files(hub: Path) -> None:
    for command in (("search", "x"), ("status",), DECISION):
        extra = ("x",) if command is DECISION else ()
        refused = cli(hub, *command, *extra)
        assert (
            refused.code,
            "without a work tree" in refused.err,
            "git clone it" in refused.err,
        ) == (7, True, True)


def test_sha256(tmp_path: Path) -> None:
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
    git(ada, "push", "-q", "-u", "origin", "main")
    git(bob, "pull", "-q", "-u", "origin", "main", ok=False)
    git(bob, "fetch", "-q")
    git(bob, "checkout", "-q", "-B", "main", "--track", "origin/main")
    saved = ok(ada, *DECISION, "Use Redis")
    assert ok(ada, "sync")["sent"] >= 1
    ok(bob, "save", "checkpoint", "--summary", "x")
    assert ok(bob, "sync")["sent"] == 2, "the save, and the merge"
    assert ok(bob, "get", saved["id"])["count"] == 1
    assert ok(bob, "history", saved["id"])["chain"][0]["commit"] == saved["commit"]
    ok(bob, "forget", saved["id"])
    ok(bob, "restore", saved["id"])
    assert ok(bob, "sync")["sent"] == 2
    assert len(git(tmp_path / "hub.git", "rev-parse", "main")) == 64
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
    assert git(outer, "status", "--porcelain") == " M part", (
        "the outer repository sees a new commit, as of any other"
    )
    assert ok(outer, "search", "redis")["count"] == 0


INIT = (("init",), ("init", "--dry-run"))


def test_a_repository_in_place_of_the_memory_has_one_of_its_own(tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    inner = make_repo(outer / "memory")
    for command in (("topics",), (*DECISION, "x"), *INIT):
        assert cli(outer, *command).code == 2
    assert ok(inner, *DECISION, "Use Redis")["path"].startswith("memory/decisions/20")
    assert ok(outer, "--store", "notes", *DECISION, "Use Redis")["path"].startswith(
        "notes/decisions/20"
    )
