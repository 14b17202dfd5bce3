"""Records that go back from a branch of their own to the branches of the code, as docs/sharing.md tells it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support import git
from tests.system.test_astray import known, moved, remove, shell, take_along
from tests.system.test_sharing import DECISION, clone, hub
from tests.system.tools import cli, ok, process

__all__ = ["hub"]
DOCS = Path(__file__).parents[2] / "docs/sharing.md"


def saved(clone: Path, *options: str) -> str:
    return str(ok(clone, "save", *options)["path"])


@pytest.fixture
def moved_there(hub: Path) -> tuple[Path, Path]:
    """Two clones of a project whose records have a branch of their own, in each of which something was saved since."""
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    ok(ada, "init")
    git(ada, "add", "-A")
    git(ada, "commit", "-q", "-m", "init")
    ok(ada, *DECISION, "Use Redis")
    moved(ada)
    take_along(ada)
    remove(ada)
    ok(ada, "sync")
    git(ada, "push", "-q")
    git(bob, "pull", "-q")
    ok(bob, "init")
    ok(bob, *DECISION, "Use an LRU cache")
    ok(bob, "sync")
    ok(ada, "sync")
    ok(ada, "update", "Use an LRU cache", "--outcome", "failed", "--reason", "slow")
    saved(ada, "observation", "--title", "Mine", "--text", "x", "--visibility", "private")
    ok(ada, "sync")
    return ada, bob


def go_back(ada: Path) -> None:
    """Do what the page says, but for the first row, which is done."""
    page = DOCS.read_text().partition("### Moving back")[2]
    rows = re.sub(r"(?m)^\$ ", "", page.split("```")[1].partition("\n")[2]).splitlines()
    first, *others = rows
    assert first.split("#")[0].strip() == "filemem sync"
    for row in others:
        for command in row.split("#")[0].split(" && "):
            if command == "filemem init":
                assert process(ada, "init").code == 0
            else:
                shell(ada, command)


def titles(clone: Path) -> dict[str, str]:
    return {one: title for one, (title, _) in known(clone).items()}


def test_records_go_back(moved_there: tuple[Path, Path]) -> None:
    ada, _ = moved_there
    before = titles(ada)
    go_back(ada)
    assert titles(ada) == before
    assert ok(ada, *DECISION, "Use Memcached")["path"].startswith("memory/")
    assert (git(ada, "status", "--porcelain"), cli(ada, "check").code) == ("", 0)
    assert "stray" not in ok(ada, "status")


def test_another_clone_is_told_and_loses_nothing(moved_there: tuple[Path, Path]) -> None:
    ada, bob = moved_there
    go_back(ada)
    late = saved(bob, "decision", "--topic", "queues", "--decision", "Use NATS", "--reasoning", "r")
    saved(bob, "observation", "--title", "Bob's", "--text", "x", "--visibility", "private")
    git(bob, "fetch", "-q")
    assert "names this branch for the memory no more: pull" in ok(bob, "sync")["hint"]
    git(bob, "pull", "-q")
    told = ok(bob, "status")["stray"]
    words = "memory/ is the memory of this project again, whose settings name the branch filemem no more"
    assert told["told"].startswith(words), told
    assert told["detach"] == "", "only that one has what was saved since"
    for refused in (cli(bob, "init"), cli(bob, *DECISION, "Use Memcached"), cli(bob, "forget", "Use NATS")):
        assert (words in refused.err, "filemem status says what detaches it" in refused.err) == (True, True), refused
    assert not (bob / ".filemem.toml").exists()
    before = titles(bob)
    shell(bob, "cp -R records/. memory/ && rm memory/.git memory/.filemem.toml")
    assert "records/private/ has files that would go with it" in ok(bob, "status")["stray"]["told"]
    shutil.rmtree(bob / "records/private")
    shell(bob, ok(bob, "status")["stray"]["detach"])
    assert titles(bob) == before
    assert (bob / late.replace("records/", "memory/", 1)).exists()
    assert "stray" not in ok(bob, "status")
    assert ok(bob, *DECISION, "Use Memcached")["path"].startswith("memory/")


def test_what_was_edited_on_both_sides_keeps_it_attached(moved_there: tuple[Path, Path]) -> None:
    ada, bob = moved_there
    go_back(ada)
    ok(bob, "update", "Use Redis", "--outcome", "success", "--reason", "fast")
    git(bob, "pull", "-q")
    told = ok(bob, "status")["stray"]
    assert told["detach"] == ""
    assert "; memory/ never had what records/decisions/caching/" in told["told"]
    assert told["compare"].startswith(f"git -C {bob} diff --no-index -- memory/decisions/caching/")
