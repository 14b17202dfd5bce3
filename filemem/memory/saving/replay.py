"""Finishing what was left: by a crash, by a repository that was busy, by a commit that raced with ours.

Everything here runs under the save lock, so an unfinished entry that has no reason to wait belongs to a process that
died. What cannot be finished stays in the journal and is shown with its reason; nothing is dropped unseen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from filemem.errors import BadInput, BrokenStore, Conflict, Locked
from filemem.memory.saving.aftercare import heal, recheck, restage
from filemem.memory.saving.values import IN_BATCH, Amendment, PendingOp, Replayed
from filemem.memory.saving.work import Landed, Work
from filemem.repo import AMEND, MERGING, PUT, REMOVE, Change, Entry, Message, NotNow
from filemem.repo.journal import KEEP

_BATCH_BODY = 50  # subjects listed in the message of a shared commit
_GONE = "its work tree was removed"


def needed(work: Work, thorough: bool) -> bool:
    """Whether there is anything to look at; cheap enough for every start."""
    journal = work.repo.journal
    now = time.time()
    if work.repo.interrupted or work.entries() or journal.unsettled(now) >= 0:
        return True
    if thorough and journal.has_recent(now, KEEP):
        return True
    return thorough and any(work.repo.leftovers.temporary())


def pending(work: Work) -> tuple[PendingOp, ...]:
    """Operations of this work tree that wait, and those whose work tree is gone."""
    now = work.clock()
    found = []
    for entry in work.entries():
        operation = entry.operation
        own = operation.worktree == work.repo.journal.worktree
        if own or not (work.repo.common_dir / operation.worktree).is_dir():
            reason = entry.marks.get("pending", "the save was interrupted") if own else _GONE
            age = max(0.0, (now - operation.at) / 1000)
            found.append(PendingOp(operation.kind, work.in_store(operation.path), reason, age))
    return tuple(found)


def overlay(work: Work) -> dict[str, bytes | None]:
    """The files as waiting operations will leave them, where the files themselves do not show it yet."""
    shown: dict[str, bytes | None] = {}
    for entry in work.entries():
        operation = entry.operation
        if operation.worktree != work.repo.journal.worktree or "pending" not in entry.marks:
            continue
        path = work.in_store(operation.path)
        disk = shown[path] if path in shown else work.on_disk(path)
        shown[path] = _on_top(work, entry, path, disk)
    return {path: data for path, data in shown.items() if data != work.on_disk(path)}


def flush(work: Work, entries: Sequence[Entry]) -> Replayed:
    """Commit the entries of a batch together."""
    paths = tuple(work.in_store(e.operation.path) for e in entries)
    if work.gate():
        return Replayed(waiting=paths)
    changes, ready, contents = [], [], []
    for entry in entries:
        path = work.in_store(entry.operation.path)
        item = work.repo.item(entry.operation.path)
        data = entry.data or b""
        if item is not None:
            _finish(work, entry)
            continue
        if work.on_disk(path) is None:
            work.files.write(path, data)
        committed = work.repo.conversion(entry.operation.path).committed(data, None)
        changes.append(Change(entry.operation.path, work.repo.blob_id(committed), ""))
        ready.append(entry)
        contents.append(committed)
    if not ready:
        return Replayed(finished=paths)
    try:
        work.commit(ready, changes, _shared_message(ready), Landed(work.write_blobs(contents)))
    except NotNow as wait:
        for entry in ready if wait.refused else ():
            work.wait(entry, wait.reason, Landed(), refused=True)
        return Replayed(waiting=paths)
    return Replayed(finished=paths)


def replay(work: Work, thorough: bool, again: str = "") -> Replayed:
    """Do everything that is left; see the module's rule.

    Args:
        work: tools of the saver.
        thorough: also look after objects, and for temporary files.
        again: a path from the top of the work tree: what a hook has refused of it is tried again.
    """
    own = work.repo.journal.worktree
    entries = [e for e in work.entries() if e.operation.worktree == own]
    leftovers = work.repo.leftovers
    for file in list(leftovers.temporary()) if thorough else ():
        file.unlink(missing_ok=True)
    repaired = ["ended or undid what a sync that died had begun"] if _settled(work) else []
    repaired += [f"removed the lock {name} of a save that died" for name in leftovers.clear_locks(entries)]
    repaired += heal(work, thorough)
    reason = work.gate() or leftovers.in_the_way()  # no use in waiting for one lock once per entry
    batch = [e for e in entries if e.marks.get("pending") == IN_BATCH]
    finished: list[str] = []
    waiting: list[str] = []
    for entry in entries:
        path = work.in_store(entry.operation.path)
        if reason:
            if "pending" not in entry.marks:
                work.wait(entry, reason, Landed())
            waiting.append(path)
        elif work.refused(entry) and entry.operation.path != again:
            (finished if _ended_by_user(work, entry) else waiting).append(path)
        elif entry not in batch:
            (finished if _finish(work, entry) else waiting).append(path)
    if batch and not reason:
        done = flush(work, batch)
        finished += done.finished
        waiting += done.waiting
    if not reason or reason == MERGING:
        repaired += recheck(work, index_only=bool(reason))
    return Replayed(tuple(finished), tuple(waiting), tuple(repaired))


def _settled(work: Work) -> bool:
    """End or undo what a sync that died has begun, unless one is under way; whether there was anything."""
    if not work.repo.interrupted:
        return False
    sharing = work.repo.sharing
    with suppress(Locked, BrokenStore), sharing.alone(patience=0.0):
        sharing.settle()
    return not work.repo.interrupted


def _shared_message(entries: Sequence[Entry]) -> Message:
    first = entries[0].operation
    if len(entries) == 1:
        return Message(first.subject, first.trailers)
    trailers = tuple(pair for e in entries for pair in e.operation.trailers if pair[0] != "Agent")
    agents = dict.fromkeys(pair for e in entries for pair in e.operation.trailers if pair[0] == "Agent")
    body = tuple(e.operation.subject for e in entries[:_BATCH_BODY])
    return Message(f"memory: {len(entries)} records", (*trailers, *agents), body)


# one entry


def _finish(work: Work, entry: Entry) -> bool:
    """Bring one entry to its end; False where it has to wait, with the reason noted."""
    repo, operation = work.repo, entry.operation
    commit = entry.marks.get("commit", "")
    if commit and repo.history.is_ancestor(commit):
        # Our commit was made; what HEAD shows now is what the user made of it since.
        restage(work, entry)
        repo.journal.finish(entry, ())
        return True
    try:
        change, contents = {PUT: _put, AMEND: _amend, REMOVE: _remove}[operation.kind](work, entry)
        if change is None:
            repo.journal.finish(entry, ())
            return True
        message = Message(operation.subject, operation.trailers)
        also = work.marked(operation)
        if operation.tombstone:
            work.mark(operation)
            contents = (*contents, b"")
        work.commit([entry], [change], message, Landed(work.write_blobs(contents), also=also))
    except NotNow as wait:
        if (entry.marks.get("pending"), work.refused(entry)) != (wait.reason, wait.refused):
            work.wait(entry, wait.reason, Landed(), refused=wait.refused)
        return False
    except (Conflict, BadInput) as error:
        if entry.marks.get("pending") != error.message:
            work.wait(entry, error.message, Landed())
        return False
    return True


def _ended_by_user(work: Work, entry: Entry) -> bool:
    """Drop what a hook refused where the user has committed it, or taken it back; whether they have."""
    operation, item = entry.operation, work.repo.item(entry.operation.path)
    disk = work.on_disk(work.in_store(operation.path))
    if operation.kind == REMOVE:
        ended = item is None or disk is not None
    else:
        ended = disk is None or (item is not None and not work.repo.edited(operation.path, disk))
    if ended:
        work.repo.journal.drop(entry)
    return ended


_Step = tuple[Change | None, tuple[bytes, ...]]  # what to commit, and the blobs it needs


def _put(work: Work, entry: Entry) -> _Step:
    operation, data = entry.operation, entry.data or b""
    item = work.repo.item(operation.path)
    old = work.repo.blob(item.oid) if item else None
    committed = work.repo.conversion(operation.path).committed(data, old)
    blob = work.repo.blob_id(committed)
    if item is not None and not operation.old:
        return None, ()  # the user has committed it, perhaps with edits
    if item is not None and item.oid not in (operation.old, blob) and not _is_ours(work, operation.path, item.oid):
        raise Conflict(f"{operation.path} has another version in HEAD than when it was saved")
    _bring_file(work, entry)
    if item is not None and item.oid == blob:
        return None, ()
    mode = "100755" if item and item.mode == b"100755" else "100644"
    current = item.oid if item else ""
    return Change(operation.path, blob, current, None, mode, current or None), (committed,)


def _amend(work: Work, entry: Entry) -> _Step:
    path = work.in_store(entry.operation.path)
    amendment = Amendment.read(entry.operation.edit or {})
    working = work.on_disk(path)
    if working is None:
        raise Conflict(f"{path} is gone, so it cannot be updated")
    applied = _applied(work, entry, working)
    edited = work.amended(path, amendment, working, applied=applied)
    if isinstance(edited, str):
        raise Conflict(f"{path} is not in HEAD any more, so its update cannot be committed")
    if not applied:
        work.files.write(path, edited.file)
        entry.mark("file", "written")
    return edited.change, edited.blobs


def _remove(work: Work, entry: Entry) -> _Step:
    operation = entry.operation
    path = work.in_store(operation.path)
    item = work.repo.item(operation.path)
    disk = work.on_disk(path)
    if item is not None and item.oid != operation.old and not _is_ours(work, operation.path, item.oid):
        raise Conflict(f"{operation.path} was changed since its removal was asked for: remove it again")
    head = work.repo.blob(item.oid) if item else None
    if disk is not None and (work.repo.blob_id(disk) == operation.seen or _same(work, operation.path, disk, head)):
        work.files.remove(path)
    if item is None:
        return None, ()
    return Change(operation.path, None, item.oid, None, before=item.oid), ()


def _same(work: Work, path: str, disk: bytes, head: bytes | None) -> bool:
    return work.repo.conversion(path).committed(disk, head) == head


def _is_ours(work: Work, path: str, blob: str) -> bool:
    """Whether this version of a path is one that an earlier operation of ours has committed."""
    recent = work.repo.journal.recent(time.time(), KEEP)
    return any(e.operation.path == path and e.marks.get("blob") == blob for _, e in recent)


def _bring_file(work: Work, entry: Entry) -> None:
    """Write the file where it is missing or still as it was before; a file the user has edited since stays."""
    if entry.data is None:
        return
    path = work.in_store(entry.operation.path)
    disk = work.on_disk(path)
    if disk is None or (entry.operation.seen and work.repo.blob_id(disk) == entry.operation.seen):
        work.files.write(path, entry.data)


def _applied(work: Work, entry: Entry, disk: bytes) -> bool:
    """Whether a file has the change of an entry already."""
    if work.repo.blob_id(disk) == entry.operation.seen:
        return False
    return disk == entry.data or "file" in entry.marks


def _on_top(work: Work, entry: Entry, path: str, disk: bytes | None) -> bytes | None:
    """A file as an entry that waits will leave it."""
    operation = entry.operation
    if operation.kind == REMOVE:
        return None
    if operation.kind == PUT:
        untouched = disk is None or (operation.seen and work.repo.blob_id(disk) == operation.seen)
        return entry.data if untouched else disk
    if disk is None or _applied(work, entry, disk):
        return disk
    try:
        return Amendment.read(operation.edit or {}).apply(disk, path)
    except (BadInput, Conflict):
        return disk
