"""Forgetting: a record goes by a commit, nothing but `restore` brings it back, and history is the user's to rewrite."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import NotFound
from filemem.memory import Memory
from filemem.repo.history import History
from tests.support import environment, git, make_repo, write
from tests.system.tools import cli, ok

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


def tombstone(repo: Path, record_id: str) -> Path:
    return repo / "memory/.forgotten" / hashlib.sha256(record_id.encode()).hexdigest()


def test_forget_and_restore(repo: Path) -> None:
    old = ok(repo, *DECISION, "Use Redis")
    new = ok(repo, *DECISION, "Use an LRU cache")
    before = (repo / new["path"]).read_bytes()
    answer = ok(repo, "forget", new["id"], "--reason", "a test")
    mark = tombstone(repo, new["id"])
    assert mark.read_bytes() == b""
    assert "Git history keeps it" in answer["message"]
    assert git(repo, "show", "--format=", "--name-status", "HEAD").splitlines() == [
        f"A\t{mark.relative_to(repo)}",
        f"D\t{new['path']}",
    ]
    assert git(repo, "status", "--porcelain") == ""
    assert [hit["id"] for hit in ok(repo, "search")["results"]] == [old["id"]]
    assert ok(repo, "search")["results"][0]["superseded_by"] == []
    assert cli(repo, "check").code == 0
    assert ok(repo, "search", "--at", "HEAD~1")["results"][0]["id"] == new["id"], "it was known then"
    assert [hit["id"] for hit in ok(repo, "search", "--at", "HEAD")["results"]] == [old["id"]]
    gone = cli(repo, "get", new["id"])
    assert (gone.code, "deleted in" in gone.err) == (4, True)

    done = ok(repo, "restore", new["id"].rpartition("_")[2])
    assert (done["id"], done["path"]) == (new["id"], new["path"])
    assert (repo / new["path"]).read_bytes() == before
    assert not mark.exists()
    assert git(repo, "status", "--porcelain") == ""
    assert ok(repo, "search", "is:live")["results"][0]["id"] == new["id"]
    assert cli(repo, "restore", new["id"]).code == 4, "it is there"
    assert cli(repo, "restore", "nothing").code == 4


def test_what_never_was_is_told_without_a_walk_through_history(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = [ok(repo, *DECISION, f"Use {name}") for name in ("Redis", "an LRU cache", "nothing")]
    git(repo, "mv", saved[0]["path"], "memory/decisions/redis.md")
    git(repo, "commit", "-q", "-m", "Move")
    ok(repo, "forget", saved[1]["id"])
    git(repo, "rm", "-q", saved[2]["path"])
    git(repo, "commit", "-q", "-m", "Remove")
    write(repo / "code.py", "print('later')\n")
    git(repo, "commit", "-q", "-a", "-m", "Code")
    asked = [one[name] for one in saved[1:] for name in ("id", "path")]
    asked += [saved[1]["id"][-8:], Path(saved[2]["path"]).name]
    with Memory.open(repo) as memory:
        for one in asked:
            with pytest.raises(NotFound, match="deleted in"):
                memory.get(one)
        assert memory.get(saved[0]["path"])[0].id == saved[0]["id"]
    write(repo / "code.py", "print('later still')\n")
    git(repo, "commit", "-q", "-a", "-m", "Code again")
    with Memory.open(repo) as memory:
        whole, walk = [], History.walk

        def walked(self: History, folder: str, since: str = "", *how: Any, **more: Any) -> Any:
            whole.append(since)
            return walk(self, folder, since, *how, **more)

        monkeypatch.setattr(History, "walk", walked)
        for one in ("WRONG-ID", "decision_caching_1763650000123_k3f9w2ma", "k3f9w2ma", "memory/decisions/none.md"):
            with pytest.raises(NotFound) as refused:
                memory.get(one)
            assert "deleted" not in refused.value.message
        for one in ("decision_caching_1763650000123_k3f9w2ma", "k3f9w2ma"):
            with pytest.raises(NotFound, match=f"no record '{one}' was removed"):
                memory.restore(one)
        assert "" not in whole, "what commits brought since is asked for, and nothing before"
        with pytest.raises(NotFound, match="no topic"):
            memory.history("never heard of")
        assert "" not in whole
    (repo / "memory/decisions/redis.md").unlink()
    with Memory.open(repo) as memory, pytest.raises(NotFound, match="is gone, and no commit says so"):
        memory.get(saved[0]["id"])


def test_what_was_comes_back_by_its_short_id_whatever_became_of_its_name(repo: Path) -> None:
    def known(path: str) -> str:
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "Change")
        return next(str(one["id"]) for one in ok(repo, "search")["results"] if one["path"] == path)

    own = ok(repo, *DECISION, "Use Redis")
    first, moved = "memory/decisions/a.md", "memory/decisions/b.md"
    ids = []
    for title in ("One", "Another"):  # under one name, one after the other
        write(repo / first, f"# {title}\n\n{title} for its own reasons.\n")
        ids.append(known(first))
        git(repo, "rm", "-q", first)
        git(repo, "commit", "-q", "-m", "Remove")
    write(repo / first, "# A third\n\nFor reasons that nobody remembers.\n")
    known(first)
    git(repo, "mv", first, moved)
    ids.append(known(moved))
    git(repo, "rm", "-q", moved)
    ok(repo, "forget", own["id"])
    git(repo, "commit", "-q", "-m", "Remove")
    shorts = [one[-8:] for one in ids]
    assert len({*shorts}) == 3
    assert all(re.search("[0-9]", one) for one in shorts), "which is no word, so that it is looked up as an id"
    for one in shorts:
        ok(repo, "search")
        assert ok(repo, "restore", one)["id"][-8:] == one
    ok(repo, "restore", own["id"][-8:])


def test_an_edited_record_is_not_forgotten_and_named_as_people_see_it(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    path = repo / saved["path"]
    path.write_text(path.read_text() + "More.\n")
    assert cli(repo, "forget", saved["id"]).err.startswith(f"error: {saved['path']} has edits that are not committed")
    path.write_text(path.read_text() + "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n")
    assert cli(repo, "update", saved["id"], "--outcome", "failed").err.startswith(f"error: {saved['path']}:")


@pytest.mark.parametrize("staged", [False, True])
def test_what_was_never_committed_is_not_forgotten_as_nothing_would_keep_it(repo: Path, staged: bool) -> None:
    path = write(repo / "memory/decisions/hours.md", "# Hours of work\n\nOf a person.\n")
    git(repo, "add", "memory") if staged else None
    before = git(repo, "status", "--short")
    refused = cli(repo, "forget", "hours.md")
    assert (refused.code, refused.err) == (
        5,
        "error: memory/decisions/hours.md was never committed, so nothing would keep it\n"
        "hint: commit it first, or delete the file yourself\n",
    )
    assert (path.read_text()[:7], git(repo, "status", "--short")) == ("# Hours", before)
    git(repo, "add", "memory")
    git(repo, "commit", "-q", "-m", "Write")
    ok(repo, "forget", "hours.md")
    ok(repo, "restore", "hours.md")
    assert path.exists()


def test_what_only_the_work_tree_has_is_not_forgotten_either_where_commits_are_left_to_the_user(repo: Path) -> None:
    write(repo / ".filemem.toml", '[commit]\ndecision = "leave"\n')
    saved = ok(repo, *DECISION, "Use Redis")
    path = repo / saved["path"]
    assert "was never committed" in cli(repo, "forget", saved["id"]).err
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Save")
    path.write_text(path.read_text() + "\nA day of writing.\n")
    assert "has edits that are not committed" in cli(repo, "forget", saved["id"]).err
    git(repo, "checkout", "-q", saved["path"])
    ok(repo, "forget", saved["id"])
    assert not path.exists()


def test_what_waits_for_its_commit_is_forgotten_only_as_it_was_written(repo: Path) -> None:
    write(repo / "a.py", "1\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Code")
    git(repo, "rebase", "-q", "-x", "false", "HEAD~1", ok=False)
    saved, other = ok(repo, *DECISION, "Use Redis"), ok(repo, "save", "observation", "--title", "T", "--text", "x")
    path = repo / saved["path"]
    path.write_text(path.read_text() + "\nA day of writing.\n")
    assert "has edits that are not committed" in cli(repo, "forget", saved["id"]).err
    assert "A day of writing" in path.read_text()
    ok(repo, "forget", other["id"])
    assert not (repo / other["path"]).exists()


@pytest.mark.parametrize("how", ["forgotten", "by hand", "on the branch that is merged", "edited there"])
def test_a_removal_is_told_with_its_commit_and_no_merge_that_came_later(repo: Path, how: str) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "switch", "-q", "-c", "side")
    if how == "edited there":
        ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "Slow")
    write(repo / "side.py", "1\n")
    git(repo, "add", "side.py")
    git(repo, "commit", "-q", "-m", "Side")
    git(repo, "switch", "-q", "side" if how == "on the branch that is merged" else "main")
    if how == "by hand":
        git(repo, "rm", "-q", saved["path"])
        git(repo, "commit", "-q", "-m", "Away")
    else:
        ok(repo, "forget", saved["id"])
    gone = git(repo, "rev-parse", "--short=10", "HEAD")
    git(repo, "switch", "-q", "main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Go on")
    git(repo, "merge", "-q", "--no-edit", "side", ok=how != "edited there")
    if how == "edited there":
        git(repo, "rm", "-q", saved["path"])
        git(repo, "commit", "-q", "-m", "Merge side")
    for _ in range(2):
        told = cli(repo, "get", saved["id"]).err
        assert f"deleted in {gone} " in told
        subprocess.run(shlex.split(told.split("`")[1]), check=True, capture_output=True)
        ok(repo, "index", "--rebuild")
    kept = ok(repo, "restore", saved["id"]) and (repo / saved["path"]).read_text()
    assert ("Slow" in kept) == (how == "edited there"), "as it last was"


@pytest.fixture
def merging(repo: Path) -> Path:
    """A merge in progress, so that saves wait."""
    write(repo / "a.py", "0\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "a.py")
    for branch, text in (("side", "1\n"), ("main", "2\n")):
        git(repo, "switch", "-q", *(["-c"] if branch == "side" else []), branch)
        write(repo / "a.py", text)
        git(repo, "commit", "-q", "-am", text)
    git(repo, "merge", "-q", "side", ok=False)
    return repo


def test_a_waiting_save_that_is_forgotten_is_in_no_commit_of_the_users(merging: Path) -> None:
    saved = ok(merging, *DECISION, "Use Redis")
    write(merging / "a.py", "3\n")
    git(merging, "add", "-A")
    lock = write(merging / ".git/index.lock", "")
    assert "index.lock" in cli(merging, "forget", saved["id"]).err
    assert (merging / saved["path"]).exists()
    lock.unlink()
    ok(merging, "forget", saved["id"])
    assert git(merging, "status", "--porcelain") == "M  a.py"
    git(merging, "commit", "-q", "-m", "Merge")
    assert ok(merging, "search")["count"] == 0
    assert "memory" not in git(merging, "ls-tree", "-r", "--name-only", "HEAD")


def test_a_restore_that_waits_may_be_forgotten_again_or_updated(merging: Path) -> None:
    git(merging, "merge", "--abort")
    one, two = (ok(merging, *DECISION[:3], name, *DECISION[4:], f"Use {name}") for name in ("a", "b"))
    for saved in (one, two):
        ok(merging, "forget", saved["id"])
    git(merging, "merge", "-q", "side", ok=False)
    for saved in (one, two):
        assert ok(merging, "restore", saved["id"])["pending"]
    assert "Git history keeps it" in ok(merging, "forget", one["id"])["message"]
    ok(merging, "update", two["id"], "--outcome", "failed", "--reason", "Slow")
    assert ok(merging, "get", two["id"])["results"][0]["outcome"] == "failed"
    git(merging, "merge", "--abort")
    assert ok(merging, "search")["count"] == 1
    assert [tombstone(merging, saved["id"]).exists() for saved in (one, two)] == [True, False]
    assert git(merging, "status", "--porcelain") == ""
    assert "failed" in git(merging, "show", f"HEAD:{two['path']}")


def test_a_forget_that_waits_is_told_as_one(merging: Path) -> None:
    git(merging, "merge", "--abort")
    saved = ok(merging, *DECISION, "Use Redis")
    git(merging, "merge", "-q", "side", ok=False)
    assert ok(merging, "forget", saved["id"])["pending"]
    told = cli(merging, "get", saved["id"]).err
    assert "goes with a commit that still waits" in told
    assert f"`filemem restore {saved['id']}`" in told


@pytest.mark.parametrize("staged", [False, True])
def test_edits_beside_what_waits_are_not_forgotten(merging: Path, staged: bool) -> None:
    saved = ok(merging, *DECISION, "Use Redis")
    git(merging, "merge", "--abort")
    ok(merging, "search")
    git(merging, "merge", "-q", "side", ok=False)
    ok(merging, "update", saved["id"], "--outcome", "failed", "--reason", "Slow")
    path = merging / saved["path"]
    write(path, path.read_text() + "\nWords of mine.\n")
    if staged:
        git(merging, "add", saved["path"])
        git(merging, "restore", saved["path"], "--source", "HEAD")
    assert "edits that are not committed" in refused(merging, "forget", saved["id"])["message"]
    git(merging, "restore", "--staged", "--worktree", saved["path"])
    ok(merging, "forget", saved["id"])
    assert ok(merging, "search")["count"] == 0


@pytest.mark.parametrize("how", ["merged into", "merged", "renamed, merged into", "renamed, merged"])
def test_a_merge_that_comes_after_a_removal_takes_nothing_from_what_was_said_last(repo: Path, how: str) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "switch", "-q", "-c", "side")
    if "renamed" in how:
        git(repo, "mv", saved["path"], "memory/lru.md")
        git(repo, "commit", "-q", "-m", "Shorter")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "Slow")
    ok(repo, "forget", saved["id"])
    gone = git(repo, "rev-parse", "--short=10", "HEAD")
    git(repo, "switch", "-q", "main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Go on")
    if how.endswith("into"):
        git(repo, "switch", "-q", "side")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "main" if how.endswith("into") else "side")
    for _ in range(2):
        told = cli(repo, "get", saved["id"]).err
        assert f"deleted in {gone} " in told
        shown = subprocess.run(shlex.split(told.split("`")[1]), check=True, capture_output=True, text=True).stdout
        assert "Slow" in shown
        ok(repo, "index", "--rebuild")
    back = ok(repo, "restore", saved["id"])
    assert (repo / back["path"]).read_text() == shown
    assert back["path"] == ("memory/lru.md" if "renamed" in how else saved["path"])


@pytest.mark.parametrize("first", ["main", "side"])
@pytest.mark.parametrize("how", ["forgotten", "by hand"])
def test_what_two_branches_removed_is_gone_since_the_removal_that_landed_first(
    repo: Path, how: str, first: str
) -> None:
    saved, gone = ok(repo, *DECISION, "Use Redis"), {}
    git(repo, "branch", "side")
    for branch in (first, "side" if first == "main" else "main"):
        git(repo, "switch", "-q", branch)
        ok(repo, "forget", saved["id"]) if how == "forgotten" else git(repo, "rm", "-q", saved["path"])
        git(repo, "commit", "-q", "--allow-empty", "-m", f"Away on {branch}")
        gone[branch] = git(repo, "log", "--diff-filter=D", "-1", "--format=%h", "--abbrev=10")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "side")
    for _ in range(2):
        assert f"deleted in {gone['main']} " in cli(repo, "get", saved["id"]).err
        ok(repo, "index", "--rebuild")
    ok(repo, "restore", saved["id"])
    (step,) = ok(repo, "history", saved["id"])["chain"]
    assert step["revisions"][0]["commit"].startswith(gone["main"])


def test_a_name_that_two_branches_gave_up_and_another_record_had_is_told_of_that(repo: Path) -> None:
    saved = [ok(repo, *DECISION, f"Use {name}") for name in ("Redis", "NATS")]
    path = "memory/decisions/redis.md"
    git(repo, "mv", saved[0]["path"], path)
    git(repo, "commit", "-q", "-m", "Shorter")
    git(repo, "branch", "side")
    for branch in ("side", "main"):
        git(repo, "switch", "-q", branch)
        git(repo, "rm", "-q", path)
        git(repo, "commit", "-q", "-m", f"Away on {branch}")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "side")
    git(repo, "mv", saved[1]["path"], path)
    git(repo, "commit", "-q", "-m", "Taken")
    git(repo, "rm", "-q", path)
    git(repo, "commit", "-q", "-m", "Away too")
    last = git(repo, "rev-parse", "--short=10", "HEAD")
    assert f"deleted in {last} " in cli(repo, "get", saved[1]["id"]).err
    assert "Away on main" in cli(repo, "get", saved[0]["id"]).err


def test_what_a_third_branch_said_of_it_comes_back_with_it(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    for branch in ("side", "third"):
        git(repo, "branch", branch)
    for branch in ("side", "main"):
        git(repo, "switch", "-q", branch)
        ok(repo, "forget", saved["id"])
    gone = git(repo, "rev-parse", "--short=10", "HEAD")
    git(repo, "switch", "-q", "third")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "Slow")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "side")
    git(repo, "merge", "-q", "--no-edit", "third", ok=False)
    git(repo, "rm", "-q", saved["path"])
    git(repo, "commit", "-q", "-m", "Merge third")
    told = cli(repo, "get", saved["id"]).err
    assert f"deleted in {gone} " in told
    shown = subprocess.run(shlex.split(told.split("`")[1]), cwd=repo, check=True, capture_output=True, text=True).stdout
    assert "Slow" in shown
    ok(repo, "restore", saved["id"])
    assert (repo / saved["path"]).read_text() == shown


def test_what_a_merge_brings_back_is_hidden_and_reported(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "checkout", "-q", "-b", "side")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "slow")
    git(repo, "checkout", "-q", "main")
    ok(repo, "forget", saved["id"])
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        git(repo, "merge", "-q", "side", ok=False)  # removed here, changed there
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", "merged, the file kept")
        assert (repo / saved["path"]).is_file()
        memory.refresh()
        assert memory.search().hits == ()
        memory.refresh(full=True)
        assert memory.search().hits == ()
        assert memory.refresh(full=True).changed == 0, "what is hidden is no news"
    assert ok(repo, "search")["count"] == 0
    assert "forgotten" in cli(repo, "check").out
    assert ok(repo, "index", "--rebuild")["success"]
    assert ok(repo, "search")["count"] == 0
    assert ok(repo, "restore", saved["id"])["commit"]
    assert ok(repo, "get", saved["id"])["results"][0]["outcome"] == "failed"
    assert cli(repo, "check").code == 0


def test_a_tombstone_that_comes_alone_hides_the_record(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    write(tombstone(repo, saved["id"]), b"")
    assert ok(repo, "search")["count"] == 0
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "forget by hand")
    assert ok(repo, "search")["count"] == 0
    git(repo, "rm", "-q", str(tombstone(repo, saved["id"])))
    assert ok(repo, "search")["count"] == 1


def test_forgetting_waits_for_a_repository_that_is_busy(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "checkout", "-q", "--detach")
    assert ok(repo, "forget", saved["id"])["pending"] == "HEAD is detached"
    assert not tombstone(repo, saved["id"]).exists()
    assert ok(repo, "search")["count"] == 0
    git(repo, "checkout", "-q", "main")
    assert ok(repo, "search")["count"] == 0
    assert tombstone(repo, saved["id"]).exists()
    assert git(repo, "status", "--porcelain") == ""


def paste(steps: list[str], at: Path) -> int:
    """Run commands as a shell does that they are pasted into: it stops for nothing but what they say themselves."""
    command = ["bash", "-c", "\n".join(steps)]
    return subprocess.run(command, cwd=at, env=environment(), capture_output=True, check=False).returncode


def purge(steps: list[str], at: Path) -> str:
    """Run the steps, which must succeed; what they print."""
    command = ["bash", "-c", "\n".join(steps)]
    done = subprocess.run(command, cwd=at, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().rpartition("was rewritten\n")[2]


def objects(repo: Path) -> str:
    return git(repo, "cat-file", "--batch-all-objects", "--batch", "--unordered")


def test_the_commands_that_purge_a_secret_do_so(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "it's a repo")
    other = ok(repo, *DECISION, "Keep this")
    saved = ok(repo, "save", "observation", "--title", "Oops", "--text", "The passphrase is hunter2 squared")
    git(repo, "mv", saved["path"], "memory/observations/moved.md")
    git(repo, "commit", "-q", "-m", "moved by hand")
    told = cli(repo, "forget", saved["id"])
    assert "hunter2" in objects(repo)
    steps = [row.strip() for row in told.out.splitlines() if row.startswith("    ")]
    rows = purge(steps, tmp_path).splitlines()
    assert {row.partition(" ")[2] for row in rows} == {"missing"}
    assert "hunter2" not in objects(repo)
    assert not any("hunter2" in p.read_text(errors="replace") for p in (repo / ".git").rglob("*") if p.is_file())
    assert ok(repo, "get", other["id"])["count"] == 1
    assert git(repo, "status", "--porcelain") == ""


def test_the_same_for_what_was_shared(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "hub.git")
    repo = make_repo(tmp_path / "repo")
    git(repo, "remote", "add", "origin", str(tmp_path / "hub.git"))
    saved = ok(repo, "save", "observation", "--title", "Oops", "--text", "The passphrase is hunter2 squared")
    git(repo, "push", "-q", "-u", "origin", "main")
    steps = ok(repo, "forget", saved["id"])["purge"]
    assert ok(repo, "sync")["sent"] == 1
    purge(steps, tmp_path)
    git(tmp_path / "hub.git", "gc", "-q", "--prune=now")
    assert "hunter2" not in objects(tmp_path / "hub.git")
    git(tmp_path, "clone", "-q", "hub.git", "fresh")
    assert cli(tmp_path / "fresh", "check").code == 0
    assert tombstone(tmp_path / "fresh", saved["id"]).exists()
    git(repo, "fetch", "-q")
    ok(repo, "save", "checkpoint", "--summary", "still at work in the old clone")
    done = ok(repo, "sync")
    assert (done["sent"], done["left"]) == (1, ""), "only what was not shared before is put on top"
    assert "hunter2" not in objects(tmp_path / "hub.git"), "an old clone does not bring it back"


@pytest.mark.parametrize("how", ["forgotten", "renamed first", "renamed and removed by hand", "purged"])
def test_a_successor_of_what_was_removed_on_purpose_is_no_warning(tmp_path: Path, how: str) -> None:
    repo = make_repo(tmp_path / "repo")
    old = ok(repo, *DECISION, "Key A")
    new = ok(repo, *DECISION, "Key B")
    path = old["path"]
    if "renamed" in how:
        path = "memory/decisions/caching/a.md"
        git(repo, "mv", old["path"], path)
        git(repo, "commit", "-q", "-m", "Shorter")
    if "by hand" in how:
        git(repo, "rm", "-q", path)
        git(repo, "commit", "-q", "-m", "Remove")
    else:
        steps = ok(repo, "forget", "Key A")["purge"]
        if how == "purged":
            purge(steps, tmp_path)
    git(tmp_path, "clone", "-q", "repo", "fresh")
    for clone in (repo, tmp_path / "fresh"):
        answer = ok(clone, "check")
        told = [(one["level"], one["message"]) for one in answer["problems"]]
        assert told == [("hint", f"supersedes {old['id']}, which was removed")], clone
    text = (repo / new["path"]).read_text()
    write(repo / new["path"], text.replace(old["id"], "decision_never_1700000000000_0000000n"))
    assert "which names no decision" in cli(repo, "check").out


def test_a_purge_reaches_messages_and_earlier_names_and_no_other_file(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    saved = ok(repo, *DECISION, "The password is swordfish77")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "swordfish77 leaked")
    write(repo / "memory/observations/notes.md", "# Notes\n\nTo be kept.\n")
    for name in ("memory/observations/middle.md", "memory/observations/no*.md"):
        git(repo, "mv", ok(repo, "get", saved["id"])["results"][0]["path"], name)
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "Moved\n\nCo-authored-by: Grace <grace@example.com>")
    git(repo, "tag", "v1")
    ok(repo, "forget", saved["id"])
    ok(repo, "restore", saved["id"])
    ok(repo, "forget", saved["id"])
    said = git(repo, "log", "-1", "--format=%B")
    assert "swordfish77" not in said, "the commit that forgets does not say it again"
    purge(ok(repo, "restore", saved["id"]) and ok(repo, "forget", saved["id"])["purge"], tmp_path)
    assert "swordfish77" not in objects(repo)
    assert "To be kept." in git(repo, "show", "HEAD:memory/observations/notes.md")
    log = git(repo, "log", "--format=%B")
    assert f"purged\n\nFilemem-Id: {saved['id']}\n" in log
    assert log.count("Moved\n\nCo-authored-by: Grace <grace@example.com>") == 2


def test_a_purge_leaves_what_others_say_in_a_message_that_bears_a_save(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    git(repo, "checkout", "-q", "-b", "side")
    other = ok(repo, *DECISION, "Keep this")
    saved = ok(repo, "save", "decision", "--topic", "safe", "--reasoning", "r", "--decision", "Mind swordfish77")
    write(repo / "code.py", "print('squashed')\n")
    git(repo, "commit", "-q", "-a", "-m", "Print something else\n\nIt was asked for by Bob,\nand he is right.")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "swordfish77 leaked")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--squash", "side")
    git(repo, "commit", "-q", "--no-edit")
    subjects = git(repo, "log", "--reverse", "--format=* %s%n%n%b", "main..side")
    git(repo, "commit", "-q", "--allow-empty", "-m", f"A feature (#7)\n\nThis is what Eve says of it.\n\n{subjects}")
    git(repo, "branch", "-D", "-q", "side")
    before = git(repo, "log", "-2", "--format=%B").splitlines()
    purge(ok(repo, "forget", saved["id"])["purge"], tmp_path)
    assert "swordfish77" not in objects(repo)
    after = git(repo, "log", "-2", "--skip=1", "--format=%B").splitlines()
    assert after == [row for row in before if "swordfish77" not in row]
    assert len(after) == len(before) - 4
    assert {"This is what Eve says of it.", "    and he is right.", "* decision(caching): Keep this"} <= set(after)
    assert f"Filemem-Id: {other['id']}" in after


@pytest.mark.parametrize("said", ["Use swordfish7", 'Use "sword\\fish7" (it\'s $HOME, 9% `safe`)', "Use swordfish7é"])
def test_a_purge_reaches_what_quotes_the_subject_without_the_id(tmp_path: Path, said: str) -> None:
    """A revert, a merge that lists what it brought, a squash: not saves of others that begin with the same words."""
    repo = make_repo(tmp_path / "repo")
    base = git(repo, "rev-parse", "HEAD")
    save = ("save", "decision", "--topic", "h", "--reasoning", "r", "--decision")
    secret = ok(repo, *save, said)
    like = [f"{said}è", f"{said}0", f"{said} for now"]
    for other in like:
        ok(repo, *save, other)
    git(repo, "revert", "--no-edit", secret["commit"])
    git(repo, "revert", "--no-edit", "HEAD")
    git(repo, "switch", "-q", "-c", "side", base)
    git(repo, "merge", "-q", "--no-ff", "--log", "--no-edit", "main")
    subjects = git(repo, "log", "--reverse", "--format=* %s (#7)", f"{base}..main")
    write(repo / "code.py", "print(2)\n")
    git(repo, "commit", "-q", "-a", "-m", f"All of it\n\n{subjects}\n\nSee decision(h): {said}, which was wrong.")
    git(repo, "switch", "-q", "main")
    purge(ok(repo, "forget", secret["id"])["purge"], tmp_path)
    after = git(repo, "log", "--branches", "--format=%B").splitlines()
    kept = [line for line in after if said in line]
    assert all(any(other in line for other in like) for line in kept), kept
    assert [sum(other in line for line in kept) for other in like] == [3, 3, 3], kept
    assert {"purged", "All of it"} <= set(after)


def test_a_purge_that_leaves_a_subject_says_so(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    saved = ok(repo, *DECISION, "Use swordfish7")
    steps = ok(repo, "forget", saved["id"])["purge"]
    git(repo, "commit", "-q", "--allow-empty", "-m", 'Revert "decision(caching): Use swordfish7"')
    told = subprocess.run(["bash", "-c", steps[-1]], cwd=repo, env=environment(), capture_output=True, check=False)
    assert f"still said in {git(repo, 'rev-parse', '--short', 'HEAD')}" in told.stdout.decode()
    assert told.returncode != 0


def work(repo: Path) -> dict[str, str]:
    """What a user has that is not committed: stashes, what is staged, what is edited."""
    stashes = git(repo, "stash", "list", "--format=%gd %H").splitlines()
    shown = {name: git(repo, "show", f"{name}:code.py") for name in (row.split()[0] for row in stashes)}
    changes = {"staged": git(repo, "diff", "--cached"), "edited": git(repo, "diff")}
    return {**shown, **changes, "stashes": "\n".join(stashes)}


def unfinished(repo: Path) -> None:
    """Leave three stashes, something staged and something edited."""
    for number in range(3):
        write(repo / "code.py", f"print({number})\n")
        git(repo, "stash", "-q")
    write(repo / "new.py", "staged\n")
    git(repo, "add", "new.py")
    write(repo / "code.py", "print('edited')\n")


def test_a_purge_leaves_stashes_and_edits_alone(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    unfinished(repo)
    saved = ok(repo, *DECISION, "The password is swordfish77")
    forgotten = ok(repo, "forget", saved["id"])
    assert "git stash list" in " ".join(forgotten["purge_warnings"])
    before = work(repo)
    assert len(before["stashes"].splitlines()) == 3
    purge(forgotten["purge"], tmp_path)
    assert work(repo) == before
    assert "swordfish77" not in objects(repo)
    git(repo, "commit", "-q", "-a", "-m", "go on")
    git(repo, "stash", "drop", "-q")


def test_a_purge_says_what_still_holds_the_record(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    saved = ok(repo, *DECISION, "The password is swordfish77")
    unfinished(repo)
    before = work(repo)
    rows = purge(ok(repo, "forget", saved["id"])["purge"], tmp_path).splitlines()
    assert work(repo) == before
    assert [row.partition(" ")[2] for row in rows] == ["is still here"]
    found = ("log", f"--find-object={rows[0].split()[0]}", "--format=%H")
    assert git(repo, *found, "--branches", "--tags") == ""
    assert git(repo, *found, "--all", "--reflog"), "the stash has it"


def test_a_purge_that_fails_goes_no_further(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    unfinished(repo)
    saved = ok(repo, *DECISION, "The password is swordfish77")
    steps = ok(repo, "forget", saved["id"])["purge"]
    write(repo / ".git/refs/heads/main.lock", b"")
    before, log = work(repo), git(repo, "reflog")
    assert paste(steps, tmp_path) != 0
    assert (work(repo), git(repo, "reflog")) == (before, log)
    assert "swordfish77" in objects(repo)
    assert list((repo / ".git/filemem/recent").iterdir())
    (repo / ".git/refs/heads/main.lock").unlink()
    purge(steps, tmp_path)
    assert "swordfish77" not in objects(repo)


def shared_secret(tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """A hub that got a secret, somebody's clone of it, and the steps that purge it."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "hub.git")
    repo = make_repo(tmp_path / "repo")
    git(repo, "remote", "add", "origin", str(tmp_path / "hub.git"))
    saved = ok(repo, *DECISION, "The password is swordfish77")
    git(repo, "push", "-q", "-u", "origin", "main")
    git(repo, "push", "-q", "origin", "main:it's/a#branch", "main^:refs/heads/untouched")
    git(tmp_path, "clone", "-q", "hub.git", "theirs")
    steps = ok(repo, "forget", saved["id"])["purge"]
    assert ok(repo, "sync")["sent"] == 1
    git(tmp_path / "theirs", "pull", "-q")
    return tmp_path / "hub.git", make_repo(tmp_path / "theirs", commit=False), steps


