"""Two real repositories of decision records, cloned with all their history: what filemem says of it must be true."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.memory.values import Comparison
from filemem.record import format_time
from tests.support import git

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "adr-dev"
STORES = {"semantic-kernel": "docs/decisions", "filecoin-fips": "FIPS"}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared decision record corpora are not here")


@pytest.fixture(scope="module", params=STORES)
def cloned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Memory]]:
    """A clone of a bundle, and its memory: a folder of records of another maker."""
    folder = tmp_path_factory.mktemp("histories") / request.param
    git(folder.parent, "clone", "-q", "-b", "main", str(DATA / request.param / "history.bundle"), str(folder))
    with Memory.open(folder, store=STORES[request.param]) as memory:
        yield request.param, folder, memory


def listed(folder: Path, name: str, rev: str) -> set[str]:
    return set(git(folder, "ls-tree", "-r", "--name-only", rev, "--", STORES[name] + "/").splitlines())


def markdown(paths: set[str]) -> set[str]:
    return {path for path in paths if path.endswith(".md") and not path.endswith("README.md")}


def test_births_and_edits_are_those_of_git(cloned: tuple[str, Path, Memory]) -> None:
    """For every file: the commits of its history are those that `git log --follow` lists, and merges that decided."""
    name, folder, memory = cloned
    paths = sorted(markdown(listed(folder, name, "HEAD")))[:25]
    for path in paths:
        (hit,) = memory.get(path)
        (edits,) = memory.revisions(path).values()
        told = [hit.provenance.commit, *(edit.commit for edit in edits)]
        log = git(folder, "log", "--follow", "-M", "--format=%H", "--", path).splitlines()
        merges = set(git(folder, "log", "--merges", "--format=%H").splitlines())
        assert set(told) - merges <= set(log), path
        assert told[-1] == log[0], path
        assert all(edit.changes for edit in edits), path
        who = git(folder, "log", "-1", "--format=%an", told[0])
        assert hit.provenance.author == who, path


def test_renames_are_told(cloned: tuple[str, Path, Memory]) -> None:
    name, folder, memory = cloned
    raw = git(folder, "log", "--diff-filter=R", "-M", "--format=%H", "--name-status", "--", STORES[name])
    moves = [row.split("\t")[1:] for row in raw.splitlines() if row.startswith("R")]
    now = markdown(listed(folder, name, "HEAD"))
    last = [(old, new) for old, new in moves if new in now]
    assert len(last) >= 5
    missed = []
    for old, new in last:
        (edits,) = memory.revisions(new).values()
        phrase = f"renamed from {old.removeprefix(STORES[name] + '/')}"
        if not any(phrase in edit.changes for edit in edits):
            missed.append((old, new))
    assert len(missed) <= len(last) // 5, missed  # one that a later file of the same path took over


def test_statuses_that_changed_are_told(cloned: tuple[str, Path, Memory]) -> None:
    _, _, memory = cloned
    truth = json.loads((DATA / cloned[0] / "truth.json").read_text(encoding="utf-8"))
    phrases = [
        phrase
        for row in truth["records"][:40]
        for edit in next(iter(memory.revisions(f"{STORES[cloned[0]]}/{row['file'].rpartition('/')[2]}").values()))
        for phrase in edit.changes
    ]
    assert any(phrase.startswith("status ") and " -> " in phrase for phrase in phrases)
    assert any(phrase.startswith("reasoning reworded (") for phrase in phrases)


def test_the_memory_as_of_every_year_is_the_tree_of_then(cloned: tuple[str, Path, Memory]) -> None:
    name, folder, memory = cloned
    first, last = git(folder, "log", "-1", "--format=%cs"), git(folder, "log", "--reverse", "--format=%cs").split()[0]
    for year in range(int(last[:4]) + 1, int(first[:4]) + 1):
        past = memory.at(f"{year}-01-01")
        commit = git(folder, "rev-list", "-1", "--first-parent", f"--before={year}-01-01T23:59:59Z", "main")
        assert past.moment.commit == commit, "no clock of these runs backwards"
        found = past.search(limit=1000).hits
        assert {hit.path for hit in found} == markdown(listed(folder, name, commit))
        assert all(hit.provenance.date is not None and hit.provenance.date <= past.moment.at for hit in found)
        assert not any(format_time(edit.at)[:4] >= str(year + 1) for hit in found for edit in hit.provenance.edits)


def test_what_a_year_did_is_what_git_says_it_did(cloned: tuple[str, Path, Memory]) -> None:
    name, folder, memory = cloned
    middle = git(folder, "log", "--format=%H").splitlines()
    base = middle[len(middle) // 2]
    told = memory.diff(f"{base}..main")
    raw = git(folder, "diff", "--raw", "-M", "--no-abbrev", base, "main", "--", STORES[name]).splitlines()
    rows = [row.split("\t") for row in raw]
    new = {row[1] for row in rows if row[0].split()[4] == "A"} & markdown({row[1] for row in rows})
    changed = {row[-1] for row in rows if row[0].split()[4][0] in "MR"}
    assert _paths(told, "new") == new
    assert _paths(told, "revised") <= changed
    for effect in (one for one in told.effects if one.kind == "superseded"):
        (hit,) = memory.get(effect.path)
        assert set(hit.superseded_by) == {other.id for other in effect.others}


def _paths(told: Comparison, kind: str) -> set[str]:
    return {effect.path for effect in told.effects if effect.kind == kind}


def test_on_the_command_line(cloned: tuple[str, Path, Memory]) -> None:
    name, folder, _ = cloned
    from tests.system.tools import FILEMEM

    for command in (("history", "1"), ("search", "--at", "HEAD~20"), ("diff", "HEAD~20...HEAD")):
        done = subprocess.run(
            [FILEMEM, "-C", str(folder), "--store", STORES[name], *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or "records answer to" in done.stderr, done.stderr


def test_every_record_has_one_first_commit_at_every_door(cloned: tuple[str, Path, Memory]) -> None:
    """What `get` names, `history` names too, and the index of a commit, also where files were away for a time."""
    name, folder, memory = cloned
    paths = sorted(markdown(listed(folder, name, "HEAD")))
    births = {path: hit.provenance for path in paths for hit in memory.get(path)}
    then = memory.at("HEAD~20")
    for path in [path for path in paths if path in listed(folder, name, "HEAD~20")][::10]:
        (hit,) = then.get(path)
        assert (hit.provenance.commit, hit.provenance.author) == (births[path].commit, births[path].author), path
    for path in paths[::10]:
        (step, *_) = [step for step in memory.history(path).chain if step.path == path]
        assert (step.commit, step.author) == (births[path].commit, births[path].author), path


@pytest.mark.parametrize(
    ("number", "first", "author"),
    [
        ("0001", "4c60f7e", None),  # all were removed and put back, twice
        ("0009", "8a4e6a1e", "dev-2f522a45"),  # and this one was renamed before
        ("0018", "4265b659", "dev-1b048b16"),  # added on two branches; the older commit (2074c438) landed later
        ("0028", "d61986b0", "dev-afd10f86"),  # two that took each other's number on two branches
        ("0029", "239be91b", "dev-02b862da"),
    ],
)
def test_first_commits_that_are_hard_to_tell(
    cloned: tuple[str, Path, Memory], number: str, first: str, author: str | None
) -> None:
    name, _, memory = cloned
    if name != "filecoin-fips":
        pytest.skip("it is about records of another repository")
    (hit,) = memory.get(f"FIPS/fip-{number}.md")
    assert hit.provenance.commit is not None
    assert hit.provenance.commit.startswith(first)
    assert author in (None, hit.provenance.author)


def test_every_record_has_an_id_of_its_own(cloned: tuple[str, Path, Memory]) -> None:
    """Also where files were renumbered and their old numbers used again."""
    name, folder, memory = cloned
    for rev in ("", "HEAD~100", "66bb89c" if name == "filecoin-fips" else "HEAD~50"):
        found = (memory.at(rev) if rev else memory).search(limit=1000).hits
        assert {hit.path for hit in found} == markdown(listed(folder, name, rev or "HEAD"))
        assert len({hit.id for hit in found}) == len(found), rev


def test_two_that_took_each_others_number_are_told_apart(cloned: tuple[str, Path, Memory]) -> None:
    name, _, memory = cloned
    if name != "filecoin-fips":
        pytest.skip("it is about records of another repository")
    (one,), (other,) = memory.get("FIPS/fip-0025.md"), memory.get("FIPS/fip-0026.md")
    assert one.id != other.id
    for hit in (one, other):
        assert memory.search(hit.record.title, limit=1).hits[0].path == hit.path
        assert [found.path for found in memory.get(hit.id)] == [hit.path]
    told = {effect.path for effect in memory.diff("66bb89c..6e02a5a").effects if effect.kind == "new"}
    assert {one.path, other.path} & listed(cloned[1], name, "6e02a5a") <= told


@pytest.mark.parametrize(
    ("name", "steps", "more"),
    [("filecoin-fips", 9, ("49463efa33", "543754e035", "7a3dabe5b1")), ("semantic-kernel", 4, ())],
)
def test_a_commit_is_told_as_its_checkout_is(name: str, steps: int, more: tuple[str, ...], tmp_path: Path) -> None:
    """Every path, id, author, first commit and edit, also where branches gave one name to different files."""
    folder = tmp_path / name
    git(tmp_path, "clone", "-q", "-b", "main", str(DATA / name / "history.bundle"), str(folder))
    commits = git(folder, "rev-list", "HEAD").splitlines()
    chosen = [*commits[30 :: len(commits) // steps], *more]
    with Memory.open(folder, store=STORES[name]) as memory:
        then = {commit: _told(memory.at(commit)) for commit in chosen}
    for commit in chosen:
        git(folder, "checkout", "-q", commit)
        if (folder / STORES[name]).is_dir():
            with Memory.open(folder, store=STORES[name]) as memory:
                assert then[commit] == _told(memory), commit
    assert sum(map(len, then.values())) > 100


def _told(memory: Memory) -> dict[str, tuple[object, ...]]:
    found = {hit.path: (hit.id, hit.provenance) for hit in memory.search(limit=1000).hits}
    return {path: (one, by.author, by.commit, by.date, by.edits) for path, (one, by) in found.items()}
