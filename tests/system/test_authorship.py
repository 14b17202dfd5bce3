"""Who decided is who first committed a record's id to this history: no path, no bytes and no date change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory
from tests.support import git, write
from tests.system.tools import cli, ok

ALICES, EVES = "decision_x_1700000000000_aaaaaaaa", "decision_x_1700000000000_eeeeeeee"
FOLDER = "memory/decisions"
BODY = "".join(f"Because of reason {number}.\n" for number in range(20))
REVIEWED = "Decide\n\nReviewed-by: Linus <linus@example.com>"


def record(repo: Path, name: str, identity: str, title: str, topic: str = "topic", more: str = "") -> str:
    head = f'---\nid: {identity}\ntype: decision\ntopic: {topic}\ncreated: "2026-01-01T00:00:00.000Z"\n{more}---\n'
    write(repo / FOLDER / name, f"{head}# {title}\n\n{BODY}")
    return f"{FOLDER}/{name}"


def commit(repo: Path, author: str, message: str = "Decide", **environment: Any) -> str:
    git(repo, "add", "-A", ".")
    who = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_EMAIL": f"{author.lower()}@example.com", **environment}
    git(repo, "commit", "-q", "-m", message, **who)
    return git(repo, "rev-parse", "HEAD")


def doors(repo: Path, identity: str, topic: str = "topic") -> Any:
    """What every door says of who brought a record; all must say the same."""

    def told() -> list[Any]:
        found = [
            *(hit["by"] for hit in ok(repo, "search", "reason", "--limit", "20")["results"] if hit["id"] == identity),
            ok(repo, "get", identity)["results"][0]["by"],
            ok(repo, "get", identity, "--at", "HEAD")["results"][0]["by"],
            *(
                step
                for more in ((), ("--at", "HEAD"))
                for step in ok(repo, "history", topic, *more)["chain"]
                if step["id"] == identity
            ),
        ]
        assert len(found) == 5
        return [(one["author"], one["commit"], one.get("reviewers", [])) for one in found]

    followed = told()
    assert len({str(one) for one in followed}) == 1, followed
    ok(repo, "index", "--rebuild")
    assert told() == followed
    with Memory.open(repo) as memory:
        assert memory.get(identity)[0].provenance.author == followed[0][0]
    return followed[0]


@pytest.fixture
def alices(repo: Path) -> str:
    """Alice's reviewed decision on main; her commit."""
    record(repo, "a.md", ALICES, "Use a")
    first = commit(repo, "Alice", REVIEWED)
    assert ok(repo, "get", ALICES)["results"][0]["by"]["author"] == "Alice", "the index follows from here"
    git(repo, "checkout", "-q", "-b", "br")
    return first


@pytest.mark.parametrize("moved", [True, False])
def test_another_id_in_the_file_is_another_record(repo: Path, alices: str, moved: bool) -> None:
    if moved:
        git(repo, "mv", f"{FOLDER}/a.md", f"{FOLDER}/q.md")
    record(repo, "q.md" if moved else "a.md", EVES, "Send money to Eve", "payments")
    evil = commit(repo, "Eve")
    if moved:
        record(repo, "a2.md", ALICES, "Use a")
        again = commit(repo, "Eve", "Add it again")
        assert doors(repo, ALICES) == ("Alice", alices, ["Linus <linus@example.com>"])
        (edit,) = ok(repo, "get", ALICES)["results"][0]["by"]["edited"]
        assert (edit["author"], edit["commit"]) == ("Eve", again)
    assert doors(repo, EVES, "payments") == ("Eve", evil, [])
    by = ok(repo, "get", EVES)["results"][0]["by"]
    assert by["merged"] is False
    assert "landed" not in by
    (step,) = ok(repo, "history", "payments")["chain"]
    assert step["revisions"] == []
    git(repo, "checkout", "-q", "main")
    assert doors(repo, ALICES) == ("Alice", alices, ["Linus <linus@example.com>"])
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge br", "br")
    assert doors(repo, EVES, "payments") == ("Eve", evil, [])


