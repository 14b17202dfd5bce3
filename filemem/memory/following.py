"""Whether the index has heard of where HEAD is, and of what else decides the answers: without a look at every file.

Rule: a commit of filemem's own brings nothing that is not found already. Any other move of HEAD may change every
answer, and what a new decision replaces most of all.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.changes import blob_id
from filemem.memory import tombstones
from filemem.memory.store import Store
from filemem.repo.journal import SETTLES

TICK = 2 * 10**9  # nanoseconds between two looks at every file, at least
PACE = 50  # a look at every file costs at most one part in so many of one core


class Place(NamedTuple):
    """Where HEAD is, what was saved that the index on disk does not have yet (path -> blob id, None for removed), and
    how much of the past there is (`past_stamp`)."""

    tip: str
    waiting: Mapping[str, str | None]
    past: str


def here(store: Store) -> Place:
    """Where we are now."""
    return Place(store.repo.tip() or store.repo.head() or "", store.index.waiting(), past_stamp(store))


def knows(store: Store, place: Place) -> bool:
    """Whether HEAD is where the last look left it, or only filemem has committed since, what waits is here too, and
    history is as deep as it was."""
    before = store.followed
    if not store.index.exists:
        return False
    if before == place:
        return True
    if store.index.unreadable or place.past not in (store.index.notes.past, before.past if before else None):
        return False
    came_from, saved = _known_before(store, place.tip, (store.index.notes.head, before.tip if before else None))
    if came_from is None:
        return False
    seen = before.waiting if before and came_from == before.tip else {}
    if any(store.blob(path) != blob for path, blob in place.waiting.items() if (path, blob) not in seen.items()):
        return False
    folded = {path: blob for path, blob in {**seen, **saved}.items() if path not in place.waiting}
    there = store.index.sealed_blobs(folded) if folded else {}
    if any(there.get(path) != blob for path, blob in folded.items()):  # what waited was deleted, and not folded in
        return False
    store.followed = place
    return True


def _known_before(store: Store, tip: str, known: Collection[str | None]) -> tuple[str | None, Mapping[str, str | None]]:
    """The commit of these that a tip leads back to through filemem's own commits alone, None where it does not; and
    what those commits left: path -> blob id, None for removed."""
    if tip in known:
        return tip, {}
    saved: dict[str, str | None] = {}
    while (entry := store.repo.journal.making(tip, time.time(), SETTLES)) and "parent" in entry.marks:
        blob = blob_id(entry.data, store.repo.hash_name) if entry.data is not None else None
        saved.setdefault(store.files.inside(entry.operation.path), blob)
        tip = entry.marks["parent"]
        if tip and tip in known:  # what an index says that knows no commit is no word on the first one
            return tip, saved
    return None, {}


def settled(store: Store) -> bool:
    """Whether no save waits or is still to be looked after, nor a sync died: then a start has nothing to finish."""
    journal = store.repo.journal
    return not store.repo.interrupted and not journal.entries() and journal.unsettled(time.time()) < 0


def at_tip(store: Store) -> bool:
    """Whether HEAD is where it was when the index was last found right, and knows as much of the past."""
    tip = store.repo.tip()
    return bool(tip) and tip == store.index.notes.head and not deepened(store)


def in_step(store: Store) -> bool:
    """Whether the index has everything, as far as HEAD and folder times tell: a few stats, no lock, no process."""
    folders = store.index.notes.folders
    return at_tip(store) and bool(folders) and not store.files.changed_folders(folders)


def strayed(store: Store) -> bool:
    """Whether files came, went or were replaced that the index has not heard of, as far as folder times tell.

    Raises:
        IndexDamaged: the index cannot say what it knows.
    """
    noted = store.index.notes.folders
    seen = store.walked[1] if store.walked and store.walked[0] is noted else noted
    changed = store.files.changed_folders(seen)
    if not changed:
        return False
    times, before = store.files.folder_times(seen), store.index.manifest()
    after, _ = store.files.scan(before, hash_name=store.repo.hash_name, folders=changed)
    known = {path: entry.blob for path, entry in before.items()} | store.index.waiting()
    if {path: entry.blob for path, entry in after.items()} != {path: one for path, one in known.items() if one}:
        return True
    store.walked = noted, times  # our own saves, most of the time
    return False


def overdue(store: Store) -> bool:
    """Whether every file should be looked at again: a write in place shows in no folder's time."""
    notes = store.index.notes
    return not 0 <= time.time_ns() - notes.looked <= max(TICK, PACE * notes.cost)


def deepened(store: Store) -> bool:
    """Whether history became deeper or shallower, or records were forgotten, since that was last looked at."""
    return past_stamp(store) != store.index.notes.past


def past_stamp(store: Store) -> str:
    """What besides files and HEAD decides the answers: how deep history is, and what is forgotten; "" for neither.

    A fetch can make a shallow history longer or bring what a partial clone lacks, and a merge can bring a tombstone
    without the file it is about.
    """
    common = store.repo.common_dir
    # What Git fetches when it needs it comes as a pack and leaves FETCH_HEAD alone; what is fetched need not be one.
    fetched = (common / "objects/pack", store.repo.git_dir / "FETCH_HEAD") if store.repo.partial() else ()
    found = [_stamp(one) for one in (common / "shallow", store.folder / tombstones.FOLDER, *fetched)]
    return " ".join(found) if any(found) else ""


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"
