"""Add our server and hooks to the files of coding agents, and remove them. Mostly pure functions.

Existing content stays, also an entry of ours that was changed. A file that cannot be parsed is
refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from filemem.agents import splice
from filemem.agents.hook_entries import build_hook, format_command, is_own_hook, list_hooks
from filemem.config import HOOKS
from filemem.errors import BadInput

Parts = dict[splice.Path, Any]
"""The entries for a file: the place in its JSON or TOML -> the value; (): the whole file."""

ROOT = ".mcp.json"
_TRUST_HINT = "trust this folder when it asks"
_CLAUDE_HOOKS = ".claude/settings.json"


class Client(NamedTuple):
    """A coding agent whose files init writes."""

    title: str
    path: str  # its file of servers
    key: str  # the object in this file that lists servers
    todo: str  # what its user must still do
    marker_paths: Sequence[str] = ()  # paths that show that a project uses it
    hooks: str = ""  # its file of hooks
    extra_fields: Mapping[str, Any] = MappingProxyType({})  # of our entry, besides the command


CLIENTS = {
    "claude": Client(
        "Claude Code",
        ROOT,
        "mcpServers",
        "start claude here and approve the server",
        hooks=_CLAUDE_HOOKS,
    ),
    "copilot": Client("Copilot CLI", ROOT, "mcpServers", _TRUST_HINT, hooks=_CLAUDE_HOOKS),
    "vscode": Client("VS Code", ROOT, "mcpServers", "trust the workspace, then start the server"),
    "codex": Client(
        "Codex",
        ".codex/config.toml",
        "mcp_servers",
        f"{_TRUST_HINT}, then approve hooks with /hooks",
        marker_paths=(".codex",),
        hooks=".codex/hooks.json",
    ),
    "cursor": Client(
        "Cursor",
        ".cursor/mcp.json",
        "mcpServers",
        "switch filemem on in its settings, under MCP; for hooks trust the workspace",
        marker_paths=(".cursor",),
        hooks=".cursor/hooks.json",
        extra_fields={"type": "stdio"},
    ),
    "gemini": Client(
        "Gemini CLI",
        ".gemini/settings.json",
        "mcpServers",
        _TRUST_HINT,
        marker_paths=(".gemini",),
        hooks=".gemini/settings.json",
    ),
    "opencode": Client(
        "opencode",
        "opencode.json",
        "mcp",
        "nothing more to do",
        marker_paths=(".opencode", "opencode.json", "opencode.jsonc"),
        hooks=".opencode/plugins/filemem.js",
        extra_fields={"type": "local", "enabled": True},
    ),
    "zed": Client(
        "Zed",
        ".zed/settings.json",
        "context_servers",
        "trust the worktree; it has no hooks",
        marker_paths=(".zed",),
        extra_fields={"source": "custom", "env": {}},
    ),
}
ALTERNATIVE_CLIENTS = {
    "vscode": CLIENTS["vscode"]._replace(
        path=".vscode/mcp.json", key="servers", extra_fields={"type": "stdio"}
    ),
    "opencode": CLIENTS["opencode"]._replace(path="opencode.jsonc"),
}
"""Clients with another file, if that exists or the first is not wanted."""


def _format_json_entry(program: str, args: Sequence[str]) -> str:
    return json.dumps({"mcpServers": {"filemem": {"command": program, "args": args}}})


def _format_goose_entry(program: str, args: Sequence[str]) -> str:
    command = f"cmd: {json.dumps(program)}, args: {json.dumps(args)}"
    return f"extensions: {{filemem: {{type: stdio, {command}, enabled: true, timeout: 300}}}}"


class ManualClient(NamedTuple):
    """A client that was not tested: its user adds the entry by hand."""

    title: str
    path: str
    marker_paths: Sequence[str] = ()
    format_entry: Callable[[str, Sequence[str]], str] = _format_json_entry


MANUAL_CLIENTS = {
    "junie": ManualClient("Junie", ".junie/mcp/mcp.json", (".junie",)),
    "kiro": ManualClient("Kiro", ".kiro/settings/mcp.json", (".kiro",)),
    "windsurf": ManualClient("Windsurf", "~/.codeium/windsurf/mcp_config.json", (".windsurf",)),
    "cline": ManualClient("Cline", "cline_mcp_settings.json", (".clinerules",)),
    "goose": ManualClient(
        "goose", "~/.config/goose/config.yaml", (".goosehints",), _format_goose_entry
    ),
    "claude-desktop": ManualClient("Claude Desktop", "claude_desktop_config.json"),
}


DEFAULT_HOOKS = "start,prompt-first,edits,failures"
_KEPT_NOTE = "kept as it is"
USUAL_COMMAND = re.compile(r"(uvx )?filemem serve( --profile [\w-]+)?")
"""How init starts the server unless its options say otherwise."""
_INITIAL_TEXTS = {  # the content of a new file besides our entries
    ".cursor/hooks.json": '{\n  "version": 1\n}\n',
    # opencode would add it.
    "opencode.json": '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
}
READ_ERRORS = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Errors of a file that cannot be read in the expected format."""


