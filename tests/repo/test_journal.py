"""What the journal holds is finished, what a command took within a minute is put back, and a bad byte stops nothing."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from filemem.errors import Locked
from filemem.repo import Repo
from tests.repo.saver import Saver
from tests.support import environment, git, head_file, make_repo, sound, write

NAME, PATH = "decisions/a/x.md", "memory/decisions/a/x.md"


def busy(repo: Path) -> Path:
    return write(repo / ".git/MERGE_HEAD", git(repo, "rev-parse", "HEAD") + "\n")


def test_entries_are_for_the_user_only_and_show_what_waits(repo: Path, saver: Saver) -> None:
    marker = busy(repo)
    saver.put(NAME, b"# x\r\n\xff\0")
    (entry,) = (repo / ".git/filemem/journal").iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    (waits,) = saver.pending()
    assert waits == (PATH, "a merge is in progress", 1_763_650_000_123)
    marker.unlink()
    saver.finish()
    assert git(repo, "log", "-1", "--format=%s %at") == "decision(topic): Use it 1763650000"
    assert (repo / PATH).read_bytes() == b"# x\r\n\xff\0"


def test_what_waits_for_a_moment_goes_where_head_is_then(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filemem.repo.commit._PATIENCE", 0.1)
    git(repo, "switch", "-q", "-c", "passed-through")
    lock = write(repo / ".git/index.lock", "")
    assert "index.lock" in saver.put(NAME, b"# x\n").pending
    lock.unlink()
    git(repo, "switch", "-q", "main")
    assert [made.commit for made in saver.finish()] == [git(repo, "rev-parse", "main")]


def test_what_waits_for_a_branch_goes_where_that_is_merged(repo: Path, saver: Saver) -> None:
    git(repo, "switch", "-q", "-c", "side")
    git(repo, "commit", "-q", "--allow-empty", "-m", "side")
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    marker.unlink()
    git(repo, "switch", "-q", "main")
    assert saver.finish() == ()
    assert saver.pending()[0].reason == "it is for the branch side"
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "side")
    assert [made.branch for made in saver.finish()] == ["main"]
    assert head_file(repo, PATH) == "# x\n"


def test_a_bad_byte_anywhere_is_reported_and_stops_nothing(repo: Path, saver: Saver) -> None:
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    (entry,) = (repo / ".git/filemem/journal").iterdir()
    whole = entry.read_bytes()
    marker.unlink()
    for place in range(0, len(whole), 7):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 0x21]) + whole[place + 1 :])
        assert saver.finish() == ()
        assert entry.name in saver.repo.trouble
    for cut in (0, 1, 70, len(whole) - 1):
        entry.write_bytes(whole[:cut])
        made = saver.put(f"cut/{cut}.md", b"# c\n")
        assert made.commit
        assert entry.name in made.trouble
    assert saver.pending() == ()
    entry.write_bytes(whole)
    assert saver.finish()[0].commit
    assert saver.repo.trouble == ""
    for done in (repo / ".git/filemem/recent").iterdir():
        done.write_bytes(b"\xff" + done.read_bytes()[1:])
    later = Saver(repo)
    later.put("other.md", b"# o\n")
    assert "is damaged and was passed over" in later.repo.trouble
    later.close()
    write(repo / ".git/filemem/journal/README", "not ours\n")
    saver.finish()


def test_an_entry_that_only_another_user_may_read_is_theirs_and_not_damaged(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    marker.unlink()

    def refused(file: Path) -> NoReturn:
        raise PermissionError(file)

    monkeypatch.setattr("filemem.repo.journal._read_entry", refused)
    assert saver.finish() == ()
    assert "is not readable by you: another user's save waits" in saver.repo.trouble


def test_what_a_failing_command_took_from_index_and_file_is_put_back(
    repo: Path, saver: Saver
) -> None:
    before = (repo / ".git/index").read_bytes()
    saver.put(NAME, b"# x\n")
    (repo / ".git/index").write_bytes(before)
    (repo / PATH).unlink()
    saver.finish()
    assert git(repo, "status", "--porcelain") == ""
    old = (repo / ".git/index").read_bytes()
    saver.change(NAME, b"# x2\n")
    write(repo / PATH, "# x\n")
    (repo / ".git/index").write_bytes(old)
    saver.finish()
    assert (git(repo, "status", "--porcelain"), (repo / PATH).read_text()) == ("", "# x2\n")
    saver.change(NAME, None)
    git(repo, "reset", "-q", "HEAD~1", "--", PATH)
    git(repo, "checkout", "-q", "--", PATH)
    saver.finish()
    assert (git(repo, "status", "--porcelain"), (repo / PATH).exists()) == ("", False)
    assert saver.repo.trouble == ""


def test_what_the_user_does_to_a_record_stays(repo: Path, saver: Saver) -> None:
    saver.put(NAME, b"# x\n")
    (repo / PATH).unlink()
    saver.finish()
    assert git(repo, "status", "--porcelain") == f" D {PATH}"
    write(repo / PATH, "# mine\n")
    git(repo, "add", PATH)
    saver.finish()
    assert git(repo, "status", "--porcelain") == f"M  {PATH}"


def test_a_record_that_a_commit_dropped_is_named_with_what_brings_it_back(
    repo: Path, saver: Saver
) -> None:
    commit = saver.put(NAME, b"# x\n").commit
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    git(repo, "commit", "-q", "--allow-empty", "-m", "mine")
    count = git(repo, "rev-list", "--count", "HEAD")
    saver.finish()
    command = f"git checkout {commit[:12]} -- {PATH}"
    assert command in saver.repo.trouble
    assert git(repo, "rev-list", "--count", "HEAD") == count, "nothing is committed twice"
    assert command in saver.put("other.md", b"# o\n").trouble
    git(repo, *command.split()[1:])
    assert (repo / PATH).read_text() == "# x\n"
    recent = repo / ".git/filemem/recent"
    for file in recent.iterdir():
        write(file, file.read_bytes())
        subprocess.run(["touch", "-d", "2 minutes ago", str(file)], check=True)
    saver.finish()
    assert (saver.repo.trouble, list(recent.iterdir())) == ("", [])


def test_an_interrupted_save_is_finished_however_old(repo: Path, saver: Saver) -> None:
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    (entry,) = (repo / ".git/filemem/journal").iterdir()
    subprocess.run(["touch", "-d", "1 year ago", str(entry)], check=True)
    git(repo, "clean", "-q", "-fd")
    marker.unlink()
    assert saver.finish()[0].commit == git(repo, "rev-parse", "HEAD")
    assert (repo / PATH).read_text() == "# x\n"


def test_what_the_user_commits_meanwhile_is_not_committed_again(repo: Path, saver: Saver) -> None:
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    marker.unlink()
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "mine")
    saver.finish()
    assert (git(repo, "log", "-1", "--format=%s"), saver.pending()) == ("mine", ())


def test_an_edit_of_a_record_that_waits_stays_an_edit(repo: Path, saver: Saver) -> None:
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    write(repo / PATH, "# x\nmine\n")
    marker.unlink()
    saver.finish()
    assert (head_file(repo, PATH), git(repo, "status", "--porcelain")) == ("# x\n", f" M {PATH}")


def test_a_work_tree_looks_after_its_own_saves(repo: Path, saver: Saver, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    marker = busy(repo)
    saver.put(NAME, b"# x\n")
    beside = Saver(tmp_path / "side")
    assert beside.put(NAME, b"# side\n").branch == "side"
    assert (beside.finish(), beside.pending()) == ((), ())
    marker.unlink()
    assert [made.branch for made in saver.finish()] == ["main"]
    assert (head_file(repo, PATH), head_file(tmp_path / "side", PATH)) == ("# x\n", "# side\n")
    beside.close()


@pytest.mark.parametrize(("savers", "saves"), [(4, 6), pytest.param(8, 50, marks=pytest.mark.long)])
def test_many_processes_lose_nothing(tmp_path: Path, savers: int, saves: int) -> None:
    path = make_repo(tmp_path / "repo")
    command = [sys.executable, "-m", "tests.repo.saver", str(path), str(saves), "0"]
    running = [
        subprocess.Popen(
            [*command, str(n * 1000)], stdout=subprocess.PIPE, text=True, env=environment()
        )
        for n in range(savers)
    ]
    acknowledged = {
        line.split()[1] for each in running for line in each.communicate()[0].splitlines()
    }
    assert len(acknowledged) == savers * saves
    assert (
        set(git(path, "ls-tree", "-r", "--name-only", "HEAD", "memory").splitlines())
        == acknowledged
    )
    assert git(path, "rev-list", "--count", "HEAD") == str(savers * saves + 1)
    assert git(path, "status", "--porcelain") == ""
    assert sound(path)


def test_who_waits_for_the_lock_gets_it_before_who_comes_back(repo: Path) -> None:
    one, two = Repo.discover(repo), Repo.discover(repo)
    with (
        one.save_lock(),
        one.save_lock(),
        pytest.raises(Locked, match=r"another save"),
        two.save_lock(0.05),
    ):
        pass
    turns: list[int] = []

    def take(number: int, owner: Repo) -> None:
        for _ in range(5):
            with owner.save_lock():
                turns.append(number)
                time.sleep(0.02)

    threads = [threading.Thread(target=take, args=each) for each in enumerate((one, two))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(a != b for a, b in pairwise(turns)) >= 7, turns
    one.close()
    two.close()
