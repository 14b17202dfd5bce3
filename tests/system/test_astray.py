"""Records that stay behind when the memory gets a branch of its own, and branches of the code from before that."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import environment, git, make_repo, write
from tests.system.test_economy import STATED, WATCHED
from tests.system.test_sharing import DECISION, clone, hub
from tests.system.tools import cli, ok, until

__all__ = ["hub"]


NOTHING = {"compare": "", "detach": ""}


def shell(folder: Path, command: str, **extra: str) -> None:
    """Run a command as somebody who pastes it."""
    run = ["sh", "-e", "-c", command]
    done = subprocess.run(run, cwd=folder, capture_output=True, env=environment(extra), check=False)
    assert done.returncode == 0, (command, done.stderr)


def told_by_check(folder: Path) -> list[tuple[str, str, str]]:
    return [(one["code"], one["level"], one["message"]) for one in cli(folder, "check", "--json").json["problems"]]


def moved(project: Path) -> Any:
    """Give the records a branch of their own; what is told of those that are left."""
    told = ok(project, "--store", "records", "init", "--own-branch")["stray"]
    git(project, "add", ".filemem.toml", ".mcp.json", "AGENTS.md")
    git(project, "commit", "-q", "-m", "Records have a branch")
    return told


def take_along(project: Path, folder: str = "memory") -> None:
    """Copy what is left, as docs/sharing.md says it."""
    shell(project, f"cp -R {folder}/. records/; git -C records add -A; git -C records commit -q -m 'Take along'")


def remove(project: Path, folder: str = "memory") -> None:
    shell(project, f"git rm -rq {folder}; git commit -q -m 'Records have a branch of their own'")


def move_all(ada: Path) -> None:
    """Give the records a branch of their own, whole, and share that."""
    moved(ada)
    take_along(ada)
    remove(ada)
    ok(ada, "sync")
    git(ada, "push", "-q")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with records in the branch of the code: of two people, edited, forgotten, private, by hand."""
    made = make_repo(tmp_path / "Ada's project")
    write(made / "src/a.py", "1\n")
    ok(made, "init")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "init")
    first = ok(made, *DECISION, "Use Redis")
    ok(made, *DECISION, "Use an LRU cache")
    git(made, "config", "user.name", "Grace")
    ok(made, "save", "decision", "--topic", "queues", "--decision", "Use NATS", "--reasoning", "r")
    ok(made, "update", first["id"], "--outcome", "failed", "--reason", "slow")
    ok(made, "delete", ok(made, "save", "observation", "--title", "Gone", "--text", "x")["id"])
    ok(made, "save", "observation", "--title", "Mine", "--text", "for me alone", "--visibility", "private")
    write(made / "memory/decisions/queues/by hand.md", "---\ntopic: logs\n---\n# Use Kafka\n")
    git(made, "config", "user.name", "Ada")
    git(made, "branch", "old", "HEAD")
    return made


def test_a_filtered_branch_takes_along_who_decided_and_what_was_removed(project: Path) -> None:
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "By hand")
    git(project, "switch", "-q", "-c", "side")
    git(project, "config", "user.name", "Cy")
    ok(project, *DECISION, "Use both")
    git(project, "switch", "-q", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "Beside it")
    git(project, "merge", "-q", "--no-edit", "side")
    git(project, "rm", "-rq", "memory")
    git(project, "commit", "-q", "-m", "Gone for a while")
    write(project / "src/b.py", "1\n")
    git(project, "add", "src")
    git(project, "commit", "-q", "-m", "Code")
    git(project, "revert", "--no-edit", "HEAD~1")
    before = [known(project), *(_without_commits(ok(project, "history", topic)) for topic in ("caching", "logs"))]
    assert {author for _, author in before[0].values()} >= {"Ada", "Grace", "Cy"}
    shell(
        project,
        "git branch filemem; git filter-branch --subdirectory-filter memory -- filemem",
        FILTER_BRANCH_SQUELCH_WARNING="1",
    )
    assert "src" not in git(project, "log", "--name-only", "--format=", "filemem")
    git(project, "worktree", "add", "-q", str(other := project.parent / "other"), "filemem")
    git(other, "rebase", "-q", "-i", "HEAD~1", GIT_SEQUENCE_EDITOR="sed -i 1s/pick/edit/")
    refused = cli(project, "--store", "records", "init", "--own-branch")
    assert (refused.code, "is being rebased in another work tree" in refused.err) == (5, True)
    git(other, "rebase", "--continue")
    git(project, "worktree", "remove", str(other))
    moved(project)
    shell(project, "cp -R memory/private records/; git rm -rq memory; rm -r memory; git commit -qm 'Moved'")
    after = [known(project), *(_without_commits(ok(project, "history", topic)) for topic in ("caching", "logs"))]
    assert after == before
    assert git(project, "-C", "records", "show", "HEAD:.filemem.toml") == 'store = "."', "it is a memory by itself"
    assert ok(project, "restore", "Gone")["id"]
    git(project, "switch", "-q", "old")
    assert ok(project, "history", "caching")["chain"] == ok(project / "records", "history", "caching")["chain"]
    git(project, "switch", "-q", "main")
    assert git(project, "-C", "records", "status", "--porcelain") == ""
    assert "stray" not in ok(project, "status")


