"""The row `org-hook`: from `git push` to an answer that has the record, over a real service, worker and hook."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Samples
from bench.organisation import database
from bench.stores import STORE, Stores, decisions
from bench.table import Line
from filemem.memory.search import search
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.query import Filter
from filemem.record import Record, build_record_path, render_record

PUSHES = 10
SECRET = "b" * 32
HOOK = Path(__file__).parents[1] / "deploy/post-receive"


def measure(stores: Stores, size: int) -> Iterator[Line]:
    """Push records, one at a time, and ask until each is found; the answers are read in this process."""
    clone = stores.copy(size, indexed=False).folder
    bare = clone.with_suffix(".git")
    with database() as engine:
        _git(clone, "clone", "--quiet", "--bare", ".", str(bare))
        (bare / "hooks").mkdir(exist_ok=True)
        (bare / "hooks/post-receive").write_bytes(HOOK.read_bytes())
        (bare / "hooks/post-receive").chmod(0o755)
        engine.add_repositories({str(bare): str(bare)})
        with engine.transaction() as con:
            con.execute("insert into access(principal, repo) select 'bob', id from repo")
            dsn = con.info.dsn
        env = {**os.environ, "FILEMEM_ORG_DSN": dsn, "FILEMEM_ORG_HOOK_SECRET": SECRET}
        env["XDG_CACHE_HOME"] = str(clone.parent / "cache")
        with running(env, "serves MCP", "serve", "--port", "0") as line:
            port = line.rpartition(":")[2].partition("/")[0]
            env["FILEMEM_ORG_URL"] = f"http://127.0.0.1:{port}"
            news = [record for record, _, _ in decisions(size + PUSHES)][size:]
            with running(env, "changed", "work"):
                seconds = tuple(_pushed(engine, clone, bare, record, env) for record in news)
    samples = Samples(seconds)
    yield Line("org-hook", size, samples.p50, str(samples))


@contextmanager
def running(env: Mapping[str, str], begun: str, *words: str) -> Iterator[str]:
    """Run a command of `filemem org`; yields the line of its error output that says it has begun."""
    command = [sys.executable, "-m", "filemem", "org", *words]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            first = next(line for line in lines if begun in line)
            threading.Thread(target=lambda: [None for _ in lines]).start()  # else the pipe fills up
            yield first
        finally:
            process.terminate()


def _pushed(
    engine: Postgres, clone: Path, bare: Path, record: Record, env: Mapping[str, str]
) -> float:
    path = clone / STORE / build_record_path(record)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(render_record(record))
    _git(clone, "add", "-A")
    _git(clone, "commit", "--quiet", "-m", "More")
    began = time.perf_counter()
    _git(clone, "push", "--quiet", str(bare), "HEAD", env=env)
    while not _holds(engine, record):
        time.sleep(0.01)
    return time.perf_counter() - began


def _holds(engine: Postgres, record: Record) -> bool:
    with engine.open_reader("bob") as reader:
        source = Organisation(reader, engine.model)
        hits = search(source, record.title, Filter(), limit=10, detail=False)
    return record.id in [hit.id for hit in hits]


def _git(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env=env)
