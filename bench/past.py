"""Rows about history: a topic's chain, the memory as it was, what a branch does; beside the Git that reads as much.

The repository is made once a run by `git fast-import`: every record in a commit of its own, one in five edited later,
code between them, twice as many commits as records; and a branch that adds and edits some.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice

import yaml
from frontmatter.default_handlers import YAMLHandler

from bench.measure import Surroundings, in_turns, timed
from bench.stores import STORE, Repository, Topic, decisions
from bench.table import Line
from filemem.memory import Memory
from filemem.record import build_record_path, render_record

ROUNDS = 7
EDITED = 5  # one record in so many is edited once
CHANGED = 500  # records that the branch adds or edits
BACK = 200  # commits before the end that the memory is asked as of, and one less for each further sample
CODE = b"src/main.py"


def measure(surroundings: Surroundings, size: int) -> Iterator[Line]:
    """Make the repository and measure every row on it."""
    repository = _make(surroundings, size)
    with Memory.open(repository.folder) as memory:
        memory.search("warm")
        yield _history(repository, memory)
        yield from _as_of(repository, memory)
    repository.git("switch", "--quiet", "branch")
    with Memory.open(repository.folder) as memory:
        yield _diff(repository, memory)


def _history(repository: Repository, memory: Memory) -> Line:
    chosen = _chains(repository)
    memory.history(chosen[0][0].name)
    mine, gits = iter(chosen[1:]), iter(chosen[1:])
    methods = {
        "ours": lambda: timed(partial(memory.history, next(mine)[0].name)),
        "theirs": lambda: timed(partial(repository.git, "log", "--", next(gits)[1])),
    }
    samples = in_turns(methods, ROUNDS)
    ratio = samples["ours"].p50 / samples["theirs"].p50
    return Line("history", repository.size, ratio, str(samples["ours"]), str(samples["theirs"]))


def _chains(repository: Repository) -> list[tuple[Topic, str]]:
    """Topics with three decisions or more, with the pattern of their files; one more than there are rounds."""
    files = {
        path.stem.rpartition("-")[2]: path.name.partition("--")[0]
        for path in repository.store.rglob("*.md")
    }
    sizes = Counter(files.values())
    found = ((topic, files[topic.head.rpartition("_")[2]]) for topic in repository.topics)
    long = ((topic, f"{STORE}/decisions/*/{name}--*") for topic, name in found if sizes[name] > 2)
    return list(islice(long, ROUNDS + 1))


def _as_of(repository: Repository, memory: Memory) -> Iterator[Line]:
    questions = iter([" ".join(words) for words in repository.queries(20 * ROUNDS)])
    back = iter(range(BACK, 0, -1))

    def first() -> float:
        commit = repository.git("rev-parse", f"HEAD~{next(back)}").strip()
        return timed(lambda: memory.at(commit).search(next(questions)))

    def read() -> float:
        return timed(lambda: _read(repository, f"HEAD~{BACK}"))

    samples = in_turns({"first": first, "read": read}, ROUNDS)
    ratio = samples["first"].p50 / samples["read"].p50
    yield Line("as-of", repository.size, ratio, str(samples["first"]), str(samples["read"]))
    name = f"HEAD~{BACK}"
    again = {
        "again": lambda: timed(lambda: memory.at(name).search(next(questions))),
        "live": lambda: timed(lambda: memory.search(next(questions))),
    }
    for _ in range(3):
        memory.at(name).search(next(questions))
        memory.search(next(questions))
    samples = in_turns(again, 5 * ROUNDS)
    ratio = samples["again"].p50 / samples["live"].p50
    yield Line("as-of-again", repository.size, ratio, str(samples["again"]), str(samples["live"]))


def _read(repository: Repository, commit: str) -> None:
    """List, read and parse every record of a commit, and do nothing with it."""
    listed = repository.git("ls-tree", "-r", commit, "--", f"{STORE}/")
    ids = "".join(f"{row.split()[2]}\n" for row in listed.splitlines())
    handler = YAMLHandler()
    for text in _blobs(repository, ids.encode()):
        header, _ = handler.split(text)
        handler.load(header, Loader=yaml.CSafeLoader)


def _blobs(repository: Repository, ids: bytes) -> Iterator[str]:
    command = ["git", "cat-file", "--batch", "--buffer"]
    around = repository.surroundings
    done = subprocess.run(
        command,
        cwd=around.folder,
        env=around.environment,
        input=ids,
        capture_output=True,
        check=True,
    )
    at = 0
    while at < len(done.stdout):
        end = done.stdout.index(b"\n", at)
        size = int(done.stdout[at:end].split()[2])
        yield done.stdout[end + 1 : end + 1 + size].decode()
        at = end + size + 2


def _diff(repository: Repository, memory: Memory) -> Line:
    def theirs() -> float:
        return timed(lambda: _git_diff(repository))

    memory.diff()
    samples = in_turns({"ours": lambda: timed(memory.diff), "theirs": theirs}, ROUNDS)
    ratio = samples["ours"].p50 / samples["theirs"].p50
    note = f"{CHANGED} records, {len(memory.diff().effects)} effects"
    return Line("diff", repository.size, ratio, str(samples["ours"]), str(samples["theirs"]), note)


def _git_diff(repository: Repository) -> None:
    """List what the branch changed, read both versions of each and parse their YAML."""
    rows = repository.git("diff", "--raw", "--no-abbrev", "main...branch", "--", STORE).splitlines()
    ids = [oid for row in rows for oid in row.split()[2:4] if set(oid) != {"0"}]
    handler = YAMLHandler()
    for text in _blobs(repository, "".join(f"{oid}\n" for oid in ids).encode()):
        header, _ = handler.split(text)
        handler.load(header, Loader=yaml.CSafeLoader)


# making it


def _make(surroundings: Surroundings, size: int) -> Repository:
    folder = surroundings.folder / f"history-{size}"
    folder.mkdir()
    topics: list[Topic] = []
    here = surroundings.at(folder)
    here.run("git", "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        here.run("git", "config", name, value)
    stream = b"".join(_stream(size, topics))
    command = ["git", "fast-import", "--quiet"]
    subprocess.run(command, cwd=folder, env=here.environment, input=stream, check=True)
    here.run("git", "switch", "--quiet", "--force", "main")
    repository = Repository(folder, size, tuple(topics), here)
    repository.filemem("index")
    return repository


def _stream(size: int, topics: list[Topic]) -> Iterator[bytes]:
    """The input of fast-import: two commits for each record, then the branch."""
    files: list[tuple[bytes, bytes]] = []
    made = 0

    def commit(branch: bytes, path: bytes, data: bytes, *, first: bool = False) -> bytes:
        nonlocal made
        made += 1
        at = 1_690_000_000 + 600 * made
        start = b"from refs/heads/main\n" if first else b""
        head = (
            b"commit refs/heads/%b\ncommitter Ada <ada@example.org> %d +0000\ndata 7\nrecords\n"
            % (branch, at)
        )
        return head + start + b"M 100644 inline %b\ndata %d\n%b\n" % (path, len(data), data)

    more = size // 20  # that the branch adds
    for number, (record, topic, place) in enumerate(decisions(size + more)):
        path, data = f"{STORE}/{build_record_path(record)}".encode(), render_record(record)
        if number >= size:
            files.append((path, data))
            continue
        topics[place : place + 1] = [topic]
        files.append((path, data))
        yield commit(b"main", path, data)
        if number % EDITED:
            yield commit(b"main", CODE, b"print(%d)\n" % number)
        else:
            old, before = files[number // 2]
            files[number // 2] = old, before + b"\nSeen again.\n"
            yield commit(b"main", *files[number // 2])
    branch = [(path, data) for path, data in files[size:]][: CHANGED // 2]
    branch += [
        (path, data + b"\nRead on the branch.\n") for path, data in files[: CHANGED - len(branch)]
    ]
    for number, (path, data) in enumerate(branch):
        yield commit(b"branch", path, data, first=not number)