def test_a_purge_keeps_what_others_push_meanwhile(tmp_path: Path) -> None:
    hub, theirs, steps = shared_secret(tmp_path)
    git(theirs, "commit", "-q", "--allow-empty", "-m", "theirs")
    pushing = f"git -C {theirs} push -q origin"
    assert paste([*steps[:2], f"{pushing} main &&", *steps[2:]], tmp_path) != 0
    assert git(hub, "rev-parse", "main") == git(theirs, "rev-parse", "main")
    assert git(hub, "log", "--format=%s", "main", "--", "memory/decisions"), "all or none"
    shutil.rmtree(tmp_path / "purge.git")
    untouched = git(hub, "rev-parse", "untouched")
    purge([*steps[:2], f"{pushing} main^^^:refs/heads/meanwhile &&", *steps[2:]], tmp_path)
    assert git(hub, "rev-parse", "meanwhile", "untouched").splitlines() == [untouched, untouched]
    assert git(hub, "log", "-1", "--format=%s", "main") == "theirs"
    git(hub, "gc", "-q", "--prune=now")
    assert "swordfish77" not in objects(hub)
    assert not (tmp_path / "purge.git").exists(), "it holds the secret"


def tags(repo: Path) -> None:
    """Tags of every kind: on the last commit, and on one before the record that is merged after it."""
    git(repo, "tag", "-a", "v1", "-m", "release")
    git(repo, "tag", "-a", "nested", "-m", "again", "v1")
    git(repo, "tag", "light")
    git(repo, "checkout", "-q", "-b", "side", git(repo, "rev-list", "--max-parents=0", "HEAD"))
    git(repo, "commit", "-q", "--allow-empty", "-m", "beside")
    git(repo, "tag", "-a", "-m", "beside", "beside")
    git(repo, "tag", "-a", "-m", "beside", "nested-beside", "beside")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "-m", "both", "side")