def _without_commits(told: Any) -> Any:
    """A story without the ids of commits, and the paths, which another folder has."""
    return re.sub("[0-9a-f]{40}|(memory|records)/", "", json.dumps(told, indent=1)).splitlines()


def known(project: Path) -> dict[str, tuple[str, str]]:
    """The records by id, each with its title and who brought it when."""
    hits = ok(project, "search", "--limit", "50")["results"]
    return {hit["id"]: (hit["title"], hit.get("by", {}).get("author", "")) for hit in hits}


@pytest.mark.parametrize("saved_before", [False, True])
def test_what_is_left_is_told_until_it_is_copied_and_removed(project: Path, saved_before: bool) -> None:
    before, story = known(project), [step["title"] for step in ok(project, "history", "caching")["chain"]]
    left = "5 records in memory/ are not read: the memory is the branch filemem, at records"
    lacks = f"{left}; the memory has not memory/"
    assert moved(project)["told"].startswith(lacks)
    deploy = ("save", "decision", "--topic", "deploy", "--decision", "By hand", "--reasoning", "r")
    new = ok(project, *deploy)["id"] if saved_before else ""
    told = ok(project / "src", "status")["stray"]["told"]
    assert told.startswith(lacks)
    assert told.endswith(" and 4 more: copy what is to be kept, and commit it there")
    take_along(project)
    after = {key: value for key, value in known(project).items() if key != new}
    assert {one: title for one, (title, _) in after.items()} == {one: title for one, (title, _) in before.items()}
    assert [step["title"] for step in ok(project, "history", "caching")["chain"] if step["id"] != new] == story
    assert ok(project, "status")["stray"] == {"told": f"{left}, and the memory has all that they say", **NOTHING}
    by_hand = [("no-date", "hint"), ("no-id", "hint")]
    assert sorted(one[:2] for one in told_by_check(project)) == [*by_hand, ("stray-record", "hint")]
    remove(project)
    shutil.rmtree(project / "memory")  # the private ones, which are copied too
    assert "stray" not in ok(project, "status")
    assert sorted(one[:2] for one in told_by_check(project)) == by_hand
    assert git(project, "status", "--porcelain") == ""
    git(project, "worktree", "add", "-q", "../old", "old")
    assert ok(project.parent / "old", "status")["stray"]["told"].endswith("the memory has all that they say")


def test_a_question_that_finds_nothing_tells_what_is_left(project: Path) -> None:
    moved(project)
    words = "memory/ has records, which are not read: filemem status says what of them is missing"
    for empty in (True, False):
        if not empty:
            ok(project, "save", "decision", "--topic", "auth", "--decision", "Use tokens", "--reasoning", "r")
        assert words in ok(project, "search", "redis", "--mode", "keyword")["note"]
        for command in ("get", "history"):
            assert words in cli(project, command, "nothing").err, command
    assert "note" not in ok(project, "search", "tokens")
    assert words not in ok(project, "search", "--topic", "nothing", "--at", "filemem")["note"]
    ((code, level, text),) = told_by_check(project)
    assert (code, level, "copy what is to be kept" in text) == ("stray-record", "hint", True)
    assert text in cli(project, "status").out


def test_a_search_beside_them_starts_no_process(tmp_path: Path) -> None:
    project = make_repo(tmp_path / "repo")  # what filemem saves itself is looked after for a while
    write(project / "memory/decisions/nats.md", "# Use NATS\n")
    moved(project)
    write(project / "records/redis.md", STATED)
    git(project / "records", "add", "-A")
    git(project / "records", "commit", "-q", "-m", "Record")
    command = [sys.executable, "-c", WATCHED, "redis", "--mode", "keyword"]

    def told() -> str:
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
        assert "Use Redis" in done.stdout
        return done.stderr.splitlines()[-1].strip()

    until(lambda: told() == "[]")


