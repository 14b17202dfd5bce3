"""Where coding agents look for servers and hooks: tables, and functions from the text of a file to its new text.

Rule: existing content stays, also an entry of ours that was changed. A file that cannot be parsed is refused.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filemem.agents import splice
from filemem.config import HOOKS
from filemem.errors import BadInput

Parts = dict[
    splice.Path, Any
]  # what a file gets: the place in its JSON or TOML -> the value there; (): a whole file


class Client(NamedTuple):
    """A coding agent: its file, the object in it that lists servers, the signs that a project uses it, its file of
    hooks, what its user must still do, and what our entry holds besides the command."""

    title: str
    path: str
    key: str
    signs: str
    hooks: str
    todo: str
    extra: tuple[tuple[str, Any], ...] = ()


ROOT, _TRUST = ".mcp.json", "trust this folder when it asks"
_STDIO = (("type", "stdio"),)
# fmt: off
CLIENTS = {
    "claude": Client("Claude Code", ROOT, "mcpServers", "", ".claude/settings.json",
                     "start claude here and approve the server"),
    "copilot": Client("Copilot CLI", ROOT, "mcpServers", "", ".claude/settings.json", _TRUST),
    "vscode": Client("VS Code", ROOT, "mcpServers", "", "", "trust the workspace, then start the server"),
    "codex": Client("Codex", ".codex/config.toml", "mcp_servers", ".codex", ".codex/hooks.json",
                    f"{_TRUST}, then approve hooks with /hooks"),
    "cursor": Client("Cursor", ".cursor/mcp.json", "mcpServers", ".cursor", ".cursor/hooks.json",
                     "switch filemem on in its settings, under MCP; for hooks trust the workspace", _STDIO),
    "gemini": Client("Gemini CLI", ".gemini/settings.json", "mcpServers", ".gemini", ".gemini/settings.json", _TRUST),
    "opencode": Client("opencode", "opencode.json", "mcp", ".opencode opencode.json opencode.jsonc",
                       ".opencode/plugins/filemem.js", "nothing more to do",
                       (("type", "local"), ("enabled", True))),
    "zed": Client("Zed", ".zed/settings.json", "context_servers", ".zed", "", "trust the worktree; it has no hooks",
                  (("source", "custom"), ("env", {}))),
}
# fmt: on
OTHERS = {
    "vscode": Client(
        "VS Code", ".vscode/mcp.json", "servers", "", "", CLIENTS["vscode"].todo, _STDIO
    ),
    "opencode": CLIENTS["opencode"]._replace(path="opencode.jsonc"),
}
"""Clients with another file, where that is there or the first is not wanted."""
_JSON = '{"mcpServers": {"filemem": {"command": COMMAND, "args": ARGS}}}'
_GOOSE = (
    "extensions: {filemem: {type: stdio, cmd: COMMAND, args: ARGS, enabled: true, timeout: 300}}"
)
PASTED = {
    "junie": ("Junie", ".junie", ".junie/mcp/mcp.json", _JSON),
    "kiro": ("Kiro", ".kiro", ".kiro/settings/mcp.json", _JSON),
    "windsurf": ("Windsurf", ".windsurf", "~/.codeium/windsurf/mcp_config.json", _JSON),
    "cline": ("Cline", ".clinerules", "cline_mcp_settings.json", _JSON),
    "goose": ("goose", ".goosehints", "~/.config/goose/config.yaml", _GOOSE),
    "claude-desktop": ("Claude Desktop", "", "claude_desktop_config.json", _JSON),
}
"""Clients that could not be tried: title, what shows that the project uses it, its file, what to add there."""

_EVENTS = {  # of start, both prompts, edits and failures (which tools), capture, remind
    "claude": "SessionStart UserPromptSubmit PreToolUse:Edit|MultiEdit|NotebookEdit|Write|Bash "
    "PostToolUseFailure:Bash PreCompact,SessionEnd Stop",
    "codex": "SessionStart UserPromptSubmit PreToolUse:apply_patch|Edit|Write|Bash PostToolUse:Bash "
    "PreCompact Stop",
    "gemini": "SessionStart BeforeAgent AfterTool:replace|write_file AfterTool:run_shell_command "
    "PreCompress,SessionEnd -",
    "cursor": "sessionStart - postToolUse:Write postToolUseFailure:Shell preCompact,sessionEnd stop",
    "opencode": "plugin - - - - -",
}
_EVENTS["copilot"] = _EVENTS["claude"]
USUAL_HOOKS = "start,prompt-first,edits,failures"
_SECONDS = 5  # for a hook; `filemem hook` itself ends within two
USUAL = re.compile(
    r"(uvx )?filemem serve( --profile [\w-]+)?"
)  # how init starts the server unless it is told how
_OURS = re.compile(r"command -v \S+ >/dev/null 2>&1 && .+ hook( [a-z-]+)? \|\| exit 0")
_BEGUN = {  # what a new file needs beside our entries
    ".cursor/hooks.json": '{\n  "version": 1\n}\n',
    "opencode.json": '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',  # opencode would add it
}
WRONG = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
)  # of a file that we cannot read


class Wiring(NamedTuple):
    """Which clients start the server, by what command, and with which hooks."""

    client: str = "auto"
    words: Sequence[str] = ("filemem", "serve")
    hooks: Sequence[str] = ()

    @classmethod
    def of(cls, client: str, command: str, profile: str, hooks: str | None) -> Wiring:
        """As the options of the command line say.

        What hooks say names our own tools: none by itself where a profile lists others.
        """
        words = [
            *(command.split() or ["filemem"]),
            "serve",
            *(["--profile", profile] if profile else []),
        ]
        wanted = hooks or ("none" if profile else USUAL_HOOKS)
        return cls(client, words, () if wanted == "none" else _named("hooks", wanted, HOOKS))


def chosen(asked: str, top: Path) -> list[str]:
    """The clients that `--client` means: those of this project, all, or those that it names."""
    signs = {name: one.signs for name, one in CLIENTS.items()} | {
        name: one[1] for name, one in PASTED.items()
    }
    if asked in ("auto", "all"):
        always = [name for name, one in CLIENTS.items() if one.path == ROOT]
        return [
            name for name in signs if asked == "all" or name in always or _has(top, signs[name])
        ]
    return _named("client", asked, ("auto", "all", *signs))


def _has(top: Path, paths: str) -> bool:
    return any((top / path).exists() for path in paths.split())


def _named(option: str, asked: str, known: Collection[str]) -> list[str]:
    names = [one.strip() for one in asked.split(",")]
    for name in set(names) - {*known}:
        raise BadInput(
            f"--{option}: {name!r} is not known", f"known are {', '.join(known)}", field=option
        )
    return names


def plan(
    names: Sequence[str], top: Path, wiring: Wiring, plugin: str
) -> tuple[dict[str, Parts], list[str]]:
    """The new text of each file, by path; and for each client what its user must still do. `plugin` is opencode's."""
    found, said = dict[str, Parts](), list[str]()
    named = () if wiring.client == "auto" else names
    for name in (one for one in names if one in CLIENTS):
        client = _client(name, names, top)
        found.setdefault(client.path, {})[client.key, "filemem"] = entry(client, wiring.words)
        for place, (tools, hook) in _hooks(name, named, wiring.hooks).items():
            command = _command(wiring.words, hook)
            if name == "opencode":
                found[client.hooks] = {(): plugin.replace("COMMAND", json.dumps(command))}
            else:
                found.setdefault(client.hooks, {})["hooks", place, None] = _element(
                    name, tools, command
                )
        paths = (path for path in dict.fromkeys((client.path, client.hooks)) if path in found)
        said.append(f"{client.title}: {', '.join(paths)}; {client.todo}")
    program, *args = wiring.words
    for title, _, path, form in (PASTED[name] for name in names if name in PASTED):
        pasted = form.replace("COMMAND", json.dumps(program)).replace("ARGS", json.dumps(args))
        said.append(f"{title}: not written; add to {path}: {pasted}")
    return found, said


