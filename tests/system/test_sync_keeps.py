"""Sync takes nothing of the user's: not what Git would take for expendable, nor what a dead process left beside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.repo.git import GitError, finish
from tests.support import git, write
from tests.system.test_sharing import DECISION, clone, hub
from tests.system.test_sync_trouble import pair, state
from tests.system.tools import cli, ok, process

__all__ = ["hub", "pair"]


def own_branch(hub: Path) -> tuple[Path, Path]:
    """Two clones whose memory is a branch of its own."""
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    ok(ada, "init", "--own-branch")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "init")
    git(ada, "push", "-q")
    ok(ada, "sync")
    git(bob, "pull", "-q")
    ok(bob, "init")
    return ada, bob


def send(repo: Path, top: Path, path: str, text: str = "theirs\n") -> None:
    """Commit and push a file, ignored or not."""
    git(top, "reset", "-q", "--hard", "@{u}") if top == repo else None
    if (top / path).is_dir():
        shutil.rmtree(top / path)
    write(top / path, text)
    git(top, "add", "-f", path)
    git(top, "commit", "-q", "-m", f"Add {path}")
    git(top, "push", "-q", "origin", "HEAD")


@pytest.mark.parametrize("own", [False, True])
def test_a_commit_that_changes_no_file_is_kept_for_what_it_says(hub: Path, own: bool) -> None:
    ada, bob = own_branch(hub) if own else (clone(hub, "ada"), clone(hub, "bob"))
    for one in (ada, bob):
        ok(one, *DECISION, one.name)
        ok(one, "sync")
    top = ada / "memory" if own else ada
    git(top, "commit", "-q", "--allow-empty", "-m", "Measured it\n\nDecision: ada\nOutcome: failed")
    git(top, "commit", "-q", "--allow-empty", "-m", "Measured it again")
    done = ok(ada, "sync")
    assert (done["received"], done["sent"]) == (1, 2)
    subjects = git(top, "log", "-3", "--format=%s").splitlines()
    assert subjects == ["Measured it again", "Measured it", "decision(caching): bob"]
    assert git(hub, "log", "-1", "--format=%H", "filemem" if own else "main") == git(top, "rev-parse", "HEAD")


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("shape", ["private", "the record", "another", "Private"])
def test_private_records_are_never_written_over(hub: Path, own: bool, shape: str) -> None:
    ada, bob = own_branch(hub) if own else (clone(hub, "ada"), clone(hub, "bob"))
    saved = ok(ada, "save", "observation", "--title", "N", "--text", "only copy", "--visibility", "private")
    paths = {"the record": saved["path"].removeprefix("memory/"), "another": "private/x.md"}
    top = bob / "memory" if own else bob
    path = paths.get(shape, shape)
    send(bob, top, path if own else f"memory/{path}")
    before = state(ada), state(ada / "memory")
    refused = cli(ada, "sync")
    assert (refused.code, f"memory/{path} came from the other side" in refused.err) == (5, True), refused
    assert ("git rm -r --cached :/private" if own else "git rm -r --cached :/memory/private") in refused.err
    assert (state(ada), state(ada / "memory")) == before
    assert "only copy" in (ada / saved["path"]).read_text()
    git(top, "rm", "-q", "-r", "--cached", path if own else f"memory/{path}")
    git(top, "commit", "-q", "-m", "Not there")
    git(top, "push", "-q", "origin", "HEAD")
    ok(ada, "sync")
    assert "only copy" in (ada / saved["path"]).read_text()


def ignored(repo: Path, path: str) -> None:
    write(repo / ".git/info/exclude", f"/{path.split('/')[0]}\n")


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (".env", ".env"),
        ("build/out.txt", "build/out.txt"),
        ("build/out.txt", "build"),
        ("build", "build/out.txt"),
        ("build/deep/out.txt", "build"),
    ],
)
def test_an_ignored_file_in_the_way_is_kept(pair: tuple[Path, Path], mine: str, theirs: str) -> None:
    ada, bob = pair
    send(ada, ada, theirs)
    write(bob / mine, "mine, and nowhere else\n")
    ignored(bob, mine)
    before = state(bob)
    refused = cli(bob, "sync")
    told = theirs if theirs == mine else mine
    assert (refused.code, f"{told} is in the way" in refused.err) == (5, True), refused
    assert state(bob) == before
    (bob / mine).unlink()
    assert ok(bob, "sync")["sent"] == 1
    assert (bob / theirs).read_text() == "theirs\n"


def test_an_ignored_link_in_the_way_is_kept(pair: tuple[Path, Path], tmp_path: Path) -> None:
    ada, bob = pair
    send(ada, ada, "build/out.txt")
    (tmp_path / "elsewhere").mkdir()
    (bob / "build").symlink_to(tmp_path / "elsewhere")
    ignored(bob, "build")
    assert "build is in the way" in cli(bob, "sync").err
    assert not list((tmp_path / "elsewhere").iterdir())
    (bob / "build").unlink()
    (bob / "build/empty").mkdir(parents=True)
    assert ok(bob, "sync")["sent"] == 1, "empty folders are in nobody's way"


@pytest.mark.parametrize(("before", "after"), [("a/b.txt", "a"), ("a", "a/b.txt")])
def test_what_is_tracked_makes_room(pair: tuple[Path, Path], before: str, after: str) -> None:
    ada, bob = pair
    send(ada, ada, before)
    ok(bob, "sync")
    git(ada, "pull", "-q")
    git(ada, "rm", "-q", before)
    write(ada / after, "after\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "Change places")
    git(ada, "push", "-q")
    ok(bob, "sync")
    assert (bob / after).read_text() == "after\n"
    assert git(bob, "status", "--porcelain") == ""


# what a process that died has left

DYING = """\
#!/bin/sh
# Git, but for one step: what comes then is done by half, and all die at once.
case " $* " in
*" -n "*) ;;
*" $DIE_IN "*)
    for argument; do case $argument in --git-dir=*) at=${argument#*=};; esac; old=$new; new=$argument; done
    case $DIE_AFTER in
    tampering) "$REAL" "$@" && (cd .git/worktrees/memory && eval "$TAMPER") ;;
    all) "$REAL" "$@" ;;
    refs) for ref in $LOCKS; do : > "$at/$ref.lock"; done ;;
    some)
        : > "$at/index.lock"
        "$REAL" diff-tree -r --name-only --diff-filter=D "$old" "$new" | xargs -r rm
        "$REAL" diff-tree -r --name-only --diff-filter=d "$old" "$new" | while read -r path; do
            mkdir -p "$(dirname "$path")"
            "$REAL" show "$new:$path" | head -c "$BYTES" > "$path"
        done ;;
    esac
    kill -9 $PPID
    exit 1 ;;
