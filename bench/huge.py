"""Rows about a large index of an organisation: 200 repositories, people who may see some of them.

Repositories are made by `git fast-import`; the real worker brings them in, and the real service is
asked. What is compared with an exact answer is what the reader nominates by meaning.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

from bench.measure import Samples, Surroundings
from bench.organisation import database
from bench.pushing import running
from bench.stores import STORE, decisions
from bench.table import Line
from filemem.org import access, reader
from filemem.org.postgres import Postgres
from filemem.org.worker import sync_repositories
from filemem.query import Filter
from filemem.record import build_record_path, render_record

REPOSITORIES = 200
SEEN = (2, 40, 100, 200)  # repositories that people may see
ASKERS = (1, 8, 32)
QUESTIONS = 30
NEAREST = 50  # records that are nominated by meaning
TOP = 10  # of the truly nearest, that must be among them
_TABLES = ("doc", "body", "passage", "link", "df")


def measure(surroundings: Surroundings, size: int) -> Iterator[Line]:
    """Measure one index of `size` records.

    Rows: how fast they come in, bytes a record, the nearest of a filtered search, time to answers.
    """
    folder = surroundings.folder / f"huge-{size}"
    sources, titles = _repositories(folder, size)
    with database() as engine:
        engine.add_repositories({source: source for source in sources})
        began = time.perf_counter()
        sync_repositories(engine, folder / "clones", os.environ)
        spent = time.perf_counter() - began
        yield Line("org-rate", size, size / spent, f"{size:,} in {spent:,.0f} s")
        with engine.transaction() as con:
            con.execute("call connect_passages()")
            con.execute("call tidy()")
        yield _bytes(engine, size)
        tokens = _people(engine, sources)
        questions = random.Random(7).sample(titles, QUESTIONS)
        yield from _near(engine, size, questions)
        yield from _asked(engine, size, questions, tokens)


def _repositories(folder: Path, size: int) -> tuple[list[str], list[str]]:
    """Make bare repositories with the records between them; return where, and all titles."""
    chosen = random.Random(5)
    homes: dict[int, int] = {}
    titles = list[str]()
    files: dict[int, list[tuple[str, bytes]]] = {n: [] for n in range(REPOSITORIES)}
    for record, _, topic in decisions(size):
        home = homes.setdefault(topic, chosen.randrange(REPOSITORIES))  # a topic stays in its own
        files[home].append((f"{STORE}/{build_record_path(record)}", render_record(record)))
        titles.append(record.title)
    sources = list[str]()
    for number, rows in files.items():
        source = folder / f"repo{number:03}.git"
        _imported(source, rows)
        sources.append(str(source))
    return sources, titles


def _imported(source: Path, rows: Sequence[tuple[str, bytes]]) -> None:
    git = ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(source)]
    subprocess.run(git, check=True)
    parts = [b"commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 0\n"]
    for path, data in rows:
        parts.append(f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    command = ["git", "-C", str(source), "fast-import", "--quiet"]
    subprocess.run(command, input=b"".join(parts), check=True)


def _bytes(engine: Postgres, size: int) -> Line:
    query = "select sum(pg_total_relation_size(oid)) from pg_class where relname = any(%s)"
    with engine.transaction() as con:
        row = con.execute(query, (list(_TABLES),)).fetchone()
    assert row is not None
    return Line("org-bytes", size, int(row[0]) / size / 1000, f"{int(row[0]) / 1e9:.2f} GB")


def _people(engine: Postgres, sources: Sequence[str]) -> dict[int, str]:
    """Let people see as many repositories as they are called; return their tokens."""
    shuffled = random.Random(11).sample(list(sources), len(sources))
    with engine.transaction() as con:
        access.replace_rights(con, access.Rights({f"p{count}": shuffled[:count] for count in SEEN}))
        return {count: access.add_token(con, f"p{count}") for count in SEEN}


def _near(engine: Postgres, size: int, questions: Sequence[str]) -> Iterator[Line]:
    """The share of the ten nearest that is nominated: as people are answered, and by the graph."""
    vectors = [vector.tolist() for vector in engine.model.encode(list(questions))]
    for count in SEEN:
        exact = _nominated(engine, count, vectors, sys.maxsize, TOP)
        usual = _nominated(engine, count, vectors, reader.EXACT_LIMIT)
        graph = _nominated(engine, count, vectors, -1)
        ours = f"sees {count} of {REPOSITORIES}; by the graph alone {_share(graph, exact):.2f}"
        yield Line("org-near", size, _share(usual, exact), ours)


def _nominated(
    engine: Postgres,
    count: int,
    vectors: Sequence[Sequence[float]],
    below: int,
    depth: int = NEAREST,
) -> list[set[str]]:
    with patch.object(reader, "EXACT_BELOW", below), engine.open_reader(f"p{count}") as open_reader:
        nominees = (open_reader.nominate({}, one, Filter(), depth) for one in vectors)
        return [{nominee.row.node.id for nominee in rows} for rows in nominees]


def _share(seen: Sequence[set[str]], exact: Sequence[set[str]]) -> float:
    pairs = zip(seen, exact, strict=True)
    return statistics.mean(len(mine & best) / len(best) for mine, best in pairs if best)


def _asked(
    engine: Postgres, size: int, questions: Sequence[str], tokens: Mapping[int, str]
) -> Iterator[Line]:
    """Time to answers of the service, one process a core, for one asker and for many."""
    with engine.transaction() as con:
        dsn = con.info.dsn
    env = {**os.environ, "FILEMEM_ORG_DSN": dsn}
    workers = str(os.cpu_count() or 1)
    options = ("serve", "--port", "0", "--rate", "100000", "--workers", workers)
    with running(env, "serves MCP", *options) as line:
        port = int(line.rpartition(":")[2].partition("/")[0])
        for askers in ASKERS:
            jobs = [
                (port, tokens[SEEN[at % len(SEEN)]], question)
                for at, question in enumerate(list(questions) * max(1, askers // 4))
            ]
            _timed(jobs[: askers * 2], askers)
            began = time.perf_counter()
            samples = Samples(tuple(_timed(jobs, askers)))
            rate = len(jobs) / (time.perf_counter() - began)
            ours = f"{askers} at once: {samples}, {rate:.1f} a second, {workers} processes"
            yield Line("org-ask", size, samples.p95, ours)


def _timed(jobs: Sequence[tuple[int, str, str]], askers: int) -> list[float]:
    with ThreadPoolExecutor(askers) as threads:
        return list(threads.map(lambda job: _ask(*job), jobs))


def _ask(port: int, token: str, question: str) -> float:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/org/search", json.dumps({"query": question}), headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return time.perf_counter() - began
