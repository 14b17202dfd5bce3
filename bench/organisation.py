"""Rows about an organisation's index: what it finds and costs beside one local index of the same records.

PostgreSQL runs from the wheel of tests/org. Its processor time is that of the processes that answer connections.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.indexing import TASK
from bench.measure import Samples, used
from bench.scale import shared_out
from bench.stores import STORE, Stores, decisions
from bench.table import Line
from filemem.index import open_model
from filemem.memory import Memory
from filemem.memory.search import search
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.org.worker import sync_repositories, sync_repository
from filemem.query import Filter, Results
from filemem.record import build_record_path, render_record
from tests.org import server

QUESTIONS, PUSHES, FEW = 60, 10, 5  # questions; pushes, each of so many records


@contextmanager
def database() -> Iterator[Postgres]:
    """Run a server of its own, with an empty index of an organisation."""
    folder = Path(tempfile.mkdtemp(prefix="filemem-pg-", dir="/tmp"))
    folder.chmod(0o755)
    engine = Postgres(server.start(folder / "pg", shared_buffers="1GB") + "postgres", open_model())
    try:
        engine.init_tables()
        yield engine
    finally:
        engine.close()
        server.stop(folder / "pg")
        shutil.rmtree(folder)


def measure(stores: Stores, size: int, members: int) -> Iterator[Line]:
    """Measure the same questions, asked of one store and of an index of many repositories that have its records
    between them; how fast they come in; and how soon a push is found."""
    whole = stores.get(size)
    folders = list(shared_out(whole.surroundings, size, "team", members))
    texts = [" ".join(words) for words in whole.queries(QUESTIONS)]
    with database() as engine:
        engine.add_repositories({folder: folder for folder in folders})
        began = _cpu(engine)
        sync_repositories(engine, whole.surroundings.folder / "clones", os.environ)
        spent = _cpu(engine) - began
        alone = float(whole.surroundings.cpu(sys.executable, TASK, "reindex", str(whole.folder)))
        yield Line(
            "org-in",
            size,
            alone / spent,
            f"{size / spent:,.0f} per s",
            f"{size / alone:,.0f} per s",
        )
        with engine.transaction() as con:
            con.execute("insert into access select 'ada', id from repo")
        with Memory.open(whole.folder) as memory, engine.open_reader("ada") as reader:
            source = Organisation(reader, engine.model)
            ask = partial(search, source, restrictions=Filter(), limit=10, detail=False)
            theirs, one = _answers(partial(memory.search, detail=False), texts, time.process_time)
            ours, many = _answers(
                ask, texts, lambda: time.process_time() + used(reader.con.info.backend_pid)
            )
        overlap = statistics.mean(
            len({*a} & {*b}) / len(b) for a, b in zip(ours, theirs, strict=True) if b
        )
        first = statistics.mean(a[:1] == b[:1] for a, b in zip(ours, theirs, strict=True))
        yield Line(
            "org",
            size,
            overlap,
            f"{members} repositories; the same first: {first:.0%}",
            "one store of all",
        )
        yield Line("org-cpu", size, many.p50 / one.p50, str(many), str(one))
        yield from _pushes(engine, Path(folders[0]), whole.surroundings.folder, size)


def _answers(
    ask: Callable[[str], Results], texts: list[str], clock: Callable[[], float]
) -> tuple[list[list[str]], Samples]:
    for text in texts[:10]:
        ask(text)
    found, seconds = [], []
    for text in texts:
        began = clock()
        found.append([hit.id for hit in ask(text)])
        seconds.append(clock() - began)
    return found, Samples(tuple(seconds))


def _cpu(engine: Postgres) -> float:
    """What this process, its children and the server for all its connections have spent, in seconds."""
    with engine.transaction() as con:
        found = con.execute(
            "select pid from pg_stat_activity where datname = current_database()"
        ).fetchall()
    return sum(os.times()[:4]) + sum(used(pid) for (pid,) in found)


def _pushes(engine: Postgres, clone: Path, folder: Path, size: int) -> Iterator[Line]:
    """Push a few records at a time to a bare repository, and take them in until another principal finds them: what
    that costs in processor time, as waiting says most about who else is busy."""
    name = str(folder / "hub.git")

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True)

    git("clone", "--quiet", "--bare", ".", name)
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    engine.add_repositories({name: name})
    number = next(one.number for one in engine.list_repositories() if one.name == name)
    with engine.transaction() as con:
        con.execute("insert into access values ('bob', %s)", (number,))
    sync_repository(engine, number, folder / "clones", os.environ)
    pushed, found = [], []
    news = (record for record, _, _ in decisions(size + PUSHES * FEW))
    every = list(news)[size:]
    for at in range(0, len(every), FEW):
        for record in every[at : at + FEW]:
            path = clone / STORE / build_record_path(record)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(render_record(record))
        git("add", "-A")
        git("commit", "--quiet", "-m", "More")
        times = [_cpu(engine)]
        git("push", "--quiet", name, "HEAD")
        times.append(_cpu(engine))
        sync_repository(engine, number, folder / "clones", os.environ)
        with engine.open_reader("bob") as reader:
            hits = search(
                Organisation(reader, engine.model),
                every[at].title,
                Filter(),
                limit=10,
                detail=False,
            )
        times.append(_cpu(engine))
        pushed.append(times[1] - times[0])
        found.append(times[2] - times[1])
        assert every[at].id in [hit.id for hit in hits]
    ours, theirs = (statistics.mean(one) * 1000 for one in (found, pushed))
    yield Line("org-push", size, ours / theirs, f"{ours:.0f} ms", f"{theirs:.0f} ms")
