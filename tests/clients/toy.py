"""A project of its own for a real client, with an empty home, and how the client is run there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

TOOLS = Path(__file__).parents[2] / ".tools/clients"
PROMPT = "Say hello."
SECONDS = 300


class Client(NamedTuple):
    """How a client is asked: to list servers and what that shows, for one prompt; variables; its user's own files."""

    listing: list[str]
    listed: str
    prompt: list[str]
    variables: Callable[[str], Mapping[str, str]]
    files: Callable[
        [Path, str], Mapping[str, object]
    ]  # of the project and the address: path from the home -> content


def _codex(project: Path, url: str) -> Mapping[str, object]:
    provider = (
        f'[model_providers.fake]\nname = "fake"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    )
    tries = "request_max_retries = 0\nstream_max_retries = 0\n"
    trust = f'[projects."{project}"]\ntrust_level = "trusted"\n'
    return {
        ".codex/config.toml": f'model = "gpt-5"\nmodel_provider = "fake"\n{provider}{tries}{trust}'
    }


def _gemini(project: Path, _: str) -> Mapping[str, object]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return {
        ".gemini/trustedFolders.json": {str(project): "TRUST_FOLDER"},
        ".gemini/settings.json": settings,
    }


def _opencode(_: Path, url: str) -> Mapping[str, object]:
    provider = {"anthropic": {"options": {"baseURL": f"{url}/v1", "apiKey": "none"}}}
    path = ".config/opencode/opencode.json"
    return {path: {"provider": provider, "model": "anthropic/claude-sonnet-4-5"}}


CLIENTS = {
    "claude": Client(
        ["claude", "mcp", "list"],
        "filemem: .*Connected",
        ["claude", "-p", PROMPT],
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        lambda project, _: {
            f"{project}/.claude/settings.local.json": {"enabledMcpjsonServers": ["filemem"]}
        },
    ),
    "codex": Client(
        ["codex", "mcp", "list", "--json"],
        '"name": "filemem"',
        ["codex", "exec", "--dangerously-bypass-hook-trust", PROMPT],
        lambda _: {},
        _codex,
    ),
    "gemini": Client(
        ["gemini", "mcp", "list"],
        "filemem: .*Connected",
        ["gemini", "--approval-mode", "yolo", "-p", PROMPT],
        lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none"},
        _gemini,
    ),
    "copilot": Client(
        ["copilot", "mcp", "list"],
        "Workspace servers:\\s+filemem",
        ["copilot", "--allow-all-tools", "-p", PROMPT],
        lambda url: {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-5",
        },
        lambda project, _: {".copilot/config.json": {"trustedFolders": [str(project)]}},
    ),
    "opencode": Client(
        ["opencode", "mcp", "list"],
        "filemem .*connected",
        ["opencode", "run", PROMPT],
        lambda _: {},
        _opencode,
    ),
}


def installed() -> str:
    """Install the clients, once for each list of versions; why that cannot be, or ""."""
    wanted = (Path(__file__).parent / "package.json").read_text()
    ready = TOOLS / ".ready"
    if ready.exists() and ready.read_text() == wanted:
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    TOOLS.mkdir(parents=True, exist_ok=True)
    (TOOLS / "package.json").write_text(wanted)
    try:
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"],
            cwd=TOOLS,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "npm could not install them in time"
    if done.returncode:
        return f"npm could not install them: {' '.join(done.stderr.split())[:300]}"
    ready.write_text(wanted)
    return ""


class Toy:
    """A project of its own, and how its client is run there."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.project = folder / "project"
        programs = [TOOLS / "node_modules/.bin", Path(sys.executable).parent, folder / "bin"]
        self.environment = {
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1",
            **variables,
        }

    def run(self, *words: str) -> str:
        """Run a command; what it prints."""
        done = subprocess.run(
            words,
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
        )
        return done.stdout + done.stderr

    def begin(self, files: Mapping[str, str]) -> None:
        """Commit some files in a repository."""
        self.put(self.project, files)
        for words in (
            "init -q -b main",
            "config user.name Ada",
            "config user.email ada@example.com",
            "add .",
            "commit -q -m Begin",
        ):
            self.run("git", *words.split())

    @staticmethod
    def put(folder: Path, files: Mapping[str, object]) -> None:
        """Write files: texts, or objects as JSON."""
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content if isinstance(content, str) else json.dumps(content))

    def decide(self, topic: str, decision: str, reasoning: str, **more: str) -> None:
        """Save a decision."""
        fields = {"topic": topic, "decision": decision, "reasoning": reasoning, **more}
        options = [word for name, text in fields.items() for word in (f"--{name}", text)]
        self.run("filemem", "save", "decision", *options)


def key(row: str) -> str:
    """The first part of the path that a row's client asks."""
    return row.replace(", ", "-").replace(" ", "-")