def files(names: Collection[str]) -> list[str]:
    """Every file of these clients that may hold an entry of ours."""
    found = [one for table in (CLIENTS, OTHERS) for name, one in table.items() if name in names]
    return [
        path
        for path in dict.fromkeys(path for one in found for path in (one.path, one.hooks))
        if path
    ]


def entry(client: Client, words: Sequence[str]) -> dict[str, Any]:
    """The entry for a server with this command, in a client's format."""
    started = (
        {"command": list(words)}
        if client.key == "mcp"
        else {"command": words[0], "args": list(words[1:])}
    )
    return {**dict(client.extra), **started}


def wired(path: str, text: str | None, parts: Parts) -> tuple[str, str]:
    """The new text of a file, and our entries that differ and are kept. Raises BadInput if it cannot be parsed."""
    toml, differ = path.endswith(".toml"), "kept as it is"
    if path.endswith(".js"):
        return text or parts[()], differ if text and text != parts[()] else ""
    new, kept = (_BEGUN.get(path, "" if toml else splice.NEW) if text is None else text), []
    try:
        value = parsed(path, new)
        for at, ours in reversed(parts.items()):
            if there := _at(value, at):
                kept += [f"{at[-1] or at[-2]}: {json.dumps(one)}" for one in there if one != ours]
            else:
                new = (
                    splice.with_block(new, _block(ours))
                    if toml
                    else splice.with_item(new, at, ours)
                )
        parsed(path, new)
    except WRONG as error:
        alone = wired(path, None, parts)[0].strip()
        raise BadInput(
            f"{path}: {error}", f"nothing was written; correct it, or add by hand: {alone}"
        ) from None
    return new.lstrip() if text is None else new, f"{differ}: {', '.join(kept)}" if kept else ""