@pytest.mark.parametrize("on_main", [True, False])
def test_of_two_that_added_one_record_it_is_whose_landed_first(repo: Path, on_main: bool) -> None:
    git(repo, "checkout", "-q", "-b", "evil")
    old = "978307200 +0000"
    record(repo, "a.md", ALICES, "Use a", more="tags: [x]\n")
    commit(repo, "Eve", GIT_AUTHOR_DATE=old, GIT_COMMITTER_DATE=old)
    git(repo, "checkout", "-q", "main")
    record(repo, "a.md", ALICES, "Use a")
    first = commit(repo, "Alice")
    ok(repo, "search", "reason")
    if not on_main:
        git(repo, "checkout", "-q", "evil")
    git(repo, "merge", "-q", "evil" if on_main else "main", ok=False)
    record(repo, "a.md", ALICES, "Use a", more="tags: [x]\n")
    commit(repo, "Eve", "Merge")
    if not on_main:
        git(repo, "checkout", "-q", "main")
        ok(repo, "search", "reason")
        git(repo, "merge", "-q", "--no-ff", "-m", "Merge evil", "evil")
    assert doors(repo, ALICES)[:2] == ("Alice", first)


@pytest.mark.parametrize("kept", ["squashed", "ours", "theirs"])
def test_every_door_names_the_same_edits_of_a_record_that_landed_before_its_branch(repo: Path, kept: str) -> None:
    """What led to the version that landed first, or was given up when the two were merged, is no edit of the record."""
    git(repo, "checkout", "-q", "-b", "br")
    record(repo, "a.md", ALICES, "Use a")
    commit(repo, "Eve")
    record(repo, "a.md", ALICES, "Use a", more="tags: [x]\n")
    edit = commit(repo, "Eve", "Edit")
    git(repo, "checkout", "-q", "main")
    record(repo, "a.md", ALICES, "Use a", more="tags: [x]\n" if kept == "squashed" else "tags: [y]\n")
    commit(repo, "Alice", "Squash")
    ok(repo, "search", "reason")
    git(repo, "merge", "-q", "--no-ff", *(("-X", kept) if kept != "squashed" else ()), "-m", "Merge", "br")
    assert doors(repo, ALICES)[0] == "Alice"
    hit = ok(repo, "get", ALICES, "--history")["results"][0]
    named = {one["commit"] for one in hit["by"].get("edited", [])}
    assert (edit in named) == (kept == "theirs")
    assert named <= {one["commit"] for one in hit["revisions"]}


@pytest.mark.parametrize("stated", [True, False])
def test_a_branch_that_is_merged_after_its_squash_brings_no_more_edits(repo: Path, alices: str, stated: bool) -> None:
    """What stands there came by the squash; the commits that it was made of are as if they had never been merged."""
    name = "a.md" if stated else "b.md"
    write(repo / FOLDER / "b.md", f"# Use b\n\n{BODY}")
    commit(repo, "Alice")
    git(repo, "checkout", "-q", "-B", "br")
    for more in ("tags: [x]\n", "tags: [x, y]\n"):
        if stated:
            record(repo, "a.md", ALICES, "Use a", more=more)
        else:
            write(repo / FOLDER / "b.md", f"---\n{more}---\n# Use b\n\n{BODY}")
        commit(repo, "Eve", "Edit")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--ff-only", "br~2")
    git(repo, "checkout", "-q", "br", "--", FOLDER)
    squash = commit(repo, "Bob", "Squash")
    ok(repo, "search", "reason")
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge", "br")
    for again in ("followed", "rebuilt"):
        hit = ok(repo, "get", f"{FOLDER}/{name}", "--history")["results"][0]
        named = [one["commit"] for one in hit["by"]["edited"]]
        assert named == [squash] == [one["commit"] for one in hit["revisions"]], again
        ok(repo, "index", "--rebuild")


@pytest.mark.parametrize("follow", [True, False])
def test_edits_that_a_merge_gave_up_are_none_any_more(repo: Path, alices: str, follow: bool) -> None:
    """A side that took nothing of the other: its edits alone made what stands there."""
    record(repo, "a.md", ALICES, "Use a", more="tags: [x]\n")
    commit(repo, "Eve", "Edit")
    git(repo, "checkout", "-q", "main")
    record(repo, "a.md", ALICES, "Use a", more="tags: [y]\n")
    ours = commit(repo, "Bob", "Edit otherwise")
    if follow:
        assert ok(repo, "get", ALICES)["results"][0]["by"]["edited"][0]["commit"] == ours
    git(repo, "merge", "-q", "--no-ff", "-X", "theirs", "-m", "Merge", "br")
    (edited,) = ok(repo, "get", ALICES)["results"][0]["by"]["edited"]
    assert edited["author"] == "Eve"
    assert doors(repo, ALICES)[1] == alices