class Wiring(NamedTuple):
    """The clients that start the server, its command, and the hooks."""

    client: str = "auto"
    command_words: Sequence[str] = ("filemem", "serve")
    hooks: Sequence[str] = ()

    @classmethod
    def from_options(cls, client: str, command: str, profile: str, hooks: str | None) -> Wiring:
        """Read the options of the command line. Raises BadInput for an unknown hook.

        With a profile the default is no hooks, because their texts name our own tools.
        """
        command_words = command.split() or ["filemem"]
        command_words.append("serve")
        default_hooks = DEFAULT_HOOKS
        if profile:
            command_words += ["--profile", profile]
            default_hooks = "none"
        hook_names = hooks or default_hooks
        if hook_names == "none":
            return cls(client, command_words, ())
        return cls(client, command_words, _parse_names("hooks", hook_names, HOOKS))


class Plan(NamedTuple):
    """The entries for each file, by path; and for each client what its user must still do."""

    files: dict[str, Parts]
    notes: list[str]


class FileChange(NamedTuple):
    """The new text of a file, None to remove it; and a note about entries that are left."""

    text: str | None
    note: str


def resolve_clients(option: str, top: Path) -> list[str]:
    """Return the clients that `--client` means: those of this project, all, or those it names."""
    marker_paths: dict[str, Sequence[str]] = {}
    for name, client in CLIENTS.items():
        marker_paths[name] = client.marker_paths
    for name, manual_client in MANUAL_CLIENTS.items():
        marker_paths[name] = manual_client.marker_paths
    if option == "all":
        return list(marker_paths)
    if option != "auto":
        return _parse_names("client", option, ("auto", "all", *marker_paths))
    names = []
    for name, paths in marker_paths.items():
        reads_root = name in CLIENTS and CLIENTS[name].path == ROOT
        if reads_root or _has_any_path(top, paths):
            names.append(name)
    return names


def _has_any_path(top: Path, paths: Sequence[str]) -> bool:
    return any((top / path).exists() for path in paths)


def _parse_names(option: str, value: str, choices: Collection[str]) -> list[str]:
    """Return the comma-separated names of an option. Raises BadInput for an unknown one."""
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in choices:
            hint = f"known are {', '.join(choices)}"
            raise BadInput(f"--{option}: {name!r} is not known", hint, field=option)
    return names


def build_plan(names: Sequence[str], top: Path, wiring: Wiring, plugin: str) -> Plan:
    """Return the entries for the files of these clients; `plugin` is the text of opencode's."""
    plan = Plan({}, [])
    named_clients = () if wiring.client == "auto" else names
    for name in names:
        if name in CLIENTS:
            client = _resolve_client(name, names, top)
            server = plan.files.setdefault(client.path, {})
            server[client.key, "filemem"] = build_entry(client, wiring.command_words)
            hooks = _build_hook_parts(name, named_clients, wiring, plugin)
            if hooks:
                plan.files.setdefault(client.hooks, {}).update(hooks)
            paths = [client.path]
            if client.hooks != client.path and client.hooks in plan.files:
                paths.append(client.hooks)
            plan.notes.append(f"{client.title}: {', '.join(paths)}; {client.todo}")
    program, *args = wiring.command_words
    for name in names:
        if name in MANUAL_CLIENTS:
            manual_client = MANUAL_CLIENTS[name]
            text = manual_client.format_entry(program, args)
            note = f"{manual_client.title}: not written; add to {manual_client.path}: {text}"
            plan.notes.append(note)
    return plan