@pytest.mark.parametrize("rebase", ["true", "false"])
def test_what_another_clone_had_saved_is_told_there(hub: Path, rebase: str) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    git(bob, "config", "pull.rebase", rebase)
    ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    ok(bob, "sync")
    mine = ok(bob, *DECISION, "Use an LRU cache")["path"]
    planned = ok(ada, "--store", "records", "init", "--own-branch", "--dry-run")["stray"]["told"]
    words = "memory/ has records, which are not read then: copy them into the new one and commit that there"
    assert planned == words
    move_all(ada)
    git(bob, "pull", "-q", "--no-edit")
    refused = cli(bob, "search", "redis")
    assert (refused.code, "`filemem init` attaches it" in refused.err) == (7, True)
    told = ok(bob, "init")["stray"]["told"]
    assert told.startswith(f"{mine} is not read")
    assert told.endswith(f"; the memory has not {mine}: copy what is to be kept, and commit it there")
    take_along(bob)
    remove(bob)
    assert [step["title"] for step in ok(bob, "history", "caching")["chain"]] == ["Use Redis", "Use an LRU cache"]
    assert told_by_check(bob) == []
    assert ok(bob, "sync")["sent"] == 1
    ok(ada, "sync")
    assert known(ada) == known(bob)


def test_other_files_in_a_folder_of_that_name_are_no_records(project: Path) -> None:
    git(project, "rm", "-rq", "--cached", "memory")
    git(project, "commit", "-q", "-m", "Away")
    subprocess.run(["rm", "-r", str(project / "memory")], check=True)
    write(project / "memory/DESIGN.md", "# How the allocator works\n")
    write(project / "memory/pool.c", "int pool;\n")
    ok(project, "--store", "records", "init", "--own-branch")
    assert "stray" not in ok(project, "status")
    write(project / "memory/redis.md", "---\ntopic: caching\n---\n# Use Redis\n")
    told = ok(project, "status")["stray"]
    assert told["told"].startswith("memory/redis.md is not read")


@pytest.mark.parametrize("settings", ["", 'store = "docs/decisions"\n'])
@pytest.mark.parametrize("own", ['store = "."\n', 'store = "sub"\n', ""])
def test_an_old_branch_uses_the_memory_that_is_attached(project: Path, settings: str, own: str) -> None:
    git(project, "switch", "-q", "old")
    write(project / "memory/DESIGN.md", "# How it works\n")
    write(project / "docs/decisions/0001.md", "# Use Postgres\n")
    if settings:
        write(project / ".filemem.toml", settings)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Of old")
    git(project, "switch", "-q", "main")
    moved(project)
    saved = ok(project, *DECISION, "Use a dictionary")
    old = project.parent / "old"
    write(project / "records/.filemem.toml", own)
    git(project, "worktree", "add", "-q", str(old), "old")
    places = [(old, "../Ada's project/records")]
    if own == 'store = "."\n':  # else nothing but the settings of the branch that is left tells what is a memory
        git(project, "switch", "-q", "--detach", "old")
        places.append((project, "records"))
    for here, there in places:
        assert [hit["id"] for hit in ok(here, "search", "dictionary", "--type", "decision")["results"]] == [saved["id"]]
        assert ok(here, "save", "observation", "--title", "x", "--text", "y")["path"].startswith(f"{there}/")
        assert git(here, "status", "--porcelain") == ""
        assert "are not read" in ok(here, "status")["stray"]["told"]
    assert ok(project / "records", "status")["store"] == "records"
    assert ok(old, "--store", "memory", "search", "nats")["results"][0]["title"] == "Use NATS", "asked for by name"


def test_init_refuses_what_contradicts_the_memory_that_is_attached(project: Path) -> None:
    moved(project)
    old = project.parent / "old"
    git(project, "worktree", "add", "-q", str(old), "old")
    before = git(project, "branch", "--list")
    attached = f"the memory of this repository is the branch filemem, attached at {project / 'records'}"
    for options, why in (
        (("--store", "notes", "init"), "--store names notes"),
        (("--store", "memory", "init"), "--store names memory"),
        (("init", "--own-branch", "other"), "--own-branch names other"),
    ):
        refused = cli(old, *options)
        assert (refused.code, f"{attached}, and {why}" in refused.err) == (5, True), refused
    for setting, why in (
        ('store = "docs/decisions"\n', "store names docs/decisions"),
        ('branch = "b"\n', "branch names b"),
    ):
        write(old / ".filemem.toml", setting)
        refused = cli(old, "init")
        assert (refused.code, f"{attached}, and .filemem.toml: {why}" in refused.err) == (5, True), refused
    refused = cli(old, "search", "x")
    assert (refused.code, ".filemem.toml names the branch b for the memory" in refused.err) == (7, True), refused
    (old / ".filemem.toml").unlink()
    assert (git(old, "status", "--porcelain"), git(project, "branch", "--list")) == ("", before)
    ok(old, "init")
    assert (old / ".filemem.toml").read_text() == (project / ".filemem.toml").read_text()
    assert (old / "AGENTS.md").read_text() == (project / "AGENTS.md").read_text()


