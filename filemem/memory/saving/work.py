"""One operation from the journal to the commit: the steps that saving and replaying share.

Order is the safety: journal entry, blob and record are synced together and renamed in that order; then the index entry,
the objects, HEAD; then the folders are synced and the objects looked at once more. Only then is a save acknowledged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from filemem.ending import held
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, NotFound, told
from filemem.files import Files
from filemem.memory.saving.values import Amendment
from filemem.repo import REMOVE, Change, Entry, Loose, Made, Message, Operation, Plan, Repo, publish, together

UNCOMMITTED = "the file is not committed yet: `git add` it, and your next commit takes it along"


class Edited(NamedTuple):
    """What an amend comes to: new bytes for the file, for the commit, and for the index where that differs."""

    file: bytes
    change: Change
    blobs: tuple[bytes, ...]


class Landed(NamedTuple):
    """What lies on disk for one operation: its blobs, and the waits for the folders that its names stand in.

    `also` is what its commit does besides.
    """

    blobs: Sequence[Loose] = ()
    barriers: Sequence[Callable[[], None]] = ()
    also: Sequence[Change] = ()


@dataclass(slots=True)
class Work:
    """The tools of one saver, and the steps built from them."""

    files: Files
    repo: Repo
    clock: Callable[[], int]
    step: Callable[[str], None]

    # looking

    def in_repo(self, path: str) -> str:
        """A store path from the top of the work tree."""
        return self.files.named(path)

    def in_store(self, path: str) -> str:
        """A path from the top of the work tree, in the store."""
        return self.files.inside(path)

    def entries(self) -> list[Entry]:
        """What the journal holds for this store, oldest first; a repository may have several stores."""
        return [entry for entry in self.repo.journal.entries() if self.mine(entry)]

    def mine(self, entry: Entry) -> bool:
        """Whether an entry is about this store."""
        own = entry.operation.worktree == self.repo.journal.worktree
        return self.files.holds(entry.operation.path) and (own or self.files.store != ".")

    def on_disk(self, path: str) -> bytes | None:
        """The bytes of a file of the store; None where there is none."""
        try:
            return self.files.read(path)
        except NotFound:
            return None

    def gate(self, patience: float = 0.0) -> str:
        """Why commits must wait now, or ""; a Git command that is at work is waited for, some seconds."""
        return self.repo.state(time.time(), patience)  # file times are the system's: no other clock would do

    def ignored(self, in_repo: str) -> str:
        """Why a path that Git does not track is left so, or ""."""
        rule = self.repo.ignored(in_repo)
        return f"left uncommitted: ignored by {rule}" if rule else ""

    # the journal entry

    def operation(
        self,
        kind: str,
        path: str,
        message: Message,
        *,
        old: str = "",
        seen: bytes | None,
        amendment: Amendment | None = None,
        tombstone: str = "",
    ) -> Operation:
        """Describe an operation for the journal; `seen` is the file as it is now."""
        return Operation(
            kind,
            self.in_repo(path),
            self.repo.journal.worktree,
            message.subject,
            message.trailers,
            self.clock(),
            old=old,
            seen="" if seen is None else self.repo.blob_id(seen),
            edit=amendment.plain() if amendment else None,
            pid=os.getpid(),
            started=self.repo.lock.myself,
            tombstone=self.in_repo(tombstone) if tombstone else "",
        )

    @contextmanager
    def landed(self, entry: Entry, data: bytes | None, blobs: Sequence[bytes] = ()) -> Iterator[Landed]:
        """Put journal entry, blobs and file on disk durably and in this order; `data` None leaves the file alone.

        Raises:
            BadInput: the path cannot be written.
            BrokenStore: the disk refuses. Nothing of the operation is left then.
        """
        with ExitStack() as cleanup:
            try:
                yield self._land(entry, data, blobs, cleanup)
            finally:
                entry.discard()

    def _land(self, entry: Entry, data: bytes | None, blobs: Sequence[bytes], cleanup: ExitStack) -> Landed:
        staged = None
        loose: list[Loose] = []
        try:
            self.step("begin")
            for content in blobs:
                loose.append(self.repo.objects.prepare("blob", content))
                cleanup.callback(loose[-1].discard)
            if data is not None:
                staged = self.files.stage(self.in_store(entry.operation.path), data)
                cleanup.callback(staged.discard)
            self.step("written")
            together([entry.sync, *(each.sync for each in loose), *([staged.sync] if staged else [])])
            self.step("synced")
            entry.publish()
            self.step("journal")
            for each in loose:
                each.publish()
            self.step("blob")
            if staged is not None:
                self._refuse_edited(entry, data)
                staged.publish()
                entry.mark("file", "written")
                self.step("record")
        except (OSError, FilememError) as error:
            self.repo.journal.drop(entry)
            if isinstance(error, OSError):
                raise BrokenStore(f"{entry.operation.path}: {error.strerror}", "check the disk") from None
            raise
        return Landed(loose, [staged.sync_folders] if staged else [])

    def _refuse_edited(self, entry: Entry, data: bytes | None) -> None:
        """Refuse to replace a file that was written since the operation read it: a person is at it."""
        path = self.in_store(entry.operation.path)
        disk = self.on_disk(path)
        if disk != data and ("" if disk is None else self.repo.blob_id(disk)) != entry.operation.seen:
            raise Conflict(f"{path} is being edited right now", "save your edits, then try again")

    def write_blobs(self, contents: Sequence[bytes]) -> list[Loose]:
        """Write blobs durably."""
        loose = [self.repo.objects.prepare("blob", content) for content in contents]
        publish(loose)
        return loose

    def commit(self, entries: Sequence[Entry], changes: Sequence[Change], message: Message, landed: Landed) -> Made:
        """Commit what has landed, and hand its entries on. Errors as for `Repo.commit`, and none once it is made."""

        def note(name: str, value: str) -> None:
            for entry in entries:
                entry.mark(name, value)

        plan = Plan(
            (*changes, *landed.also),
            message,
            at=self.clock(),
            blobs=landed.blobs,
            barriers=(self.repo.journal.sync_folder, *landed.barriers),
            gate=self.gate,
            step=self.step,
            note=note,
        )
        try:
            for entry, change in zip(entries, changes, strict=True):
                entry.mark("blob", change.blob or "")  # before: a replay after a crash hands it on to aftercare
            with held():
                made = self.repo.commit(plan)
                return made._replace(trouble=made.trouble or self._hand_on(entries, changes, made))
        except OSError as error:
            raise BrokenStore(f"{changes[0].path}: {error.strerror}", "check the disk") from None
        finally:
            for entry in entries:
                entry.discard()

    def _hand_on(self, entries: Sequence[Entry], changes: Sequence[Change], made: Made) -> str:
        """Let the journal know that a commit is made; says what went wrong, which the next replay ends, or ""."""
        try:
            for entry, change in zip(entries, changes, strict=True):
                self.repo.journal.finish(entry, made.objects)
                path = self.in_store(change.path)
                if not made.here and change.before is None and self.on_disk(path) == entry.data is not None:
                    self.files.remove(path)  # as if HEAD had moved after the save: the branch has it
            self.step("done")
        except (FilememError, OSError) as error:
            return f"committed, but the journal could not be ended: {told(error)}"
        return ""

    def wait(self, entry: Entry, reason: str, landed: Landed, *, refused: bool = False) -> None:
        """Leave an operation in the journal, with the reason, durably; what a hook refused waits to be asked for."""
        entry.mark("pending", reason)
        if refused != self.refused(entry):
            entry.mark("refused", "by a hook" if refused else "")
        together([entry.sync, self.repo.journal.sync_folder, *landed.barriers])
        entry.discard()
        self.step("pending")

    def refused(self, entry: Entry) -> bool:
        """Whether an operation waits because a hook of the user's refused it."""
        return bool(entry.marks.get("refused"))

    # forgetting

    def marked(self, operation: Operation) -> tuple[Change, ...]:
        """What the commit of an operation does to its tombstone. It is empty: two sides never disagree on it."""
        if not operation.tombstone:
            return ()
        before = self.repo.index.entries([operation.tombstone]).get(operation.tombstone)
        blob = self.repo.blob_id(b"") if operation.kind == REMOVE else None
        if blob is None and self.repo.item(operation.tombstone) is None:
            return ()
        return (Change(operation.tombstone, blob, before=before),)

    def mark(self, operation: Operation, *, undo: bool = False) -> None:
        """Bring the tombstone's file in line with an operation that is carried out, or taken back."""
        if operation.tombstone and (operation.kind == REMOVE) != undo:
            self.files.write(self.in_store(operation.tombstone), b"")
        elif operation.tombstone:
            self.files.remove(self.in_store(operation.tombstone))

    # amending

    def amended(self, path: str, amendment: Amendment, working: bytes, *, applied: bool = False) -> Edited | str:
        """Work out an amend of a file whose current bytes are `working`.

        Args:
            path: relative to the store.
            amendment: the change.
            working: the file as it is.
            applied: whether the file has the change already, and only its committed version lacks it.

        Returns:
            What to write and commit, or the reason why only the file can be changed.

        Raises:
            Conflict: the change fits the file but not its committed version.
        """
        in_repo = self.in_repo(path)
        item = self.repo.item(in_repo)
        how = self.repo.conversion(in_repo)
        reason = (self.ignored(in_repo) or UNCOMMITTED) if item is None else ""
        if reason or (reason := how.obstacle):
            return reason
        assert item is not None  # noqa: S101 - the reason above
        head = self.repo.blob(item.oid) or b""
        file = working if applied else amendment.apply(working, path)
        if not applied and how.committed(working, head) == head:
            committed = how.committed(file, head)
        else:
            committed = self._apply_to("committed", amendment, head, path)
        blob = self.repo.blob_id(committed)
        staged_now = self.repo.index.entries([in_repo]).get(in_repo)
        staged, blobs = None, [committed]
        if staged_now is None:
            staged = ""  # the user has staged its removal: that stays theirs
        elif staged_now not in (item.oid, blob):
            content = self._apply_to("staged", amendment, self.repo.blob(staged_now) or b"", path)
            staged = self.repo.blob_id(content)
            blobs.append(content)
        change = Change(in_repo, blob, item.oid, staged, "100755" if item.mode == b"100755" else "100644", staged_now)
        return Edited(file, change, tuple(blobs))

    def _apply_to(self, version: str, amendment: Amendment, data: bytes, path: str) -> bytes:
        try:
            return amendment.apply(data, path)
        except (BadInput, Conflict) as error:
            raise Conflict(
                f"{path} has uncommitted edits, and the change does not fit its {version} version: {error.message}",
                "commit or undo the edits first",
            ) from None
