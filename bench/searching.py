"""Rows about searching in a warm server, against the tool that a developer would reach for."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection

from bench.measure import Samples, Surroundings, in_turns, timed
from bench.stdio import PATIENCE, Server
from bench.stores import STORE, Repository, Stores
from bench.table import Line
from filemem.memory import Memory

ROUNDS = 40
SMALL = 1_000  # records that growth is counted from
WARM = 5  # questions before the first that counts

TOKEN = "bench"


def measure(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure the same questions in turns: a hybrid search over MCP, and a search of the files for any of the words."""
    for size in sizes:
        tool, ours, theirs = _one_size(stores.get(size))
        yield Line(
            "search",
            size,
            ours.p50 / theirs.p50,
            str(ours),
            f"{tool}, same words, same files: {theirs}",
        )
        yield Line("tail-search", size, ours.p95 / ours.p50, str(ours))


def measure_growth(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure what must not grow with the store: `get` by file name, and the first page of topics, in one process."""
    before: dict[str, Samples] = {}
    for size in sizes:
        repository = stores.get(size)
        names = iter(
            sorted(path.name for path in repository.store.rglob("decisions/**/*.md"))[
                : ROUNDS + WARM
            ]
        )
        with Memory.open(repository.surroundings.folder) as memory:
            methods = {
                "names": partial(_named, memory, names),
                "topics": partial(timed, memory.topics),
            }
            in_turns(methods, WARM)
            samples = in_turns(methods, ROUNDS)
        for row, ours in samples.items():
            yield Line(
                row,
                size,
                ours.p50 / before.get(row, ours).p50,
                str(ours),
                str(before.get(row, ours)),
            )
            if size == SMALL:
                before[row] = ours


def _named(memory: Memory, names: Iterator[str]) -> float:
    return timed(lambda: memory.get(next(names)))


def measure_http(stores: Stores, size: int) -> Iterator[Line]:
    """Measure the same questions in turns: a search by a request to /mcp, and one over standard input and output."""
    repository = stores.get(size)
    questions = repository.queries(ROUNDS + WARM)
    over_http, over_stdio = iter(questions), iter(questions)
    with (
        Server(repository.surroundings, "filemem", "serve") as server,
        _serving(repository.surroundings) as connection,
    ):
        server.greet()
        methods = {
            "ours": lambda: timed(lambda: _post(connection, next(over_http))),
            "theirs": lambda: _ask(server, next(over_stdio)),
        }
        in_turns(methods, WARM)
        samples = in_turns(methods, ROUNDS)
    ours, theirs = samples["ours"], samples["theirs"]
    yield Line("http", size, ours.p50 / theirs.p50, str(ours), str(theirs))


@contextmanager
def _serving(surroundings: Surroundings) -> Iterator[HTTPConnection]:
    """A connection to a server over HTTP."""
    line = ["filemem", "web", "--port", "0", "--token", TOKEN]
    process = subprocess.Popen(
        line,
        cwd=surroundings.folder,
        env=surroundings.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        port = int(process.stderr.readline().rpartition(":")[2].partition("/")[0])
        yield HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def _post(connection: HTTPConnection, words: list[str]) -> None:
    params = {"name": "search", "arguments": {"query": " ".join(words)}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Authorization": f"Bearer {TOKEN}",
    }
    connection.request("POST", "/mcp", body, headers)
    answer = json.loads(connection.getresponse().read())
    if answer["result"].get("isError"):
        raise RuntimeError(f"search failed: {answer}")


def _one_size(repository: Repository) -> tuple[str, Samples, Samples]:
    tool, command = _rival()
    questions = repository.queries(ROUNDS + WARM)
    asked, grepped = iter(questions[WARM:]), iter(questions[WARM:])
    with Server(repository.surroundings, "filemem", "serve") as server:
        server.greet()
        for question in questions[:WARM]:
            server.call("search", query=" ".join(question))
        methods = {
            "ours": lambda: _ask(server, next(asked)),
            "theirs": lambda: _grep(repository.surroundings, command, next(grepped)),
        }
        samples = in_turns(methods, ROUNDS)
    return tool, samples["ours"], samples["theirs"]


def _rival() -> tuple[str, list[str]]:
    """The fastest search of files that is here: its name, and how it lists the files that hold any of some words."""
    if shutil.which("rg"):
        return "ripgrep", ["rg", "--ignore-case", "--fixed-strings", "--files-with-matches"]
    return "git grep", ["git", "grep", "--ignore-case", "--fixed-strings", "--files-with-matches"]


def _ask(server: Server, words: list[str]) -> float:
    return timed(lambda: server.call("search", query=" ".join(words)))


def _grep(surroundings: Surroundings, command: list[str], words: list[str]) -> float:
    patterns = [part for word in words for part in ("-e", word)]
    return timed(lambda: surroundings.run(*command, *patterns, "--", STORE, check=False))
