"""Rows about starting: what a command costs, how soon a server lists its tools, what it keeps in memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from bench.measure import Resident, Samples, Surroundings, in_turns, resident, timed, used
from bench.stdio import Server
from bench.stores import Repository, Stores
from bench.table import Line

ROUNDS = 9
BARE = (sys.executable, "-I", "-c", "pass")
SDK = (sys.executable, "-I", str(Path(__file__).with_name("one_tool.py")))
IDLE = 6.0  # seconds after the last answer, in which the look at the files that follows a start ends; then as much again
MEMORY_ROUNDS = 1


def measure_help(surroundings: Surroundings) -> Iterator[Line]:
    """Measure what `--help` costs, in processor time."""
    yield commands(surroundings, "help", 0, partial(surroundings.cpu, "filemem", "--help"))


def measure_completion(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure what the completion of a topic costs that no record has, so that the names of all files are read."""
    for size in sizes:
        repository = stores.get(size)
        asked = (
            "_FILEMEM_COMPLETE=bash_complete",
            "COMP_WORDS=filemem history zzz",
            "COMP_CWORD=2",
        )
        ours = partial(
            repository.surroundings.cpu, "env", "-C", str(repository.folder), *asked, "filemem"
        )
        yield commands(repository.surroundings, "completion", size, ours)


def measure_one_shot(stores: Stores, sizes: list[int], mode: str) -> Iterator[Line]:
    """Measure a search from the command line, the index being in step and no server running.

    Args:
        stores: where the repositories come from.
        sizes: records in them.
        mode: keyword or hybrid.
    """
    for size in sizes:
        repository = stores.get(size)
        questions = iter(repository.queries(ROUNDS + 1))
        repository.filemem("search", *next(questions))
        ours = partial(_search, repository, mode, questions)
        yield commands(repository.surroundings, mode, size, ours)


def measure_brief(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure what the brief of a branch that changed five governed files costs, and the start of a session there."""
    for size in sizes:
        repository = stores.get(size)
        repository.filemem("search", *repository.queries(1)[0])
        changed = [
            repository.folder / f"src/{one.terms[2]}/{one.terms[3]}.py"
            for one in repository.topics[:5]
        ]
        was = {path: path.read_bytes() if path.exists() else None for path in changed}
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("changed = True\n", encoding="utf-8")
        ours = partial(
            repository.surroundings.cpu, "filemem", "-C", str(repository.folder), "brief"
        )
        yield commands(repository.surroundings, "brief", size, ours)
        yield commands(repository.surroundings, "hook", size, partial(_told, repository, count()))
        for path, data in was.items():
            path.unlink() if data is None else path.write_bytes(data)


def _told(repository: Repository, number: Iterator[int]) -> float:
    """Begin a session, each time another one: the same is told once."""
    given = f'{{"hook_event_name": "SessionStart", "session_id": "{time.time()} {next(number)}"}}'
    command = ("filemem", "-C", str(repository.folder), "hook", "start")
    return repository.surroundings.cpu(*command, given=given.encode())


def measure_asked(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure a hybrid search, and a hook beside a prompt, that a running server answers."""
    for size in sizes:
        repository = stores.get(size)
        questions = repository.queries(2 * ROUNDS + 2)
        with Server(repository.surroundings, "filemem", "serve") as server:
            server.greet()
            server.call("search", query=" ".join(questions[0]))
            search = partial(_search, repository, "hybrid", iter(questions))
            prompt = partial(_prompted, repository, iter(questions))
            yield commands(repository.surroundings, "asked-search", size, search)
            yield commands(repository.surroundings, "asked-hook", size, prompt)


def _prompted(repository: Repository, questions: Iterator[list[str]]) -> float:
    """Give a prompt in a session of its own."""
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": str(time.time()),
        "prompt": " ".join(next(questions)),
    }
    return repository.surroundings.cpu(
        "filemem", "hook", "prompt", given=json.dumps(event).encode()
    )


def measure_command(stores: Stores, size: int, row: str) -> Iterator[Line]:
    """Measure the command of a row, the index being in step; each save is of a topic of its own."""
    repository, number, verb = stores.copy(size), count(), row.removeprefix("once-")

    def ours() -> float:
        words = [
            "decision",
            "--topic",
            f"topic {next(number)}",
            "--decision",
            "Keep it",
            "--reasoning",
            "One process",
        ]
        return repository.surroundings.cpu("filemem", verb, *(words if verb == "save" else ()))

    yield commands(repository.surroundings, row, size, ours)


def _search(repository: Repository, mode: str, questions: Iterator[list[str]]) -> float:
    return repository.surroundings.cpu("filemem", "search", "--mode", mode, *next(questions))


