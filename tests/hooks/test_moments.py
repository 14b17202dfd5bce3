"""A session is told at the right moments: a governed file, a dependency that is ruled out, a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory
from tests.support import git, make_repo, write

BASE = {
    "claude": {"transcript_path": "/t", "permission_mode": "default"},
    "codex": {"transcript_path": "/t", "turn_id": "1", "model": "gpt-5"},
    "gemini": {"transcript_path": "/t", "timestamp": "2026-11-28T12:00:00.000Z"},
}
ERROR = "E   psycopg.errors.DuplicatePreparedStatement: prepared statement _pg3_0 already exists"


def patched(path: str, old: str, new: str) -> dict[str, Any]:
    """An edit as Codex sends it."""
    added = "".join(f"+{row}\n" for row in new.split("\n"))
    rows = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n{added}*** End Patch"
    return {"tool_name": "apply_patch", "tool_input": {"command": rows}}


def edited(path: str, old: str, new: str) -> dict[str, Any]:
    """An edit as Claude Code sends it."""
    change = {"file_path": path, "old_string": old, "new_string": new}
    return {"tool_name": "Edit", "tool_input": change}


def failed(client: str, command: str, output: str) -> dict[str, Any]:
    """A command that failed; Codex shows what it printed, without its exit status."""
    event = {"tool_name": "Bash", "tool_input": {"command": command}}
    if client == "claude":
        error = {"error": f"Exit code 1\n{output}", "is_interrupt": False}
        return {"hook_event_name": "PostToolUseFailure", **event, **error}
    return {"hook_event_name": "PostToolUse", **event, "tool_response": output}


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with three decisions; one has failed."""
    path = make_repo(tmp_path_factory.mktemp("moments") / "repo")
    write(path / "src/money.py", "total = 1\n")
    write(path / "requirements.txt", "httpx\n")
    with Memory.open(path) as memory:
        memory.save(
            topic="money",
            decision="Amounts are integers in cents",
            reasoning="Floats lose cents.",
            rejected=["Decimal: slow in the report"],
            affects=["src/money.py"],
        )
        memory.save(
            topic="cache",
            decision="Keep lookups in an LRU cache",
            reasoning="One process.",
            rejected=["Redis: one more service to run"],
        )
        pool = memory.save(
            topic="pool", decision="Pool in transaction mode", reasoning="Fewer connections."
        )
        reason = "prepared statements break: DuplicatePreparedStatement from psycopg"
        memory.update(pool.id, outcome="failed", reason=reason)
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "Code")
    return path


def hook(repo: Path, name: str, client: str, session: str, event: dict[str, Any]) -> str:
    """What the command says, as the client's model reads it."""
    value = {**BASE[client], "session_id": session, "cwd": str(repo), **event}
    line = [sys.executable, "-m", "filemem", "hook", *filter(None, [name])]
    data = json.dumps(value)
    done = subprocess.run(
        line, cwd=repo, input=data, capture_output=True, text=True, check=True, timeout=60
    )
    assert not done.stderr
    if not done.stdout:
        return ""
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_a_session_is_told_three_times_once_each_in_250_tokens(repo: Path, client: str) -> None:
    edit = edited if client == "claude" else patched
    steps = [
        ("edits", edit("src/money.py", "total = 1", "total = 2")),
        ("edits", edit("requirements.txt", "httpx", "httpx\nredis")),
        ("failures", failed(client, "pytest", ERROR)),
    ]
    texts = []
    for again in ("", "again"):
        for name, event in steps:
            change = {"hook_event_name": "PreToolUse", "tool_use_id": again, **event}
            change["tool_input"] = {**change["tool_input"], "description": again}
            texts.append(hook(repo, name, client, f"{client}-busy", change))
    money, redis, pool, *rest = texts
    assert "Amounts are integers in cents. Ruled out: Decimal." in money
    assert "redis comes in here" in redis
    assert "Redis: one more service to run" in redis
    assert "Pool in transaction mode. failed: prepared statements break" in pool
    assert not any(rest), "each is said once"
    assert all(len(text) <= 4 * 80 for text in texts)
    assert sum(map(len, texts)) <= 4 * 250


def test_a_patch_that_is_put_into_a_shell_is_an_edit(repo: Path) -> None:
    event = patched("src/money.py", "total = 1", "total = 2")
    patch = event["tool_input"]["command"]
    shell = {"tool_name": "Bash", "tool_input": {"command": f"apply_patch <<'EOF'\n{patch}\nEOF"}}
    text = hook(repo, "edits", "codex", "shell", {"hook_event_name": "PreToolUse", **shell})
    assert "Amounts are integers in cents" in text


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_a_session_that_does_nothing_governed_is_told_nothing(repo: Path, client: str) -> None:
    edit = edited if client == "claude" else patched
    steps = [
        ("edits", edit("src/other.py", "a", "b")),
        ("edits", edit("requirements.txt", "httpx", "httpx\nrich")),
        ("edits", {"tool_name": "Bash", "tool_input": {"command": "git add . && pytest"}}),
        ("edits", {"tool_name": "Bash", "tool_input": {"command": "pip install rich"}}),
        ("failures", failed(client, "pytest", "E   assert 3 == 4\n1 failed in 0.2s")),
    ]
    for name, event in steps:
        value = {"hook_event_name": "PreToolUse", **event}
        assert not hook(repo, name, client, f"{client}-quiet", value), event


def test_a_command_that_succeeds_is_passed_over(repo: Path) -> None:
    event = failed("codex", "cat log", f"1 passed. {ERROR[4:]}")
    assert not hook(repo, "failures", "codex", "fine", event)
    stated = event | {"tool_response": {"exit_code": 0, "output": ERROR}}
    assert not hook(repo, "failures", "codex", "fine", stated)
    stated = event | {"tool_response": {"exit_code": 1, "output": ERROR}}
    assert "Pool in transaction mode" in hook(repo, "failures", "codex", "fine", stated)
    stopped = failed("claude", "pytest", ERROR) | {"is_interrupt": True}
    assert not hook(repo, "failures", "claude", "stopped", stopped)


def test_gemini_states_the_exit_code_of_what_fails_and_of_nothing_else(repo: Path) -> None:
    name = {"hook_event_name": "AfterTool", "tool_name": "run_shell_command"}
    event: dict[str, Any] = {**name, "tool_input": {"command": "pytest"}}
    fine = event | {"tool_response": {"llmContent": f"Output: {ERROR}"}}
    assert not hook(repo, "", "gemini", "gemini", fine)
    failing = event | {"tool_response": {"llmContent": f"Output: {ERROR}\nExit Code: 1"}}
    assert "Pool in transaction mode" in hook(repo, "", "gemini", "gemini", failing)