esac
exec "$REAL" "$@"
"""


Dies = Callable[..., None]


@pytest.fixture
def dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dies:
    """Runs a command whose Git dies with it: `dies(folder, *command, DIE_IN=..., DIE_AFTER=...)`."""
    monkeypatch.setattr("filemem.repo.leftovers.AGE", 0.0)  # the next one looks at once
    program = write(tmp_path / "dying/git", DYING)
    program.chmod(0o755)
    real = shutil.which("git") or ""

    def run(folder: Path, *command: str, **environment: str) -> None:
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        done = process(folder, *command, PATH=path, REAL=real, **environment)
        assert done.code == -signal.SIGKILL, done

    return run


DEATHS = (
    {"DIE_IN": "read-tree", "DIE_AFTER": "some", "BYTES": "9999"},
    {"DIE_IN": "read-tree", "DIE_AFTER": "some", "BYTES": "7"},
    {"DIE_IN": "read-tree", "DIE_AFTER": "none"},
    {"DIE_IN": "read-tree", "DIE_AFTER": "all"},
    {"DIE_IN": "update-ref -m filemem: sync HEAD", "DIE_AFTER": "refs", "LOCKS": "HEAD refs/heads/main"},
    {
        "DIE_IN": "update-ref --create-reflog -m filemem: sync refs/remotes/origin/main",
        "DIE_AFTER": "refs",
        "LOCKS": "refs/remotes/origin/main",
    },
)


def named(death: dict[str, str]) -> str:
    """What a test is called."""
    return "-".join(death.values()).replace(" ", "_")


def locks(repo: Path) -> list[Path]:
    """Locks of Git's that nobody holds any more."""
    return [lock for lock in (repo / ".git").rglob("*.lock") if "filemem" not in lock.parts]


