"""A merge that nobody sees, against the one that `git merge` makes of the same two commits."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from filemem.errors import BrokenStore, Conflict
from filemem.repo import Repo
from filemem.repo.git import locate
from tests.support import git, make_repo, write


def text(name: str, lines: int = 12) -> str:
    return "".join(f"{number} {name}: words that stand in {name} and nowhere else.\n" for number in range(lines))


def commit(repo: Path, subject: str = "Change") -> None:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", subject)


def merged(repo: Path, into: str, changes: dict[str, bytes | None] | None = None) -> tuple[str, frozenset[str]]:
    """The tree of the merge, and the files that Git cannot merge."""
    found = Repo.discover(repo)
    try:
        with found.merging(git(repo, "rev-parse", into), changes or {}) as (there, clashes):
            return there.revisions.tree("HEAD", "."), frozenset(path for clash in clashes for path in clash.paths)
    finally:
        found.close()


def really(repo: Path, into: str) -> tuple[str, frozenset[str]]:
    """The same as `git merge` has it: where it stops, no tree."""
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
        files = sorted(path for path in repo.rglob("*.md") if ".git" not in path.parts and path.is_file())
        path = dice.choice(files)
        way = dice.choice(("edit", "edit", "append", "add", "remove", "move", "folder", "mode", "into", "rewrite"))
        if way == "edit":
            rows = path.read_text().splitlines(keepends=True)
            rows[dice.randrange(len(rows))] = f"{side} {number}\n"
            path.write_text("".join(rows))
        elif way in ("append", "rewrite"):
            path.write_text((path.read_text() if way == "append" else "") + text(f"{side}{number}", 3))
        elif way == "add":
            write(path.parent / f"{dice.choice(('new', side))}{number}.md", text(f"{dice.choice('xy')}{number}"))
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
        elif way == "into" and not (repo / "z.md").exists():  # a folder where the other side may have a file
            write(repo / ("z.md" if side == "main" else "z.md/z.md"), text("z"))


def compare(folder: Path, seed: int) -> str:
    """Let two sides wander, and merge them both ways; says what came of it."""
    dice = random.Random(seed)
    repo = make_repo(folder)
    for name in ("a/1", "a/2", "a/3", "b/4", "b/5", "b/c/6", "7"):
        write(repo / f"{name}.md", text(name))
    commit(repo)
    git(repo, "branch", "br")
    for _ in range(dice.choice((0, 0, 1, 2))):
        for side in ("main", "br"):
            git(repo, "switch", "-q", side)
            wander(repo, dice, side)
            commit(repo)
        tips = {side: git(repo, "rev-parse", side) for side in ("main", "br")}
        for side, other in (("main", "br"), ("br", "main")):  # each into the other, as they were: several ancestors
            git(repo, "switch", "-q", side)
            git(repo, "merge", "-q", "-m", "Merge", tips[other], ok=False)
            if git(repo, "ls-files", "-u"):
                git(repo, "merge", "--abort")
    for side in ("main", "br"):
        git(repo, "switch", "-q", side)
        wander(repo, dice, side)
        commit(repo)
    several = len(git(repo, "merge-base", "--all", "main", "br").split()) > 1
    (tree, clashes), (real, stopped) = merged(repo, "main"), really(repo, "main")
    assert bool(clashes) == bool(stopped), seed
    assert {path.partition("~")[0] for path in stopped} <= {path.partition("~")[0] for path in clashes}, seed
    assert stopped or tree == real, seed
    assert git(repo, "status", "--porcelain") == ""
    return "conflict" if stopped else "several ancestors" if several else "clean"


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_merge_that_git_makes(tmp_path: Path, seed: int) -> None:
    assert compare(tmp_path / "repo", seed)


@pytest.mark.long
def test_many_are_the_merges_that_git_makes(tmp_path: Path) -> None:
    kinds = Counter(compare(tmp_path / str(seed), seed) for seed in range(100, 160))
    assert all(kinds[kind] > 5 for kind in ("conflict", "several ancestors", "clean")), kinds


def two(folder: Path, form: str = "sha1") -> Path:
    """A repository with two sides that changed one file apart, `br` checked out."""
    repo = make_repo(folder, object_format=form)
    write(repo / "a.md", text("a"))
    commit(repo)
    git(repo, "branch", "br")
    for side, line in (("main", "1 a"), ("br", "9 a")):
        git(repo, "switch", "-q", side)
        write(repo / "a.md", text("a").replace(line, side))
        commit(repo, side)
    return repo


@pytest.mark.parametrize("name", ["plain", 'a "b": c\\d', "two\nlines", "caf\u00e9"])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_it_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    repo = two(tmp_path / name, form)
    changes: dict[str, bytes | None] = {name: b"1\n", f"f {name}/\u200b\t.md": b"", "code.py": None}
    before = sorted(path for path in (repo / ".git").rglob("*") if "filemem" not in path.parts)
    tree, clashes = merged(repo, "main", changes)
    assert sorted(path for path in (repo / ".git").rglob("*") if "filemem" not in path.parts) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]
    for path, data in changes.items():
        (repo / path).unlink() if data is None else write(repo / path, data)
    commit(repo)
    assert (tree, clashes) == really(repo, "main"), "what is not committed counts as if it were"


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
        "diff.evil.command": str(program),
    }
    for key, value in {**commands, "filter.evil.smudge": str(program), "diff.evil.textconv": str(program)}.items():
        git(repo, "config", key, value)
        git(Path.home(), "config", "--global", key, value)
    settings = {"merge.default": "evil", "merge.renormalize": "true", "core.attributesFile": str(attributes)}
    for key, value in settings.items():
        git(repo, "config", key, value)
        git(Path.home(), "config", "--global", key, value)
    try:
        tree, clashes = merged(repo, "main", {"b.md": b"b\r\n"})
    finally:
        (Path.home() / ".gitconfig").unlink()
    assert (len(tree), clashes, canary.exists()) == (40, frozenset(), False)


def test_two_that_have_nothing_in_common_are_not_merged(tmp_path: Path) -> None:
    repo = two(tmp_path / "repo")
    git(repo, "switch", "-q", "--orphan", "other")
    commit(repo, "Begin anew")
    with pytest.raises(Conflict, match="no history in common"):
        merged(repo, "main")


def test_a_git_that_cannot_do_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = two(tmp_path / "repo")
    real = locate(os.environ, repo)
    words = 'case "$*" in *merge-tree*) echo "usage: git merge-tree <base>" >&2; exit 129;; esac'
    write(tmp_path / "bin/git", f'#!/bin/sh\n{words}\nexec {real} "$@"\n').chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BrokenStore, match=r"Git 2\.39 or newer"):
        merged(repo, "main")
