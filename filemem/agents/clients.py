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
_TRUST = "trust this folder when it asks"
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
    signs: Sequence[str] = ()
    """Paths that show that a project uses it."""
    hooks: str = ""
    """Its file of hooks."""
    extra: Mapping[str, Any] = MappingProxyType({})
    """What our entry holds besides the command."""


CLIENTS = {
    "claude": Client(
        "Claude Code",
        ROOT,
        "mcpServers",
        "start claude here and approve the server",
        hooks=_CLAUDE_HOOKS,
    ),
    "copilot": Client("Copilot CLI", ROOT, "mcpServers", _TRUST, hooks=_CLAUDE_HOOKS),
    "vscode": Client("VS Code", ROOT, "mcpServers", "trust the workspace, then start the server"),
    "codex": Client(
        "Codex",
        ".codex/config.toml",
        "mcp_servers",
        f"{_TRUST}, then approve hooks with /hooks",
        signs=(".codex",),
        hooks=".codex/hooks.json",
    ),
    "cursor": Client(
        "Cursor",
        ".cursor/mcp.json",
        "mcpServers",
        "switch filemem on in its settings, under MCP; for hooks trust the workspace",
        signs=(".cursor",),
        hooks=".cursor/hooks.json",
        extra={"type": "stdio"},
    ),
    "gemini": Client(
        "Gemini CLI",
        ".gemini/settings.json",
        "mcpServers",
        _TRUST,
        signs=(".gemini",),
        hooks=".gemini/settings.json",
    ),
    "opencode": Client(
        "opencode",
        "opencode.json",
        "mcp",
        "nothing more to do",
        signs=(".opencode", "opencode.json", "opencode.jsonc"),
        hooks=".opencode/plugins/filemem.js",
        extra={"type": "local", "enabled": True},
    ),
    "zed": Client(
        "Zed",
        ".zed/settings.json",
        "context_servers",
        "trust the worktree; it has no hooks",
        signs=(".zed",),
        extra={"source": "custom", "env": {}},
    ),
}
OTHERS = {
    "vscode": CLIENTS["vscode"]._replace(
        path=".vscode/mcp.json", key="servers", extra={"type": "stdio"}
    ),
    "opencode": CLIENTS["opencode"]._replace(path="opencode.jsonc"),
}
"""Clients with another file, where that is there or the first is not wanted."""


def _json(program: str, args: Sequence[str]) -> str:
    return json.dumps({"mcpServers": {"filemem": {"command": program, "args": args}}})


def _goose(program: str, args: Sequence[str]) -> str:
    command = f"cmd: {json.dumps(program)}, args: {json.dumps(args)}"
    return f"extensions: {{filemem: {{type: stdio, {command}, enabled: true, timeout: 300}}}}"


class Pasted(NamedTuple):
    """A client that could not be tried: its user adds the entry by hand."""

    title: str
    path: str
    signs: Sequence[str] = ()
    entry: Callable[[str, Sequence[str]], str] = _json


