"""Makes the small sources in `made/` with the real programs: `python -m tests.system.sources.make PROGRAM...`.

Each program is installed from its registry into a scratch folder, driven, and what it wrote is kept. No test runs this.

Not made: decisions of MAMA, whose `save` downloads a model; and not yet claude-mem, whose worker needs bun.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

MADE = Path(__file__).parent / "made"
LIMIT = 600.0  # seconds for one command


def python(folder: Path, *packages: str, whole: bool = True) -> Path:
    """An environment with some packages; `whole`: with all that they need. Returns its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv/bin"
    bare = [] if whole else ["--no-deps"]
    subprocess.run([programs / "pip", "install", "-q", *bare, *packages], check=True)
    return programs


def node(folder: Path, package: str) -> Path:
    """A folder with a package of npm. Returns the folder of the package."""
    call = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    return folder / "node_modules" / package.rpartition("@")[0]


def tools(
    command: Sequence[str | Path], calls: Sequence[tuple[str, Mapping[str, Any]]], home: Path
) -> None:
    """Call the tools of an MCP server over its standard input. Raises RuntimeError: one failed."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "make", "version": "1"},
    }
    environment = {**os.environ, "HOME": str(home), **variables(home)}
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, cwd=home
    )
    assert server.stdin
    assert server.stdout

    def ask(number: int, method: str, values: Mapping[str, Any]) -> Any:
        assert server.stdin
        assert server.stdout
        row = {"jsonrpc": "2.0", "id": number, "method": method, "params": values}
        server.stdin.write(f"{json.dumps(row)}\n")
        server.stdin.flush()
        for line in server.stdout:
            answer = json.loads(line) if line.startswith("{") else {}
            if answer.get("id") == number:
                return answer
        raise RuntimeError(f"{method}: the server ended")

    ask(0, "initialize", hello)
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    for number, (name, values) in enumerate(calls, 1):
        answer = ask(number, "tools/call", {"name": name, "arguments": values})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{name}: {answer}")
    server.stdin.close()
    server.terminate()
    server.wait(LIMIT)


def variables(home: Path) -> dict[str, str]:
    """Where the programs keep what they write."""
    return {
        "MEMORY_FILE_PATH": str(home / "memory.jsonl"),
        "BASIC_MEMORY_HOME": str(home / "notes"),
    }


def kept(database: Path, name: str) -> None:
    """Keep a database in small pages, without its log."""
    with closing(sqlite3.connect(database)) as found:
        found.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found.execute("PRAGMA journal_mode = delete")
        found.execute("PRAGMA page_size = 512")
        found.execute("VACUUM")
    shutil.copy(database, MADE / name)


def server_memory(folder: Path) -> None:
    package = node(folder, "@modelcontextprotocol/server-memory@2026.8.31")
    entities: list[dict[str, Any]] = [
        {"name": "Parser", "entityType": "module", "observations": ["Reads YAML", "Never raises"]},
        {"name": "../Cache", "entityType": "module", "observations": ["Holds prices"]},
        {"name": "Ada", "entityType": "person", "observations": ["Likes tabs"]},
    ]
    relation = {"from": "Ada", "to": "Parser", "relationType": "wrote"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_entities", {"entities": entities}),
        ("create_relations", {"relations": [relation]}),
    ]
    tools(["node", package / "dist/index.js"], calls, folder)
    shutil.copy(folder / "memory.jsonl", MADE / "server-memory.jsonl")


POWERMEM = """
import sys
from powermem import Memory
store = {"provider": "sqlite", "config": {"database_path": sys.argv[1], "embedding_model_dims": 2}}
embedder = {"provider": "mock", "config": {"embedding_dims": 2}}
memory = Memory(config={"vector_store": store, "embedder": embedder, "llm": {"provider": "noop"}})
memory.add("The build takes 4 minutes", infer=False, metadata={"team": "core"})
memory.add("Likes tabs", user_id="ada", infer=False)
memory.add("Deploy on Fridays only", agent_id="coder", run_id="r1", infer=False)
"""


def powermem(folder: Path) -> None:
    # Of what it needs, 1 GB, only this is used here.
    python(folder, "powermem==1.1.7", whole=False)
    needed = ("pydantic", "pydantic-settings", "httpx", "sqlalchemy", "numpy<2", "pytz")
    more = ("python-dotenv", "rank-bm25", "psutil", "pyobvector<0.3", "openai", "psycopg2-binary")
    programs = python(folder, *needed, *more)
    database = folder / "powermem.db"
    call: list[str | Path] = [programs / "python", "-c", POWERMEM, database]
    subprocess.run(call, check=True, cwd=folder, env={**os.environ, "HOME": str(folder)})
    kept(database, "powermem.db")


def basic_memory(folder: Path) -> None:
    programs = python(folder, "basic-memory==0.23.2")
    notes = {
        "Parser": ("note", "- [fact] It reads YAML #parser\n- part_of [[Loader]]\n"),
        "Use LRU": ("decision", "We keep prices in an LRU cache.\n\n- [reason] Fast #cache\n"),
    }
    calls: list[tuple[str, dict[str, Any]]] = []
    for title, (kind, text) in notes.items():
        note = {"title": title, "directory": "notes", "content": text, "note_type": kind}
        calls.append(("write_note", note))
    tools([programs / "basic-memory", "mcp"], calls, folder)
    shutil.copytree(folder / "notes", MADE / "basic-memory", dirs_exist_ok=True)


PROGRAMS: Mapping[str, Callable[[Path], None]] = {
    "server-memory": server_memory,
    "powermem": powermem,
    "basic-memory": basic_memory,
}

if __name__ == "__main__":
    MADE.mkdir(exist_ok=True)
    for program in sys.argv[1:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as scratch:
            PROGRAMS[program](Path(scratch))
