"""As of then: the memory as it was at a commit, tag or date, from Git's objects alone.

Promises: everything that reads answers as it was then; nothing of the work tree is read or touched; a date means the
last commit that was on this branch by then; what cannot be resolved is refused with what was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import BadInput, NotFound
from filemem.memory import Memory
from filemem.memory.snapshot import PastStore, resolve_moment
from tests.support import git, make_repo, write
from tests.system.handmade import commit, day, opened
from tests.system.tools import cli, ok, snapshot, talking


def by_hand(title: str, created: str, **keys: str) -> str:
    header = "".join(
        f"{key}: {value}\n"
        for key, value in {"topic": "caching", "created": created, **keys}.items()
    )
    return f"---\n{header}---\n# {title}\n\nBecause of the cache.\n"


def put(repo: Path, name: str, text: str, number: int) -> str:
    """Commit a hand-written decision on a day of January 2025."""
    write(repo / f"memory/decisions/{name}.md", text)
    return commit(repo, f"day {number}", **day(number))


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Redis on day 1, tagged v1; an LRU cache on day 3; Redis is renamed on day 4."""
    repo = make_repo(tmp_path / "repo", commit=False)
    put(repo, "redis", by_hand("Use Redis", "2025-01-01"), 1)
    git(repo, "tag", "-a", "-m", "Ship", "v1")
    put(repo, "lru", by_hand("Use an LRU cache", "2025-01-03", confidence="0.9"), 3)
    git(repo, "mv", "memory/decisions/redis.md", "memory/decisions/old.md")
    git(repo, "commit", "-q", "-m", "rename", **day(4))
    return repo


def titles(answer: dict[str, Any]) -> list[str]:
    return [hit["title"] for hit in answer["results"]]


def test_everything_that_reads_answers_as_it_was(shipped: Path) -> None:
    write(shipped / "memory/checkpoints/half.md", "---\ntype: checkpoint\n---\n# Half done\n")
    commit(shipped, "Half", **day(5))
    then = git(shipped, "rev-parse", "v1^{commit}")
    found = ok(shipped, "search", "cache", "--at", "v1")
    assert titles(found) == ["Use Redis"]
    assert (found["results"][0]["holds"], found["results"][0]["path"]) == (
        True,
        "memory/decisions/redis.md",
    )
    assert (found["at"]["name"], found["at"]["commit"]) == ("v1", then)
    told = ok(shipped, "history", "caching", "--at", "v1")
    assert [(step["title"], step.get("revisions")) for step in told["chain"]] == [
        ("Use Redis", None)
    ]
    assert (
        ok(shipped, "get", "memory/decisions/redis.md", "--at", "v1")["results"][0]["title"]
        == "Use Redis"
    )
    assert ok(shipped, "topics", "--at", "v1")["topics"][0]["decisions"] == 1
    assert ok(shipped, "checkpoint", "--at", "v1")["checkpoint"] is None
    assert ok(shipped, "checkpoint")["checkpoint"]["title"] == "Half done"
    now = ok(shipped, "search", "cache", "--type", "decision")
    assert (titles(now), "at" in now) == (["Use an LRU cache", "Use Redis"], False)
    assert (
        f"commit {then[:10]} of 2025-01-01"
        in cli(shipped, "search", "cache", "--at", "v1").out.splitlines()[0]
    )


def test_what_a_revision_or_a_date_means(shipped: Path) -> None:
    then = git(shipped, "rev-parse", "v1^{commit}")
    with opened(shipped) as store:
        for asked in (
            "v1",
            "2025-01-02",
            "20250102",
            "2025-W01-4",
            "HEAD~2",
            "v1^0",
            "2025-01-02T23:00:00Z",
        ):
            found = resolve_moment(store, asked)
            assert (found.id, found.name, found.committed_at) == (then, asked, 1_735_732_800_000)


NO_MOMENTS = {
    "v2": "did you mean v1?",
    "mian": "did you mean main?",
    "zzzzzzzzzz": "give a commit, tag or branch, a date such as 2025-11-20",
    "2024-12-31": "ask for a later moment",
    **dict.fromkeys(
        ("main..HEAD", "--all", "HEAD:memory", "v1^{tree}", "HEAD~99", "0" * 40, "x" * 400), ""
    ),
}


def test_what_means_nothing_is_refused(shipped: Path) -> None:
    with opened(shipped) as store:
        for asked, hint in NO_MOMENTS.items():
            with pytest.raises(NotFound) as refused:
                resolve_moment(store, asked)
            assert hint in refused.value.hint, asked
        with pytest.raises(BadInput, match="at is empty"):
            resolve_moment(store, " ")


