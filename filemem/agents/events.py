"""Read the events that hooks of coding agents send as JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

START = "start"
PROMPT = "prompt"
EDIT = "edit"  # a tool will change a file or run a command
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
"""Hook -> the kind of event that it answers. Copilot's input has no name of the event."""
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
_GEMINI_OUTPUT = "llmContent"  # states the exit status only of commands that failed
_STATUS_FIELDS = ("exit_code", "exitCode", "returncode")
_OUTPUT_FIELDS = ("stderr", "stdout", "output", _GEMINI_OUTPUT, "error")


class Replacement(NamedTuple):
    """A part of a file and its new text; `old` is None for the whole file."""

    file: str
    old: str | None
    new: str

    def apply_to(self, text: str) -> str:
        """Return the changed text of the file; an unchanged one if the old part is missing."""
        if self.old is None:
            return self.new
        return text.replace(self.old, self.new, 1)


class Event(NamedTuple):
    """An event in a session of an agent."""

    kind: str
    name: str  # as the client spells it
    client: str
    session: str
    source: str  # why it started or ended; "" if the client does not say
    folder: Path
    prompt: str = ""
    files: tuple[str, ...] = ()  # the files that a tool changes
    edits: tuple[Replacement, ...] = ()  # the changes, as far as its input shows them
    command: str = ""  # the command that a tool runs in a shell
    error: str = ""  # the output of a failed command
    is_repeated: bool = False  # a hook has already kept the agent from stopping


def parse_event(data: bytes, hook: str, client: str, current_folder: Path) -> Event | None:
    """Read an event; None if the input is none that a hook answers.

    Args:
        data: The input.
        hook: The hook that the command line names, or "".
        client: The client that the command line names, or "".
        current_folder: The folder if the input has none.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return _build_event(value, hook, client, current_folder)


def _build_event(
    value: Mapping[str, Any], hook: str, client: str, current_folder: Path
) -> Event | None:
    name = _get_text(value, "hook_event_name", "hookEventName")
    kind = _find_kind(value, name) if name else HOOKS.get(hook)
    session = _get_text(value, "conversation_id", "session_id", "sessionId")
    if kind is None or not session:
        return None
    event = Event(
        kind=kind,
        name=name,
        client=client or _find_client(value),
        session=session,
        source=_get_text(value, "source", "trigger", "reason"),
        folder=_resolve_folder(value, current_folder),
        prompt=_get_text(value, "prompt"),
        is_repeated=value.get("stop_hook_active") is True or bool(value.get("loop_count")),
    )
    if kind in (EDIT, FAIL):
        return _add_tool(event, value)
    return event


def _resolve_folder(value: Mapping[str, Any], current_folder: Path) -> Path:
    stated_folder = _get_text(value, "cwd")
    roots = _get_list(value, "workspace_roots")
    if not stated_folder and roots:
        stated_folder = str(roots[0])
    folder = Path(stated_folder or current_folder)
    if folder.is_absolute() and folder.is_dir():
        return folder
    return current_folder


def _find_kind(value: Mapping[str, Any], name: str) -> str | None:
    """Return the kind of a named event; a tool that has changed a file counts as an edit."""
    kind = _EVENT_KINDS.get(name.casefold())
    if kind == FAIL and _EDIT_TOOL.search(_get_tool_name(value)):
        return EDIT
    return kind


def _get_tool_name(value: Mapping[str, Any]) -> str:
    return _get_text(value, "tool_name", "toolName")


def _add_tool(event: Event, value: Mapping[str, Any]) -> Event:
    """Return an event with the files and edits of its tool, or with the command and its error.

    Models of Codex without a tool for patches use a shell: `apply_patch <<'EOF'`.
    """
    tool = value.get("tool_input")
    if not isinstance(tool, dict):
        return event
    name = _get_tool_name(value)
    is_edit = _EDIT_TOOL.search(name) is not None
    if not is_edit:
        if not _SHELL_TOOL.search(name):
            return event
        event = event._replace(command=_get_command(tool))
        if event.kind == FAIL:
            event = event._replace(error=_find_error(value))
    if not is_edit and _PATCH not in event.command:
        return event
    edits = tuple(_iter_replacements(tool, event.folder))
    return event._replace(edits=edits, files=_list_files(tool, event.folder))


def _get_command(tool: Mapping[str, Any]) -> str:
    command = _get_text(tool, "command", "cmd")
    if command:
        return command
    words = [str(word) for word in _get_list(tool, "command")]
    return " ".join(words)


def _find_error(value: Mapping[str, Any]) -> str:
    """Return the output of a failed command; "" if it did not fail, or its user stopped it."""
    if value.get("is_interrupt") is True:
        return ""
    error = _get_text(value, "error", "error_message")
    if error:
        return error
    response = value.get("tool_response")
    if not isinstance(response, dict):
        text = _get_text(value, "tool_response")
        return text if _is_failure(text, has_status=False) else ""
    text = _join_outputs(response)
    statuses = [response[name] for name in _STATUS_FIELDS if isinstance(response.get(name), int)]
    has_failed = any(statuses)
    if not statuses:
        has_failed = _is_failure(text, has_status=_GEMINI_OUTPUT in response)
    return text if has_failed else ""


def _join_outputs(response: Mapping[str, Any]) -> str:
    texts = [_get_text(response, name) for name in _OUTPUT_FIELDS]
    return "\n".join(text for text in texts if text)


def _is_failure(text: str, *, has_status: bool) -> bool:
    """Whether an output states an exit status other than 0, or else looks like a failure.

    `has_status`: the output of a failed command always states its status.
    """
    match = _EXIT_STATUS.search(text[:_STATUS_SIZE])
    if match is None:
        match = _EXIT_STATUS.search(text[-_STATUS_SIZE:])
    if match:
        return int(match[1]) != 0
    if has_status:
        return False
    return _FAILURE.search(text) is not None


def _find_client(value: Mapping[str, Any]) -> str:
    """Return the client of an input. Copilot also runs Claude Code's hooks, with similar input."""
    if "conversation_id" in value or "cursor_version" in value:
        return "cursor"
    if "hookEventName" in value:
        return "vscode"
    has_time = "timestamp" in value
    if "sessionId" in value or (has_time and "transcript_path" not in value):
        return "copilot"
    if "turn_id" in value:
        return "codex"
    if has_time:
        return "gemini"
    return "claude"


