"""Branch-true: what is on the default branch, since when, and what is only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import git, index_folder, make_repo, write
from tests.system.tools import cli, ok, talking

DECISION = ("save", "decision", "--reasoning", "r", "--topic")


def day(number: int) -> dict[str, Any]:
    at = f"2031-01-{number:02d}T12:00:00Z"
    return {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


def by(repo: Path, topic: str) -> dict[str, Any]:
    """The provenance of the one record on a topic; `get` must say the same."""
    (hit,) = ok(repo, "search", "--topic", topic)["results"]
    assert ok(repo, "get", hit["id"])["results"][0]["by"] == hit["by"]
    return hit["by"]  # type: ignore[no-any-return]


def test_a_record_is_only_on_its_branch_until_it_is_merged(repo: Path) -> None:
    first = ok(repo, *DECISION, "caching", "--decision", "Use Redis")
    told = by(repo, "caching")
    assert (told["merged"], told["landed"]) == (True, told["date"])
    assert "default" not in told
    git(repo, "switch", "-q", "-c", "feature")
    ok(repo, *DECISION, "queues", "--decision", "Use NATS")
    told = by(repo, "queues")
    assert (told["branch"], told["default"], told["merged"]) == ("feature", "main", False)
    assert "landed" not in told
    assert by(repo, "caching")["landed"] == by(repo, "caching")["date"]
    assert "only on feature" in cli(repo, "search", "NATS").out
    assert "on main since" in cli(repo, "search", "Redis").out
    ok(repo, "update", first["id"], "--outcome", "failed", "--reason", "slow")
    assert by(repo, "caching")["differs"] is True
    assert "in another version" in cli(repo, "search", "Redis").out
    git(repo, "switch", "-q", "main")
    assert "differs" not in by(repo, "caching")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "feature", **day(9))
    told = by(repo, "queues")
    assert (told["merged"], told["landed"][:10]) == (True, "2031-01-09")
    assert told["date"] < told["landed"], "it was written before it landed"
    assert "only on" not in cli(repo, "search", "NATS").out
    with talking(repo) as client:
        assert client.call("search", topic="queues")["results"][0]["by"] == told
        git(repo, "switch", "-q", "-c", "other")
        client.call("save", topic="logs", decision="JSON lines", reasoning="r")
        (hit,) = client.call("search", topic="logs")["results"]
        assert hit["by"]["merged"] is False


def test_squash_merges_and_rebases_land_records_too(repo: Path) -> None:
    git(repo, "switch", "-q", "-c", "feature")
    ok(repo, *DECISION, "caching", "--decision", "Use Redis")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--squash", "feature")
    git(repo, "commit", "-q", "-m", "Caching (#1)", **day(3))
    assert by(repo, "caching")["landed"][:10] == "2031-01-03"
    git(repo, "switch", "-q", "feature")
    told = by(repo, "caching")
    assert told["merged"] is True, "its files are there, whatever commit brought them"
    assert told["landed"].startswith("unknown: another commit brought it there"), "that one is not this record's"
    assert "on main, since when is unknown: another commit" in cli(repo, "search", "Redis").out
    git(repo, "mv", "memory/decisions/caching", "memory/decisions/cache")
    git(repo, "commit", "-q", "-m", "rename")
    assert by(repo, "caching")["merged"] is True


def test_the_remotes_default_branch_counts_where_it_is_ahead(tmp_path: Path) -> None:
    origin = make_repo(tmp_path / "origin")
    git(origin, "branch", "-m", "trunk")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
        git(clone, "config", name, value)
    git(clone, "switch", "-q", "-c", "feature")
    ok(clone, *DECISION, "caching", "--decision", "Use Redis")
    assert (by(clone, "caching")["merged"], by(clone, "caching")["default"]) == (False, "trunk")
    git(clone, "push", "-q", "origin", "feature:trunk", ok=False)
    git(origin, "config", "receive.denyCurrentBranch", "ignore")
    git(clone, "push", "-q", "origin", "feature:trunk")
    git(clone, "fetch", "-q")
    assert by(clone, "caching")["merged"] is True, "the branch here is behind, the remote's has it"


def test_where_no_default_branch_can_be_told_nothing_is_said(repo: Path) -> None:
    git(repo, "branch", "-m", "somewhere")
    ok(repo, *DECISION, "caching", "--decision", "Use Redis")
    assert not {"merged", "landed", "default"} & by(repo, "caching").keys()


def test_an_uncommitted_record_stands_nowhere(repo: Path) -> None:
    write(repo / "memory/decisions/new.md", "---\ntopic: caching\n---\n# Not committed\n")
    (hit,) = ok(repo, "search", "--topic", "caching")["results"]
    assert "by" not in hit


def test_a_damaged_or_deleted_note_of_landings_changes_no_answer(repo: Path) -> None:
    for number in range(3):
        ok(repo, *DECISION, "caching", "--decision", f"Use cache {number}")
    right = ok(repo, "search")["results"]
    (file,) = index_folder(repo).parent.glob("landed-*")
    whole = file.read_bytes()
    assert all("landed" in hit["by"] for hit in right)
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        ok(repo, "index", "--rebuild") if at % 2 else ok(repo, "index")
        assert ok(repo, "search")["results"] == right, at
    file.unlink()
    ok(repo, "index", "--rebuild")
    assert ok(repo, "search")["results"] == right