def _build_hook_parts(
    name: str, named_clients: Sequence[str], wiring: Wiring, plugin: str
) -> Parts:
    """Return the entries of a client's hooks."""
    parts = Parts()
    for hook in list_hooks(name, named_clients, wiring.hooks):
        command = format_command(wiring.command_words, hook.name)
        if name == "opencode":
            parts[()] = plugin.replace("COMMAND", json.dumps(command))
        else:
            parts["hooks", hook.event, None] = build_hook(name, hook.tools, command)
    return parts


def list_files(names: Collection[str]) -> list[str]:
    """Return the files of these clients that may have an entry of ours."""
    paths: dict[str, None] = {}
    for table in (CLIENTS, ALTERNATIVE_CLIENTS):
        for name, client in table.items():
            if name in names:
                paths[client.path] = None
                paths[client.hooks] = None
    return [path for path in paths if path]


def build_entry(client: Client, command_words: Sequence[str]) -> dict[str, Any]:
    """Return the entry for a server with this command, in a client's format."""
    entry = dict(client.extra_fields)
    if client.key == "mcp":
        entry["command"] = list(command_words)
    else:
        entry["command"] = command_words[0]
        entry["args"] = list(command_words[1:])
    return entry


def add_parts(path: str, text: str | None, parts: Parts) -> FileChange:
    """Return the new text of a file, None for a new file; keep entries of ours that differ.

    Raises BadInput if the text cannot be parsed.
    """
    if text is None:
        return FileChange(_build_new_file(path, parts), "")
    if path.endswith(".js"):
        plugin = parts[()]
        if text and text != plugin:
            return FileChange(text, _KEPT_NOTE)
        return FileChange(plugin, "")
    try:
        new_text, kept_entries = _add_missing_parts(path, text, parts)
        parse_settings(path, new_text)
    except READ_ERRORS as error:
        example = _build_new_file(path, parts).strip()
        hint = f"nothing was written; correct it, or add by hand: {example}"
        raise BadInput(f"{path}: {error}", hint) from None
    note = ""
    if kept_entries:
        note = f"{_KEPT_NOTE}: {', '.join(kept_entries)}"
    return FileChange(new_text, note)


def _build_new_file(path: str, parts: Parts) -> str:
    if path.endswith(".js"):
        return str(parts[()])
    default_text = "" if path.endswith(".toml") else splice.EMPTY_OBJECT
    initial_text = _INITIAL_TEXTS.get(path, default_text)
    text, _ = _add_missing_parts(path, initial_text, parts)
    return text.lstrip()


def _add_missing_parts(path: str, text: str, parts: Parts) -> tuple[str, list[str]]:
    """Return the text with the missing parts, and the present ones that differ from ours."""
    value = parse_settings(path, text)
    kept_entries: list[str] = []
    for key_path, own_value in reversed(parts.items()):
        existing_values = _list_own_values(value, key_path)
        name = key_path[-1] or key_path[-2]
        kept_values = [kept for kept in existing_values if kept != own_value]
        kept_entries += [f"{name}: {json.dumps(kept)}" for kept in kept_values]
        if existing_values:
            continue
        if path.endswith(".toml"):
            text = splice.add_block(text, _format_block(own_value))
        else:
            text = splice.add_item(text, key_path, own_value)
    return text, kept_entries


