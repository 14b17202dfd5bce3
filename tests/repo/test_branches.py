"""Which branch is the default one, what a branch was at a time, and where two parted: as Git itself has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from filemem.repo import Branch, Repo
from tests.support import git, make_repo, write


@contextmanager
def opened(path: Path) -> Iterator[Repo]:
    with closing(Repo.discover(path)) as repo:
        yield repo


def name(path: Path) -> str:
    with opened(path) as repo:
        found = repo.find_default_branch()
        return found.name if found else ""


@pytest.mark.parametrize("packed", [False, True])
def test_the_default_branch(tmp_path: Path, packed: bool) -> None:
    origin = make_repo(tmp_path / "origin")
    git(origin, "branch", "-m", "develop")
    assert name(origin) == "develop", "the only one here"
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    git(clone, "switch", "-q", "-c", "feature")
    git(clone, "branch", "-q", "main")
    if packed:
        git(clone, "pack-refs", "--all")
    assert name(clone) == "develop", "the other side says so"
    git(clone, "remote", "set-head", "origin", "--delete")
    assert name(clone) == "main", "the usual name"
    git(clone, "branch", "-D", "main", "develop")
    assert name(clone) == "feature", "the only one here"
    git(clone, "branch", "-q", "another")
    assert name(clone) == ""


def test_the_default_branch_here_stands_before_the_one_on_the_other_side(tmp_path: Path) -> None:
    origin = make_repo(tmp_path / "origin")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone, there = tmp_path / "clone", git(origin, "rev-parse", "HEAD")
    git(clone, "commit", "-q", "--allow-empty", "-m", "Here")
    here = git(clone, "rev-parse", "HEAD")
    with opened(clone) as repo:
        assert repo.find_default_branch() == Branch("main", here)
        assert repo.count_commits(here, there) == 1
        assert repo.find_merge_base(here, there) == there


def test_what_a_branch_was_at_a_time(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo", commit=False)
    made = []
    for number in range(3):
        write(path / "a", f"{number}\n")
        git(path, "add", ".")
        day = f"{1_700_000_000 + number * 100} +0000"
        git(path, "commit", "-q", "-m", "x", GIT_COMMITTER_DATE=day, GIT_AUTHOR_DATE=day)
        made.append(git(path, "rev-parse", "HEAD"))
    with opened(path) as repo:
        for when, there in (
            (1_699_999_999, ""),
            (1_700_000_000, made[0]),
            (1_700_000_150, made[1]),
            (2e9, made[2]),
        ):
            assert repo.find_commit_at(made[2], int(when) * 1000) == there


def test_two_without_a_common_past_did_not_part(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    one = git(path, "rev-parse", "HEAD")
    git(path, "switch", "-q", "--orphan", "other")
    git(path, "commit", "-q", "--allow-empty", "-m", "x")
    with opened(path) as repo:
        assert repo.find_merge_base(one, git(path, "rev-parse", "HEAD")) == ""
