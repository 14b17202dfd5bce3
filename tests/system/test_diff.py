"""What a branch does to the memory.

Promises: `diff` compares commits by what their files say, never the work tree, whatever is checked out; every record
that a branch touched or hid is listed, and what follows for those that it did not touch; forks show before the merge.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory.diff import compare_revisions
from tests.support import git, write
from tests.system.handmade import commit, decision, opened, reword
from tests.system.tools import cli

NOTHING = "nothing holds on this topic any more"


def effects(repo: Path, text: str = "") -> list[tuple[str, str, list[str], list[str]]]:
    """Kind, title, details but the reason, and titles of others, of each effect."""
    with opened(repo) as store:
        found = compare_revisions(store, text).effects
    details = [
        [detail for detail in one.details if not detail.startswith("why: ")] for one in found
    ]
    return [
        (one.kind, one.title, said, [other.title for other in one.others])
        for one, said in zip(found, details, strict=True)
    ]


def switch(repo: Path, branch: str, *start: str) -> None:
    git(repo, "switch", "-q", *(["-C"] if start else []), branch, *start)


@pytest.fixture
def feature(repo: Path) -> Path:
    """Two topics on main, and a branch `feature` checked out."""
    decision(repo, "redis", "caching")
    decision(repo, "nats", "queues")
    commit(repo, "Decide")
    switch(repo, "feature", "main")
    return repo


def test_nothing_is_touched(feature: Path) -> None:
    write(feature / "code.py", "print('changed')\n")
    write(feature / "memory/README.md", "# Not a record\n")
    commit(feature)
    with opened(feature) as store:
        found = compare_revisions(store, "")
    assert (found.base.name, found.head.name, found.effects) == ("main", "feature", ())
    assert found.start == found.base.id == git(feature, "rev-parse", "main")


def test_new_superseded_outcomes_revised_removed(feature: Path) -> None:
    decision(feature, "lru", "caching", "redis", created=2, confidence="0.8")
    nats = feature / "memory/decisions/nats.md"
    reword(nats, "Line 3", "Another line")
    reword(nats, "topic: queues", "topic: queues\noutcome: failed\ntags: [a]")
    nats.write_text(
        nats.read_text() + "\n## Outcomes\n- 2025-02-01T00:00:00Z failed: loses messages\n"
    )
    write(
        feature / "memory/observations/one.md",
        "---\ntype: observation\n---\n# NATS loses messages\n",
    )
    commit(feature)
    wanted = [
        ("new", "Use lru", [], ["Use redis"]),
        ("new", "NATS loses messages", [], []),
        ("superseded", "Use redis", [], ["Use lru"]),
        ("outcome", "Use nats", ["outcome failed: loses messages"], []),
        ("revised", "Use nats", ["reasoning changed", "tags changed"], []),
    ]
    assert effects(feature) == wanted
    with opened(feature) as store:
        (why,) = compare_revisions(store, "").effects[0].details
    assert why.startswith("why: Line 0 of lru, which stands in lru")
    write(feature / "memory/decisions/more.md", "# Not committed\n")
    assert effects(feature) == wanted, "only commits are compared"
    git(feature, "stash", "-qu")
    switch(feature, "main")
    assert effects(feature, "main...feature") == effects(feature, "...feature") == wanted, (
        "whatever is checked out"
    )
    assert [one[:2] for one in effects(feature, "feature..main")] == [
        ("outcome", "Use nats"),
        ("revised", "Use nats"),
        ("removed", "Use lru"),
        ("removed", "NATS loses messages"),
    ]


def test_renames_and_rebases_are_no_changes_of_what_is_said(feature: Path) -> None:
    decision(feature, "lru", "caching", "redis", created=2)
    commit(feature)
    before = effects(feature)
    switch(feature, "main")
    write(feature / "code.py", "print('main went on')\n")
    commit(feature)
    switch(feature, "feature")
    git(feature, "rebase", "-q", "main")
    assert effects(feature) == before
    git(feature, "mv", "memory/decisions/nats.md", "memory/decisions/moved.md")
    commit(feature)
    assert [one for one in effects(feature) if one not in before] == [
        ("revised", "Use nats", ["renamed from decisions/nats.md"], [])
    ]


def test_what_a_removal_leaves_behind(feature: Path) -> None:
    switch(feature, "main")
    decision(feature, "sessions", "sessions", builds_on="[decision_redis]")
    commit(feature)
    switch(feature, "feature", "main")
    (feature / "memory/decisions/redis.md").unlink()
    reword(
        feature / "memory/decisions/nats.md", "type: decision", "type: decision\nstatus: deprecated"
    )
    commit(feature)
    assert effects(feature) == [
        ("revised", "Use nats", ["status accepted -> deprecated"], []),
        ("removed", "Use redis", [], []),
        ("orphaned", "caching", [NOTHING], ["Use redis"]),
        ("orphaned", "queues", [NOTHING], ["Use nats"]),
        ("orphaned", "Use sessions", ["refers to Use redis, which is removed"], []),
    ]
    decision(feature, "lru", "caching", created=3)
    commit(feature)
    assert "caching" not in [one[1] for one in effects(feature)]


def test_a_proposal_that_is_accepted_did_not_hold_before(feature: Path) -> None:
    new = decision(feature, "lru", "caching", "redis", created=2, status="proposed")
    commit(feature)
    assert effects(feature) == [("new", "Use lru", ["proposed", "would supersede Use redis"], [])]
    switch(feature, "main")
    git(feature, "merge", "-q", "feature")
    switch(feature, "feature")
    reword(new, "status: proposed", "status: accepted")
    commit(feature)
    assert effects(feature) == [
        ("accepted", "Use lru", ["status proposed -> accepted"], []),
        ("superseded", "Use redis", [], ["Use lru"]),
    ]


def test_a_fork_that_only_the_merge_will_show(feature: Path) -> None:
    """Both sides decide one topic; Git sees no conflict, the comparison does, before and after the merge."""
    decision(feature, "lru", "caching", "redis", created=2)
    commit(feature)
    switch(feature, "main")
    decision(feature, "memcached", "caching", "redis", created=3)
    decision(feature, "kafka", "queues", "nats", created=3)
    commit(feature)
    switch(feature, "feature")
    both = ["Use lru", "Use memcached"]
    when = "when merged: the other side has decided it too"
    assert [one for one in effects(feature) if one[0] == "forked"] == [
        ("forked", "caching", [when], both)
    ]
    assert not [one for one in effects(feature, "main..feature") if one[0] == "forked"], (
        "two states as they are"
    )
    git(feature, "merge", "-q", "--no-edit", "main")
    assert [one for one in effects(feature) if one[0] == "forked"] == [
        ("forked", "caching", [], both)
    ]
    decision(feature, "levels", "caching", "lru", "memcached", created=5)
    commit(feature)
    found = effects(feature)
    assert "forked" not in [one[0] for one in found]
    assert ("superseded", "Use memcached", [], ["Use levels"]) in found


@pytest.mark.parametrize("way", ["tombstone", "suffix", "folder", "link", "padded"])
def test_a_branch_cannot_hide_a_decision_unseen(feature: Path, way: str) -> None:
    """Whatever takes a record out of the answers is its removal."""
    path = feature / "memory/decisions/redis.md"
    match way:
        case "tombstone":
            write(feature / "memory/.forgotten" / hashlib.sha256(b"decision_redis").hexdigest(), "")
        case "suffix":
            path.rename(path.with_suffix(".txt"))
        case "folder":
            (feature / "memory/.hidden").mkdir()
            path.rename(feature / "memory/.hidden/redis.md")
        case "link":
            path.unlink()
            path.symlink_to("/etc/hostname")
        case _:
            path.write_text(path.read_text() + "x" * 2**20)
    commit(feature)
    wanted = [("removed", "Use redis", [], []), ("orphaned", "caching", [NOTHING], ["Use redis"])]
    assert effects(feature) == wanted
    switch(feature, "main")
    assert effects(feature, "main...feature") == wanted
    assert effects(feature, "feature..main") == [("new", "Use redis", [], [])]


def test_ranges_that_cannot_be_compared(feature: Path) -> None:
    with opened(feature) as store:
        with pytest.raises(NotFound) as unknown:
            compare_revisions(store, "mian...HEAD")
        assert "did you mean main?" in unknown.value.hint
        with pytest.raises(NotFound, match="range: no commit, tag, branch or date"):
            compare_revisions(store, "@{u}...HEAD")
    switch(feature, "main")
    with (
        opened(feature) as store,
        pytest.raises(BadInput, match="main is the default branch: nothing"),
    ):
        compare_revisions(store, "")
    git(feature, "switch", "-q", "--orphan", "apart")
    write(feature / "memory/decisions/apart.md", "# Another beginning\n")
    commit(feature)
    with opened(feature) as store, pytest.raises(Conflict) as apart:
        compare_revisions(store, "")
    assert "main and apart have no history in common" in apart.value.message
    assert "filemem diff main..apart" in apart.value.hint
    assert sorted(one[0] for one in effects(feature, "main..apart")) == [
        "new",
        *["orphaned"] * 2,
        *["removed"] * 2,
    ]


def test_on_the_default_branch_it_is_compared_with_the_remotes(
    feature: Path, tmp_path: Path
) -> None:
    switch(feature, "main")
    git(tmp_path, "clone", "-q", str(feature), "clone")
    decision(tmp_path / "clone", "lru", "caching", "redis", created=2)
    commit(tmp_path / "clone")
    with opened(tmp_path / "clone") as store:
        found = compare_revisions(store, "")
    assert (found.base.name, found.head.name) == ("origin/main", "main")
    assert [one.kind for one in found.effects] == ["new", "superseded"]


def test_a_comment_is_one_block_of_code_that_no_title_can_end(feature: Path) -> None:
    write(
        feature / "memory/decisions/bad.md",
        "---\ntopic: '```'\n---\n# ```<b> @everyone [a](b)\n\nText.\n",
    )
    commit(feature)
    rows = cli(feature, "diff", "--format", "markdown").out.splitlines()
    assert (rows[0], rows[-1]) == ("```diff", "```")
    assert not [
        row for row in rows[1:-1] if row.lstrip().startswith("```") and not row.startswith("    ")
    ]
    assert any(row.startswith("+ ```<b> @everyone [a](b)") for row in rows)
    switch(feature, "main")
    assert "main against main: no record is touched" in cli(feature, "diff", "main...main").out
