"""What Git remembers: births through renames, revisions, what was removed."""

from __future__ import annotations

from pathlib import Path

from filemem.memory.saving import Saver
from filemem.repo import Repo, trees
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
