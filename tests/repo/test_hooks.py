"""Commit hooks of the user's, where the user lets them run: what they refuse waits, and none holds a save up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory.saving import Saver
from filemem.record.model import Outcome
from filemem.repo import hooks
from tests.support import git, head_file, make_saver, message, write

PATH, OTHER = "decisions/x.md", "decisions/other.md"
TEXT = b"---\ntype: decision\ntopic: t\n---\n# Text\n\nBody.\n"
OUTCOME = Outcome(1_763_660_000_000, "failed", "too slow")


def hook(repo: Path, script: str, name: str = "pre-commit") -> None:
    write(repo / ".git/hooks" / name, f"#!/bin/sh\n{script}\n").chmod(0o755)


def runs(repo: Path) -> int:
    return len((repo / ".git/ran").read_text()) if (repo / ".git/ran").exists() else 0


REFUSE = "printf x >> .git/ran; echo not today >&2; exit 1"


@pytest.fixture
def willing(repo: Path) -> Iterator[Saver]:
    """A saver whose user lets hooks run."""
    saver = make_saver(repo)
    saver._repo.run_hooks = True
    yield saver
    saver.close()


def test_what_a_hook_refused_is_listed_and_not_tried_again_unasked(repo: Path, willing: Saver) -> None:
    hook(repo, REFUSE)
    saved = willing.put(PATH, TEXT, message())
    assert saved.commit is None
    assert saved.pending == (
        "the pre-commit hook refused: not today; "
        "satisfy the hook and save again, or `git add` the file and commit it yourself"
    )
    assert [(op.path, op.reason) for op in willing.pending()] == [(PATH, saved.pending)]
    assert willing.replay().waiting == (PATH,)
    assert runs(repo) == 1
    assert willing.again(PATH).pending == saved.pending
    assert runs(repo) == 2
    (repo / ".git/hooks/pre-commit").unlink()
    assert willing.replay().waiting == (PATH,)
    assert willing.again(PATH).commit == git(repo, "rev-parse", "HEAD")
    assert willing.pending() == ()
    assert head_file(repo, f"memory/{PATH}") == TEXT.decode()
    assert git(repo, "status", "--porcelain") == ""


def test_an_update_of_what_a_hook_refused_is_one_with_it(repo: Path, willing: Saver) -> None:
    hook(repo, REFUSE)
    willing.put(PATH, TEXT, message("save"))
    assert "not today" in (willing.amend(PATH, message("update"), outcome=OUTCOME).pending or "")
    assert [op.kind for op in willing.pending()] == ["put"]
    (repo / ".git/hooks/pre-commit").unlink()
    assert willing.again(PATH).commit
    assert "too slow" in (head_file(repo, f"memory/{PATH}") or "")
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["committed", "edited and committed", "deleted"])
def test_what_a_hook_refused_is_the_users_to_end(repo: Path, willing: Saver, how: str) -> None:
    hook(repo, REFUSE)
    willing.put(PATH, TEXT, message())
    if how == "deleted":
        (repo / "memory" / PATH).unlink()
    else:
        (repo / "memory" / PATH).write_bytes(TEXT if how == "committed" else TEXT + b"mine\n")
        git(repo, "add", "memory")
        git(repo, "commit", "-q", "--no-verify", "-m", "mine")
    before = git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")
    assert willing.replay().finished == (PATH,)
    assert willing.pending() == ()
    assert (git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")) == before


@pytest.mark.parametrize("how", ["committed", "taken back"])
def test_an_update_that_a_hook_refused_is_made_once(repo: Path, willing: Saver, how: str) -> None:
    willing.put(PATH, TEXT, message())
    hook(repo, REFUSE)
    assert willing.amend(PATH, message("update"), outcome=OUTCOME).commit is None
    assert [op.kind for op in willing.pending()] == ["amend"]
    if how == "committed":
        git(repo, "commit", "-q", "--no-verify", "-a", "-m", "mine")
    else:
        git(repo, "checkout", "-q", "--", "memory")
    willing.replay()
    assert willing.pending() == ()
    assert (head_file(repo, f"memory/{PATH}") or "").count("too slow") == (how == "committed")


def test_a_batch_that_a_hook_refused_is_not_tried_in_a_loop(repo: Path, willing: Saver) -> None:
    hook(repo, REFUSE)
    for path in (PATH, OTHER):
        willing.put(path, TEXT, message(), policy="batch")
    assert willing.flush().waiting == (PATH, OTHER)
    assert runs(repo) == 1
    assert willing.due() is None
    assert willing.replay().waiting == (PATH, OTHER)
    assert runs(repo) == 1


def test_a_hook_that_does_not_end_is_ended_with_all_it_started(
    repo: Path, willing: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_LIMIT", 1.0)
    hook(repo, "echo begun; sleep 600 & echo $! > .git/child; sleep 600")
    saved = willing.put(PATH, TEXT, message())
    assert "begun git hook failed" not in (saved.pending or "")
    assert "begun no answer in 1 seconds" in (saved.pending or "")
    child = Path("/proc") / (repo / ".git/child").read_text().strip()
    for _ in range(500):
        if not child.exists() or (child / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.01)
    else:
        pytest.fail("what the hook had started still runs")


def test_what_a_hook_leaves_running_is_not_waited_for(repo: Path, willing: Saver) -> None:
    hook(repo, "sleep 600 & echo $! > .git/child", name="post-commit")
    assert willing.put(PATH, TEXT, message()).commit
    child = int((repo / ".git/child").read_text())
    git(repo, "-c", f"alias.end=!kill {child}", "end")  # it still runs: it is the user's
