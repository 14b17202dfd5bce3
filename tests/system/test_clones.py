"""What a clone does not hold, and what a work tree holds beyond its commits.

Promises: in a shallow or partial clone answers carry one note, `history is incomplete here`, and name nobody for what
came before it; what is lacking is an error and no empty memory; a sparse checkout that hides the store refuses
decisions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import git, make_repo, write
from tests.system.handmade import commit, day, decision
from tests.system.tools import cli, ok

NOTE = "history is incomplete here"
DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Two decisions on one topic, the first of them older than the last two commits."""
    repo = make_repo(tmp_path / "origin")
    decision(repo, "redis", "caching")
    commit(repo, "Use Redis\n\nAgent: trusted-bot", **day(1))
    write(repo / "code.py", "print('bye')\n")
    commit(repo, "Unrelated", GIT_AUTHOR_NAME="Mallory", **day(2))
    decision(repo, "lru", "caching", "redis", created=3)
    commit(repo, "Use an LRU cache", **day(3))
    git(repo, "config", "uploadpack.allowFilter", "true")
    return repo


def clone(origin: Path, *options: str) -> Path:
    target = origin.parent / "clone"
    git(origin.parent, "clone", "-q", *options, f"file://{origin}", str(target))
    git(target, "config", "user.name", "Ada")
    git(target, "config", "user.email", "ada@example.com")
    return target


def test_a_shallow_clone_says_so_once_and_names_nobody_for_what_came_before(origin: Path) -> None:
    shallow = clone(origin, "--depth", "2")
    told = ok(shallow, "history", "caching")
    assert [step["title"] for step in told["chain"]] == ["Use redis", "Use lru"]
    assert NOTE in str(told["notes"])
    assert NOTE in ok(shallow, "search", "redis")["note"]
    for command in (("history", "caching"), ("search", "redis"), ("get", "decision_redis")):
        out = cli(shallow, *command).out
        assert "trusted-bot" not in out
        assert cli(shallow, "search", "redis").out.count(NOTE) == 1
    assert cli(shallow, "check").code == 0
    assert ok(shallow, *DECISION, "Use figs")["superseded"] == ["decision_lru"]
    git(shallow, "fetch", "-q", "--unshallow")
    assert NOTE not in cli(shallow, "history", "caching").out + cli(shallow, "search").out
    assert ok(shallow, "history", "caching")["chain"][0]["agent"] == "trusted-bot"


def test_the_past_and_the_branches_that_a_shallow_clone_lacks_are_refused(origin: Path) -> None:
    shallow = clone(origin, "--depth", "1")
    for command in (
        ("search", "--at", "2025-01-01"),
        ("diff", "2025-01-01...HEAD"),
        ("check", "--base", "2025-01-01"),
    ):
        done = cli(shallow, *command)
        assert (done.code, NOTE in done.err) == (4, True), done
    assert ok(shallow, "search", "--at", "HEAD")["count"] == 2


def test_a_clone_without_trees_says_what_brings_them(origin: Path) -> None:
    treeless = clone(origin, "--filter=tree:0")
    for command in (("search", "redis"), ("history", "caching")):
        done = cli(treeless, *command)
        assert "git fetch --refetch --no-filter" in done.out + done.err, done


def test_a_partial_clone_tells_what_is_here_and_takes_nothing_for_empty(origin: Path) -> None:
    path = origin / "memory/decisions/redis.md"
    path.write_text(path.read_text() + "More.\n")
    commit(origin, "More", **day(4))
    partial = clone(origin, "--filter=blob:none")
    found = ok(partial, "search")
    assert ({hit["title"] for hit in found["results"]}, NOTE in found["note"]) == (
        {"Use redis", "Use lru"},
        True,
    )
    assert cli(partial, "check").code == 0
    for command in (
        ("search", "--at", "HEAD~1"),
        ("diff", "HEAD~1..HEAD"),
        ("check", "--base", "HEAD~1"),
    ):
        assert cli(partial, *command).code == 7, command
    assert ok(partial, "search", "--at", "HEAD")["count"] == 2


def test_records_outside_a_sparse_checkout_are_missed_aloud(origin: Path) -> None:
    sparse = clone(origin, "--sparse")
    found = ok(sparse, "search", "redis")
    assert (found["count"], "git sparse-checkout add memory" in found["degraded"]) == (0, True)
    done = cli(sparse, "check")
    assert (done.code, "sparse-checkout a sparse checkout leaves out records" in done.out) == (
        1,
        True,
    )
    refused = cli(sparse, *DECISION, "Fork it unseen")
    assert (refused.code, "git sparse-checkout add memory" in refused.err) == (7, True)
    git(sparse, "sparse-checkout", "add", "memory")
    assert "degraded" not in ok(sparse, "search", "redis")
    assert len(ok(sparse, *DECISION, "Use memcached")["superseded"]) == 1
