"""Events of coding agents as their hooks send them: JSON in, an `Event` out. It knows no memory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

START = "start"
PROMPT = "prompt"
EDIT = "edit"  # a tool is going to change a file, or to run a command
FAIL = "fail"  # a command has failed
END = "end"  # before compaction, and at the end
STOP = "stop"  # the agent has answered
_MOMENTS = {
    "sessionstart": START,
    **dict.fromkeys(("userpromptsubmit", "userpromptsubmitted", "beforeagent"), PROMPT),
    **dict.fromkeys(("pretooluse", "beforetool"), EDIT),
    **dict.fromkeys(("posttooluse", "aftertool", "posttoolusefailure"), FAIL),
    **dict.fromkeys(("precompact", "precompress", "sessionend"), END),
    "stop": STOP,
}
HOOKS = {
    "start": START,
    "prompt": PROMPT,
    "prompt-first": PROMPT,
    "edits": EDIT,
    "failures": FAIL,
    "capture": END,
    "remind": STOP,
}
"""Hook -> when it speaks. Copilot's inputs name no event: there the command line tells."""
_EDITING_TOOL = re.compile(r"edit|write|replace|patch|create", re.IGNORECASE)
_RUNNING_TOOL = re.compile(r"bash|shell|exec|terminal", re.IGNORECASE)
_PATCH = "*** Begin Patch"
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_HUNK = re.compile(r"^@@.*\n?", re.MULTILINE)
_EXIT = re.compile(r"\bexit(?:ed with)?[ _]?(?:code|status)?\W{1,3}(\d+)", re.IGNORECASE)
# Codex states no exit status.
_FAILING = re.compile(
    r"^(?:E  +|\S*error\b|FAIL|Traceback|panic:|fatal:)|\b[1-9]\d* failed",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = 300  # characters of an output in which a client states the exit status
_GEMINI = "llmContent"  # states the exit status of what fails, and of nothing else
_CODES = ("exit_code", "exitCode", "returncode")
_OUTPUTS = ("stderr", "stdout", "output", _GEMINI, "error")


class Replacement(NamedTuple):
    """A part of a file, and what a tool is going to put there; `old` is None for the whole file."""

    file: str
    old: str | None
    new: str

    def applied(self, text: str) -> str:
        """Return the text of the file with it; the same text where the old part is missing."""
        return self.new if self.old is None else text.replace(self.old, self.new, 1)


class Event(NamedTuple):
    """One thing that happened in a session."""

    moment: str
    name: str  # as the client spells it
    client: str
    session: str
    source: str  # why it started or ended; "" where the client does not say
    folder: Path
    prompt: str = ""
    files: tuple[str, ...] = ()  # that a tool changes
    edits: tuple[Replacement, ...] = ()  # what it does to them, as far as its input shows it
    command: str = ""  # that a tool runs in a shell
    error: str = ""  # what a command that failed printed
    repeated: bool = False  # whether a hook has kept the agent from stopping already


def read(data: bytes, hook: str, client: str, here: Path) -> Event | None:
    """Read an input; `hook`, `client`: from the command line, or ""; `here`: the current folder."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _event(value, hook, client, here) if isinstance(value, dict) else None


def _event(value: Mapping[str, Any], hook: str, client: str, here: Path) -> Event | None:
    name = _text(value, "hook_event_name", "hookEventName")
    moment = _moment(value, name) if name else HOOKS.get(hook)
    session = _text(value, "conversation_id", "session_id", "sessionId")
    if moment is None or not session:
        return None
    folder = _folder(value, here)
    event = Event(
        moment,
        name,
        client or _client(value),
        session,
        _text(value, "source", "trigger", "reason"),
        folder,
        _text(value, "prompt"),
        repeated=value.get("stop_hook_active") is True or bool(value.get("loop_count")),
    )
    return event._replace(**_used(value, event)) if moment in (EDIT, FAIL) else event


def _folder(value: Mapping[str, Any], here: Path) -> Path:
    root = str(next(iter(_list(value, "workspace_roots")), ""))
    folder = Path(_text(value, "cwd") or root or here)
    return folder if folder.is_absolute() and folder.is_dir() else here


def _moment(value: Mapping[str, Any], name: str) -> str | None:
    """When a named event speaks. A tool that has changed a file is told of as if it were before."""
    moment = _MOMENTS.get(name.casefold())
    return EDIT if moment == FAIL and _EDITING_TOOL.search(_tool(value)) else moment


def _tool(value: Mapping[str, Any]) -> str:
    return _text(value, "tool_name", "toolName")


def _used(value: Mapping[str, Any], event: Event) -> dict[str, Any]:
    """The fields of an event that a tool fills: files and edits, or a command and its error.

    Models of Codex without a tool for patches put one into a shell: `apply_patch <<'EOF'`.
    """
    tool = value.get("tool_input")
    edits = _EDITING_TOOL.search(_tool(value)) is not None
    if not isinstance(tool, dict) or not (edits or _RUNNING_TOOL.search(_tool(value))):
        return {}
    used: dict[str, Any] = {}
    if not edits:
        used["command"] = _text(tool, "command", "cmd") or " ".join(
            map(str, _list(tool, "command"))
        )
        used["error"] = _error(value) if event.moment == FAIL else ""
    if edits or _PATCH in used["command"]:
        used["edits"] = tuple(_replacements(tool, event.folder))
        used["files"] = _files(tool, event.folder)
    return used


def _error(value: Mapping[str, Any]) -> str:
    """What a failed command printed; "" where it did not fail, or its user stopped it."""
    if value.get("is_interrupt") is True:
        return ""
    response = value.get("tool_response")
    stated = isinstance(response, dict) and _GEMINI in response
    if isinstance(response, dict):
        text = "\n".join(filter(None, (_text(response, name) for name in _OUTPUTS)))
        codes = [response[name] for name in _CODES if isinstance(response.get(name), int)]
    else:
        text = _text(value, "tool_response")
        codes = []
    failed = any(codes) if codes else _failed(text, stated)
    return _text(value, "error", "error_message") or (text if failed else "")


def _failed(text: str, stated: bool) -> bool:
    """Whether an output states an exit status that is not 0, or else looks like a failure."""
    match = _EXIT.search(text[:_HEAD]) or _EXIT.search(text[-_HEAD:])
    if match or stated:
        return match is not None and int(match[1]) != 0
    return _FAILING.search(text) is not None


def _client(value: Mapping[str, Any]) -> str:
    """The client. Copilot also runs Claude Code's hooks, with almost the same input."""
    if "conversation_id" in value or "cursor_version" in value:
        return "cursor"
    if "hookEventName" in value:
        return "vscode"
    if "sessionId" in value or ("timestamp" in value and "transcript_path" not in value):
        return "copilot"
    return "codex" if "turn_id" in value else "gemini" if "timestamp" in value else "claude"


def _files(tool: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The absolute paths of the files that a tool is going to change."""
    names = [_text(tool, "file_path", "filePath", "notebook_path", "path")]
    names += map(str, _list(tool, "files"))
    names += _PATCHED.findall(_text(tool, "command", "input", "patch"))
    paths = (os.path.join(folder, name) for name in names if name)  # noqa: PTH118
    return tuple(dict.fromkeys(paths))


def _replacements(tool: Mapping[str, Any], folder: Path) -> Iterator[Replacement]:
    """What a tool is going to write: a whole file, parts of one, or a patch of several."""
    file = os.path.join(folder, _text(tool, "file_path", "filePath", "path"))  # noqa: PTH118
    whole = tool.get("content")
    if isinstance(whole, str):
        yield Replacement(file, None, whole)
        return
    for edit in (tool, *_list(tool, "edits")):
        new = _text(edit, "new_string", "newString") if isinstance(edit, dict) else ""
        if new:
            yield Replacement(file, _text(edit, "old_string", "oldString") or None, new)
    yield from _patches(_text(tool, "command", "input", "patch"), folder)


def _patches(patch: str, folder: Path) -> Iterator[Replacement]:
    """The parts of a patch in the form `*** Update File: PATH`."""
    _, *parts = _PATCHED.split(patch)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        for hunk in _HUNK.split(body):
            rows = [row for row in hunk.split("\n") if row[:1] in (" ", "+", "-")]
            old = "\n".join(row[1:] for row in rows if row[0] != "+")
            new = "\n".join(row[1:] for row in rows if row[0] != "-")
            if rows:
                yield Replacement(os.path.join(folder, name), old or None, new)  # noqa: PTH118


def _text(value: Mapping[str, Any], *names: str) -> str:
    texts = (value.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str)), "")


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    items = value.get(name)
    return items if isinstance(items, list) else []
