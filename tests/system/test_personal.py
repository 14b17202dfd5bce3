"""The user's personal memory: made at the first save, told of, and never mixed with a project's unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.dialects import native
from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.record.visibility import EVERYBODY
from tests.support import git
from tests.system.tools import cli, ok, snapshot, talking

DECISION = (
    "save",
    "decision",
    "--topic",
    "editor",
    "--decision",
    "Indent by tabs",
    "--reasoning",
    "Taste",
)
HELD = {"topic": "editor", "decision": "Indent by tabs", "reasoning": "Taste"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's data, where nothing is yet; Git knows the user."""
    place = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(place))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")
    return place / "filemem" / "personal"


@pytest.mark.requirement("mama-desktop", "pm-desktop")
def test_a_server_outside_a_repository_serves_it_and_makes_it_at_the_first_save(
    tmp_path: Path, home: Path
) -> None:
    (plain := tmp_path / "plain").mkdir()
    with talking(plain, named=False) as talk:
        first = talk.call("search", query="tabs")
        assert str(home) in first["notice"]
        assert str(plain) in first["notice"]
        assert first["note"] == "nothing is saved yet"
        later = talk.call("load_checkpoint")
        assert later["checkpoint"] is None
        assert "notice" not in later, "it is told once"
        assert not home.parent.exists(), "reading makes nothing"
        talk.call("save", **HELD)
        assert [one["title"] for one in talk.call("search", query="tabs")["results"]] == [
            "Indent by tabs"
        ]
    assert git(home, "log", "--format=%s") == "decision(editor): Indent by tabs"
    assert (home / "memory/README.md").is_file()
    assert not snapshot(plain), "nothing is written where the server was started"
    with talking(plain) as talk:
        assert "no Git repository" in talk.refused("search", query="tabs")["message"], (
            "-C names a project"
        )


@pytest.mark.requirement("mama-user-wide")
def test_a_project_reads_it_where_that_is_asked_for_and_never_writes_there(
    repo: Path, home: Path
) -> None:
    assert ok(repo, "--personal", *DECISION)["success"]
    before = git(home, "rev-parse", "HEAD")
    with talking(repo, named=False) as talk:
        talk.call("save", topic="cache", decision="Use an LRU cache", reasoning="One process")
        assert [one["topic"] for one in talk.call("search")["results"]] == ["cache"]
        assert [one["topic"] for one in talk.call("search", scope="personal")["results"]] == [
            "editor"
        ]
        assert (
            talk.call("get", id="editor", scope="personal")["results"][0]["title"]
            == "Indent by tabs"
        )
    assert [one["topic"] for one in ok(repo, "--personal", "search", "tabs")["results"]] == [
        "editor"
    ]
    assert [one["topic"] for one in ok(repo, "--personal", "topics")["topics"]] == ["editor"]
    assert git(home, "rev-parse", "HEAD") == before


def test_before_the_first_save_a_command_says_so_and_makes_nothing(repo: Path, home: Path) -> None:
    done = cli(repo, "--personal", "search", "tabs")
    assert done.code == 4
    assert f"nothing is saved yet in your personal memory, {home}" in done.err
    assert cli(repo, "--personal", "save", "decision", "--help").code == 0
    assert not home.parent.exists()
    made = cli(repo, "--personal", *DECISION)
    assert made.code == 0, made
    assert f"your personal memory is {home}" in made.err


def test_only_a_server_over_stdio_reads_it(memory: Memory) -> None:
    with pytest.raises(BadInput, match="not served here"):
        native.search(memory, {"query": "tabs", "scope": "personal"})
    assert memory.seen_by(EVERYBODY).personal is None