def unwired(path: str, text: str, plugin: str, words: Sequence[str]) -> tuple[str | None, str]:
    """The text of a file without what `wired` added, None if it created the file; and what is left of ours.

    A server with a command other than the usual one or `words` is not ours.
    """
    try:
        while parts := _ours(path, text, plugin, words):
            if text == wired(path, None, parts)[0]:
                return None, ""
            before, (at, value) = text, next(iter(parts.items()))
            toml = path.endswith(".toml")
            text = (
                splice.without_block(text, _block(value))
                if toml
                else splice.without_item(text, at, value)
            )
            if text == before:
                break
    except WRONG as error:
        return text, f"cannot be read: {error}"
    return (
        text,
        "keeps an entry for filemem that is not as init writes it" if "filemem" in text else "",
    )


def _client(name: str, names: Sequence[str], top: Path) -> Client:
    """A client with the file that it uses here: VS Code reads the root's too, and would list the server twice."""
    alone = name == "vscode" and not _has(top, ROOT) and not {"claude", "copilot"} & set(names)
    return (
        OTHERS[name]
        if alone or (name == "opencode" and _has(top, "opencode.jsonc"))
        else CLIENTS[name]
    )


def _hooks(name: str, named: Sequence[str], hooks: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The events of a client, each with its tools and its hook; "" where several share an event.

    Copilot denies a tool whose hook fails, so whoever names it gets none for edits there.
    """
    start, prompt, *rest = _EVENTS.get(name, "- - - - - -").split()
    events = dict(zip(HOOKS, (start, prompt, prompt, *rest), strict=True))
    if CLIENTS[name].hooks == CLIENTS["copilot"].hooks and "copilot" in named:
        events["edits"] = "-"
    places: dict[str, tuple[str, str]] = {}
    for hook in (hook for hook in HOOKS if hook in hooks and events[hook] != "-"):
        for event in events[hook].split(","):
            place, _, tools = event.partition(":")
            shared = places.get(place, ("", ""))[0]
            places[place] = (f"{shared}|{tools}", "") if shared else (tools, hook)
    return places


def _element(name: str, tools: str, command: str) -> dict[str, Any]:
    matcher = {"matcher": tools} if tools else {}
    if name == "cursor":
        return {"command": command, "timeout": _SECONDS, **matcher}
    named, timeout = ({"name": "filemem"}, _SECONDS * 1000) if name == "gemini" else ({}, _SECONDS)
    return {
        **matcher,
        "hooks": [{**named, "type": "command", "command": command, "timeout": timeout}],
    }


def _command(words: Sequence[str], hook: str) -> str:
    """A hook's command as one string, as Copilot runs Claude Code's; does nothing if filemem is not installed."""
    start = shlex.join(words[: words.index("serve")])
    line = f"{start} hook {hook}".rstrip()
    return f"command -v {shlex.quote(words[0])} >/dev/null 2>&1 && {line} || exit 0"


def _is_hook(element: Any) -> bool:
    """Whether an element of a list is a hook of ours."""
    inner = element.get("hooks", [element]) if isinstance(element, dict) else []
    usual = (
        len(inner) == 1
        and isinstance(inner[0], dict)
        and inner[0].get("timeout") in (_SECONDS, 1000 * _SECONDS)
    )
    return usual and bool(_OURS.fullmatch(str(inner[0].get("command"))))


def _ours(path: str, text: str, plugin: str, usual: Sequence[str]) -> Parts:
    """The parts of a file that init wrote and that are unchanged."""
    if path.endswith(".js"):
        head, _, tail = plugin.partition("COMMAND")
        return {(): text} if text.startswith(head) and text.endswith(tail) else {}
    value, found = parsed(path, text), Parts()
    for client in (one for one in (*CLIENTS.values(), *OTHERS.values()) if one.path == path):
        there, words = started(client, value)
        ours = words == list(usual) or USUAL.fullmatch(" ".join(words))
        found |= {(client.key, "filemem"): there} if ours else {}
    events = value.get("hooks")
    for event, elements in events.items() if isinstance(events, dict) else ():
        for element in filter(_is_hook, elements if isinstance(elements, list) else ()):
            found["hooks", event, None] = element
    return found


def started(client: Client, value: Any) -> tuple[Any, list[str]]:
    """Our entry in a client's file, if any, and the words of its command, if it is as init writes it."""
    if not (there := value.get(client.key, {}).get("filemem")):
        return None, []
    command = there.get("command")
    words = command if isinstance(command, list) else [command, *there.get("args", [])]
    return there, words if "serve" in words and there == entry(client, words) else []


def parsed(path: str, text: str) -> Any:
    """The parsed content of a client's file. Raises ValueError, or RecursionError."""
    text = text.removeprefix("\ufeff")
    bare = text if path == ROOT else splice.plain(text)  # no comments there
    value = tomllib.loads(text) if path.endswith(".toml") else json.loads(bare)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _block(entry: Mapping[str, Any]) -> str:
    rows = (f"{key} = {json.dumps(one, ensure_ascii=False)}" for key, one in entry.items())
    return "\n".join(("[mcp_servers.filemem]", *rows))


def _at(value: Any, at: splice.Path) -> list[Any]:
    """Our present content at this place."""
    for key in at[:-1]:
        value = value.get(key, {})
    return (
        [one for one in value if _is_hook(one)]
        if at[-1] is None
        else [value[at[-1]]]
        if at[-1] in value
        else []
    )
