"""Saves beside the user's own merges, stashes and commits, at the moment that hurts: nothing lost, none in their way.

A real `git merge` is held, by a hook of the user's, when it has read HEAD and moved nothing yet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from filemem.memory.saving import Saver, operations
from filemem.record.model import Outcome
from filemem.repo import Repo
from tests.repo import crash
from tests.support import environment, git, head_file, make_saver, message, write

TOP = Path(__file__).parents[2]
PATH, OTHER = "decisions/x.md", "decisions/other.md"
TEXT = b"---\ntype: decision\ntopic: t\n---\n# Text\n\nBody.\n"
OUTCOME = Outcome(1_763_660_000_000, "failed", "too slow")
HOLD = "touch .git/held; while [ ! -e .git/go ]; do sleep 0.02; done\n"


def hook(repo: Path, name: str, script: str) -> None:
    write(repo / ".git/hooks" / name, f"#!/bin/sh\n{script}").chmod(0o755)


@contextmanager
def held(repo: Path, *command: str, at: str) -> Iterator[subprocess.Popen[str]]:
    """A Git command of the user's that stands still in a hook until the block ends; it has ended then."""
    when = '[ "$1" = committed ] && grep -q ORIG_HEAD || exit 0\n' if at == "reference-transaction" else ""
    hook(repo, at, when + HOLD)
    process = subprocess.Popen(
        ["git", *command], cwd=repo, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (repo / ".git/held").exists():
        time.sleep(0.01)
    try:
        yield process
    finally:
        (repo / ".git/go").touch()
        process.communicate(timeout=60)
        (repo / ".git/hooks" / at).unlink()


def diverge(repo: Path) -> None:
    """A branch `side` to be merged; no conflict."""
    git(repo, "switch", "-q", "-c", "side")
    write(repo / "side.py", "side\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "side")
    git(repo, "switch", "-q", "main")
    write(repo / "main.py", "main\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "main")
    write(repo / "code.py", "edited\n")


def whole(repo: Path, path: str = PATH, text: bytes = TEXT) -> bool:
    """Whether HEAD, index and disk hold a record."""
    name = f"memory/{path}"
    changed = [row for row in git(repo, "status", "--porcelain", "-uall").splitlines() if name in row]
    return head_file(repo, name) == text.decode() and (repo / name).read_bytes() == text and not changed


def age(repo: Path, seconds: float) -> None:
    """Make all that was saved, and when that was looked at, so much older."""
    for file in (*(repo / ".git/filemem/recent").iterdir(), *(repo / ".git/filemem").glob("looked-*")):
        then = file.stat().st_mtime - seconds
        os.utime(file, (then, then))


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system does not tell which processes run, or the command began a moment too late to be seen."""
    monkeypatch.setattr(Repo, "mover", lambda _: None)


# what a merge leaves that was not seen


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("waited", [0, 66])
def test_a_merge_that_puts_back_what_it_had_read_takes_no_record_along(repo: Path, others: bool, waited: int) -> None:
    diverge(repo)
    merges: list[AbstractContextManager[subprocess.Popen[str]]] = []

    def begin(step: str) -> None:
        if step == "index" and not merges:
            merges.append(held(repo, "merge", "-m", "m", "side", at="reference-transaction"))
            merges[0].__enter__()

    saver = make_saver(repo, steps=begin)
    if others:
        saver.put(OTHER, TEXT, message("other"), policy="leave")
        git(repo, "add", "memory")
        git(repo, "commit", "-q", "-m", "other")
    assert saver.put(PATH, TEXT, message("save")).commit
    merges[0].__exit__(None, None, None)
    assert git(repo, "status", "--porcelain", "--", "memory") == f"D  memory/{PATH}"
    age(repo, waited)
    assert saver.replay(thorough=False).repaired == (f"put memory/{PATH} back into the index",)
    assert whole(repo)
    assert git(repo, "status", "--porcelain") == " M code.py"
    git(repo, "stash", "-q")
    git(repo, "merge", "-q", "-m", "m", "side")
    assert whole(repo)
    saver.close()


def test_an_index_and_files_that_were_read_from_the_commit_before_are_put_right(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    git(repo, "read-tree", "--reset", "-u", "HEAD~1")
    assert not (repo / "memory" / PATH).exists()
    assert saver.replay().repaired
    assert whole(repo)


def test_an_update_that_was_swept_away_is_put_right(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    saver.amend(PATH, message("update"), outcome=OUTCOME)
    new = (repo / "memory" / PATH).read_bytes()
    git(repo, "read-tree", "--reset", "-u", "HEAD~1")
    assert (repo / "memory" / PATH).read_bytes() == TEXT
    assert saver.replay().repaired
    assert whole(repo, text=new)


def died(repo: Path) -> Saver:
    """A merge that died because a save moved HEAD under it: MERGE_HEAD is there, and the index knows no record."""
    diverge(repo)
    saver = make_saver(repo)
    with held(repo, "merge", "-m", "m", "side", at="reference-transaction"):
        assert saver.put(PATH, TEXT, message("save")).commit
    assert (repo / ".git/MERGE_HEAD").exists()
    assert git(repo, "status", "--porcelain", "-uall", "--", "memory") == f"D  memory/{PATH}\n?? memory/{PATH}"
    return saver


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("end", [("commit", "-q", "--no-edit"), ("merge", "--abort")])
def test_a_merge_that_died_half_done_is_concluded_with_the_record(repo: Path, end: tuple[str, ...]) -> None:
    saver = died(repo)
    head = git(repo, "rev-parse", "HEAD")
    assert saver.replay(thorough=False).repaired == (f"put memory/{PATH} back into the index",)
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "diff", "--cached", "--name-status") == "A\tside.py"
    git(repo, *end)
    assert whole(repo)
    saver.close()


@pytest.mark.usefixtures("unseen")
def test_a_record_that_the_user_merged_away_unknowing_is_committed_again(repo: Path) -> None:
    saver = died(repo)
    git(repo, "commit", "-q", "--no-edit", GIT_COMMITTER_DATE=f"{int(time.time()) + 600} +0000")
    assert head_file(repo, f"memory/{PATH}") is None
    age(repo, 600)
    assert saver.replay(thorough=False).repaired == (
        f"committed memory/{PATH} again: what raced with it had dropped it",
    )
    assert whole(repo)
    saver.close()


# what the user takes away stays away


@pytest.mark.parametrize("how", ["git rm", "restore", "checkout", "revert", "merged away", "rm"])
def test_what_the_user_took_out_of_the_index_after_a_pull_stays_out(repo: Path, saver: Saver, how: str) -> None:
    git(repo, "branch", "up")
    git(repo, "merge", "-q", "up")  # already up to date: ORIG_HEAD is what HEAD was before the save
    saver.put(OTHER, TEXT, message())
    saver.put(PATH, TEXT, message())
    name = f"memory/{PATH}"
    if how == "git rm":
        git(repo, "rm", "-q", name)
    elif how == "restore":
        git(repo, "restore", "--staged", "--worktree", "--source=HEAD~1", "memory")
    elif how == "checkout":
        git(repo, "checkout", "-q", "HEAD~1", "--no-overlay", "--", "memory")
    elif how == "revert":
        git(repo, "revert", "--no-commit", "HEAD")
    elif how == "rm":
        (repo / name).unlink()
    else:
        diverge(repo)
        git(repo, "stash", "-q")
        git(repo, "merge", "-q", "--no-commit", "side")
        git(repo, "rm", "-q", name)
    before = git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")
    assert saver.replay().repaired == ()
    assert (git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")) == before
    assert not (repo / name).exists()
    if how == "merged away":
        git(repo, "commit", "-q", "--no-edit")
        assert saver.replay().repaired == ()
        assert head_file(repo, name) is None


def test_a_removal_whose_commit_a_hook_refused_stays_a_removal(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    git(repo, "rm", "-q", f"memory/{PATH}")
    hook(repo, "pre-commit", "exit 1\n")
    git(repo, "commit", "-q", "-m", "gone", ok=False)  # it notes the trees of the index all the same
    late = time.time() + 30
    os.utime(repo / ".git/index", (late, late))
    assert saver.replay().repaired == ()
    assert git(repo, "status", "--porcelain") == f"D  memory/{PATH}"


# stashes


def test_a_stash_that_takes_a_record_along_gives_back_what_is_the_users(repo: Path) -> None:
    write(repo / "code.py", "staged\n")
    git(repo, "add", "code.py")
    write(repo / "code.py", "staged\nedited\n")

    def stash(step: str) -> None:
        if step == "index" and not git(repo, "stash", "list"):
            git(repo, "stash", "-q")

    saver = make_saver(repo, steps=stash)
    saver.put(PATH, TEXT, message("save"))
    saver.replay()
    assert whole(repo)
    assert git(repo, "diff", "--name-only", "stash^", "stash^2") == f"code.py\nmemory/{PATH}"
    git(repo, "stash", "pop", "-q", "--index", ok=False)
    assert git(repo, "stash", "list")
    git(repo, "stash", "pop", "-q")
    assert (repo / "code.py").read_text() == "staged\nedited\n"
    assert git(repo, "status", "--porcelain") == " M code.py"
    assert whole(repo)
    saver.close()


@pytest.mark.parametrize("operation", ["put", "amend", "remove", "forget", "restore"])
def test_a_save_that_a_stash_ran_beside_leaves_nothing_staged(repo: Path, operation: str) -> None:
    """Without a later command, which may never come: a commit of the user's would undo the save."""
    saver = make_saver(repo)
    if operation != "put":
        saver.put(crash.PATH, crash.RECORD, message())
    if operation == "restore":
        saver.remove(crash.PATH, message(), tombstone=crash.TOMBSTONE)
    write(repo / "code.py", "staged\n")
    git(repo, "add", "code.py")

    def stash(step: str) -> None:
        if step == "index" and not git(repo, "stash", "list"):
            git(repo, "stash", "-q")

    racing = make_saver(repo, steps=stash)
    assert crash.operate(racing, operation).commit == git(repo, "rev-parse", "HEAD")
    assert git(repo, "status", "--porcelain") == ""
    assert (repo / "memory" / crash.PATH).exists() == (operation not in ("remove", "forget"))
    git(repo, "stash", "pop", "-q")
    assert git(repo, "status", "--porcelain") == " M code.py"
    for each in (saver, racing):
        each.close()


def stashed(repo: Path) -> None:
    """What `git stash` does that read HEAD before a save: files and index are as before, and HEAD is moved back."""
    git(repo, "rm", "-q", f"memory/{PATH}")
    git(repo, "update-ref", "-m", "reset: moving to HEAD", "HEAD", "HEAD~1")


def test_what_a_stash_swept_away_is_brought_back_within_the_hour(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    stashed(repo)
    age(repo, 1800)
    assert "swept it away" in saver.replay(thorough=False).repaired[0]
    assert whole(repo)


def test_what_was_swept_away_is_told_from_a_long_reflog(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    stashed(repo)
    line = (repo / ".git/logs/HEAD").read_text().splitlines()[0].split(" ", 2)[2]
    tip = git(repo, "rev-parse", "HEAD")
    for log in ("HEAD", "refs/heads/main"):
        with (repo / ".git/logs" / log).open("a") as file:
            file.write("".join(f"{tip} {tip} {line}\n" for _ in range(500)))
    assert saver.replay().repaired
    assert whole(repo)


def test_what_was_looked_at_when_it_was_a_minute_old_is_out_of_danger(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    journal = saver._repo.journal
    saver.replay()
    assert journal.unsettled(time.time()) >= 0
    age(repo, 70)
    assert journal.unsettled(time.time()) >= 0
    assert saver.replay().repaired == ()
    assert journal.unsettled(time.time()) < 0
    stashed(repo)
    assert saver.replay().repaired == ()
    assert head_file(repo, f"memory/{PATH}") is None


# commands that are seen at work


@pytest.mark.parametrize(
    ("command", "at"),
    [
        (("merge", "-m", "m", "side"), "reference-transaction"),
        (("merge", "-m", "m", "side"), "pre-merge-commit"),
        (("commit", "-q", "-m", "mine"), "pre-commit"),
        (("commit", "-q", "-a", "-m", "mine"), "commit-msg"),
    ],
)
def test_a_save_lets_the_users_command_end(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], at: str
) -> None:
    monkeypatch.setattr(operations, "_PATIENCE", 0.0)
    diverge(repo)
    write(repo / "mine.py", "mine\n")
    git(repo, "add", "mine.py") if command[0] == "commit" else git(repo, "stash", "-q")
    with held(repo, *command, at=at) as process:
        assert saver.put(PATH, TEXT, message()).pending == f"git {command[0]} is at work here"
        assert saver.replay().waiting == (PATH,)
    assert process.returncode == 0
    assert head_file(repo, f"memory/{PATH}") is None
    assert saver.replay().finished == (PATH,)
    assert whole(repo)


def test_a_merge_that_begins_while_we_look_for_one_is_seen(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was staged would be lost to a merge that cannot put it back: it had found our record staged too."""
    monkeypatch.setattr(operations, "_PATIENCE", 0.0)
    diverge(repo)
    write(repo / "staged.py", "staged\n")
    git(repo, "add", "staged.py")
    merges: list[AbstractContextManager[subprocess.Popen[str]]] = []
    look = Repo.mover

    def begin(repository: Repo) -> object:
        found = look(repository)
        if not merges and "memory" in git(repo, "diff", "--cached", "--name-only"):
            merges.append(held(repo, "merge", "-m", "m", "side", at="reference-transaction"))
            merges[0].__enter__()
        return found

    monkeypatch.setattr(Repo, "mover", begin)
    hook(repo, "pre-commit", "exit 0\n")  # so that a look is made
    assert saver.put(PATH, TEXT, message()).pending == "git merge is at work here"
    merges[0].__exit__(None, None, None)
    assert git(repo, "status", "--porcelain").splitlines()[:2] == [" M code.py", "A  staged.py"]
    saver.replay()
    assert whole(repo)


def test_a_save_waits_a_moment_for_the_users_command(repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo / "mine.py", "mine\n")
    git(repo, "add", "mine.py")
    monkeypatch.setattr(operations, "_PATIENCE", 60.0)

    def let_go(seconds: float) -> None:
        (repo / ".git/go").touch()
        pauses.append(seconds)
        wait(seconds)

    pauses: list[float] = []
    wait = time.sleep
    with held(repo, "commit", "-q", "-m", "mine", at="pre-commit") as process:
        monkeypatch.setattr(time, "sleep", let_go)
        saved = saver.put(PATH, TEXT, message())
        monkeypatch.undo()
    assert process.returncode == 0
    assert pauses
    assert saved.commit == git(repo, "rev-parse", "HEAD")
    assert git(repo, "log", "-2", "--format=%s").splitlines()[1] == "mine"
    assert whole(repo)


@pytest.mark.parametrize("name", ["pre-commit", "post-commit"])
def test_a_hook_of_the_users_that_saves_neither_waits_nor_is_in_the_way(repo: Path, name: str) -> None:
    code = (
        "from pathlib import Path; from tests.support import make_saver, message\n"
        f"saver = make_saver(Path({str(repo)!r})); saved = saver.put({PATH!r}, {TEXT!r}, message('save'))\n"
        f"Path({str(repo / '.git/said')!r}).write_text(saved.pending or 'done'); saver.close()\n"
    )
    hook(repo, name, f"cd {TOP} && exec {sys.executable} -c '{code.replace(chr(39), chr(34))}'\n")
    if name == "post-commit":
        hook(repo, "pre-commit", "sleep 0.05\n")  # so that HEAD moves in a later tick of the clock than it began in
    write(repo / "mine.py", "mine\n")
    git(repo, "add", "mine.py")
    git(repo, "commit", "-q", "-m", "mine")
    said = (repo / ".git/said").read_text()
    assert said == ("git commit is at work here" if name == "pre-commit" else "done")
    saver = make_saver(repo)
    saver.replay()
    assert whole(repo)
    saver.close()


def test_a_command_elsewhere_is_none_of_ours(repo: Path, saver: Saver, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "feature", str(linked))
    write(linked / "mine.py", "mine\n")
    git(linked, "add", "mine.py")
    hook(repo, "pre-commit", f"cd {repo}; {HOLD}")
    process = subprocess.Popen(["git", "commit", "-q", "-m", "mine"], cwd=linked, env=environment())
    while not (repo / ".git/held").exists():
        time.sleep(0.01)
    assert saver.put(PATH, TEXT, message()).commit
    (repo / ".git/go").touch()
    assert process.wait(60) == 0
