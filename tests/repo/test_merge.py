"""A merge without a work tree is the one that `git merge` makes; nothing that a repository names has a say in it."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from filemem.errors import Conflict
from filemem.repo import Repo
from filemem.repo.remote import Clash, commit_files, merge_commits
from tests.support import git, make_repo, write


def text(name: str, lines: int = 12) -> str:
    return "".join(
        f"{number} {name}: words that stand in {name} and nowhere else.\n"
        for number in range(lines)
    )


def commit(repo: Path, subject: str = "Change") -> str:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", subject)
    return git(repo, "rev-parse", "HEAD")


def merged(path: Path, ours: str, theirs: str, **options: bool) -> tuple[str, tuple[Clash, ...]]:
    with closing(Repo.discover(path)) as repo:
        return merge_commits(
            repo, git(path, "rev-parse", ours), git(path, "rev-parse", theirs), **options
        )


def really(repo: Path, into: str) -> tuple[str, frozenset[str]]:
    """The tree that `git merge` makes, and the files on which it stops: then no tree."""
    branch = git(repo, "rev-parse", "--abbrev-ref", "HEAD")
    git(repo, "switch", "-q", "--detach", into)
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge", branch, ok=False)
    stopped = git(repo, "ls-files", "-u", "-z").split("\0")[:-1]
    tree = "" if stopped else git(repo, "rev-parse", "HEAD^{tree}")
    git(repo, "reset", "-q", "--hard")
    git(repo, "clean", "-qfd")
    git(repo, "switch", "-q", branch)
    return tree, frozenset(row.partition("\t")[2] for row in stopped)


def wander(repo: Path, dice: random.Random, side: str) -> None:
    """Some random changes to the files of one side, folders and modes included."""
    for number in range(dice.randint(1, 5)):
        files = sorted(
            path for path in repo.rglob("*.md") if ".git" not in path.parts and path.is_file()
        )
        path = dice.choice(files)
        way = dice.choice(
            ("edit", "edit", "append", "add", "remove", "move", "folder", "mode", "into", "rewrite")
        )
        if way == "edit":
            rows = path.read_text().splitlines(keepends=True)
            rows[dice.randrange(len(rows))] = f"{side} {number}\n"
            path.write_text("".join(rows))
        elif way in ("append", "rewrite"):
            path.write_text(
                (path.read_text() if way == "append" else "") + text(f"{side}{number}", 3)
            )
        elif way == "add":
            write(
                path.parent / f"{dice.choice(('new', side))}{number}.md",
                text(f"{dice.choice('xy')}{number}"),
            )
        elif way == "remove" and len(files) > 4:
            path.unlink()
        elif way == "move":
            path.rename(path.parent / f"{side}-{path.name}")
        elif way == "folder" and path.parent != repo:
            there = repo / dice.choice(("p", "q/r", f"{side}s"))
            if not there.exists() and not there.is_relative_to(path.parent):
                there.parent.mkdir(exist_ok=True)
                path.parent.rename(there)
        elif way == "mode":
            path.chmod(0o755)
        elif (
            way == "into" and not (repo / "z.md").exists()
        ):  # a folder where the other side may have a file
            write(repo / ("z.md" if side == "main" else "z.md/z.md"), text("z"))


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_merge_that_git_makes(tmp_path: Path, seed: int) -> None:
    dice, repo = random.Random(seed), make_repo(tmp_path / "repo")
    for name in ("a/1", "a/2", "a/3", "b/4", "b/5", "b/c/6", "7"):
        write(repo / f"{name}.md", text(name))
    commit(repo)
    git(repo, "branch", "br")
    for side in ("main", "br"):
        git(repo, "switch", "-q", side)
        wander(repo, dice, side)
        commit(repo)
    (tree, clashes), (real, stopped) = merged(repo, "main", "br"), really(repo, "main")
    assert {clash.path for clash in clashes} == {path.partition("~")[0] for path in stopped}
    assert stopped or tree == real
    assert git(repo, "status", "--porcelain") == ""


def two(folder: Path, lines: tuple[str, str] = ("1 a", "9 a")) -> Path:
    """A repository with two sides that changed one file, `br` checked out."""
    repo = make_repo(folder)
    write(repo / "a.md", text("a"))
    commit(repo)
    git(repo, "branch", "br")
    for side, line in zip(("main", "br"), lines, strict=True):
        git(repo, "switch", "-q", side)
        write(repo / "a.md", text("a").replace(line, side))
        commit(repo, side)
    return repo


def test_what_clashes_is_settled_and_committed(tmp_path: Path) -> None:
    path = two(tmp_path / "repo", ("1 a", "1 a"))
    with closing(Repo.discover(path)) as repo:
        sides = [git(path, "rev-parse", side) for side in ("main", "br")]
        tree, clashes = merge_commits(repo, *sides)
        blobs = [git(path, "rev-parse", f"{one}:a.md") for one in ("main~1", "main", "br")]
        assert clashes == (Clash("a.md", *blobs),)
        files = {"a.md": b"both\n", "code.py": None, "new \u00e9/x.md": b"x"}
        made = commit_files(repo, tree, files, sides, "memory: merge\n", 1_700_000_000_000)
    assert git(path, "log", "-1", "--format=%an %ae %ct %P %s", made) == (
        f"Ada ada@example.com 1700000000 {sides[0]} {sides[1]} memory: merge"
    )
    assert git(path, "show", f"{made}:a.md") == "both"
    assert git(path, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", made).split(
        "\n"
    ) == [
        "a.md",
        "new \u00e9/x.md",
    ]
    assert git(path, "status", "--porcelain") == ""
    assert [
        each.name for each in (path / ".git/filemem").iterdir() if each.name.startswith("git-")
    ] == []


def test_no_driver_filter_or_attribute_has_a_say(tmp_path: Path) -> None:
    """Neither one that the repository names nor, since others merge without it, the user's own."""
    repo, canary = two(tmp_path / "repo"), tmp_path / "canary"
    program = write(tmp_path / "evil.sh", f"#!/bin/sh\necho $0 $* >> {canary}\ncat\n")
    program.chmod(0o755)
    attributes = write(repo / ".gitattributes", "* merge=evil filter=evil diff=evil\n")
    write(repo / ".git/info/attributes", "* merge=evil filter=evil\n")
    commands = {
        "merge.evil.driver": f"{program} %A",
        "filter.evil.clean": str(program),
        "filter.evil.smudge": str(program),
        "diff.evil.command": str(program),
        "merge.default": "evil",
        "merge.renormalize": "true",
        "core.attributesFile": str(attributes),
    }
    for key, value in commands.items():
        git(repo, "config", key, value)
        git(Path.home(), "config", "--global", key, value)
    try:
        tree, clashes = merged(repo, "main", "br")
    finally:
        (Path.home() / ".gitconfig").unlink()
    assert (len(tree), clashes, canary.exists()) == (40, (), False)


def test_two_that_have_nothing_in_common_are_merged_only_where_that_is_meant(
    tmp_path: Path,
) -> None:
    repo = two(tmp_path / "repo")
    git(repo, "switch", "-q", "--orphan", "other")
    write(repo / "b.md", "b\n")
    commit(repo, "Begin anew")
    with pytest.raises(Conflict, match="no history in common"):
        merged(repo, "main", "other")
    assert merged(repo, "main", "other", allow_unrelated=True)[1] == ()
