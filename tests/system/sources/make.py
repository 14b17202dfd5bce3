"""Makes the small sources in `made/` with the real programs: `python -m tests.system.sources.make PROGRAM...`.

Each program is installed from its registry into a scratch folder, driven, and what it wrote is kept. No test runs this.

Two things are not the programs' own. MAMA's `save` would download a model: a package of some lines
stands for the library that runs it, and gives any vectors, which the importer does not read. And
claude-mem has a language model write decisions and summaries: here they come by its own import.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

MADE = Path(__file__).parent / "made"
LIMIT = 600.0  # seconds for one command
PORT = 47_791  # of a program that answers over HTTP


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
    # Some compile SQLite: an optimised one takes minutes longer.
    quick = {**os.environ, "CFLAGS": "-O0", "CXXFLAGS": "-O0"}
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env=quick, cwd=folder)
    return folder / "node_modules" / package.rpartition("@")[0]


def packed(folder: Path, package: str) -> Path:
    """A package of npm as it is, without what it needs. Returns its folder."""
    call = ["npm", "pack", "--silent", "--pack-destination", str(folder), package]
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    for archive in folder.glob("*.tgz"):
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return folder / "package"


def tools(
    command: Sequence[str | Path], calls: Sequence[tuple[str, Mapping[str, Any]]], home: Path
) -> list[str]:
    """Call the tools of an MCP server over its standard input. Returns the text of each answer.

    Raises:
        RuntimeError: a call failed.
    """
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
    texts: list[str] = []
    for number, (name, values) in enumerate(calls, 1):
        answer = ask(number, "tools/call", {"name": name, "arguments": values})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{name}: {answer}")
        texts.append(answer["result"]["content"][0]["text"])
    server.stdin.close()
    server.terminate()
    server.wait(LIMIT)
    return texts


def variables(home: Path) -> dict[str, str]:
    """Where the programs keep what they write."""
    return {
        "MEMORY_FILE_PATH": str(home / "memory.jsonl"),
        "BASIC_MEMORY_HOME": str(home / "notes"),
        "MAMA_DB_PATH": str(home / "mama.db"),
        "MAMA_DISABLE_HTTP_SERVER": "true",
        "CLAUDE_MEM_DATA_DIR": str(home / "data"),
        "CLAUDE_MEM_WORKER_HOST": "127.0.0.1",
        "CLAUDE_MEM_WORKER_PORT": str(PORT),
        "CLAUDE_MEM_CHROMA_ENABLED": "false",
        "DO_NOT_TRACK": "1",
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


# In place of a library of 400 MB, which downloads a model at the first text.
TRANSFORMERS = """
exports.env = {};
exports.pipeline = async () => async (text) => {
  const data = new Float32Array(384);
  data[text.length % 384] = 1;
  return {data};
};
"""


def mama(folder: Path) -> None:
    name = "@huggingface/transformers"
    library = folder / "library"
    library.mkdir()
    about = {"name": name, "version": "3.0.0", "main": "index.js"}
    (library / "package.json").write_text(json.dumps(about))
    (library / "index.js").write_text(TRANSFORMERS)
    overrides = {"overrides": {name: "file:./library"}}
    (folder / "package.json").write_text(json.dumps(overrides))
    package = node(folder, "@jungjaehoon/mama-server@1.5.11")
    server: list[str | Path] = ["node", package / "src/server.js"]
    redis = {"topic": "caching", "decision": "Use Redis", "reasoning": "Prices are read often."}
    cache = {
        "topic": "caching",
        "decision": "Use an LRU cache",
        "reasoning": "Redis was one more service to run.",
        "confidence": 0.8,
    }
    jwt = {"topic": "login", "decision": "Sign in with JWT", "reasoning": "No session is kept."}
    checkpoint = {
        "summary": "The cache works",
        "next_steps": "Measure it",
        "open_files": ["src/cache.py"],
    }
    saved = tools(
        server,
        [
            ("save", {"type": "decision", **redis}),
            ("save", {"type": "decision", **cache}),
            ("save", {"type": "decision", **jwt}),
            ("save", {"type": "checkpoint", **checkpoint}),
        ],
        folder,
    )
    first = re.search(r"decision_caching_\w+", saved[0])
    assert first
    failed = {"id": first[0], "outcome": "failed", "reason": "It ran full"}
    tools(server, [("update", failed)], folder)
    with closing(sqlite3.connect(folder / "mama.db")) as database:  # 1.5 MB, for four records
        database.execute("UPDATE vss_memories_vector_chunks00 SET vectors = zeroblob(0)")
        database.commit()
    kept(folder / "mama.db", "mama.db")


def posted(path: str, values: Mapping[str, Any]) -> None:
    """Send values to a program that has just been started; waits until it answers."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}",
        json.dumps(values).encode(),
        {"Content-Type": "application/json"},
    )
    for _ in range(60):
        try:
            urllib.request.urlopen(request, timeout=LIMIT).close()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(1)
    raise RuntimeError(f"{path}: nothing answers")


def claude_mem(folder: Path) -> None:
    package = packed(folder, "claude-mem@13.25.3")  # its worker is one file, and needs only zod
    node(folder, "zod@4.4.3")
    bun = node(folder, "bun@1.4.4").parent / ".bin/bun"
    environment = {**os.environ, "HOME": str(folder), **variables(folder)}
    command: list[str | Path] = [bun, package / "plugin/scripts/worker-service.cjs", "--daemon"]
    day = "2025-11-20T14:46:40.123Z"
    epoch = 1_763_650_000_123
    when = {"created_at": day, "created_at_epoch": epoch}
    own = {"memory_session_id": "m1", "project": "shop"}
    session = {**own, "content_session_id": "c1", "user_prompt": "Make the prices fast"}
    started = {"started_at": day, "started_at_epoch": epoch, "status": "completed"}
    decision = {
        "type": "decision",
        "title": "Use an LRU cache",
        "narrative": "Redis was one more service to run",
        "facts": '["It holds 1,000 prices"]',
        "concepts": '["trade-off"]',
        "files_modified": '["src/cache.py"]',
    }
    summary = {
        "request": "Make the prices fast",
        "learned": "Redis is slow",
        "next_steps": "Measure it",
        "files_edited": '["src/cache.py"]',
    }
    build = {"title": "Slow build", "text": "The build takes 4 minutes", "project": "shop"}
    retries = {"text": "Retries hide the time-outs", "project": "shop", "metadata": {"ticket": 7}}
    deploy = {"text": "Deploy on Fridays only", "project": "bank"}
    with subprocess.Popen(command, env=environment, cwd=folder) as worker:
        for observation in (build, retries, deploy):
            posted("/api/memory/save", observation)
        rows = {
            "sessions": [{**session, **started}],
            "observations": [{**own, **when, **decision}],
            "summaries": [{**own, **when, **summary}],
            "prompts": [],
        }
        posted("/api/import", rows)
        posted("/api/admin/shutdown", {})
        worker.wait(LIMIT)
    kept(folder / "data/claude-mem.db", "claude-mem.db")


PROGRAMS: Mapping[str, Callable[[Path], None]] = {
    "server-memory": server_memory,
    "powermem": powermem,
    "basic-memory": basic_memory,
    "mama": mama,
    "claude-mem": claude_mem,
}

if __name__ == "__main__":
    MADE.mkdir(exist_ok=True)
    for program in sys.argv[1:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as scratch:
            PROGRAMS[program](Path(scratch))
