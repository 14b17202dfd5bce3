"""`filemem init` and `init --undo` beside the files of coding agents: every other byte stays, and all of ours goes."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import git, write
from tests.system.tools import cli, ok, snapshot

Value = dict[str, Any]
OTHER = {"command": "other", "args": ["--x", "}{ // no comment"], "env": {"A": 'say "hi", é'}}
HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "./mine.sh", "timeout": 7}]}
STRICT: dict[str, Value] = {
    ".mcp.json": {"mcpServers": {"other": OTHER}, "more": [1, 2.5]},
    ".claude/settings.json": {
        "permissions": {"allow": ["Bash(ls:*)"]},
        "hooks": {"SessionStart": [HOOK]},
    },
    ".codex/hooks.json": {"hooks": {"PreToolUse": [HOOK], "UserPromptSubmit": []}},
}
COMMENTED: dict[str, Value] = {
    ".cursor/mcp.json": {"mcpServers": {"a": OTHER, "b": OTHER}},
    ".cursor/hooks.json": {"version": 1, "hooks": {"stop": [{"command": "./mine.sh"}]}},
    ".gemini/settings.json": {
        "theme": "Dark",
        "mcpServers": {},
        "hooks": {"SessionStart": [HOOK, HOOK]},
    },
    "opencode.json": {
        "$schema": "https://opencode.ai/config.json",
        "mcp": {"other": {"type": "local"}},
    },
    ".zed/settings.json": {"tab_size": 2, "context_servers": {"other": {"source": "custom"}}},
}
TOML = (
    'model = "x"\n',
    'model = "x"',
    "",
    "\n",
    '# mine\r\n[mcp_servers.other] # here\r\ncommand = "other"\r\n\r\n\r\n',
    '\ufeffmodel = "x"\n\n[projects."/a"]\ntrust_level = "trusted"\n',
    '[mcp_servers.other]\ncommand = "other"\n[mcp_servers.other.env]\nA = "b"',
    'mcp_servers.other.command = "other"\n\n[[more]]\n\tx = """\n[mcp_servers.filem]\n"""\n',
    "notify = [\n  'a', # b\n]\n\n\n",
    "x = 1979-05-27\n[mcp_servers]\n",
)
COMMENTS = ("// a comment, with } and {\n", "/* [ \n */")


def commented(text: str) -> str:
    """With comments and trailing commas."""
    text = re.sub(r'(?<=[\w"}\]])\n(\s*[}\]])', r",\n\1", text)
    return text.replace("{\n", "{ " + COMMENTS[0], 2).replace(': "', f": {COMMENTS[1]}" + '"', 1)


LAYOUTS: dict[str, tuple[Callable[[Value], str], bool]] = {
    "two": (lambda value: json.dumps(value, indent=2) + "\n", False),
    "tabs": (lambda value: json.dumps(value, indent="\t", ensure_ascii=False) + "\n\n", False),
    "no-final-newline": (lambda value: json.dumps(value, indent=4), False),
    "crlf": (lambda value: json.dumps(value, indent=2).replace("\n", "\r\n") + "\r\n", False),
    "bom": (lambda value: "\ufeff" + json.dumps(value, indent=2) + "\n", False),
    "one-line": (json.dumps, False),
    "minified": (lambda value: json.dumps(value, separators=(",", ":")), False),
    "airy": (
        lambda value: json.dumps(value, indent=1).replace("[]", "[\n\n  ]").replace("{}", "{\n }"),
        False,
    ),
    "comments": (lambda value: commented(json.dumps(value, indent=2)) + "// end\n", True),
    "comments-crlf-bom": (
        lambda value: "\ufeff" + commented(json.dumps(value, indent=4)).replace("\n", "\r\n"),
        True,
    ),
}


def read(text: str) -> Any:
    """What JSON says whose comments are those of this file."""
    for comment in (*COMMENTS, "// end\n"):
        text = text.replace(comment, "").replace(comment.replace("\n", "\r\n"), "")
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text.removeprefix("\ufeff")))


def without_ours(value: Any) -> Any:
    """A file's value without what init adds to it, as far as that can be told."""
    if isinstance(value, dict):
        return {name: without_ours(one) for name, one in value.items() if name != "filemem"}
    return (
        [without_ours(one) for one in value if "filemem hook" not in json.dumps(one)]
        if isinstance(value, list)
        else value
    )


