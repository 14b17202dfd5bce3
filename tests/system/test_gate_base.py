"""What a pull request is held for: `check --base` reports what is wrong with the merge and not with the base.

Promises: nothing that was wrong before is the branch's fault; forks and broken links that only the merge makes are
found; secrets, private records and names that deceive are seen wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.errors import Conflict
from filemem.memory.check import check_records
from filemem.record import Problem
from tests.support import git, write
from tests.system.handmade import commit, decision, opened, reword

SECRET = "ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5f6G7h8"


def told(repo: Path, base: str = "main", *paths: str) -> tuple[Problem, ...]:
    with opened(repo) as store:
        return check_records(store, paths, base)[1]


def found(repo: Path, base: str = "main") -> list[tuple[str, str]]:
    """Path and code of each problem that counts or is advice."""
    return [
        (one.path.removeprefix("memory/"), one.code)
        for one in told(repo, base)
        if one.level != "hint"
    ]


def switch(repo: Path, branch: str, *start: str) -> None:
    git(repo, "switch", "-q", *(["-C"] if start else []), branch, *start)


@pytest.fixture
def feature(repo: Path) -> Path:
    """Two topics on main, one of them decided twice, and a branch `feature` checked out."""
    decision(repo, "redis", "caching")
    decision(repo, "lru", "caching", "redis", created=2)
    decision(repo, "nats", "queues", affects="[code.py]")
    commit(repo, "Decide")
    switch(repo, "feature", "main")
    return repo


def test_a_fork_that_only_the_merge_makes_stops_it(feature: Path) -> None:
    decision(feature, "kafka", "queues", "nats", created=3)
    commit(feature)
    assert found(feature) == []
    switch(feature, "main")
    decision(feature, "rabbit", "queues", "nats", created=4)
    commit(feature)
    switch(feature, "feature")
    assert found(feature) == [("decisions/kafka.md", "forked-topic")], (
        "at the file that the branch brings"
    )
    (fork,) = told(feature)
    assert "memory/decisions/kafka.md, memory/decisions/rabbit.md hold at once" in fork.message
    assert "filemem resolve queues" in fork.message
    git(feature, "merge", "-q", "--no-edit", "main")
    decision(feature, "both", "queues", "kafka", "rabbit", created=5)
    commit(feature)
    assert found(feature) == []


def _remove(repo: Path, path: Path) -> None:
    git(repo, "rm", "-q", str(path))


def _reject(_: Path, path: Path) -> None:
    reword(path, "type: decision", "type: decision\nstatus: rejected")


def _retype(_: Path, path: Path) -> None:
    reword(path, "type: decision", "type: observation")


@pytest.mark.parametrize("edit", [_remove, _reject, _retype])
def test_what_a_branch_breaks_in_files_that_it_leaves_alone(
    feature: Path, edit: Callable[[Path, Path], None]
) -> None:
    """The record that ends a fork goes, and so does a decision that others build on: told at those that stay."""
    switch(feature, "main")
    decision(feature, "sessions", "sessions", builds_on="[decision_nats]")
    decision(feature, "text", "logs")
    decision(feature, "json", "logs")
    end = decision(feature, "both", "logs", "text", "json", created=5)
    commit(feature)
    switch(feature, "feature", "main")
    edit(feature, end)
    edit(feature, feature / "memory/decisions/nats.md")
    commit(feature)
    codes = {code for _, code in found(feature)}
    assert "forked-topic" in codes
    assert ("dangling-edge" in codes) == (edit is _remove)


def test_what_was_wrong_before_is_not_the_branchs_fault(feature: Path) -> None:
    """Also in a file that it edits or moves, and what main brought meanwhile."""
    switch(feature, "main")
    path = decision(feature, "old", "logs", confidence="high", builds_on="[decision_gone]")
    broken = write(
        feature / "memory/decisions/broken.md", "---\ntopic: [a\ntags: b\n---\n# Broken\n\nText.\n"
    )
    write(feature / "memory/README.md", f"token: {SECRET}\n")
    commit(feature)
    switch(feature, "feature", "main")
    reword(path, "Line 3", "Another line")
    reword(broken, "tags: b", "tags: c")
    git(feature, "mv", str(path), str(path.with_name("moved.md")))
    commit(feature)
    switch(feature, "main")
    decision(feature, "bad", "bad", confidence="high")
    commit(feature)
    switch(feature, "feature")
    assert found(feature) == []
    assert {"bad-confidence", "dangling-edge", "yaml-syntax", "secret"} <= {
        one.code for one in told(feature, "")
    }
    reword(path.with_name("moved.md"), "confidence: high", "confidence: low")
    commit(feature)
    assert found(feature) == [("decisions/moved.md", "bad-confidence")]


def test_what_git_cannot_merge_is_told(repo: Path) -> None:
    changed, removed = decision(repo, "changed", "a"), decision(repo, "removed", "b")
    commit(repo)
    switch(repo, "feature", "main")
    for branch in ("main", "feature"):
        switch(repo, branch)
        reword(changed, "Line 5", f"Words of {branch}")
        if branch == "main":
            removed.unlink()
        else:
            reword(removed, "Line 5", "Other words")
        commit(repo)
    torn = [("decisions/changed.md", "merge-conflict"), ("decisions/removed.md", "merge-conflict")]
    assert found(repo) == torn
    git(repo, "merge", "-q", "main", ok=False)
    assert len(git(repo, "diff", "--name-only", "--diff-filter=U").splitlines()) == 2


def test_an_id_belongs_to_the_older_record(feature: Path) -> None:
    text = "---\nid: decision_lru\ntopic: other\ncreated: 2025-02-01\nsupersedes: []\n---\n# Mine\n"
    write(feature / "memory/decisions/aaa.md", text)
    commit(feature)
    assert found(feature) == [("decisions/aaa.md", "duplicate-id")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("memory/README.md", f"# Memory\n\ntoken: {SECRET}\n"),
        ("memory/.forgotten/" + "0" * 64, f"{SECRET}\n"),
        (f"memory/decisions/{SECRET}.md", "---\ntopic: t\n---\n# T\n\nText.\n"),
    ],
)
def test_a_secret_anywhere_below_the_store_is_seen(feature: Path, path: str, text: str) -> None:
    write(feature / path, text)
    commit(feature)
    assert [code for _, code in found(feature)] == ["secret"]
    assert SECRET not in str(told(feature)) + str(told(feature, ""))
    switch(feature, "main")
    git(feature, "merge", "-q", "feature")
    switch(feature, "later", "main")
    write(feature / "memory/more.txt", "More.\n")
    commit(feature)
    assert found(feature) == [], "it was there before"


def test_private_records_are_not_for_git(feature: Path) -> None:
    private = "---\ntype: observation\nvisibility: private\n---\n# Mine too\n\nText.\n"
    write(feature / "memory/private/observations/a.md", "# Mine\n\nText.\n")
    write(feature / "memory/observations/b.md", private)
    assert "private-committed" not in {one.code for one in told(feature, "")}
    commit(feature)
    paths = ["observations/b.md", "private/observations/a.md"]
    assert [path for path, code in found(feature) if code == "private-committed"] == paths
    assert [path for path, code in found(feature, "") if code == "private-committed"] == paths


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("decisions/zz\u202egnp.md", "hidden-character"),
        ("decisions/a\x1bb.md", "file-name"),
    ],
)
def test_names_that_deceive(feature: Path, path: str, code: str) -> None:
    switch(feature, "main")
    for name in ("x", "\u00e9"):
        decision(feature, name, name)
    commit(feature)
    switch(feature, "feature", "main")
    write(feature / "memory" / path, "---\ntopic: t\nsupersedes: []\n---\n# T\n\nText.\n")
    commit(feature)
    assert [one for _, one in found(feature)] == [code]
    assert "\x1b" not in str([one.path for one in told(feature)])


def test_what_a_branch_hides_is_told(feature: Path) -> None:
    """A tombstone beside the file, a name that is not read, a date that lies ahead, a file too large to read."""
    nats = feature / "memory/decisions/nats.md"
    nats.rename(nats.with_name("AGENTS.md"))
    lru = feature / "memory/decisions/lru.md"
    lru.write_text(lru.read_text() + "word " * 250_000)
    decision(feature, "late", "late")
    reword(feature / "memory/decisions/late.md", "2025-01-01", "2099-01-01")
    commit(feature)
    assert sorted(found(feature)) == [
        ("decisions/AGENTS.md", "hidden-record"),
        ("decisions/late.md", "future-created"),
        ("decisions/lru.md", "too-large"),
    ]


def test_only_what_is_committed_is_merged_and_paths_narrow_it(feature: Path) -> None:
    decision(feature, "bad", "bad", confidence="high")
    decision(feature, "worse", "worse", confidence="low")
    assert found(feature) == []
    commit(feature)
    assert found(feature) == [
        ("decisions/bad.md", "bad-confidence"),
        ("decisions/worse.md", "bad-confidence"),
    ]
    assert [one.path for one in told(feature, "main", "memory/decisions/bad.md")] == [
        "memory/decisions/bad.md"
    ]


def test_a_branch_that_has_nothing_in_common_with_the_base_cannot_be_checked_so(repo: Path) -> None:
    git(repo, "switch", "-q", "--orphan", "other")
    decision(repo, "a", "a")
    commit(repo)
    with opened(repo) as store, pytest.raises(Conflict, match="no history in common"):
        check_records(store, [], "main")


def test_code_that_the_branch_rewrites_and_what_its_commits_say_is_advice(feature: Path) -> None:
    assert found(feature) == []
    git(feature, "rm", "-q", "code.py")
    commit(feature, "Take it out\n\nDecision: decision_nats\nOutcome: failed")
    nats = "decisions/nats.md"
    assert sorted(found(feature)) == [(nats, "drift"), (nats, "evidence")]
    switch(feature, "main")
    git(feature, "merge", "-q", "feature")
    switch(feature, "later", "main")
    commit(feature)
    assert found(feature) == [], "it was there before"
