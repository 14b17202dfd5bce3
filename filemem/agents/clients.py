"""Where coding agents look for servers and hooks: tables, and functions from text to new text.

Rule: existing content stays, also an entry of ours that was changed. A file that cannot be parsed
is refused.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from filemem.agents import splice
from filemem.config import HOOKS
from filemem.errors import BadInput

Parts = dict[splice.Path, Any]
"""What a file gets: the place in its JSON or TOML -> the value there; (): a whole file."""

ROOT = ".mcp.json"
_TRUST_HINT = "trust this folder when it asks"
_CLAUDE_HOOKS = ".claude/settings.json"


class Client(NamedTuple):
    """A coding agent whose files init writes."""

    title: str
    path: str
    """Its file of servers."""
    key: str
    """The object in this file that lists servers."""
    todo: str
    """What its user must still do."""
    marker_paths: Sequence[str] = ()
    """Paths that show that a project uses it."""
    hooks: str = ""
    """Its file of hooks."""
    extra_fields: Mapping[str, Any] = MappingProxyType({})
    """What our entry holds besides the command."""


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
"""Clients with another file, where that is there or the first is not wanted."""


def _format_json_entry(program: str, args: Sequence[str]) -> str:
    return json.dumps({"mcpServers": {"filemem": {"command": program, "args": args}}})


def _format_goose_entry(program: str, args: Sequence[str]) -> str:
    command = f"cmd: {json.dumps(program)}, args: {json.dumps(args)}"
    return f"extensions: {{filemem: {{type: stdio, {command}, enabled: true, timeout: 300}}}}"


class ManualClient(NamedTuple):
    """A client that could not be tried: its user adds the entry by hand."""

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


class Event(NamedTuple):
    """An event of a client that runs one of our hooks, for some of the client's tools."""

    client: str
    hooks: Sequence[str]
    name: str
    tools: str = ""


