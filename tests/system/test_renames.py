"""Moving a file changes nothing but its path: before the move is committed, after it, and where it is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, write
from tests.system.tools import cli, ok

OLD, NEW = "memory/decisions/db/sqlite.md", "memory/decisions/db/tests.md"


@pytest.fixture
def project(repo: Path) -> Path:
    """A hand-written decision, and one that replaced it."""
    write(repo / OLD, "---\ntopic: db\n---\n# Use SQLite\n\nOne file.\n")
    write(repo / "memory/decisions/db/notes.md", "---\ntopic: notes\n---\n# Keep notes\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Two by hand")
    with Memory.open(repo) as memory:
        memory.save(topic="db", decision="Use MySQL", reasoning="Many writers")
    return repo


def held(repo: Path) -> list[tuple[str, str, bool]]:
    """The chain as it is told: who, what, whether it holds."""
    told = ok(repo, "history", "db")
    return [(step["id"], step["title"], step["id"] in told["heads"]) for step in told["chain"]]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_a_file_that_is_moved_stays_what_it_was(project: Path, staged: bool, anew: bool) -> None:
    before = held(project)
    assert [holds for _, _, holds in before] == [False, True]
    if staged:
        git(project, "mv", OLD, NEW)
    else:
        (project / OLD).rename(project / NEW)
    if anew:
        ok(project, "index", "--rebuild")
    assert held(project) == before
    assert ok(project, "get", before[0][0])["results"][0]["path"] == NEW
    checked = cli(project, "check", "--json").json["problems"]
    assert [one["code"] for one in checked if one["level"] != "hint"] == []
    forgot = cli(project, "forget", NEW, "--reason", "x")
    assert forgot.code == 5
    assert f"{NEW} was moved" in forgot.err
    if staged:
        saved = ok(project, "save", "decision", "--topic", "db", "--decision", "Use DuckDB", "--reasoning", "Columns")
        assert saved["superseded"] == [before[1][0]], "a save while the move waits replaces what holds"
        before = held(project)
    git(project, "add", "-A", "memory")
    git(project, "commit", "-q", "-m", "Move")
    assert held(project) == before


def test_a_move_that_is_taken_back_leaves_nothing(project: Path) -> None:
    before = held(project)
    git(project, "mv", OLD, NEW)
    assert held(project) == before
    git(project, "mv", NEW, OLD)
    assert held(project) == before


def test_a_copy_is_another_record(project: Path) -> None:
    before = held(project)
    write(project / NEW, (project / OLD).read_bytes())
    assert len(held(project)) == len(before) + 1


@pytest.mark.parametrize("anew", [False, True])
def test_a_file_that_states_its_id_is_known_by_it_when_it_was_edited_before_it_moved(project: Path, anew: bool) -> None:
    before = ok(project, "get", "Use MySQL")["results"][0]
    path = project / before["path"]
    path.write_text(path.read_text() + "\nAnd many readers.\n")
    assert ok(project, "get", before["id"])["results"][0]["by"]["commit"] == before["by"]["commit"]
    path.rename(path.with_name("moved.md"))
    if anew:
        ok(project, "index", "--rebuild")
    after = ok(project, "get", before["id"])["results"][0]
    assert after["path"].endswith("moved.md")
    assert (after["by"]["author"], after["by"]["commit"]) == (before["by"]["author"], before["by"]["commit"])


AWAY = "memory/decisions/db/away.md"


def story(repo: Path, path: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """The subjects of the commits of a file's history, who made them, and what they changed."""
    with Memory.open(repo) as memory:
        (edits,) = memory.revisions(path).values()
    return [(edit.subject, edit.author, edit.changes) for edit in edits]


@pytest.mark.parametrize("stated", [False, True])
def test_a_file_that_was_renamed_away_and_back_was_never_gone(project: Path, stated: bool) -> None:
    """Twice, edited under the other name by another, and on a branch under the first one."""
    path = ok(project, "get", "Use MySQL")["results"][0]["path"] if stated else OLD
    (old, new) = ("Many writers", "Too many writers") if stated else ("One file.", "But one file.")
    told = []
    for author in ("Grace", "Linus"):
        git(project, "mv", path, AWAY)
        git(project, "commit", "-q", "-m", f"Away, {author}")
        file = project / AWAY
        file.write_text(file.read_text().replace(old, new))
        git(project, "commit", "-q", "-a", "-m", f"Edit by {author}", GIT_AUTHOR_NAME=author)
        git(project, "mv", AWAY, path)
        git(project, "commit", "-q", "-m", f"Back, {author}")
        told += [
            (f"Away, {author}", "Ada", (f"renamed from {path.removeprefix('memory/')}",)),
            (f"Edit by {author}", author, ("reasoning reworded",)),
            (f"Back, {author}", "Ada", (f"renamed from {AWAY.removeprefix('memory/')}",)),
        ]
        old, new = new, old
    assert story(project, path) == told


@pytest.mark.parametrize("year", ["2020", "2035"])  # whichever Git lists first
def test_what_a_branch_changed_while_a_file_was_away_is_told_too(project: Path, year: str) -> None:
    git(project, "switch", "-q", "-c", "feature")
    file = project / OLD
    file.write_text(file.read_text().replace("One file.", "One small file."))
    made = f"{year}-01-01T00:00:00Z"
    git(project, "commit", "-q", "-a", "-m", "Edit beside", GIT_AUTHOR_NAME="Grace", GIT_COMMITTER_DATE=made)
    git(project, "switch", "-q", "main")
    git(project, "mv", OLD, AWAY)
    git(project, "commit", "-q", "-m", "Away")
    away = project / AWAY
    away.write_text(away.read_text().replace("topic: db\n", "topic: db\ntags: [storage]\n"))
    git(project, "commit", "-q", "-a", "-m", "Tag it", GIT_AUTHOR_NAME="Linus")
    git(project, "mv", AWAY, OLD)
    git(project, "commit", "-q", "-m", "Back")
    git(project, "merge", "-q", "--no-edit", "feature")
    told = {subject: author for subject, author, _ in story(project, OLD)}
    assert told == {"Away": "Ada", "Tag it": "Linus", "Back": "Ada", "Edit beside": "Grace"}
