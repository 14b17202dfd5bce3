"""`filemem doctor` tells unwired from untrusted from fine, starts nothing but our server, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import write
from tests.system.tools import FILEMEM, Done, cli, ok, snapshot

AGENTS = {"Claude Code", "Codex", "Gemini CLI"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and a PATH with filemem, Git, and three agents that tell if they are run."""
    programs = tmp_path / "programs"
    for name in ("claude", "codex", "gemini"):
        write(programs / name, f"#!/bin/sh\ntouch {tmp_path}/was-run\n").chmod(0o755)
    (programs / "filemem").symlink_to(FILEMEM)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(place := tmp_path / "home"))
    for kind in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    place.mkdir()
    return place


def examined(repo: Path, home: Path) -> tuple[Done, dict[str, str]]:
    before = snapshot(repo, skip=()), snapshot(home)
    done = cli(repo, "doctor", "--json")
    assert (snapshot(repo, skip=()), snapshot(home)) == before, "nothing is written"
    assert not (home.parent / "was-run").exists(), "no other program is run"
    return done, {one["name"]: one["state"] for one in done.json["checks"]}


def test_each_agent_is_unwired_then_untrusted_then_fine(repo: Path, home: Path) -> None:
    ok(
        repo,
        "save",
        "decision",
        "--topic",
        "cache",
        "--decision",
        "Use an LRU cache",
        "--reasoning",
        "One process",
    )
    done, found = examined(repo, home)
    assert done.code == 1
    assert {name for name, state in found.items() if state == "installed, not connected"} == AGENTS
    assert "Claude Code: `filemem init --client claude` connects it" in done.json["todo"]
    assert not any(one.startswith("Codex") for one in done.json["todo"]), (
        "this project does not use it"
    )
    ok(repo, "init", "--client", "claude,codex,gemini")
    done, found = examined(repo, home)
    assert done.code == 1
    connected = {
        name: state for name, state in found.items() if state.startswith("installed, connected by ")
    }
    assert connected.keys() == AGENTS
    assert all(state.endswith(", not trusted yet") for state in connected.values())
    assert "Claude Code: start claude here and approve the server" in done.json["todo"]
    write(repo / ".claude/settings.local.json", '{"enabledMcpjsonServers": ["filemem"]}')
    write(home / ".codex/config.toml", f'[projects."{repo}"]\ntrust_level = "trusted"\n')
    write(home / ".gemini/trustedFolders.json", json.dumps({str(repo.parent): "TRUST_FOLDER"}))
    done, found = examined(repo, home)
    assert done.code == 0, done
    assert {name for name, state in found.items() if state.endswith(", trusted")} == AGENTS
    assert cli(repo, "doctor").out.endswith("to do: nothing\n")


def test_a_command_that_init_would_not_write_is_shown_and_not_run(repo: Path, home: Path) -> None:
    command = str(home.parent / "programs/claude")
    for args in (["serve"], ["serve", "--profile", "native"]):
        write(
            repo / ".mcp.json",
            json.dumps({"mcpServers": {"filemem": {"command": command, "args": args}}}),
        )
        _, found = examined(repo, home)
        assert "another entry in .mcp.json, which is not run: " in found["Claude Code"]
        assert command in cli(repo, "doctor").out
    write(repo / ".mcp.json", "{broken")
    done, found = examined(repo, home)
    assert ".mcp.json cannot be read" in found["Claude Code"]
    assert done.code == 1


def test_a_server_that_is_not_installed_is_told(repo: Path, home: Path) -> None:
    ok(repo, "init", "--client", "claude")
    (home.parent / "programs/filemem").unlink()
    done, _ = examined(repo, home)
    told = [one for one in done.json["todo"] if "no command filemem on the PATH" in one]
    assert len(told) == 1, "once for all agents"
