"""Forgetting: a record goes by a commit, nothing but `restore` brings it back, and history is the user's to rewrite."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from filemem.memory import Memory
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


def purge(steps: list[str], at: Path) -> None:
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(steps)], cwd=at, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


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
    steps = [row.strip() for row in told.out.partition("revoke it first):\n")[2].splitlines()]
    purge(steps, tmp_path)
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
