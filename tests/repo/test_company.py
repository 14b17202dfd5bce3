"""Saving beside others: several processes, a user who commits, a gc, locks of all kinds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from filemem.memory.saving import Saver
from filemem.record.model import Outcome
from filemem.repo import refs
from tests.support import environment, git, head_file, make_repo, make_saver, message, sound, write

TOP = Path(__file__).parents[2]
PATH = "decisions/x.md"
TEXT = b"---\ntype: decision\ntopic: t\n---\n# Text\n\nBody.\n"
OUTCOME = Outcome(1_763_660_000_000, "failed", "too slow")


@contextmanager
def looping(repo: Path, script: str) -> Iterator[subprocess.Popen[str]]:
    """A shell loop in a repository; ends with the block."""
    process = subprocess.Popen(
        ["sh", "-c", f"while [ ! -e {repo}/.git/stop ]; do {script}; done"],
        cwd=repo,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        (repo / ".git/stop").touch()
        process.communicate(timeout=30)


def worker(repo: Path, name: str, count: int) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from tests.support import make_saver, message\n"
        "repo, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])\n"
        "saver = make_saver(repo, patience=60)\n"
        "for i in range(count):\n"
        "    saved = saver.put(f'decisions/{name}/{i}.md', f'# {name} {i}\\n'.encode(), message(f'{name} {i}'))\n"
        "    print(saved.commit or saved.pending, flush=True)\n"
        "saver.close()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(repo), name, str(count)],
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def together(repo: Path, processes: int, count: int) -> None:
    """Processes that save while the user stages and commits in a loop; nobody loses anything."""
    user = "echo $((i=i+1)) > u$i.txt && git add u$i.txt && git commit -q -m user$i && echo $i; sleep 0.02"
    with looping(repo, user) as person:
        started = [worker(repo, f"w{n}", count) for n in range(processes)]
        for process in started:
            out, err = process.communicate(timeout=110)
            assert process.returncode == 0, err
            assert len(out.split("\n")) == count + 1
    saver = make_saver(repo)
    saver.replay()
    assert saver.pending() == ()
    saver.close()
    del person
    tree = set(git(repo, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert {f"memory/decisions/w{n}/{i}.md" for n in range(processes) for i in range(count)} <= tree
    assert sound(repo)
    log = git(repo, "log", "--format=%x00%s", "--name-status").split("\0")[1:]
    for commit in log:
        subject, *rows = [line for line in commit.splitlines() if line]
        if subject.startswith("w"):
            name, i = subject.split()
            assert rows == [f"A\tmemory/decisions/{name}/{i}.md"]
    mine = {c.splitlines()[0][4:] for c in log if c.startswith("user")}
    assert {f"u{i}.txt" for i in mine} <= tree
    assert mine
    assert [line for line in git(repo, "status", "--porcelain").splitlines() if "memory/" in line] == []


def test_two_processes_and_a_user_who_commits(repo: Path) -> None:
    together(repo, processes=2, count=20)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_eight_processes_and_a_user_who_commits(repo: Path) -> None:
    together(repo, processes=8, count=50)


def test_saving_beside_a_gc_that_prunes_at_once(repo: Path) -> None:
    for i in range(50):
        write(repo / f"memory/decisions/{i}.md", f"# {i}\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "many")
    saver = make_saver(repo)
    with looping(repo, "git gc -q --prune=now"):
        for i in range(30):
            assert saver.put(f"decisions/gc/{i}.md", b"# %d\n" % i, message(str(i))).commit
    saver.replay()
    saver.close()
    assert sound(repo)
    assert len(git(repo, "ls-tree", "--name-only", "HEAD:memory/decisions/gc").splitlines()) == 30
    assert git(repo, "status", "--porcelain") == ""


def test_references_packed_twice_within_a_second_are_read_again(repo: Path, saver: Saver) -> None:
    for i in range(20):  # a new file often gets the inode of one that is gone: `packed-refs` looks as before then
        git(repo, "pack-refs", "--all")
        assert saver.put(f"decisions/{i}.md", b"# %d\n" % i, message(str(i))).commit
        git(repo, "pack-refs", "--all")
        git(repo, "commit", "-q", "--allow-empty", "-m", f"user {i}")
        git(repo, "pack-refs", "--all")
    assert len(git(repo, "ls-tree", "--name-only", "HEAD:memory/decisions").splitlines()) == 20
    assert git(repo, "log", "--format=%s").count("user") == 20


def test_objects_that_a_gc_took_are_written_again(repo: Path, saver: Saver) -> None:
    saved = saver.put(PATH, TEXT, message())
    for oid in (saved.blob, saved.commit or "", git(repo, "rev-parse", "HEAD:memory")):
        (repo / ".git/objects" / oid[:2] / oid[2:]).unlink()
    assert not sound(repo)
    assert "3 missing" in saver.replay().repaired[0]
    assert sound(repo)
    (repo / ".git/objects" / saved.blob[:2] / saved.blob[2:]).chmod(0o644)
    write(repo / ".git/objects" / saved.blob[:2] / saved.blob[2:], b"")
    assert saver.replay().repaired == ("wrote 1 missing Git objects again",)
    assert sound(repo)


def test_a_head_whose_commit_was_pruned_is_healed_by_the_next_save(repo: Path, saver: Saver) -> None:
    saved = saver.put(PATH, TEXT, message())
    (repo / ".git/objects" / (saved.commit or "")[:2] / (saved.commit or "")[2:]).unlink()
    saver.close()
    again = make_saver(repo)
    assert again.put("decisions/y.md", TEXT, message()).commit
    again.close()
    assert sound(repo)
    assert head_file(repo, f"memory/{PATH}")


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_a_lock_of_another_command_is_waited_for_and_named(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    monkeypatch.setattr(refs, "PATIENCE", 0.3)
    held = write(repo / ".git" / lock, "")
    old = time.time() - 100
    os.utime(held, (old, old))
    head = git(repo, "rev-parse", "HEAD")
    saved = saver.put(PATH, TEXT, message())
    assert saved.commit is None
    assert lock in (saved.pending or "")
    assert git(repo, "rev-parse", "HEAD") == head
    assert (repo / "memory" / PATH).read_bytes() == TEXT
    assert held.exists()
    assert saver.replay().waiting == (PATH,)
    assert held.exists()
    held.unlink()
    assert saver.replay().finished == (PATH,)
    assert git(repo, "status", "--porcelain") == ""


def test_a_lock_that_is_released_soon_is_waited_for(repo: Path, saver: Saver) -> None:
    lock = write(repo / ".git/index.lock", "")
    releaser = subprocess.Popen(["sh", "-c", f"sleep 0.5; rm {lock}"])
    assert saver.put(PATH, TEXT, message()).commit
    assert releaser.wait() == 0


def drop(repo: Path, path: str, *, commit: str = "user") -> None:
    """What a user's commit does that read the index before our save: it lacks our path, in HEAD and in the index."""
    git(repo, "rm", "-q", "--cached", f"memory/{path}")
    git(repo, "commit", "-q", "-m", commit)