_PROMPTS = ("prompt-first", "prompt")
_EVENTS = (
    Event("claude", ("start",), "SessionStart"),
    Event("claude", _PROMPTS, "UserPromptSubmit"),
    Event("claude", ("edits",), "PreToolUse", "Edit|MultiEdit|NotebookEdit|Write|Bash"),
    Event("claude", ("failures",), "PostToolUseFailure", "Bash"),
    Event("claude", ("capture",), "PreCompact"),
    Event("claude", ("capture",), "SessionEnd"),
    Event("claude", ("remind",), "Stop"),
    Event("codex", ("start",), "SessionStart"),
    Event("codex", _PROMPTS, "UserPromptSubmit"),
    Event("codex", ("edits",), "PreToolUse", "apply_patch|Edit|Write|Bash"),
    Event("codex", ("failures",), "PostToolUse", "Bash"),
    Event("codex", ("capture",), "PreCompact"),
    Event("codex", ("remind",), "Stop"),
    Event("gemini", ("start",), "SessionStart"),
    Event("gemini", _PROMPTS, "BeforeAgent"),
    Event("gemini", ("edits",), "AfterTool", "replace|write_file"),
    Event("gemini", ("failures",), "AfterTool", "run_shell_command"),
    Event("gemini", ("capture",), "PreCompress"),
    Event("gemini", ("capture",), "SessionEnd"),
    Event("cursor", ("start",), "sessionStart"),
    Event("cursor", ("edits",), "postToolUse", "Write"),
    Event("cursor", ("failures",), "postToolUseFailure", "Shell"),
    Event("cursor", ("capture",), "preCompact"),
    Event("cursor", ("capture",), "sessionEnd"),
    Event("cursor", ("remind",), "stop"),
    Event("opencode", ("start",), "plugin"),
)
DEFAULT_HOOKS = "start,prompt-first,edits,failures"
_TIMEOUT_SECONDS = 5  # for a hook; `filemem hook` itself ends within two
_KEPT_NOTE = "kept as it is"
USUAL_COMMAND = re.compile(r"(uvx )?filemem serve( --profile [\w-]+)?")
"""How init starts the server unless its options say otherwise."""
_OWN_HOOK_COMMAND = re.compile(r"command -v \S+ >/dev/null 2>&1 && .+ hook( [a-z-]+)? \|\| exit 0")
_INITIAL_TEXTS = {  # what a new file needs beside our entries
    ".cursor/hooks.json": '{\n  "version": 1\n}\n',
    # opencode would add it.
    "opencode.json": '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
}
READ_ERRORS = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Errors of a file that cannot be read as what it should be."""


class Wiring(NamedTuple):
    """Which clients start the server, by what command, and with which hooks."""

    client: str = "auto"
    command_words: Sequence[str] = ("filemem", "serve")
    hooks: Sequence[str] = ()

    @classmethod
    def from_options(cls, client: str, command: str, profile: str, hooks: str | None) -> Wiring:
        """From the options of the command line. Raises BadInput for an unknown hook.

        What hooks say names our own tools: none by itself where a profile lists others.
        """
        command_words = [*(command.split() or ["filemem"]), "serve"]
        if profile:
            command_words += ["--profile", profile]
        hook_names = hooks or ("none" if profile else DEFAULT_HOOKS)
        return cls(
            client,
            command_words,
            () if hook_names == "none" else _parse_names("hooks", hook_names, HOOKS),
        )


class Plan(NamedTuple):
    """The parts that each file gets, by path; and for each client what its user must still do."""

    files: dict[str, Parts]
    notes: list[str]


def resolve_clients(option: str, top: Path) -> list[str]:
    """The clients that `--client` means: those of this project, all, or those that it names."""
    marker_paths = {name: client.marker_paths for name, client in CLIENTS.items()}
    marker_paths |= {name: client.marker_paths for name, client in MANUAL_CLIENTS.items()}
    if option == "all":
        return list(marker_paths)
    if option != "auto":
        return _parse_names("client", option, ("auto", "all", *marker_paths))
    root_clients = [name for name, client in CLIENTS.items() if client.path == ROOT]
    return [
        name
        for name in marker_paths
        if name in root_clients or _has_any_path(top, marker_paths[name])
    ]


def _has_any_path(top: Path, paths: Sequence[str]) -> bool:
    return any((top / path).exists() for path in paths)


def _parse_names(option: str, value: str, choices: Collection[str]) -> list[str]:
    """The names of an option, which commas separate. Raises BadInput for any other."""
    names = [name.strip() for name in value.split(",")]
    for name in set(names) - {*choices}:
        raise BadInput(
            f"--{option}: {name!r} is not known", f"known are {', '.join(choices)}", field=option
        )
    return names


def build_plan(names: Sequence[str], top: Path, wiring: Wiring, plugin: str) -> Plan:
    """What the files of these clients get; `plugin` is the text of opencode's."""
    files: dict[str, Parts] = {}
    notes: list[str] = []
    named_clients = () if wiring.client == "auto" else names
    for name in names:
        if name in CLIENTS:
            client = _resolve_client(name, names, top)
            files.setdefault(client.path, {})[client.key, "filemem"] = build_entry(
                client, wiring.command_words
            )
            for path, key_path, value in _iter_hook_parts(name, named_clients, wiring, plugin):
                files.setdefault(path, {})[key_path] = value
            paths = [path for path in dict.fromkeys((client.path, client.hooks)) if path in files]
            notes.append(f"{client.title}: {', '.join(paths)}; {client.todo}")
    program, *args = wiring.command_words
    for name in names:
        if name in MANUAL_CLIENTS:
            client_entry = MANUAL_CLIENTS[name]
            text = client_entry.format_entry(program, args)
            notes.append(f"{client_entry.title}: not written; add to {client_entry.path}: {text}")
    return Plan(files, notes)


def _iter_hook_parts(
    name: str, named_clients: Sequence[str], wiring: Wiring, plugin: str
) -> Iterator[tuple[str, splice.Path, Any]]:
    """Path, place and value of each hook of a client."""
    path = CLIENTS[name].hooks
    for event, hook in _merge_hooks(_list_hooks(name, named_clients, wiring.hooks)):
        command = _format_command(wiring.command_words, hook)
        if name == "opencode":
            yield path, (), plugin.replace("COMMAND", json.dumps(command))
        else:
            yield path, ("hooks", event.name, None), _build_hook(name, event.tools, command)


def _merge_hooks(hooks: Iterable[tuple[Event, str]]) -> Iterable[tuple[Event, str]]:
    """One hook an event: that of several tools has no name, which means any of the usual ones."""
    merged_hooks: dict[str, tuple[Event, str]] = {}
    for event, hook in hooks:
        previous, _ = merged_hooks.get(event.name, (event, ""))
        if previous.tools == event.tools:
            merged_hooks[event.name] = (event, hook)
        else:
            merged_hooks[event.name] = (event._replace(tools=f"{previous.tools}|{event.tools}"), "")
    return merged_hooks.values()


