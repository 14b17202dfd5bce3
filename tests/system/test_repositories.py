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
    assert (refused.code, f"filemem -C {outer / 'part'} --store memory" in refused.err) == (2, True)
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


def test_a_memory_that_is_a_submodule(hub: Path, tmp_path: Path) -> None:
    notes = clone(hub, "notes")
    write(notes / ".filemem.toml", 'store = "."\n')
    git(notes, "add", ".")
    git(notes, "commit", "-q", "-m", "a memory")
    git(notes, "push", "-q")
    outer = make_repo(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(hub), "memory")
    git(outer, "commit", "-q", "-m", "submodule")
    git(outer / "memory", "config", "user.name", "Ada")
    git(outer / "memory", "config", "user.email", "ada@example.com")
    saved = ok(outer, *DECISION, "Use Redis")
    assert saved["path"].startswith("memory/decisions/20")
    assert ok(outer, "sync")["sent"] == 1
    git(notes, "pull", "-q")
    assert ok(notes, "search", "redis")["results"][0]["path"] == saved["path"].removeprefix("memory/")
    git(tmp_path, "clone", "-q", "outer", "second")
    assert cli(outer, "diff").code == 0
    git(outer / "memory", "switch", "-q", "--detach")
    assert ok(outer, "diff")["counts"] == {}
    assert ok(outer, "search", "redis")["results"][0]["by"]["merged"]
    write(outer / "memory/decisions/queues.md", "# Use NATS\n")
    git(outer / "memory", "add", ".")
    git(outer / "memory", "commit", "-q", "-m", "queues")
    told = ok(outer, "diff")
    assert (told["base"]["name"], told["head"]["name"], told["counts"]) == ("main", "HEAD", {"new": 1})
    assert not next(one for one in ok(outer, "search", "nats")["results"] if one["title"] == "Use NATS")["by"]["merged"]
    why = f"memory is a submodule: git -C {tmp_path / 'second'} submodule update --init memory"
    assert ok(tmp_path / "second", "search", "redis")["degraded"] == why
    assert why in cli(tmp_path / "second", "status").out
    git(tmp_path / "second", "config", "user.name", "Ada")
    git(tmp_path / "second", "config", "user.email", "ada@example.com")
    for command in ((*DECISION, "x"), ("diff",), ("diff", "1w")):
        refused = cli(tmp_path / "second", *command)
        assert (refused.code, "submodule update --init memory" in refused.err) == (7, True), refused


def nested(outer: Path, *names: str, committed: bool = True) -> Path:
    """A repository in `memory/` of another that states no settings, and has some files."""
    inner = make_repo(outer / "memory", commit=False)
    for name in names:
        write(inner / name, "---\ntopic: caching\n---\n# Use Redis\n" if name.endswith(".md") else "x\n")
    if committed and names:
        git(inner, "add", ".")
        git(inner, "commit", "-q", "-m", "a")
    return inner


@pytest.mark.parametrize("committed", [True, False])
def test_a_memory_that_is_a_repository_without_settings(tmp_path: Path, committed: bool) -> None:
    outer = make_repo(tmp_path / "outer")
    inner = nested(outer, "decisions/a.md", "tools/x", committed=committed)
    for place, extra in ((outer, ()), (outer, ("--store", "memory")), (inner, ())):
        assert ok(place, *extra, "search", "redis")["results"][0]["path"] == "memory/decisions/a.md"
        assert [one["topic"] for one in ok(place, *extra, "topics")["topics"]] == ["caching"]
    saved = ok(outer, *DECISION, "Use an LRU cache")
    assert saved["path"].startswith("memory/decisions/20")
    assert git(inner, "log", "-1", "--format=%H") == saved["commit"]
    assert cli(outer, "check").code == 0


def test_an_empty_repository_in_place_of_the_memory_is_one(tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    inner = nested(outer)
    assert ok(outer, "topics")["count"] == 0
    assert ok(inner, *DECISION, "Use Redis")["path"].startswith("memory/decisions/20")


def test_the_memory_folder_of_a_repository_in_its_place(tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    nested(outer, "code.py", "memory/decisions/a.md")
    assert ok(outer, "search", "redis")["results"][0]["path"] == "memory/memory/decisions/a.md"
    ok(outer, "init")
    assert not (outer / "memory/README.md").exists(), "that is the code's"
    assert "live in `memory/memory/`" in (outer / "AGENTS.md").read_text()
    assert ok(outer, "search", "redis")["results"][0]["path"] == "memory/memory/decisions/a.md"


INIT = (("init",), ("init", "--dry-run"), ("init", "--own-branch"), ("init", "--own-branch", "--dry-run"))


def test_a_repository_in_place_of_the_memory_that_may_be_anything(tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    inner = nested(outer, "code.py")
    before = snapshot(outer)
    for command in (("topics",), (*DECISION, "x"), ("check",), ("--store", "memory", "init"), *INIT):
        refused = cli(outer, *command)
        own = "--own-branch" in command
        assert refused.code == (5 if own else 2), refused
        assert own or 'memory/.filemem.toml: store = "."' in refused.err
    assert (git(inner, "status", "--porcelain"), snapshot(outer)) == ("", before)
    write(inner / ".filemem.toml", 'store = "."\n')
    assert ok(outer, "topics")["count"] == 0
    assert cli(outer, "init").code == 0


def test_a_linked_work_tree_of_the_code_is_no_memory(repo: Path) -> None:
    write(repo / "code.py", "x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "code")
    git(repo, "worktree", "add", "-q", "-b", "feature", "memory")
    before = snapshot(repo)
    for command in (("topics",), *INIT):
        assert cli(repo, *command).code == (5 if "--own-branch" in command else 2)
    assert snapshot(repo) == before


def test_init_writes_into_no_other_repository(hub: Path, tmp_path: Path) -> None:
    outer = make_repo(tmp_path / "outer")
    for name in ("part", "memory"):
        git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(hub), name)
    git(outer, "commit", "-q", "-m", "submodules")
    refused = cli(outer, "--store", "part/memory", "init")
    assert (refused.code, f"filemem -C {outer / 'part'} --store memory" in refused.err) == (2, True), refused
    git(tmp_path, "clone", "-q", "outer", "second")
    for command in (("init",), ("init", "--dry-run")):
        refused = cli(tmp_path / "second", *command)
        assert (refused.code, "submodule update --init memory" in refused.err) == (7, True), refused
    assert git(tmp_path / "second", "status", "--porcelain") == "", "else Git could not fill the submodule any more"


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
