"""Whose edits a record has where branches meet: history, `get` and an index built anew name the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import git, write
from tests.system.tools import cli, ok

FILE = "memory/decisions/redis.md"
MOVED = "memory/decisions/moved.md"
PARTS = ["# Use Redis", "We need a db.", "one", "two", "three", "four", "five", "End."]
AGAIN = "added on another branch too"
# History tells them, but the text is as it was.
NO_EDITS = [(AGAIN,), ("removed",), ("renamed from decisions/redis.md",)]
Told = list[tuple[str, tuple[str, ...]]]


@pytest.fixture(params=["", "id: decision_redis_1700000000000_aaaaaaaa\n"], ids=["no id", "id"])
def base(repo: Path, request: pytest.FixtureRequest) -> Path:
    """A repository with a proposal on main."""
    text = "\n\n".join(PARTS)
    write(repo / FILE, f"---\n{request.param}topic: redis\nstatus: proposed\n---\n{text}\n")
    commit(repo, "Ada")
    return repo


def commit(repo: Path, author: str) -> str:
    git(repo, "add", "-A", ".")
    git(repo, "commit", "-q", "-m", f"By {author}", GIT_AUTHOR_NAME=author)
    return git(repo, "rev-parse", "HEAD")


def edit(repo: Path, author: str, old: str, new: str, file: str = FILE) -> str:
    path = repo / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return commit(repo, author)


def merge(repo: Path, *branches: str, evil: tuple[str, str] | None = None) -> None:
    """Merge cleanly, by Mallory; an evil one replaces a text by another that no branch has."""
    git(repo, "merge", "-q", "--no-ff", "--no-commit", *branches)
    if evil:
        (repo / FILE).write_text((repo / FILE).read_text().replace(*evil))
    commit(repo, "Mallory")


def renamed_apart(base: Path) -> dict[str, str]:
    """Rename and edit the file on both sides, and begin to merge; the name that it has on each."""
    names = {"main": MOVED, "side": "memory/decisions/other.md"}
    git(base, "switch", "-q", "-c", "side")
    git(base, "mv", FILE, names["side"])
    edit(base, "Bob", "one", "ONE", names["side"])
    git(base, "switch", "-q", "main")
    git(base, "mv", FILE, names["main"])
    edit(base, "Cy", "five", "FIVE", names["main"])
    git(base, "merge", "-q", "side", ok=False)
    return names


def told(repo: Path, file: str = FILE) -> Told:
    """What history tells, by whom; all doors must name the same people, also once the index is built anew."""

    def looks() -> Iterator[tuple[Told, set[str]]]:
        for _ in range(2):
            (step,) = ok(repo, "history", "redis")["chain"]
            by = ok(repo, "get", file)["results"][0]["by"]
            yield (
                [(one["author"], tuple(one["changes"])) for one in step["revisions"]],
                {one["author"] for one in by.get("edited", [])},
            )
            ok(repo, "index", "--rebuild")

    for edits, people in (found := list(looks())):
        assert {author for author, changes in edits if changes not in NO_EDITS} == people
    assert found[0] == found[1]
    return found[0][0]


ACCEPTED = ("Grace", ("status proposed -> accepted",))
REWORDED = ("Bob", ("reasoning reworded",))


@pytest.mark.parametrize("followed", [True, False])
def test_a_clean_merge_is_no_edit(base: Path, followed: bool) -> None:
    git(base, "switch", "-q", "-c", "side")
    edit(base, "Grace", "proposed", "accepted")
    git(base, "switch", "-q", "main")
    edit(base, "Bob", "End", "END")
    if followed:
        ok(base, "search", "redis")
    merge(base, "side")
    assert sorted(told(base)) == [REWORDED, ACCEPTED]


@pytest.mark.parametrize(
    ("evil", "said"),
    [
        (("three", "3"), "reasoning reworded"),
        (("status: accepted", "status: rejected"), "status proposed -> rejected"),
        (("topic: redis", "topic: redis\ntags: [cache]"), "tags + cache"),
        (("one", "<<<<<<< a\none\n=======\nuno\n>>>>>>> b"), "conflict"),
    ],
)
def test_what_a_merge_says_by_itself_is_its_edit(base: Path, evil: tuple[str, str], said: str) -> None:
    git(base, "switch", "-q", "-c", "side")
    edit(base, "Grace", "proposed", "accepted")
    git(base, "switch", "-q", "main")
    edit(base, "Bob", "End", "END")
    merge(base, "side", evil=evil)
    *others, (author, changes) = told(base)
    assert (author, sorted(others)) == ("Mallory", [REWORDED, ACCEPTED])
    assert any(one.startswith(said) for one in changes), changes


def test_a_merge_of_a_branch_without_the_record_may_edit_it(repo: Path) -> None:
    git(repo, "branch", "side")  # before there was a record
    write(repo / FILE, "---\ntopic: redis\n---\n" + "\n\n".join(PARTS))
    commit(repo, "Ada")
    git(repo, "switch", "-q", "side")
    write(repo / "code.py", "1\n")
    commit(repo, "Bob")
    git(repo, "switch", "-q", "main")
    merge(repo, "side", evil=("three", "3"))
    assert told(repo) == [("Mallory", ("reasoning reworded",))]


def test_merges_in_both_directions_are_no_edits(base: Path) -> None:
    git(base, "switch", "-q", "-c", "side")
    edit(base, "Grace", "proposed", "accepted")
    git(base, "branch", "was")
    git(base, "switch", "-q", "main")
    edit(base, "Bob", "End", "END")
    git(base, "switch", "-q", "side")
    merge(base, "main")
    edit(base, "Carol", "We need", "We do need")
    git(base, "switch", "-q", "main")
    merge(base, "was")
    edit(base, "Dan", "three", "THREE")
    merge(base, "side")
    assert sorted(author for author, _ in told(base)) == ["Bob", "Carol", "Dan", "Grace"]


@pytest.mark.parametrize("evil", [None, ("three", "3")])
def test_a_merge_of_three_is_an_edit_only_of_what_it_says_by_itself(base: Path, evil: tuple[str, str] | None) -> None:
    for branch, author, old, new in (("a", "Grace", "proposed", "accepted"), ("b", "Carol", "We need", "We do need")):
        git(base, "switch", "-q", "-c", branch, "main")
        edit(base, author, old, new)
    git(base, "switch", "-q", "main")
    edit(base, "Bob", "End", "END")
    merge(base, "a", "b", evil=evil)
    assert {author for author, _ in told(base)} == {"Grace", "Carol", "Bob"} | ({"Mallory"} if evil else set())


@pytest.mark.parametrize("name", [FILE, MOVED], ids=["one name", "renamed"])
@pytest.mark.parametrize("more", [False, True], ids=["squash", "squash with more"])
@pytest.mark.parametrize("ours", [False, True], ids=["the branch's text", "both texts"])
@pytest.mark.parametrize("stated", ["", "id: decision_redis_1700000000000_aaaaaaaa\n"], ids=["no id", "id"])
def test_what_a_squash_brought_is_no_edit_once_its_branch_is_merged(
    repo: Path, stated: str, ours: bool, more: bool, name: str
) -> None:
    git(repo, "switch", "-q", "-c", "side")
    write(repo / FILE, f"---\n{stated}topic: redis\n---\n" + "\n\n".join(PARTS))
    commit(repo, "Ada")
    edit(repo, "Grace", "one", "ONE")
    if name != FILE:
        git(repo, "mv", FILE, name)
    edit(repo, "Carol", "two", "TWO", name)
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--squash", "side")
    if more:
        (repo / name).write_text((repo / name).read_text().replace("We need", "We do need"))
    squash = commit(repo, "Squasher")
    if ours:
        edit(repo, "Bob", "End", "END", name)
    git(repo, "switch", "-q", "side")
    edit(repo, "Dan", "five", "FIVE", name)
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "--no-commit", "side", ok=False)
    git(repo, "checkout", "-q", "--ours" if ours else "--theirs", name)
    if ours:
        (repo / name).write_text((repo / name).read_text().replace("five", "FIVE"))
    commit(repo, "Mallory")
    edits = told(repo, name)
    assert ok(repo, "history", "redis")["chain"][0]["commit"] == squash
    assert [one for one in edits if one[0] in {"Ada", "Grace", "Carol"}] == [("Ada", (AGAIN,))]
    assert sorted(author for author, _ in edits) == ["Ada", *(["Bob"] if ours else []), "Dan"]


@pytest.mark.parametrize("into", ["main", "side"])
@pytest.mark.parametrize("both", [False, True], ids=["renamed", "renamed and edited"])
def test_what_a_side_changed_under_the_name_of_before_is_an_edit(base: Path, both: bool, into: str) -> None:
    edit(base, "Eve", "one", "ONE")
    moved = "memory/decisions/cache.md"
    git(base, "switch", "-q", "-c", "side")
    git(base, "mv", FILE, moved)
    renamed = commit(base, "Grace")
    if both:
        edit(base, "Carol", "two", "TWO", moved)
    git(base, "switch", "-q", "main")
    edit(base, "Bob", "End", "END")
    edit(base, "Dan", "four", "FOUR")
    git(base, "switch", "-q", into)
    merge(base, "side" if into == "main" else "main")
    edit(base, "Fay", "five", "FIVE", moved)
    (step,) = ok(base, "history", "redis")["chain"]
    revisions = step["revisions"]
    assert [one["changes"] for one in revisions if one["commit"] == renamed] == [["renamed from decisions/redis.md"]]
    names = [one["author"] for one in revisions]
    on_main, on_side = ["Bob", "Dan"], ["Grace", *(["Carol"] if both else [])]
    first, then = (on_main, on_side) if into == "main" else (on_side, on_main)
    assert names == ["Eve", *first, *then, "Fay"]
    for _ in range(2):
        by = ok(base, "get", moved)["results"][0]["by"]
        assert {one["author"] for one in by["edited"]} == {*names} - {"Grace"}, "a new name is no new text"
        ok(base, "index", "--rebuild")


def test_a_merge_of_other_work_takes_no_editor_away(base: Path) -> None:
    git(base, "switch", "-q", "-c", "side")
    edit(base, "Grace", "proposed", "accepted")
    git(base, "switch", "-q", "main")
    edit(base, "Bob", "End", "END")
    git(base, "switch", "-q", "-c", "other")
    write(base / "code.py", "1\n")
    commit(base, "Cy")
    git(base, "switch", "-q", "main")
    merge(base, "side")
    merge(base, "other")
    assert sorted(told(base)) == [REWORDED, ACCEPTED]


def test_what_a_merge_left_behind_under_another_name_is_no_edit(base: Path) -> None:
    git(base, "switch", "-q", "-c", "side")
    edit(base, "Grace", "proposed", "accepted")
    git(base, "switch", "-q", "main")
    git(base, "mv", FILE, MOVED)
    edit(base, "Cy", "End", "END", MOVED)
    git(base, "merge", "-q", "-s", "ours", "-m", "merge", "side")
    ((author, _),) = told(base, MOVED)
    assert author == "Cy"


def test_a_rename_that_comes_twice_keeps_the_edits_before_it(base: Path) -> None:
    edit(base, "Bob", "End", "END")
    git(base, "switch", "-q", "-c", "side")
    git(base, "mv", FILE, MOVED)
    edit(base, "Cy", "two", "2", MOVED)
    git(base, "switch", "-q", "main")
    git(base, "cherry-pick", "side", GIT_COMMITTER_NAME="Dan")
    edit(base, "Eve", "three", "3", MOVED)
    merge(base, "side")
    assert {author for author, _ in told(base, MOVED)} == {"Bob", "Cy", "Eve"}


@pytest.mark.parametrize("kept", ["main", "side"])
def test_a_file_that_both_sides_renamed_keeps_the_edits_of_both(base: Path, kept: str) -> None:
    names = renamed_apart(base)
    gone = next(name for branch, name in names.items() if branch != kept)
    write(base / names[kept], (base / names[kept]).read_text())
    git(base, "rm", "-q", "--cached", "--ignore-unmatch", FILE, gone)
    (base / gone).unlink(missing_ok=True)
    commit(base, "Mallory")
    text = (base / names[kept]).read_text()
    assert "ONE" in text
    assert "FIVE" in text
    assert {author for author, _ in told(base, names[kept])} == {"Bob", "Cy"}


@pytest.mark.parametrize("apart", [False, True], ids=["edited as renamed", "edited before too"])
def test_a_file_that_both_sides_renamed_alike_is_told_as_renamed_twice(base: Path, apart: bool) -> None:
    for branch, before, renamed, old, then in (
        ("side", "Bert", "Grace", "one", "two"),
        ("main", "Dan", "Carl", "five", "End"),
    ):
        git(base, "switch", "-q", *(["-c"] if branch == "side" else []), branch)
        if apart:
            edit(base, before, old, old.upper())
        git(base, "mv", FILE, MOVED)
        edit(base, renamed, then, then.upper(), MOVED)
    merge(base, "side")
    edits = told(base, MOVED)
    moved = ("renamed from decisions/redis.md", "reasoning reworded")
    assert [(author, changes) for author, changes in edits if author in ("Grace", "Carl")] == [
        ("Carl", moved),
        ("Grace", moved),
    ]
    others = ["Dan", "Bert"] if apart else []
    assert [(author, changes) for author, changes in edits if author in others] == [
        (author, ("reasoning reworded",)) for author in others
    ]
    assert len(edits) == 2 + len(others)


def test_who_edited_last_is_known_of_commits_of_one_second(base: Path) -> None:
    git(base, "switch", "-q", "-c", "side")
    for author, word in (("Bob", "one"), ("Cy", "two"), ("Dan", "three"), ("Eve", "four"), ("Fay", "five")):
        edit(base, author, word, word.upper())
    git(base, "switch", "-q", "main")
    write(base / "code.py", "1\n")
    commit(base, "Gus")
    git(base, "rebase", "-q", "main", "side", GIT_COMMITTER_DATE="2025-01-01T00:00:00Z")
    for _ in range(2):
        edited = ok(base, "get", FILE)["results"][0]["by"]["edited"]
        assert [one["author"] for one in edited] == ["Bob", "Cy", "Dan", "Eve", "Fay"]
        ok(base, "index", "--rebuild")


@pytest.mark.parametrize("staged", [True, False])
def test_a_rename_that_is_not_committed_hides_no_edit(base: Path, staged: bool) -> None:
    edit(base, "Grace", "proposed", "accepted")
    if staged:
        git(base, "mv", FILE, MOVED)
    else:
        (base / FILE).rename(base / MOVED)
    (step,) = ok(base, "history", "redis")["chain"]
    assert [tuple(one["changes"]) for one in step["revisions"]] == [
        ("status proposed -> accepted",),
        ("renamed from decisions/redis.md",),
    ]
    assert [one["author"] for one in step["revisions"]] == ["Grace", ""]


def test_a_file_is_followed_through_a_dozen_names(base: Path) -> None:
    edit(base, "Grace", "proposed", "accepted")
    before = FILE
    for number in range(12):
        after = f"memory/decisions/{number}.md"
        git(base, "mv", before, after)
        commit(base, "Cy")
        before = after
    (step,) = ok(base, "history", "redis")["chain"]
    first, *others = [tuple(one["changes"]) for one in step["revisions"]]
    assert first == ("status proposed -> accepted",)
    assert others == [(f"renamed from decisions/{name}.md",) for name in ("redis", *range(11))]


@pytest.mark.parametrize("more", [False, True], ids=["merged", "merged and edited"])
def test_a_file_that_a_merge_gave_a_third_name_keeps_the_edits_of_both_sides(base: Path, more: bool) -> None:
    names, third = renamed_apart(base), "memory/decisions/third.md"
    write(base / third, (base / names["main"]).read_text())
    git(base, "rm", "-q", "--cached", "--ignore-unmatch", FILE, *names.values())
    for name in names.values():
        (base / name).unlink(missing_ok=True)
    commit(base, "Mallory")
    if more:
        edit(base, "Dan", "three", "THREE", third)
    text = (base / third).read_text()
    assert "ONE" in text
    assert "FIVE" in text
    assert {author for author, _ in told(base, third)} == {"Bob", "Cy", *(["Dan"] if more else [])}
    (base / third).unlink()
    standing = cli(base, "restore", Path(names["side"]).name).err
    assert "was removed" in standing, "the merge took that name away from a record that has another"


@pytest.mark.parametrize("stated", ["", "id: decision_redis_1700000000000_aaaaaaaa\n"], ids=["no id", "id"])
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("renamed", [False, True])
def test_who_began_a_branch_is_told_where_it_changed_nothing_after_its_squash(
    repo: Path, stated: str, *, edited: bool, renamed: bool
) -> None:
    """As where it did, above; no branch is told that merely has the record."""
    git(repo, "switch", "-q", "-c", "side")
    write(repo / FILE, f"---\n{stated}topic: redis\n---\n" + "\n\n".join(PARTS))
    commit(repo, "Ada")
    if edited:
        edit(repo, "Grace", "one", "ONE")
    if renamed:
        git(repo, "mv", FILE, MOVED)
        commit(repo, "Mo")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--squash", "side")
    squash = commit(repo, "Squasher")
    git(repo, "switch", "-q", "-c", "other")
    write(repo / "other.py", "1\n")
    commit(repo, "Bob")
    git(repo, "switch", "-q", "side")
    write(repo / "code.py", "1\n")
    commit(repo, "Dan")
    git(repo, "switch", "-q", "main")
    merge(repo, "other")
    merge(repo, "side")
    assert ok(repo, "history", "redis")["chain"][0]["commit"] == squash
    assert told(repo, MOVED if renamed else FILE) == [("Ada", (AGAIN,))]


@pytest.mark.parametrize("updated", [True, False])
def test_who_was_first_is_told_anew_where_main_takes_in_what_was_looked_at(repo: Path, *, updated: bool) -> None:
    """The squash landed first on main, the branch's own commit first on the branch; the index saw the branch last."""
    git(repo, "switch", "-q", "-c", "dev")
    write(repo / FILE, "---\nid: plan1\ntopic: redis\n---\n# Use Redis\n\nFast.\n")
    commit(repo, "Dev")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--squash", "dev")
    commit(repo, "Lead")
    git(repo, "switch", "-q", "dev")
    if updated:
        merge(repo, "main")
    write(repo / "code.py", "1\n")
    commit(repo, "Dev")

    def first() -> set[str]:
        by = [ok(repo, "get", FILE)["results"][0]["by"], *ok(repo, "history", "redis")["chain"]]
        return {one["author"] for one in by}

    assert first() == {"Dev"}
    git(repo, "switch", "-q", "main")
    merge(repo, "dev")
    assert first() == {"Lead"}
    ok(repo, "index", "--rebuild")
    assert first() == {"Lead"}


