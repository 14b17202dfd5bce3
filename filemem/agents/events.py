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
_EVENT_KINDS = {
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
_EDIT_TOOL = re.compile(r"edit|write|replace|patch|create", re.IGNORECASE)
_SHELL_TOOL = re.compile(r"bash|shell|exec|terminal", re.IGNORECASE)
_PATCH = "*** Begin Patch"
_PATCH_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_HUNK = re.compile(r"^@@.*\n?", re.MULTILINE)
_EXIT_STATUS = re.compile(r"\bexit(?:ed with)?[ _]?(?:code|status)?\W{1,3}(\d+)", re.IGNORECASE)
# Codex states no exit status.
_FAILURE = re.compile(
    r"^(?:E  +|\S*error\b|FAIL|Traceback|panic:|fatal:)|\b[1-9]\d* failed",
    re.IGNORECASE | re.MULTILINE,
)
_STATUS_SIZE = 300  # characters of an output in which a client states the exit status
_GEMINI_OUTPUT = "llmContent"  # states the exit status of what fails, and of nothing else
_STATUS_FIELDS = ("exit_code", "exitCode", "returncode")
_OUTPUT_FIELDS = ("stderr", "stdout", "output", _GEMINI_OUTPUT, "error")


class Replacement(NamedTuple):
    """A part of a file, and what a tool is going to put there; `old` is None for the whole file."""

    file: str
    old: str | None
    new: str

    def apply_to(self, text: str) -> str:
        """Return the text of the file with it; the same text where the old part is missing."""
        return self.new if self.old is None else text.replace(self.old, self.new, 1)


class Event(NamedTuple):
    """One thing that happened in a session."""

    kind: str
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
    is_repeated: bool = False  # whether a hook has kept the agent from stopping already


def parse_event(data: bytes, hook: str, client: str, current_folder: Path) -> Event | None:
    """Read an input; `hook`, `client`: from the command line, or ""; `here`: the current folder."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _build_event(value, hook, client, current_folder) if isinstance(value, dict) else None


def _build_event(
    value: Mapping[str, Any], hook: str, client: str, current_folder: Path
) -> Event | None:
    name = _get_text(value, "hook_event_name", "hookEventName")
    kind = _find_kind(value, name) if name else HOOKS.get(hook)
    session = _get_text(value, "conversation_id", "session_id", "sessionId")
    if kind is None or not session:
        return None
    folder = _resolve_folder(value, current_folder)
    event = Event(
        kind,
        name,
        client or _find_client(value),
        session,
        _get_text(value, "source", "trigger", "reason"),
        folder,
        _get_text(value, "prompt"),
        is_repeated=value.get("stop_hook_active") is True or bool(value.get("loop_count")),
    )
    return event._replace(**_build_tool_fields(value, event)) if kind in (EDIT, FAIL) else event


def _resolve_folder(value: Mapping[str, Any], current_folder: Path) -> Path:
    root = str(next(iter(_get_list(value, "workspace_roots")), ""))
    folder = Path(_get_text(value, "cwd") or root or current_folder)
    return folder if folder.is_absolute() and folder.is_dir() else current_folder


def _find_kind(value: Mapping[str, Any], name: str) -> str | None:
    """When a named event speaks. A tool that has changed a file is told of as if it were before."""
    kind = _EVENT_KINDS.get(name.casefold())
    return EDIT if kind == FAIL and _EDIT_TOOL.search(_get_tool_name(value)) else kind


def _get_tool_name(value: Mapping[str, Any]) -> str:
    return _get_text(value, "tool_name", "toolName")


def _build_tool_fields(value: Mapping[str, Any], event: Event) -> dict[str, Any]:
    """The fields of an event that a tool fills: files and edits, or a command and its error.

    Models of Codex without a tool for patches put one into a shell: `apply_patch <<'EOF'`.
    """
    tool = value.get("tool_input")
    is_edit = _EDIT_TOOL.search(_get_tool_name(value)) is not None
    if not isinstance(tool, dict) or not (is_edit or _SHELL_TOOL.search(_get_tool_name(value))):
        return {}
    fields: dict[str, Any] = {}
    if not is_edit:
        fields["command"] = _get_text(tool, "command", "cmd") or " ".join(
            map(str, _get_list(tool, "command"))
        )
        fields["error"] = _find_error(value) if event.kind == FAIL else ""
    if is_edit or _PATCH in fields["command"]:
        fields["edits"] = tuple(_iter_replacements(tool, event.folder))
        fields["files"] = _list_files(tool, event.folder)
    return fields


def _find_error(value: Mapping[str, Any]) -> str:
    """What a failed command printed; "" where it did not fail, or its user stopped it."""
    if value.get("is_interrupt") is True:
        return ""
    response = value.get("tool_response")
    is_gemini = isinstance(response, dict) and _GEMINI_OUTPUT in response
    if isinstance(response, dict):
        text = "\n".join(filter(None, (_get_text(response, name) for name in _OUTPUT_FIELDS)))
        codes = [response[name] for name in _STATUS_FIELDS if isinstance(response.get(name), int)]
    else:
        text = _get_text(value, "tool_response")
        codes = []
    has_failed = any(codes) if codes else _is_failure(text, is_gemini)
    return _get_text(value, "error", "error_message") or (text if has_failed else "")


def _is_failure(text: str, states_status: bool) -> bool:
    """Whether an output states an exit status that is not 0, or else looks like a failure."""
    match = _EXIT_STATUS.search(text[:_STATUS_SIZE]) or _EXIT_STATUS.search(text[-_STATUS_SIZE:])
    if match or states_status:
        return match is not None and int(match[1]) != 0
    return _FAILURE.search(text) is not None


def _find_client(value: Mapping[str, Any]) -> str:
    """The client. Copilot also runs Claude Code's hooks, with almost the same input."""
    if "conversation_id" in value or "cursor_version" in value:
        return "cursor"
    if "hookEventName" in value:
        return "vscode"
    if "sessionId" in value or ("timestamp" in value and "transcript_path" not in value):
        return "copilot"
    return "codex" if "turn_id" in value else "gemini" if "timestamp" in value else "claude"


def _list_files(tool: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The absolute paths of the files that a tool is going to change."""
    names = [_get_text(tool, "file_path", "filePath", "notebook_path", "path")]
    names += map(str, _get_list(tool, "files"))
    names += _PATCH_FILE.findall(_get_text(tool, "command", "input", "patch"))
    paths = (os.path.join(folder, name) for name in names if name)  # noqa: PTH118
    return tuple(dict.fromkeys(paths))


def _iter_replacements(tool: Mapping[str, Any], folder: Path) -> Iterator[Replacement]:
    """What a tool is going to write: a whole file, parts of one, or a patch of several."""
    file = os.path.join(folder, _get_text(tool, "file_path", "filePath", "path"))  # noqa: PTH118
    content = tool.get("content")
    if isinstance(content, str):
        yield Replacement(file, None, content)
        return
    for edit in (tool, *_get_list(tool, "edits")):
        new = _get_text(edit, "new_string", "newString") if isinstance(edit, dict) else ""
        if new:
            yield Replacement(file, _get_text(edit, "old_string", "oldString") or None, new)
    yield from _iter_patch_parts(_get_text(tool, "command", "input", "patch"), folder)


def _iter_patch_parts(patch: str, folder: Path) -> Iterator[Replacement]:
    """The parts of a patch in the form `*** Update File: PATH`."""
    _, *parts = _PATCH_FILE.split(patch)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        for hunk in _HUNK.split(body):
            rows = [row for row in hunk.split("\n") if row[:1] in (" ", "+", "-")]
            old = "\n".join(row[1:] for row in rows if row[0] != "+")
            new = "\n".join(row[1:] for row in rows if row[0] != "-")
            if rows:
                yield Replacement(os.path.join(folder, name), old or None, new)  # noqa: PTH118


def _get_text(value: Mapping[str, Any], *names: str) -> str:
    texts = (value.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str)), "")


def _get_list(value: Mapping[str, Any], name: str) -> list[Any]:
    items = value.get(name)
    return items if isinstance(items, list) else []