def full(value: Any) -> Any:
    """Without objects and lists that are empty."""
    if isinstance(value, dict):
        return {name: kept for name, one in value.items() if (kept := full(one)) not in ({}, [])}
    return value


@pytest.mark.parametrize("number", range(len(LAYOUTS)), ids=LAYOUTS)
def test_every_byte_survives_init_and_undo(repo: Path, number: int) -> None:
    layout, loose = list(LAYOUTS.values())[number]
    given = {
        path: layout(value) for path, value in (COMMENTED if loose else STRICT | COMMENTED).items()
    }
    rules = "# Rules" + ("", "\n", "\r\n", "\n\n", " \r\n\r\nBe kind.")[number % 5]
    for path, text in (
        given | {".codex/config.toml": TOML[number], "AGENTS.md": rules, "CLAUDE.md": rules}
    ).items():
        (repo / path).parent.mkdir(exist_ok=True)
        (repo / path).write_bytes(text.encode())
    before = snapshot(repo)
    ok(repo, "init", "--hooks=start,prompt,edits,failures,capture,remind", "--client", "all")
    for path, text in given.items():
        new, old = read((repo / path).read_bytes().decode()), read(text)
        assert '"filemem' in json.dumps(new) or "filemem hook" in json.dumps(new), path
        assert full(without_ours(new)) == full(old), path
    table = tomllib.loads(
        (repo / ".codex/config.toml").read_bytes().decode().removeprefix("\ufeff")
    )
    assert table["mcp_servers"].pop("filemem") == {"command": "filemem", "args": ["serve"]}
    old = tomllib.loads(TOML[number].removeprefix("\ufeff"))
    assert table == {"mcp_servers": {}} | old
    after = snapshot(repo)
    ok(repo, "init", "--hooks=start,prompt,edits,failures,capture,remind", "--client", "all")
    assert snapshot(repo) == after, "a second time changes nothing"
    done = cli(repo, "init", "--undo")
    assert (done.code, snapshot(repo)) == (0, before), done


def test_undo_takes_out_only_ours_where_others_wrote_meanwhile(repo: Path) -> None:
    ok(repo, "init", "--hooks", "--client", "claude,codex,opencode")
    mcp = repo / ".mcp.json"
    mcp.write_text(
        mcp.read_text().replace('"]}\n', '"]},\n    "late": {\n      "command": "x"\n    }\n')
    )
    toml = repo / ".codex/config.toml"
    toml.write_text('model = "x"\n\n' + toml.read_text() + '\n[mcp_servers.late]\ncommand = "x"\n')
    rules = repo / "AGENTS.md"
    rules.write_text("# Rules\n\n" + rules.read_text() + "\nBe kind.\n")
    settings = repo / ".claude/settings.json"
    settings.write_text(
        settings.read_text().replace('{\n  "hooks"', '{\n  "model": "x",\n  "hooks"')
    )
    assert cli(repo, "init", "--undo").code == 0
    assert (
        mcp.read_text()
        == '{\n  "mcpServers": {\n    "late": {\n      "command": "x"\n    }\n  }\n}\n'
    )
    assert toml.read_text() == 'model = "x"\n\n[mcp_servers.late]\ncommand = "x"\n'
    assert rules.read_text() == "# Rules\n\nBe kind.\n"
    assert json.loads(settings.read_text()) == {"model": "x"}
    left = {str(path.relative_to(repo)) for path in (mcp, toml, rules, settings)}
    assert set(snapshot(repo)) - set(git(repo, "ls-files").split()) == left


