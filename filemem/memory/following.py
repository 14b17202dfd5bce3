"""Whether the index has heard of where HEAD is.

Rule: a commit of filemem's own brings nothing that is not found already. Any other move of HEAD may change every
answer, and what a new decision replaces most of all.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from filemem.memory.store import Store
from filemem.repo.journal import SETTLES

_PARENT = b"\nparent "


class Place(NamedTuple):
    """Where HEAD is, and what was saved that the index on disk does not have yet: path -> blob id, None for removed."""

    tip: str
    waiting: Mapping[str, str | None]


def here(store: Store) -> Place:
    """Where we are now."""
    return Place(store.repo.tip() or store.repo.head() or "", store.index.waiting())


def knows(store: Store, place: Place) -> bool:
    """Whether HEAD is where the last look left it, or only filemem has committed since, and what waits is here too."""
    if store.followed == place:
        return True
    if store.index.unreadable or not _is_ours(store, place.tip):
        return False
    if any(store.blob(path) != blob for path, blob in place.waiting.items()):
        return False
    store.followed = place
    return True


def _is_ours(store: Store, tip: str) -> bool:
    """Whether nothing but commits of filemem's own lies between the last look and a commit."""
    known = store.index.head
    if tip == known:
        return True
    parents = _parents(store)
    while tip in parents:
        tip = parents[tip]
        if tip == known:
            return True
    return False


def _parents(store: Store) -> dict[str, str]:
    """The commits that filemem made here in the last minute, in any process, each with the one before it."""
    recent = [entry for _, entry in store.repo.journal.recent(time.time(), SETTLES) if entry.marks.get("commit")]
    packed = {entry.marks["commit"]: entry.objects().get(entry.marks["commit"]) for entry in recent}
    return {commit: _parent(zlib.decompress(data)) for commit, data in packed.items() if data}


def _parent(commit: bytes) -> str:
    header = commit.partition(b"\n\n")[0]
    return header.partition(_PARENT)[2].partition(b"\n")[0].decode()
