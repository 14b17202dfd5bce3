"""The entries of our hooks in the files of coding agents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from filemem.config import HOOKS

_CLAUDE_READERS = ("claude", "copilot")  # Copilot runs the hooks in Claude Code's file
_TIMEOUT_SECONDS = 5  # for a hook; `filemem hook` itself ends within two
_OWN_COMMAND = re.compile(r"command -v \S+ >/dev/null 2>&1 && .+ hook( [a-z-]+)? \|\| exit 0")


class _ClientEvent(NamedTuple):
    """An event of a client that runs some of our hooks, for some of the client's tools."""

    client: str
    hooks: Sequence[str]
    name: str
    tools: str = ""


_PROMPTS = ("prompt-first", "prompt")
_EVENTS = (
    _ClientEvent("claude", ("start",), "SessionStart"),
    _ClientEvent("claude", _PROMPTS, "UserPromptSubmit"),
    _ClientEvent("claude", ("edits",), "PreToolUse", "Edit|MultiEdit|NotebookEdit|Write|Bash"),
    _ClientEvent("claude", ("failures",), "PostToolUseFailure", "Bash"),
    _ClientEvent("claude", ("capture",), "PreCompact"),
    _ClientEvent("claude", ("capture",), "SessionEnd"),
    _ClientEvent("claude", ("remind",), "Stop"),
    _ClientEvent("codex", ("start",), "SessionStart"),
    _ClientEvent("codex", _PROMPTS, "UserPromptSubmit"),
    _ClientEvent("codex", ("edits",), "PreToolUse", "apply_patch|Edit|Write|Bash"),
    _ClientEvent("codex", ("failures",), "PostToolUse", "Bash"),
    _ClientEvent("codex", ("capture",), "PreCompact"),
    _ClientEvent("codex", ("remind",), "Stop"),
    _ClientEvent("gemini", ("start",), "SessionStart"),
    _ClientEvent("gemini", _PROMPTS, "BeforeAgent"),
    _ClientEvent("gemini", ("edits",), "AfterTool", "replace|write_file"),
    _ClientEvent("gemini", ("failures",), "AfterTool", "run_shell_command"),
    _ClientEvent("gemini", ("capture",), "PreCompress"),
    _ClientEvent("gemini", ("capture",), "SessionEnd"),
    _ClientEvent("cursor", ("start",), "sessionStart"),
    _ClientEvent("cursor", ("edits",), "postToolUse", "Write"),
    _ClientEvent("cursor", ("failures",), "postToolUseFailure", "Shell"),
    _ClientEvent("cursor", ("capture",), "preCompact"),
    _ClientEvent("cursor", ("capture",), "sessionEnd"),
    _ClientEvent("cursor", ("remind",), "stop"),
    _ClientEvent("opencode", ("start",), "plugin"),
)


class Hook(NamedTuple):
    """A hook for an event of a client; without a name it is any of the usual hooks."""

    event: str
    tools: str
    name: str


def list_hooks(client: str, named_clients: Sequence[str], names: Sequence[str]) -> list[Hook]:
    """Return the hooks of a client, one for each event.

    Copilot denies a tool whose hook fails, so a user who names it gets no hook for edits there.
    """
    owner = client
    denied_name = ""
    if client in _CLAUDE_READERS:
        owner = "claude"
        if "copilot" in named_clients:
            denied_name = "edits"
    hooks: dict[str, Hook] = {}
    for name in HOOKS:
        if name not in names or name == denied_name:
            continue
        for event in _EVENTS:
            if event.client == owner and name in event.hooks:
                hook = Hook(event.name, event.tools, name)
                hooks[event.name] = _merge_hooks(hooks.get(event.name, hook), hook)
    return list(hooks.values())


def _merge_hooks(first: Hook, second: Hook) -> Hook:
    """Return one hook for an event and the tools of both."""
    if first.tools == second.tools:
        return second
    return second._replace(tools=f"{first.tools}|{second.tools}", name="")


def build_hook(client: str, tools: str, command: str) -> dict[str, Any]:
    """Return the entry of a hook in a client's format."""
    matcher = {"matcher": tools} if tools else {}
    if client == "cursor":
        return {"command": command, "timeout": _TIMEOUT_SECONDS, **matcher}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": _TIMEOUT_SECONDS}
    if client == "gemini":
        hook = {"name": "filemem", **hook, "timeout": _TIMEOUT_SECONDS * 1000}
    return {**matcher, "hooks": [hook]}


def format_command(command_words: Sequence[str], hook: str) -> str:
    """Return a hook's command as one string, which Copilot needs in Claude Code's file.

    It does nothing if filemem is not installed.
    """
    program = shlex.join(command_words[: command_words.index("serve")])
    hook_command = f"{program} hook {hook}".rstrip()
    return f"command -v {shlex.quote(command_words[0])} >/dev/null 2>&1 && {hook_command} || exit 0"


def is_own_hook(element: Any) -> bool:
    """Whether an element of a list is a hook of ours."""
    if not isinstance(element, dict):
        return False
    inner_hooks = element.get("hooks", [element])
    if len(inner_hooks) != 1 or not isinstance(inner_hooks[0], dict):
        return False
    hook = inner_hooks[0]
    if hook.get("timeout") not in (_TIMEOUT_SECONDS, 1000 * _TIMEOUT_SECONDS):
        return False
    command = str(hook.get("command"))
    return _OWN_COMMAND.fullmatch(command) is not None
