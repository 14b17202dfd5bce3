"""Rows about many repositories and large stores: what they cost beside one repository and a tenth of the records."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from bench.indexing import TASK
from bench.measure import Samples, Surroundings, used
from bench.stdio import Server
from bench.stores import STORE, Repository, Stores, decisions
from bench.table import Line
from filemem.cli.workspace import join_workspace
from filemem.files import Files
from filemem.memory import Memory
from filemem.query import Results
from filemem.record import build_record_path, render_record

MEMBERS, QUESTIONS, IDLE = 20, 60, 60  # stores; questions; seconds that a server is watched
TENTH = 10


def measure_workspace(stores: Stores, size: int) -> Iterator[Line]:
    """Measure the same questions, asked of one store and of twenty that have its records between them."""
    whole = stores.get(size)
    folders = list(shared_out(whole.surroundings, size, "member"))
    home = Path(whole.surroundings.environment["HOME"])
    places = {f"XDG_{kind.upper()}_HOME": str(home / kind) for kind in ("config", "cache")}
    texts = [" ".join(words) for words in whole.queries(QUESTIONS)]
    with patch.dict(os.environ, {"HOME": str(home), **places}):
        whole.surroundings.run(
            "env", *(f"{k}={v}" for k, v in places.items()), "filemem", "workspace", "add", *folders
        )
        with (
            Memory.open(whole.folder) as one,
            Memory.open(Path(folders[0]), serving=True) as member,
        ):
            join_workspace(member)
            assert member.workspace
            together = member.workspace()
            together.search(texts[0])  # the index of all is made
            asked: list[Callable[[str], Results]] = [one.search, together.search]
            found, spent = zip(*(_answers(ask, texts) for ask in asked), strict=True)
    pairs = list(zip(*found, strict=True))
    overlap = statistics.mean(
        len({*mine} & {*theirs}) / len(theirs) for theirs, mine in pairs if theirs
    )
    first = statistics.mean(mine[:1] == theirs[:1] for theirs, mine in pairs)
    yield Line(
        "workspace",
        size,
        overlap,
        f"{MEMBERS} stores; the same first: {first:.0%}",
        "one store of all",
    )
    yield Line("workspace-cpu", size, spent[1].p50 / spent[0].p50, str(spent[1]), str(spent[0]))


def _answers(ask: Callable[[str], Results], texts: list[str]) -> tuple[list[list[str]], Samples]:
    """What is found, as ids, and the processor time of each question."""
    found, seconds = [], []
    ask(texts[-1])
    for text in texts:
        began = time.process_time()
        found.append([hit.id for hit in ask(text)])
        seconds.append(time.process_time() - began)
    return found, Samples(tuple(seconds))


def shared_out(
    surroundings: Surroundings, size: int, name: str, members: int = MEMBERS
) -> Iterator[str]:
    """Repositories that have the records of the store of this size between them."""
    tops = [surroundings.folder.with_name(f"{name}-{at}") for at in range(members)]
    for record, _, place in decisions(size):
        path = tops[place % members] / STORE / build_record_path(record)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(render_record(record))
    for top in tops:
        here = surroundings.at(top)
        here.run("git", "init", "--quiet", "--initial-branch=main")
        here.run("git", "add", "-A")
        here.run(
            "git",
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "--quiet",
            "-m",
            "Records",
        )
        yield str(top)


def measure_large(stores: Stores, small: int, size: int) -> Iterator[Line]:
    """Measure a large store beside a small one, by processor time: a search, the first build, an idle server, a look at
    the folders beside the same files in a folder for each topic, and Git's index of a save, split and not."""
    less, more = stores.get(small), stores.get(size)
    _serve_two_saves(more)
    ours, theirs = _searched(more), _searched(less)
    yield Line(
        "search-large", size, ours.p50 / theirs.p50, str(ours), f"{small:,} records: {theirs}"
    )
    built = [
        each.surroundings.cpu(sys.executable, TASK, "reindex", str(each.folder))
        for each in (more, less)
    ]
    ratio = built[0] / built[1] / (size / small)
    yield Line(
        "build-large", size, ratio, f"{built[0]:.0f} s", f"{small:,} records: {built[1]:.1f} s"
    )
    yield Line("idle", size, 100 * _idle(more), f"{IDLE} seconds after the first look", "one core")
    yield from _folders(more, size)
    yield from _split(more, size)


def _serve_two_saves(repository: Repository) -> None:
    """What a server does with a large store by and by: it moves the caches of its index forward."""
    with Memory.open(repository.folder, serving=True) as memory:
        for number in range(2):
            memory.save(topic="numbers", decision=f"Keep number {number}", reasoning="It fits.")
            memory.refresh(full=True)


def _searched(repository: Repository) -> Samples:
    texts = [" ".join(words) for words in repository.queries(QUESTIONS)]
    with Memory.open(repository.folder) as memory:
        return _answers(memory.search, texts)[1]


def _idle(repository: Repository) -> float:
    with Server(repository.surroundings, "filemem", "serve") as server:
        server.greet()
        server.call("search", query="idle")
        time.sleep(IDLE)
        before, began = used(server.pid), time.monotonic()
        time.sleep(2 * IDLE)
        return (used(server.pid) - before) / (time.monotonic() - began)


@contextmanager
def _by_topic(repository: Repository) -> Iterator[Path]:
    """The same names of files in the older layout: a folder for each topic, in one for its area."""
    top = repository.folder.with_name("by-topic")
    for path in repository.store.rglob("*.md"):
        topic = path.name.partition("--")[0]
        folder = top / STORE / topic.partition("-")[0] / topic
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).touch()
    yield top
    shutil.rmtree(top)


def _folders(repository: Repository, size: int) -> Iterator[Line]:
    with _by_topic(repository) as other:
        times, counts = [], []
        for top in (repository.folder, other):
            files = Files(top, STORE, spool=top / "spool")
            known = {
                str(p.relative_to(top / STORE)): 0 for p in (top / STORE).rglob("*") if p.is_dir()
            }
            began = time.process_time()
            for _ in range(5):
                files.list_changed_folders(known)
            times.append((time.process_time() - began) / 5)
            counts.append(len(known))
    shown = [
        f"{1e3 * one:.2f} ms, {count:,} folders" for one, count in zip(times, counts, strict=True)
    ]
    yield Line("folders", size, times[0] / times[1], *shown)


def _split(repository: Repository, size: int) -> Iterator[Line]:
    """Git writes one entry into an index of the records alone, as that of an own branch is."""
    here, blob = repository.surroundings, repository.git("rev-parse", f"HEAD:{STORE}").strip()
    spent = {}
    for way in ("--no-split-index", "--split-index"):
        index = repository.folder / ".git" / f"index-of-{way[2:]}"
        at = Surroundings(here.folder, {**here.environment, "GIT_INDEX_FILE": str(index)})
        at.run("git", "read-tree", blob)
        at.run("git", "update-index", way)
        some = repository.git("ls-tree", "-r", "HEAD", STORE).split(maxsplit=3)[2]
        rows = [f"100644 {some}\tnew/{number}.md\n".encode() for number in range(10)]
        spent[way] = Samples(
            tuple(at.cpu("git", "update-index", "--index-info", given=row) for row in rows)
        )
        index.unlink()
    whole, split = spent.values()
    yield Line("split", size, split.p50 / whole.p50, str(split), str(whole))
