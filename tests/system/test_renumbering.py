"""Records without ids that took each other's file names: each is one record, at every door."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.record import derived_id, namesake, surrogate_id
from tests.support import git, write
from tests.system.tools import cli, ok

FIRST, SECOND = "decisions/0001.md", "decisions/0002.md"
ALPHA, BETA = "Alpha choice of caches", "Beta choice of queues"


@pytest.fixture
def renumbered(repo: Path) -> Path:
    """Alpha was 0001 and is 0002; Beta is 0001 now. Neither states an id."""
    write(repo / "memory" / FIRST, f"# {ALPHA}\n\nAlpha because.\n")
    _commit(repo, "Decide Alpha")
    git(repo, "mv", f"memory/{FIRST}", f"memory/{SECOND}")
    _commit(repo, "Renumber Alpha")
    write(repo / "memory" / FIRST, f"# {BETA}\n\nBeta for other reasons.\n")
    _commit(repo, "Decide Beta")
    return repo


def _commit(repo: Path, message: str) -> None:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", message)


def ids(repo: Path, *more: str) -> dict[str, str]:
    return {one["title"]: one["id"] for one in ok(repo, "search", *more)["results"]}


def test_each_has_an_id_of_its_own_at_every_door(renumbered: Path) -> None:
    told = ids(renumbered)
    assert told == {ALPHA: derived_id(FIRST), BETA: derived_id(namesake(FIRST, 2))}
    for word, title in (("alpha", ALPHA), ("beta", BETA)):
        assert ok(renumbered, "search", word, "-n1")["results"][0]["title"] == title
        for name in (title, told[title]):
            assert [one["title"] for one in ok(renumbered, "get", name)["results"]] == [title]
            assert [step["title"] for step in ok(renumbered, "history", name)["chain"]] == [title]
    assert [one["title"] for one in ok(renumbered, "get", "0001.md")["results"]] == [BETA]
    assert {ALPHA, BETA} <= {one["topic"] for one in ok(renumbered, "topics")["topics"]}
    assert ids(renumbered, "--at", "HEAD") == told
    assert ids(renumbered, "--at", "HEAD~1") == {ALPHA: told[ALPHA]}
    ok(renumbered, "index", "--rebuild")
    assert ids(renumbered) == told


def test_a_comparison_and_a_check_tell_both(renumbered: Path) -> None:
    for span in ("HEAD~2..HEAD", "HEAD~1..HEAD"):
        told = {one["title"]: one["kind"] for one in ok(renumbered, "diff", span)["effects"]}
        assert told[BETA] == "new", span
    problems = cli(renumbered, "check", "--json").json["problems"]
    assert {one["level"] for one in problems} == {"hint"}
    assert "duplicate-id" not in {one["code"] for one in problems}


def test_what_is_done_to_one_is_done_to_no_other(renumbered: Path) -> None:
    told = ids(renumbered)
    ok(renumbered, "update", told[BETA], "--outcome", "success", "--reason", "it queues")
    assert "it queues" in (renumbered / "memory" / FIRST).read_text()
    assert ids(renumbered) == told
    ok(renumbered, "forget", told[BETA])
    assert not (renumbered / "memory" / FIRST).exists()
    assert ids(renumbered) == {ALPHA: told[ALPHA]}
    ok(renumbered, "restore", told[BETA])
    assert ids(renumbered) == told
    printed = cli(renumbered, "forget", told[ALPHA])
    assert f"memory/{FIRST} had its name, id or text and is another record now" in printed.out + printed.err
    ok(renumbered, "restore", SECOND)
    ok(renumbered, "forget", told[ALPHA])
    assert not (renumbered / "memory" / SECOND).exists()
    assert ids(renumbered) == {BETA: told[BETA]}, "the second stays who it is"
    ok(renumbered, "restore", SECOND)
    assert ids(renumbered) == told


def test_a_forgotten_one_stays_hidden_beside_the_other(renumbered: Path) -> None:
    told = ids(renumbered)
    text = (renumbered / "memory" / FIRST).read_text()
    ok(renumbered, "forget", told[BETA])
    write(renumbered / "memory" / FIRST, text)
    assert list(ids(renumbered)) == [ALPHA]
    assert "forgotten" in {one["code"] for one in cli(renumbered, "check", "--json").json["problems"]}
    ok(renumbered, "restore", told[BETA])
    assert ids(renumbered) == told


def test_the_index_that_followed_is_one_built_anew(repo: Path) -> None:
    """Also what points to one of them by its name, which means another file by now."""
    with Memory.open(repo) as memory:

        def look() -> None:
            memory.refresh(full=True)
            followed = {node.path: node for node in memory._store.nodes()}
            memory.rebuild()
            assert {node.path: node for node in memory._store.nodes()} == followed

        write(repo / "memory" / FIRST, f"# {ALPHA}\n")
        _commit(repo, "Decide Alpha")
        write(repo / "memory/decisions/link.md", "---\ntopic: queues\nsupersedes: [0001.md]\n---\n# Linked\n")
        look()
        git(repo, "mv", f"memory/{FIRST}", f"memory/{SECOND}")
        _commit(repo, "Renumber Alpha")
        look()
        write(repo / "memory" / FIRST, f"# {BETA}\n")
        look()
        _commit(repo, "Decide Beta")
        look()
        (linked,) = [node for node in memory._store.nodes() if node.title == "Linked"]
        assert linked.supersedes == (derived_id(FIRST),), "the name means the file that had it when it was written"
        (repo / "memory" / SECOND).unlink()
        look()
        _commit(repo, "Remove Alpha")
        look()
        git(repo, "revert", "--no-edit", "HEAD")
        look()


def test_an_id_that_its_owner_gave_up_goes_to_the_other_file(repo: Path) -> None:
    write(repo / "memory" / FIRST, f"---\nid: one\n---\n# {ALPHA}\n")
    _commit(repo, "Decide Alpha")
    write(repo / "memory" / SECOND, f"---\nid: one\n---\n# {BETA}\n")
    assert ids(repo) == {ALPHA: "one", BETA: surrogate_id(SECOND)}
    write(repo / "memory" / FIRST, f"---\nid: another\n---\n# {ALPHA}\n")
    ok(repo, "index")
    assert ids(repo) == {ALPHA: "another", BETA: "one"}


ALIKE = "".join(f"Line {number} of the template that both of them share.\n" for number in range(8))


@pytest.mark.parametrize(
    ("shared", "at_once", "third"),
    [("", True, "decisions/0003.md"), (ALIKE, True, SECOND), ("", False, FIRST), (ALIKE, False, FIRST)],
)
def test_a_name_that_is_taken_as_its_file_moves_on_stays_who_it_was_unless_there_are_two_commits(
    repo: Path, shared: str, at_once: bool, third: str
) -> None:
    """The rule of docs/format.md: for Git a name that a commit leaves standing is edited, whoever has it then."""
    for name, title in ((FIRST, ALPHA), (SECOND, BETA)):
        write(repo / "memory" / name, f"# {title}\n\n{title} because of what is said here.\n{shared}")
    _commit(repo, "Decide both")
    git(repo, "mv", f"memory/{FIRST}", "memory/decisions/0003.md")
    if not at_once:
        _commit(repo, "Move Alpha")
    git(repo, "mv", f"memory/{SECOND}", f"memory/{FIRST}")
    _commit(repo, "Move Beta")
    assert ids(repo) == {ALPHA: derived_id(third), BETA: derived_id(FIRST if at_once else SECOND)}


@pytest.mark.parametrize("reference", ["ADR-7", "7", "0007-alpha.md"])
@pytest.mark.parametrize("followed", [True, False])
def test_a_number_means_who_had_it_when_it_was_written(repo: Path, reference: str, followed: bool) -> None:
    write(repo / "memory/0007-alpha.md", f"# {ALPHA}\n\nAlpha because.\nIt lasts.\n")
    _commit(repo, "Decide Alpha")
    write(repo / "memory/0008-gamma.md", f"# Gamma instead\n\n## Status\n\nAccepted. Supersedes {reference}\n")
    _commit(repo, "Decide Gamma")
    if followed:
        ids(repo)
    git(repo, "mv", "memory/0007-alpha.md", "memory/0009-alpha.md")
    _commit(repo, "Renumber Alpha")
    write(repo / "memory/0007-beta.md", f"# {BETA}\n\nBeta for other reasons.\n")

    for _ in range(3):
        found = {one["title"]: one.get("superseded_by") for one in ok(repo, "search")["results"]}
        assert bool(found[ALPHA]), found
        assert not found[BETA], found
        ok(repo, "index", "--rebuild")
        _commit(repo, "Decide Beta") if git(repo, "status", "--porcelain") else None
    write(repo / "memory/0010-delta.md", f"# Delta\n\n## Status\n\nAccepted. Supersedes {reference}\n")
    _commit(repo, "Decide Delta")
    found = {one["title"]: one.get("superseded_by") for one in ok(repo, "search")["results"]}
    assert bool(found[BETA]) == (reference != "0007-alpha.md")


@pytest.mark.parametrize("reference", ["7", "ADR-7"])
def test_a_number_stays_whose_it_was_when_older_records_are_renumbered(repo: Path, reference: str) -> None:
    write(repo / "memory/0007-alpha.md", f"# {ALPHA}\n\nAlpha because.\nIt lasts.\n")
    write(repo / "memory/0008-beta.md", f"# {BETA}\n\nBeta for other reasons.\nIt queues.\n")
    write(
        repo / "memory/0010-gamma.md",
        "# Gamma\n\nDate: 2017-01-07\n\n## Status\n\nAccepted. ADR-7 explains it; kept 7 days.\n",
    )
    _commit(repo, "Decide")
    for old, new in (("7-alpha", "7-first"), ("7-first", "9-alpha")):
        git(repo, "mv", f"memory/000{old}.md", f"memory/000{new}.md")
        _commit(repo, "Renumber Alpha")
    git(repo, "mv", "memory/0008-beta.md", "memory/0007-beta.md")
    _commit(repo, "Renumber Beta")

    def held() -> dict[str, bool]:
        found = [{one["title"]: not one.get("superseded_by") for one in ok(repo, "search")["results"]}]
        ok(repo, "index", "--rebuild")
        found.append({one["title"]: not one.get("superseded_by") for one in ok(repo, "search")["results"]})
        assert found[0] == found[1]
        return {title: holds for title, holds in found[0].items() if title in (ALPHA, BETA)}

    assert held() == {ALPHA: True, BETA: True}
    gamma = repo / "memory/0010-gamma.md"
    write(gamma, gamma.read_text().replace("Accepted.", f"Accepted. Supersedes {reference}."))
    _commit(repo, "Supersede Beta")
    assert held() == {ALPHA: True, BETA: False}
    git(repo, "mv", "memory/0007-beta.md", "memory/0011-beta.md")
    git(repo, "mv", "memory/0009-alpha.md", "memory/0007-alpha.md")
    _commit(repo, "Renumber both")
    assert held() == {ALPHA: True, BETA: False}, "whoever has the number now"
