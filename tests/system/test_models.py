"""A model of the user's own: one that is there takes over, one that is not is told of where it would be missed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import filemem
from tests.system.tools import cli, ok, process

QUESTION = "which database do we use"
MISSING = (
    "the embedding model in {} cannot be read; put a model2vec model there, or remove the setting"
)


@pytest.fixture
def told(repo: Path) -> Path:
    """A repository with two decisions, indexed with the bundled model."""
    ok(
        repo,
        "save",
        "decision",
        "--topic",
        "storage",
        "--decision",
        "Use Postgres",
        "--reasoning",
        "Many writers",
    )
    ok(
        repo,
        "save",
        "decision",
        "--topic",
        "caching",
        "--decision",
        "Use an LRU cache",
        "--reasoning",
        "It is fast",
    )
    ok(repo, "index")
    return repo


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a model."""
    copied = tmp_path / "mymodel"
    shutil.copytree(Path(filemem.__file__).with_name("model"), copied)
    return copied


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is told where the configured model is not there."""
    monkeypatch.setenv("FILEMEM_MODEL", str(tmp_path / "nope"))
    return MISSING.format(tmp_path / "nope")


def test_a_missing_model_is_said_to_be_missing(told: Path, nowhere: str) -> None:
    for command in (("index",), ("index", "--rebuild")):
        done = cli(told, *command)
        assert done.code == 1
        assert nowhere in done.out
    assert nowhere in cli(told, "search", QUESTION).out
    assert nowhere in cli(told, "status").out
    assert "degraded" not in cli(told, "search", "postgres", "--mode", "keyword").out
    out = cli(told, "search", "postgres", "--mode", "vector").out
    assert out.splitlines()[0].endswith("; only words were searched")
    assert "note: no record is similar to the query\n" in cli(told, "search", "zzzqqq").out


def test_without_the_setting_all_is_as_it_was(
    told: Path, nowhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = process(told, "search", QUESTION, FILEMEM_MODEL="").out
    assert nowhere in cli(told, "index", "--rebuild").out
    monkeypatch.delenv("FILEMEM_MODEL")
    assert cli(told, "search", QUESTION).out == before
    assert "degraded" not in before


def test_a_model_takes_over_at_the_next_command(
    told: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine.parent)
    monkeypatch.setenv("FILEMEM_MODEL", "./mymodel")
    assert "degraded" not in cli(told, "search", QUESTION).out
    assert f"index: 2 records, {mine}@" in cli(told, "status", "-v").out
    assert cli(told, "index").out == "index in step: 0 files changed\n"