PASTED = {
    "junie": Pasted("Junie", ".junie/mcp/mcp.json", (".junie",)),
    "kiro": Pasted("Kiro", ".kiro/settings/mcp.json", (".kiro",)),
    "windsurf": Pasted("Windsurf", "~/.codeium/windsurf/mcp_config.json", (".windsurf",)),
    "cline": Pasted("Cline", "cline_mcp_settings.json", (".clinerules",)),
    "goose": Pasted("goose", "~/.config/goose/config.yaml", (".goosehints",), _goose),
    "claude-desktop": Pasted("Claude Desktop", "claude_desktop_config.json"),
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
USUAL_HOOKS = "start,prompt-first,edits,failures"
_SECONDS = 5  # for a hook; `filemem hook` itself ends within two
_KEPT = "kept as it is"
USUAL = re.compile(r"(uvx )?filemem serve( --profile [\w-]+)?")
"""How init starts the server unless its options say otherwise."""
_OURS = re.compile(r"command -v \S+ >/dev/null 2>&1 && .+ hook( [a-z-]+)? \|\| exit 0")
_BEGUN = {  # what a new file needs beside our entries
    ".cursor/hooks.json": '{\n  "version": 1\n}\n',
    # opencode would add it.
    "opencode.json": '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
}
WRONG = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Errors of a file that cannot be read as what it should be."""


class Wiring(NamedTuple):
    """Which clients start the server, by what command, and with which hooks."""

    client: str = "auto"
    words: Sequence[str] = ("filemem", "serve")
    hooks: Sequence[str] = ()

    @classmethod
    def of(cls, client: str, command: str, profile: str, hooks: str | None) -> Wiring:
        """From the options of the command line. Raises BadInput for an unknown hook.

        What hooks say names our own tools: none by itself where a profile lists others.
        """
        words = [*(command.split() or ["filemem"]), "serve"]
        if profile:
            words += ["--profile", profile]
        wanted = hooks or ("none" if profile else USUAL_HOOKS)
        return cls(client, words, () if wanted == "none" else _named("hooks", wanted, HOOKS))


class Plan(NamedTuple):
    """The parts that each file gets, by path; and for each client what its user must still do."""

    files: dict[str, Parts]
    notes: list[str]


def chosen(option: str, top: Path) -> list[str]:
    """The clients that `--client` means: those of this project, all, or those that it names."""
    signs = {name: client.signs for name, client in CLIENTS.items()}
    signs |= {name: client.signs for name, client in PASTED.items()}
    if option == "all":
        return list(signs)
    if option != "auto":
        return _named("client", option, ("auto", "all", *signs))
    always = [name for name, client in CLIENTS.items() if client.path == ROOT]
    return [name for name in signs if name in always or _has(top, signs[name])]


def _has(top: Path, paths: Sequence[str]) -> bool:
    return any((top / path).exists() for path in paths)


def _named(option: str, value: str, choices: Collection[str]) -> list[str]:
    """The names of an option, which commas separate. Raises BadInput for any other."""
    names = [name.strip() for name in value.split(",")]
    for name in set(names) - {*choices}:
        raise BadInput(
            f"--{option}: {name!r} is not known", f"known are {', '.join(choices)}", field=option
        )
    return names


def plan(names: Sequence[str], top: Path, wiring: Wiring, plugin: str) -> Plan:
    """What the files of these clients get; `plugin` is the text of opencode's."""
    files: dict[str, Parts] = {}
    notes: list[str] = []
    named = () if wiring.client == "auto" else names
    for name in names:
        if name in CLIENTS:
            client = _client(name, names, top)
            files.setdefault(client.path, {})[client.key, "filemem"] = entry(client, wiring.words)
            for path, place, value in _hook_parts(name, named, wiring, plugin):
                files.setdefault(path, {})[place] = value
            paths = [path for path in dict.fromkeys((client.path, client.hooks)) if path in files]
            notes.append(f"{client.title}: {', '.join(paths)}; {client.todo}")
    program, *args = wiring.words
    for name in names:
        if name in PASTED:
            pasted = PASTED[name]
            text = pasted.entry(program, args)
            notes.append(f"{pasted.title}: not written; add to {pasted.path}: {text}")
    return Plan(files, notes)


def _hook_parts(
    name: str, named: Sequence[str], wiring: Wiring, plugin: str
) -> Iterator[tuple[str, splice.Path, Any]]:
    """Path, place and value of each hook of a client."""
    path = CLIENTS[name].hooks
    for event, hook in _shared(_hooks(name, named, wiring.hooks)):
        command = _command(wiring.words, hook)
        if name == "opencode":
            yield path, (), plugin.replace("COMMAND", json.dumps(command))
        else:
            yield path, ("hooks", event.name, None), _element(name, event.tools, command)


def _shared(hooks: Iterable[tuple[Event, str]]) -> Iterable[tuple[Event, str]]:
    """One hook an event: that of several tools has no name, which means any of the usual ones."""
    shared: dict[str, tuple[Event, str]] = {}
    for event, hook in hooks:
        before, _ = shared.get(event.name, (event, ""))
        if before.tools == event.tools:
            shared[event.name] = (event, hook)
        else:
            shared[event.name] = (event._replace(tools=f"{before.tools}|{event.tools}"), "")
    return shared.values()


def files(names: Collection[str]) -> list[str]:
    """Every file of these clients that may hold an entry of ours."""
    rows = (*CLIENTS.items(), *OTHERS.items())
    paths = (path for name, client in rows if name in names for path in (client.path, client.hooks))
    return [path for path in dict.fromkeys(paths) if path]


def entry(client: Client, words: Sequence[str]) -> dict[str, Any]:
    """The entry for a server with this command, in a client's format."""
    if client.key == "mcp":
        return {**client.extra, "command": list(words)}
    return {**client.extra, "command": words[0], "args": list(words[1:])}


def wired(path: str, text: str | None, parts: Parts) -> tuple[str, str]:
    """The new text of a file, and our entries that differ and are kept.

    Raises BadInput if it cannot be parsed.
    """
    if path.endswith(".js"):
        plugin = parts[()]
        return text or plugin, _KEPT if text and text != plugin else ""
    begun = _BEGUN.get(path, "" if path.endswith(".toml") else splice.NEW)
    try:
        new, kept = _with_parts(path, begun if text is None else text, parts)
        parsed(path, new)
    except WRONG as error:
        alone = wired(path, None, parts)[0].strip()
        hint = f"nothing was written; correct it, or add by hand: {alone}"
        raise BadInput(f"{path}: {error}", hint) from None
    note = f"{_KEPT}: {', '.join(kept)}" if kept else ""
    return new.lstrip() if text is None else new, note


def _with_parts(path: str, text: str, parts: Parts) -> tuple[str, list[str]]:
    """The text with the parts that are not there, and those there that differ from ours."""
    value = parsed(path, text)
    kept: list[str] = []
    for place, ours in reversed(parts.items()):
        present = _at(value, place)
        name = place[-1] or place[-2]
        kept += [f"{name}: {json.dumps(part)}" for part in present if part != ours]
        if present:
            continue
        if path.endswith(".toml"):
            text = splice.with_block(text, _block(ours))
        else:
            text = splice.with_item(text, place, ours)
    return text, kept


def unwired(path: str, text: str, plugin: str, words: Sequence[str]) -> tuple[str | None, str]:
    """The text of a file without what `wired` added, and what is left of ours.

    The text is None if `wired` created the file. A server with a command other than the usual one
    or `words` is not ours.
    """
    try:
        while parts := _ours(path, text, plugin, words):
            if text == wired(path, None, parts)[0]:
                return None, ""
            before = text
            text = _without_part(path, text, *next(iter(parts.items())))
            if text == before:
                break
    except WRONG as error:
        return text, f"cannot be read: {error}"
    left = (
        "keeps an entry for filemem that differs from what init writes" if "filemem" in text else ""
    )
    return text, left


def _without_part(path: str, text: str, place: splice.Path, value: Any) -> str:
    if path.endswith(".toml"):
        return splice.without_block(text, _block(value))
    return splice.without_item(text, place, value)


def _client(name: str, names: Sequence[str], top: Path) -> Client:
    """A client with the file that it uses here.

    VS Code reads the root's too, and would list the server twice.
    """
    alone = name == "vscode" and not _has(top, (ROOT,)) and not {"claude", "copilot"} & set(names)
    other = alone or (name == "opencode" and _has(top, ("opencode.jsonc",)))
    return OTHERS[name] if other else CLIENTS[name]


def _hooks(name: str, named: Sequence[str], hooks: Sequence[str]) -> list[tuple[Event, str]]:
    """The events of a client, each with its hook.

    Copilot denies a tool whose hook fails, so whoever names it gets none for edits there.
    """
    reads_claude = CLIENTS[name].hooks == _CLAUDE_HOOKS
    events = [event for event in _EVENTS if event.client == ("claude" if reads_claude else name)]
    denied = "edits" if reads_claude and "copilot" in named else ""
    wanted = [hook for hook in HOOKS if hook in hooks and hook != denied]
    return [(event, hook) for hook in wanted for event in events if hook in event.hooks]


def _element(name: str, tools: str, command: str) -> dict[str, Any]:
    """A hook in a client's format."""
    matcher = {"matcher": tools} if tools else {}
    if name == "cursor":
        return {"command": command, "timeout": _SECONDS, **matcher}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": _SECONDS}
    if name == "gemini":
        hook = {"name": "filemem", **hook, "timeout": _SECONDS * 1000}
    return {**matcher, "hooks": [hook]}


def _command(words: Sequence[str], hook: str) -> str:
    """A hook's command as one string, as Copilot runs Claude Code's.

    It does nothing if filemem is not installed.
    """
    start = shlex.join(words[: words.index("serve")])
    line = f"{start} hook {hook}".rstrip()
    return f"command -v {shlex.quote(words[0])} >/dev/null 2>&1 && {line} || exit 0"


def _is_hook(element: Any) -> bool:
    """Whether an element of a list is a hook of ours."""
    inner = element.get("hooks", [element]) if isinstance(element, dict) else []
    if len(inner) != 1 or not isinstance(inner[0], dict):
        return False
    usual = inner[0].get("timeout") in (_SECONDS, 1000 * _SECONDS)
    return usual and bool(_OURS.fullmatch(str(inner[0].get("command"))))


def _ours(path: str, text: str, plugin: str, usual: Sequence[str]) -> Parts:
    """The parts of a file that init wrote and that are unchanged."""
    if path.endswith(".js"):
        head, _, tail = plugin.partition("COMMAND")
        return {(): text} if text.startswith(head) and text.endswith(tail) else {}
    value = parsed(path, text)
    parts = Parts()
    for client in (*CLIENTS.values(), *OTHERS.values()):
        if client.path == path:
            server, words = started(client, value)
            if words == list(usual) or USUAL.fullmatch(" ".join(words)):
                parts[client.key, "filemem"] = server
    return parts | _our_hooks(value.get("hooks"))


def _our_hooks(events: Any) -> Parts:
    """Our hook in each event of a client's file; anything else there is not ours."""
    if not isinstance(events, dict):
        return {}
    return {
        ("hooks", name, None): element
        for name, elements in events.items()
        if isinstance(elements, list)
        for element in elements
        if _is_hook(element)
    }


def started(client: Client, value: Any) -> tuple[Any, list[str]]:
    """Our entry in a client's file, if any, and its command, if the entry is as init writes it."""
    server = value.get(client.key, {}).get("filemem")
    if not server:
        return None, []
    command = server.get("command")
    words = command if isinstance(command, list) else [command, *server.get("args", [])]
    usual = "serve" in words and server == entry(client, words)
    return server, words if usual else []


def parsed(path: str, text: str) -> Any:
    """The parsed content of a client's file. Raises ValueError, or RecursionError."""
    text = text.removeprefix("\ufeff")
    if path.endswith(".toml"):
        return tomllib.loads(text)
    value = json.loads(text if path == ROOT else splice.plain(text))  # no comments in the root's
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _block(server: Mapping[str, Any]) -> str:
    rows = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in server.items())
    return "\n".join(("[mcp_servers.filemem]", *rows))


def _at(value: Any, place: splice.Path) -> list[Any]:
    """Our present content at this place."""
    for key in place[:-1]:
        value = value.get(key, {})
    last = place[-1]
    if last is None:
        return [element for element in value if _is_hook(element)]
    return [value[last]] if last in value else []