def commands(surroundings: Surroundings, row: str, size: int, ours: Callable[[], float]) -> Line:
    surroundings.cpu("filemem", "--help")  # compiles what was not compiled yet
    samples = in_turns({"bare": partial(surroundings.cpu, *BARE), "ours": ours}, ROUNDS)
    mine, bare = samples["ours"].p50, samples["bare"].p50
    return Line(row, size, mine / bare, f"{mine * 1000:.0f} ms", f"{bare * 1000:.1f} ms")


def measure_spawn(stores: Stores, size: int) -> Iterator[Line]:
    """Measure the time from spawning a server to its list of tools."""
    repository = stores.get(size)
    ours = partial(_until_listed, repository.surroundings, "filemem", "serve")
    theirs = partial(_until_listed, repository.surroundings, *SDK)
    ours(), theirs()
    samples: dict[str, Samples] = in_turns({"ours": ours, "theirs": theirs}, ROUNDS)
    mine, other = samples["ours"], samples["theirs"]
    yield Line("spawn", size, mine.p50 / other.p50, str(mine), str(other))


def _until_listed(surroundings: Surroundings, *command: str) -> float:
    began = time.perf_counter()
    with Server(surroundings, *command) as server:
        server.greet()
        return time.perf_counter() - began


def measure_first(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure the time from spawning a server to the answer of its first search, the index being in step."""
    for size in sizes:
        repository = stores.get(size)
        questions = iter(repository.queries(ROUNDS + 1))
        ours = partial(
            _until_answered,
            repository.surroundings,
            ("filemem", "serve"),
            "search",
            "query",
            questions,
        )
        theirs = partial(
            _until_answered,
            repository.surroundings,
            SDK,
            "echo",
            "text",
            iter(repository.queries(ROUNDS)),
        )
        ours()
        samples = in_turns({"ours": ours, "theirs": theirs}, ROUNDS)
        mine, other = samples["ours"], samples["theirs"]
        yield Line("first", size, mine.p50 / other.p50, str(mine), str(other))


def _until_answered(
    surroundings: Surroundings,
    command: tuple[str, ...],
    tool: str,
    argument: str,
    questions: Iterator[list[str]],
) -> float:
    began = time.perf_counter()
    with Server(surroundings, *command) as server:
        server.greet()
        server.call(tool, **{argument: " ".join(next(questions))})
        return time.perf_counter() - began


def measure_wall(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure the wall time of a one-shot hybrid search beside `git grep` and the start of 25 interpreters."""
    for size in sizes:
        repository = stores.get(size)
        grep = ("git", "grep", "--ignore-case", "--fixed-strings", "--files-with-matches")
        samples = in_turns(
            {
                "ours": partial(
                    _wall, repository, ("filemem", "search"), iter(repository.queries(ROUNDS))
                ),
                "grep": partial(_wall, repository, grep, iter(repository.queries(ROUNDS))),
                "bare": partial(_wall, repository, BARE, iter([[]] * ROUNDS)),
            },
            ROUNDS,
        )
        mine, grepped, bare = (samples[name].p50 for name in ("ours", "grep", "bare"))
        theirs = f"{grepped * 1000:.1f} ms + 25 x {bare * 1000:.1f} ms"
        yield Line("wall", size, mine / (grepped + 25 * bare), str(samples["ours"]), theirs)


def _wall(
    repository: Repository, command: tuple[str, ...], questions: Iterator[list[str]]
) -> float:
    words = next(questions)
    patterns = [part for word in words for part in ("-e", word)] if "grep" in command else words
    return timed(lambda: repository.surroundings.run(*command, *patterns, check=False))


def measure_memory(stores: Stores, size: int) -> Iterator[Line]:
    """Measure what an idle server keeps in memory after one call, beside an idle server with one tool."""
    repository = stores.get(size)
    words = " ".join(repository.queries(1)[0])
    ours, theirs = [], []
    for _ in range(MEMORY_ROUNDS):
        ours.append(_idle(repository.surroundings, ("filemem", "serve"), "search", query=words))
        theirs.append(_idle(repository.surroundings, SDK, "echo", text=words))
    (mine, busy), (other, _) = _middle(ours), _middle(theirs)
    own = (mine.private - other.private) / 1e6
    note = f"RSS / PSS / private; {own:+.0f} MB in private pages; idle it uses {busy:.1%} of a core"
    yield Line("memory", size, (mine.rss - other.rss) / 1e6, str(mine), str(other), note)


def _idle(
    surroundings: Surroundings, command: tuple[str, ...], tool: str, **arguments: str
) -> tuple[Resident, float]:
    """Return the memory of a server that has nothing to do, and the share of a core that it uses all the same."""
    with Server(surroundings, *command) as server:
        server.greet()
        server.call(tool, **arguments)
        time.sleep(IDLE)
        before = used(server.pid)
        time.sleep(IDLE)
        return resident(server.pid), (used(server.pid) - before) / IDLE


def _middle(found: list[tuple[Resident, float]]) -> tuple[Resident, float]:
    return sorted(found, key=lambda one: one[0].rss)[len(found) // 2]