@pytest.mark.parametrize(
    "entry",
    [
        '{"command": "filemem", "args": ["serve"], "env": {"A": "b"}}',
        '{"command": "/opt/filemem", "args": ["serve"]}',
    ],
)
def test_what_differs_is_kept_and_told(repo: Path, entry: str) -> None:
    mine = f'{{"mcpServers": {{"filemem": {entry}}}}}'
    write(repo / ".mcp.json", mine)
    done = cli(repo, "init")
    assert (done.code, (repo / ".mcp.json").read_text()) == (0, mine)
    assert 'keep .mcp.json  (kept as it is: filemem: {"command"' in done.out
    undone = cli(repo, "init", "--undo")
    assert (repo / ".mcp.json").read_text() == mine
    assert "keep .mcp.json  (keeps an entry for filemem" in undone.out


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".mcp.json", "{ // no comments in JSON\n}"),
        (".mcp.json", ""),
        (".cursor/mcp.json", '{"mcpServers": []}'),
        (".gemini/settings.json", '{"hooks": {"SessionStart": {}}}'),
        (".zed/settings.json", '{"a": 1} x'),
        ("opencode.jsonc", "[]"),
        (".codex/config.toml", 'mcp_servers = {other = {command = "x"}}\n'),
        (".codex/hooks.json", '{"hooks": null}'),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_written(
    repo: Path, path: str, text: str
) -> None:
    write(repo / path, text)
    before = snapshot(repo)
    done = cli(repo, "init", "--client", "all", "--hooks")
    assert (done.code, snapshot(repo)) == (2, before), done
    assert path in done.err


def test_undo_keeps_a_memory_that_holds_a_record(repo: Path) -> None:
    ok(repo, "--store", "docs/mem", "init")
    ok(repo, "save", "observation", "--text", "The cache is cold at start", "--title", "Cold cache")
    done = cli(repo, "init", "--undo")
    assert (
        "keep docs/mem/  (holds 1 file that init did not write; .filemem.toml names it)" in done.out
    )
    assert ok(repo, "search", "cache")["count"] == 1
    assert not (repo / "AGENTS.md").exists()
    plain = cli(repo, "init", "--undo", "--dry-run")
    assert "nothing to undo" in plain.out


def test_clients_are_found_by_their_files_or_named(repo: Path) -> None:
    def planned(*options: str) -> set[str]:
        steps = ok(repo, "init", "--dry-run", *options)["steps"]
        return {
            step["path"] for step in steps if not step["path"].startswith(("memory/", "AGENTS"))
        }

    bare = "--hooks=none"
    assert planned(bare) == {".mcp.json"}
    (repo / ".cursor").mkdir()
    write(repo / "opencode.jsonc", "{}\n")
    assert planned(bare) == {".mcp.json", ".cursor/mcp.json", "opencode.jsonc"}
    assert planned("--client", "vscode") == {".vscode/mcp.json"}
    assert planned("--client", "vscode,claude", bare) == {".mcp.json"}
    assert planned("--client", "copilot") == {".mcp.json", ".claude/settings.json"}
    assert cli(repo, "init", "--client", "copilto").code == 2
    assert cli(repo, "init", "--hooks=begin").code == 2
    told = cli(repo, "init", "--client", "goose,codex", "--command", "uvx filemem", "--dry-run").out
    assert (
        'goose: not written; add to ~/.config/goose/config.yaml: extensions: {filemem: {type: stdio, cmd: "uvx"'
        in told
    )
    assert "Codex: .codex/config.toml, .codex/hooks.json; trust this folder when it asks" in told


def test_another_command_and_profile_go_into_every_entry(repo: Path) -> None:
    before = snapshot(repo)
    ok(
        repo,
        "init",
        "--client",
        "all",
        "--hooks",
        "--command",
        "uvx filemem",
        "--profile",
        "powermem",
    )
    words = ["uvx", "filemem", "serve", "--profile", "powermem"]
    assert json.loads((repo / "opencode.json").read_text())["mcp"]["filemem"]["command"] == words
    entry = {"command": words[0], "args": words[1:]}
    assert (
        tomllib.loads((repo / ".codex/config.toml").read_text())["mcp_servers"]["filemem"] == entry
    )
    assert json.loads((repo / ".mcp.json").read_text())["mcpServers"]["filemem"] == entry
    hooks = json.loads((repo / ".claude/settings.json").read_text())["hooks"]
    command = "command -v uvx >/dev/null 2>&1 && uvx filemem hook start || exit 0"
    assert hooks["SessionStart"] == [
        {"hooks": [{"type": "command", "command": command, "timeout": 5}]}
    ]
    assert cli(repo, "init", "--undo").code == 0
    assert snapshot(repo) == before


