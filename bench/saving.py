"""Rows about saving: against Git, against a small store, until found, the tail, and what it leaves on disk."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from random import Random

from bench.measure import Samples, allocated, timed
from bench.stdio import Server
from bench.stores import SEED, STORE, Repository, Stores
from bench.table import Line
from bench.words import Writer

ROUNDS = 16
SETTLE = 1.0  # seconds that a server gets to fold what was saved before Git is timed
PAUSE = 0.5  # seconds at most between two saves of a round: some meet the folding of the one before
GROWTH_SAVES = 300
GROWTH_PER = 1_000
MAINTENANCE = ("maintenance", "run", "--quiet", "--task=loose-objects")


class Author:
    """Writes new decisions for a store, one in five on a topic that it has.

    Args:
        repository: whose topics they are on.
        seed: the same seed writes the same.
    """

    def __init__(self, repository: Repository, seed: int) -> None:
        self._repository = repository
        self._writer = Writer(seed)
        self._number = 0

    def next(self) -> tuple[dict[str, str], str]:
        """Return the fields of a decision, and a word that no other record has."""
        self._number += 1
        random, terms = self._writer.random, self._writer.terms()
        mark = f"mark{self._number}{random.randrange(10**9):x}"
        topic = (
            f"{random.choice(self._repository.topics).name.partition('_')[0]}_{terms[0]}_{terms[1]}"
        )
        if random.random() < 0.2:
            chosen = random.choice(self._repository.topics)
            topic, terms = chosen.name, list(chosen.terms)
        reasoning = f"{self._writer.prose(terms, 1_000)} {mark}"
        return {
            "topic": topic,
            "decision": self._writer.title(terms),
            "reasoning": reasoning,
            "agent": "bench",
        }, mark


class GitAuthor:
    """Does what a person does without filemem: writes the file, adds it, commits it."""

    def __init__(self, repository: Repository, seed: int) -> None:
        self._repository = repository
        self._author = Author(repository, seed)

    def save(self) -> float:
        """Save one decision; return the seconds of `git add` and `git commit`, not of writing the file."""
        fields, mark = self._author.next()
        path = f"{STORE}/decisions/{time.strftime('%Y/%m')}/{fields['topic'].replace('_', '-')}--{mark}.md"
        file = self._repository.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        header = f"---\ntype: decision\ntopic: {fields['topic']}\n---\n"
        file.write_text(
            f"{header}# {fields['decision']}\n\n{fields['reasoning']}\n", encoding="utf-8"
        )
        return timed(lambda: self._commit(path, fields["decision"]))

    def _commit(self, path: str, subject: str) -> None:
        self._repository.git("add", "--", path)
        self._repository.git("commit", "--quiet", "-m", subject, "--", path)


class JsonAuthor:
    """Keeps all records in one JSON file: reads it, adds one, writes it, syncs it, commits it."""

    def __init__(self, repository: Repository, seed: int) -> None:
        self._repository = repository
        self._author = Author(repository, seed)
        self._file = repository.folder / "memory.json"
        paths = sorted((repository.folder / STORE).rglob("*.md"))
        records = [{"path": str(path), "text": path.read_text("utf-8")} for path in paths]
        self._file.write_text(json.dumps(records), encoding="utf-8")
        repository.git("add", "--", self._file.name)
        repository.git("commit", "--quiet", "-m", "Begin", "--", self._file.name)

    def save(self) -> float:
        """Save one decision; return the seconds that it took."""
        fields, _ = self._author.next()
        return timed(lambda: self._add(fields))

    def _add(self, fields: Mapping[str, str]) -> None:
        records = json.loads(self._file.read_text("utf-8"))
        records.append(dict(fields))
        aside = self._file.with_suffix(".tmp")
        with aside.open("w", encoding="utf-8") as file:
            json.dump(records, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._file)
        self._repository.git("add", "--", self._file.name)
        self._repository.git("commit", "--quiet", "-m", fields["decision"], "--", self._file.name)


class Finder:
    """Saves through one server and looks for what was saved through the same and through another."""

    def __init__(self, repository: Repository, one: Server, other: Server) -> None:
        self._author = Author(repository, SEED + repository.size)
        self._one = one
        self._other = other
        self.saves: list[float] = []
        self.own: list[float] = []
        self.others: list[float] = []

    def save(self, *, elsewhere: bool) -> None:
        """Save one decision and wait until it is found.

        Args:
            elsewhere: ask the other server.
        """
        fields, mark = self._author.next()
        self.saves.append(timed(lambda: self._one.call("save", **fields)))
        server, taken = (self._other, self.others) if elsewhere else (self._one, self.own)
        taken.append(timed(lambda: _until_found(server, mark)))


def _until_found(server: Server, mark: str) -> None:
    until = time.monotonic() + 30
    while not server.call("search", query=mark, limit=1)["results"]:
        if time.monotonic() > until:
            raise RuntimeError(f"a saved record with the word {mark} was not found for 30 s")


def measure(stores: Stores, sizes: list[int]) -> Iterator[Line]:
    """Measure saving at every size; Git works in a copy of the same repository, in turns with us."""
    small: Samples | None = None
    for size in sizes:
        finder, git, one_file = _one_size(stores, size)
        saves, own, other = (
            Samples(tuple(taken)) for taken in (finder.saves, finder.own, finder.others)
        )
        yield Line("save", size, saves.p50 / git.p50, str(saves), str(git))
        yield Line("save-json", size, saves.p50 / one_file.p50, str(saves), str(one_file))
        if small is None and size == 100:
            small = saves
        elif small is not None and size == max(sizes):
            yield Line("flat", size, saves.p50 / small.p50, str(saves), str(small))
        yield Line("found", size, own.p50 * 1000, str(own), str(saves))
        yield Line("found-other", size, other.p50 * 1000, str(other), str(saves))
        yield Line("tail-save", size, saves.p95 / saves.p50, str(saves))


def _one_size(stores: Stores, size: int) -> tuple[Finder, Samples, Samples]:
    """Save in turns with Git, and with one JSON file; return the times of both."""
    ours = stores.copy(size)
    theirs = stores.copy(size, indexed=False)
    others = stores.copy(size, indexed=False)
    pauses = Random(SEED)
    git = GitAuthor(theirs, SEED)
    one_file = JsonAuthor(others, SEED)
    baseline: list[float] = []
    whole: list[float] = []
    with (
        Server(ours.surroundings, "filemem", "serve") as one,
        Server(ours.surroundings, "filemem", "serve") as other,
    ):
        for server in (one, other):
            server.greet()
            server.call("search", query="warm", limit=1)
        finder = Finder(ours, one, other)
        for number in range(ROUNDS):
            time.sleep(SETTLE)
            baseline += [git.save(), git.save()]
            whole.append(one_file.save())
            finder.save(elsewhere=bool(number % 2))
            time.sleep(pauses.uniform(0, PAUSE))
            finder.save(elsewhere=not number % 2)
    stores.drop(ours)
    stores.drop(theirs)
    stores.drop(others)
    return finder, Samples(tuple(baseline)), Samples(tuple(whole))


def measure_growth(stores: Stores, size: int) -> Iterator[Line]:
    """Measure what saves leave in the Git directory after its background maintenance."""
    repository = stores.copy(size)
    author = Author(repository, SEED + 7)
    before = _kept(repository)
    with Server(repository.surroundings, "filemem", "serve") as server:
        server.greet()
        for _ in range(GROWTH_SAVES):
            server.call("save", **author.next()[0])
        time.sleep(SETTLE)
    loose = _kept(repository)
    for _ in range(2):  # the first run packs, the second deletes what was packed
        repository.git(*MAINTENANCE)
    after = _kept(repository)
    stores.drop(repository)
    unpacked, grown, index, other = (
        (later - earlier) * GROWTH_PER / GROWTH_SAVES / 1e6
        for later, earlier in zip((loose[0], *after), (before[0], *before), strict=True)
    )
    note = (
        f"from {GROWTH_SAVES} saves, in blocks; beside that the search index {index:+.1f} MB and what filemem keeps "
        f"of the last hour {other:+.1f} MB, both of which pass"
    )
    yield Line(
        "growth", size, grown, f"{grown:.1f} MB", f"{unpacked:.1f} MB before maintenance", note
    )


def _kept(repository: Repository) -> tuple[int, int, int]:
    """Bytes in the Git directory: Git's own, the search index, and what else filemem keeps."""
    git = repository.folder / ".git"
    index, ours = allocated(git / "filemem" / "index"), allocated(git / "filemem")
    return allocated(git) - ours, index, ours - index
