"""Records that were removed: finding one again by its name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import NotFound
from filemem.memory import tombstones
from filemem.record import Record, parse, short_id

if TYPE_CHECKING:
    from filemem.memory.store import Store


class Gone(NamedTuple):
    """A record that was removed, or is hidden: what it last said, where it stood, and its bytes."""

    record: Record
    path: str
    data: bytes


def find(store: Store, wanted: str) -> Gone:
    """Find a record that was removed, by id, unique start of its short id, path, file name or title.

    Args:
        store: the parts.
        wanted: any of these.

    Raises:
        NotFound: none or several answer to it.
    """
    inside = store.asked(wanted)
    found = {one.record.id: one for one in _gone(store) if _goes_by(one, inside)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        told = "; ".join(f"{one.record.title} ({short_id(one.record.id)})" for one in found.values())
        raise NotFound(f"{len(found)} removed records answer to {wanted!r}: {told}", "name one by its short id or path")
    missing = " in the part of history that is here" if store.repo.history.boundary() else ""
    raise NotFound(f"no record {wanted!r} was removed{missing}", "git log --diff-filter=D --name-only lists what was")


def _gone(store: Store) -> Iterator[Gone]:
    """Every record that history shows to have been removed, and those that stand but are hidden."""
    walk, known = store.history.walk(store.files.store), store.tombstones
    for path, last in walk.removed.items():
        data = store.repo.blob(last.blob)
        if path.endswith(".md") and data is not None:
            yield from _read(store.files.inside(path), data)
    for path in walk.births if known else ():
        inside = store.files.inside(path)
        if path.endswith(".md") and store.files.exists(inside):
            yield from (
                one for one in _read(inside, store.files.read(inside)) if tombstones.forgotten(one.record.id, known)
            )


def _read(path: str, data: bytes) -> Iterator[Gone]:
    record = parse(data, path).record
    if record is not None:
        yield Gone(record, path, data)


def _goes_by(gone: Gone, wanted: str) -> bool:
    short = short_id(gone.record.id)
    names = {gone.record.id, gone.path, posixpath.basename(gone.path), gone.record.title}
    return wanted in names or (len(wanted) >= 4 and short.startswith(wanted))
