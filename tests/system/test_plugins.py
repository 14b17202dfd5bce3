"""The plugins: as their table makes them, without a server, and the module for OpenClaw recalls in a stub host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import write
from tests.system.tools import FILEMEM, ok
from tools.plugins import FOLDER, ROOT, made

HOST = """
const plugin = (await import(process.argv[1])).default
const on = {}
plugin.register({ pluginConfig: { folder: process.argv[2] }, on: (name, handler) => (on[name] = handler) })
const ctx = { sessionKey: "main", sessionId: "one" }
const said = []
for (const prompt of ["How do we cache?", "And now?"])
  said.push(await on.before_prompt_build({ prompt, messages: [] }, ctx))
await on.after_compaction({}, ctx)
console.log(JSON.stringify(said.map((one) => one ?? null)))
"""


def test_no_file_of_the_plugins_is_stale() -> None:
    for path, text in made().items():
        assert (ROOT / path).read_text() == text, f"{path}: run make plugins"
        assert "mcpServers" not in text, "hosts start the server of a plugin outside of the project"
    there = {
        one.relative_to(ROOT).as_posix() for one in (ROOT / FOLDER).rglob("*") if one.is_file()
    }
    assert there == {path for path in made() if path.startswith(FOLDER)}


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
@pytest.mark.requirement("mama-auto-recall", "mama-openclaw-plugin")
def test_openclaw_tells_an_agent_at_its_start_what_was_decided(repo: Path, tmp_path: Path) -> None:
    words = (
        "--topic",
        "cache",
        "--decision",
        "Use an LRU cache",
        "--reasoning",
        "One process",
        "--affects",
        "code.py",
    )
    ok(repo, "save", "decision", *words)
    write(repo / "code.py", "changed = True\n")
    (programs := tmp_path / "programs").mkdir()
    path = f"{Path(shutil.which('node') or '').parent}:/usr/bin:/bin"

    def said(search_path: str) -> list[dict[str, str] | None]:
        command = [
            "node",
            "--input-type=module",
            "-e",
            HOST,
            "--",
            str(ROOT / FOLDER / "openclaw.js"),
            str(repo),
        ]
        environment = {**os.environ, "PATH": search_path}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=60, check=True
        )
        answer: list[dict[str, str] | None] = json.loads(done.stdout)
        return answer

    assert said(path) == [None, None], (
        "nothing is said, and nothing fails, where filemem is not installed"
    )
    ours = programs / "filemem"
    write(
        ours, """#!/bin/sh\nprintf '{"hookSpecificOutput": {"additionalContext": "%s"}}' "$2"\n"""
    ).chmod(0o755)
    both = [{"prependContext": told} for told in ("start\n\nprompt-first", "prompt-first")]
    assert said(f"{programs}:{path}") == both, (
        "the prompt is searched for, and the brief is told once"
    )
    ours.unlink()
    ours.symlink_to(FILEMEM)
    first, second = said(f"{programs}:{path}")
    assert first is not None
    assert first["prependContext"].count("Use an LRU cache") == 1
    assert second is None, "a session is told once"