def test_a_date_is_what_the_branch_went_through_and_not_what_it_merged(shipped: Path) -> None:
    git(shipped, "switch", "-q", "-c", "side", "v1")
    put(shipped, "side", by_hand("On the side", "2025-01-02", topic="side"), 2)
    git(shipped, "switch", "-q", "main")
    git(shipped, "merge", "-q", "--no-edit", "side", **day(9))
    with Memory.open(shipped) as memory:
        assert [hit.title for hit in memory.at("2025-01-02").search()] == ["Use Redis"], (
            "merged only on day 9"
        )
        assert "On the side" in [hit.title for hit in memory.at("2025-01-09").search()]
        assert "On the side" in [hit.title for hit in memory.at("side").search()]


def test_over_mcp_and_in_python(shipped: Path) -> None:
    with talking(shipped) as client:
        assert titles(client.call("search", query="cache", at="v1")) == ["Use Redis"]
        assert len(client.call("timeline", topic="caching", at="v1")["chain"]) == 1
        gone = client.refused("get", id="lru", at="v1")
        assert gone["kind"] == "not_found"
        assert len(client.call("search", query="cache")["results"]) == 2
    with Memory.open(shipped) as memory:
        then = memory.at("v1")
        assert ([hit.title for hit in then.search("cache")], then.moment.name) == (
            ["Use Redis"],
            "v1",
        )
        attempts: list[Callable[[], object]] = [
            lambda: then.save(text="x"),
            lambda: then.update("redis", outcome="failed"),
            then.refresh,
            then.rebuild,
        ]
        for attempt in attempts:
            with pytest.raises(BadInput, match="cannot be changed"):
                attempt()
        memory.at("HEAD")
        assert [hit.title for hit in then.search("cache")] == ["Use Redis"], (
            "one that is held outlives the next"
        )


def test_nothing_of_the_users_is_touched(shipped: Path) -> None:
    write(shipped / "memory/decisions/lru.md", "# Rewritten, staged\n")
    git(shipped, "add", "-A")
    write(shipped / "memory/decisions/lru.md", "# Rewritten again\n")
    ok(shipped, "search")
    before = snapshot(shipped), (shipped / ".git/index").read_bytes(), git(shipped, "for-each-ref")
    assert titles(ok(shipped, "search", "cache", "--at", "v1")) == ["Use Redis"]
    assert titles(ok(shipped, "search", "cache", "--at", "HEAD")) == [
        "Use an LRU cache",
        "Use Redis",
    ]
    assert (
        snapshot(shipped),
        (shipped / ".git/index").read_bytes(),
        git(shipped, "for-each-ref"),
    ) == before


def test_what_is_found_at_a_commit_is_what_a_checkout_of_it_finds(shipped: Path) -> None:
    write(shipped / "memory/decisions/plain.md", "# Keep it plain\n\nSupersedes: old.md\n")
    commit(shipped, "Plain", **day(6))
    git(shipped, "worktree", "add", "-q", "--detach", "../there")
    with Memory.open(shipped) as memory:
        for at in git(shipped, "rev-list", "HEAD").split():
            git(shipped.parent / "there", "checkout", "-q", at)
            with Memory.open(shipped.parent / "there") as there:
                wanted = [
                    (hit.id, hit.title, hit.superseded_by, hit.created) for hit in there.search()
                ]
            assert [
                (hit.id, hit.title, hit.superseded_by, hit.created)
                for hit in memory.at(at).search()
            ] == wanted


def test_before_the_first_commit_and_before_the_store(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    done = cli(repo, "search", "--at", "HEAD")
    assert (done.code, "nothing is committed yet" in done.err) == (4, True)
    write(repo / "code.py", "")
    commit(repo, "Begin", **day(1))
    put(repo, "redis", by_hand("Use Redis", "2025-01-02"), 2)
    assert ok(repo, "search", "redis", "--at", "HEAD~1")["count"] == 0
    assert cli(repo, "get", "redis", "--at", "HEAD~1").code == 4


def test_a_past_that_was_asked_before_reads_no_file_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(repo) as memory:
        saved = memory.save(topic="storage", decision="Use SQLite", reasoning="One file")
        memory.update(saved.id, outcome="failed", reason="locked too often")
        memory.keeper.update_index(rebuild=True)
        first = memory.at("HEAD~1").search("sqlite").hits

    def none(*_: object) -> tuple[()]:
        raise AssertionError("a file was read")

    monkeypatch.setattr(PastStore, "_iter_documents", none)
    with Memory.open(repo) as memory:
        assert memory.at("HEAD~1").search("sqlite").hits == first
