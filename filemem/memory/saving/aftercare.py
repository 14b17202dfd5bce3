"""Looking after commits that are already made: what a gc or a racing commit did to them.

A user's `git commit` reads the index before it locks it, so it can drop or revert a path that we committed meanwhile.
For one minute such a path is committed again. A record that left HEAD in any other way stays out: that was the user.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from filemem.memory.saving.work import Work
from filemem.repo import Change, Entry, Message, NotNow, Repo
from filemem.repo.journal import KEEP, SETTLES

RACE = 2.0  # seconds after our commit in which an index without our path may have been written by one who knew it not
STILL = 0.1  # seconds between seeing an index without our path and believing it
MINUTE, HOUR = SETTLES, KEEP  # seconds: in which a dropped path counts as a race; in which objects are looked after


def heal(work: Work, thorough: bool) -> list[str]:
    """Put back objects that a gc took which had begun before our commit was made."""
    recent = work.repo.journal.recent(time.time(), HOUR if thorough else MINUTE)
    bereft = [entry for _, entry in recent if not all(map(work.repo.objects.has, entry.oids))]
    count = sum(work.repo.objects.heal(entry.objects()) for entry in bereft)
    return [f"wrote {count} missing Git objects again"] if count else []


def recheck(work: Work) -> list[str]:
    """Look whether a commit that raced with ours dropped or reverted our path, in HEAD or in the index."""
    repo = work.repo
    recent = repo.journal.recent(time.time(), MINUTE)
    latest = {e.operation.path: e for _, e in recent if "blob" in e.marks and work.mine(e)}
    for entry in repo.journal.entries():
        latest.pop(entry.operation.path, None)
    repaired = []
    whole: dict[str, Entry] = {}
    for path, entry in latest.items():
        item = repo.item(path)
        current, wanted = item.oid if item else "", entry.marks["blob"]
        if not _stands(work, entry):
            if current in ("", entry.operation.old) and _swept_away(work, entry):
                work.files.write(work.in_store(path), entry.data or b"")
                _commit_again(work, entry, current)
                repaired.append(f"committed {path} again: a reset that raced with it had swept it away")
            continue
        if current == wanted:
            whole[path] = entry
        elif current in ("", entry.operation.old) and (
            _raced(work, entry) or repo.history.undone(entry.marks.get("commit", ""))
        ):
            _commit_again(work, entry, current)
            repaired.append(f"committed {path} again: what raced with it had dropped it")
    lost = _lost(repo, whole)
    if lost:
        # A checkout takes the file, then the entry, then moves HEAD: what it took must have time to show as taken.
        time.sleep(STILL)
        standing = {path: entry for path, entry in lost.items() if _stands(work, entry) and _holds(repo, path, entry)}
        for path, entry in _lost(repo, standing).items():
            blob = entry.marks["blob"]
            repo.index.repair({path: ("100644", blob) if blob else None})
            repaired.append(f"put {path} back into the index")
    return repaired


def _lost(repo: Repo, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Those whose change the index lacks, and may lack because it was read before we made it and written after."""
    index = repo.index.entries(list(entries))
    return {
        path: entry
        for path, entry in entries.items()
        if index.get(path, "") != entry.marks["blob"]
        and index.get(path, "") in ("", entry.operation.old)
        and _moved_at(entry) + RACE > repo.index.written()
    }


def _holds(repo: Repo, path: str, entry: Entry) -> bool:
    """Whether HEAD holds what the entry brought."""
    item = repo.item(path)
    return (item.oid if item else "") == entry.marks["blob"]


def _raced(work: Work, entry: Entry) -> bool:
    """Whether the commit that dropped a path was begun before ours was made: it had read the index too early to know.

    A commit begun later dropped it on purpose. Git tells a commit's time in seconds, as of its beginning.
    """
    ours = entry.marks.get("commit", "")
    if not ours or not work.repo.history.is_ancestor(ours):
        return False
    began = work.repo.history.last_change(entry.operation.path, since=ours)
    return began is not None and began <= int(_moved_at(entry))


def _moved_at(entry: Entry) -> float:
    """When our commit became HEAD, in seconds since the epoch."""
    return int(entry.marks.get("ref", 0)) / 1000


def _stands(work: Work, entry: Entry) -> bool:
    """Whether the file is as the entry left it."""
    disk = work.on_disk(work.in_store(entry.operation.path))
    if disk is None or entry.data is None:
        return disk is None and entry.data is None
    return disk == entry.data


def _swept_away(work: Work, entry: Entry) -> bool:
    """Whether `git stash` or a reset to HEAD undid a save: it reads HEAD first and moves it back unconditionally."""
    disk = work.on_disk(work.in_store(entry.operation.path))
    as_before = disk is None or work.repo.blob_id(disk) == entry.operation.old
    return entry.data is not None and as_before and work.repo.history.undone(entry.marks.get("commit", ""))


def _commit_again(work: Work, entry: Entry, current: str) -> None:
    operation, blob = entry.operation, entry.marks["blob"]
    again = work.repo.journal.open(operation._replace(at=work.clock(), old=current), entry.data)
    if blob in entry.oids:
        work.repo.objects.heal({blob: entry.objects()[blob]})
    with work.landed(again, None) as landed:
        change = Change(operation.path, blob or None, current, before=current or None)
        whole = landed._replace(also=work.marked(operation))
        try:
            work.commit([again], [change], Message(operation.subject, operation.trailers), whole)
        except NotNow as wait:
            work.wait(again, wait.reason, landed)
    entry.file.unlink(missing_ok=True)
