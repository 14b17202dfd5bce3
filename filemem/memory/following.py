"""Whether the index has heard of where HEAD is.

Rule: a commit of filemem's own brings nothing that is not found already. Any other move of HEAD may change every
answer, and what a new decision replaces most of all.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from filemem.memory.store import Store
from filemem.repo.journal import SETTLES


class Place(NamedTuple):
    """Where HEAD is, and what was saved that the index on disk does not have yet: path -> blob id, None for removed."""

    tip: str
    waiting: Mapping[str, str | None]


def here(store: Store) -> Place:
    """Where we are now."""
    return Place(store.repo.tip() or store.repo.head() or "", store.index.waiting())


def knows(store: Store, place: Place) -> bool:
    """Whether HEAD is where the last look left it, or only filemem has committed since, and what waits is here too."""
    before = store.followed
    if before == place:
        return True
    if store.index.unreadable:
        return False
    came_from = _known_before(store, place.tip, (store.index.head, before.tip if before else None))
    if came_from is None:
        return False
    seen = before.waiting if before and came_from == before.tip else {}
    if any(store.blob(path) != blob for path, blob in place.waiting.items() if (path, blob) not in seen.items()):
        return False
    store.followed = place
    return True


def _known_before(store: Store, tip: str, known: Collection[str | None]) -> str | None:
    """The commit of these that a tip leads back to through filemem's own commits alone; None where it does not."""
    if tip in known:
        return tip
    recent = (entry.marks for _, entry in store.repo.journal.recent(time.time(), SETTLES))
    parents = {marks["commit"]: marks["parent"] for marks in recent if "commit" in marks and "parent" in marks}
    while tip in parents:
        tip = parents[tip]
        if tip and tip in known:  # what an index says that knows no commit is no word on the first one
            return tip
    return None