def list_files(names: Collection[str]) -> list[str]:
    """Every file of these clients that may hold an entry of ours."""
    rows = (*CLIENTS.items(), *ALTERNATIVE_CLIENTS.items())
    paths = (path for name, client in rows if name in names for path in (client.path, client.hooks))
    return [path for path in dict.fromkeys(paths) if path]


def build_entry(client: Client, command_words: Sequence[str]) -> dict[str, Any]:
    """The entry for a server with this command, in a client's format."""
    if client.key == "mcp":
        return {**client.extra_fields, "command": list(command_words)}
    return {**client.extra_fields, "command": command_words[0], "args": list(command_words[1:])}


def add_parts(path: str, text: str | None, parts: Parts) -> tuple[str, str]:
    """The new text of a file, and our entries that differ and are kept.

    Raises BadInput if it cannot be parsed.
    """
    if path.endswith(".js"):
        plugin = parts[()]
        return text or plugin, _KEPT_NOTE if text and text != plugin else ""
    initial_text = _INITIAL_TEXTS.get(path, "" if path.endswith(".toml") else splice.EMPTY_OBJECT)
    try:
        new_text, kept_entries = _add_missing_parts(
            path, initial_text if text is None else text, parts
        )
        parse_settings(path, new_text)
    except READ_ERRORS as error:
        example = add_parts(path, None, parts)[0].strip()
        hint = f"nothing was written; correct it, or add by hand: {example}"
        raise BadInput(f"{path}: {error}", hint) from None
    note = f"{_KEPT_NOTE}: {', '.join(kept_entries)}" if kept_entries else ""
    return new_text.lstrip() if text is None else new_text, note


def _add_missing_parts(path: str, text: str, parts: Parts) -> tuple[str, list[str]]:
    """The text with the parts that are not there, and those there that differ from ours."""
    value = parse_settings(path, text)
    kept_entries: list[str] = []
    for key_path, own_value in reversed(parts.items()):
        existing_values = _list_own_values(value, key_path)
        name = key_path[-1] or key_path[-2]
        kept_entries += [
            f"{name}: {json.dumps(part)}" for part in existing_values if part != own_value
        ]
        if existing_values:
            continue
        if path.endswith(".toml"):
            text = splice.add_block(text, _format_block(own_value))
        else:
            text = splice.add_item(text, key_path, own_value)
    return text, kept_entries


def remove_parts(
    path: str, text: str, plugin: str, command_words: Sequence[str]
) -> tuple[str | None, str]:
    """The text of a file without what `wired` added, and what is left of ours.

    The text is None if `wired` created the file. A server with a command other than the usual one
    or `words` is not ours.
    """
    try:
        while parts := _find_own_parts(path, text, plugin, command_words):
            if text == add_parts(path, None, parts)[0]:
                return None, ""
            previous_text = text
            text = _remove_part(path, text, *next(iter(parts.items())))
            if text == previous_text:
                break
    except READ_ERRORS as error:
        return text, f"cannot be read: {error}"
    note = (
        "keeps an entry for filemem that differs from what init writes" if "filemem" in text else ""
    )
    return text, note


def _remove_part(path: str, text: str, key_path: splice.Path, value: Any) -> str:
    if path.endswith(".toml"):
        return splice.remove_block(text, _format_block(value))
    return splice.remove_item(text, key_path, value)


def _resolve_client(name: str, names: Sequence[str], top: Path) -> Client:
    """A client with the file that it uses here.

    VS Code reads the root's too, and would list the server twice.
    """
    needs_own_file = (
        name == "vscode"
        and not _has_any_path(top, (ROOT,))
        and not {"claude", "copilot"} & set(names)
    )
    needs_alternative = needs_own_file or (
        name == "opencode" and _has_any_path(top, ("opencode.jsonc",))
    )
    return ALTERNATIVE_CLIENTS[name] if needs_alternative else CLIENTS[name]


