"""kill -9 at every step and at random moments: nothing acknowledged is lost, nothing of the user's is touched.

After every trial: the record is at HEAD as acknowledged, or wholly absent if it was not; the repository is sound; what
the user staged is as it was; no lock or temporary file is left; the next save works at once.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from filemem.errors import BrokenStore
from tests.repo.crash import ACKNOWLEDGED, OUTCOME, PATH, RECORD, STEPS, TOMBSTONE, operate, run
from tests.support import git, head_file, make_repo, make_saver, message, sound, write


def prepare(folder: Path, operation: str) -> Path:
    repo = make_repo(folder / "repo")
    if operation != "put":
        saver = make_saver(repo)
        saver.put(PATH, RECORD, message())
        if operation == "restore":
            saver.remove(PATH, message(), tombstone=TOMBSTONE)
        saver.close()
    write(repo / "staged.py", "staged\n")
    git(repo, "add", "staged.py")
    write(repo / "code.py", "edited\n")
    return repo


def age_locks(repo: Path) -> None:
    """Let time pass for what a killed process left: its locks, and the notes on when they were taken."""
    for lock in (repo / ".git").rglob("*.lock"):
        times = lock.stat()
        os.utime(lock, (times.st_atime - 20, times.st_mtime - 20))
    for entry in (repo / ".git/filemem/journal").glob("*"):
        lines = entry.read_bytes().split(b"\n")
        for at, line in enumerate(lines):
            for name in (b'["index", "', b'["ref", "'):
                if line.startswith(name):
                    lines[at] = name + str(int(line[len(name) : -2]) - 20_000).encode() + b'"]'
        entry.write_bytes(b"\n".join(lines))


def check(repo: Path, operation: str, said: list[str]) -> None:
    """The invariants; see the module."""
    acknowledged = ACKNOWLEDGED in said
    assert git(repo, "diff", "--cached", "--name-only", "--", "staged.py") == "staged.py"
    age_locks(repo)
    saver = make_saver(repo)
    saver.replay()
    assert saver.pending() == ()
    saver.put("decisions/next.md", b"# next\n", message())
    saver.close()
    committed, on_disk = head_file(repo, f"memory/{PATH}"), repo / "memory" / PATH
    assert (committed.encode() if committed else None) == (on_disk.read_bytes() if on_disk.exists() else None)
    done = {
        "put": committed is not None,
        "amend": OUTCOME.reason in (committed or ""),
        "remove": committed is None,
        "forget": committed is None,
        "restore": committed is not None,
    }[operation]
    marked = head_file(repo, f"memory/{TOMBSTONE}") is not None
    assert marked == (repo / "memory" / TOMBSTONE).exists() == (operation in ("forget", "restore") and not committed)
    if acknowledged or "journal" in said[:-1]:
        assert done, f"{operation}: not there although {said[-1]} was reached"
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == [" M code.py", "A  staged.py"]
    assert sound(repo)
    left = [
        p.name
        for p in (repo / ".git").rglob("*")
        if p.suffix == ".lock" or p.name.startswith(("tmp_obj", ".filemem", "."))
    ]
    assert left == []


@pytest.mark.parametrize("operation", ["forget", "restore"])
@pytest.mark.parametrize("step", ["journal", "blob", "record", "removed", "objects", "index", "ref", "done"])
def test_forgetting_and_restoring_are_all_or_nothing(tmp_path: Path, operation: str, step: str) -> None:
    """The same, where a commit touches the record and its tombstone: never one without the other."""
    repo = prepare(tmp_path, operation)
    check(repo, operation, run(repo, operation, at=step))


WRITES = [(operation, step) for operation in ("put", "amend") for step in STEPS]
REMOVES = [("remove", "removed" if step == "record" else step) for step in STEPS]


@pytest.mark.parametrize(("operation", "step"), [*WRITES, *REMOVES])
def test_killed_at_a_step(tmp_path: Path, operation: str, step: str) -> None:
    repo = prepare(tmp_path, operation)
    said = run(repo, operation, at=step, everything=len(step) % 2 == 1)
    assert said[-1] == step
    check(repo, operation, said)


def random_kills(folder: Path, seed: int, trials: int) -> None:
    chance = random.Random(seed)
    for trial in range(trials):
        operation = chance.choice(["put", "put", "amend", "remove", "forget", "restore"])
        repo = prepare(folder / str(trial), operation)
        said = run(repo, operation, after=chance.uniform(0, 0.06), everything=chance.random() < 0.7)
        try:
            check(repo, operation, said)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, trial {trial}, {operation}, {said}: {error}") from error


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    random_kills(tmp_path, seed, 6)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 110))
def test_killed_at_many_random_moments(tmp_path: Path, seed: int) -> None:
    random_kills(tmp_path, seed, 50)


def test_a_save_that_is_interrupted_where_it_may_last_is_undone(tmp_path: Path) -> None:
    repo = prepare(tmp_path, "put")

    def step(name: str) -> None:
        if name == "objects":
            raise KeyboardInterrupt

    saver = make_saver(repo, steps=step)
    with pytest.raises(KeyboardInterrupt):
        saver.put(PATH, RECORD, message())
    saver.close()
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == [" M code.py", "A  staged.py"]
    check(repo, "put", [])
    assert head_file(repo, f"memory/{PATH}") is None


@pytest.mark.parametrize("step", ["begin", "written", "synced", "journal", "blob", "record", "objects", "index"])
def test_an_error_of_the_disk_leaves_nothing_behind(tmp_path: Path, step: str) -> None:
    repo = make_repo(tmp_path / "repo")
    before = git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")

    def fail(name: str) -> None:
        if name == step:
            raise OSError(28, "No space left on device")

    saver = make_saver(repo, steps=fail)
    with pytest.raises(BrokenStore, match="No space"):
        saver.put(PATH, RECORD, message())
    saver.close()
    assert (git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")) == before
    assert not (repo / "memory" / PATH).exists()
    again = make_saver(repo)
    assert again.pending() == ()
    assert again.put(PATH, RECORD, message()).commit
    again.close()
    assert sound(repo)


def test_a_start_right_after_a_crash_does_not_forget_whose_lock_it_was(tmp_path: Path) -> None:
    repo = prepare(tmp_path, "put")
    run(repo, "put", at="index-started", everything=True)
    write(repo / ".git/index.lock", "")  # what the killed `git update-index` leaves
    time.sleep(1.2)  # longer than the doubt about when a step began
    early = make_saver(repo)  # too soon to tell a dead save from a slow one: it tries again, and notes when
    early.replay()
    early.close()
    assert (repo / ".git/index.lock").exists()
    age_locks(repo)
    saver = make_saver(repo)
    saver.replay()
    saver.close()
    assert not (repo / ".git/index.lock").exists()
    assert head_file(repo, f"memory/{PATH}")


@pytest.mark.parametrize("operation", ["put", "amend", "remove", "forget", "restore"])
@pytest.mark.parametrize("step", ["ref", "folders", "verified", "done"])
def test_nothing_fails_a_save_whose_commit_is_made(tmp_path: Path, operation: str, step: str) -> None:
    """The answer says what went wrong. An error would bring the caller to save again, and undoing would unmake it."""
    repo = prepare(tmp_path, operation)

    def fail(name: str) -> None:
        if name == step:
            raise OSError(5, "Input/output error")

    saver = make_saver(repo, steps=fail)
    saved = operate(saver, operation)
    assert saved.commit == git(repo, "rev-parse", "HEAD")
    assert saved.trouble.startswith("committed, but ")
    assert saved.trouble.endswith("Input/output error")
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == [" M code.py", "A  staged.py"]
    saver.close()
    check(repo, operation, [ACKNOWLEDGED])


@pytest.mark.parametrize("operation", ["put", "amend", "remove", "forget", "restore"])
def test_a_replay_puts_back_what_the_index_lacks_of_a_commit_that_was_made(tmp_path: Path, operation: str) -> None:
    repo = prepare(tmp_path, operation)
    before = git(repo, "ls-files", "-s", "-z", "memory")
    assert run(repo, operation, at="ref")[-1] == "ref"
    rows = git(repo, "ls-files", "-s", "-z", "memory").split("\0")
    gone = "".join(f"0 {'0' * 40}\t{row.partition(chr(9))[2]}\0" for row in rows if row)
    git(repo, "update-index", "-z", "--index-info", input=(gone + before).encode())
    assert git(repo, "diff", "--cached", "--name-only", "memory")
    check(repo, operation, ["ref"])


def test_a_file_that_was_edited_after_a_crash_stays_as_it_is(tmp_path: Path) -> None:
    repo = prepare(tmp_path, "put")
    run(repo, "put", at="ref")
    git(repo, "rm", "-q", "--cached", f"memory/{PATH}")
    write(repo / "memory" / PATH, "mine\n")
    saver = make_saver(repo)
    saver.replay()
    saver.close()
    assert (repo / "memory" / PATH).read_text() == "mine\n"
    assert git(repo, "status", "--porcelain", "memory") == f" M memory/{PATH}"