def test_a_clone_of_an_old_branch_does_not_save_into_it(project: Path) -> None:
    bare = project.parent / "hub.git"
    git(project.parent, "clone", "-q", "--bare", str(project), str(bare))
    git(project, "remote", "add", "origin", str(bare))
    moved(project)
    git(project, "push", "-q", "-u", "origin", "main")
    ok(project, "sync")
    bob = clone(bare, "bob", "--branch", "old")
    refused = cli(bob, *DECISION, "Use a dictionary")
    words = "memory/ is an older memory of this project, which is the branch filemem now, as origin/main says"
    assert (refused.code, words in refused.err, "`filemem init` attaches it" in refused.err) == (7, True, True), refused
    for change in (("update", "Redis", "--outcome", "failed"), ("forget", "Redis"), ("restore", "Redis"), ("sync",)):
        refused = cli(bob, *change)
        assert (refused.code, words in refused.err) == (7, True), (change, refused)
    assert words in ok(bob, "status")["stray"]["told"]
    assert [(code, level) for code, level, _ in told_by_check(bob)] == [("stray-record", "hint")]
    ok(bob, "init")
    assert (bob / ".filemem.toml").read_text() == (project / ".filemem.toml").read_text()
    assert ok(bob, *DECISION, "Use a dictionary")["path"].startswith("records/")
    behind = clone(bare, "eve")
    git(behind, "reset", "-q", "--hard", "origin/old")
    assert f"git -C {behind} pull" in cli(behind, *DECISION, "Use a dictionary").err


def test_what_another_clone_says_of_a_record_is_told(hub: Path) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    first = ok(ada, *DECISION, "Use gRPC")
    ok(ada, "save", "decision", "--topic", "queues", "--decision", "Use NATS", "--reasoning", "r")
    ok(ada, "sync")
    ok(bob, "sync")
    git(bob, "switch", "-q", "-c", "old")
    ok(bob, "update", first["id"], "--outcome", "failed", "--reason", "x")
    move_all(ada)
    git(bob, "switch", "-q", "main")
    git(bob, "pull", "-q")
    ok(bob, "init")
    git(bob, "switch", "-q", "old")
    inside = first["path"].removeprefix("memory/")
    told = ok(bob, "status")["stray"]
    words = f"; the memory never had what {first['path']} says: carry over what is new there"
    assert told["told"].endswith(words)
    assert told["compare"] == f"git -C {bob} diff --no-index -- records/{inside} {first['path']}"
    assert "failed: x" in git(bob, *shlex.split(told["compare"])[3:], ok=False)
    assert f"to see what is new: {told['compare']}" in cli(bob, "status").out
    shutil.copy(bob / first["path"], bob / "records" / inside)
    git(bob / "records", "commit", "-q", "-a", "-m", "What came of it")
    ok(bob, "update", first["id"], "--outcome", "success", "--reason", "y")
    told = ok(bob, "status")["stray"]
    assert (told["told"].endswith("the memory has all that they say"), told["compare"]) == (True, ""), "it had it once"


def test_an_edit_by_hand_and_a_record_that_was_moved_are_told_too(project: Path) -> None:
    moved(project)
    take_along(project)
    records = project / "records"
    redis, lru = sorted(project.glob("memory/decisions/caching/*.md"), reverse=True)
    for file in (redis, lru):
        write(file, file.read_bytes().replace(b"\n", b"\r\n"))
    assert ok(project, "status")["stray"]["compare"] == "", "line endings are no words"
    write(redis, redis.read_bytes() + b"By hand.\n")
    git(records, "mv", "decisions/caching", "decisions/speed")
    git(records, "commit", "-q", "-m", "Moved")
    told = ok(project, "status")["stray"]
    assert lru.name not in told["told"] + told["compare"]
    there, here = (f"{one}/{redis.name}" for one in ("records/decisions/speed", "memory/decisions/caching"))
    assert told["compare"].endswith(f" diff --no-index -- {there} {here}")
    assert f"the memory never had what {here} says" in told["told"]


def test_what_held_before_is_asked_of_the_branch_of_the_code(project: Path) -> None:
    git(project, "tag", "v1")
    story = [step["title"] for step in ok(project, "history", "caching")["chain"]]
    moved(project)
    take_along(project)
    remove(project)
    shutil.rmtree(project / "memory")
    told = ok(project, "--store", "memory", "history", "caching", "--at", "v1")["chain"]
    assert [step["title"] for step in told] == story
    assert {step["author"] for step in told} == {"Ada"}