def remove_parts(path: str, text: str, plugin: str, command_words: Sequence[str]) -> FileChange:
    """Return the text of a file without the entries of `add_parts`, and a note of those left.

    The text is None if `add_parts` created the file. A server with another command than the usual
    one or `command_words` is not ours.
    """
    try:
        while parts := _find_own_parts(path, text, plugin, command_words):
            if text == _build_new_file(path, parts):
                return FileChange(None, "")
            previous_text = text
            key_path = next(iter(parts))
            text = _remove_part(path, text, key_path, parts[key_path])
            if text == previous_text:
                break
    except READ_ERRORS as error:
        return FileChange(text, f"cannot be read: {error}")
    note = ""
    if "filemem" in text:
        note = "keeps an entry for filemem that differs from what init writes"
    return FileChange(text, note)


def _remove_part(path: str, text: str, key_path: splice.Path, value: Any) -> str:
    if path.endswith(".toml"):
        return splice.remove_block(text, _format_block(value))
    return splice.remove_item(text, key_path, value)


def _resolve_client(name: str, names: Sequence[str], top: Path) -> Client:
    """Return a client with the file that it uses here.

    VS Code also reads the root's file, and would list the server twice.
    """
    needs_alternative = False
    if name == "vscode":
        is_root_used = "claude" in names or "copilot" in names
        needs_alternative = not is_root_used and not _has_any_path(top, (ROOT,))
    elif name == "opencode":
        needs_alternative = _has_any_path(top, ("opencode.jsonc",))
    if needs_alternative:
        return ALTERNATIVE_CLIENTS[name]
    return CLIENTS[name]


def _find_own_parts(path: str, text: str, plugin: str, command_words: Sequence[str]) -> Parts:
    """Return the entries in a file that init wrote and that are unchanged."""
    if path.endswith(".js"):
        head, _, tail = plugin.partition("COMMAND")
        if text.startswith(head) and text.endswith(tail):
            return {(): text}
        return {}
    value = parse_settings(path, text)
    parts = Parts()
    for client in (*CLIENTS.values(), *ALTERNATIVE_CLIENTS.values()):
        if client.path != path:
            continue
        server = parse_server(client, value)
        is_usual = USUAL_COMMAND.fullmatch(" ".join(server.command_words))
        if is_usual or server.command_words == list(command_words):
            parts[client.key, "filemem"] = server.content
    return parts | _find_own_hooks(value.get("hooks"))


def _find_own_hooks(events: Any) -> Parts:
    """Return our hook in each event of a client's file."""
    parts = Parts()
    if not isinstance(events, dict):
        return parts
    for name, elements in events.items():
        if not isinstance(elements, list):
            continue
        for element in elements:
            if is_own_hook(element):
                parts["hooks", name, None] = element
    return parts


class Server(NamedTuple):
    """Our entry in a client's file, None if it is missing, and its command.

    The command is empty if the entry is not as init writes it.
    """

    content: Any
    command_words: list[str]


def parse_server(client: Client, value: Any) -> Server:
    """Return our entry in a client's file."""
    content = value.get(client.key, {}).get("filemem")
    if not content:
        return Server(None, [])
    command = content.get("command")
    words = command
    if not isinstance(command, list):
        words = [command, *content.get("args", [])]
    if "serve" in words and content == build_entry(client, words):
        return Server(content, words)
    return Server(content, [])


def parse_settings(path: str, text: str) -> Any:
    """Return the parsed content of a client's file. Raises ValueError, or RecursionError."""
    text = text.removeprefix("\ufeff")
    if path.endswith(".toml"):
        return tomllib.loads(text)
    if path != ROOT:  # the root's file may have no comments
        text = splice.strip_comments(text)
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _format_block(server: Mapping[str, Any]) -> str:
    rows = ["[mcp_servers.filemem]"]
    for key, value in server.items():
        text = json.dumps(value, ensure_ascii=False)
        rows.append(f"{key} = {text}")
    return "\n".join(rows)


def _list_own_values(value: Any, key_path: splice.Path) -> list[Any]:
    """Return our present content at this place."""
    for key in key_path[:-1]:
        value = value.get(key, {})
    last_key = key_path[-1]
    if last_key is None:
        return [element for element in value if is_own_hook(element)]
    if last_key in value:
        return [value[last_key]]
    return []