@pytest.mark.parametrize(
    ("client", "files"),
    [
        ("copilot", {".mcp.json", ".claude/settings.json"}),
        ("vscode", {".vscode/mcp.json"}),
        ("codex", {".codex/config.toml", ".codex/hooks.json"}),
        ("opencode", {"opencode.jsonc", ".opencode/plugins/filemem.js"}),
    ],
)
def test_one_client_is_wired_and_undone_by_its_name(
    repo: Path, client: str, files: set[str]
) -> None:
    write(repo / "opencode.jsonc", "{\n  // mine\n}")
    ok(repo, "init", "--client", "claude", "--hooks=none")
    (repo / ".mcp.json").unlink()
    before = snapshot(repo)
    ok(repo, "init", "--hooks", "--client", client)
    changed = {path for path, content in snapshot(repo).items() if before.get(path) != content}
    assert changed == files
    assert cli(repo, "init", "--undo", "--client", client).code == 0
    assert snapshot(repo) == before, "the memory and AGENTS.md stay"


def test_hooks_are_spelled_as_each_client_reads_them_and_silent_without_filemem(repo: Path) -> None:
    ok(repo, "init", "--client", "all", "--hooks=start,prompt-first,edits")
    hooks = {
        path: json.loads((repo / path).read_text())["hooks"]
        for path in (
            ".claude/settings.json",
            ".codex/hooks.json",
            ".gemini/settings.json",
            ".cursor/hooks.json",
        )
    }
    assert [list(one) for one in hooks.values()] == [
        [
            "SessionStart",
            "UserPromptSubmit",
        ],  # Copilot reads it, and would deny a tool whose hook fails
        ["SessionStart", "UserPromptSubmit", "PreToolUse"],
        ["SessionStart", "BeforeAgent", "AfterTool"],
        ["sessionStart", "postToolUse"],
    ]
    start = "command -v filemem >/dev/null 2>&1 && filemem hook start || exit 0"
    assert hooks[".cursor/hooks.json"]["sessionStart"] == [{"command": start, "timeout": 5}]
    (gemini,) = hooks[".gemini/settings.json"]["SessionStart"][0]["hooks"]
    assert gemini == {"name": "filemem", "type": "command", "command": start, "timeout": 5000}
    assert hooks[".codex/hooks.json"]["PreToolUse"][0]["matcher"] == "apply_patch|Edit|Write|Bash"
    plugin = (repo / ".opencode/plugins/filemem.js").read_text()
    assert json.dumps(start) in plugin
    assert len(plugin.splitlines()) < 30
    done = subprocess.run(
        ["/bin/sh", "-c", start], capture_output=True, env={"PATH": "/bin"}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (
        "edits"
        in ok(repo, "init", "--dry-run", "--client", "claude", "--hooks=edits")["steps"][-1][
            "content"
        ]
    )


def test_hooks_that_share_an_event_are_one_call_there(repo: Path) -> None:
    ok(repo, "init", "--client", "gemini", "--hooks")
    (element,) = json.loads((repo / ".gemini/settings.json").read_text())["hooks"]["AfterTool"]
    assert element["matcher"] == "replace|write_file|run_shell_command"
    (command,) = element["hooks"]
    assert command["command"].endswith("&& filemem hook || exit 0")
    assert cli(repo, "init", "--undo", "--client", "gemini").code == 0
    assert not (repo / ".gemini").exists()


def test_plain_init_writes_the_usual_hooks_and_none_beside_a_profile(repo: Path) -> None:
    settings = repo / ".claude/settings.json"
    ok(repo, "init", "--profile", "mama")
    assert not settings.exists(), "what hooks say names our own tools"
    ok(repo, "init", "--undo")
    ok(repo, "init")
    hooks = json.loads(settings.read_text())["hooks"]
    usual = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUseFailure"]
    assert list(hooks) == usual