@pytest.mark.parametrize("death", DEATHS, ids=named)
def test_a_sync_that_died_is_ended_or_undone(
    pair: tuple[Path, Path], dies: Dies, death: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    then = ("sync", "save")[DEATHS.index(death) % 2]
    ada, bob = pair
    write(ada / "notes/new.txt", "Ada's notes, which Bob gets\n")
    git(ada, "rm", "-q", "code.py")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "Notes")
    git(ada, "push", "-q")
    write(bob / "mine.txt", "Bob's, and not committed\n")
    dies(bob, "sync", **death)
    with monkeypatch.context() as patch:
        patch.setattr("filemem.repo.leftovers.AGE", 60.0)  # a lock that young may be anybody's
        if left := locks(bob):
            early = cli(bob, "sync")
            assert (early.code, ".lock is held" in early.err, "remove that file" in early.err) == (6, True, True), early
            assert locks(bob) == left
    if then == "save":
        assert ok(bob, "save", "checkpoint", "--summary", "after it died")["commit"]
        assert git(bob, "status", "--porcelain") == "?? mine.txt"
    done = cli(bob, "sync", "--json")
    assert (done.code, done.json["sent"]) == (0, 2 if then == "save" else 1), done
    assert git(bob, "status", "--porcelain") == "?? mine.txt"
    assert git(bob, "rev-parse", "HEAD") == git(ada, "ls-remote", "origin", "main").split()[0]
    assert (bob / "notes/new.txt").read_text() == "Ada's notes, which Bob gets\n"
    assert not (bob / "code.py").exists()
    assert not (bob / ".git/filemem/sync/steps").exists()
    assert not locks(bob)


