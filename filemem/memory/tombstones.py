"""What was forgotten, so that nothing brings it back: a file per record, named by the hash of its id, never of content.

A record whose id is among them is hidden, however its file came back; `restore` takes the tombstone away.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filemem.memory.store import Store

FOLDER = ".forgotten"


def path_of(record_id: str) -> str:
    """The store path of the tombstone of a record."""
    return f"{FOLDER}/{mark(record_id)}"


def held(store: Store, record_id: str, commit: str) -> bool:
    """Whether a commit says that a record is forgotten."""
    return store.repo.show(store.files.named(path_of(record_id)), commit) is not None


def marks(folder: Path) -> frozenset[str]:
    """The names of all tombstones in a store's folder: regular files, never through a link."""
    at = folder / FOLDER
    if at.is_symlink():
        return frozenset()
    try:
        with os.scandir(at) as listing:
            return frozenset(one.name for one in listing if one.is_file(follow_symlinks=False))
    except OSError:
        return frozenset()


def at(store: Store, commit: str) -> frozenset[str]:
    """The names of the tombstones that a commit has."""
    folder = store.files.named(FOLDER)
    if not store.repo.revisions.tree(commit, folder):
        return frozenset()
    paths = store.repo.history.listing(folder, commit)
    return frozenset(name for path in paths if "/" not in (name := path.removeprefix(f"{folder}/")))


def forgotten(record_id: str, known: frozenset[str]) -> bool:
    """Whether a record is forgotten; `known` from `marks`."""
    return bool(known) and mark(record_id) in known


def mark(record_id: str) -> str:
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; most memories have forgotten nothing

    return hashlib.sha256(record_id.encode()).hexdigest()
