"""Sharing a memory: records that have a work tree of their own, and what is said where it is not there."""

from __future__ import annotations

import os
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, make_repo, sound, write
from tests.system.tools import FILEMEM, cli, ok, talking, until

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


@pytest.mark.parametrize("nested", [False, True])
def test_a_repository_that_is_only_a_memory(tmp_path: Path, nested: bool) -> None:
    """A store of `.` is all of its work tree; where that stands in a project it is the project's memory."""
    project = make_repo(tmp_path / "project")
    notes = make_repo(project / "memory" if nested else tmp_path / "notes", commit=False)
    write(notes / ".filemem.toml", 'store = "."\n')
    here = project if nested else notes
    prefix = "memory/" if nested else ""
    saved = ok(here, *DECISION, "Use Redis")
    assert saved["path"].startswith(f"{prefix}decisions/caching/")
    assert ok(here, "search", "redis")["results"][0]["path"] == saved["path"]
    assert ok(here, "get", saved["path"])["results"][0]["id"] == saved["id"]
    assert ok(here, "update", saved["path"], "--outcome", "failed", "--reason", "slow")["commit"]
    assert ok(here, "status")["store"] == (prefix.rstrip("/") or ".")
    assert ok(notes, "history", "caching")["chain"][0]["reasons"][0]["reason"] == "slow"
    assert cli(notes, "check").code == 0
    assert git(notes, "status", "--porcelain") == "?? .filemem.toml"
    assert git(notes, "rev-list", "--count", "HEAD") == "2"
    ok(here, "delete", saved["id"])
    gone = cli(here, "get", saved["id"])
    assert (gone.code, "deleted in" in gone.err) == (4, True)
    assert ok(here, "index", "--rebuild")["success"]


# sync


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A bare repository that clones share."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(tmp_path / "hub.git"))
    first = make_repo(tmp_path / "first")
    git(first, "remote", "add", "origin", str(tmp_path / "hub.git"))
    git(first, "push", "-q", "-u", "origin", "main")
    return tmp_path / "hub.git"


def clone(hub: Path, name: str, *options: str) -> Path:
    target = hub.parent / name
    git(hub.parent, "clone", "-q", *options, str(hub), str(target))
    git(target, "config", "user.name", name)
    git(target, "config", "user.email", f"{name}@example.com")
    return target


def test_two_clones_share_what_they_save(hub: Path) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    saved = ok(ada, *DECISION, "Use Redis")
    assert ok(ada, "sync")["sent"] == 1
    assert "nothing new" in ok(ada, "sync")["message"]
    write(ada / "code.py", "edited\n")
    assert "nothing new" in ok(ada, "sync")["message"], "which is not the memory's"
    git(ada, "rm", "-q", saved["path"])
    told = cli(ada, "sync")
    assert (told.code, f"{saved['path']} has changes that are not committed" in told.out + told.err) == (1, True)
    git(ada, "restore", "--staged", "--worktree", ".")
    ok(bob, "save", "decision", "--topic", "deploy", "--decision", "Use containers", "--reasoning", "r")
    done = ok(bob, "sync")
    assert (done["received"], done["sent"], done["waiting"], done["left"]) == (1, 1, 0, "")
    assert ok(ada, "sync")["received"] == 1
    assert {hit["title"] for hit in ok(ada, "search")["results"]} == {"Use Redis", "Use containers"}
    assert git(ada, "rev-parse", "HEAD") == git(bob, "rev-parse", "HEAD") == git(hub, "rev-parse", "main")
    assert git(hub, "log", "-1", "--format=%an %cn %s", "main") == "bob bob decision(deploy): Use containers"
    ok(ada, "update", saved["id"], "--outcome", "failed", "--reason", "slow")
    ok(bob, "update", saved["id"], "--outcome", "success", "--reason", "fast")
    ok(ada, "sync")
    assert ok(bob, "sync")["merged"] == [saved["path"]]
    ok(ada, "sync")
    assert {entry["reason"] for entry in ok(ada, "get", saved["id"])["results"][0]["reasons"]} == {"slow", "fast"}
    for repo in (ada, bob):
        assert git(repo, "status", "--porcelain") == ""
        assert cli(repo, "check").code == 0