def test_a_record_that_a_racing_commit_dropped_is_committed_again(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message("save"))
    drop(repo, PATH)
    assert head_file(repo, f"memory/{PATH}") is None
    assert "committed" in saver.replay(thorough=False).repaired[0]
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()
    assert git(repo, "status", "--porcelain") == ""
    assert saver.replay().repaired == ()
    drop(repo, PATH)
    assert saver.replay().repaired
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()


def test_a_record_that_a_racing_commit_dropped_is_looked_for_until_it_was_seen(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message("save"))
    drop(repo, PATH)
    for file in (repo / ".git/filemem/recent").iterdir():
        os.utime(file, (time.time() - 1800, time.time() - 1800))
    assert saver.replay(thorough=False).repaired
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()


def test_an_update_that_a_racing_commit_reverted_is_committed_again(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    saver.amend(PATH, message("update"), outcome=OUTCOME)
    new = (repo / "memory" / PATH).read_bytes()
    old = git(repo, "hash-object", "-w", "--stdin", input=TEXT)
    git(repo, "update-index", "--cacheinfo", f"100644,{old},memory/{PATH}")
    git(repo, "commit", "-q", "-m", "user")
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()
    assert saver.replay().repaired
    assert head_file(repo, f"memory/{PATH}") == new.decode()
    assert git(repo, "status", "--porcelain") == ""


def test_a_removal_that_a_racing_commit_undid_is_made_again(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    saver.remove(PATH, message("remove"))
    old = git(repo, "hash-object", "-w", "--stdin", input=TEXT)
    git(repo, "update-index", "--add", "--cacheinfo", f"100644,{old},memory/{PATH}")
    git(repo, "commit", "-q", "-m", "user")
    saver.replay()
    assert head_file(repo, f"memory/{PATH}") is None
    assert git(repo, "status", "--porcelain") == ""


def test_an_index_that_lost_our_entry_is_repaired(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    git(repo, "update-index", "--force-remove", f"memory/{PATH}")
    assert git(repo, "status", "--porcelain").startswith("D ")
    assert "index" in saver.replay().repaired[0]
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["reset", "revert", "git rm", "amended", "rebased", "edited", "late"])
def test_what_the_user_took_away_stays_away(repo: Path, saver: Saver, how: str) -> None:
    saver.put(PATH, TEXT, message("save"))
    if how == "reset":
        git(repo, "reset", "-q", "--mixed", "HEAD^")
    elif how == "revert":
        git(repo, "revert", "--no-edit", "HEAD")
    elif how == "git rm":
        git(repo, "rm", "-q", f"memory/{PATH}")
        git(repo, "commit", "-q", "-m", "gone")
    elif how == "amended":
        git(repo, "rm", "-q", "--cached", f"memory/{PATH}")
        git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", "other")
    elif how == "rebased":
        git(repo, "reset", "-q", "--soft", "HEAD^")
        git(repo, "rm", "-q", "--cached", f"memory/{PATH}")
        git(repo, "commit", "-q", "--allow-empty", "-m", "other")
    elif how == "edited":
        (repo / "memory" / PATH).write_bytes(TEXT + b"mine\n")
        drop(repo, PATH)
    else:
        for file in (repo / ".git/filemem/recent").iterdir():
            os.utime(file, (time.time() - 70, time.time() - 70))
        assert saver.replay().repaired == ()
        drop(repo, PATH)
    head = git(repo, "rev-parse", "HEAD")
    assert saver.replay().repaired == ()
    assert git(repo, "rev-parse", "HEAD") == head


def test_two_savers_amend_one_record(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    other = make_saver(repo)
    for i in range(6):
        (saver, other)[i % 2].amend(PATH, message(f"tag {i}"), keys={"tags": [f"t{i}"]})
    assert "tags: [t5]" in (head_file(repo, f"memory/{PATH}") or "")
    assert git(repo, "rev-list", "--count", "HEAD") == "8"
    other.close()


def test_another_commit_between_reading_and_moving_head(repo: Path) -> None:
    done: list[str] = []

    def interfere(step: str) -> None:
        if step == "index" and not done:
            done.append(step)
            commit = git(repo, "commit-tree", "-p", "HEAD", "-m", "racer", "HEAD^{tree}")
            git(repo, "update-ref", "HEAD", commit)

    saver = make_saver(repo, steps=interfere)
    assert saver.put(PATH, TEXT, message("save")).commit == git(repo, "rev-parse", "HEAD")
    saver.close()
    assert git(repo, "log", "--format=%s") == "save\nracer\nBegin"
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()


def test_a_commit_that_takes_our_staged_record_along(repo: Path) -> None:
    def interfere(step: str) -> None:
        if step == "index" and git(repo, "rev-list", "--count", "HEAD") == "1":
            git(repo, "commit", "-q", "-m", "racer")

    saver = make_saver(repo, steps=interfere)
    saved = saver.put(PATH, TEXT, message("save"))
    assert saved.commit == git(repo, "rev-parse", "HEAD")
    assert git(repo, "log", "--format=%s") == "racer\nBegin"
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()
    assert saver.replay().repaired == ()
    saver.close()


def test_a_rebase_that_begins_during_a_save_is_respected(repo: Path) -> None:
    def interfere(step: str) -> None:
        if step == "index":
            (repo / ".git/rebase-merge").mkdir()

    saver = make_saver(repo, steps=interfere)
    head = git(repo, "rev-parse", "HEAD")
    saved = saver.put(PATH, TEXT, message())
    assert "rebase" in (saved.pending or "")
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "diff", "--cached", "--name-only") == ""
    (repo / ".git/rebase-merge").rmdir()
    saver._work.step = lambda _: None
    assert saver.replay().finished == (PATH,)
    saver.close()


def test_helpers_that_were_killed_are_started_again(repo: Path, saver: Saver) -> None:
    saver.put(PATH, TEXT, message())
    for helper in (saver._repo.objects._reader, saver._repo._refs._helper):
        assert helper is not None
        helper.process.kill()
        helper.process.wait()
    assert saver.put("decisions/y.md", TEXT, message()).commit
    assert git(repo, "status", "--porcelain") == ""


def random_walk(repo: Path, seed: int, rounds: int) -> None:
    """Saves, updates and removals between the user's own commands; then all is where it was said to be."""
    chance = random.Random(seed)
    saver = make_saver(repo)
    expected: dict[str, bytes | None] = {}
    for i in range(rounds):
        path = f"decisions/{chance.randrange(4)}.md"
        exists = expected.get(path) is not None
        action = chance.choice(["put", "amend", "remove", "stash", "branch", "stage", "gc", "batch"])
        if action in ("put", "batch") and not exists:
            data = f"---\ntype: decision\ntopic: t{i}\n---\n# {i}\n".encode()
            saver.put(path, data, message(str(i)), policy={"put": "commit"}.get(action, "batch"))
            expected[path] = data
        elif action == "amend" and exists:
            saver.amend(path, message(str(i)), keys={"tags": [f"t{i}"]})
            expected[path] = (repo / "memory" / path).read_bytes()
        elif action == "remove" and exists:
            saver.remove(path, message(str(i)))
            expected[path] = None
        elif action == "stash":
            write(repo / "code.py", f"{i}\n")
            git(repo, "stash", "-q")
            git(repo, "stash", "pop", "-q")
            git(repo, "checkout", "-q", "code.py")
        elif action == "branch":
            saver.flush()
            git(repo, "checkout", "-q", "-b", f"b{i}")
        elif action == "stage":
            write(repo / f"s{i}.txt", "s\n")
            git(repo, "add", f"s{i}.txt")
        elif action == "gc":
            git(repo, "gc", "-q", "--prune=now")
    saver.flush()
    saver.close()
    for path, wanted in expected.items():
        committed = head_file(repo, f"memory/{path}")
        assert (committed.encode() if committed else None) == wanted, (seed, path)
    assert {row[:2] for row in git(repo, "status", "--porcelain").splitlines()} <= {"A "}, seed
    assert sound(repo)


@pytest.mark.parametrize("seed", range(3))
def test_a_random_day(tmp_path: Path, seed: int) -> None:
    random_walk(make_repo(tmp_path / "repo"), seed, 25)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_random_week(tmp_path: Path, seed: int) -> None:
    random_walk(make_repo(tmp_path / "repo"), seed, 150)
