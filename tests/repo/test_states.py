"""Saving while the user is in the middle of something: the answer is `pending`, and all is there when that is over."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.errors import BrokenStore, NotFound
from filemem.memory.saving import Saver
from filemem.record.model import Outcome
from filemem.repo import Repo
from tests.support import environment, git, head_file, make_repo, make_saver, message, sound, write

OLD, NEW, GONE = "decisions/old.md", "decisions/new.md", "decisions/gone.md"
TEXT = b"---\ntype: decision\ntopic: t\n---\n# Text\n\nBody.\n"
OUTCOME = Outcome(1_763_660_000_000, "failed", "too slow")


def fork(repo: Path) -> None:
    """Two branches that change the same line of `code.py`; `main` is checked out."""
    git(repo, "checkout", "-q", "-b", "side")
    write(repo / "code.py", "side\n")
    git(repo, "commit", "-q", "-a", "-m", "side")
    git(repo, "checkout", "-q", "main")
    write(repo / "code.py", "main\n")
    git(repo, "commit", "-q", "-a", "-m", "main")


def conflicted(command: str) -> Callable[[Path], None]:
    def start(repo: Path) -> None:
        fork(repo)
        git(repo, *command.split(), "side", ok=False)

    return start


def patched(repo: Path) -> None:
    fork(repo)
    patch = git(repo, "format-patch", "-1", "--stdout", "side")
    git(repo, "am", input=patch.encode() + b"\n", ok=False)


def bisected(repo: Path) -> None:
    fork(repo)
    git(repo, "bisect", "start", "main", "main~1")


def resolve(*command: str) -> Callable[[Path], None]:
    def run(repo: Path) -> None:
        write(repo / "code.py", "resolved\n")
        git(repo, "add", "code.py")
        git(repo, *command, GIT_EDITOR="true")

    return run


def finish(*command: str) -> Callable[[Path], None]:
    def run(repo: Path) -> None:
        git(repo, *command)

    return run


STATES: dict[str, tuple[Callable[[Path], None], str, dict[str, Callable[[Path], None]]]] = {
    "rebase": (
        conflicted("rebase"),
        "rebase",
        {"abort": finish("rebase", "--abort"), "continue": resolve("rebase", "--continue")},
    ),
    "rebase-apply": (
        conflicted("rebase --apply"),
        "rebase",
        {"abort": finish("rebase", "--abort"), "continue": resolve("rebase", "--continue")},
    ),
    "merge": (
        conflicted("merge"),
        "merge",
        {"abort": finish("merge", "--abort"), "conclude": resolve("commit", "-q", "-m", "merged")},
    ),
    "cherry-pick": (
        conflicted("cherry-pick"),
        "cherry-pick",
        {"abort": finish("cherry-pick", "--abort"), "continue": resolve("cherry-pick", "--continue")},
    ),
    "revert": (
        conflicted("revert --no-edit"),
        "revert",
        {"abort": finish("revert", "--abort"), "continue": resolve("revert", "--continue")},
    ),
    "am": (patched, "am", {"abort": finish("am", "--abort")}),
    "bisect": (bisected, "bisect", {"reset": finish("bisect", "reset")}),
    "detached": (finish("checkout", "-q", "--detach"), "detached", {"checkout": finish("checkout", "-q", "main")}),
}
CASES = [(state, end) for state, (_, _, ends) in STATES.items() for end in ends]


@pytest.fixture
def ready(repo: Path, saver: Saver) -> Saver:
    """A saver on a repository that holds two records already."""
    for path in (OLD, GONE):
        saver.put(path, TEXT, message())
    return saver


@pytest.mark.parametrize(("state", "end"), CASES)
def test_save_update_and_delete_wait_and_are_there_in_the_end(repo: Path, ready: Saver, state: str, end: str) -> None:
    begin, reason, ends = STATES[state]
    begin(repo)
    before = git(repo, "rev-parse", "HEAD"), git(repo, "diff", "--cached"), git(repo, "diff")
    for saved in (
        ready.put(NEW, TEXT, message("new")),
        ready.amend(OLD, message("update"), outcome=OUTCOME),
        ready.remove(GONE, message("delete")),
    ):
        assert saved.commit is None
        assert reason in (saved.pending or "")
    assert (git(repo, "rev-parse", "HEAD"), git(repo, "diff", "--cached"), git(repo, "diff")) == before
    assert (repo / "memory" / NEW).read_bytes() == TEXT
    overlay = ready.overlay()
    assert overlay.keys() == {OLD, GONE}
    assert b"too slow" in (overlay[OLD] or b"")
    assert overlay[GONE] is None
    assert [(p.kind, p.path) for p in ready.pending()] == [("put", NEW), ("amend", OLD), ("remove", GONE)]
    assert len(ready.replay().waiting) == 3

    ends[end](repo)
    assert set(ready.replay().finished) == {NEW, OLD, GONE}
    assert ready.pending() == ()
    assert ready.overlay() == {}
    assert head_file(repo, f"memory/{NEW}") == TEXT.decode()
    assert "too slow" in (head_file(repo, f"memory/{OLD}") or "")
    assert "too slow" in (repo / "memory" / OLD).read_text()
    assert head_file(repo, f"memory/{GONE}") is None
    assert not (repo / "memory" / GONE).exists()
    assert git(repo, "status", "--porcelain") == ""
    subjects = git(repo, "log", "-3", "--format=%s", "--reverse").splitlines()
    assert subjects == ["new", "update", "delete"]
    assert sound(repo)


def test_a_new_record_is_updated_twice_and_removed_while_it_waits(repo: Path, ready: Saver) -> None:
    conflicted("rebase")(repo)
    ready.put(NEW, TEXT, message("new"))
    ready.amend(NEW, message("update"), outcome=OUTCOME)
    ready.amend(NEW, message("update"), keys={"tags": ["a"]})
    ready.put("decisions/short.md", TEXT, message())
    ready.remove("decisions/short.md", message())
    assert [p.path for p in ready.pending()] == [NEW]
    git(repo, "rebase", "--abort")
    assert ready.replay().finished == (NEW,)
    committed = head_file(repo, f"memory/{NEW}") or ""
    assert "too slow" in committed
    assert "tags: [a]" in committed
    assert git(repo, "status", "--porcelain") == ""


def test_an_update_that_waits_is_updated_again(repo: Path, ready: Saver) -> None:
    conflicted("merge")(repo)
    ready.amend(OLD, message("one"), outcome=OUTCOME)
    ready.amend(OLD, message("two"), keys={"tags": ["a"]})
    shown = ready.overlay()[OLD] or b""
    assert b"too slow" in shown
    assert b"tags: [a]" in shown
    assert (repo / "memory" / OLD).read_bytes() == TEXT
    ready.remove(OLD, message("three"))
    with pytest.raises(NotFound):
        ready.amend(OLD, message("four"), keys={"tags": ["b"]})
    git(repo, "merge", "--abort")
    ready.replay()
    assert ready.pending() == ()
    assert head_file(repo, f"memory/{OLD}") is None
    assert git(repo, "log", "-3", "--format=%s").splitlines() == ["three", "two", "one"]


def test_an_update_that_waits_keeps_what_the_user_edits_meanwhile(repo: Path, ready: Saver) -> None:
    conflicted("merge")(repo)
    ready.amend(OLD, message("update"), outcome=OUTCOME)
    (repo / "memory" / OLD).write_bytes(TEXT.replace(b"Body.", b"Body of mine."))
    assert b"Body of mine." in (ready.overlay()[OLD] or b"")
    git(repo, "add", "code.py")
    git(repo, "commit", "-q", "-m", "merged")
    ready.replay()
    assert "Body.\n" in (head_file(repo, f"memory/{OLD}") or "")
    assert "too slow" in (head_file(repo, f"memory/{OLD}") or "")
    assert "Body of mine." in (repo / "memory" / OLD).read_text()
    assert "too slow" in (repo / "memory" / OLD).read_text()


def test_what_waits_comes_back_after_a_clean(repo: Path, ready: Saver) -> None:
    conflicted("rebase")(repo)
    ready.put(NEW, TEXT, message("new"))
    git(repo, "clean", "-fdq")
    git(repo, "rebase", "--abort")
    assert not (repo / "memory" / NEW).exists()
    assert ready.overlay() == {NEW: TEXT}
    ready.replay()
    assert head_file(repo, f"memory/{NEW}") == TEXT.decode()
    assert (repo / "memory" / NEW).read_bytes() == TEXT


def test_a_record_that_the_user_commits_meanwhile_is_done(repo: Path, ready: Saver) -> None:
    conflicted("merge")(repo)
    ready.put(NEW, TEXT, message("new"))
    write(repo / "code.py", "resolved\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "merged")
    count = git(repo, "rev-list", "--count", "HEAD")
    assert ready.replay().finished == (NEW,)
    assert git(repo, "rev-list", "--count", "HEAD") == count


def test_a_removal_of_what_was_changed_since_is_shown_not_done(repo: Path, ready: Saver) -> None:
    conflicted("merge")(repo)
    ready.remove(GONE, message())
    git(repo, "merge", "--abort")
    (repo / "memory" / GONE).write_bytes(TEXT + b"More.\n")
    git(repo, "commit", "-q", "-a", "-m", "more")
    assert ready.replay().waiting == (GONE,)
    assert "changed" in ready.pending()[0].reason
    assert (repo / "memory" / GONE).exists()
    assert ready.discard(GONE) == 1
    assert ready.pending() == ()


def test_an_open_commit_editor_is_waited_for(repo: Path, ready: Saver, tmp_path: Path) -> None:
    go, opened = tmp_path / "go", tmp_path / "opened"
    editor = write(
        tmp_path / "editor.sh",
        f'#!/bin/sh\ntouch {opened}\nwhile [ ! -e {go} ]; do sleep 0.05; done\necho Mine > "$1.new"\n'
        'cat "$1" >> "$1.new"; mv "$1.new" "$1"\n',
    )
    editor.chmod(0o755)
    write(repo / "mine.py", "mine\n")
    git(repo, "add", "mine.py")
    commit = subprocess.Popen(["git", "commit", "-q"], cwd=repo, env=environment({"GIT_EDITOR": str(editor)}))
    while not opened.exists():
        time.sleep(0.02)
    saved = ready.put(NEW, TEXT, message("new"))
    assert "being edited" in (saved.pending or "")
    go.touch()
    assert commit.wait(10) == 0
    assert git(repo, "log", "-1", "--format=%s") == "Mine"
    assert ready.replay().finished == (NEW,)
    assert git(repo, "status", "--porcelain") == ""


def test_an_abandoned_commit_editor_is_waited_for_ten_minutes(repo: Path, ready: Saver) -> None:
    draft = write(repo / ".git/COMMIT_EDITMSG", "\n# Please enter the commit message\n")
    os.utime(draft, (time.time() + 1, time.time() + 1))
    assert ready.put(NEW, TEXT, message()).pending
    old = time.time() - 700
    os.utime(draft, (old, old))
    os.utime(repo / ".git/logs/HEAD", (old - 5, old - 5))
    assert ready.replay().finished == (NEW,)


@pytest.mark.parametrize("text", ["a message given with -m\n", ""])
def test_a_message_without_comments_is_no_open_editor(repo: Path, ready: Saver, text: str) -> None:
    draft = write(repo / ".git/COMMIT_EDITMSG", text)
    os.utime(draft, (time.time() + 1, time.time() + 1))
    assert ready.put(NEW, TEXT, message()).commit


def test_a_configured_comment_character_is_known(repo: Path, ready: Saver) -> None:
    git(repo, "config", "core.commentChar", ";")
    draft = write(repo / ".git/COMMIT_EDITMSG", "\n; Please enter\n")
    os.utime(draft, (time.time() + 1, time.time() + 1))
    time.sleep(1.05)
    assert ready.put(NEW, TEXT, message()).pending


def test_without_a_reflog_the_editor_is_not_looked_for(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    git(repo, "config", "core.logAllRefUpdates", "false")
    git(repo, "commit", "-q", "--allow-empty", "-m", "x")
    write(repo / ".git/COMMIT_EDITMSG", "\n# Please enter\n")
    saver = make_saver(repo)
    assert saver.put(NEW, TEXT, message()).commit
    saver.close()


def test_each_work_tree_waits_for_itself(repo: Path, ready: Saver, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "feature", str(linked))
    conflicted("rebase")(repo)
    other = make_saver(linked)
    assert other.put("decisions/other.md", TEXT, message()).commit
    assert ready.put(NEW, TEXT, message()).pending
    assert other.pending() == ()
    assert other.replay().finished == ()
    git(linked, "checkout", "-q", "--detach")
    assert other.put("decisions/lost.md", TEXT, message()).pending
    other.close()
    git(repo, "worktree", "remove", "--force", str(linked))
    assert [(p.path, p.reason) for p in ready.pending() if p.path != NEW] == [
        ("decisions/lost.md", "its work tree was removed")
    ]


def test_switching_branches_between_saves(repo: Path, ready: Saver) -> None:
    git(repo, "checkout", "-q", "-b", "topic/deep")
    assert ready.put(NEW, TEXT, message("on topic")).commit == git(repo, "rev-parse", "topic/deep")
    git(repo, "checkout", "-q", "main")
    assert not (repo / "memory" / NEW).exists()
    assert ready.put("decisions/x.md", TEXT, message("on main")).commit == git(repo, "rev-parse", "main")
    assert git(repo, "status", "--porcelain") == ""


def test_places_without_a_repository_or_work_tree(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no Git repository") as caught:
        Repo.discover(tmp_path)
    assert "filemem init" in caught.value.hint
    bare = tmp_path / "bare.git"
    bare.mkdir()
    git(bare, "init", "-q", "--bare")
    with pytest.raises(BrokenStore, match="without a work tree"):
        Repo.discover(bare)
    repo = make_repo(tmp_path / "repo")
    for folder in (".git", ".git/objects", ".git/refs/heads"):
        with pytest.raises(BrokenStore, match="lies in the Git directory of") as refused:
            Repo.discover(repo / folder)
        assert refused.value.hint.endswith(f"filemem -C {repo}")
    broken = tmp_path / "broken"
    write(broken / ".git", "gitdir: /nowhere\n")
    with pytest.raises(BrokenStore, match="does not lead"):
        Repo.discover(broken)


def test_a_repository_of_somebody_else_is_refused_naming_the_owner(repo: Path) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (repo, repo / ".git"):
        os.chown(path, 65534, -1)
    with pytest.raises(BrokenStore, match=r"belongs to (nobody|65534)") as caught:
        Repo.discover(repo)
    assert "safe.directory" in caught.value.hint
    git(repo, "config", "--global", "--add", "safe.directory", str(repo.resolve()))
    try:
        assert Repo.discover(repo).branch() == "main"
    finally:
        git(repo, "config", "--global", "--unset-all", "safe.directory")


def test_a_read_only_git_directory_is_said_so(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    (repo / ".git/filemem").mkdir()
    for folder in (repo / ".git/filemem", repo / ".git", repo):
        folder.chmod(0o555)
    if os.access(repo, os.W_OK):
        write(repo / ".git/filemem/lock", "").unlink()
        (repo / ".git/filemem").rmdir()
        write(repo / ".git/filemem", "a file in the way\n")  # root ignores permissions
    saver = make_saver(repo)
    with pytest.raises(BrokenStore, match="cannot be written"):
        saver.put(NEW, TEXT, message())
    assert not (repo / "memory").exists()
    saver.close()
    for folder in (repo, repo / ".git"):
        folder.chmod(0o755)
