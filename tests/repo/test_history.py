"""What Git remembers: births through renames, revisions, what was removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.memory.saving import Saver
from filemem.repo import Repo, trees
from filemem.repo.lives import ByPath
from tests.support import git, make_repo, message, write

BODY = "".join(f"line {i}\n" for i in range(20))


def commit(repo: Path, subject: str, *more: str) -> str:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", subject, *(part for text in more for part in ("-m", text)))
    return git(repo, "rev-parse", "HEAD")


def test_births_follow_renames_and_know_author_agent_and_order(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", "# a\n" + BODY)
    first = commit(path, "add a", "Agent: claude-code\nFilemem-Id: decision_a")
    write(path / "memory/b.md", "# b, quite different\n")
    second = commit(path, "add b")
    git(path, "mv", "memory/a.md", "memory/日本 a.md")
    commit(path, "rename")
    write(path / "memory/日本 a.md", "# a\n" + BODY + "more\n")
    last = commit(path, "edit")
    git(path, "rm", "-q", "memory/b.md")
    removed = commit(path, "remove b")

    walk = Repo.discover(path).history.walk("memory")
    assert walk.births.keys() == {"memory/日本 a.md"}
    birth = walk.births["memory/日本 a.md"]
    assert (birth.first_path, birth.commit.id, birth.commit.agent) == ("memory/a.md", first, "claude-code")
    assert (birth.commit.author, birth.commit.email, birth.commit.subject) == ("Ada", "ada@example.com", "add a")
    assert birth.commit.at == 1_763_650_000_000
    gone = walk.removed["memory/b.md"]
    assert (gone.commit.id, gone.blob) == (removed, git(path, "rev-parse", f"{second}:memory/b.md"))
    assert walk.head == removed

    log = Repo.discover(path).history.log("memory/日本 a.md")
    assert [r.commit.subject for r in log] == ["edit", "rename", "add a"]
    assert [r.path for r in log] == ["memory/日本 a.md", "memory/日本 a.md", "memory/a.md"]
    assert log[0].commit.id == last
    assert log[2].blob == git(path, "rev-parse", f"{first}:memory/a.md")


def test_a_walk_from_a_commit_tells_only_what_is_new(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", "# a\n" + BODY)
    since = commit(path, "add a")
    git(path, "mv", "memory/a.md", "memory/b.md")
    write(path / "memory/c.md", "# c\n")
    commit(path, "rename and add")
    walk = Repo.discover(path).history.walk("memory", since)
    assert {p: b.first_path for p, b in walk.births.items()} == {
        "memory/b.md": "memory/a.md",
        "memory/c.md": "memory/c.md",
    }
    assert Repo.discover(path).history.walk("memory", walk.head).births == {}


def test_a_file_born_on_a_branch_is_born_there_not_in_the_merge(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    git(path, "checkout", "-q", "-b", "side")
    write(path / "memory/side.md", "# side\n")
    born = commit(path, "on side")
    git(path, "checkout", "-q", "main")
    write(path / "memory/main.md", "# main\n")
    other = commit(path, "on main")
    git(path, "merge", "-q", "--no-edit", "side")
    history = Repo.discover(path).history
    walk = history.walk("memory")
    assert {p: b.commit.id for p, b in walk.births.items()} == {"memory/side.md": born, "memory/main.md": other}
    assert walk.removed == {}
    assert history.is_ancestor(born)
    assert not history.is_ancestor(born, other)
    assert not history.is_ancestor("0" * 40)
    assert history.on_line(other)
    assert not history.on_line(born), "the second parent of the tip"
    assert not history.on_line("0" * 40)


def test_a_hostile_message_is_only_a_message(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", "# a\n")
    evil = "\x01" + "a" * 40 + "\n\n:100644 100644 x y A\nAgent: me\x02"
    git(path, "add", ".")
    git(path, "commit", "-q", "-F", "-", input=evil.encode())
    walk = Repo.discover(path).history.walk("memory")
    assert list(walk.births) == ["memory/a.md"]
    assert walk.births["memory/a.md"].commit.id == git(path, "rev-parse", "HEAD")


def test_an_empty_repository_has_no_history(tmp_path: Path) -> None:
    repo = Repo.discover(make_repo(tmp_path / "repo", commit=False))
    assert repo.head() is None
    assert repo.history.walk("memory").births == {}
    assert repo.history.log("memory/a.md") == ()
    assert repo.show("memory/a.md") is None
    assert repo.item("memory/a.md") is None
    repo.close()


def test_a_listing_of_an_older_commit(repo: Path, saver: Saver) -> None:
    first = saver.put("decisions/a.md", b"# a\n", message()).commit or ""
    saver.put("decisions/b.md", b"# b\n", message())
    saver.remove("decisions/a.md", message())
    history = saver._repo.history
    assert history.listing("memory", first).keys() == {"memory/decisions/a.md"}
    assert history.listing("memory").keys() == {"memory/decisions/b.md"}
    assert saver._repo.show("memory/decisions/a.md", first) == b"# a\n"
    assert saver._repo.show("memory/decisions/a.md") is None


def test_trees_are_spliced_in_gits_order(repo: Path) -> None:
    names = ["a", "a.b", "a-b", "a/x", "a0", "b/c/d", "b.c", "z"]
    made: dict[str, trees.Tree] = {}

    def keep(data: bytes, tree: trees.Tree) -> str:
        oid = git(repo, "hash-object", "-w", "-t", "tree", "--stdin", input=data)
        made[oid] = tree
        return oid

    blob = git(repo, "hash-object", "-w", "--stdin", input=b"x")
    changes: dict[str, str | None] = {f"{name}.md": blob for name in names}
    root, _ = trees.splice(made.__getitem__, keep, None, changes)
    assert sorted(git(repo, "ls-tree", "-r", "--name-only", root).splitlines()) == sorted(changes)
    git(repo, "fsck", "--strict")
    assert trees.find(made.__getitem__, root, "b/c/d.md") == (b"100644", blob)
    assert trees.find(made.__getitem__, root, "b/c/d.md/e") is None
    empty, _ = trees.splice(made.__getitem__, keep, root, dict.fromkeys(changes))
    assert empty == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_several_logs_from_one_question_follow_every_name(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", "# a\n" + BODY)
    write(path / "memory/other.md", "# other\n")
    added = commit(path, "add")
    for old, new in (("a", "b"), ("b", "c"), ("c", "d")):
        git(path, "mv", f"memory/{old}.md", f"memory/{new}.md")
        commit(path, f"to {new}")
        write(path / f"memory/{new}.md", f"# {new}\n" + BODY)
        commit(path, f"edit {new}")
    history = Repo.discover(path).history
    subjects = ["edit d", "to d", "edit c", "to c", "edit b", "to b", "add"]
    for first in (added, ""):
        logs = history.logs({"memory/d.md": first, "memory/other.md": first})
        assert [one.commit.subject for one in logs["memory/d.md"]] == subjects
        assert [one.commit.subject for one in logs["memory/other.md"]] == ["add"]
        assert [one.path for one in logs["memory/d.md"]][-2:] == ["memory/b.md", "memory/a.md"]
    assert history.logs({"memory/none.md": ""}) == {"memory/none.md": ()}


def test_what_comes_back_under_its_name_keeps_its_first_commit_unless_it_is_another(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/old.md", "# a\n" + BODY)
    first = commit(path, "add")
    git(path, "mv", "memory/old.md", "memory/a.md")
    commit(path, "rename")
    git(path, "rm", "-q", "memory/a.md")
    commit(path, "remove")
    write(path / "memory/a.md", "# a\n\nSaid anew.\n")
    back = commit(path, "write anew")
    history = Repo.discover(path).history
    walk = history.walk("memory")
    assert (walk.births["memory/a.md"].commit.id, walk.births["memory/a.md"].first_path) == (first, "memory/old.md")
    assert [edit.commit.id for edit in walk.edits["memory/a.md"]] == [back]
    assert walk.removed == {}
    assert walk.ended == {"memory/old.md", "memory/a.md"}
    subjects = [one.commit.subject for one in history.log("memory/a.md")]
    assert subjects == ["write anew", "remove", "rename", "add"]

    class Other(ByPath):
        def __call__(self, first_path: str, before: str, after: str) -> bool:
            return False

    assert history.walk("memory", same=Other()).births["memory/a.md"].commit.id == back
    assert [one.commit.id for one in history.logs({"memory/a.md": ""}, Other())["memory/a.md"]] == [back]


def test_two_branches_that_give_each_others_names_to_their_files(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    firsts = {}
    for branch, mine, theirs in (("one", "a", "b"), ("two", "b", "a")):
        git(path, "checkout", "-q", "-b", branch, "main")
        write(path / f"memory/{mine}.md", f"# by {branch}\n" + branch.join(BODY.splitlines(keepends=True)))
        firsts[theirs] = commit(path, f"add on {branch}")
        git(path, "mv", f"memory/{mine}.md", f"memory/{theirs}.md")
        commit(path, f"rename on {branch}")
    git(path, "merge", "-q", "--no-edit", "one")
    history = Repo.discover(path).history
    for name, first in firsts.items():
        assert history.walk("memory").births[f"memory/{name}.md"].commit.id == first
        logs = history.logs({f"memory/{name}.md": first for name, first in firsts.items()})
        assert logs[f"memory/{name}.md"][-1].commit.id == first


@pytest.mark.parametrize("dates", [("1700000000", "1800000000"), ("1800000000", "1700000000")])
def test_a_file_that_two_branches_added_and_a_merge_made_one_has_the_first_commit_that_landed_first(
    tmp_path: Path, dates: tuple[str, str]
) -> None:
    path = make_repo(tmp_path / "repo")
    firsts = []
    for branch, at in zip(("one", "two"), dates, strict=True):
        git(path, "checkout", "-q", "-b", branch, "main")
        write(path / "memory/a.md", f"# a\n{branch}\n")
        git(path, "add", ".")
        git(path, "commit", "-q", "-m", branch, GIT_COMMITTER_DATE=f"{at} +0000")
        firsts.append(git(path, "rev-parse", "HEAD"))
    git(path, "merge", "-q", "--no-edit", "-X", "theirs", "one")
    assert Repo.discover(path).history.walk("memory").births["memory/a.md"].commit.id == firsts[1]
    git(path, "checkout", "-q", "one")
    git(path, "merge", "-q", "--no-ff", "--no-edit", "two")
    assert Repo.discover(path).history.walk("memory").births["memory/a.md"].commit.id == firsts[0]


def test_what_a_merge_decided_is_a_version_and_what_it_took_over_is_none(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    for name in ("a", "b"):
        write(path / f"memory/{name}.md", f"# {name}\n" + BODY)
    commit(path, "add")
    git(path, "switch", "-q", "-c", "side")
    write(path / "memory/a.md", "# a\n" + BODY + "side\n")
    commit(path, "side edits a")
    git(path, "switch", "-q", "main")
    write(path / "memory/b.md", "# b\n" + BODY + "main\n")
    commit(path, "main edits b")
    git(path, "merge", "-q", "-m", "clean merge", "side")
    log = Repo.discover(path).history.logs({"memory/a.md": "", "memory/b.md": ""})
    assert [one.commit.subject for one in log["memory/a.md"]] == ["side edits a", "add"]
    assert [one.commit.subject for one in log["memory/b.md"]] == ["main edits b", "add"]
    git(path, "switch", "-q", "side")
    write(path / "memory/b.md", "# b\n" + BODY + "side\n")
    commit(path, "side edits b")
    git(path, "switch", "-q", "main")
    git(path, "merge", "-q", "side", ok=False)
    write(path / "memory/b.md", "# b\n" + BODY + "both\n")
    commit(path, "resolved")
    log = Repo.discover(path).history.logs({"memory/b.md": ""})
    subjects = [one.commit.subject for one in log["memory/b.md"]]
    assert subjects[0] == "resolved"
    assert set(subjects[1:-1]) == {"side edits b", "main edits b"}
    assert log["memory/b.md"][0].blob == git(path, "rev-parse", "HEAD:memory/b.md")


def test_replacements_and_grafts_are_passed_over_and_told(tmp_path: Path) -> None:
    path = make_repo(tmp_path / "repo")
    for name in "abc":
        write(path / f"memory/{name}.md", f"# {name}\n")
        commit(path, f"add {name}")
    repo = Repo.discover(path)
    before = repo.history.walk("memory").births
    assert repo.revisions.altered() == ""
    write(path / ".git/info/grafts", git(path, "rev-parse", "HEAD") + "\n")
    assert repo.history.walk("memory").births == before
    assert repo.revisions.altered() == "this clone has grafts"
    (path / ".git/info/grafts").unlink()
    git(path, "replace", "--graft", "HEAD", "HEAD~2")
    assert git(path, "log", "--format=%s", "-2") == "add c\nadd a"
    assert repo.history.walk("memory").births == before
    assert repo.revisions.altered() == "this clone has replacement refs"
    git(path, "pack-refs", "--all")
    assert repo.revisions.altered() == "this clone has replacement refs"
