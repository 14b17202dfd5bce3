"""Sharing a memory: records that have a work tree of their own, and what is said where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import git, make_repo, write
from tests.system.tools import cli, ok

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


@pytest.mark.parametrize("nested", [False, True])
def test_a_repository_that_is_only_a_memory(tmp_path: Path, nested: bool) -> None:
    """A store of `.` is all of its work tree; where that stands in a project it is the project's memory."""
    project = make_repo(tmp_path / "project")
    notes = make_repo(project / "memory" if nested else tmp_path / "notes", commit=False)
    write(notes / ".filemem.toml", 'store = "."\n')
    here = project if nested else notes
    prefix = "memory/" if nested else ""
    saved = ok(here, *DECISION, "Use Redis")
    assert saved["path"].startswith(f"{prefix}decisions/caching/")
    assert ok(here, "search", "redis")["results"][0]["path"] == saved["path"]
    assert ok(here, "get", saved["path"])["results"][0]["id"] == saved["id"]
    assert ok(here, "update", saved["path"], "--outcome", "failed", "--reason", "slow")["commit"]
    assert ok(here, "status")["store"] == (prefix.rstrip("/") or ".")
    assert ok(notes, "history", "caching")["chain"][0]["reasons"][0]["reason"] == "slow"
    assert cli(notes, "check").code == 0
    assert git(notes, "status", "--porcelain") == "?? .filemem.toml"
    assert git(notes, "rev-list", "--count", "HEAD") == "2"
    ok(here, "delete", saved["id"])
    gone = cli(here, "get", saved["id"])
    assert (gone.code, "deleted in" in gone.err) == (4, True)
    assert ok(here, "index", "--rebuild")["success"]
