"""What a save, an update and a removal do under the save lock, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from filemem.errors import BrokenStore, Conflict, FilememError, NotFound
from filemem.files import is_private
from filemem.memory.saving import replay
from filemem.memory.saving.aftercare import settle
from filemem.memory.saving.values import BATCH, IN_BATCH, Amendment, Saved
from filemem.memory.saving.work import UNCOMMITTED, Edited, Landed, Work
from filemem.repo import AMEND, PUT, REMOVE, Change, Entry, Message, Moved, NotNow

_PATIENCE = 3.0  # seconds to wait for a Git command of the user's; after that the save waits for it in the journal
_AGAIN = 5  # times an amend is worked out anew because HEAD moved under it


class Operations:
    """The three operations. Whoever calls holds the save lock, but for `put_file`."""

    def __init__(self, work: Work) -> None:
        self._work, self._files, self._repo = work, work.files, work.repo

    # put

    def put_file(self, path: str, data: bytes, replace: bool) -> Saved:
        self._check_free(path, data, replace)
        if is_private(path):
            self._files.hide(path.split("/", 1)[0])
        self._files.write(path, data)
        return Saved(path, self._repo.blob_id(data))

    def put(self, path: str, data: bytes, message: Message, policy: str, replace: bool, tombstone: str) -> Saved:
        work = self._work
        reason = work.gate(_PATIENCE)
        seen = self._check_free(path, data, replace)
        in_repo = work.in_repo(path)
        how, item = self._repo.conversion(in_repo), self._repo.item(in_repo)
        if obstacle := how.obstacle or ("" if item else work.ignored(in_repo)):
            self._files.write(path, data)
            return Saved(path, self._repo.blob_id(data), None, obstacle)
        old = self._repo.blob(item.oid) if item else None
        committed = how.committed(data, old)
        reason = reason or (IN_BATCH if policy == BATCH and item is None else "")
        if not reason and item and item.oid == self._repo.blob_id(committed) and seen == data:
            return Saved(path, self._repo.blob_id(data), self._repo.head())
        old_oid = item.oid if item else ""
        operation = work.operation(PUT, path, message, old=old_oid, seen=seen, tombstone=tombstone)
        entry = self._repo.journal.open(operation, data)
        if reason:
            # A tracked file stays as it is for now: what is written into it, `git rebase --abort` would take back.
            file = data if item is None else None
            with self._all_or_nothing(entry, file, seen), work.landed(entry, file) as landed:
                work.wait(entry, reason, landed)
            return Saved(path, self._repo.blob_id(data), None, reason)
        mode = "100755" if item and item.mode == b"100755" else "100644"
        change = Change(in_repo, self._repo.blob_id(committed), operation.old, None, mode, operation.old or None)
        return self._finish(entry, data, change, (committed,), message, seen)

    def _finish(
        self, entry: Entry, data: bytes, change: Change, blobs: tuple[bytes, ...], message: Message, seen: bytes | None
    ) -> Saved:
        """Land and commit one operation; where that fails, take the file back."""
        path = self._work.in_store(change.path)
        with self._all_or_nothing(entry, data, seen), self._work.landed(entry, data, blobs) as landed:
            whole = landed._replace(also=self._work.marked(entry.operation))
            self._work.mark(entry.operation)
            try:
                made = self._work.commit([entry], [change], message, whole)
            except NotNow as wait:
                return self._postpone(entry, data, wait, landed)
        with suppress(FilememError):  # a `git clean` may have seen it untracked, just before it was in the index
            if self._work.on_disk(path) is None and self._repo.item(change.path) is not None:
                self._files.write(path, data)
        trouble = settle(self._work, made, (change, *whole.also))
        return Saved(path, self._repo.blob_id(data), made.commit, trouble=trouble)

    @contextmanager
    def _all_or_nothing(self, entry: Entry, data: bytes | None, seen: bytes | None) -> Iterator[None]:
        """Where a step fails, make the file what it was (`seen`) and forget the entry: the caller learns of it.

        Not where the commit is made already: then the error is about what came after, and a replay ends it.
        """
        try:
            yield
        except BaseException:
            if self._repo.history.is_ancestor(entry.marks.get("commit", "none")):
                raise
            path = self._work.in_store(entry.operation.path)
            with suppress(FilememError, OSError):
                if self._work.on_disk(path) == data != seen:
                    if seen is None:
                        self._files.remove(path)
                    else:
                        self._files.write(path, seen)
                    self._work.mark(entry.operation, undo=True)
            self._repo.journal.drop(entry)
            raise

    def _postpone(self, entry: Entry, data: bytes | None, wait: NotNow, landed: Landed) -> Saved:
        self._work.wait(entry, wait.reason, landed, refused=wait.refused)
        blob = "" if data is None else self._repo.blob_id(data)
        return Saved(self._work.in_store(entry.operation.path), blob, None, wait.reason)

    # amend

    def amend_file(self, path: str, amendment: Amendment, reason: str | None) -> Saved:
        working = self._files.read(path)
        file = amendment.apply(working, path)
        if file != working:
            self._files.write(path, file)
        return Saved(path, self._repo.blob_id(file), None, reason)

    def amend(self, path: str, amendment: Amendment, message: Message) -> Saved:
        reason = self._work.gate(_PATIENCE)
        unfinished = self.unfinished(path)
        if unfinished and not reason:
            replay.replay(self._work, thorough=False, again=self._work.in_repo(path))
            unfinished = self.unfinished(path)
        if unfinished and unfinished[-1].operation.kind == PUT and self._repo.item(self._work.in_repo(path)) is None:
            return self._amend_waiting(
                path, amendment, unfinished[-1], reason or unfinished[-1].marks.get("pending", "")
            )
        working = self._current(path)
        if reason:
            return self._amend_later(path, amendment, message, working, reason)
        for _ in range(_AGAIN):
            edited = self._work.amended(path, amendment, working)
            if isinstance(edited, str):
                return self.amend_file(path, amendment, edited)
            if edited.file == working and edited.change.blob == edited.change.old:
                return Saved(path, self._repo.blob_id(working), self._repo.head())
            with suppress(Moved):
                return self._amend_now(path, amendment, message, working, edited)
        raise BrokenStore(f"{path} changes faster than it can be saved", "another program commits it in a loop")

    def _amend_now(self, path: str, amendment: Amendment, message: Message, working: bytes, edited: Edited) -> Saved:
        operation = self._work.operation(
            AMEND, path, message, old=edited.change.old or "", seen=working, amendment=amendment
        )
        entry = self._repo.journal.open(operation, edited.file)
        return self._finish(entry, edited.file, edited.change, edited.blobs, message, working)

    def _amend_later(self, path: str, amendment: Amendment, message: Message, working: bytes, reason: str) -> Saved:
        item = self._repo.item(self._work.in_repo(path))
        if item is None:
            return self.amend_file(path, amendment, UNCOMMITTED)
        file = amendment.apply(working, path)
        operation = self._work.operation(
            AMEND, path, message, old=item.oid, seen=self._work.on_disk(path), amendment=amendment
        )
        entry = self._repo.journal.open(operation, file)
        with self._all_or_nothing(entry, None, None), self._work.landed(entry, None) as landed:
            self._work.wait(entry, reason, landed)
        return Saved(path, self._repo.blob_id(file), None, reason)

    def _amend_waiting(self, path: str, amendment: Amendment, before: Entry, reason: str) -> Saved:
        """Amend a new record that is itself still waiting: the two become one."""
        working = self._files.read(path)
        file = amendment.apply(working, path)
        message = Message(before.operation.subject, before.operation.trailers)
        operation = self._work.operation(PUT, path, message, seen=working)
        entry = self._repo.journal.open(operation._replace(tombstone=before.operation.tombstone), file)
        with self._all_or_nothing(entry, file, working), self._work.landed(entry, file) as landed:
            self._work.wait(entry, reason, landed, refused=self._work.refused(before))
        self._repo.journal.drop(before)
        return Saved(path, self._repo.blob_id(file), None, reason)

    # remove

    def remove(self, path: str, message: Message, tombstone: str) -> Saved:
        work, in_repo = self._work, self._work.in_repo(path)
        reason = work.gate(_PATIENCE)
        item = self._repo.item(in_repo)
        if item is None:
            waiting = self.unfinished(path)
            self.check_kept(path)
            self._repo.index.stage(in_repo, None)  # the user's next commit would bring it
            for entry in waiting:
                self._repo.journal.drop(entry)
            self._files.remove(path)
            return Saved(path, "")
        if self.unfinished(path) and not reason:
            replay.replay(work, thorough=False, again=in_repo)
            item = self._repo.item(in_repo) or item
        on_disk = work.on_disk(path)
        self.check_kept(path)
        operation = work.operation(REMOVE, path, message, old=item.oid, seen=on_disk, tombstone=tombstone)
        entry = self._repo.journal.open(operation, None)
        blobs = (b"",) if tombstone else ()
        with self._all_or_nothing(entry, None, on_disk), work.landed(entry, None, blobs) as landed:
            if reason:
                work.wait(entry, reason, landed)
                return Saved(path, "", None, reason)
            self._files.remove(path)
            work.mark(operation)
            work.step("removed")
            whole = landed._replace(also=work.marked(operation))
            try:
                change = Change(in_repo, None, item.oid, None, before=item.oid)
                made = work.commit([entry], [change], message, whole)
            except NotNow as wait:
                return self._postpone(entry, None, wait, landed)
        return Saved(path, "", made.commit, trouble=settle(work, made, (change, *whole.also)))

    def withdraw(self, path: str) -> bool:
        waiting = [
            entry
            for entry in self.unfinished(path)
            if entry.operation.kind == REMOVE and not self._repo.history.is_ancestor(entry.marks.get("commit", "none"))
        ]
        for entry in waiting:
            if self._work.on_disk(path) is None:
                self._files.write(path, self._repo.blob(entry.operation.old) or b"")
            self._work.mark(entry.operation, undo=True)
            self._repo.journal.drop(entry)
        return bool(waiting)

    def check_kept(self, path: str) -> None:
        """Refuse to remove what nothing keeps.

        Raises:
            NotFound: there is no such file.
            Conflict: it was never committed, or has edits that are not.
        """
        in_repo, waiting = self._work.in_repo(path), self.unfinished(path)
        item = self._repo.item(in_repo)
        seen = self._work.on_disk(path) if item and waiting else self._files.read(path)
        if item is None and not waiting:
            why = f"{path} was never committed, so nothing would keep it"
            raise Conflict(why, "commit it first, or delete the file yourself")
        head, how = self._repo.blob(item.oid) or b"" if item else None, self._repo.conversion(in_repo)
        # What waits is of our own making, so that it may go.
        kept = {how.committed(entry.data, head) for entry in waiting if entry.data is not None}
        if head is not None:
            kept.add(head)
        staged = self._repo.index.entries([in_repo]).get(in_repo)
        edited = seen is not None and how.committed(seen, head) not in kept
        if edited or (staged and staged not in {self._repo.blob_id(one) for one in kept}):
            raise Conflict(f"{path} has edits that are not committed", "commit or undo them first")

    # shared

    def _check_free(self, path: str, data: bytes, replace: bool) -> bytes | None:
        """What stands at a path, if it may be replaced."""
        seen = self._work.on_disk(path)
        if seen is not None and seen != data and not replace:
            raise Conflict(f"{path} exists already with other content", "choose another name, or update it")
        return seen

    def _current(self, path: str) -> bytes:
        """A file as reads show it: with what waits for it."""
        waiting = replay.overlay(self._work)
        if path not in waiting:
            return self._files.read(path)
        found = waiting[path]
        if found is None:
            raise NotFound(f"there is no file {path}: its removal is waiting to be committed")
        return found

    def unfinished(self, path: str) -> list[Entry]:
        wanted = (self._work.in_repo(path), self._repo.journal.worktree)
        entries = self._work.entries()
        return [e for e in entries if (e.operation.path, e.operation.worktree) == wanted]