def _list_files(tool: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Return the absolute paths of the files that a tool will change."""
    names = [_get_text(tool, "file_path", "filePath", "notebook_path", "path")]
    names += [str(file) for file in _get_list(tool, "files")]
    patch = _get_text(tool, "command", "input", "patch")
    names += _PATCH_FILE.findall(patch)
    paths = [_join_path(folder, name) for name in names if name]
    return tuple(dict.fromkeys(paths))


def _join_path(folder: Path, name: str) -> str:
    """Return a path as the client writes it: `Path` would normalize it."""
    return os.path.join(folder, name)  # noqa: PTH118


def _iter_replacements(tool: Mapping[str, Any], folder: Path) -> Iterator[Replacement]:
    """Yield what a tool will write: a whole file, parts of one, or a patch of several."""
    file = _join_path(folder, _get_text(tool, "file_path", "filePath", "path"))
    content = tool.get("content")
    if isinstance(content, str):
        yield Replacement(file, None, content)
        return
    for edit in (tool, *_get_list(tool, "edits")):
        if not isinstance(edit, dict):
            continue
        new = _get_text(edit, "new_string", "newString")
        if new:
            old = _get_text(edit, "old_string", "oldString")
            yield Replacement(file, old or None, new)
    patch = _get_text(tool, "command", "input", "patch")
    yield from _iter_patch_parts(patch, folder)


def _iter_patch_parts(patch: str, folder: Path) -> Iterator[Replacement]:
    """Yield the parts of a patch in the form `*** Update File: PATH`."""
    headers = list(_PATCH_FILE.finditer(patch))
    for index, header in enumerate(headers):
        file = _join_path(folder, header[1])
        stop = len(patch)
        if index + 1 < len(headers):
            stop = headers[index + 1].start()
        body = patch[header.end() : stop]
        for hunk in _HUNK.split(body):
            part = _parse_hunk(file, hunk)
            if part:
                yield part


def _parse_hunk(file: str, hunk: str) -> Replacement | None:
    """Return the change in a hunk; None if it has no lines of a patch."""
    old_lines: list[str] = []
    new_lines: list[str] = []
    for row in hunk.split("\n"):
        sign = row[:1]
        line = row[1:]
        if sign in (" ", "-"):
            old_lines.append(line)
        if sign in (" ", "+"):
            new_lines.append(line)
    if not old_lines and not new_lines:
        return None
    old = "\n".join(old_lines)
    return Replacement(file, old or None, "\n".join(new_lines))


def _get_text(value: Mapping[str, Any], *names: str) -> str:
    """Return the first text under these names, or ""."""
    for name in names:
        text = value.get(name)
        if isinstance(text, str):
            return text
    return ""


def _get_list(value: Mapping[str, Any], name: str) -> list[Any]:
    items = value.get(name)
    if isinstance(items, list):
        return items
    return []