@pytest.mark.parametrize("named", [True, False])
def test_a_merge_that_moves_a_record_is_not_what_brought_it(repo: Path, named: bool) -> None:
    """Also where the merge has the branch as its first parent, which had no such file, and then becomes main."""
    git(repo, "checkout", "-q", "-b", "br")
    write(repo / "work.py", "1\n")
    commit(repo, "Bob", "Work")
    git(repo, "checkout", "-q", "main")
    path = record(repo, "a.md", ALICES, "Use a")
    if not named:
        write(repo / path, (repo / path).read_text().replace(f"id: {ALICES}\n", ""))
    first = commit(repo, "Alice")
    known = ok(repo, "search", "reason")["results"][0]["id"]
    git(repo, "checkout", "-q", "br")
    git(repo, "merge", "-q", "--no-commit", "main")
    git(repo, "mv", path, f"{FOLDER}/moved.md")
    commit(repo, "Bob", "Merge main")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--ff-only", "br")
    assert doors(repo, known)[:2] == ("Alice", first)


def test_a_record_that_comes_back_under_another_name_keeps_its_author_and_the_gap_is_told(
    repo: Path, alices: str
) -> None:
    git(repo, "rm", "-q", f"{FOLDER}/a.md")
    gone = commit(repo, "Bob", "Remove it")
    ok(repo, "search", "reason")
    record(repo, "b.md", ALICES, "Use a")
    back = commit(repo, "Bob", "Bring it back")
    assert doors(repo, ALICES) == ("Alice", alices, ["Linus <linus@example.com>"])
    (step,) = ok(repo, "history", "topic")["chain"]
    assert [(one["commit"], one["author"], one["changes"][0]) for one in step["revisions"]] == [
        (gone, "Bob", "removed"),
        (back, "Bob", "brought back"),
    ]


def test_a_copy_takes_nothing_away(repo: Path, alices: str) -> None:
    record(repo, "0.md", ALICES, "Use a")
    commit(repo, "Eve")
    assert doors(repo, ALICES)[:2] == ("Alice", alices)
    assert ok(repo, "get", ALICES)["results"][0]["path"] == f"{FOLDER}/a.md"


def test_a_header_that_was_broken_for_a_while_is_no_new_record(repo: Path, alices: str) -> None:
    path = repo / FOLDER / "a.md"
    whole = path.read_text()
    path.write_text(whole.replace("---\n", "", 1))
    commit(repo, "Bob", "Break it")
    ok(repo, "search", "reason")
    path.write_text(whole)
    commit(repo, "Bob", "Mend it")
    assert doors(repo, ALICES)[:2] == ("Alice", alices)


def test_another_id_that_is_not_committed_is_nobodys(repo: Path, alices: str) -> None:
    record(repo, "a.md", EVES, "Send money to Eve", "payments")
    for more in ((), ("--rebuild",)):
        ok(repo, "index", *more)
        (hit,) = ok(repo, "search", "money")["results"]
        assert "by" not in hit
        assert "not committed" in hit["note"]
    assert alices


def test_what_a_commit_names_is_read_up_to_a_limit_and_shown_as_it_is(repo: Path) -> None:
    record(repo, "a.md", ALICES, "Use a")
    trailers = "\n".join(f"Reviewed-by: Reviewer {number} <r{number}@x.org>" for number in range(3000))
    commit(repo, "A" * 3000, f"Decide\n\n{trailers}\nAgent: cl\u200baude")
    by = ok(repo, "search", "reason")["results"][0]["by"]
    assert by["reviewers"] == [f"Reviewer {number} <r{number}@x.org>" for number in range(20)]
    assert by["author"] == "A" * 199 + "…"
    shown = cli(repo, "search", "reason").out
    assert len(shown) < 4000
    assert "\u200b" not in shown
    assert "cl\\u200baude" in shown


def test_a_copy_takes_over_the_past_of_what_it_was_copied_from(repo: Path, alices: str) -> None:
    """A move in two commits, with a look between them, which knows two files of one id."""
    ok(repo, "search", "reason")
    (repo / "memory/copy.md").write_bytes((repo / "memory/decisions/a.md").read_bytes())
    commit(repo, "Bob", "Copy")
    ok(repo, "search", "reason")
    git(repo, "rm", "-q", "memory/decisions/a.md")
    commit(repo, "Bob", "Remove the first")
    assert doors(repo, ALICES)[:2] == ("Alice", alices)