TAGS = ("light", "nested", "v1")
BESIDE = ("refs/tags/beside", "refs/tags/nested-beside")


def test_a_purge_reaches_tags_of_every_kind_on_the_other_side(tmp_path: Path) -> None:
    hub, theirs, steps = shared_secret(tmp_path)
    tags(theirs)
    git(theirs, "push", "-q", "origin", "main", "--tags")
    kept = git(hub, "rev-parse", *BESIDE)
    purge(steps, tmp_path)
    git(hub, "gc", "-q", "--prune=now")
    assert "swordfish77" not in objects(hub)
    assert git(hub, "rev-parse", *BESIDE) == kept
    assert git(hub, "tag").split() == sorted((*TAGS, "beside", "nested-beside"))
    assert [git(hub, "cat-file", "-t", f"refs/tags/{name}") for name in TAGS] == ["commit", "tag", "tag"]
    assert git(hub, "merge-base", "--is-ancestor", "v1", "main") == ""
    assert not (tmp_path / "purge.git").exists()


def test_a_purge_reaches_tags_of_every_kind_here(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    saved = ok(repo, *DECISION, "The password is swordfish77")
    tags(repo)
    kept = git(repo, "rev-parse", *BESIDE)
    assert purge(ok(repo, "forget", saved["id"])["purge"], tmp_path).endswith(" missing\n")
    assert "swordfish77" not in objects(repo)
    assert git(repo, "rev-parse", *BESIDE) == kept
    assert git(repo, "merge-base", "--is-ancestor", "v1", "main") == ""
    assert not (repo / ".git/filemem/purge.tags").exists()


def test_a_purge_of_a_memory_on_its_own_branch_reaches_its_tags_and_no_code(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "hub.git")
    repo = make_repo(tmp_path / "repo")
    git(repo, "remote", "add", "origin", str(tmp_path / "hub.git"))
    assert cli(repo, "init", "--own-branch").code == 0
    saved = ok(repo, *DECISION, "The password is swordfish77")
    git(repo, "tag", "-a", "-m", "then", "then", "filemem")
    git(repo, "tag", "-a", "-m", "code", "code", "main")
    git(repo, "push", "-q", "origin", "main", "filemem", "--tags")
    ok(repo, "sync")
    kept = git(tmp_path / "hub.git", "rev-parse", "main", "code")
    steps = ok(repo, "forget", saved["id"])["purge"]
    ok(repo, "sync")
    purge(steps, tmp_path)
    git(tmp_path / "hub.git", "gc", "-q", "--prune=now")
    assert "swordfish77" not in objects(tmp_path / "hub.git")
    assert git(tmp_path / "hub.git", "rev-parse", "main", "code") == kept


def test_what_was_never_pushed_is_purged_here(tmp_path: Path) -> None:
    hub, theirs, _ = shared_secret(tmp_path)
    git(theirs, "config", "user.name", "Grace")
    git(theirs, "config", "user.email", "grace@example.com")
    saved = ok(theirs, *DECISION, "A second one, tuna88")
    before = git(hub, "for-each-ref")
    purge(ok(theirs, "forget", saved["id"])["purge"], tmp_path)
    assert "tuna88" not in objects(theirs)
    assert git(hub, "for-each-ref") == before
    assert git(theirs, "merge-base", "--is-ancestor", "origin/main", "main") == ""


def test_what_came_before_the_record_stays_as_it_is(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    git(repo, "checkout", "-q", "-b", "side")
    git(repo, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-m", "has a header of its own")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "-m", "both", "side")
    before = git(repo, "rev-list", "main")
    saved = ok(repo, *DECISION, "The password is swordfish77")
    purge(ok(repo, "forget", saved["id"])["purge"], tmp_path)
    assert "swordfish77" not in objects(repo)
    assert git(repo, "rev-list", "main").endswith(before)


def test_a_shallow_clone_is_purged_of_what_was_not_pushed(tmp_path: Path) -> None:
    hub = make_repo(tmp_path / "hub")
    git(hub, "commit", "-q", "--allow-empty", "-m", "the last one")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{hub}", "repo")
    repo = make_repo(tmp_path / "repo", commit=False)
    saved = ok(repo, *DECISION, "The password is swordfish77")
    purge(ok(repo, "forget", saved["id"])["purge"], tmp_path)
    assert "swordfish77" not in objects(repo)
    assert git(repo, "merge-base", "main", "origin/main") == git(hub, "rev-parse", "main")


def no_commands(repo: Path, record_id: str, *, why: str, bring: Sequence[str]) -> list[str]:
    """Forget a record whose history is not all here, bring that, and forget it again; the steps that are told then."""
    told = ok(repo, "forget", record_id)
    assert told["purge"] == [], "commands that leave it in history are worse than none"
    [warning] = told["purge_warnings"]
    assert why in warning
    assert f"filemem restore {record_id} and filemem forget {record_id}" in warning
    assert f"git {shlex.join(bring)}" in warning
    git(repo, *bring)
    ok(repo, "restore", record_id)
    again = cli(repo, "forget", record_id)
    assert again.code == 0
    ok(repo, "sync")
    return [row.strip() for row in again.out.splitlines() if row.startswith("    ")]


def test_a_shallow_clone_knows_too_little_to_purge_what_was_shared(tmp_path: Path) -> None:
    hub, theirs, _ = shared_secret(tmp_path)
    saved = ok(theirs, *DECISION, "A second one, tuna88")
    git(theirs, "commit", "-q", "--allow-empty", "-m", "later")
    git(theirs, "push", "-q", "origin", "main")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{hub}", "shallow")
    shallow = make_repo(tmp_path / "shallow", commit=False)
    shown = cli(shallow, "forget", saved["id"])
    assert "to take it out of history too: history is shallow" in shown.out
    ok(shallow, "restore", saved["id"])
    ok(shallow, "sync")
    assert no_commands(shallow, saved["id"], why="history is shallow", bring=["fetch", "--unshallow"]) == []
    ok(shallow, "restore", saved["id"])
    [warning] = ok(shallow, "forget", saved["id"])["purge_warnings"]
    assert "follows not every branch of origin" in warning, "what --depth makes has one"
    assert "git remote set-branches origin '*' && git fetch origin" in warning
    git(shallow, "remote", "set-branches", "origin", "*")
    git(shallow, "fetch", "-q", "origin")
    ok(shallow, "restore", saved["id"])
    shown = cli(shallow, "forget", saved["id"])
    ok(shallow, "sync")
    purge([row.strip() for row in shown.out.splitlines() if row.startswith("    ")], tmp_path)
    git(hub, "gc", "-q", "--prune=now")
    assert "tuna88" not in objects(hub)


def test_a_partial_clone_knows_too_little_to_purge(tmp_path: Path) -> None:
    hub, theirs, _ = shared_secret(tmp_path)
    git(hub, "config", "uploadpack.allowFilter", "true")
    saved = ok(theirs, *DECISION, "A second one, tuna88")
    text = (theirs / saved["path"]).read_text()
    git(theirs, "rm", "-q", saved["path"])
    write(theirs / "memory/decisions/two.md", f"{text}\n" + "A longer text, so that it is not much alike.\n" * 40)
    git(theirs, "add", ".")
    git(theirs, "commit", "-q", "-m", "renamed and rewritten")
    git(theirs, "push", "-q", "origin", "main")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{hub}", "partial")
    partial = make_repo(tmp_path / "partial", commit=False)
    bring = ["fetch", "--refetch", "--no-filter"]
    steps = no_commands(partial, saved["id"], why="this partial clone lacks older versions", bring=bring)
    purge(steps, tmp_path)
    git(hub, "gc", "-q", "--prune=now")
    assert "tuna88" not in objects(hub)


def renamed_elsewhere(repo: Path, path: str) -> None:
    """A branch beside, on which a record has another name and another text."""
    git(repo, "checkout", "-q", "-b", "other")
    git(repo, "mv", path, "memory/decisions/z.md")
    write(repo / "memory/decisions/z.md", (repo / "memory/decisions/z.md").read_text() + "More of it.\n" * 90)
    git(repo, "commit", "-q", "-a", "-m", "renamed on a branch")
    git(repo, "checkout", "-q", "main")


@pytest.mark.parametrize("by_hand", [False, True], ids=["with an id", "without"])
@pytest.mark.parametrize("pushed", [False, True], ids=["here", "pushed"])
def test_a_purge_reaches_the_names_that_other_branches_gave(tmp_path: Path, *, by_hand: bool, pushed: bool) -> None:
    hub, repo, _ = shared_secret(tmp_path)
    if by_hand:
        write(repo / "memory/decisions/hand.md", "# A second one, tuna88\n" + "A line of it.\n" * 90)
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", "by hand")
    path = "memory/decisions/hand.md" if by_hand else ok(repo, *DECISION, "A second one, tuna88")["path"]
    renamed_elsewhere(repo, path)
    if pushed:
        git(repo, "push", "-q", "origin", "main", "other")
    steps = ok(repo, "forget", path)["purge"]
    if pushed:
        ok(repo, "sync")
    purge(steps, tmp_path)
    where = hub if pushed else repo
    git(where, "gc", "-q", "--prune=now")
    assert "tuna88" not in objects(where)


@pytest.mark.parametrize("pushed", [False, True], ids=["here", "pushed"])
def test_a_purge_that_left_something_fails_and_names_it(tmp_path: Path, *, pushed: bool) -> None:
    hub, repo, _ = shared_secret(tmp_path)
    saved = ok(repo, *DECISION, "A second one, tuna88")
    if pushed:
        git(repo, "push", "-q", "origin", "main")
    steps = ok(repo, "forget", saved["id"])["purge"]
    if pushed:
        ok(repo, "sync")
        git(tmp_path, "clone", "-q", str(hub), "third")
    place = tmp_path / "third" if pushed else repo
    git(place, "checkout", "-q", "-b", "unheard", "HEAD^")
    renamed_elsewhere(place, saved["path"])
    if pushed:
        git(place, "push", "-q", "origin", "other")
    before = git(hub, "for-each-ref")
    command = ["bash", "-c", "\n".join(steps)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert done.returncode
    assert "memory/decisions/z.md" in done.stdout.decode()
    assert git(hub, "for-each-ref") == before, "nothing is pushed then"
    git(repo, "fetch", "-q")
    if pushed:
        assert f"then filemem restore {saved['id']} and filemem forget" in done.stderr.decode().splitlines()[-1]
        shutil.rmtree(tmp_path / "purge.git")
        ok(repo, "restore", saved["id"])
    else:
        assert "git branch -a --contains COMMIT" in done.stderr.decode().splitlines()[-1]
        git(repo, "checkout", "-q", "other")
    again = ok(repo, "forget", saved["id"])["purge"]
    if pushed:
        ok(repo, "sync")
    purge(again, tmp_path)
    where = hub if pushed else repo
    git(where, "gc", "-q", "--prune=now")
    assert "tuna88" not in objects(where)


def refused(repo: Path, *arguments: str) -> dict[str, str]:
    """Run a command that must fail; its error."""
    done = cli(repo, *arguments, "--json")
    assert done.code, done
    error: dict[str, str] = done.json["error"]
    return error


def test_restore_refuses_where_something_else_stands_in_the_place(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    ok(repo, "forget", saved["id"])
    head, at = git(repo, "rev-parse", "HEAD"), repo / saved["path"]
    for in_the_way in (at, at / "inner.txt"):
        write(in_the_way, "# Something else\n")
        for _ in range(2):
            error = refused(repo, "restore", "Use Redis")
            assert error["kind"] == "conflict"
            assert saved["path"] in error["message"]
            assert "move" in error["hint"]
        assert (git(repo, "rev-parse", "HEAD"), tombstone(repo, saved["id"]).exists()) == (head, True)
        git(repo, "clean", "-q", "-d", "-f")
    write(at, "# Something else\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "another record at the same path")
    assert refused(repo, "restore", "Use Redis")["kind"] == "conflict"
    git(repo, "mv", saved["path"], "memory/decisions/else.md")
    git(repo, "commit", "-q", "-m", "out of the way")
    assert ok(repo, "restore", "Use Redis")["commit"]
    assert ok(repo, "get", saved["id"])["count"] == 1
    assert ok(repo, "get", "Something else")["count"] == 1


def test_what_stands_is_not_restored_twice(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "rm", "-q", saved["path"])
    git(repo, "commit", "-q", "-m", "removed by hand")
    write(repo / "memory/decisions/elsewhere.md", git(repo, "show", f"HEAD^:{saved['path']}") + "\nMore.\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "back under another name")
    error = refused(repo, "restore", saved["id"])
    assert (error["kind"], "elsewhere.md" in error["message"]) == ("not_found", True)


def test_a_removal_that_waits_is_taken_back(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "slow")
    git(repo, "checkout", "-q", "--detach")
    assert ok(repo, "forget", saved["id"])["pending"]
    assert ok(repo, "search")["count"] == 0
    back = ok(repo, "restore", "Use Redis")
    assert (back["id"], back.get("pending", "")) == (saved["id"], "")
    hit = ok(repo, "search")["results"][0]
    assert (hit["id"], hit["outcome"], hit["by"]["commit"]) == (saved["id"], "failed", saved["commit"])
    assert ok(repo, "status")["pending"] == []
    git(repo, "checkout", "-q", "main")
    assert ok(repo, "search")["count"] == 1
    assert (git(repo, "status", "--porcelain"), tombstone(repo, saved["id"]).exists()) == ("", False)


def test_a_restore_that_waits_shows_the_record_already(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    ok(repo, "forget", saved["id"])
    git(repo, "checkout", "-q", "--detach")
    assert ok(repo, "restore", saved["id"])["pending"]
    assert ok(repo, "search")["count"] == 1
    assert ok(repo, "index", "--rebuild")["success"]
    assert ok(repo, "search")["count"] == 1
    assert saved["path"] in refused(repo, "restore", "Use Redis")["message"], "it stands"
    git(repo, "checkout", "-q", "main")
    assert ok(repo, "search")["count"] == 1
    assert (git(repo, "status", "--porcelain"), tombstone(repo, saved["id"]).exists()) == ("", False)


@pytest.mark.parametrize("staged", ["nothing", ".", "memory/.forgotten", "memory/decisions"])
@pytest.mark.parametrize("by_hand", ["nothing", "checked out", "written"])
def test_a_removal_left_to_the_user_is_taken_back(repo: Path, staged: str, by_hand: str) -> None:
    write(repo / ".filemem.toml", '[commit]\ndecision = "leave"\n')
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "saved by hand")
    ok(repo, "forget", saved["id"])
    assert tombstone(repo, saved["id"]).exists()
    if staged != "nothing":
        git(repo, "add", staged)
    if by_hand == "checked out":
        git(repo, "checkout", "-q", "HEAD", "--", saved["path"])
    elif by_hand == "written":
        write(repo / saved["path"], git(repo, "show", f"HEAD:{saved['path']}") + "\n")
    ok(repo, "restore", saved["id"])
    assert git(repo, "status", "--porcelain") == ""
    assert ok(repo, "search")["count"] == 1


@pytest.mark.parametrize("lost", [("rm", "-q"), ("rm", "-q", "--cached"), ()])
def test_a_tombstone_that_head_alone_has_goes_with_the_return(repo: Path, lost: tuple[str, ...]) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    ok(repo, "forget", saved["id"])
    mark = tombstone(repo, saved["id"])
    git(repo, *lost, str(mark)) if lost else mark.unlink()
    ok(repo, "restore", saved["id"])
    assert git(repo, "status", "--porcelain") == ""
    assert ".forgotten" not in git(repo, "ls-tree", "-r", "--name-only", "HEAD")


def test_two_that_went_by_one_path_come_back_by_the_commands_that_are_told(repo: Path) -> None:
    for name in ("One", "Two"):
        write(repo / "memory/a.md", f"# {name}\n")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", name)
        git(repo, "rm", "-q", "memory/a.md")
        git(repo, "commit", "-q", "-m", f"{name} away")
    told = cli(repo, "get", "memory/a.md").err
    ok(repo, *shlex.split(told.split("`")[3])[1:])
    assert (repo / "memory/a.md").read_text() == "# Two\n"


@pytest.mark.parametrize("name", ["", "memory/decisions/mine.md"])
@pytest.mark.parametrize("where", ["gone", "staged", "there again"])
def test_a_forgotten_record_that_head_has_is_told_so(repo: Path, where: str, name: str) -> None:
    if where != "there again":
        write(repo / ".filemem.toml", '[commit]\ndecision = "leave"\n')
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "--allow-empty", "-m", "saved by hand")
    if name:
        git(repo, "mv", saved["path"], name)
        write(repo / name, "# Use Redis\n")
        git(repo, "commit", "-q", "-am", "By hand")
        saved = ok(repo, "get", name)["results"][0]
    ok(repo, "forget", saved["id"])
    if where == "staged":
        git(repo, "add", "-A")
    elif where == "there again":
        git(repo, "checkout", "-q", "HEAD~", "--", saved["path"])
        git(repo, "commit", "-q", "-m", "There again")
    for wanted in (saved["id"], saved["path"]):
        told = cli(repo, "get", wanted).err
        assert "it was forgotten" in told
        assert f"`filemem restore {saved['id']}` brings it back" in told
    nothing = cli(repo, "search").err + cli(repo, "search").out
    lists = next(one.partition(" lists")[0] for one in nothing.split(": ") if " lists it" in one)
    listed = subprocess.run(shlex.split(lists), cwd=repo, check=True, capture_output=True, text=True).stdout
    assert saved["path"] in listed
    ok(repo, "restore", saved["id"])
    assert ok(repo, "search")["count"] == 1


@pytest.mark.parametrize("staged", [False, True])
def test_a_file_that_was_put_back_by_hand_is_committed_with_its_return(repo: Path, staged: bool) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    ok(repo, "forget", saved["id"])
    git(repo, "checkout", "-q", "HEAD~1", "--", saved["path"])
    if not staged:
        git(repo, "restore", "--staged", saved["path"])
    text = (repo / saved["path"]).read_text()
    write(repo / saved["path"], text + "\nMore.\n")
    assert "other text" in refused(repo, "restore", saved["id"])["message"]
    assert tombstone(repo, saved["id"]).exists()
    write(repo / saved["path"], text)
    assert ok(repo, "restore", saved["id"])["commit"] == git(repo, "rev-parse", "HEAD")
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "show", f"HEAD:{saved['path']}") + "\n" == text
    assert not tombstone(repo, saved["id"]).exists()


def test_a_removal_that_is_staged_on_a_detached_head_is_taken_back_at_once(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    git(repo, "checkout", "-q", "--detach")
    git(repo, "rm", "-q", saved["path"])
    assert not ok(repo, "restore", saved["id"]).get("pending")
    assert ok(repo, "search")["count"] == 1
    assert git(repo, "status", "--porcelain") == ""


def test_a_removal_that_is_staged_is_taken_back_there_too(repo: Path) -> None:
    saved = ok(repo, "save", "decision", "--topic", "t", "--decision", "Alpha", "--reasoning", "r")
    head = git(repo, "rev-parse", "HEAD")
    write(repo / "staged.txt", "the user's")
    git(repo, "add", "staged.txt")
    git(repo, "rm", "-q", saved["path"])
    ok(repo, "restore", saved["id"])
    assert git(repo, "status", "--porcelain") == "A  staged.txt"
    assert git(repo, "rev-parse", "HEAD") == head


def test_a_file_without_an_id_that_was_renamed_comes_back(repo: Path) -> None:
    write(repo / "memory/decisions/redis.md", "# Use Redis\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "by hand")
    git(repo, "mv", "memory/decisions/redis.md", "memory/decisions/store.md")
    git(repo, "commit", "-q", "-m", "renamed")
    named = ok(repo, "search")["results"][0]["id"]
    ok(repo, "forget", named)
    assert ok(repo, "restore", "Use Redis")["id"] == named
    assert ok(repo, "search")["results"][0]["id"] == named


def test_what_went_by_a_number_or_a_title_in_any_case_comes_back_by_it(repo: Path) -> None:
    for number in (3, 30):
        write(repo / f"memory/decisions/{number:04}-use-redis.md", f"# Use Redis {number}\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "by hand")
    for called in ("3", "0003", "ADR-3", "use redis 3"):
        removed = ok(repo, "forget", called)["id"]
        assert ok(repo, "restore", called)["id"] == removed


def test_what_went_by_its_heading_without_the_number_comes_back_by_it(repo: Path) -> None:
    write(repo / "memory/decisions/a.md", "# 12. Use twelve\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "by hand")
    removed = ok(repo, "forget", "Use twelve")["id"]
    assert ok(repo, "restore", "Use twelve")["id"] == removed


def test_the_history_of_a_topic_whose_last_decision_is_forgotten_says_how_to_bring_it_back(repo: Path) -> None:
    saved = ok(repo, "save", "decision", "--topic", "Object storage", "--decision", "Use S3", "--reasoning", "r")
    commit = ok(repo, "forget", saved["id"])["commit"]
    error = refused(repo, "history", "object_storage")
    told = "no topic and no record 'object_storage': its last decision was deleted in"
    assert error["message"].startswith(f"{told} {commit[:10]} ("), error
    restores = shlex.split(error["hint"].split("`")[3])
    assert cli(repo, *restores[1:]).code == 0
    assert ok(repo, "history", "object_storage")["heads"] == [saved["id"]]
    assert "deleted" not in refused(repo, "history", "caching")["message"]


@pytest.mark.parametrize("name", ["0018-custom-formats.md", "it's backends.md", "backends-abcdefgh.md", ""])
def test_the_command_that_is_told_to_bring_a_record_back_does_so(repo: Path, name: str) -> None:
    path = f"memory/decisions/{name}" if name else ok(repo, *DECISION, "Use Redis")["path"]
    if name:
        write(repo / path, "# Use Redis\n")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", "by hand")
    wanted = ok(repo, "search")["results"][0]["id"]
    git(repo, "rm", "-q", path)
    git(repo, "commit", "-q", "-m", "removed by hand")
    short = path[-11:-3] if path[-12] == "-" else wanted  # also where it only looks like one
    for called in (wanted, short, path, path.removeprefix("memory/")):
        hint = refused(repo, "get", called)["hint"]
        reads, restores = (shlex.split(part) for part in hint.split("`")[1::2])
        assert (reads[0], restores[0]) == ("git", "filemem"), hint
        assert "# Use Redis" in git(repo, *reads[1:])
        assert cli(repo, *restores[1:]).code == 0, hint
        assert (repo / path).exists()
        git(repo, "rm", "-q", path)
        git(repo, "commit", "-q", "-m", "removed again")


def test_a_purge_reaches_the_other_work_trees(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    saved = ok(repo, *DECISION, "The password is swordfish77")
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    assert ok(tmp_path / "linked", "search")["count"] == 1
    rows = purge(ok(tmp_path / "linked", "forget", saved["id"])["purge"], tmp_path).splitlines()
    assert [row.partition(" ")[2] for row in rows] == ["missing"]
    assert not any("swordfish77" in p.read_text(errors="replace") for p in repo.rglob("*") if p.is_file())
    for tree in (repo, tmp_path / "linked"):
        assert git(tree, "status", "--porcelain") == ""
        assert ok(tree, "search")["count"] == 0


def test_a_purge_is_for_the_side_that_has_the_record_and_names_the_others(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    for name in ("fork", "hub", "backup"):
        git(tmp_path, "init", "-q", "--bare", name)
        git(repo, "remote", "add", name, str(tmp_path / name))
    git(repo, "push", "-q", "-u", "fork", "main")
    saved = ok(repo, *DECISION, "The pass phrase is swordfish88")
    for name in ("hub", "backup"):
        git(repo, "push", "-q", name, "main")
    told = ok(repo, "forget", saved["id"])
    assert "for hub alone: backup has it too" in " ".join(told["purge_warnings"])
    git(repo, "push", "-q", "hub", "main")
    purge(told["purge"], tmp_path)
    git(tmp_path / "hub", "gc", "-q", "--prune=now")
    assert "swordfish88" not in objects(tmp_path / "hub")
    assert "swordfish88" in objects(tmp_path / "backup")
