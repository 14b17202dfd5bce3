"""Questions about branches where the memory has one of its own: names of the code, of the memory, and none at all."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support import git, make_repo, write
from tests.system.test_sharing import DECISION, clone, hub
from tests.system.test_sync_keeps import own_branch as own_branch_of
from tests.system.tools import cli, ok, snapshot

__all__ = ["hub"]


@pytest.fixture
def own(hub: Path) -> Path:
    """A clone whose memory has a branch of its own, with one decision that is shared."""
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    write(ada / "code.py", "print(1)\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q")
    ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    return ada


def test_the_gate_takes_the_names_of_the_memorys_own_commits(own: Path) -> None:
    ok(own, *DECISION, "Use an LRU cache")
    for base in ("filemem~1", "filemem", git(own, "rev-parse", "--short", "filemem")):
        assert cli(own, "check", "--base", base).code == 0
    write(own / "memory/decisions/broken.md", "---\nconfidence: low\n---\n# Broken\n")
    told = cli(own, "check", "--base", "filemem~1", "--json")
    found = [problem["code"] for problem in told.json["problems"] if problem["level"] != "hint"]
    assert (told.code, found) == (1, ["bad-confidence"])
    git(own / "memory", "add", ".")
    git(own / "memory", "commit", "-q", "-m", "Broken")
    assert cli(own, "check", "--base", "filemem~1").code == 1
    assert cli(own, "check", "--base", "filemem").code == 0, "it was there"
    git(own, "switch", "-q", "--orphan", "later")
    git(
        own,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "Younger than all records",
        GIT_COMMITTER_DATE="2031-01-01T00:00:00Z",
    )
    assert cli(own, "check", "--base", "filemem~1").code == 1


def test_only_an_outcome_that_came_later_answers_a_revert(own: Path) -> None:
    """Also where a sync commits an older one anew: another edit, as Git has it."""
    one = ok(own, *DECISION, "Rewrite it")["id"]
    (path,) = (own / "memory/decisions").rglob(f"*{one[-8:]}.md")
    path.write_text(f"{path.read_text()}\n## Outcomes\n- 2025-11-20T12:00:00Z success: It runs\n")
    git(own / "memory", "commit", "-qam", "It runs")
    (own / "code.py").write_text("print(2)\n")
    git(own, "commit", "-qam", f"Rewrite\n\nDecision: {one}")
    git(own, "revert", "--no-edit", "HEAD", GIT_COMMITTER_DATE="2025-11-20T13:00:00Z")
    told = [f"possibly failed: reverted in {git(own, 'rev-parse', 'HEAD')[:10]}"]
    ok(own, "update", one, "--tag", "x")
    assert ok(own, "get", one)["results"][0].get("evidence") == told
    ok(own, "update", one, "--outcome", "partial", "--reason", "Half of it came back")
    assert "evidence" not in ok(own, "get", one)["results"][0]


def test_a_memory_beside_code_that_has_no_commit_yet(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    ok(repo, "init", "--own-branch")
    for decision in ("Use Redis", "Use an LRU cache"):
        ok(repo, *DECISION, decision, "--affects", "code.py")
    write(repo / "memory/decisions/broken.md", "---\nconfidence: low\n---\n# Broken\n")
    told = cli(repo, "check", "--base", "filemem~1")
    assert (told.code, "bad-confidence" in told.out) == (1, True), told
    assert ok(repo, "diff", "filemem~1")["counts"] == {"new": 1, "superseded": 1}


def test_each_clone_may_have_the_diff_driver(hub: Path) -> None:
    ada, bob = own_branch_of(hub)
    early = cli(ada, "init", "--diff-driver")
    assert (early.code, "commit them yourself" in early.out, "not committed" in early.out) == (0, False, False), early
    assert git(ada, "log", "-1", "--format=%s", "filemem") == "memory: name the diff driver"
    assert git(ada, "show", "filemem:.gitattributes") == "*.md diff=filemem"
    assert git(ada / "memory", "status", "--porcelain") == ""
    ok(bob, "init", "--diff-driver")
    ok(ada, "sync")
    ok(bob, "sync")
    assert git(ada, "rev-parse", "filemem") == git(bob, "rev-parse", "filemem"), "the same change is made once"
    tip = git(bob, "rev-parse", "filemem")
    ok(bob, "init", "--diff-driver")
    assert git(bob, "rev-parse", "filemem") == tip


def test_a_diff_driver_beside_attributes_of_the_users(own: Path) -> None:
    write(own / "memory/.gitattributes", "*.md text\n")
    told = ok(own, "init", "--diff-driver")["warning"]
    assert f"memory/.gitattributes is not committed (it has other changes): git -C {own / 'memory'} add" in told
    assert git(own / "memory", "status", "--porcelain") == "?? .gitattributes"
    git(own / "memory", "add", ".gitattributes")
    git(own / "memory", "commit", "-q", "-m", "Text")
    git(own, "config", "--unset", "diff.filemem.textconv")
    assert "not committed" not in ok(own, "init", "--diff-driver").get("warning", "")
    git(own / "memory", "checkout", "-q", "--detach")
    write(own / "memory/.gitattributes", "*.md text\n")
    git(own / "memory", "commit", "-q", "-a", "-m", "No driver")
    assert "HEAD is detached" in ok(own, "init", "--diff-driver")["warning"]


def test_a_new_branch_begins_with_its_diff_driver(repo: Path) -> None:
    done = cli(repo, "init", "--own-branch", "--diff-driver")
    assert git(repo, "log", "--format=%s", "filemem") == "memory: begin"
    assert git(repo, "show", "filemem:.gitattributes") == "*.md diff=filemem"
    assert "nothing was staged or committed on this branch: look at the files" in done.out
    assert "create memory/.gitattributes  (names the diff driver)\n" in done.out
    assert "keep memory/.gitattributes" in cli(repo, "init", "--diff-driver").out
    assert ok(repo, "init", "--diff-driver")["to_commit"] == []


def test_a_file_in_the_way_is_told_with_the_store_in_front(own: Path, hub: Path) -> None:
    bob = clone(hub, "bob")
    ok(bob, "init")
    for top, text in ((own, "mine"), (bob, "Bob's")):
        write(top / "memory/notes.txt", text)
    git(own / "memory", "add", "notes.txt")
    git(own / "memory", "commit", "-q", "-m", "Notes")
    ok(own, "sync")
    refused = cli(bob, "sync")
    assert (refused.code, "memory/notes.txt is in the way" in refused.err) == (5, True), refused


def test_whoever_made_the_branch_can_settle_a_conflict_as_told(own: Path, hub: Path) -> None:
    bob = clone(hub, "bob")
    ok(bob, "init")
    (hit,) = ok(own, "search", "redis")["results"]
    for top, text in ((bob, "Bob's reasons."), (own, "Ada's reasons.")):
        ok(top, "update", hit["id"], "--text", text)
    ok(bob, "sync")
    refused = cli(own, "sync")
    assert (refused.code, "both sides changed this" in refused.err) == (5, True), refused
    command = refused.err.partition("settle it with Git: git ")[2].strip()
    git(own, *shlex.split(command), ok=False)
    assert "both modified" in git(own / "memory", "status"), command
    git(own / "memory", "checkout", "-q", "--theirs", hit["path"].removeprefix("memory/"))
    git(own / "memory", "commit", "-q", "-a", "-m", "Settled")
    git(own / "memory", "rebase", "--continue")
    assert (ok(own, "sync")["sent"], ok(bob, "sync")["received"]) == (1, 1)


def test_what_is_not_shared_yet_may_be_nothing(own: Path) -> None:
    told = cli(own, "diff")
    assert (told.code, "no record is touched" in told.out) == (0, True), told
    ok(own, *DECISION, "Use an LRU cache")
    answer = ok(own, "diff")
    assert (answer["base"]["name"], answer["counts"]) == ("origin/filemem", {"new": 1, "superseded": 1})
    ok(own, "sync")
    assert ok(own, "diff")["counts"] == {}


def test_before_the_first_sync_all_is_new(repo: Path) -> None:
    ok(repo, "init", "--own-branch")
    assert ok(repo, "diff")["counts"] == {}
    for decision in ("Use Redis", "Use an LRU cache"):
        ok(repo, *DECISION, decision)
    ok(repo, "update", ok(repo, "search", "LRU")["results"][0]["id"], "--outcome", "failed", "--reason", "slow")
    assert ok(repo, "diff")["base"]["name"] == "nothing (there is no origin yet)"
    git(repo, "remote", "add", "origin", "../hub.git")
    answer = ok(repo, "diff")
    assert (answer["base"]["name"], answer["counts"]) == ("nothing (never synced with origin)", {"new": 2})
    assert "against nothing (never synced with origin): 2 new" in cli(repo, "diff").out
    copy = (repo / ok(repo, "search", "LRU")["results"][0]["path"]).read_text()
    write(repo / "memory/decisions/aaa.md", copy)
    git(repo / "memory", "add", ".")
    git(repo / "memory", "commit", "-q", "-m", "The same id again")
    (one,) = [one for one in ok(repo, "diff")["effects"] if one.get("path") == "memory/decisions/aaa.md"]
    assert one["details"][-1] == "states the id of Use an LRU cache, which keeps it"


def test_head_is_the_memory_as_it_stands(own: Path) -> None:
    ok(own, *DECISION, "Use an LRU cache")
    new = {"new": 1, "superseded": 1}
    for text in ("filemem~1...HEAD", "filemem~1..HEAD", "filemem~1...", "filemem~1"):
        answer = ok(own, "diff", text)
        assert (answer["head"]["name"], answer["counts"]) == ("filemem", new), text


def test_a_rebase_of_the_memory_is_compared_with_its_branch(own: Path) -> None:
    ok(own, "sync")
    git(own / "memory", "switch", "-q", "--detach")
    assert ok(own, "diff")["counts"] == {}
    write(own / "memory/decisions/queues.md", "# Use NATS\n")
    git(own / "memory", "add", ".")
    git(own / "memory", "commit", "-q", "-m", "queues")
    told = ok(own, "diff")
    assert (told["base"]["name"], told["counts"]) == ("filemem", {"new": 1})


def test_two_moments_of_one_day_are_told_apart(own: Path) -> None:
    day = git(own, "log", "--max-parents=0", "--format=%cd", "--date=format-local:%Y-%m-%d", "filemem", TZ="UTC")
    git(own, "commit", "-q", "--allow-empty", "-m", "before it", GIT_COMMITTER_DATE=f"{day}T00:00:00Z")
    done = cli(own, "search", "--at", "HEAD")
    words = f"nothing was committed by {day}T00:00:00Z: the first commit is of {day}T"
    assert (done.code, words in done.err) == (4, True), done.err


@pytest.mark.parametrize("own_branch", [False, True])
def test_a_sync_tells_of_the_forks_that_it_makes(hub: Path, own_branch: bool) -> None:
    ada, bob = own_branch_of(hub) if own_branch else (clone(hub, "ada"), clone(hub, "bob"))
    ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    ok(bob, "sync")
    ok(ada, *DECISION, "Use an LRU cache")
    ok(bob, *DECISION, "Use Memcached")
    ok(bob, "save", "decision", "--topic", "queues at night", "--decision", "Use NATS", "--reasoning", "r")
    assert ok(ada, "sync")["forked"] == []
    told = ok(bob, "sync")
    assert (told["forked"], told["left"], told["sent"]) == (["caching"], "", 2)
    assert "forked: caching" in told["message"]
    assert "filemem resolve caching --decision" in told["hint"]
    ok(bob, "resolve", "caching", "--decision", "Both", "--reasoning", "r")
    ok(bob, "sync")
    assert ok(ada, "sync")["forked"] == [], "it came with what ended it"


def test_init_in_another_work_tree_keeps_the_memory_that_is_attached(repo: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", "../side")
    side = repo.parent / "side"
    ok(side, "init", "--own-branch")
    ok(side, *DECISION, "Use Redis")
    git(side / "memory", "switch", "-q", "--detach")
    refused = cli(repo, "init")
    assert (refused.code, "is at" in refused.err, "on no branch now" in refused.err) == (5, True, True), refused
    git(side / "memory", "switch", "-q", "filemem")
    for options in (("--dry-run",), ()):
        told = {step["path"]: (step["action"], step["note"]) for step in ok(repo, "init", *options)["steps"]}
        assert told["memory/"] == ("keep", f"the branch filemem is attached at {side / 'memory'}")
        assert "memory/README.md" not in told
    assert (repo / ".filemem.toml").read_text() == (side / ".filemem.toml").read_text() == 'branch = "filemem"\n'
    assert [one["title"] for one in ok(repo, "topics")["topics"]] == ["Use Redis"]
    ok(repo, *DECISION, "Use an LRU cache")
    assert [one["title"] for one in ok(side, "topics")["topics"]] == ["Use an LRU cache"]


def test_a_second_work_tree_uses_the_memory_where_it_is_attached(own: Path) -> None:
    second = own.parent / "second"
    git(own, "worktree", "add", "-q", str(second))
    steps = {step["path"]: step["action"] for step in ok(second, "init", "--diff-driver")["steps"]}
    assert steps["../ada/memory/.gitattributes"] == "create"
    assert steps["../ada/memory/private/.gitignore"] == "keep"
    assert "change ../ada/.git/config" in cli(second, "init", "--diff-driver").out
    assert not (second / "memory").exists()
    assert git(own, "show", "filemem:.gitattributes") == "*.md diff=filemem"
    assert "degraded" not in ok(second, "topics")
    write(second / "memory/decisions/hand.md", "# By hand\n")
    write(second / "memory/README.md", "# No record\n")
    words = "memory/decisions/hand.md is not read: the memory is the branch filemem, at ../ada/memory"
    words += "; the memory has not memory/decisions/hand.md: copy what is to be kept, and commit it there"
    told = ok(second, "status")["stray"]
    assert told["told"] == words
    checked = cli(second, "check")
    assert (checked.code, f"stray-record {words}" in checked.out) == (0, True), checked
    assert "stray-record" not in cli(own, "check").out
    (second / "memory/decisions/hand.md").rename(own / "memory/decisions/hand.md")
    assert ok(second, "search", "hand")["results"][0]["path"] == "../ada/memory/decisions/hand.md"
    assert "stray" not in ok(second, "status")


def test_a_memory_that_is_a_repository_of_its_own_gets_no_branch(repo: Path) -> None:
    nested = make_repo(repo / "memory", commit=False)
    write(nested / "decisions/one.md", "# One\n")
    git(nested, "add", ".")
    git(nested, "commit", "-q", "-m", "One")
    refused = cli(repo, "init", "--own-branch")
    assert (refused.code, "memory/ is a repository of its own" in refused.err) == (5, True), refused
    assert not (repo / ".filemem.toml").exists()
    assert "change memory/.git/config" in cli(repo, "init", "--diff-driver").out
    key = ("config", "--local", "--get-regexp", "^diff")
    assert git(nested, *key).startswith("diff.filemem.textconv")
    assert git(repo, *key, ok=False) == ""


def test_init_says_what_the_settings_name(repo: Path) -> None:
    assert "create .filemem.toml  (names the branch)" in cli(repo, "init", "--own-branch", "--dry-run").out
    assert "create .filemem.toml  (names the store)" in cli(repo, "--store", "notes", "init", "--dry-run").out


def test_a_branch_goes_by_its_short_name(repo: Path) -> None:
    for none in ("refs/notes/z", ""):
        refused = cli(repo, "init", "--own-branch", none)
        assert (refused.code, refused.err.splitlines()[0]) == (2, f"error: no name of a branch: {none!r}")
    assert ok(repo, "init", "--own-branch", "refs/heads/z")["branch"] == "z"
    assert (repo / ".filemem.toml").read_text() == 'branch = "z"\n'
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/heads/z", "refs/heads/refs") == "refs/heads/z"


def test_a_branch_of_its_own_needs_a_folder_of_its_own(repo: Path) -> None:
    before = snapshot(repo)
    for top in (".", "./"):  # as a shell completes it
        refused = cli(repo, "--store", top, "init", "--own-branch", "mem")
        assert (refused.code, "the top of the work tree has main checked out" in refused.err) == (5, True), refused
    assert snapshot(repo) == before


def test_no_branch_of_its_own_begins_where_the_code_had_files(repo: Path) -> None:
    path = ok(repo, *DECISION, "Use Redis")["path"]
    began = git(repo, "rev-parse", "--short=10", "HEAD")
    git(repo, "switch", "-q", "-c", "old")
    git(repo, "switch", "-q", "main")
    done = cli(repo, "init", "--own-branch")
    assert (done.code, "memory/ holds files of this branch" in done.err) == (5, True)
    git(repo, "rm", "-q", path)
    git(repo, "commit", "-q", "-m", "Away")
    done = cli(repo, "init", "--own-branch", "--dry-run")
    assert (done.code, f"memory/ holds files of the code in its commit {began}" in done.err) == (5, True)
    assert "filemem --store NAME init --own-branch" in done.err
    assert git(repo, "status", "--porcelain") + git(repo, "branch", "--list", "filemem") == ""
    ok(repo, "--store", "records", "init", "--own-branch")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records have a branch")
    edited = repo / ok(repo, *DECISION, "Use an LRU cache")["path"]
    write(edited, edited.read_text() + "\nBy hand.\n")
    for branch in ("old", "main"):
        git(repo, "switch", "-q", branch)
    assert edited.read_text().endswith("By hand.\n")
    assert ok(repo, "search")["count"] == 1


@pytest.mark.usefixtures("own")
def test_who_attaches_a_branch_in_a_folder_that_the_code_had_is_told(hub: Path) -> None:
    elsewhere = clone(hub, "bob")
    git(elsewhere, "switch", "-q", "-c", "old")
    write(elsewhere / "memory/decisions/hand.md", "# By hand\n")
    git(elsewhere, "add", "-f", "memory")
    git(elsewhere, "commit", "-q", "-m", "Old")
    git(elsewhere, "push", "-q", "origin", "old")
    late = clone(hub, "eve")
    told = cli(late, "init").out
    assert "memory/ holds files of the code in its commit" in told
    assert f"git -C {late / 'memory'} restore . after" in told


def test_a_branch_of_before_with_code_in_the_usual_folder_uses_the_memory_that_is_attached(repo: Path) -> None:
    write(repo / "memory/pool.c", "int pool;\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "A pool")
    git(repo, "branch", "old")
    ok(repo, "--store", "records", "init", "--own-branch")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records")
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "switch", "-q", "old")
    assert [hit["id"] for hit in ok(repo, "search", "redis")["results"]] == [saved["id"]]
    again = ok(repo, *DECISION, "Use an LRU cache")
    assert (again["superseded"], again["path"].startswith("records/")) == ([saved["id"]], True)
    assert git(repo, "status", "--porcelain") == ""