def test_a_file_that_says_the_same_stays_where_a_sync_dies(pair: tuple[Path, Path], dies: Dies) -> None:
    ada, bob = pair
    for name in ("same.txt", "new.txt"):
        write(ada / name, "Ada's\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "Notes")
    git(ada, "push", "-q")
    write(bob / "same.txt", "Ada's\n")
    dies(bob, "sync", DIE_IN="read-tree", DIE_AFTER="none")
    assert git(bob, "status", "--porcelain") == "A  same.txt"
    assert ok(bob, "save", "checkpoint", "--summary", "after it died")["commit"]
    assert git(bob, "status", "--porcelain") == "?? same.txt"
    ok(bob, "sync")
    assert git(bob, "status", "--porcelain") == ""


ATTACHING = (
    {"DIE_IN": "read-tree", "DIE_AFTER": "some", "BYTES": "9999"},
    {"DIE_IN": "read-tree", "DIE_AFTER": "some", "BYTES": "7"},
    {"DIE_IN": "read-tree", "DIE_AFTER": "none"},
    {"DIE_IN": "read-tree", "DIE_AFTER": "all"},
    {"DIE_IN": "worktree add", "DIE_AFTER": "none"},
    {"DIE_IN": "worktree add", "DIE_AFTER": "all"},
    {"DIE_IN": "worktree add", "DIE_AFTER": "tampering", "TAMPER": "echo initializing > locked"},
    {"DIE_IN": "worktree add", "DIE_AFTER": "tampering", "TAMPER": "echo initializing > locked; rm HEAD commondir"},
    {"DIE_IN": "worktree add", "DIE_AFTER": "tampering", "TAMPER": "echo initializing > locked; rm commondir"},
    {
        "DIE_IN": "worktree add",
        "DIE_AFTER": "tampering",
        "TAMPER": "echo initializing > locked; rm -r HEAD commondir ../../../memory",
    },
)


@pytest.mark.parametrize("death", ATTACHING, ids=named)
def test_an_init_that_died_is_ended_by_the_next(hub: Path, dies: Dies, death: dict[str, str]) -> None:
    bob, begins = clone(hub, "bob"), ATTACHING.index(death) % 2 == 1
    if not begins:
        ada = clone(hub, "ada")
        ok(ada, "init", "--own-branch")
        git(ada, "add", ".")
        git(ada, "commit", "-q", "-m", "init")
        git(ada, "push", "-q")
        ok(ada, *DECISION, "Use Redis")
        ok(ada, "sync")
        git(bob, "pull", "-q")
    dies(bob, "init", *(["--own-branch"] if begins else []), **death)
    whole = death == {"DIE_IN": "read-tree", "DIE_AFTER": "all"}
    for command in (("search", "redis"), ("status",), ("check",), ("save", "checkpoint", "--summary", "x")):
        told = cli(bob, *command)
        assert whole or (told.code, "filemem init" in told.err) == (7, True), told
    ok(bob, "init")
    saved = ok(bob, "save", "checkpoint", "--summary", "x")
    assert git(bob / "memory", "rev-parse", "HEAD") == saved["commit"]
    assert git(bob / "memory", "status", "--porcelain") == ""
    assert ok(bob, "search", "type:decision")["count"] == (0 if begins else 1)
    assert git(bob, "worktree", "list").count("\n") == 1
    assert not (bob / ".git/filemem/sync/steps").exists()
    assert not locks(bob)
    assert cli(bob, "sync").code == 0


def test_what_stands_in_a_memory_that_is_attached_again_is_kept(hub: Path, dies: Dies) -> None:
    own_branch(hub)
    bob = clone(hub, "carl")
    dies(bob, "init", DIE_IN="read-tree", DIE_AFTER="some", BYTES="9")
    write(bob / "memory/README.md", "My own words\n")
    refused = cli(bob, "init")
    assert (refused.code, "README.md is in the way" in refused.err) == (5, True), refused
    assert (bob / "memory/README.md").read_text() == "My own words\n"


def test_what_the_user_wrote_since_a_sync_died_is_kept(pair: tuple[Path, Path], dies: Dies) -> None:
    ada, bob = pair
    send(ada, ada, "notes.txt", "Ada's notes\n")
    dies(bob, "sync", DIE_IN="read-tree", DIE_AFTER="some", BYTES="5")
    write(bob / "notes.txt", "Ada's notes\nand Bob's\n")
    assert "notes.txt is in the way" in cli(bob, "sync").err
    assert (bob / "notes.txt").read_text() == "Ada's notes\nand Bob's\n"
    assert git(bob, "status", "--porcelain") == "?? notes.txt"


def test_git_that_takes_too_long_may_remove_its_locks(tmp_path: Path) -> None:
    lock = tmp_path / "index.lock"
    script = f"trap 'rm {lock}; exit 1' TERM; echo > {lock}; sleep 60 & wait"
    pipe = subprocess.PIPE
    slow = subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    with pytest.raises(GitError, match="no answer in 2 seconds"):
        finish(slow, "slow", limit=2)
    assert not lock.exists()


def test_a_lock_that_is_not_ours_stays_and_is_named(pair: tuple[Path, Path]) -> None:
    _, bob = pair
    lock = write(bob / ".git/index.lock", "")
    told = cli(bob, "sync")
    assert (told.code, str(lock) in told.out, "remove that file" in told.out) == (1, True, True), told
    lock.rename(bob / ".git/refs/remotes/origin/main.lock")
    refused = cli(bob, "sync")
    assert (refused.code, "main.lock" in refused.err, "remove that file" in refused.err) == (7, True, True), refused


def test_no_program_of_the_repositorys_runs_to_undo_a_sync(pair: tuple[Path, Path], dies: Dies, tmp_path: Path) -> None:
    ada, bob = pair
    send(ada, ada, "notes.txt")
    dies(bob, "sync", DIE_IN="read-tree", DIE_AFTER="some", BYTES="5")
    program = write(tmp_path / "evil.sh", f"#!/bin/sh\ntouch {tmp_path / 'canary'}\ncat\n")
    program.chmod(0o755)
    git(bob, "config", "filter.evil.smudge", str(program))
    write(bob / ".git/info/attributes", "* filter=evil\n")
    refused = cli(bob, "sync")
    assert (refused.code, "filter.evil" in refused.err) == (7, True), refused
    assert cli(bob, "search", "redis").code == 0
    assert not (tmp_path / "canary").exists()
    git(bob, "config", "--unset", "filter.evil.smudge")
    (bob / ".git/info/attributes").unlink()
    assert ok(bob, "sync")["sent"] == 1
