"""Branch-true: what is on the default branch, since when, and what is only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import git, write
from tests.system.handmade import commit, day, decision
from tests.system.tools import cli, ok


def by(repo: Path, topic: str) -> dict[str, Any]:
    """The provenance of the one record on a topic; `get` must say the same."""
    (hit,) = ok(repo, "search", "--topic", topic)["results"]
    assert ok(repo, "get", hit["id"])["results"][0]["by"] == hit["by"]
    return hit["by"]  # type: ignore[no-any-return]


def test_a_record_is_only_on_its_branch_until_it_is_merged(repo: Path) -> None:
    decision(repo, "redis", "caching")
    commit(repo, **day(1))
    told = by(repo, "caching")
    assert (told["merged"], told["landed"]) == (True, told["date"])
    git(repo, "switch", "-q", "-c", "feature")
    decision(repo, "nats", "queues")
    commit(repo, **day(2))
    told = by(repo, "queues")
    assert (told["branch"], told["default"], told["merged"], "landed" in told) == (
        "feature",
        "main",
        False,
        False,
    )
    assert "only on feature" in cli(repo, "search", "nats").out
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "feature", **day(9))
    told = by(repo, "queues")
    assert (told["merged"], told["date"][:10], told["landed"][:10]) == (
        True,
        "2025-01-02",
        "2025-01-09",
    )
    assert "only on" not in cli(repo, "search", "nats").out


def test_squash_merges_land_records_too(repo: Path) -> None:
    git(repo, "switch", "-q", "-c", "feature")
    decision(repo, "redis", "caching")
    commit(repo, **day(1))
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--squash", "feature")
    commit(repo, "Caching (#1)", **day(3))
    assert by(repo, "caching")["landed"][:10] == "2025-01-03"
    git(repo, "switch", "-q", "feature")
    assert by(repo, "caching")["merged"] is True, "its file is there, whatever commit brought it"


def test_what_is_not_known_is_not_said(repo: Path) -> None:
    git(repo, "branch", "-m", "somewhere")
    git(repo, "branch", "elsewhere")
    decision(repo, "redis", "caching")
    commit(repo)
    assert not {"merged", "landed", "default"} & by(repo, "caching").keys()
    write(repo / "memory/decisions/new.md", "---\ntopic: queues\n---\n# Not committed\n")
    (hit,) = ok(repo, "search", "--topic", "queues")["results"]
    assert "by" not in hit
