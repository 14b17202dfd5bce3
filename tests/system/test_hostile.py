"""A repository made by an enemy, and asked everything that filemem can be asked: nothing that it names runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from filemem.config import load
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, process, snapshot

HOOKS = (
    *(
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    ),
    *(
        "pre-auto-gc",
        "post-checkout",
        "post-merge",
        "post-rewrite",
        "fsmonitor-watchman",
        "proc-receive",
        "update",
    ),
)
PROGRAMS = (
    *(
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
    ),
    *(
        "core.alternateRefsCommand",
        "diff.external",
        "gpg.program",
        "gpg.ssh.program",
        "gpg.x509.program",
    ),
    *(
        "gpg.ssh.defaultKeyCommand",
        "credential.helper",
        "pager.log",
        "pager.show",
        "pager.config",
        "sequence.editor",
    ),
    *(
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
    ),
    *(
        "merge.evil.driver",
        "alias.log",
        "alias.config",
        "alias.commit",
        "uploadpack.packObjectsHook",
    ),
    *(
        "trailer.agent.command",
        "trailer.agent.cmd",
        "interactive.diffFilter",
        "remote.origin.uploadpack",
    ),
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A repository whose configuration, attributes and hooks all name a program that leaves a canary."""
    repo = make_repo(tmp_path / "repo")
    fired = tmp_path / "fired"
    fired.mkdir()
    bite = write(
        tmp_path / "bite", f'#!/bin/sh\ntouch "{fired}/$(basename "$0")-$1-$$"\ncat\nexit 0\n'
    )
    bite.chmod(0o755)
    write(repo / "memory/decisions/one.md", "# Seen from outside\n\nBecause.\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Records")
    for hook in HOOKS:
        for folder in (repo / ".git/hooks", repo / "hooks"):
            write(folder / hook, bite.read_text()).chmod(0o755)
    write(
        repo / ".gitattributes", "*.md filter=evil diff=evil merge=evil\n* filter=evil diff=evil\n"
    )
    write(repo / ".git/info/attributes", "*.md diff=evil merge=evil\n")
    settings = {key: f"{bite} {key}" for key in PROGRAMS} | {"core.hooksPath": str(repo / "hooks")}
    settings |= {
        "commit.gpgSign": "true",
        "log.showSignature": "true",
        "core.untrackedCache": "true",
    }
    for key, value in settings.items():
        git(repo, "config", key, value)
    write(repo / "git", bite.read_text()).chmod(0o755)
    return repo


def fired(repo: Path) -> list[str]:
    return sorted(path.name for path in (repo.parent / "fired").iterdir())


COMMANDS = (
    ("init",),
    ("save", "decision", "--topic", "t", "--decision", "One", "--reasoning", "r", "--json"),
    ("save", "checkpoint", "--summary", "s"),
    ("save", "observation", "--title", "n", "--text", "x"),
    ("search", "outside"),
    ("search",),
    ("get", "memory/decisions/one.md"),
    ("update", "memory/decisions/one.md", "--outcome", "success", "--reason", "r"),
    ("history", "t"),
    ("history", "memory/decisions/one.md"),
    ("topics",),
    ("check",),
    ("check", "--base", "HEAD"),
    ("why", "code.py"),
    ("why", "code.py:1"),
    ("index",),
    ("index", "--rebuild"),
    ("status",),
    ("brief",),
)


def test_no_command_runs_what_a_repository_names(trap: Path) -> None:
    for command in COMMANDS:
        os.utime(trap / "memory/decisions/one.md")  # Git must look into it: by its filter
        done = cli(trap, *command)
        assert fired(trap) == [], command
        assert done.code in (0, 1, 5, 7), (command, done)
        assert "Seen from outside" in done.out or command[0] != "search", done
    inside = process(trap, "search", "outside", PATH=f".:{os.environ['PATH']}")
    assert "Seen from outside" in inside.out
    cli(trap, "delete", "memory/decisions/one.md")
    assert fired(trap) == []


@pytest.mark.parametrize("folder", ["node_modules/.bin", ""])
@pytest.mark.parametrize("command", [("check", "--base", "main"), ("sync",)])
def test_a_git_of_the_repository_is_never_started(
    repo: Path, tmp_path: Path, command: tuple[str, ...], folder: str
) -> None:
    canary = tmp_path / "canary"
    inside = write(repo / folder / "git", f'#!/bin/sh\ntouch {canary}\nexec /usr/bin/git "$@"\n')
    inside.chmod(0o755)
    ok(repo, "save", "observation", "--text", "One")
    git(tmp_path, "init", "-q", "--bare", "other.git")
    git(repo, "remote", "add", "origin", str(tmp_path / "other.git"))
    git(repo, "push", "-q", "-u", "origin", "main")
    first = str(inside.parent) if folder else "."
    environment = {"PATH": f"{first}:{os.environ['PATH']}"}
    for extra in ({}, {"GIT_PYTHON_GIT_EXECUTABLE": str(inside)}):
        done = process(repo, *command, **environment, **extra)
        assert done.code == 0, done
        assert not canary.exists()


def test_the_trap_works(trap: Path) -> None:
    """Git itself, asked plainly, runs what the repository names: the tests above test something."""
    git(trap, "status", ok=False)
    git(trap, "add", "-A", ok=False)
    assert len(fired(trap)) > 1


def test_what_a_filter_would_change_is_saved_and_left_to_the_user(trap: Path) -> None:
    done = cli(
        trap, "save", "decision", "--topic", "t", "--decision", "One", "--reasoning", "r", "--json"
    ).json
    assert "filter" in done["note"]
    assert (trap / done["path"]).is_file()
    assert cli(trap, "search", "One", "--json").json["count"] >= 1


REFUSED = (
    'store = "../outside"',
    'store = "/etc"',
    'store = ".git/memory"',
    'store = "a/../../b"',
    "store = [1]",
    'commit = {decision = "push"}',
)
PASSED_OVER = (
    'model = "evil/model"\n',
    'cache = "/tmp/evil"',
    'agent = "root"',
    'command = "touch x"',
    "not toml at all",
    "x" * 70_000,
    "a = " + "[" * 50_000,
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_setting_from_a_stranger_that_leads_elsewhere_is_refused(repo: Path, text: str) -> None:
    write(repo / ".filemem.toml", text)
    before = snapshot(repo.parent)
    done = cli(repo, "search", "x")
    assert (done.code, ".filemem.toml" in done.err) == (2, True)
    assert snapshot(repo.parent) == before


@pytest.mark.parametrize("text", PASSED_OVER, ids=lambda text: text[:12])
def test_a_setting_from_a_stranger_that_only_the_user_may_set_does_nothing(
    repo: Path, text: str
) -> None:
    write(repo / ".filemem.toml", text)
    done = cli(repo, "search", "x", "--json")
    assert done.code == 0, done.err
    assert ".filemem.toml" in cli(repo, "status").out
    settings = load(repo, {})
    assert (settings.model, settings.agent, settings.cache) == ("", "", None)
