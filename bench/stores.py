"""Synthetic repositories: decisions as filemem writes them, beside the files of a project, in one commit.

Rule: all randomness is seeded, and everything lies in the folder of the run, which is deleted at its end.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.measure import Surroundings
from bench.words import Writer
from filemem.record import DECISION, Record, build_id, build_record_path, render_record

SEED = 20_251_120
STORE = "memory"
PROJECT_FILES = 2_000
LENGTH = 1_100  # characters of reasoning; with the front matter about 1.5 kB
SUPERSEDING = 0.2
PER_AREA = 10  # records that share the first folder of their topics
FIRST = 1_690_000_000_000  # epoch milliseconds of the oldest decision
STEP = 6_000_000  # milliseconds between two decisions, on average
SETTLED = 1.1  # seconds after which Git trusts the times of what it has just written

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the synthetic store: its name, its words, and its newest decision."""

    name: str
    terms: tuple[str, ...]
    head: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A generated repository."""

    folder: Path
    size: int
    topics: tuple[Topic, ...]
    surroundings: Surroundings

    @property
    def store(self) -> Path:
        """The folder of records."""
        return self.folder / STORE

    def git(self, *arguments: str) -> str:
        """Run Git here."""
        return self.surroundings.run("git", *arguments)

    def filemem(self, *arguments: str) -> str:
        """Run filemem's command line here."""
        return self.surroundings.run("filemem", *arguments)

    def queries(self, count: int, seed: int = SEED) -> list[list[str]]:
        """Return the words of some questions about topics of this store."""
        writer = Writer(seed)
        chosen = Random(seed).choices(self.topics, k=count)
        return [writer.query(topic.terms) for topic in chosen]


def decisions(count: int) -> Iterator[tuple[Record, Topic, int]]:
    """Yield decisions, oldest first, each with its topic and the place of the topic among all."""
    writer = Writer(SEED)
    random = writer.random
    areas = writer.names(max(1, count // PER_AREA))
    topics: list[Topic] = []
    names: set[str] = set()
    before: tuple[str, ...]
    created = FIRST
    for _ in range(count):
        created += random.randrange(1, 2 * STEP)
        again = bool(topics) and random.random() < SUPERSEDING
        place = random.randrange(len(topics)) if again else len(topics)
        if again:
            old = topics[place]
            name, terms, before = old.name, old.terms, (old.head,)
        else:
            terms, before = tuple(writer.terms()), ()
            name = f"{random.choice(areas)}_{terms[0]}_{terms[1]}"
            while name in names:
                name += f"_{random.choice(terms)}"
            names.add(name)
        record_id = build_id(DECISION, created, random.randbytes(8), name)
        topic = Topic(name, terms, record_id)
        topics[place : place + 1] = [topic]
        yield _decision(writer, topic, created, before), topic, place


def _decision(writer: Writer, topic: Topic, created: int, before: tuple[str, ...]) -> Record:
    random, terms = writer.random, topic.terms
    title = writer.title(terms)
    return Record(
        id=topic.head,
        type=DECISION,
        topic=topic.name,
        topic_stated=True,
        title=title,
        decision=title,
        text=writer.prose(terms, int(LENGTH * random.uniform(0.6, 1.4))),
        created=created,
        confidence=round(random.uniform(0.5, 1), 2),
        supersedes=before,
        affects=(f"src/{terms[2]}/{terms[3]}.py",),
        tags=tuple(random.sample(sorted(set(terms)), 2)),
        agent="claude-code",
        rejected=(writer.sentence(terms),) if random.random() < 0.3 else (),
    )


class Stores:
    """Makes repositories as they are asked for, and keeps them for the run.

    Args:
        surroundings: whose folder they go to.
        say: told about work that takes a while.
    """

    def __init__(self, surroundings: Surroundings, say: Say) -> None:
        self._surroundings = surroundings
        self._say = say
        self._made: dict[int, Repository] = {}
        self._copies = 0

    def get(self, size: int) -> Repository:
        """Return the repository with `size` records, its index built and in step."""
        if size not in self._made:
            self._say(f"making {size:,} records and {PROJECT_FILES:,} project files")
            self._made[size] = self._make(size)
        return self._made[size]

    def copy(self, size: int, *, indexed: bool = True) -> Repository:
        """Return a copy of a repository, to change at will.

        Args:
            size: records in it.
            indexed: whether its index must be in step.
        """
        origin = self.get(size)
        self._copies += 1
        folder = origin.folder.with_name(f"{origin.folder.name}-{self._copies}")
        shutil.copytree(origin.folder, folder, symlinks=True)
        copied = Repository(folder, size, origin.topics, self._surroundings.at(folder))
        settle(copied)
        if indexed:
            copied.filemem("index")
        return copied

    def drop(self, repository: Repository) -> None:
        """Delete a copy."""
        shutil.rmtree(repository.folder)

    def _make(self, size: int) -> Repository:
        folder = self._surroundings.folder / f"store-{size}"
        topics: list[Topic] = []
        for record, topic, place in decisions(size):
            path = folder / STORE / build_record_path(record)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(render_record(record))
            topics[place : place + 1] = [topic]
        _project(folder)
        repository = Repository(folder, size, tuple(topics), self._surroundings.at(folder))
        repository.git("init", "--quiet", "--initial-branch=main")
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
            repository.git("config", name, value)
        repository.git("add", "-A")
        repository.git("commit", "--quiet", "-m", "Records and a project")
        repository.git("repack", "-a", "-d", "--quiet")
        repository.git(
            "config", "core.fsync", "committed"
        )  # only now: thousands of files at once would take minutes
        settle(repository)
        self._say(f"indexing {size:,} records")
        repository.filemem("index")
        return repository


def _project(folder: Path) -> None:
    """Write the project that the records are about."""
    writer = Writer(SEED + 1)
    for number in range(PROJECT_FILES):
        terms = writer.terms()
        path = folder / "src" / f"part{number % 50:02d}" / f"{terms[0]}_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{writer.prose(terms, 1_500)}"""\n', encoding="utf-8")


def settle(repository: Repository) -> None:
    """Let Git see that nothing changed, as it does in a repository that is in use."""
    time.sleep(SETTLED)
    repository.git("status", "--short")
