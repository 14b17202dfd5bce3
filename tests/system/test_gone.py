"""A work tree is removed under a server, and a folder under a command: it says so, neither empty nor with a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from filemem.errors import BrokenStore
from filemem.memory import Memory
from tests.support import git, make_repo
from tests.system.tools import FILEMEM, ok, serving_http, talking

CALLS = {
    "save": {"topic": "t", "decision": "d", "reasoning": "r"},
    "search": {"query": "redis"},
    "get": {"id": "Use Redis"},
    "timeline": {"topic": "caching"},
    "load_checkpoint": {},
    "update": {"id": "Use Redis", "outcome": "success", "reason": "r"},
    "delete": {"id": "Use Redis"},
}


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A linked work tree with a decision, inside the folder of its project, which has another."""
    repo = make_repo(tmp_path / "repo")
    ok(repo, "save", "decision", "--topic", "other", "--decision", "Do else", "--reasoning", "r")
    git(repo, "worktree", "add", "-q", "linked", "-b", "linked")
    ok(repo / "linked", "save", "decision", "--topic", "caching", "--decision", "Use Redis", "--reasoning", "r")
    return repo / "linked"


def remove(linked: Path) -> None:
    git(linked.parent, "worktree", "remove", "--force", "linked")


@pytest.mark.parametrize("opened", [True, False], ids=["after a call", "before any"])
def test_a_work_tree_is_removed_under_its_server(linked: Path, opened: bool) -> None:
    with talking(linked) as client:
        if opened:
            client.call("search", query="redis")
        remove(linked)
        for name, arguments in CALLS.items():
            refused = client.refused(name, **arguments)
            assert f"{linked} is gone" in refused["message"], (name, refused)
            assert "start a server again" in refused["hint"]


def test_the_same_over_http(linked: Path) -> None:
    here = Path.cwd()
    os.chdir(linked)
    try:
        with serving_http(Path()) as url:
            remove(linked)
            with talking(url) as client:
                assert "is gone" in client.refused("search", query="redis")["message"]
    finally:
        os.chdir(here)


def test_the_library_says_so(linked: Path) -> None:
    with Memory.open(linked) as memory:
        remove(linked)
        for ask in (lambda: memory.search("redis"), memory.check, memory.topics):
            with pytest.raises(BrokenStore, match="is gone"):
                ask()


@pytest.mark.parametrize("arguments", [["search", "x"], ["save", "checkpoint", "--summary", "s"]], ids=["ask", "save"])
def test_a_command_whose_folder_was_removed(repo: Path, arguments: list[str]) -> None:
    (repo / "away").mkdir()
    script = f"import os, sys; os.rmdir(os.getcwd()); os.execv({FILEMEM!r}, sys.argv)"
    line = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(line, cwd=repo / "away", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "the current folder was removed" in done.stderr
