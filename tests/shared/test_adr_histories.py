"""Two real repositories of decision records, cloned with all their history: what filemem says is what Git says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.record import format_time
from tests.support import git

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "adr-dev"
STORES = {"semantic-kernel": "docs/decisions", "filecoin-fips": "FIPS"}

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the shared decision record corpora are not here"
)


@pytest.fixture(scope="module", params=STORES)
def cloned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Memory]]:
    """A clone of a bundle, and its memory: a folder of records of another maker."""
    folder = tmp_path_factory.mktemp("histories") / request.param
    git(
        folder.parent,
        "clone",
        "-q",
        "-b",
        "main",
        str(DATA / request.param / "history.bundle"),
        str(folder),
    )
    with Memory.open(folder, store=STORES[request.param]) as memory:
        yield request.param, folder, memory


def listed(folder: Path, name: str, rev: str) -> set[str]:
    return set(
        git(folder, "ls-tree", "-r", "--name-only", rev, "--", STORES[name] + "/").splitlines()
    )


def markdown(paths: set[str]) -> set[str]:
    return {
        path
        for path in paths
        if path.endswith(".md") and not path.endswith(("README.md", "template.md"))
    }


def test_births_and_edits_are_those_of_git(cloned: tuple[str, Path, Memory]) -> None:
    """For every file: the commits of its history are those that `git log --follow` lists, and merges that decided."""
    name, folder, memory = cloned
    merges = set(git(folder, "log", "--merges", "--format=%H").splitlines())
    for path in sorted(markdown(listed(folder, name, "HEAD")))[:6]:
        (hit,) = memory.get(path)
        (edits,) = memory.revisions(path).values()
        told = [hit.provenance.commit, *(edit.commit for edit in edits)]
        log = git(folder, "log", "--follow", "-M", "--format=%H", "--", path).splitlines()
        assert set(told) - merges <= set(log), path
        assert told[-1] == log[0], path
        assert all(edit.changes for edit in edits), path
        who = git(folder, "log", "-1", "--format=%an", told[0])
        assert hit.provenance.author == who, path


def test_a_move_of_the_folder_changes_neither_who_nor_when(
    cloned: tuple[str, Path, Memory], tmp_path: Path
) -> None:
    name, folder, memory = cloned
    copy = tmp_path / name
    git(tmp_path, "clone", "-q", str(folder), str(copy))
    (copy / "records").mkdir()
    git(copy, "mv", STORES[name], "records/moved")
    git(copy, "commit", "-q", "-m", "Move the folder", GIT_AUTHOR_NAME="Mover")
    paths = sorted(markdown(listed(folder, name, "HEAD")))
    before = memory.get(*paths)
    with Memory.open(copy, store="records/moved") as moved:
        after = moved.get(*(path.replace(STORES[name], "records/moved", 1) for path in paths))
    for old, new in zip(before, after, strict=True):
        assert new.provenance._replace(edits=()) == old.provenance._replace(edits=()), old.path
        assert new.created == old.created, old.path


def test_the_memory_as_of_every_year_is_the_tree_of_then(cloned: tuple[str, Path, Memory]) -> None:
    name, folder, memory = cloned
    first, last = (
        git(folder, "log", "-1", "--format=%cs"),
        git(folder, "log", "--reverse", "--format=%cs").split()[0],
    )
    for year in range(int(last[:4]) + 1, int(first[:4]) + 1):
        past = memory.at(f"{year}-01-01")
        commit = git(
            folder, "rev-list", "-1", "--first-parent", f"--before={year}-01-01T23:59:59Z", "main"
        )
        assert past.moment.id == commit, "no clock of these runs backwards"
        found = past.search(limit=1000).hits
        assert {hit.path for hit in found} == markdown(listed(folder, name, commit))
        assert all(
            hit.provenance.date is not None and hit.provenance.date <= past.moment.committed_at
            for hit in found
        )
        assert not any(
            format_time(edit.at)[:4] >= str(year + 1)
            for hit in found
            for edit in hit.provenance.edits
        )


def test_a_record_of_then_is_read_as_its_checkout_is(
    cloned: tuple[str, Path, Memory], tmp_path: Path
) -> None:
    """As of a commit every file, its title and its place in the chain are those of that checkout."""
    name, folder, memory = cloned
    commits = git(folder, "rev-list", "--first-parent", "HEAD").splitlines()
    commit = commits[len(commits) // 3]
    then = {
        hit.path: (hit.id, hit.title, hit.superseded_by)
        for hit in memory.at(commit).search(limit=1000)
    }
    copy = tmp_path / name
    git(tmp_path, "clone", "-q", str(folder), str(copy))
    git(copy, "checkout", "-q", commit)
    with Memory.open(copy, store=STORES[name]) as checkout:
        assert then == {
            hit.path: (hit.id, hit.title, hit.superseded_by) for hit in checkout.search(limit=1000)
        }


def test_every_stated_chain_is_shown(cloned: tuple[str, Path, Memory]) -> None:
    """What the authors state of supersession, on either side, is what a hit says of it."""
    name, _, memory = cloned
    truth = json.loads((DATA / name / "truth.json").read_text(encoding="utf-8"))
    file_of = {row["id"]: row["file"] for row in truth["records"]}
    found = {hit.path: hit for hit in memory.search(limit=1000)}
    for edge in truth["edges"]:
        old, new = found.get(file_of[edge["old"]]), found.get(file_of[edge["new"]])
        if old and new and new.record.status in ("accepted", "deprecated"):
            assert new.id in old.superseded_by, edge
