"""Real clients, each with an empty home and a model on loopback that only listens: `make clients`.

Each lists our server, and its first request holds our tools. On a branch that edits a governed file its first request holds the governing decision once, also
where two clients' files call the hook, and no other decision. Prints what our tools and instructions cost there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from filemem.dialects import native
from tests.clients.model import Model

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools/clients"
PROMPT = "Say hello."
GOVERNS, OTHER = (
    "one process has no Redis",
    "tabs are for tables",
)  # what is ruled out: no subject of a commit has it
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
WIRED = {
    **{name: (name,) for name in CLIENTS},
    "claude, both files": ("claude", "copilot"),
    "copilot, both files": ("claude", "copilot"),
    "copilot, file of claude": ("claude",),
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


def tried(row: str, model: Model, folder: Path) -> tuple[list[str], str]:
    """Ask one client in a project of its own; what is wrong, and what our server costs in its first request."""
    name, project = row.partition(",")[0], folder / "project"
    client, url = CLIENTS[name], f"{model.address}/{row.replace(', ', '-').replace(' ', '-')}"
    path = os.pathsep.join(
        [f"{TOOLS}/node_modules/.bin", str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    kept = {
        "PATH": path,
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    environment = {**kept, **client.variables(url)}

    def run(*words: str) -> str:
        done = subprocess.run(
            words,
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
        )
        return done.stdout + done.stderr

    (project / "src").mkdir(parents=True)
    for path in ("src/cache.py", "docs.md"):
        (project / path).write_text("one\n")
    for words in (
        "init -q -b main",
        "config user.name Ada",
        "config user.email ada@example.com",
        "add .",
    ):
        run("git", *words.split())
    run("git", "commit", "-q", "-m", "Begin")
    for topic, rejected, governed in (
        ("cache", GOVERNS, "src/cache.py"),
        ("docs", OTHER, "docs.md"),
    ):
        fields = (
            "--topic",
            topic,
            "--decision",
            f"About {topic}",
            "--reasoning",
            "So",
            "--rejected",
            rejected,
        )
        run("filemem", "save", "decision", *fields, "--affects", governed)
    run("git", "switch", "-q", "-c", "feature")
    (project / "src/cache.py").write_text("two\n")
    for one in WIRED[
        row
    ]:  # one after the other: init itself writes only one of two files that would both call
        run("filemem", "init", "--client", one, "--hooks")
    for at, content in client.files(project, url).items():
        target = folder / at
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content))
    listed = re.search(client.listed, re.sub(r"\x1b\[\d*m", "", run(*client.listing)))
    wrong = [] if listed else ["does not list the server"]
    told = run(*client.prompt)
    asked = [
        one for one in model.sent[url.rpartition("/")[2]] if "tools" in one
    ]  # others ask for a title and the like
    if not asked:
        return [*wrong, f"sent no request: {told[-300:]}"], ""
    first = json.dumps(asked[0])
    for text, times in ((GOVERNS, 1), (OTHER, 0)):
        if first.count(text) != times:
            wrong.append(
                f"{text!r} stands {first.count(text)} times in its first request, not {times}"
            )
    listed_tools = tools(asked[0])
    if not listed_tools:
        wrong.append("its first request holds none of our tools")
    return wrong, cost(asked[0], listed_tools)


def tools(request: Any) -> dict[str, int]:
    """Our tools in a request, each with its tokens (characters / 4)."""
    found: dict[str, int] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            name = str(value.get("name") or "")
            if "filemem" in name and len(value) > 1:
                found[name] = len(json.dumps(value, ensure_ascii=False)) // 4
                return
            value = [*value.values()]
        for one in value if isinstance(value, list) else ():
            walk(one)

    walk(request)
    return found


def cost(request: Any, ours: Mapping[str, int]) -> str:
    """What our tools and the server's instructions cost in a request."""
    text = native.INSTRUCTIONS
    said = len(text) // 4 if text.partition("\n")[0] in json.dumps(request) else "not there"
    return f"{len(ours)} tools {sum(ours.values())} tokens, instructions {said}"


def main() -> int:
    """Ask all, or those named on the command line."""
    if why := installed():
        print(f"skipped: {why}")
        return 0
    model, failed = Model(), False
    for row in WIRED:
        if not sys.argv[1:] or row in sys.argv[1:]:
            with tempfile.TemporaryDirectory(
                prefix="filemem-clients-", ignore_cleanup_errors=True
            ) as folder:
                wrong, costs = tried(row, model, Path(folder))
            failed |= bool(wrong)
            print(f"{row}: {'; '.join(wrong) or 'ok'} ({costs})", flush=True)
    model.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
