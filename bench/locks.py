"""Rows about Git itself: how long a save holds the user's index.lock, and what the commit table costs to load."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from bench.measure import Samples, Surroundings, timed
from bench.table import Line
from filemem.files import Files
from filemem.repo import Repo, commit
from filemem.repo.commit import CommitPlan, Edit, render_message
from filemem.repo.history import History
from filemem.repo.state import GitLocks

ROUNDS = 21
COMMITS = 20_000
STORE = "memory"


class _Timed(GitLocks):
    """Locks that note when they were taken and released last."""

    taken = released = 0.0

    def take_index(self) -> bool:
        got = super().take_index()
        _Timed.taken = time.perf_counter()
        return got

    def release(self) -> bool:
        kept = super().release()
        _Timed.released = time.perf_counter()
        return kept


def measure_held(surroundings: Surroundings, size: int) -> Iterator[Line]:
    """Measure from the moment that Git's child has index.lock to the moment that it is free again."""
    folder = _imported(surroundings, f"entries-{size}", _entries(size))
    repo = Repo.discover(folder, environment=surroundings.environment)
    files = Files(repo.work_tree, STORE, repo.spool)
    held: list[float] = []
    for number in range(ROUNDS + 1):
        data = f"# Decision {number}\n".encode()
        plan = CommitPlan(
            (Edit(f"{STORE}/r{number}.md", data, None),),
            render_message(f"save {number}"),
            int(time.time() * 1000),
        )
        with repo.save_lock(), patch.object(commit, "GitLocks", _Timed):
            commit.save_files(repo, files, lambda plan=plan: plan)  # type: ignore[misc]
        held.append(_Timed.released - _Timed.taken)
    repo.close()
    samples = Samples(tuple(held[1:]))  # the first one starts the helpers
    yield Line("held", size, samples.p50 * 1000, str(samples))


def measure_table(surroundings: Surroundings) -> Iterator[Line]:
    """Measure the first load of the commit table beside a `git log` that prints as much."""
    folder = _imported(surroundings, "commits", _records(COMMITS))
    log = ["git", "log", "--raw", "--no-abbrev", "-M", "--format=%H %P %an %ae %ct %s%n%b", "HEAD"]
    environment = dict(surroundings.environment)

    def theirs() -> float:
        return timed(
            lambda: subprocess.run(
                log, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True
            )
        )

    theirs()
    git = Samples(tuple(theirs() for _ in range(3)))
    ours: list[float] = []
    for _ in range(3):
        repo = Repo.discover(folder, environment=surroundings.environment)
        for file in repo.shared_folder.glob("commits*"):
            file.unlink()
        history = History(repo, STORE)
        ours.append(timed(history.update_to_head))
        history.close()
        repo.close()
    samples = Samples(tuple(ours))
    yield Line("table", COMMITS, samples.p50 / git.p50, str(samples), str(git))


def _imported(surroundings: Surroundings, name: str, stream: Iterator[bytes]) -> Path:
    folder = surroundings.folder / name
    folder.mkdir()
    here = surroundings.at(folder)
    here.run("git", "init", "--quiet", "--initial-branch=main")
    here.run("git", "config", "user.name", "Ada")
    here.run("git", "config", "user.email", "ada@example.org")
    command = ["git", "fast-import", "--quiet"]
    subprocess.run(
        command, cwd=folder, env=dict(here.environment), input=b"".join(stream), check=True
    )
    here.run("git", "switch", "--quiet", "--force", "main")
    time.sleep(1.1)  # so that Git trusts the times of what it has just written
    here.run("git", "status", "--short")
    return folder


def _entries(size: int) -> Iterator[bytes]:
    """One commit of so many files."""
    yield b"blob\nmark :1\ndata 2\nx\n\n"
    yield b"commit refs/heads/main\ncommitter Ada <ada@example.org> 1690000000 +0000\ndata 5\nfiles\n"
    for number in range(size):
        yield b"M 100644 :1 src/d%03d/f%d.py\n" % (number % 500, number)


def _records(count: int) -> Iterator[bytes]:
    """So many commits with a record each."""
    for number in range(count):
        text = b"---\nid: decision_x_%d\n---\n# Decision %d\n" % (number, number)
        told = b"decision(t%d): Decision %d\n\nFilemem-Id: decision_x_%d\nAgent: a\n" % (
            number % 100,
            number,
            number,
        )
        yield b"commit refs/heads/main\ncommitter Ada <ada@example.org> %d +0000\n" % (
            1_690_000_000 + 60 * number
        )
        yield b"data %d\n%b" % (len(told), told)
        path = b"%b/decisions/t%d/%d.md" % (STORE.encode(), number % 100, number)
        yield b"M 100644 inline %b\ndata %d\n%b\n" % (path, len(text), text)
