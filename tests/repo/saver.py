"""Saves of one file each, as the verbs of the memory make them; and a process of its own for one or many.

`python -m tests.repo.saver REPOSITORY COUNT INTERVAL_MS [FIRST]` prints ACK PATH BRANCH after each save that was
acknowledged and PENDING PATH after each that waits; it ends where a file `stop` stands in the repository.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from filemem.errors import FilememError
from filemem.files import Files
from filemem.repo import Repo
from filemem.repo.commit import (
    CommitPlan,
    Edit,
    SaveResult,
    finish_saves,
    render_message,
    save_files,
)
from filemem.repo.journal import PendingSave, list_pending_saves
from tests.repo.steps import watched

CLOCK = 1_763_650_000_123  # milliseconds
SAID = render_message("decision(topic): Use it", (("Filemem-Id", "decision_topic_1"),))


class Saver:
    """Saves in one repository, whose store is `memory`.

    Args:
        path: the repository.
        step: called at each step of a save.
    """

    def __init__(self, path: Path, step: Callable[[str], object] = lambda _: None) -> None:
        self.repo, self.step = Repo.discover(path), step
        self.files = Files(self.repo.work_tree, "memory", self.repo.spool)

    def put(self, path: str, data: bytes, said: str = SAID) -> SaveResult:
        """Bring a new file."""
        return self.edit((Edit(self.files.to_work_tree_path(path), data, None),), said)

    def change(self, path: str, data: bytes | None, said: str = SAID) -> SaveResult:
        """Give a file other bytes, or remove it."""
        return self.edit(
            (Edit(self.files.to_work_tree_path(path), data, self.files.read(path)),), said
        )

    def edit(self, edits: tuple[Edit, ...], said: str = SAID) -> SaveResult:
        """Make one commit of some edits."""

        def make() -> CommitPlan:
            self.step("planned")
            return CommitPlan(edits, said, CLOCK)

        with self.repo.save_lock(), watched(self.step):
            made = save_files(self.repo, self.files, make)
            self.step("done")
            return made

    def finish(self) -> tuple[SaveResult, ...]:
        """End what the journal holds."""
        return finish_saves(self.repo, self.files)

    def pending(self) -> tuple[PendingSave, ...]:
        """The saves that wait."""
        return list_pending_saves(self.repo)

    def close(self) -> None:
        """End the helper process."""
        self.repo.close()


def main(repository: str, count: str, interval: str, first: str = "0") -> None:
    """Make saves one after another."""
    path = Path(repository)
    saver = Saver(path)
    for number in range(int(first), int(first) + int(count)):
        if (path / "stop").exists():
            break
        name = f"decisions/t{number % 7}/r{number}.md"
        try:
            made = saver.put(name, b"# Record %d\n\nBody %d\n" % (number, number))
        except FilememError as error:
            print(f"ERROR {error.message}", file=sys.stderr, flush=True)
        else:
            if made.commit:
                print(f"ACK memory/{name} {made.branch}", flush=True)
            elif made.pending:
                print(f"PENDING memory/{name}", flush=True)
        time.sleep(random.uniform(0.5, 1.5) * float(interval) / 1000)
    for _ in range(50):
        saver.finish()
        if not saver.pending():
            break
        time.sleep(0.05)
    saver.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