def _list_hooks(
    name: str, named_clients: Sequence[str], hooks: Sequence[str]
) -> list[tuple[Event, str]]:
    """The events of a client, each with its hook.

    Copilot denies a tool whose hook fails, so whoever names it gets none for edits there.
    """
    reads_claude = CLIENTS[name].hooks == _CLAUDE_HOOKS
    events = [event for event in _EVENTS if event.client == ("claude" if reads_claude else name)]
    denied_hook = "edits" if reads_claude and "copilot" in named_clients else ""
    hook_names = [hook for hook in HOOKS if hook in hooks and hook != denied_hook]
    return [(event, hook) for hook in hook_names for event in events if hook in event.hooks]


def _build_hook(name: str, tools: str, command: str) -> dict[str, Any]:
    """A hook in a client's format."""
    matcher = {"matcher": tools} if tools else {}
    if name == "cursor":
        return {"command": command, "timeout": _TIMEOUT_SECONDS, **matcher}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": _TIMEOUT_SECONDS}
    if name == "gemini":
        hook = {"name": "filemem", **hook, "timeout": _TIMEOUT_SECONDS * 1000}
    return {**matcher, "hooks": [hook]}


def _format_command(command_words: Sequence[str], hook: str) -> str:
    """A hook's command as one string, as Copilot runs Claude Code's.

    It does nothing if filemem is not installed.
    """
    program = shlex.join(command_words[: command_words.index("serve")])
    hook_command = f"{program} hook {hook}".rstrip()
    return f"command -v {shlex.quote(command_words[0])} >/dev/null 2>&1 && {hook_command} || exit 0"


def _is_own_hook(element: Any) -> bool:
    """Whether an element of a list is a hook of ours."""
    inner_hooks = element.get("hooks", [element]) if isinstance(element, dict) else []
    if len(inner_hooks) != 1 or not isinstance(inner_hooks[0], dict):
        return False
    has_usual_timeout = inner_hooks[0].get("timeout") in (_TIMEOUT_SECONDS, 1000 * _TIMEOUT_SECONDS)
    return has_usual_timeout and bool(
        _OWN_HOOK_COMMAND.fullmatch(str(inner_hooks[0].get("command")))
    )


def _find_own_parts(path: str, text: str, plugin: str, command_words: Sequence[str]) -> Parts:
    """The parts of a file that init wrote and that are unchanged."""
    if path.endswith(".js"):
        head, _, tail = plugin.partition("COMMAND")
        return {(): text} if text.startswith(head) and text.endswith(tail) else {}
    value = parse_settings(path, text)
    parts = Parts()
    for client in (*CLIENTS.values(), *ALTERNATIVE_CLIENTS.values()):
        if client.path == path:
            server, server_words = parse_server(client, value)
            if server_words == list(command_words) or USUAL_COMMAND.fullmatch(
                " ".join(server_words)
            ):
                parts[client.key, "filemem"] = server
    return parts | _find_own_hooks(value.get("hooks"))


def _find_own_hooks(events: Any) -> Parts:
    """Our hook in each event of a client's file; anything else there is not ours."""
    if not isinstance(events, dict):
        return {}
    return {
        ("hooks", name, None): element
        for name, elements in events.items()
        if isinstance(elements, list)
        for element in elements
        if _is_own_hook(element)
    }


def parse_server(client: Client, value: Any) -> tuple[Any, list[str]]:
    """Our entry in a client's file, if any, and its command, if the entry is as init writes it."""
    server = value.get(client.key, {}).get("filemem")
    if not server:
        return None, []
    command = server.get("command")
    command_words = command if isinstance(command, list) else [command, *server.get("args", [])]
    is_usual = "serve" in command_words and server == build_entry(client, command_words)
    return server, command_words if is_usual else []


def parse_settings(path: str, text: str) -> Any:
    """The parsed content of a client's file. Raises ValueError, or RecursionError."""
    text = text.removeprefix("\ufeff")
    if path.endswith(".toml"):
        return tomllib.loads(text)
    value = json.loads(
        text if path == ROOT else splice.strip_comments(text)
    )  # no comments in the root's
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _format_block(server: Mapping[str, Any]) -> str:
    rows = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in server.items())
    return "\n".join(("[mcp_servers.filemem]", *rows))


def _list_own_values(value: Any, key_path: splice.Path) -> list[Any]:
    """Our present content at this place."""
    for key in key_path[:-1]:
        value = value.get(key, {})
    last_key = key_path[-1]
    if last_key is None:
        return [element for element in value if _is_own_hook(element)]
    return [value[last_key]] if last_key in value else []
