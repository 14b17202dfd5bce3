"""Records that were removed: finding one again by its name, and bringing it back."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, NotFound
from filemem.files import is_record
from filemem.memory import tombstones
from filemem.memory.origins import same
from filemem.memory.saving import COMMIT, LEAVE, Saved
from filemem.record import Record, parse, short_id
from filemem.repo import REMOVE, Message

if TYPE_CHECKING:
    from filemem.memory.store import Store


class Gone(NamedTuple):
    """A record that was removed, or is hidden: what it last said, its bytes, where it stood last and where at first."""

    record: Record
    path: str
    data: bytes
    first_path: str


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
    standing = {node.id: node for node in store.lookup("id", found)}
    gone = [one for name, one in found.items() if name not in standing]
    if len(gone) == 1:
        return gone[0]
    if gone:
        told = "; ".join(f"{one.record.title} ({short_id(one.record.id)})" for one in gone)
        raise NotFound(f"{len(gone)} removed records answer to {wanted!r}: {told}", "name one by its short id or path")
    if standing:
        node = next(iter(standing.values()))
        raise NotFound(f"{node.title!r} ({short_id(node.id)}) is not removed: it stands at {store.shown(node.path)}")
    missing = " in the part of history that is here" if store.repo.history.boundary() else ""
    raise NotFound(f"no record {wanted!r} was removed{missing}", "git log --diff-filter=D --name-only lists what was")


def bring_back(store: Store, gone: Gone, message: Message) -> Saved:
    """Let a record stand again as it was, and take its tombstone away; the caller holds the save lock.

    Raises:
        Conflict: another file, or a folder, stands in its place.
    """
    mark = tombstones.path_of(gone.record.id)
    marked = mark if tombstones.forgotten(gone.record.id, store.tombstones) else ""
    if store.saver.withdraw(gone.path):
        return Saved(gone.path, "")
    if store.files.exists(gone.path):
        here = None if store.files.skipped(gone.path) else store.read(gone.path, gone.first_path).record
        if here is None or here.id != gone.record.id:
            what = f"what stands at {store.shown(gone.path)} now is not {gone.record.title!r}"
            raise Conflict(f"nothing was restored: {what}", "move that away (git mv), then restore again")
        return store.saver.remove(mark, message) if marked else Saved(gone.path, "")
    if store.repo.item(store.files.named(gone.path)) is None:
        return store.saver.put(gone.path, gone.data, message, policy=COMMIT, tombstone=marked)
    if marked:
        store.saver.remove(mark, message, policy=LEAVE)
    return store.saver.put(gone.path, gone.data, message, policy=LEAVE)


def _gone(store: Store) -> Iterator[Gone]:
    """Every record that is not there any more, the one that went last of its id at the end.

    History shows those that a commit removed; others stand but are hidden, or stand in HEAD alone: their removal waits
    for the repository, or for the user to commit it.
    """
    walk, known = store.history.walk(store.files.store, same=same(store)), store.tombstones
    for last in (*walk.replaced, *walk.removed.values()):
        data = store.repo.blob(last.blob)
        if data is not None:
            yield from _read(store, last.path, last.first_path, data)
    left_out = {*store.repo.left_out(store.files.store)}
    waiting = {op.path for op in store.saver.pending() if op.kind == REMOVE}
    for path, birth in walk.births.items():
        inside = store.files.inside(path)
        if path in left_out:
            continue
        if not store.files.exists(inside) or inside in waiting:
            yield from _read(store, path, birth.first_path, store.repo.show(path) or b"")
        elif known:
            here = _read(store, path, birth.first_path, store.files.read(inside))
            yield from (one for one in here if tombstones.forgotten(one.record.id, known))


def _read(store: Store, path: str, first_path: str, data: bytes) -> Iterator[Gone]:
    inside = store.files.inside(path)
    record = parse(data, inside, store.files.inside(first_path)).record if is_record(posixpath.basename(path)) else None
    if record is not None:
        yield Gone(record, inside, data, store.files.inside(first_path))


def _goes_by(gone: Gone, wanted: str) -> bool:
    short = short_id(gone.record.id)
    names = {gone.record.id, gone.path, posixpath.basename(gone.path), gone.record.title}
    return wanted in names or (len(wanted) >= 4 and short.startswith(wanted))
