"""Saving: the one straight line that joins the files of the store with the repository.

Promises, each with a test: an acknowledged save is never lost; nothing of the user's is touched (what they staged, what
they are editing, a rebase in progress); one save commits its record and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from filemem.ending import held
from filemem.errors import FilememError, Locked
from filemem.files import Files, check_path, is_private
from filemem.memory.saving import replay
from filemem.memory.saving.operations import Operations
from filemem.memory.saving.values import (
    BATCH,
    COMMIT,
    IN_BATCH,
    LEAVE,
    Amendment,
    PendingOp,
    Replayed,
    Saved,
)
from filemem.memory.saving.work import UNCOMMITTED, Work
from filemem.record.model import Outcome
from filemem.repo import Entry, Message, Repo

__all__ = ["BATCH", "COMMIT", "LEAVE", "Message", "PendingOp", "Replayed", "Saved", "Saver"]

BATCH_SIZE = 50  # saves in one commit
BATCH_AGE = 2.0  # seconds the oldest of them waits


def _nothing(_: str) -> None:
    pass


class Saver:
    """Writes records and commits them.

    Args:
        files: the store.
        repo: the repository it stands in.
        clock: tells the time in epoch milliseconds.
        steps: told the name of each step as it is reached; for tests that stop there.
        patience: seconds to wait for another process that saves.
    """

    def __init__(
        self,
        files: Files,
        repo: Repo,
        *,
        clock: Callable[[], int],
        steps: Callable[[str], None] = _nothing,
        patience: float = 10.0,
    ) -> None:
        self._work = Work(files, repo, clock, steps)
        self._operations = Operations(self._work)
        self._files, self._repo, self._clock = files, repo, clock
        self._patience = patience
        self._mutex = threading.RLock()

    # saving

    def put(
        self,
        path: str,
        data: bytes,
        message: Message,
        *,
        policy: str = COMMIT,
        replace: bool = False,
        tombstone: str = "",
    ) -> Saved:
        """Write a file of the store and commit it.

        Args:
            path: relative to the store.
            data: all of its bytes.
            message: of the commit.
            policy: `commit`, `batch` or `leave`; what lies under `private/` is never committed.
            replace: whether a file with other content may stand there.
            tombstone: a file of the store that the same commit takes away.

        Raises:
            BadInput: the path cannot be used, or Git does not know who commits.
            Conflict: another file stands there, or HEAD has another version of it.
            Locked: another save does not end.
            BrokenStore: disk or repository refuse; nothing is left of the save then.
        """
        check_path(path, writing=True)
        if is_private(path) or policy == LEAVE:
            return self._operations.put_file(path, data, replace)
        self._repo.identity()
        with self._saving():
            saved = self._operations.put(path, data, message, policy, replace, tombstone)
            with suppress(FilememError):  # what is acknowledged here waits on then, and is tried again
                if self.due() == 0.0:
                    replay.flush(self._work, self._batched())
            return saved

    def amend(
        self,
        path: str,
        message: Message,
        *,
        policy: str = COMMIT,
        keys: Mapping[str, object] | None = None,
        outcome: Outcome | None = None,
        title: str | None = None,
        text: str | None = None,
    ) -> Saved:
        """Change some lines of a file, in its committed version and in the file; the user's own edits stay.

        Args:
            path: relative to the store.
            message: of the commit.
            policy: `leave` changes the file only.
            keys, outcome, title, text: as for `record.amend`.

        Raises:
            NotFound: there is no such file.
            Conflict: the file and its committed version differ so that the change fits only one.
            BadInput, Locked, BrokenStore: as for `put`.
        """
        amendment = Amendment(keys or {}, outcome, title, text)
        if is_private(path) or policy == LEAVE:
            with self._locked():
                return self._operations.amend_file(path, amendment, None)
        self._repo.identity()
        with self._saving():
            return self._operations.amend(path, amendment, message)

    def remove(self, path: str, message: Message, *, policy: str = COMMIT, tombstone: str = "") -> Saved:
        """Remove a file of the store and commit that.

        Args:
            path: relative to the store.
            message: of the commit.
            policy: `leave` removes the file only.
            tombstone: an empty file of the store that the same commit adds.

        Raises:
            NotFound: there is no such file.
            Conflict: it has uncommitted edits, or is nobody's save and was never committed.
            BadInput, Locked, BrokenStore: as for `put`.
        """
        check_path(path)
        if is_private(path):
            self._files.read(path)  # refuses one that is not there
            self._files.remove(path)
            return Saved(path, "")
        if policy == LEAVE:
            self._operations.check_kept(path)
            self._files.remove(path)
            if tombstone:
                self._files.write(tombstone, b"")
            return Saved(path, "")
        self._repo.identity()
        with self._saving():
            return self._operations.remove(path, message, tombstone)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the save lock over several steps, so that what was read still holds when it is saved.

        Raises:
            Locked: another save does not end.
            BrokenStore: the Git directory cannot be written.
        """
        with self._locked():
            yield

    def flush(self) -> Replayed:
        """Commit the saves that wait to share a commit."""
        if not self._batched():
            return Replayed()
        with self._locked():
            return replay.flush(self._work, self._batched())

    def due(self) -> float | None:
        """Seconds until an open batch should be flushed (0: now); None where there is none."""
        batched = self._batched()
        if not batched:
            return None
        age = self._clock() / 1000 - batched[0].operation.at / 1000
        return 0.0 if len(batched) >= BATCH_SIZE else min(BATCH_AGE, max(0.0, BATCH_AGE - age))

    def replay(self, *, thorough: bool = True) -> Replayed:
        """Finish what a crash or a busy repository left over; on start, and whenever the repository changed.

        Args:
            thorough: also look at the objects of the last hour's commits, not only at those of the last minute.

        Raises:
            Locked, BrokenStore: as for `put`.
        """
        if not replay.needed(self._work, thorough):
            return Replayed()
        with self._locked():
            return replay.replay(self._work, thorough)

    def discard(self, path: str) -> int:
        """Give up the operations that wait for a path; the file stays as it is. Returns how many there were."""
        with self._locked():
            entries = self._operations.unfinished(path)
            for entry in entries:
                self._repo.journal.drop(entry)
            return len(entries)

    def withdraw(self, path: str) -> bool:
        """Take back a removal that still waits: the file stands again. Returns whether there was one."""
        with self._saving():
            return self._operations.withdraw(path)

    def again(self, path: str) -> Saved:
        """Try to commit what still waits for a path, also where a hook has refused it. Errors as for `put`."""
        with self._locked():
            replay.replay(self._work, thorough=False, again=self._work.in_repo(path))
            unfinished = self._operations.unfinished(path)
            if self._repo.item(self._work.in_repo(path)) is not None and not unfinished:
                return Saved(path, "", self._repo.head())
            return Saved(path, "", None, unfinished[-1].marks.get("pending") if unfinished else UNCOMMITTED)

    # what waits

    def pending(self) -> tuple[PendingOp, ...]:
        """Operations that are not committed yet, oldest first."""
        return replay.pending(self._work)

    def overlay(self) -> dict[str, bytes | None]:
        """What waiting operations make of files that they have not touched yet: bytes, None for removed."""
        with self._mutex:
            return replay.overlay(self._work)

    def close(self) -> None:
        """Commit an open batch and end the helpers. Waiting operations stay in the journal."""
        with suppress(Locked):
            self.flush()
        self._repo.close()

    # parts

    def _batched(self) -> list[Entry]:
        own = self._repo.journal.worktree
        entries = self._work.entries()
        return [e for e in entries if e.operation.worktree == own and e.marks.get("pending") == IN_BATCH]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex, self._repo.lock.held(self._patience):
            self._work.step("locked")
            self._repo.warm()
            yield

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """Hold the lock, and let nothing end this process before the save is done and answered."""
        with self._locked(), held(until_answered=True):
            yield
