"""A memory on a branch of its own: the same verbs, and the code's history stays clean.

A memory that should be there and is not is an error that says what brings it, never an empty memory; and attaching it
writes over nothing.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from filemem.errors import BrokenStore, Conflict, NotFound
from filemem.memory import Memory, own_branch
from filemem.repo import Repo
from tests.support import git, write
from tests.system.test_sync import clone, hub, opened, save, synced
from tests.system.tools import talking

__all__ = ["hub"]
AT = 1_763_650_000_000
FILES = {".filemem.toml": b'store = "."\n', "README.md": b"# Memory\n"}


def attach(
    path: Path, name: str = "memory", branch: str = "filemem", *, begin: bool = False
) -> str:
    """What `filemem init --own-branch` does of it, or `filemem init` in a clone."""
    with closing(Repo.discover(path)) as code:
        return own_branch.attach_work_tree(code, name, branch, FILES if begin else None, AT)


def plan(path: Path, name: str = "memory", branch: str = "filemem", *, begin: bool = True) -> str:
    with closing(Repo.discover(path)) as code:
        return own_branch.attach_work_tree(
            code, name, branch, FILES if begin else None, AT, dry_run=True
        )


def titles(path: Path) -> set[str]:
    with opened(path) as memory:
        return {hit.title for hit in memory.search()}


@pytest.fixture
def ada(hub: Path) -> Path:
    """A clone whose memory has a branch of its own, with one decision in it."""
    path = clone(hub, "ada")
    assert attach(path, begin=True) == "a work tree of the branch filemem, which begins empty"
    write(path / ".filemem.toml", 'branch = "filemem"\n')
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "init")
    git(path, "push", "-q")
    save(path)
    return path


def test_the_work_tree_of_the_memory_is_none_that_a_server_speaks_of(ada: Path) -> None:
    with talking(ada) as talk:
        assert "notice" not in talk.call("search", query="redis")


def test_from_the_beginning_to_a_second_clone(hub: Path, ada: Path) -> None:
    assert git(ada, "status", "--porcelain") == git(ada / "memory", "status", "--porcelain") == ""
    assert git(ada, "log", "-1", "--format=%s") == "init", "the code's history stays clean"
    subjects = git(ada, "log", "--format=%s", "filemem").splitlines()
    assert subjects == ["decision(caching): Use Redis", "memory: begin"]
    with opened(ada) as memory:
        hit = next(iter(memory.search("redis")))
        assert hit.path.startswith("memory/decisions/")
        assert "/caching--" in hit.path
    assert titles(ada / "memory") == {"Use Redis"}, "from inside it, too"
    git(ada, "switch", "-q", "-c", "side")
    assert titles(ada) == {"Use Redis"}, "every branch sees it"

    bob = clone(hub, "bob")
    with pytest.raises(BrokenStore, match="not attached here") as told, opened(bob):
        pass
    assert "`filemem init` attaches it" in told.value.hint
    with pytest.raises(NotFound, match="no branch filemem here or on origin"):
        attach(bob)
    assert synced(ada).sent == 2
    assert attach(bob) == "a work tree of the branch filemem, from origin/filemem"
    assert attach(bob) == "", "it is attached already"
    assert (titles(bob), git(bob, "status", "--porcelain")) == ({"Use Redis"}, "")
    save(bob, "Use containers", "deploy")
    assert synced(bob).sent == 1
    save(ada, "Use NATS", "queues")
    assert (synced(ada).received, synced(bob).left) == (1, "")
    assert titles(bob) == titles(ada) == {"Use Redis", "Use containers", "Use NATS"}


def test_every_work_tree_of_the_code_uses_the_one_memory(ada: Path, tmp_path: Path) -> None:
    git(ada, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(ada, "worktree", "add", "-q", "-b", "old", str(tmp_path / "old"), "HEAD~1")
    for place in ("side", "old"):
        assert titles(tmp_path / place) == {"Use Redis"}, place
    save(tmp_path / "old", "Use containers", "deploy")
    git(ada, "switch", "-q", "--detach", "HEAD~1")
    assert titles(ada) == {"Use Redis", "Use containers"}, "where no settings name the branch, too"


def test_a_clone_of_a_branch_older_than_the_memory_does_not_look_as_if_nothing_was_saved(
    hub: Path, ada: Path
) -> None:
    git(hub, "branch", "old", "main~1")
    git(hub.parent, "clone", "-q", "-b", "old", str(hub), "bob")
    with pytest.raises(
        BrokenStore, match="the branch filemem, and its work tree memory/ is not attached"
    ):
        Memory.open(hub.parent / "bob")


def test_two_that_begin_it_apart_come_together(hub: Path, ada: Path) -> None:
    bob = clone(hub, "bob")
    attach(bob, begin=True)
    save(bob, "Use containers", "deploy")
    synced(ada)
    assert (synced(bob).left, synced(ada).left) == ("", "")
    assert titles(ada) == titles(bob) == {"Use Redis", "Use containers"}


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (lambda path: git(path, "switch", "-q", "-c", "filemem"), "checked out already"),
        (
            lambda path: git(path, "branch", "filemem"),
            "is no memory: its .filemem.toml does not say",
        ),
        (lambda path: write(path / "memory/x.md", "x"), "already exists and is not empty"),
    ],
)
def test_nothing_is_attached_over_anything(repo: Path, begin: object, told: str) -> None:
    begin(repo)  # type: ignore[operator]
    before = git(repo, "status", "--porcelain"), git(repo, "for-each-ref")
    for call in (plan, lambda path, **_: attach(path, begin=True)):
        with pytest.raises(Conflict, match=told):
            call(repo)
    assert (git(repo, "status", "--porcelain"), git(repo, "for-each-ref")) == before


def test_a_folder_that_a_commit_of_the_code_has_files_in_is_refused(repo: Path) -> None:
    """What is hidden from the code's branches, Git writes over where it checks such a commit out."""
    write(repo / "memory/x.md", "x")
    for words in ("add", "remove"):
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", words)
        (repo / "memory/x.md").unlink(missing_ok=True)
    (repo / "memory").rmdir()
    with pytest.raises(Conflict, match="Git would write over the memory"):
        attach(repo, begin=True)
    assert plan(repo, "records") == "a work tree of the branch filemem"


def test_all_of_the_branch_is_the_memory_whatever_its_own_settings_say(ada: Path) -> None:
    for text in ("", 'store = "notes"\n', 'branch = "other"\n', "no TOML ["):
        write(ada / "memory/.filemem.toml", text)
        git(ada / "memory", "commit", "-q", "-a", "-m", "x")
        assert titles(ada) == {"Use Redis"}, text


def test_its_git_index_is_split_and_a_large_one_of_the_users_is_only_spoken_of(
    ada: Path, repo: Path
) -> None:
    with Memory.open(ada) as memory:
        memory.save(topic="index", decision="Split it", reasoning="It is ours")
    shared = git(ada / "memory", "rev-parse", "--shared-index-path")
    assert shared, "what was saved last is written alone"
    assert git(ada / "memory", "status", "--porcelain") == ""
    with Memory.open(repo) as memory:
        assert "settings" not in memory.status()
        blob = git(repo, "rev-parse", "HEAD:code.py")
        rows = "".join(f"100644 {blob}\tcode/{at}.py\n" for at in range(50_001))
        git(repo, "update-index", "--index-info", input=rows.encode())
        assert "50,002 entries" in memory.status()["settings"]
        assert git(repo, "rev-parse", "--shared-index-path") == ""