def save_some(repo: Path, name: str, count: int) -> list[str]:
    """Save decisions in a thread of their own, syncing after every few; returns their ids."""
    ids = []
    with Memory.open(repo) as memory:
        for number in range(count):
            ids.append(memory.save(topic=f"{name} {number}", decision=f"{name} {number}", reasoning="r").id)
            if number % 4 == 3:
                memory.sync()
    return ids


@pytest.mark.parametrize(
    ("clones", "saves"), [(2, 6), pytest.param(4, 25, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
@pytest.mark.parametrize("own", [False, True])
def test_clones_that_save_at_the_same_time_lose_nothing(hub: Path, clones: int, saves: int, own: bool) -> None:
    names = [f"clone{number}" for number in range(clones)]
    repos = [clone(hub, name) for name in names]
    if own:
        ok(repos[0], "init", "--own-branch")
        git(repos[0], "add", ".")
        git(repos[0], "commit", "-q", "-m", "init")
        git(repos[0], "push", "-q")
        ok(repos[0], "sync")
        for repo in repos[1:]:
            git(repo, "pull", "-q")
            ok(repo, "init")
    shared = ok(repos[0], *DECISION, "Shared by all")["id"]
    for repo in repos:
        ok(repo, "sync")
    with ThreadPoolExecutor(clones) as pool:
        ids = [one for found in pool.map(save_some, repos, names, [saves] * clones) for one in found]

    def outcomes(repo: Path) -> None:
        with Memory.open(repo) as memory:
            for number in range(saves):
                memory.update(shared, outcome="partial", reason=f"{repo.name} {number}")
                if number % 4 == 3:
                    memory.sync()

    for repo in repos:
        ok(repo, "sync")
    with ThreadPoolExecutor(clones) as pool:
        list(pool.map(outcomes, repos))
    for repo in (*repos, *repos):
        ok(repo, "sync")
    branch = "filemem" if own else "main"
    for repo in repos:
        with Memory.open(repo) as memory:
            found = memory.get(*ids, shared)
            assert len(found) == clones * saves + 1
            told = {entry.reason for entry in found[-1].record.outcomes}
        assert told == {f"{name} {number}" for name in names for number in range(saves)}
        records = repo / "memory"
        assert git(records if own else repo, "rev-parse", "HEAD") == git(hub, "rev-parse", branch)
        assert git(repo, "status", "--porcelain") == git(records, "status", "--porcelain") == ""
        assert cli(repo, "check").code == 0
        assert sound(repo)
    assert sound(hub)
    assert int(git(hub, "rev-list", "--count", branch)) >= 2 * clones * saves + 1
    assert git(hub, "rev-list", "--merges", branch) == ""


# a branch of their own


def test_own_branch_from_init_to_a_second_clone(hub: Path) -> None:
    ada = clone(hub, "ada")
    plan = ok(ada, "init", "--own-branch", "--dry-run")
    assert plan["steps"][0]["note"] == "a work tree of the branch filemem"
    assert not (ada / "memory").exists()
    ok(ada, "init", "--own-branch")
    assert git(ada, "status", "--porcelain").splitlines() == ["?? .filemem.toml", "?? .mcp.json", "?? AGENTS.md"]
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q")
    saved = ok(ada, *DECISION, "Use Redis")
    assert saved["path"].startswith("memory/decisions/caching/")
    assert git(ada, "log", "--format=%s", "filemem").splitlines() == ["decision(caching): Use Redis", "memory: begin"]
    assert git(ada, "log", "-1", "--format=%s") == "init", "the code's history stays clean"
    checkpoint = ok(ada, "save", "checkpoint", "--summary", "done")
    assert ok(ada, "get", checkpoint["id"])["results"][0]["branch"] == "main", "the code's branch"
    assert ok(ada / "memory", "search", "redis")["results"][0]["path"] == saved["path"]
    git(ada, "checkout", "-q", "-b", "side")
    assert ok(ada, "search", "redis")["count"] >= 1, "every branch sees it"

    assert "not shared yet: 3 commits (filemem sync)" in cli(ada, "status").out
    assert "`filemem sync` shares" in (ada / "AGENTS.md").read_text()

    bob = clone(hub, "bob")
    early = cli(bob, "init")
    assert (early.code, "neither here nor on origin" in early.err) == (4, True)
    assert ok(ada, "sync")["sent"] == 3
    assert ok(ada, "status")["unshared"] == 0
    for command in (("search", "redis"), ("status",), DECISION[:2], ("check",), ("sync",), ("history", "caching")):
        extra = ("--topic", "t", "--decision", "d", "--reasoning", "r") if command[0] == "save" else ()
        refused = cli(bob, *command, *extra)
        assert (refused.code, "not attached here" in refused.err, "filemem init" in refused.err) == (7, True, True)
    with talking(bob) as client:
        assert "not attached" in client.refused("search", query="redis")["message"]
        assert ok(bob, "init")["steps"][0]["note"] == "a work tree of the branch filemem, from origin/filemem"
        until(lambda: client.call("search", query="redis")["count"])  # the server opens it, and looks at it beside
    assert git(bob, "status", "--porcelain") == ""
    ok(bob, "update", saved["id"], "--outcome", "success", "--reason", "fast")
    ok(bob, "sync")
    ok(ada, "sync")
    assert ok(ada, "get", saved["id"])["results"][0]["outcome"] == "success"
    assert ok(bob, "init")["steps"][0]["action"] == "keep"


def test_diff_of_an_own_branch_says_what_can_be_asked(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    ok(ada, *DECISION, "Use Redis")
    git(ada, "checkout", "-q", "-b", "feature")
    assert ok(ada, "diff")["counts"] == {"new": 1}, "against nothing, since nothing is shared yet"
    ok(ada, "sync")
    assert ok(ada, "diff")["counts"] == {}
    ok(ada, *DECISION, "Use LRU")
    assert "LRU" in cli(ada, "diff").out, "what is not shared yet"


def test_a_branch_that_no_settings_name_is_found_and_told(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    saved = ok(ada, *DECISION, "Use Redis")
    done = ok(ada, "sync")
    assert done["left"] == ""
    assert done["hint"].startswith("commit and push .filemem.toml: origin/main lacks it")
    bob = clone(hub, "bob")
    command = "filemem init --own-branch filemem"
    for asked in (("search", "redis"), ("status",), ("init", "--dry-run")):
        assert command in cli(bob, *asked).out, asked
    ok(bob, *command.split()[1:])
    assert ok(bob, "search", "redis")["results"][0]["id"] == saved["id"]
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q")
    assert ok(ada, "sync")["hint"] == ""


def test_a_clone_that_checked_nothing_out_says_where_the_records_are(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    git(ada, "bundle", "create", "-q", "../x.bundle", "main")
    git(hub.parent, "-c", "init.defaultBranch=master", "clone", "-q", "x.bundle", "bob")
    bob = hub.parent / "bob"
    told = cli(bob, "search", "redis").out
    assert f"origin/main has records: git -C {bob} switch main" in told
    git(bob, "switch", "-q", "main")
    assert ok(bob, "search", "redis")["count"] == 1


def test_a_second_work_tree_of_the_code_uses_the_memory_of_the_first(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch", "notes/memory")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    saved = ok(ada, *DECISION, "Use Redis")
    git(ada, "worktree", "add", "-q", "../second", "-b", "feature")
    second = ada.parent / "second"
    found = ok(second, "search", "redis")["results"][0]
    assert (found["id"], found["path"]) == (saved["id"], f"../ada/{saved['path']}")
    assert ok(second, "get", found["path"])["results"][0]["id"] == saved["id"]
    write(second / "src/x.py", "")
    assert ok(second / "src", "get", f"../{found['path']}")["results"][0]["id"] == saved["id"]
    assert ok(second, "save", "checkpoint", "--summary", "x")["commit"]
    assert "attached at" in ok(second, "init")["steps"][0]["note"]
    moved = ada.rename(ada.parent / "moved")
    broken = cli(moved, "search", "redis")
    assert (broken.code, "git worktree repair" in broken.err) == (7, True)
    assert ok(moved, "init")["steps"][0]["note"] == "a work tree of the branch notes/memory, mended"
    assert ok(moved, "search", "redis")["count"]


def test_an_own_branch_is_not_begun_over_records_of_this_branch(repo: Path) -> None:
    ok(repo, *DECISION, "Use Redis")
    refused = cli(repo, "init", "--own-branch")
    assert (refused.code, "filemem --store NAME init --own-branch" in refused.err) == (5, True)
    assert git(repo, "branch", "--list", "filemem") == ""
    for bad in ("-x", "a..b", "a b", "x.lock", "HEAD"):
        assert cli(repo, "init", f"--own-branch={bad}", "--dry-run").code == 2
    write(repo / ".filemem.toml", 'branch = "elsewhere"\n')
    assert cli(repo, "init", "--own-branch", "other").code == 2


@pytest.mark.parametrize("where", ["checked out", "here", "there", "in a work tree", "empty"])
@pytest.mark.parametrize("stated", [False, True])
def test_a_branch_of_code_is_not_taken_for_the_memory(hub: Path, where: str, stated: bool) -> None:
    ada = clone(hub, "ada")
    branch = "main" if where == "checked out" else "code"
    if where == "empty":
        ada, branch = make_repo(hub.parent / "empty", commit=False), "main"
    elif where == "there":
        git(ada, "push", "-q", "origin", "main:code")
    elif branch == "code":
        git(ada, "branch", "-q", "code")
    if where == "in a work tree":
        git(ada, "worktree", "add", "-q", "../code", "code")
    if stated:
        write(ada / ".filemem.toml", f'branch = "{branch}"\n')
    before = git(ada, "for-each-ref"), git(ada, "status", "--porcelain"), sorted(ada.iterdir())
    refused = cli(ada, "init", *([] if stated else ["--own-branch", branch]))
    told = "checked out already" if branch == "main" else "holds more than a memory: code.py"
    assert (refused.code, told in refused.err) == (5, True), refused
    if where != "there":  # which is fetched, of course
        assert before[0] == git(ada, "for-each-ref")
    assert before[1:] == (git(ada, "status", "--porcelain"), sorted(ada.iterdir()))


def test_an_own_branch_without_its_settings_is_still_all_memory(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    saved = ok(ada, *DECISION, "Use Redis")
    git(ada / "memory", "rm", "-q", ".filemem.toml")
    git(ada / "memory", "commit", "-q", "-m", "Tidy")
    for folder in (ada, ada / "memory"):
        assert ok(folder, "search", "redis")["results"][0]["path"] == saved["path"]
        assert ok(folder, "status")["store"] == "memory"
        assert ok(folder, "save", "checkpoint", "--summary", "x")["path"].startswith("memory/checkpoints/")
    assert ok(ada, "--store", "memory", "search", "redis")["results"][0]["path"] == saved["path"]
    assert ok(ada, "sync")["left"] == ""
    bob = clone(hub, "bob")
    write(bob / ".filemem.toml", 'branch = "filemem"\n')
    ok(bob, "init")
    assert ok(bob, "search", "redis")["results"][0]["path"] == saved["path"]


@pytest.mark.parametrize("text", ['store = "sub"\n', 'store = "../x"\n', 'branch = "main"\n', "store ="])
def test_settings_in_an_own_branch_hide_nothing_of_it(hub: Path, text: str) -> None:
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    saved = ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    write(ada / "memory/sub/n", "x")
    write(ada / "memory/.filemem.toml", text)
    git(ada / "memory", "add", "-A")
    git(ada / "memory", "commit", "-q", "-m", "Tidy")
    told = cli(ada, "check", "--json")
    told_of = [(one["path"], one["code"]) for one in told.json["problems"] if one["level"] != "hint"]
    assert (told.code, told_of) == (1, [("memory/.filemem.toml", "own-settings")])
    for folder in (ada, ada / "memory"):
        assert ok(folder, "search", "redis")["results"][0]["path"] == saved["path"]
    assert saved["id"] in (ada / ok(ada, *DECISION, "Use Valkey")["path"]).read_text(), "what it supersedes"
    assert ok(ada, "sync")["left"] == ""
    write(ada / "memory/.filemem.toml", 'store = "."\n')
    git(ada / "memory", "commit", "-q", "-a", "-m", "Say what is so")
    assert cli(ada, "check").code == 0


def test_settings_of_a_repository_inside_are_named_where_they_stand(hub: Path) -> None:
    ada = clone(hub, "ada")
    write(make_repo(ada / "memory") / ".filemem.toml", 'store = "../x"\n')
    refused = cli(ada, "search", "redis")
    assert (refused.code, "memory/.filemem.toml: store: " in refused.err) == (2, True), refused


def test_two_that_begin_the_same_branch_apart_still_come_together(hub: Path) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    for repo in (ada, bob):
        ok(repo, "init", "--own-branch")
        ok(repo, "save", "decision", "--topic", repo.name, "--decision", "x", "--reasoning", "r")
    ok(ada, "sync")
    assert ok(bob, "sync")["sent"] == 1, "its own beginning says the same, and is left out"
    ok(ada, "sync")
    assert ok(ada, "status")["records"]["decision"] == 2
    assert git(ada / "memory", "rev-parse", "HEAD") == git(bob / "memory", "rev-parse", "HEAD")


def test_a_branch_older_than_the_memory_does_not_look_as_if_nothing_was_saved(hub: Path) -> None:
    ada = clone(hub, "ada")
    git(ada, "push", "-q", "origin", "main:old")
    ok(ada, "init", "--own-branch")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q")
    saved = ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    git(ada, "checkout", "-q", "--track", "origin/old")
    assert ok(ada, "search", "redis")["results"][0]["id"] == saved["id"]
    git(ada, "worktree", "add", "-q", "../second", "old~0")
    assert ok(ada.parent / "second", "search", "redis")["count"] == 1
    bob = clone(hub, "bob", "-b", "old")
    refused = cli(bob, "search", "redis")
    assert (refused.code, "not attached here" in refused.err) == (7, True)
    assert cli(bob, *DECISION, "x").code == 7
    ok(bob, "init")
    assert ok(bob, "search", "redis")["count"] == 1
    (bob / "memory/.git").unlink()
    for path in (bob / "memory").rglob("*.md"):
        path.unlink()
    shutil.rmtree(bob / "memory")
    assert "not attached" in cli(bob, "search", "redis").err
    ok(bob, "init")
    assert ok(bob, "search", "redis")["count"] == 1, "attached again where it was removed by hand"


def test_a_store_that_leads_to_another_repository_is_refused(repo: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other")
    head = git(other, "rev-parse", "HEAD")
    write(repo / "memory/.git", f"gitdir: {other / '.git'}\n")
    refused = cli(repo, *DECISION, "x")
    assert (refused.code, "leads to another repository" in refused.err) == (7, True)
    (repo / "memory/.git").unlink()
    (repo / "memory").rmdir()
    write(repo / ".filemem.toml", 'branch = "main"\n')
    fake = repo / ".git/worktrees/fake"
    write(fake / "HEAD", "ref: refs/heads/main\n")
    write(fake / "gitdir", f"{other / '.git'}\n")
    assert "not attached" in cli(repo, *DECISION, "x").err
    assert git(other, "rev-parse", "HEAD") == head


# reading in review


def test_git_diff_goes_on_where_filemem_is_not_to_be_found(repo: Path, tmp_path: Path) -> None:
    ok(repo, "init", "--diff-driver")
    path = ok(repo, *DECISION, "Use Redis")["path"]
    git(repo, "mv", path, 'memory/decisions/it\'s "a" $name.md')
    git(repo, "commit", "-q", "-m", "renamed")
    shown = ("log", "-p", "--no-renames", "-1", "--format=")
    words, plain = "+decision on caching: Use Redis", "+# Use Redis"
    bare = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "filemem").exists())
    assert words in git(repo, *shown, PATH=bare)
    broken = write(tmp_path / "bin/filemem", "#!/nowhere/python\n")
    broken.chmod(0o755)
    command = git(repo, "config", "diff.filemem.textconv")
    for program in ("/nowhere/filemem", str(broken)):
        git(repo, "config", "diff.filemem.textconv", command.replace(shlex.quote(FILEMEM), program))
        for folders in (bare, f"{broken.parent}{os.pathsep}{bare}"):
            told = git(repo, *shown, PATH=folders)
            assert (plain in told, words in told) == (True, False), (program, folders)
        assert words in git(repo, *shown, PATH=f"{Path(FILEMEM).parent}{os.pathsep}{bare}")


def test_git_diff_shows_records_in_words(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(FILEMEM).parent}{os.pathsep}{os.environ['PATH']}")
    first = ok(repo, "save", "decision", "--topic", "caching", "--decision", "Use Redis", "--reasoning", "Fast. Known.")
    ok(repo, "init", "--diff-driver")
    assert (repo / "memory/.gitattributes").read_text() == "*.md diff=filemem\n"
    assert f"{shlex.quote(FILEMEM)} filemem" in git(repo, "config", "--local", "diff.filemem.textconv")
    second = ok(repo, *DECISION, "Use an LRU cache", "--affects", "src/**")
    told = git(repo, "show", "--textconv", "--format=", "HEAD").splitlines()
    for line in (
        "+decision on caching: Use an LRU cache",
        "+affects: src/**",
        f"+Use Redis ({first['id'].rpartition('_')[2]}): status accepted -> superseded by Use an LRU cache",
    ):
        assert line in told
    ok(repo, "update", first["id"], "--text", "Fast. Unknown to us. Costly.", "--outcome", "failed", "--reason", "slow")
    told = git(repo, "diff", "HEAD~1", "--", "memory").splitlines()
    assert [line for line in told if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-Known.",
        "+Unknown to us.",
        "+Costly.",
        "+",
        told[-1],
    ]
    assert told[-1].endswith("failed: slow")
    ok(repo, "update", second["id"], "--status", "deprecated")
    assert {"-status: accepted", "+status: deprecated"} <= set(git(repo, "diff", "HEAD~1").splitlines())
    path = repo / second["path"]
    for text in ("topic: caching\ntopic: queues", "topic: caching\n<<<<<<< a\n=======\n>>>>>>> b", "topic: [caching"):
        path.write_text(path.read_text().replace("topic: caching", text))
        assert git(repo, "diff", "HEAD", "--", second["path"]), "what cannot be read whole is shown as it is"
        git(repo, "checkout", "-q", "--", second["path"])
    assert "+# Memory" in git(repo, "diff", "--no-index", "/dev/null", "memory/README.md", ok=False)
    steps = {step["path"]: step["action"] for step in ok(repo, "init", "--diff-driver")["steps"]}
    assert steps["memory/.gitattributes"] == "keep"
