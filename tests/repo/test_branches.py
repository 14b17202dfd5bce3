"""The default branch, and when commits landed on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filemem.repo import Repo
from filemem.repo.branches import Branch, Landed, Row, defaults, landings
from filemem.repo.memo import Memo
from tests.support import git, make_repo


def day(number: int) -> dict[str, Any]:
    at = f"2025-01-{number:02d}T12:00:00Z"
    return {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


def commit(repo: Path, number: int) -> str:
    git(repo, "commit", "-q", "--allow-empty", "-m", f"day {number}", **day(number))
    return git(repo, "rev-parse", "HEAD")


def test_a_commit_lands_with_the_merge_that_brings_it() -> None:
    rows = [
        Row("merge2", 90, ("merge1", "late")),
        Row("merge1", 50, ("main1", "side2")),
        Row("late", 20, ("main1",)),
        Row("side2", 40, ("side1",)),
        Row("side1", 30, ("root",)),
        Row("main1", 10, ("root",)),
        Row("root", 15, ()),
    ]
    landed = {"root": 15, "main1": 15, "side1": 50, "side2": 50, "merge1": 50, "late": 90, "merge2": 90}
    assert landings(rows, "merge2", "", 0) == landed
    assert landings(rows[:1] + rows[2:3], "merge2", "merge1", 50) == {"late": 90, "merge2": 90}
    assert landings(rows[:1] + rows[2:3], "merge2", "side2", 50) is None, "the branch never was at side2"


def test_what_is_known_grows_with_the_branch_and_is_found_out_anew_when_it_is_rewritten(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    first = commit(repo, 1)
    git(repo, "switch", "-q", "-c", "side")
    side = commit(repo, 2)
    git(repo, "switch", "-q", "main")
    commit(repo, 3)
    runs: list[tuple[str, ...]] = []
    known = Repo.discover(repo)
    told = known.history.git

    class Counted:
        places = told.places

        def run(self, *arguments: str, **options: Any) -> bytes:
            runs.append(arguments)
            return told.run(*arguments, **options)

    def opened() -> Landed:
        return Landed(Counted(), lambda: known.objects, Memo(tmp_path / "landed"))  # type: ignore[arg-type]

    tip = git(repo, "rev-parse", "HEAD")
    assert opened().at(first, tip) is None, "nobody looked yet"
    assert runs == []
    landed = opened()
    landed.look(tip)
    assert (landed.at(first, tip), landed.at(side, tip)) == (1_735_732_800_000, None)
    assert len(runs) == 1
    assert opened().at(first, tip) == 1_735_732_800_000
    assert len(runs) == 1, "the file tells"
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "side", **day(9))
    tip = git(repo, "rev-parse", "HEAD")
    for each in (landed, opened()):
        assert each.at(side, tip) == 1_736_424_000_000
    assert len(runs) == 2
    assert f"^{runs[0][2]}" in runs[1]
    late = commit(repo, 11)
    assert landed.at(late, late) == 1_736_596_800_000
    assert opened().at(side, late) == 1_736_424_000_000
    assert len(runs) == 2, "one more commit is read"
    tip = late
    (tmp_path / "landed").write_bytes((tmp_path / "landed").read_bytes()[:-20])
    landed = opened()
    landed.look(tip)
    assert landed.at(side, tip) == 1_736_424_000_000, "a torn file is made anew"
    git(repo, "reset", "-q", "--hard", "HEAD~2")
    git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", "again", **day(10))
    tip = git(repo, "rev-parse", "HEAD")
    landed = opened()
    assert (landed.at(first, tip), landed.at(side, tip)) == (1_735_732_800_000, None)
    known.close()


def test_who_remembers_sees_what_others_add_and_what_they_write_anew(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    known = Repo.discover(repo)

    def opened() -> Landed:
        return known.landed(Memo(tmp_path / "landed"))

    commits = [commit(repo, 1)]
    opened().look(commits[0])
    one, other = opened(), opened()
    for number, each in enumerate((one, one, other, one), 2):
        commits.append(commit(repo, number))
        assert each.current(commits[-1])
    assert [opened().at(each, commits[-1]) is None for each in commits] == [False] * 5
    git(repo, "reset", "-q", "--hard", commits[1])
    again = commit(repo, 7)
    other.look(again)
    git(repo, "reset", "-q", "--hard", commits[-1])
    late = commit(repo, 8)
    assert one.current(late)
    for each in (one, opened()):
        there = [each.at(made, late) is not None for made in (*commits, again)]
        assert there == [True] * 5 + [False]
    known.close()


@pytest.mark.parametrize("packed", [False, True])
def test_the_default_branch(tmp_path: Path, packed: bool) -> None:
    origin = make_repo(tmp_path / "origin")
    git(origin, "branch", "-m", "develop")
    assert defaults(origin / ".git", Branch("other", "")) == ()
    tip = git(origin, "rev-parse", "HEAD")
    assert defaults(origin / ".git", Branch("", tip)) == (Branch("develop", tip),), "the only one here"
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    git(clone, "switch", "-q", "-c", "feature")
    here = Branch("feature", tip)
    if packed:
        git(clone, "pack-refs", "--all")
    assert [(one.name, one.tip) for one in defaults(clone / ".git", here)] == [("develop", tip)]
    git(clone, "remote", "set-head", "origin", "--delete")
    assert [(one.name, one.tip) for one in defaults(clone / ".git", here)] == [("develop", tip)], "all that origin has"
    git(clone, "update-ref", "refs/remotes/origin/a/second", tip)
    assert defaults(clone / ".git", here) == ()
    assert defaults(clone / ".git", Branch("", tip)) == ()
    git(clone, "remote", "remove", "origin")
    assert defaults(clone / ".git", here) == ()
    git(clone, "branch", "-m", "develop", "master")
    assert [(one.name, one.tip) for one in defaults(clone / ".git", here)] == [("master", tip)]
    assert defaults(clone / ".git", Branch("master", tip)) == (Branch("master", tip),)


@pytest.mark.parametrize(
    "damage", [b"~ " + b"9" * 6000 + b" deadbeef\nx", b"~ 3 00000000\nabc", b"abc", b"~ 9 352441c2\nabc"]
)
def test_a_memo_that_is_not_as_it_was_written_is_none(tmp_path: Path, damage: bytes) -> None:
    memo = Memo(tmp_path / "memo")
    memo.write(b"abc")
    memo.append(b"def")
    assert memo.read() == b"abcdef"
    memo.file.write_bytes(damage)
    assert memo.read() == b""