def test_an_id_is_another_files_where_main_takes_in_what_was_looked_at(repo: Path) -> None:
    """Both sides state one id: it belongs to the file that landed first, on main another one than on the branch."""
    write(repo / "code.py", "1\n")
    commit(repo, "Ada")
    for branch, name in (("dev", "a"), ("main", "b")):
        git(repo, "switch", "-q", *(["-c", branch] if branch != "main" else [branch]))
        write(repo / f"memory/decisions/{name}.md", f"---\nid: plan1\ntopic: redis\n---\n# From {branch}\n")
        commit(repo, branch)
    git(repo, "switch", "-q", "dev")
    merge(repo, "main")
    assert ok(repo, "get", "plan1")["results"][0]["title"] == "From dev"
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "dev")
    for _ in range(2):
        assert ok(repo, "get", "plan1")["results"][0]["title"] == "From main"
        for then, title in (("dev", "From dev"), ("main", "From main"), ("dev", "From dev")):  # the same files
            assert ok(repo, "get", "plan1", "--at", then)["results"][0]["title"] == title
        ok(repo, "index", "--rebuild")


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("back", ["side", "main~2"], ids=["the branch's version", "main's version"])
def test_what_a_branch_said_of_a_record_that_was_removed_meanwhile_is_its_own(
    base: Path, back: str, *, renamed: bool
) -> None:
    """Restored after a merge that left it removed: the branch edited it, if what came back is what the branch said."""
    name = MOVED if renamed and back == "side" else FILE
    git(base, "switch", "-q", "-c", "side")
    if renamed:
        git(base, "mv", FILE, MOVED)
        commit(base, "Mo")
    edit(base, "Bob", "End", "END", MOVED if renamed else FILE)
    git(base, "switch", "-q", "main")
    git(base, "rm", "-q", FILE)
    commit(base, "Ada")
    git(base, "merge", "-q", "side", ok=False)
    git(base, "rm", "-q", "-f", "--ignore-unmatch", FILE, MOVED)
    commit(base, "Mallory")
    git(base, "checkout", "-q", back, "--", name)
    commit(base, "Cy")
    edits = [one for one in told(base, name) if one[1] not in NO_EDITS]
    assert edits == [*([REWORDED] if back == "side" else []), ("Cy", ("brought back",))]
